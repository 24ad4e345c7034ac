//! The gaps of a trace as text: a reader must never conclude that unobserved events did not happen.

use super::place;
use cuda_pitfalls_core::text::counts::{counted, group_by_key};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::{History, Trace};

/// Sentence about a trace without an end.
const INCOMPLETE: &str = "the trace is incomplete: it stops before the program ended";
const MOST: usize = 8;

/// Returns the warnings that a reader must see first.
pub(super) fn unseen_banners(trace: &Trace) -> Vec<String> {
    let mut banners = Vec::new();
    if trace.start.provenance == Provenance::Simulated {
        banners.push(crate::tally::SIMULATED.to_owned());
    }
    banners.extend(incomplete_sentence(trace));
    banners
}

/// Returns the sentence about a trace without an end; `None` if it has one.
pub(super) fn incomplete_sentence(trace: &Trace) -> Option<String> {
    if trace.end.is_some() {
        return None;
    }
    Some(match trace.stamps().max() {
        Some(last) => format!("{INCOMPLETE}, after {}", place::since_start(trace, last)),
        None => INCOMPLETE.to_owned(),
    })
}

/// Returns the sentence about a trace without events, without a final period.
pub(super) fn nothing(not_seen: &[String]) -> &'static str {
    if not_seen.is_empty() {
        "CUDA was not initialized: the program made no CUDA call"
    } else {
        "No CUDA call was seen, but the trace is incomplete"
    }
}

/// Returns all gaps of the trace; empty if nothing is known to be missing.
pub(super) fn unseen_sentences(history: &History) -> Vec<String> {
    let trace = history.trace;
    let mut all = Vec::new();
    all.extend(incomplete_sentence(trace));
    all.extend(cap_lines(history.unseen_call_reasons(), "more processes"));
    if let Some(end) = &trace.end {
        all.extend(cap_lines(end.not_seen.clone(), "more things"));
        if end.left_out > 0 {
            let events = counted(end.left_out, "event");
            all.push(format!("{events}, omitted because there were too many"));
        }
    }
    all.extend(cap_lines(trace.start.limits.clone(), "more limits"));
    all.extend(cap_lines(
        missing_python(trace),
        "more reasons for missing Python stacks",
    ));
    all.extend(cap_lines(
        missing_stacks(trace),
        "more reasons for missing stacks",
    ));
    let mut unknown = history.contexts.clone();
    unknown.retain(|life| life.uses.is_none());
    let which = match unknown.len() {
        0 => return all,
        1 => "a context".to_owned(),
        several => format!("{several} contexts"),
    };
    all.push(format!(
        "work in {which}: the counts of the process are missing"
    ));
    all
}

/// Returns the reasons why processes have no Python stacks.
fn missing_python(trace: &Trace) -> Vec<String> {
    let reasons = trace.processes.iter();
    let mut lines = Vec::new();
    for (why, times) in group_alike(reasons.flat_map(|process| process.no_python.as_deref())) {
        let whose = match times {
            1 => "a process".to_owned(),
            several => format!("{several} processes"),
        };
        let why = place::shorten_place(why);
        lines.push(format!("Python stacks of {whose}: {why}"));
    }
    lines
}

/// Returns the reasons why the stacks of events are missing.
fn missing_stacks(trace: &Trace) -> Vec<String> {
    let reasons = trace.events.iter();
    let mut lines = Vec::new();
    for (why, times) in group_alike(reasons.flat_map(|event| event.stack.missing.as_deref())) {
        let stacks = if times == 1 { "the stack" } else { "stacks" };
        let events = counted(times as u64, "event");
        let why = place::shorten_place(why);
        lines.push(format!("{stacks} of {events}: {why}"));
    }
    lines
}

/// Returns the reasons, with those that differ only in numbers, such as PIDs, merged and counted.
fn group_alike<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let keyed = reasons.map(|why| {
        let words = why.replace(|letter: char| letter.is_ascii_digit(), "");
        (words, why)
    });
    let mut kinds = Vec::new();
    for (_, alike) in group_by_key(keyed) {
        if let Some(first) = alike.first() {
            kinds.push((*first, alike.len()));
        }
    }
    kinds
}

fn cap_lines(mut lines: Vec<String>, of: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("{more} {of}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Stack;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn unseen(trace: &Trace) -> Vec<String> {
        super::unseen_sentences(&History::new(trace))
    }

    #[test]
    fn a_whole_trace_lacks_nothing_and_one_without_an_end_says_so() {
        let mut trace = fixture::trace();
        assert!(unseen(&trace).is_empty() && unseen_banners(&trace).is_empty());
        trace.end = None;
        assert_eq!(
            unseen(&trace),
            ["the trace is incomplete: it stops before the program ended, after 6.00 s"]
        );
        assert_eq!(unseen(&trace), unseen_banners(&trace));
        trace.counts.clear();
        let last = "work in 2 contexts: the counts of the process are missing";
        assert_eq!(unseen(&trace).get(1).map(String::as_str), Some(last));
    }

    #[test]
    fn each_sort_of_blindness_is_named_once() {
        let mut trace = fixture::trace();
        trace.start.limits = vec!["a limit".to_owned()];
        for event in trace.events.iter_mut().take(3) {
            event.stack = Stack::from_failure("Yama 2");
        }
        for process in &mut trace.processes {
            process.no_python = Some(format!("seccomp of {}", process.pid));
        }
        if let Some(end) = &mut trace.end {
            end.not_seen = (0..10).map(|number| format!("child {number}")).collect();
            end.left_out = 3;
        }
        let lines = unseen(&trace);
        assert_eq!(lines.len(), 8 + 1 + 4, "{lines:#?}");
        let last = ["3 events, omitted because there were too many", "a limit"];
        assert_eq!(lines.get(9..11).unwrap(), last);
        assert_eq!(
            lines.get(11..).unwrap(),
            [
                "Python stacks of 2 processes: seccomp of 4711",
                "stacks of 3 events: Yama 2"
            ]
        );
    }
}
