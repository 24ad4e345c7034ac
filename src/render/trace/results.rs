//! What programs are told of a trace: tests and annotations, at the user's own file and line, made of one list.
//!
//! A pitfall alone is no failure: only what the policy forbids is. What a trace could not see is an error where it may
//! hide something.

use super::reported::{self, Level, Reported};
use super::{TraceView, place, totals, unseen};
use crate::machine::UserLine;
use crate::machine::github::format_annotation;
use crate::machine::junit::{self, TestOutcome, TestResult};
use crate::words;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Severity;

/// The most tests of each sort, and the most annotations.
const MOST_CASES: usize = 1000;
const MOST_LINES: usize = 50;

/// Test results: a test for each thing that was forbidden and done, for each pitfall and for each explained error.
/// `name` is what the trace is called, and `root` what files are relative to.
pub(super) fn junit_file(seen: &TraceView, name: &str, root: &str) -> String {
    let trace = seen.trace;
    // Without this test a trace cut short would look clean.
    let complete = test_case(seen, "the trace is complete");
    let mut cases = vec![match trace.end {
        Some(_) => complete,
        None => {
            let banners = unseen::unseen_banners(trace).join(" ");
            complete.with(TestOutcome::Error, "incomplete", &banners)
        }
    }];
    // A condition that could not be checked has not been met either.
    for undecided in seen.undecided.iter().take(MOST_CASES) {
        let case = test_case(seen, &format!("undecided: {undecided}"));
        cases.push(case.with(TestOutcome::Error, "undecided", undecided));
    }
    let found = reported::without_notes(seen, root);
    for (one, number) in found.iter().take(MOST_CASES).zip(1..) {
        cases.push(reported_case(seen, one, number));
    }
    let elapsed_ns = match &trace.end {
        Some(end) => end.t_ns.saturating_sub(trace.start.t_ns),
        None => 0,
    };
    junit::file(
        &place::shorten_place(&format!("cuda-pitfalls trace {name}")),
        (&trace.start.started_at, elapsed_ns),
        &suite_properties(seen),
        cases,
    )
}

/// The test of an entry: it fails where a policy forbids what was done.
fn reported_case(seen: &TraceView, one: &Reported, number: usize) -> TestResult {
    let mut case = test_case(seen, &format!("{} ({number})", one.rule));
    if one.level == Level::Error {
        case = case.with(TestOutcome::Failure, &one.rule, &one.message);
    }
    case.place = user_line(one);
    if let Some(finding) = one.finding {
        case.properties = vec![
            ("severity".to_owned(), finding.severity.name().to_owned()),
            ("scenario".to_owned(), finding.scenario.clone()),
        ];
        if let Some(bytes) = finding.bytes {
            let memory = ("memory".to_owned(), units::format_delta(bytes));
            case.properties.push(memory);
        }
    }
    case.stdout = vec![title(one), one.message.clone(), where_it_was(seen, one)];
    case
}

fn suite_properties(seen: &TraceView) -> Vec<(String, String)> {
    let start = &seen.trace.start;
    let driver = start.driver_version.as_deref().unwrap_or("none");
    let mut properties = vec![
        ("provenance", words::provenance(start.provenance).to_owned()),
        ("complete", seen.trace.end.is_some().to_string()),
        ("version", start.version.clone()),
        ("on", start.on.clone()),
        ("driver", driver.to_owned()),
        ("command", start.command.join(" ")),
        ("totals", totals::parts(seen).join(", ")),
    ];
    for banner in unseen::unseen_banners(seen.trace) {
        properties.push(("banner", banner));
    }
    for line in &seen.not_seen {
        properties.push(("not seen", line.clone()));
    }
    properties
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn test_case(seen: &TraceView, name: &str) -> TestResult {
    TestResult {
        elapsed_ns: Some(0),
        ..TestResult::new(
            seen.trace.start.provenance,
            "trace",
            &place::shorten_place(name),
        )
    }
}

/// What an entry is called in a line.
fn title(one: &Reported) -> String {
    match (one.finding, one.forbidden) {
        (Some(finding), _) => finding.title.clone(),
        (None, Some(forbidden)) => format!("forbidden: {forbidden}"),
        (None, None) => "cuda-pitfalls: explained error".to_owned(),
    }
}

/// The user's own line of an entry. A line of a package or of the program's file is no place to annotate.
fn user_line(one: &Reported) -> Option<UserLine> {
    let place = one.place.as_ref()?;
    if !place.is_own {
        return None;
    }
    Some(UserLine {
        file: place.path.clone(),
        line: place.line,
        is_beside: place.is_beside,
    })
}

/// When and where the first event of an entry was, on one line.
fn where_it_was(seen: &TraceView, one: &Reported) -> String {
    let first = one.events.first().copied();
    let Some(event) = first.and_then(|index| seen.trace.events.get(index)) else {
        return String::new();
    };
    let when = place::since_start(seen.trace, event.t_ns);
    let who = place::process_words(seen.trace, event.pid);
    format!("{when}, {who}: {}", place::chain(event).join(" → "))
}

/// Annotations. GitHub knows files by their paths in the repository, which is `root`.
pub(super) fn github_annotations(seen: &TraceView, root: &str) -> String {
    let mut out = String::new();
    for banner in unseen::unseen_banners(seen.trace) {
        out += &format_annotation("warning", None, "cuda-pitfalls", &[banner]);
    }
    let level = if !seen.violations.is_empty() || !seen.undecided.is_empty() {
        "error"
    } else if seen.found(Severity::Pitfall).next().is_some() {
        "warning"
    } else {
        "notice"
    };
    let totals = totals::parts(seen).join(", ");
    out += &format_annotation(level, None, "cuda-pitfalls trace", &[totals]);
    for undecided in seen.undecided.iter().take(MOST_LINES) {
        let line = std::slice::from_ref(undecided);
        out += &format_annotation("error", None, "cuda-pitfalls: undecided", line);
    }
    let found = reported::without_notes(seen, root);
    for one in found.iter().take(MOST_LINES) {
        let level = match one.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "notice",
        };
        let lines = [one.message.clone(), where_it_was(seen, one)];
        out += &format_annotation(level, user_line(one), &title(one), &lines);
    }
    if !seen.not_seen.is_empty() {
        let title = "cuda-pitfalls: not seen";
        out += &format_annotation("notice", None, title, &seen.not_seen);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    const ROOT: &str = "/home/me/project";

    fn junit_of(trace: &Trace, violates: bool) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        let violations = if violates {
            outcome.violations.as_slice()
        } else {
            &[]
        };
        junit_file(
            &TraceView {
                findings: &findings,
                violations,
                ..TraceView::bare(trace)
            },
            "t",
            ROOT,
        )
    }

    #[test]
    fn what_is_forbidden_fails_and_a_pitfall_alone_does_not() {
        let trace = fixture::trace();
        let has = |xml: &str, counts: [&str; 3]| {
            let suite = xml
                .lines()
                .find(|line| line.contains("<testsuite "))
                .unwrap();
            assert!(counts.iter().all(|count| suite.contains(count)), "{suite}");
        };
        has(
            &junit_of(&trace, false),
            ["tests=\"4\"", "errors=\"0\"", "failures=\"0\""],
        );
        let xml = junit_of(&trace, true);
        has(&xml, ["tests=\"5\"", "errors=\"0\"", "failures=\"1\""]);
        assert!(xml.contains("classname=\"cuda-pitfalls.trace\""), "{xml}");
        assert!(xml.contains("file=\"train.py\" line=\"52\""), "{xml}");
        assert!(
            xml.contains("Instead: torch.cuda.set_device(1) first"),
            "{xml}"
        );
    }

    #[test]
    fn a_trace_without_an_end_is_an_error() {
        let mut trace = fixture::trace();
        trace.end = None;
        trace.start.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
        let xml = junit_of(&trace, false);
        assert!(
            xml.contains("type=\"incomplete\"") && xml.contains("errors=\"1\""),
            "{xml}"
        );
        assert!(
            xml.contains("classname=\"cuda-pitfalls.simulated.trace\""),
            "{xml}"
        );
    }

    #[test]
    fn files_are_relative_to_the_repository() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = github_annotations(&TraceView::new(&trace, &findings, &outcome), "/home/me");
        assert!(
            shown.contains("\n::error file=project/train.py,line=52,"),
            "{shown}"
        );
    }

    #[test]
    fn a_violation_is_an_error_and_a_pitfall_a_warning_at_the_users_line() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = github_annotations(&TraceView::new(&trace, &findings, &outcome), ROOT);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].starts_with("::error title=cuda-pitfalls trace::2 pitfalls, 1 violation"),
            "{shown}"
        );
        assert!(lines[1].starts_with(
            "::error file=train.py,line=52,title=forbidden%3A context%3Agpu0::a context on GPU 0. Forbidden by context:gpu0.%0A2.40 s, pid 4711"
        ));
        assert!(
            lines[2].starts_with(
                "::warning file=cli.py,line=88,title=CUDA_VISIBLE_DEVICES is set after"
            ),
            "{shown}"
        );
        assert!(
            lines[3].starts_with("::warning file=train.py,line=52,title="),
            "{shown}"
        );
        let refused = "::notice file=data.py,line=7,title=cuda-pitfalls%3A explained error::data.py:7: cuMemGetInfo_v2";
        assert!(lines[4].starts_with(refused) && lines.len() == 5, "{shown}");
    }

    #[test]
    fn what_is_forbidden_in_the_words_of_a_pitfall_is_told_once() {
        let trace = fixture::trace();
        let (findings, mut outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        outcome.violations[0].says.clone_from(&findings[0].says);
        outcome.violations[0].event = findings[0].events.first().copied();
        let shown = github_annotations(&TraceView::new(&trace, &findings, &outcome), ROOT);
        assert_eq!(shown.matches(&findings[0].says).count(), 1, "{shown}");
        assert!(
            shown
                .lines()
                .any(|line| line.starts_with("::error file") && line.contains("Instead: ")),
            "{shown}"
        );
    }
}
