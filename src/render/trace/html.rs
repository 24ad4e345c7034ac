//! A trace as one page without scripts and without links to anything outside.
//!
//! The page stays small however long the trace is: the curve of memory is thinned to a column of
//! pixels each, marks that would overlap are one, and entries and stacks have a budget.

mod timeline;

use std::collections::{BTreeMap, HashSet};

use super::cards::FindingCards;
use super::change::LineChange;
use super::entry::{Entries, TraceEntry, entries, late_write, shown};
use super::proof::Proofs;
use super::{TraceView, alike, place, text, totals, unseen};
use crate::html::page::{self, definitions, element, fold, list, paragraph, table};
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::{counted, grouped};
use cuda_pitfalls_core::text::escape::{html, shorten};
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::{CallCount, FrameOwner, Trace, TraceEvent};

/// The style of what only a trace has.
const OWN_STYLE: &str = include_str!("html/style.css");
const MOST_VARIABLES: usize = 40;
const MOST_ENTRIES: usize = 500;
/// The most cards of pitfalls, and of violations.
const MOST_CARDS: usize = 40;
const MOST_ROWS: usize = 150;
/// Stacks are left out once the page has this many bytes.
const STACKS_BYTES: usize = 900_000;
/// Entries are left out once the page has this many bytes.
const ENTRIES_BYTES: usize = 1_300_000;
const MOST_FRAMES: usize = 80;
/// The most links from an event to the cards about it.
const MOST_LINKS: usize = 5;
const MOST_LATE: usize = 10;

struct TracePage<'v, 'a> {
    out: String,
    seen: &'v TraceView<'a>,
    found: FindingCards<'a>,
    proofs: Proofs,
    made: Entries,
    /// The entries that the page has: those with a pitfall or a violation before the others.
    listed: HashSet<usize>,
}

pub(super) fn page(seen: &TraceView) -> String {
    let made = entries(&seen.history, seen.findings, seen.violations);
    let (told, plain): (Vec<_>, Vec<_>) = made.all.iter().enumerate().partition(|(_, entry)| is_told(entry));
    let listed = told.into_iter().chain(plain).take(MOST_ENTRIES).map(|(place, _)| place).collect();
    let (found, proofs) = (FindingCards::of(seen), Proofs::of(seen.findings));
    let title =
        format!("cuda-pitfalls trace: {}: {}", totals::parts(seen).join(", "), seen.trace.start.command.join(" "));
    let out = page::head(page::POLICY, &place::short(&title), OWN_STYLE);
    let mut page = TracePage { out, seen, found, proofs, made, listed };
    page.head();
    page.cards();
    let unseen = unseen::unseen(&seen.history);
    if !unseen.is_empty() {
        page.out += &format!("<h2>Not seen</h2>\n{}", list("warning", &unseen));
    }
    if seen.trace.events.is_empty() {
        page.out += &paragraph("", &format!("{}.", unseen::nothing(&seen.history)));
    }
    timeline::draw(&mut page.out, seen.trace, &page.made.all, &page.listed);
    page.events();
    page.proofs.sections(&mut page.out);
    page.counts();
    page.out + &machine(seen.trace) + page::END
}

fn is_told(entry: &TraceEntry) -> bool {
    !entry.findings.is_empty() || !entry.violations.is_empty() || !entry.late.is_empty()
}

impl<'a> TracePage<'_, 'a> {
    fn head(&mut self) {
        let (seen, start) = (self.seen, &self.seen.trace.start);
        let badge = |class: &str, text: String| element("span", &format!("badge {class}"), &html(&text)) + " ";
        let violations = seen.violations.len();
        let mut badges = String::new();
        if violations > 0 {
            badges += &badge("bad", format!("✗ {}", counted(violations as u64, "violation")));
        }
        let all = totals::parts(seen);
        let found = all.first().cloned().unwrap_or_default();
        let is_clean = seen.found(Severity::Pitfall).next().is_none();
        badges += &match (is_clean, unseen::unseen(&seen.history).is_empty()) {
            (true, true) => badge("good", found),
            (true, false) => badge("doubt", format!("? {found}")),
            (false, _) => badge("doubt", format!("! {found}")),
        };
        self.out += &format!("<header>\n<h1>cuda-pitfalls trace</h1>\n{}\n", element("p", "counts", &badges));
        for banner in unseen::banners(seen.trace) {
            self.out += &format!("<p class=\"banner\" role=\"alert\">{}</p>\n", html(&banner));
        }
        // The badges have said the first ones.
        let totals = all.get(1 + usize::from(violations > 0)..).unwrap_or_default().join(" · ");
        if !totals.is_empty() {
            self.out += &paragraph("", &totals);
        }
        let ended = seen.trace.end.as_ref().map(|end| {
            let exit = match (&end.signal, end.code) {
                (Some(signal), _) => format!(", ended by {}", place::short(signal)),
                (None, Some(code)) => format!(", exit {code}"),
                (None, None) => String::new(),
            };
            format!(", took {}{exit}", place::since_start(seen.trace, end.t_ns))
        });
        let code = |text: &str| element("code", "", &html(text));
        let started = format!(
            "Started {} in {}{}, on {}, cuda-pitfalls {}.",
            html(&place::short(&start.started_at)),
            code(&place::short(&start.folder)),
            html(&ended.unwrap_or_default()),
            html(&place::short(&start.on)),
            html(&place::short(&start.version)),
        );
        self.out += &paragraph("machine", &machine::summary(&start.gpus, start.driver_version.as_deref()));
        let command = element("p", "", &code(&shorten(&start.command.join(" "), 1000)));
        self.out += &format!("{command}\n{}\n</header>\n", element("p", "dim", &started));
    }

    /// Violations and pitfalls, before all else.
    fn cards(&mut self) {
        let seen = self.seen;
        if !seen.violations.is_empty() {
            self.out += "<h2>Forbidden</h2>\n";
        }
        for violation in seen.violations.iter().take(MOST_CARDS) {
            let title = element("h3", "", &html(&place::short(&violation.forbidden)));
            let link = element("p", "", &violation.event.and_then(|event| self.link(event)).unwrap_or_default());
            let says = paragraph("", &violation.says);
            self.out += &element("section", "card violation", &format!("\n{title}\n{says}{link}\n"));
            self.out.push('\n');
        }
        self.out += &more(seen.violations.len(), MOST_CARDS, "violations");
        if !seen.undecided.is_empty() {
            self.out += &format!("<h2>Not decided</h2>\n{}", list("failed", seen.undecided));
        }
        for (severity, heading) in [(Severity::Pitfall, "What to change"), (Severity::Note, "Notes")] {
            let groups = grouped(seen.found(severity).take(10_000).map(|finding| (alike(finding), finding)));
            if !groups.is_empty() {
                self.out += &format!("<h2>{heading}</h2>\n");
            }
            for (_, findings) in groups.iter().take(MOST_CARDS) {
                self.card(findings);
            }
            self.out += &more(groups.len(), MOST_CARDS, "findings");
        }
    }

    /// What a rule found, perhaps several times: where and what, what to write, and how it came to it.
    fn card(&mut self, findings: &[&'a Finding]) {
        let Some(finding) = findings.first() else { return };
        let times = if findings.len() > 1 { format!(" ({} times)", findings.len()) } else { String::new() };
        let change = LineChange::of(self.seen, finding);
        let places: Vec<String> = finding.events.iter().filter_map(|event| self.link(*event)).take(3).collect();
        self.out += &format!(
            "<section class=\"card {}\" id=\"f{}\">\n<h3>{}{times}</h3>\n{}<p><strong>Instead:</strong> {}</p>\n\
             {}<p>{}</p>\n<p class=\"dim\">Proven by {}</p>\n</section>\n",
            finding.severity.name(),
            self.found.number(finding),
            html(&change.sentence()),
            source(change.source),
            html(&finding.workaround),
            paragraph("", &format!("{}.", finding.says)),
            places.join(" · "),
            self.proofs.link(&finding.scenario),
        );
    }

    /// Where and when an event was, with a link to its entry if the page has it.
    fn link(&self, event: usize) -> Option<String> {
        let shown_event = self.seen.trace.events.get(event)?;
        let entry = self.made.all.iter().position(|entry| entry.events.contains(&event));
        let at = place::place(self.seen.trace, shown_event);
        let at = at.map(|place| format!("<code>{}</code>, ", html(&shown(&place)))).unwrap_or_default();
        let when = place::since_start(self.seen.trace, shown_event.t_ns);
        Some(match entry.filter(|entry| self.listed.contains(entry)) {
            Some(entry) => format!("{at}<a href=\"#e{entry}\">{when}</a>"),
            None => at + &when,
        })
    }

    fn events(&mut self) {
        if self.made.all.is_empty() && self.made.summed.is_empty() {
            return;
        }
        self.out += "<h2>Events</h2>\n";
        let (mut left, made) = (0, std::mem::take(&mut self.made));
        for (place, entry) in made.all.iter().enumerate() {
            if self.listed.contains(&place) && self.out.len() < ENTRIES_BYTES {
                self.event(entry, place);
            } else {
                left += 1;
            }
        }
        self.out += &more(left, 0, "events");
        if let Some(sorts) = made.not_listed() {
            self.out += &paragraph("dim", &format!("Not listed: {sorts}."));
        }
    }

    fn event(&mut self, entry: &TraceEntry, place: usize) {
        let seen = self.seen;
        let Some(event) = seen.trace.events.get(entry.first) else { return };
        let class = if is_told(entry) { " told" } else { "" };
        self.out += &format!(
            "<article class=\"event{class}\" id=\"e{place}\">\n<p><span class=\"dot {}\"></span>\
             <span class=\"title\">{}</span> <span class=\"when\">{} · {}</span></p>\n{}{}",
            entry.kind.class(),
            html(&entry.title()),
            place::since_start(seen.trace, event.t_ns),
            entry.who(seen.trace),
            paragraph("chain", &place::chain(event).join(" → ")),
            source(event.stack.source.as_deref()),
        );
        self.out.extend(entry.details.iter().map(|detail| paragraph("", detail)));
        // A card has said what is wrong here.
        let mut cards: Vec<usize> = Vec::new();
        for finding in entry.findings.iter().filter_map(|index| seen.findings.get(*index)) {
            let card = self.found.number(finding);
            if !cards.contains(&card) && cards.len() < MOST_LINKS {
                cards.push(card);
                let link = format!("<a href=\"#f{card}\">{}</a>", html(&finding.title));
                self.out += &(element("p", "warning", &link) + "\n");
            }
        }
        for late in entry.late.iter().take(MOST_LATE) {
            if !self.found.has_event(late.event) {
                self.out += &paragraph("warning", &late_write(seen.trace, late));
            }
            if let Some(event) = seen.trace.events.get(late.event) {
                self.stack(event, "Stack of this write");
            }
        }
        self.out += &more(entry.late.len(), MOST_LATE, "late writes");
        for violation in entry.violations.iter().filter_map(|index| seen.violations.get(*index)).take(5) {
            self.out += &paragraph("failed", &text::forbidden(&violation.forbidden, &violation.says));
        }
        self.stack(event, "Stack");
        self.out += "</article>\n";
    }

    fn stack(&mut self, event: &TraceEvent, name: &str) {
        let stack = &event.stack;
        if let Some(missing) = &stack.missing {
            self.out += &paragraph("dim", &format!("{name}: {}", place::short(missing)));
        }
        if stack.frames.is_empty() {
            return;
        }
        let many = counted(stack.frames.len() as u64, "frame");
        if self.out.len() > STACKS_BYTES {
            self.out += &paragraph("dim", &format!("{name}: {many}, in the document"));
            return;
        }
        let frames = stack.frames.iter().take(MOST_FRAMES).map(|frame| {
            let class = if frame.owner == FrameOwner::Program { "own" } else { "" };
            let (function, at) = place::frame(frame);
            let at = element("span", "dim", &html(&at));
            element("li", class, &format!("<code>{}</code> {at}", html(&function))) + "\n"
        });
        let frames = element("ol", "frames", &format!("\n{}", frames.collect::<String>()));
        let more = more(stack.frames.len(), MOST_FRAMES, "frames");
        self.out += &fold(&format!("{name}, {many}, innermost first"), &format!("\n{frames}\n{more}"));
    }

    /// How often each function was called, and what each process did on each GPU.
    fn counts(&mut self) {
        let trace = self.seen.trace;
        if trace.counts.is_empty() {
            return;
        }
        self.out += "<h2>Counts</h2>\n";
        let uses: Vec<_> =
            trace.counts.iter().flat_map(|one| one.gpus.iter().map(|(gpu, uses)| (one.pid, gpu, uses))).collect();
        if !uses.is_empty() {
            let rows = uses.iter().take(MOST_ROWS).map(|(pid, gpu, uses)| {
                let gpu = trace.gpu_index(Some(gpu)).map_or_else(|| place::short(gpu), |index| format!("GPU {index}"));
                let numbers = [uses.launches, uses.copies, uses.allocations].map(|count| count.to_string());
                (String::new(), [pid.to_string(), html(&gpu)].into_iter().chain(numbers).collect())
            });
            let columns = ["Process", "GPU", "Launches", "Copies", "Allocations"];
            self.out += &table("counts uses", "What each process did on each GPU", &columns, rows);
            self.out += &more(uses.len(), MOST_ROWS, "rows");
        }
        let mut calls: BTreeMap<&str, CallCount> = BTreeMap::new();
        for (name, count) in trace.counts.iter().flat_map(|counts| &counts.calls) {
            let sum = calls.entry(name).or_default();
            sum.calls = sum.calls.saturating_add(count.calls);
            sum.errors = sum.errors.saturating_add(count.errors);
        }
        if calls.is_empty() {
            return;
        }
        let mut calls: Vec<(&str, CallCount)> = calls.into_iter().collect();
        calls.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls));
        let rows = calls.iter().take(MOST_ROWS).map(|(name, count)| {
            let errors = if count.errors == 0 { String::new() } else { count.errors.to_string() };
            (String::new(), vec![html(&place::short(name)), count.calls.to_string(), errors])
        });
        let caption = "How often each function was called, and how often it returned an error";
        let table = table("counts calls", caption, &["Function", "Calls", "Errors"], rows);
        let functions = counted(calls.len() as u64, "called function");
        let more = more(calls.len(), MOST_ROWS, "functions");
        self.out += &fold(&format!("{functions} of all processes"), &format!("\n{table}{more}"));
    }
}

/// How many are left out; nothing if none is.
fn more(all: usize, most: usize, what: &str) -> String {
    match all.saturating_sub(most) {
        0 => String::new(),
        left => paragraph("dim", &format!("… and {left} more {what}; the document has them all.")),
    }
}

/// A line of the user's own code, if it is known.
fn source(line: Option<&str>) -> String {
    line.map(|line| element("pre", "", &html(line)) + "\n").unwrap_or_default()
}

fn machine(trace: &Trace) -> String {
    let start = &trace.start;
    let known = |value: &Option<String>, absent: &str| value.clone().unwrap_or_else(|| absent.to_owned());
    let mut rows = vec![
        ("Driver".to_owned(), known(&start.driver_version, "not known")),
        ("libcuda".to_owned(), known(&start.libcuda, "not found")),
    ];
    rows.extend(start.gpus.is_empty().then(|| ("GPUs".to_owned(), "NVML showed none".to_owned())));
    rows.extend(start.gpus.iter().enumerate().map(|(index, gpu)| {
        (format!("GPU {index}"), format!("{}, {}", known(&gpu.name, "of unknown name"), gpu.uuid))
    }));
    rows.extend(start.environment.clone().into_iter().take(MOST_VARIABLES));
    let rows = rows.iter().map(|(name, value)| (place::short(name), place::short(value)));
    format!("<h2>Machine</h2>\n{}", definitions(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Memory;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn page(trace: &Trace) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        super::page(&TraceView::new(trace, &findings, &outcome))
    }

    fn hostile() -> String {
        let (findings, outcome) = fixture::hostile_findings();
        super::page(&TraceView::new(&fixture::hostile(), &findings, &outcome))
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
    fn a_timeline_has_one_scale_one_meaning_of_a_colour_names_of_marks_and_no_idle_time() {
        let mut trace = fixture::trace();
        let template = trace.memory[0];
        let at = |index, used_bytes| Memory { index, used_bytes, ..template };
        trace.start.used_bytes = vec![Some(0), Some(0)];
        trace.memory = vec![at(0, 2000 << 20), at(1, 20 << 20)];
        trace.end.as_mut().unwrap().t_ns += 3_600_000_000_000;
        let page = page(&trace);
        let (_, timeline) = page.split_once("<h2>Timeline</h2>").unwrap();
        let timeline = timeline.split("<h2>").next().unwrap();
        let heights: Vec<&str> =
            timeline.split("<path d=\"").skip(1).filter_map(|path| path.split('"').next()).collect();
        assert!(heights[0].contains("V0.0") && heights[1].contains("V99.0"), "20 MiB beside 2,000: {heights:?}");
        assert!(!timeline.contains("class=\"g0\"") && timeline.contains(">cuInit</span>"), "{timeline}");
        assert!(timeline.contains("listed there: 60.1 min") && timeline.contains("class=\"cut\""), "{timeline}");
    }

    #[test]
    fn findings_that_differ_in_their_process_alone_have_one_card() {
        let trace = fixture::trace();
        let template = fixture::findings(&trace).remove(0);
        let of = |pid: u32| Finding { pid, says: format!("pid {pid} does it"), ..template.clone() };
        let findings: Vec<Finding> = (100..300).map(of).collect();
        let page = super::page(&TraceView { findings: &findings, ..TraceView::bare(&trace) });
        assert_eq!(page.matches("class=\"card").count(), 1);
        assert!(page.contains("(200 times)"));
    }

    #[test]
    fn the_page_loads_and_runs_nothing_and_every_tag_is_closed() {
        let quiet = super::page(&TraceView::bare(&fixture::quiet()));
        let large = super::page(&TraceView::bare(&fixture::large(100, 3_000, 100)));
        for page in [page(&fixture::trace()), hostile(), quiet, large] {
            crate::fixture::assert_inert(&page.replace("](http://e)", ""));
            assert!(!page.contains("NaN") && !page.contains("inf%"));
        }
    }

    #[test]
    fn a_large_trace_is_a_page_of_less_than_two_megabytes() {
        let mut busy = fixture::large(4, 2_000, 100_000);
        for (number, memory) in busy.memory.iter_mut().enumerate() {
            memory.index = number % 64;
        }
        for trace in [fixture::large(4, 2_000, 10_000), fixture::large(500, 10_000, 200_000), busy] {
            let page = super::page(&TraceView::bare(&trace));
            assert!(page.len() < 2_000_000, "{} bytes", page.len());
            assert!(page.contains("more events; the document has them all"));
        }
    }
}
