//! The first part of the page: what is forbidden, what to change, and what is worth knowing.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{more, source};
use crate::trace::cards::FindingCards;
use crate::trace::change::LineChange;
use crate::trace::entry::{Entries, shown};
use crate::trace::proof::Proofs;
use crate::trace::{Seen, alike, place};
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};

/// The most cards of pitfalls, and of violations.
const MOST_CARDS: usize = 40;

/// Violations and pitfalls, before all else.
pub(super) fn draw<'a>(
    out: &mut String,
    seen: &Seen<'a>,
    (found, proofs): (&FindingCards<'a>, &Proofs),
    made: &Entries,
    listed: &HashSet<usize>,
) {
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
            card(out, seen, (found, proofs), findings, link);
        }
        more(out, groups.len(), MOST_CARDS, "findings");
    }
}

/// What a rule found, perhaps several times: where and what, what to write, and how it came to it.
fn card<'a>(
    out: &mut String,
    seen: &Seen<'a>,
    (found, proofs): (&FindingCards<'a>, &Proofs),
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
        proofs.link(&finding.scenario),
    );
}
