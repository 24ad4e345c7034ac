//! A trace as one page without scripts and without links to anything outside.
//!
//! The page stays small however long the trace is: the curve of memory is thinned to a column of
//! pixels each, marks that would overlap are one, and entries and stacks have a budget.

mod cards;
mod counts;
mod events;
mod timeline;

use std::collections::HashSet;
use std::fmt::Write as _;

use super::cards::FindingCards;
use super::entry::{Entries, TraceEntry, entries};
use super::proof::Proofs;
use super::{Seen, place, totals, unseen};
use crate::html::page;
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::Trace;
use cuda_pitfalls_trace::diagnosis::Severity;

/// The style of what only a trace has.
const OWN_STYLE: &str = include_str!("html/style.css");
/// The most variables of the environment.
const MOST_VARIABLES: usize = 40;
/// The most entries that are listed.
const MOST_ENTRIES: usize = 500;

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
    let proofs = Proofs::of(seen.findings);
    cards::draw(&mut out, seen, (&found, &proofs), &made, &listed);
    let unseen = unseen::unseen(&seen.history);
    if !unseen.is_empty() {
        let lines: String = unseen.iter().map(|line| format!("<li>{}</li>\n", html(line))).collect();
        let _ = writeln!(out, "<h2>Not seen</h2>\n<ul class=\"warning\">\n{lines}</ul>");
    }
    if trace.events.is_empty() {
        let _ = writeln!(out, "<p>{}.</p>", unseen::nothing(&seen.history));
    }
    timeline::draw(&mut out, trace, &made.all, &listed);
    events::draw(&mut out, seen, &found, &made, &listed);
    proofs.sections(&mut out);
    counts::draw(&mut out, trace);
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

/// A line of the user's own code, if it is known.
fn source(line: Option<&str>) -> String {
    line.map(|line| format!("<pre>{}</pre>\n", html(line))).unwrap_or_default()
}

fn more(out: &mut String, all: usize, most: usize, what: &str) {
    if all > most {
        let _ = writeln!(out, "<p class=\"dim\">… and {} more {what}; the document has them all.</p>", all - most);
    }
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
    for (name, value) in start.environment.iter().take(MOST_VARIABLES) {
        row(name, value);
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::diagnosis::Finding;
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
    fn the_page_loads_and_runs_nothing_and_every_tag_is_closed() {
        let quiet = super::page(&Seen::bare(&fixture::quiet()));
        let large = super::page(&Seen::bare(&fixture::large(100, 3_000, 100)));
        for page in [page(&fixture::trace()), hostile(), quiet, large] {
            crate::html::page::assert_inert(&page.replace("](http://e)", ""));
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
            let page = super::page(&Seen::bare(&trace));
            assert!(page.len() < 2_000_000, "{} bytes", page.len());
            assert!(page.contains("more events; the document has them all"));
        }
    }
}
