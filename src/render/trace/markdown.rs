//! A trace for an issue or a job summary, with stacks folded.

use std::fmt::Write as _;

use super::cards::FindingCards;
use super::change::LineChange;
use super::entry::{TraceEntry, entries, late_write};
use super::proof::Proofs;
use super::{TraceView, alike, place, text, totals, unseen};
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::escape::{html, markdown};
use cuda_pitfalls_trace::TraceEvent;
use cuda_pitfalls_trace::diagnosis::Severity;

/// An issue has room for 65,536 characters.
const LIMIT: usize = 56_000;
const MOST_FRAMES: usize = 40;

pub(super) fn page(seen: &TraceView) -> String {
    let (trace, start) = (seen.trace, &seen.trace.start);
    let totals = totals::parts(seen);
    let mut out = format!("# cuda-pitfalls trace: {}\n\n", markdown(&totals.join(", ")));
    for banner in unseen::banners(trace) {
        let _ = writeln!(out, "> **{}**\n", markdown(&banner));
    }
    let took = trace.end.as_ref().map_or_else(String::new, |end| format!(", {}", place::since_start(trace, end.t_ns)));
    let _ = writeln!(
        out,
        "{} · {} · {}{took}\n",
        code(&cuda_pitfalls_core::text::escape::shorten(&start.command.join(" "), 500)),
        markdown(&machine::summary(&start.gpus, start.driver_version.as_deref())),
        markdown(&place::short(&start.started_at)),
    );
    if !seen.findings.is_empty() || !seen.violations.is_empty() || !seen.undecided.is_empty() {
        out.push_str("## What to change\n\n");
    }
    let mut known: Vec<String> = Vec::new();
    let violations = seen
        .violations
        .iter()
        .map(|violation| format!("- **{}**\n", markdown(&text::forbidden(&violation.forbidden, &violation.says))));
    let proofs = Proofs::of(seen.findings);
    let in_order = seen.found(Severity::Pitfall).chain(seen.found(Severity::Note));
    let groups = grouped(in_order.map(|finding| (alike(finding), finding)));
    let findings = groups.iter().filter_map(|(_, all)| all.first()).map(|finding| {
        let change = LineChange::of(seen, finding);
        format!(
            "- {}**{}**\n{}  - instead: {}\n  - {}\n  - proven by {}{}\n",
            if finding.severity == Severity::Note { "note: " } else { "" },
            markdown(&change.sentence()),
            change.source.map(|line| format!("  - {}\n", code(line))).unwrap_or_default(),
            markdown(&finding.workaround),
            markdown(&finding.says),
            code(&finding.scenario),
            markdown(&proofs.answer(&finding.scenario))
        )
    });
    let undecided = seen.undecided.iter().map(|line| format!("- **not decided: {}**\n", markdown(line)));
    for item in violations.chain(undecided).chain(findings) {
        if !known.contains(&item) && out.len() + item.len() < LIMIT / 3 {
            out.push_str(&item);
            known.push(item);
        }
    }
    let missing = unseen::unseen(&seen.history);
    if !missing.is_empty() {
        out.push_str("\n## Not seen\n\n");
        out.extend(missing.iter().map(|line| format!("- {}\n", markdown(line))));
    }
    events(&mut out, seen);
    out
}

fn events(out: &mut String, seen: &TraceView) {
    let made = entries(&seen.history, seen.findings, seen.violations);
    if seen.trace.events.is_empty() {
        let _ = writeln!(out, "\n{}.", unseen::nothing(&seen.history));
        return;
    }
    out.push_str("\n## Events\n\n");
    let (mut left, found) = (0, FindingCards::of(seen));
    for entry in &made.all {
        let text = event(seen, &found, entry);
        if out.len() + text.len() < LIMIT {
            out.push_str(&text);
        } else {
            left += 1;
        }
    }
    if left > 0 {
        let _ = writeln!(out, "… and {left} more; the document has them all.\n");
    }
    if let Some(sorts) = made.not_listed() {
        let _ = writeln!(out, "Not listed: {}.", markdown(&sorts));
    }
}

fn event(seen: &TraceView, found: &FindingCards, entry: &TraceEntry) -> String {
    let Some(event) = seen.trace.events.get(entry.first) else { return String::new() };
    let who = entry.who(seen.trace);
    let when = place::since_start(seen.trace, event.t_ns);
    let chain: Vec<String> = place::chain(event).iter().map(|part| code(part)).collect();
    let mut out = format!("**{}** {when}, {who}<br>\n{}\n", markdown(&entry.title()), chain.join(" → "));
    if let Some(line) = &event.stack.source {
        let _ = writeln!(out, "<br>{}", code(line));
    }
    for detail in &entry.details {
        let _ = writeln!(out, "<br>{}", markdown(detail));
    }
    for late in entry.late.iter().filter(|late| !found.has_event(late.event)).take(4) {
        let _ = writeln!(out, "<br>**{}**", markdown(&late_write(seen.trace, late)));
    }
    out.push_str(&stack(event));
    out.push('\n');
    out
}

/// A whole stack, folded. In `<pre>` nothing is Markdown.
fn stack(event: &TraceEvent) -> String {
    let stack = &event.stack;
    let mut lines: Vec<String> =
        stack.missing.iter().map(|missing| html(&format!("({})", place::short(missing)))).collect();
    lines.extend(stack.frames.iter().take(MOST_FRAMES).map(|frame| {
        let (function, at) = place::frame(frame);
        html(&format!("{function}  {at}"))
    }));
    if stack.frames.len() > MOST_FRAMES {
        lines.push(format!("… {} more", stack.frames.len() - MOST_FRAMES));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("<details><summary>stack</summary><pre>{}</pre></details>\n", lines.join("\n"))
}

/// A name of code, in which Markdown's own marks mean nothing.
fn code(text: &str) -> String {
    format!("<code>{}</code>", markdown(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn of(trace: &Trace) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        page(&TraceView::new(trace, &findings, &outcome))
    }

    #[test]
    fn pitfalls_come_first_and_stacks_are_folded() {
        let page = of(&fixture::trace());
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}\n{page}"));
        assert!(at("## What to change") < at("## Events"));
        assert!(at("torch.cuda.set\\_device(1) first") < at("<details><summary>stack</summary>"));
        assert!(page.contains("<code>train.py:12 &lt;module&gt;</code> → <code>cli.py:88 setup</code>"), "{page}");
        assert_eq!(page.matches("<details>").count(), page.matches("</details>").count());
    }

    #[test]
    fn it_fits_an_issue_and_says_what_is_left_out() {
        let trace = fixture::large(200, 6_000, 10);
        let page = page(&TraceView::bare(&trace));
        assert!(page.chars().count() < 65_536, "{}", page.len());
        assert!(page.contains("more; the document has them all"));
    }
}
