//! A trace on a terminal.

use std::collections::BTreeSet;

use super::change::changes;
use super::entry::{Entries, TraceEntry, entries, late_write};
use super::{TraceView, place, totals, unseen};
use crate::tally;
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{self, columns};
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};

/// The most entries that are listed, but for those with a pitfall or a violation.
const MOST: usize = 40;
const MOST_AT_ALL: usize = 120;
const MOST_CHANGES: usize = 10;
/// The most late writes below one entry, and the most findings.
const FEW: usize = 4;
/// What stands before the lines that belong to an entry.
const INDENT: &str = "    ";

pub(super) fn text(seen: &TraceView, width: usize) -> String {
    let width = width.max(lines::NARROWEST);
    let mut out = String::new();
    for banner in unseen::banners(seen.trace) {
        out.push_str(&tally::loud(&banner, width));
    }
    let made = entries(&seen.history, seen.findings, seen.violations);
    let unseen = unseen::unseen(&seen.history);
    let one_process = seen.trace.events.iter().map(|event| event.pid).collect::<BTreeSet<_>>().len() <= 1;
    let told = |entry: &&TraceEntry| !entry.findings.is_empty() || !entry.violations.is_empty();
    let is_crowded = made.all.len() > MOST;
    let plain_room = MOST.saturating_sub(made.all.iter().filter(told).count());
    let (mut plain, mut shown) = (0, 0);
    for entry in &made.all {
        if is_crowded && !told(&entry) {
            plain += 1;
            if plain > plain_room {
                continue;
            }
        }
        if shown < MOST_AT_ALL {
            shown += 1;
            out.push_str(&self::entry(seen, entry, one_process, width));
        }
    }
    if made.all.len() > shown {
        let left = made.all.len() - shown;
        out.push_str(&sentence("", &format!("… and {left} more; the page and the document have them"), width));
    }
    for finding in made.findings.iter().take(FEW).filter_map(|index| seen.findings.get(*index)) {
        out.push_str(&sentence("", &said(finding), width));
    }
    for violation in made.violations.iter().take(FEW).filter_map(|index| seen.violations.get(*index)) {
        out.push_str(&sentence("", &forbidden(&violation.forbidden, &violation.says), width));
    }
    let is_nothing = seen.trace.events.is_empty() && made.findings.is_empty() && made.violations.is_empty();
    if is_nothing {
        out.push_str(&sentence("", unseen::nothing(&seen.history), width));
    }
    out.push_str(&left_open(seen, &made, &unseen, width));
    let totals = totals::parts(seen);
    if !is_nothing || totals.len() > 1 {
        out.push_str(&lines::wrap("", &totals.iter().map(|part| terminal(part)).collect::<Vec<_>>(), " · ", width));
    }
    out.push_str(&to_change(seen, width));
    guarded(&out)
}

/// What is not listed, what could not be seen, and what could not be decided.
fn left_open(seen: &TraceView, made: &Entries, unseen: &[String], width: usize) -> String {
    let mut out = String::new();
    if let Some(sorts) = made.not_listed() {
        out.push_str(&sentence("", &format!("not listed: {sorts}"), width));
    }
    for (heading, lines) in [("not seen:\n", unseen), ("not decided:\n", seen.undecided)] {
        out.push_str(if lines.is_empty() { "" } else { heading });
        out.extend(lines.iter().map(|line| sentence("  - ", line, width)));
    }
    out
}

fn said(finding: &Finding) -> String {
    match finding.severity {
        Severity::Pitfall => finding.says.clone(),
        Severity::Note => format!("note: {}", finding.says),
    }
}

pub(super) fn forbidden(what: &str, says: &str) -> String {
    format!("forbidden, {}: {}", place::short(what), place::short(says))
}

fn entry(seen: &TraceView, entry: &TraceEntry, one_process: bool, width: usize) -> String {
    let Some(event) = seen.trace.events.get(entry.first) else { return String::new() };
    let mut right = place::since_start(seen.trace, event.t_ns);
    if !one_process || entry.pids.len() != 1 {
        right.push_str(&format!("  {}", entry.who(seen.trace)));
    }
    let mut out = aside("", &entry.title(), &right, width);
    out.push_str(&chain(&place::chain(event), width));
    for detail in &entry.details {
        out.push_str(&sentence(INDENT, detail, width));
    }
    let findings: Vec<&Finding> = entry.findings.iter().filter_map(|index| seen.findings.get(*index)).collect();
    for late in entry.late.iter().take(FEW) {
        out.push_str(&sentence(INDENT, &late_write(seen.trace, late), width));
    }
    if entry.late.len() > FEW {
        out.push_str(&sentence(INDENT, &format!("… and {} more late writes", entry.late.len() - FEW), width));
    }
    // A finding about a late write says what the line above says, and so does one with the title of its entry.
    let title = entry.title().to_lowercase();
    let is_told = |finding: &Finding| {
        let is_late = entry.late.iter().any(|late| finding.events.contains(&late.event));
        is_late || title.contains(&finding.title.to_lowercase())
    };
    // Equal findings of several processes are one.
    let alike = grouped(findings.into_iter().map(|it| ((it.workaround.as_str(), it.scenario.as_str()), it)));
    for (_, alike) in alike.iter().take(FEW) {
        if let Some(finding) = alike.first().filter(|finding| !is_told(finding)) {
            let times = if alike.len() > 1 { format!(" ({} times)", alike.len()) } else { String::new() };
            out.push_str(&sentence(INDENT, &(said(finding) + &times), width));
        }
    }
    for violation in entry.violations.iter().take(FEW).filter_map(|index| seen.violations.get(*index)) {
        // The line above has said what a late write is.
        let is_told = entry.late.iter().take(FEW).any(|late| violation.event == Some(late.event));
        let words = match is_told {
            true => format!("forbidden: {}", place::short(&violation.forbidden)),
            false => forbidden(&violation.forbidden, &violation.says),
        };
        out.push_str(&sentence(INDENT, &words, width));
    }
    out
}

/// The last lines: where something is to be changed, what is wrong there and what to write, with the scenario that
/// proves it. What several findings at one line have in common is said once.
fn to_change(seen: &TraceView, width: usize) -> String {
    let changes = changes(seen);
    if changes.is_empty() {
        return String::new();
    }
    let mut out = "\nWhat to change\n".to_owned();
    for (change, times) in changes.iter().take(MOST_CHANGES) {
        let again = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        out.push_str(&sentence("  ", &format!("{}{again}", change.sentence()), width));
        if let Some(source) = change.source {
            out.push_str(&sentence(INDENT, &format!("> {source}"), width));
        }
        out.push_str(&aside(INDENT, change.workaround, change.scenario, width));
    }
    if changes.len() > MOST_CHANGES {
        let left = changes.len() - MOST_CHANGES;
        out.push_str(&sentence("  ", &format!("… and {left} more; the page has them"), width));
    }
    out
}

/// The way to the call, broken before arrows.
fn chain(parts: &[String], width: usize) -> String {
    let with_arrow = |(place, part): (usize, &String)| {
        if place == 0 { terminal(part) } else { format!("→ {}", terminal(part)) }
    };
    lines::wrap(INDENT, &parts.iter().enumerate().map(with_arrow).collect::<Vec<_>>(), " ", width)
}

fn sentence(head: &str, text: &str, width: usize) -> String {
    // What follows its first line must not look like the next entry.
    let head_columns = columns(head);
    let rest = if head.is_empty() { 2 } else { head_columns };
    indented(head, rest, text, width).join("\n") + "\n"
}

/// Lines of a text behind a head, continued under `rest` columns.
fn indented(head: &str, rest: usize, text: &str, width: usize) -> Vec<String> {
    let room = width.saturating_sub(rest.max(columns(head))).max(1);
    let broken = lines::words(&terminal(text), room);
    let line = |(place, line): (usize, &String)| match place {
        0 => format!("{head}{line}"),
        _ => format!("{:rest$}{line}", ""),
    };
    broken.iter().enumerate().map(line).collect()
}

/// A text at the left and a word at the right of its last line, or of a line of its own.
fn aside(head: &str, text: &str, right: &str, width: usize) -> String {
    let right = terminal(&place::short(right));
    // Columns that are lined up by two spaces stay so.
    let text = text.replace("  ", &lines::UNBROKEN.to_string().repeat(2));
    let mut lines = indented(head, if head.is_empty() { 2 } else { columns(head) + 2 }, &text, width);
    let last = lines.last().map_or(0, |line| columns(line));
    let gap = width.saturating_sub(columns(&right));
    match lines.last_mut() {
        Some(line) if last + 2 + columns(&right) <= width => {
            let fill = width.saturating_sub(last + columns(&right));
            line.push_str(&format!("{:fill$}{right}", ""));
        }
        _ if right.is_empty() => {}
        _ if gap > 0 => lines.push(format!("{:gap$}{right}", "")),
        _ => lines.extend(indented("    ", 4, &right, width)),
    }
    lines.join("\n") + "\n"
}

/// Where a long name is broken, the rest may begin with what a CI system takes for a command.
fn guarded(text: &str) -> String {
    let guard = |line: &str| {
        let body = line.trim_start();
        let indent = " ".repeat(line.len() - body.len());
        match body.strip_prefix("::") {
            Some(rest) => format!("{indent}\\x3a:{rest}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(guard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn told(trace: &Trace, width: usize) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        text(&TraceView::new(trace, &findings, &outcome), width)
    }

    fn bare(trace: &Trace) -> String {
        text(&TraceView::bare(trace), 80)
    }

    #[test]
    fn the_users_line_the_memory_and_the_workaround_are_on_the_screen() {
        let expected = "\
CUDA_VISIBLE_DEVICES was read as (unset)                        0.84 s  pid 4711
    train.py:12 <module> → cli.py:88 setup → torch.cuda.is_available → cuInit
    train.py:31 sets CUDA_VISIBLE_DEVICES=1, 410 ms too late: no effect
GPU 1  +527 MiB  context                                        1.93 s  pid 4711
    train.py:35 <module> → torch.nn.modules.module.to → cuDevicePrimaryCtxRetain
GPU 0  +524 MiB  context, never used afterwards                 2.40 s  pid 4711
    train.py:52 <module> → torch.cuda.synchronize → cuDevicePrimaryCtxRetain
    torch.cuda.synchronize() makes a context on the current device, which is 0
";
        let shown = told(&fixture::trace(), 80);
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        let (shown, expected) = (lines(&shown), lines(expected));
        assert_eq!(shown.get(..8).unwrap(), expected.get(..8).unwrap(), "{}", shown.join("\n"));
        let last = "\
2 pitfalls · 1 violation · 524 MiB on a GPU that the program did no work on

What to change
  cli.py:88: CUDA_VISIBLE_DEVICES is set after it was read
    set it before torch.cuda.is_available(), or in the environment of the
      program                                       visibility/mask-after-cuinit
  train.py:52: a context on a GPU that is not used
    torch.cuda.set_device(1) first, or synchronize(1)
                                                    context/first-call-makes-one
";
        let last = lines(last);
        assert_eq!(shown.get(shown.len() - last.len()..), Some(last.as_slice()), "{}", shown.join("\n"));
    }

    #[test]
    fn a_process_of_a_launcher_is_named_with_its_ranks() {
        let mut trace = fixture::trace();
        trace.processes.iter_mut().for_each(|process| (process.rank, process.local_rank) = (Some(3), Some(1)));
        assert!(told(&trace, 120).contains("pid 4711, rank 3, local rank 1"), "{}", told(&trace, 120));
    }

    #[test]
    fn no_line_is_longer_than_the_screen() {
        for width in [40, 80, 120] {
            for text in [told(&fixture::trace(), width), text(&hostile_seen(&fixture::hostile()), width)] {
                let long: Vec<&str> = text.lines().filter(|line| columns(line) > width).collect();
                assert!(long.is_empty(), "{width}: {long:#?}");
            }
        }
    }

    fn hostile_seen(trace: &Trace) -> TraceView<'_> {
        let (findings, outcome) = fixture::hostile_findings();
        TraceView::new(trace, findings.leak(), Box::leak(Box::new(outcome)))
    }

    #[test]
    fn a_name_that_is_broken_never_begins_a_line_with_a_command() {
        let mut trace = fixture::trace();
        for letters in 20..100 {
            let name = format!("{}::error::x", "a".repeat(letters));
            trace.events.iter_mut().flat_map(|event| &mut event.stack.frames).for_each(|it| it.function = name.clone());
            let shown = bare(&trace);
            assert!(!shown.lines().any(|line| line.trim_start().starts_with("::")), "{shown}");
        }
    }

    #[test]
    fn simulation_and_a_missing_end_stand_at_the_top() {
        let mut trace = fixture::trace();
        trace.start.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
        trace.end = None;
        let shown = bare(&trace);
        assert!(shown.lines().nth(1).unwrap().starts_with("*** SIMULATED"), "{shown}");
        assert!(shown.contains("*** the trace is incomplete"), "{shown}");
    }

    #[test]
    fn nothing_happened_is_said_only_where_everything_was_seen() {
        let mut trace = fixture::quiet();
        assert_eq!(bare(&trace), "CUDA was not initialised: the program made no CUDA call\n");
        trace.end.as_mut().unwrap().not_seen = vec!["pid 12 has a context and no event".to_owned()];
        let shown = bare(&trace);
        let expected = "No CUDA call was seen, and not everything could be seen\n\
                        not seen:\n  - pid 12 has a context and no event\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_large_trace_stays_readable() {
        let trace = fixture::large(200, 10_000, 10);
        let shown = bare(&trace);
        let lines = shown.lines().count();
        assert!(lines < 260, "{lines} lines");
        assert!(shown.contains("more; the page and the document have them"), "{shown}");
    }
}
