//! The last line: how many pitfalls, and how much memory contexts take that did no work.

use std::collections::BTreeSet;

use super::{TraceView, alike_key};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Severity;
use cuda_pitfalls_trace::{ContextLife, End, History};

/// `2 pitfalls · 524 MiB on a GPU that the program did no work on`.
pub(super) fn parts(seen: &TraceView) -> Vec<String> {
    let trace = seen.trace;
    let notes = seen
        .found(Severity::Note)
        .map(alike_key)
        .collect::<BTreeSet<_>>()
        .len();
    let wasted = idle_contexts(&seen.history);
    let mut parts: Vec<String> = pitfall_count(seen, !wasted.is_empty())
        .into_iter()
        .collect();
    if !seen.violations.is_empty() {
        parts.push(counted(seen.violations.len() as u64, "violation"));
    }
    if !seen.undecided.is_empty() {
        parts.push(format!(
            "{} undecided",
            counted(seen.undecided.len() as u64, "condition")
        ));
    }
    if notes > 0 {
        parts.push(counted(notes as u64, "note"));
    }
    parts.extend(wasted);
    parts.extend(trace.end.as_ref().and_then(ending_words));
    parts
}

/// How many pitfalls were found. None if there are none and memory was wasted, which is then said alone.
fn pitfall_count(seen: &TraceView, is_wasteful: bool) -> Option<String> {
    let open = seen
        .findings
        .iter()
        .find(|finding| !finding.leaves_open().is_empty());
    match (seen.found(Severity::Pitfall).count(), open) {
        (0, None) if seen.refused() > 0 => Some(format!(
            "CUDA refused {}",
            counted(seen.refused() as u64, "call")
        )),
        (0, None) if seen.last_error.is_some() => {
            Some("the program failed with a known error".to_owned())
        }
        (0, _) if is_wasteful => None,
        (0, Some(open)) => Some(format!(
            "no pitfall found in what was seen, but {}",
            open.title
        )),
        (0, None) if seen.not_seen.is_empty() => Some("no pitfall found".to_owned()),
        (0, None) => Some("no pitfall found in what was seen".to_owned()),
        (many, _) => Some(counted(many as u64, "pitfall")),
    }
}

/// Contexts that did nothing: on GPUs that the whole program did nothing on, and on others.
fn idle_contexts(history: &History) -> Vec<String> {
    let worked: BTreeSet<&String> = history
        .trace
        .counts
        .iter()
        .flat_map(|counts| &counts.gpus)
        .filter(|(_, uses)| !uses.is_none())
        .map(|(uuid, _)| uuid)
        .collect();
    let (elsewhere, idle): (Vec<_>, Vec<_>) = history
        .contexts
        .iter()
        .filter(|life| life.is_unused())
        .partition(|life| {
            life.made
                .gpu
                .as_ref()
                .is_some_and(|gpu| worked.contains(gpu))
        });
    let mut parts = Vec::new();
    if !idle.is_empty() {
        let gpus = idle
            .iter()
            .map(|life| &life.made.gpu)
            .collect::<BTreeSet<_>>()
            .len();
        let on = if gpus == 1 {
            "a GPU".to_owned()
        } else {
            format!("{gpus} GPUs")
        };
        parts.push(format!(
            "{} on {on} that the program did no work on",
            known_memory(&idle)
        ));
    }
    if !elsewhere.is_empty() {
        let contexts = counted(elsewhere.len() as u64, "context");
        parts.push(format!(
            "{} in {contexts} that did no work on a GPU that others used",
            known_memory(&elsewhere)
        ));
    }
    parts
}

/// The memory of contexts in words, of those of which it is known.
fn known_memory(lives: &[&ContextLife]) -> String {
    let known = lives
        .iter()
        .filter_map(|life| life.bytes)
        .fold(0_i64, i64::saturating_add);
    units::bytes(known.max(0).unsigned_abs())
}

/// How the program ended, where it did not end well.
pub(super) fn ending_words(end: &End) -> Option<String> {
    match (&end.signal, end.code) {
        (Some(signal), _) => Some(format!("the program was ended by {signal}")),
        (None, Some(0)) => None,
        (None, Some(code)) => Some(format!("the program exited with {code}")),
        (None, None) => Some("how the program ended is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use cuda_pitfalls_trace::Trace;
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
            ["no pitfall found in what was seen"]
        );
        // Neither is a fork of which nothing is known passed over.
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
                "no pitfall found in what was seen, but a child was forked",
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
                shown.contains("524 MiB on a GPU that the program did no work on"),
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
            "2 pitfalls · 524 MiB on a GPU that the program did no work on"
        );
        let mut child = trace.counts.first().unwrap().clone();
        child.pid = 4720;
        let work = *child.gpus.values().nth(1).unwrap();
        child.gpus.values_mut().for_each(|uses| *uses = work);
        trace.counts.push(child);
        assert_eq!(
            line(&trace),
            "2 pitfalls · 524 MiB in 1 context that did no work on a GPU that others used"
        );
        trace.end.as_mut().unwrap().signal = Some("SIGKILL".to_owned());
        assert!(line(&trace).ends_with("· the program was ended by SIGKILL"));
    }
}
