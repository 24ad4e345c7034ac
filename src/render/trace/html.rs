//! A trace as one page without scripts and without links to anything outside.
//!
//! The page stays small however long the trace is: the curve of memory is thinned to a column of
//! pixels each, marks that would overlap are one, and entries and stacks have a budget.

mod timeline;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use super::cards::FindingCards;
use super::change::LineChange;
use super::entry::{Entries, TraceEntry, entries, late_write, shown};
use super::{Seen, alike, place, proof, text, totals, unseen};
use crate::html::page;
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::{counted, grouped};
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::{CallCount, FrameOwner, Trace, TraceEvent, Uses};

/// The style of what only a trace has.
const OWN_STYLE: &str = include_str!("html/style.css");
/// The most entries that are listed.
const MOST_ENTRIES: usize = 500;
/// Stacks are left out once the page has this many bytes.
const STACKS_BYTES: usize = 900_000;
/// Entries are left out once the page has this many bytes.
const ENTRIES_BYTES: usize = 1_300_000;
/// The most frames of a stack.
const MOST_FRAMES: usize = 80;
/// The most cards of pitfalls, and of violations.
const MOST_CARDS: usize = 40;
/// The most links from an event to the cards about it.
const MOST_LINKS: usize = 5;
/// The most rows of a table of counts.
const MOST_ROWS: usize = 150;

/// The whole page.
pub(super) fn page(seen: &Seen) -> String {
    let trace = seen.trace;
    let made = entries(&seen.history, seen.findings, seen.violations);
    let listed = listed(&made);
    let totals = totals::parts(seen);
    let command = trace.start.command.join(" ");
    let title = place::short(&format!("cuda-pitfalls trace: {}: {command}", totals.join(", ")));
    let mut out = page::head(page::POLICY, &title, OWN_STYLE);
    head(&mut out, seen, &command);
    let found = FindingCards::of(seen);
    cards(&mut out, seen, &found, &made, &listed);
    let unseen = unseen::unseen(&seen.history);
    if !unseen.is_empty() {
        let lines: String = unseen.iter().map(|line| format!("<li>{}</li>\n", html(line))).collect();
        let _ = writeln!(out, "<h2>Not seen</h2>\n<ul class=\"warning\">\n{lines}</ul>");
    }
    if trace.events.is_empty() {
        let nothing = if unseen.is_empty() {
            "CUDA was not initialised: the program made no CUDA call."
        } else {
            "No CUDA call was seen, and not everything could be seen."
        };
        let _ = writeln!(out, "<p>{nothing}</p>");
    }
    timeline::draw(&mut out, trace, &made.all, &listed);
    events(&mut out, seen, &found, &made, &listed);
    proof::sections(&mut out, seen);
    counts(&mut out, trace);
    machine(&mut out, trace);
    out + page::END
}

/// The entries that the page has: those with a pitfall or a violation before the others.
fn listed(made: &Entries) -> HashSet<usize> {
    let (told, plain): (Vec<_>, Vec<_>) = made.all.iter().enumerate().partition(|(_, entry)| is_told(entry));
    told.into_iter().chain(plain).take(MOST_ENTRIES).map(|(place, _)| place).collect()
}

fn is_told(entry: &TraceEntry) -> bool {
    !entry.findings.is_empty() || !entry.violations.is_empty() || !entry.late.is_empty()
}

fn head(out: &mut String, seen: &Seen, command: &str) {
    let (trace, start) = (seen.trace, &seen.trace.start);
    out.push_str("<header>\n<h1>cuda-pitfalls trace</h1>\n<p class=\"counts\">");
    let badge = |class: &str, text: String| format!("<span class=\"badge {class}\">{}</span> ", html(&text));
    if !seen.violations.is_empty() {
        out.push_str(&badge("bad", format!("✗ {}", counted(seen.violations.len() as u64, "violation"))));
    }
    let all = totals::parts(seen);
    let found = all.first().cloned().unwrap_or_default();
    let is_clean = seen.found(Severity::Pitfall).next().is_none();
    out.push_str(&match (is_clean, unseen::unseen(&seen.history).is_empty()) {
        (true, true) => badge("good", found),
        (true, false) => badge("doubt", format!("? {found}")),
        (false, _) => badge("doubt", format!("! {found}")),
    });
    out.push_str("</p>\n");
    for banner in unseen::banners(trace) {
        let _ = writeln!(out, "<p class=\"banner\" role=\"alert\">{}</p>", html(&banner));
    }
    // The badges have said the first ones.
    let said = if seen.violations.is_empty() { 1 } else { 2 };
    let totals = all.get(said..).unwrap_or_default().join(" · ");
    if !totals.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", html(&totals));
    }
    let took = trace.end.as_ref().map(|end| format!(", took {}", place::since_start(trace, end.t_ns)));
    let exit = trace.end.as_ref().map(|end| match (&end.signal, end.code) {
        (Some(signal), _) => format!(", ended by {}", place::short(signal)),
        (None, Some(code)) => format!(", exit {code}"),
        (None, None) => String::new(),
    });
    let _ = writeln!(
        out,
        "<p class=\"machine\">{}</p>\n<p><code>{}</code></p>\n<p class=\"dim\">Started {} in <code>{}</code>{}{}, on {}, cuda-pitfalls {}.</p>\n</header>",
        html(&machine::summary(&start.gpus, start.driver_version.as_deref())),
        html(&cuda_pitfalls_core::text::escape::shorten(command, 1000)),
        html(&place::short(&start.started_at)),
        html(&place::short(&start.folder)),
        html(&took.unwrap_or_default()),
        html(&exit.unwrap_or_default()),
        html(&place::short(&start.on)),
        html(&place::short(&start.version)),
    );
}

/// Violations and pitfalls, before all else.
fn cards<'a>(out: &mut String, seen: &Seen<'a>, found: &FindingCards<'a>, made: &Entries, listed: &HashSet<usize>) {
    let link = |event: Option<usize>| {
        let event = event?;
        let place = made.all.iter().position(|entry| entry.events.contains(&event));
        let shown_event = seen.trace.events.get(event)?;
        let when = place::since_start(seen.trace, shown_event.t_ns);
        let at = place::place(seen.trace, shown_event).map(|place| format!("<code>{}</code>, ", html(&shown(&place))));
        let when = match place.filter(|place| listed.contains(place)) {
            Some(place) => format!("<a href=\"#e{place}\">{when}</a>"),
            None => when,
        };
        Some(format!("{}{when}", at.unwrap_or_default()))
    };
    if !seen.violations.is_empty() {
        out.push_str("<h2>Forbidden</h2>\n");
    }
    for violation in seen.violations.iter().take(MOST_CARDS) {
        let _ = writeln!(
            out,
            "<section class=\"card violation\">\n<h3>{}</h3>\n<p>{}</p>\n<p>{}</p>\n</section>",
            html(&place::short(&violation.forbidden)),
            html(&violation.says),
            link(violation.event).unwrap_or_default(),
        );
    }
    more(out, seen.violations.len(), MOST_CARDS, "violations");
    if !seen.undecided.is_empty() {
        let lines: String = seen.undecided.iter().map(|line| format!("<li>{}</li>\n", html(line))).collect();
        let _ = writeln!(out, "<h2>Not decided</h2>\n<ul class=\"failed\">\n{lines}</ul>");
    }
    for (severity, heading) in [(Severity::Pitfall, "What to change"), (Severity::Note, "Notes")] {
        let groups = grouped(seen.found(severity).take(10_000).map(|finding| (alike(finding), finding)));
        if !groups.is_empty() {
            let _ = writeln!(out, "<h2>{heading}</h2>");
        }
        for (_, findings) in groups.iter().take(MOST_CARDS) {
            card(out, seen, found, findings, link);
        }
        more(out, groups.len(), MOST_CARDS, "findings");
    }
}

/// What a rule found, perhaps several times: where and what, what to write, and how it came to it.
fn card<'a>(
    out: &mut String,
    seen: &Seen<'a>,
    found: &FindingCards<'a>,
    findings: &[&'a Finding],
    link: impl Fn(Option<usize>) -> Option<String>,
) {
    let Some(finding) = findings.first() else { return };
    let times = if findings.len() > 1 { format!(" ({} times)", findings.len()) } else { String::new() };
    let change = LineChange::of(seen, finding);
    let places: Vec<String> = finding.events.iter().filter_map(|event| link(Some(*event))).take(3).collect();
    let _ = writeln!(
        out,
        "<section class=\"card {}\" id=\"f{}\">\n<h3>{}{times}</h3>\n{}<p><strong>Instead:</strong> {}</p>\n<p>{}.</p>\n<p>{}</p>\n\
         <p class=\"dim\">Proven by {}</p>\n</section>",
        finding.severity.name(),
        found.number(finding),
        html(&change.sentence()),
        source(change.source),
        html(&finding.workaround),
        html(&finding.says),
        places.join(" · "),
        proof::link(seen, &finding.scenario),
    );
}

/// A line of the user's own code, if it is known.
fn source(line: Option<&str>) -> String {
    line.map(|line| format!("<pre>{}</pre>\n", html(line))).unwrap_or_default()
}

fn more(out: &mut String, all: usize, most: usize, what: &str) {
    if all > most {
        let _ = writeln!(out, "<p class=\"dim\">… and {} more {what}; the document has them all.</p>", all - most);
    }
}

fn events<'a>(out: &mut String, seen: &Seen<'a>, found: &FindingCards<'a>, made: &Entries, listed: &HashSet<usize>) {
    if made.all.is_empty() && made.summed.is_empty() {
        return;
    }
    out.push_str("<h2>Events</h2>\n");
    let mut left = 0;
    for (place, entry) in made.all.iter().enumerate() {
        if listed.contains(&place) && out.len() < ENTRIES_BYTES {
            event(out, seen, found, entry, place);
        } else {
            left += 1;
        }
    }
    more(out, left, 0, "events");
    if let Some(sorts) = made.not_listed() {
        let _ = writeln!(out, "<p class=\"dim\">Not listed: {}.</p>", html(&sorts));
    }
}

fn event<'a>(out: &mut String, seen: &Seen<'a>, found: &FindingCards<'a>, entry: &TraceEntry, place: usize) {
    let Some(event) = seen.trace.events.get(entry.first) else { return };
    let who = match entry.pids.as_slice() {
        [pid] => place::who(seen.trace, *pid),
        several => format!("{} processes", several.len()),
    };
    let class = if is_told(entry) { " told" } else { "" };
    let chain: Vec<String> = place::chain(event).iter().map(|part| html(part)).collect();
    let _ = writeln!(
        out,
        "<article class=\"event{class}\" id=\"e{place}\">\n<p><span class=\"dot {}\"></span><span class=\"title\">{}</span> \
         <span class=\"when\">{} · {who}</span></p>\n<p class=\"chain\">{}</p>",
        timeline::class(entry.kind),
        html(&entry.title()),
        place::since_start(seen.trace, event.t_ns),
        chain.join(" → "),
    );
    out.push_str(&source(event.stack.source.as_deref()));
    for detail in &entry.details {
        let _ = writeln!(out, "<p>{}</p>", html(detail));
    }
    // A card has said what is wrong here.
    let mut cards: Vec<usize> = Vec::new();
    for finding in entry.findings.iter().filter_map(|index| seen.findings.get(*index)) {
        let card = found.number(finding);
        if !cards.contains(&card) && cards.len() < MOST_LINKS {
            cards.push(card);
            let _ = writeln!(out, "<p class=\"warning\"><a href=\"#f{card}\">{}</a></p>", html(&finding.title));
        }
    }
    for late in entry.late.iter().take(10) {
        if !found.has_event(late.event) {
            let _ = writeln!(out, "<p class=\"warning\">{}</p>", html(&late_write(seen.trace, late)));
        }
        if let Some(event) = seen.trace.events.get(late.event) {
            stack(out, event, "Stack of this write");
        }
    }
    more(out, entry.late.len(), 10, "late writes");
    for violation in entry.violations.iter().filter_map(|index| seen.violations.get(*index)).take(5) {
        let _ =
            writeln!(out, "<p class=\"failed\">{}</p>", html(&text::forbidden(&violation.forbidden, &violation.says)));
    }
    stack(out, event, "Stack");
    out.push_str("</article>\n");
}

/// A whole stack, folded.
fn stack(out: &mut String, event: &TraceEvent, name: &str) {
    let stack = &event.stack;
    if let Some(missing) = &stack.missing {
        let _ = writeln!(out, "<p class=\"dim\">{name}: {}</p>", html(&place::short(missing)));
    }
    if stack.frames.is_empty() {
        return;
    }
    let many = stack.frames.len();
    if out.len() > STACKS_BYTES {
        let _ = writeln!(out, "<p class=\"dim\">{name}: {}, in the document</p>", counted(many as u64, "frame"));
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{name}, {}, innermost first</summary>\n<ol class=\"frames\">",
        counted(many as u64, "frame")
    );
    for frame in stack.frames.iter().take(MOST_FRAMES) {
        let class = if frame.owner == FrameOwner::Program { " class=\"own\"" } else { "" };
        let (function, at) = place::frame(frame);
        let _ =
            writeln!(out, "<li{class}><code>{}</code> <span class=\"dim\">{}</span></li>", html(&function), html(&at));
    }
    out.push_str("</ol>\n");
    more(out, many, MOST_FRAMES, "frames");
    out.push_str("</details>\n");
}

/// How often each function was called and each GPU was used.
fn counts(out: &mut String, trace: &Trace) {
    if trace.counts.is_empty() {
        return;
    }
    let mut calls: BTreeMap<&str, CallCount> = BTreeMap::new();
    for (name, count) in trace.counts.iter().flat_map(|counts| &counts.calls) {
        let sum = calls.entry(name).or_default();
        sum.calls = sum.calls.saturating_add(count.calls);
        sum.errors = sum.errors.saturating_add(count.errors);
    }
    out.push_str("<h2>Counts</h2>\n");
    let uses: Vec<(u32, &String, &Uses)> =
        trace.counts.iter().flat_map(|counts| counts.gpus.iter().map(|(gpu, uses)| (counts.pid, gpu, uses))).collect();
    if !uses.is_empty() {
        out.push_str(
            "<div class=\"wide\"><table class=\"counts\">\n<caption>What each process did on each GPU</caption>\n\
             <thead><tr><th scope=\"col\">Process</th><th scope=\"col\">GPU</th><th scope=\"col\" class=\"n\">Launches</th>\
             <th scope=\"col\" class=\"n\">Copies</th><th scope=\"col\" class=\"n\">Allocations</th></tr></thead>\n<tbody>\n",
        );
        for (pid, gpu, uses) in uses.iter().take(MOST_ROWS) {
            let gpu = trace.gpu_index(Some(gpu)).map_or_else(|| place::short(gpu), |index| format!("GPU {index}"));
            let _ = writeln!(
                out,
                "<tr><td>{pid}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                html(&gpu),
                uses.launches,
                uses.copies,
                uses.allocations
            );
        }
        out.push_str("</tbody>\n</table></div>\n");
        more(out, uses.len(), MOST_ROWS, "rows");
    }
    if calls.is_empty() {
        return;
    }
    let mut rows: Vec<(&str, CallCount)> = calls.into_iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls));
    let _ = writeln!(
        out,
        "<details><summary>{} of all processes</summary>\n<div class=\"wide\"><table class=\"counts\">\n\
         <caption>How often each function was called, and how often it returned an error</caption>\n\
         <thead><tr><th scope=\"col\">Function</th><th scope=\"col\" class=\"n\">Calls</th>\
         <th scope=\"col\" class=\"n\">Errors</th></tr></thead>\n<tbody>",
        counted(rows.len() as u64, "called function")
    );
    for (name, count) in rows.iter().take(MOST_ROWS) {
        let errors = if count.errors == 0 { String::new() } else { count.errors.to_string() };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{errors}</td></tr>",
            html(&place::short(name)),
            count.calls
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
    more(out, rows.len(), MOST_ROWS, "functions");
    out.push_str("</details>\n");
}

fn machine(out: &mut String, trace: &Trace) {
    let start = &trace.start;
    out.push_str("<h2>Machine</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(&place::short(name)), html(&place::short(value)));
    };
    row("Driver", start.driver_version.as_deref().unwrap_or("not known"));
    row("libcuda", start.libcuda.as_deref().unwrap_or("not found"));
    if start.gpus.is_empty() {
        row("GPUs", "NVML showed none");
    }
    for (index, gpu) in start.gpus.iter().enumerate() {
        row(&format!("GPU {index}"), &format!("{}, {}", gpu.name.as_deref().unwrap_or("of unknown name"), gpu.uuid));
    }
    for (name, value) in start.environment.iter().take(MOST_CARDS) {
        row(name, value);
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn page(trace: &Trace) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        super::page(&Seen::new(trace, &findings, &outcome))
    }

    fn hostile() -> String {
        let (findings, outcome) = fixture::hostile_findings();
        super::page(&Seen::new(&fixture::hostile(), &findings, &outcome))
    }

    #[test]
    fn pitfalls_come_first_and_every_mark_leads_to_an_event() {
        let page = page(&fixture::trace());
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(
            at("<h2>Forbidden</h2>") < at("<h2>What to change</h2>")
                && at("<h2>What to change</h2>") < at("<h2>Timeline</h2>")
        );
        assert!(at("<h2>Timeline</h2>") < at("<h2>Events</h2>") && at("<h2>Events</h2>") < at("<h2>Counts</h2>"));
        let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.len() > 6, "{links:?}");
        for link in links {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
        }
        for once in [
            "CUDA_VISIBLE_DEVICES after cuInit has read it",
            "<strong>Instead:</strong> torch.cuda.set_device(1) first",
        ] {
            assert_eq!(page.matches(once).count(), 1, "{once}");
        }
        assert!(page.contains("context, never used afterwards"));
        assert!(page.contains("<a href=\"#p0\">visibility/mask-after-cuinit</a>"), "the proof is a link");
    }

    #[test]
    fn findings_that_differ_in_their_process_alone_have_one_card() {
        let trace = fixture::trace();
        let template = fixture::findings(&trace).remove(0);
        let of = |pid: u32| Finding { pid, says: format!("pid {pid} does it"), ..template.clone() };
        let findings: Vec<Finding> = (100..300).map(of).collect();
        let page = super::page(&Seen { findings: &findings, ..Seen::bare(&trace) });
        assert_eq!(page.matches("class=\"card").count(), 1);
        assert!(page.contains("(200 times)"));
    }

    #[test]
    fn the_page_loads_and_runs_nothing() {
        for page in [page(&fixture::trace()), hostile()] {
            assert!(page.contains(crate::html::page::POLICY));
            for word in ["<script", "<img", "<link", "<iframe", "src=\"", "url(", "http://", "https://", "@import"] {
                assert!(!page.replace("](http://e)", "").contains(word), "{word}");
            }
            assert!(!page.contains("NaN") && !page.contains("inf%"));
        }
    }

    #[test]
    fn every_tag_is_closed() {
        let quiet = super::page(&Seen::bare(&fixture::quiet()));
        let large = super::page(&Seen::bare(&fixture::large(100, 3_000, 100)));
        for page in [page(&fixture::trace()), hostile(), quiet, large] {
            for tag in [
                "table", "tr", "td", "div", "section", "details", "summary", "p", "span", "dl", "svg", "ol", "li",
                "article", "ul", "a",
            ] {
                let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
                assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
            }
        }
    }

    #[test]
    fn a_large_trace_is_a_page_of_less_than_two_megabytes() {
        let mut busy = fixture::large(4, 2_000, 100_000);
        for (number, memory) in busy.memory.iter_mut().enumerate() {
            memory.index = number % 64;
        }
        for trace in [fixture::large(4, 2_000, 10_000), fixture::large(500, 10_000, 200_000), busy] {
            let page = super::page(&Seen::bare(&trace));
            assert!(page.len() < 2_000_000, "{} bytes", page.len());
            assert!(page.contains("more events; the document has them all"));
        }
    }
}
