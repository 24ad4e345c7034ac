//! The last line: the number of pitfalls, and the memory of contexts that did no work.

use std::collections::{BTreeMap, BTreeSet};

use super::{TraceView, alike_key};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Severity;
use cuda_pitfalls_trace::{CallCount, End, History, Trace};

/// Returns the parts of the totals: `2 pitfalls`, `524 MiB on a GPU that the program did no work on`.
pub(super) fn parts(seen: &TraceView) -> Vec<String> {
    let wasted = idle_contexts(&seen.history);
    let mut parts = Vec::new();
    parts.extend(pitfall_count(seen, !wasted.is_empty()));
    if !seen.violations.is_empty() {
        parts.push(counted(seen.violations.len() as u64, "violation"));
    }
    if !seen.undecided.is_empty() {
        let conditions = counted(seen.undecided.len() as u64, "condition");
        parts.push(format!("{conditions} undecided"));
    }
    let notes: BTreeSet<_> = seen.found(Severity::Note).map(alike_key).collect();
    if !notes.is_empty() {
        parts.push(counted(notes.len() as u64, "note"));
    }
    parts.extend(wasted);
    parts.extend(seen.trace.end.as_ref().and_then(ending_words));
    parts
}

/// Returns the number of pitfalls. `None` if no pitfalls were found and memory was wasted, which is then reported
/// alone.
fn pitfall_count(seen: &TraceView, is_wasteful: bool) -> Option<String> {
    let pitfalls = seen.found(Severity::Pitfall).count();
    if pitfalls > 0 {
        return Some(counted(pitfalls as u64, "pitfall"));
    }
    let mut findings = seen.findings.iter();
    let open = findings.find(|finding| !finding.leaves_open().is_empty());
    if open.is_none() && seen.refused() > 0 {
        let calls = counted(seen.refused() as u64, "call");
        return Some(format!("{calls} failed"));
    }
    if open.is_none() && seen.last_error.is_some() {
        return Some("the program failed with a known error".to_owned());
    }
    if is_wasteful {
        return None;
    }
    Some(match open {
        Some(open) => format!("no pitfall found in the recorded part, but {}", open.title),
        None if seen.not_seen.is_empty() => "no pitfall found".to_owned(),
        None => "no pitfall found in the recorded part".to_owned(),
    })
}

/// Returns the GPUs that a program of the trace used.
fn used_gpus(trace: &Trace) -> BTreeSet<&String> {
    let mut used = BTreeSet::new();
    for (gpu, uses) in trace.counts.iter().flat_map(|counts| &counts.gpus) {
        if !uses.is_none() {
            used.insert(gpu);
        }
    }
    used
}

/// Returns the contexts that did nothing: on GPUs that the entire program did not use, and on others.
fn idle_contexts(history: &History) -> Vec<String> {
    let worked_on = used_gpus(history.trace);
    let (mut elsewhere, mut elsewhere_bytes) = (0_u64, 0_i64);
    let (mut idle, mut idle_bytes) = (BTreeSet::new(), 0_i64);
    for life in &history.contexts {
        if !life.is_unused() {
            continue;
        }
        let bytes = life.bytes.unwrap_or(0);
        match &life.created.gpu {
            Some(gpu) if worked_on.contains(gpu) => {
                elsewhere += 1;
                elsewhere_bytes = elsewhere_bytes.saturating_add(bytes);
            }
            gpu => {
                idle.insert(gpu);
                idle_bytes = idle_bytes.saturating_add(bytes);
            }
        }
    }
    let mut parts = Vec::new();
    if !idle.is_empty() {
        let memory = known_memory(idle_bytes);
        let gpus = match idle.len() {
            1 => "a GPU".to_owned(),
            several => format!("{several} GPUs"),
        };
        parts.push(format!("{memory} on {gpus} that the program did not use"));
    }
    if elsewhere > 0 {
        let memory = known_memory(elsewhere_bytes);
        let contexts = counted(elsewhere, "context");
        parts.push(format!(
            "{memory} in {contexts} that did no work, on a GPU that others used"
        ));
    }
    parts
}

/// Returns the known memory of contexts, as text.
fn known_memory(bytes: i64) -> String {
    units::bytes(bytes.max(0).unsigned_abs())
}

/// Returns the number of calls of each function by all processes, and the number of errors; the most frequent first.
pub(super) fn call_totals(trace: &Trace) -> Vec<(&str, CallCount)> {
    let mut totals: BTreeMap<&str, CallCount> = BTreeMap::new();
    for (name, count) in trace.counts.iter().flat_map(|counts| &counts.calls) {
        let sum = totals.entry(name).or_default();
        sum.calls = sum.calls.saturating_add(count.calls);
        sum.errors = sum.errors.saturating_add(count.errors);
    }
    let mut calls: Vec<(&str, CallCount)> = totals.into_iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(count.calls));
    calls
}

/// Returns the end of the program, if it was not successful.
pub(super) fn ending_words(end: &End) -> Option<String> {
    match (&end.signal, end.code) {
        (Some(signal), _) => Some(format!("the program was ended by {signal}")),
        (None, Some(0)) => None,
        (None, Some(code)) => Some(format!("the program exited with {code}")),
        (None, None) => Some("exit status unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    #[test]
    fn a_note_is_no_pitfall_and_what_is_undecided_is_told() {
        let (trace, undecided) = (fixture::quiet(), ["max-bytes".to_owned()]);
        let mut findings = fixture::findings(&fixture::trace());
        findings[0].severity = Severity::Note;
        let seen = TraceView {
            findings: &findings,
            undecided: &undecided,
            ..TraceView::bare(&trace)
        };
        assert_eq!(
            parts(&seen),
            ["1 pitfall", "1 condition undecided", "1 note"]
        );
    }

    #[test]
    fn nothing_was_found_is_said_of_what_was_seen() {
        let mut trace = fixture::quiet();
        assert_eq!(parts(&TraceView::bare(&trace)), ["no pitfall found"]);
        trace.start.limits = vec!["a limit".to_owned()];
        assert_eq!(
            parts(&TraceView::bare(&trace)),
            ["no pitfall found in the recorded part"]
        );
        // A fork without any known details is not left out either.
        let mut findings = fixture::findings(&fixture::trace());
        findings.truncate(1);
        (findings[0].severity, findings[0].rule) = (Severity::Note, "forked-unseen".to_owned());
        findings[0].title = "a child was forked".to_owned();
        let seen = TraceView {
            findings: &findings,
            ..TraceView::bare(&trace)
        };
        assert_eq!(
            parts(&seen),
            [
                "no pitfall found in the recorded part, but a child was forked",
                "1 note"
            ]
        );
    }

    #[test]
    fn nothing_was_found_is_not_said_beside_memory_without_work() {
        let trace = fixture::trace();
        for form in [Format::Text, Format::Markdown, Format::Html, Format::Junit] {
            let shown = TraceView::bare(&trace)
                .as_format(form, 10_000, ["", ""])
                .unwrap();
            assert!(
                shown.contains("524 MiB on a GPU that the program did not use"),
                "{shown}"
            );
            assert!(!shown.contains("no pitfall found"), "{shown}");
        }
    }

    #[test]
    fn memory_without_work_is_summed() {
        let mut trace = fixture::trace();
        let findings = fixture::findings(&trace);
        let line = |trace: &Trace| {
            parts(&TraceView {
                findings: &findings,
                ..TraceView::bare(trace)
            })
            .join(" · ")
        };
        assert_eq!(
            line(&trace),
            "2 pitfalls · 524 MiB on a GPU that the program did not use"
        );
        let mut child = trace.counts.first().unwrap().clone();
        child.pid = 4720;
        let work = *child.gpus.values().nth(1).unwrap();
        child.gpus.values_mut().for_each(|uses| *uses = work);
        trace.counts.push(child);
        assert_eq!(
            line(&trace),
            "2 pitfalls · 524 MiB in 1 context that did no work, on a GPU that others used"
        );
        trace.end.as_mut().unwrap().signal = Some("SIGKILL".to_owned());
        assert!(line(&trace).ends_with("· the program was ended by SIGKILL"));
    }
}
