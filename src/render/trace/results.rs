//! What programs are told of a trace: tests and annotations, at the user's own file and line.
//!
//! A pitfall alone is no failure: only what the policy forbids is. What a trace could not see is an error where it may
//! hide something.

use std::collections::HashSet;

use super::file::path_of;
use super::{TraceView, alike, place, totals, unseen};
use crate::machine::UserLine;
use crate::machine::github::annotation;
use crate::machine::junit::{self, TestOutcome, TestResult};
use crate::words;
use cuda_pitfalls_answers::refused::RefusedCall;
use cuda_pitfalls_core::text::counts::grouped;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};

/// The most tests of each sort, and the most annotations.
const MOST_CASES: usize = 1000;
const MOST_LINES: usize = 50;

/// Test results: a test for each thing that was forbidden and done, and for each pitfall. `name` is what the trace is
/// called.
pub(super) fn junit(seen: &TraceView, name: &str) -> String {
    let trace = seen.trace;
    let elapsed_ns = trace
        .end
        .as_ref()
        .map_or(0, |end| end.t_ns.saturating_sub(trace.start.t_ns));
    // Without this test a trace cut short would look clean.
    let complete = case(seen, "the trace is complete", None);
    let mut cases = vec![match trace.end {
        Some(_) => complete,
        None => complete.with(
            TestOutcome::Error,
            "incomplete",
            &unseen::banners(trace).join(" "),
        ),
    }];
    cases.extend(
        seen.violations
            .iter()
            .take(MOST_CASES)
            .enumerate()
            .map(|(index, violation)| {
                let case = case(
                    seen,
                    &format!("{} ({})", violation.forbidden, index + 1),
                    violation.event,
                );
                let stdout = vec![where_it_was(seen, violation.event)];
                TestResult {
                    stdout,
                    ..case.with(TestOutcome::Failure, "forbidden", &violation.says)
                }
            }),
    );
    // A condition that could not be checked has not been met either.
    cases.extend(seen.undecided.iter().take(MOST_CASES).map(|undecided| {
        case(seen, &format!("undecided: {undecided}"), None).with(
            TestOutcome::Error,
            "undecided",
            undecided,
        )
    }));
    cases.extend(
        seen.findings
            .iter()
            .take(MOST_CASES)
            .enumerate()
            .map(|(index, it)| found(seen, index + 1, it)),
    );
    cases.extend(refusals(seen).enumerate().map(|(index, refusal)| {
        let stdout = vec![refusal.in_words(), where_it_was(seen, refusal.event)];
        TestResult {
            stdout,
            ..case(
                seen,
                &format!("explained error ({})", index + 1),
                refusal.event,
            )
        }
    }));
    let name = place::short(&format!("cuda-pitfalls trace {name}"));
    junit::file(
        &name,
        (&trace.start.started_at, elapsed_ns),
        &properties(seen),
        cases,
    )
}

/// What CUDA refused, and the error that the program said last.
fn refusals<'v>(seen: &'v TraceView) -> impl Iterator<Item = &'v RefusedCall> {
    seen.refusals.iter().chain(&seen.last_error)
}

/// The test of a finding: it fails where a policy forbids it.
fn found(seen: &TraceView, number: usize, finding: &Finding) -> TestResult {
    let forbidden = seen.violations.iter().find(|violation| {
        violation.forbidden == finding.rule
            || violation
                .event
                .is_some_and(|event| finding.events.contains(&event))
    });
    let event = finding.events.first().copied();
    let mut case = case(seen, &format!("{} ({number})", finding.rule), event);
    if let Some(violation) = forbidden {
        let message = format!("{}; forbidden by {}", finding.says, violation.forbidden);
        case = case.with(TestOutcome::Failure, &finding.rule, &message);
    }
    let memory = finding.bytes.map(|bytes| ("memory", units::delta(bytes)));
    let properties = [
        ("severity", finding.severity.name().to_owned()),
        ("scenario", finding.scenario.clone()),
    ];
    case.properties = properties
        .into_iter()
        .chain(memory)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let workaround = format!("workaround: {}", finding.workaround);
    case.stdout = vec![
        finding.title.clone(),
        finding.says.clone(),
        workaround,
        where_it_was(seen, event),
    ];
    case
}

fn properties(seen: &TraceView) -> Vec<(String, String)> {
    let start = &seen.trace.start;
    let mut properties = vec![
        ("provenance", words::provenance(start.provenance).to_owned()),
        ("complete", seen.trace.end.is_some().to_string()),
        ("version", start.version.clone()),
        ("on", start.on.clone()),
        (
            "driver",
            start
                .driver_version
                .clone()
                .unwrap_or_else(|| "none".to_owned()),
        ),
        ("command", start.command.join(" ")),
        ("totals", totals::parts(seen).join(", ")),
    ];
    properties.extend(
        unseen::banners(seen.trace)
            .into_iter()
            .map(|banner| ("banner", banner)),
    );
    properties.extend(
        unseen::unseen(&seen.history)
            .into_iter()
            .map(|line| ("not seen", line)),
    );
    properties
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn case(seen: &TraceView, name: &str, event: Option<usize>) -> TestResult {
    let place = own_place(seen, event);
    TestResult {
        place,
        elapsed_ns: Some(0),
        ..TestResult::new(seen.trace.start.provenance, "trace", &place::short(name))
    }
}

fn own_place(seen: &TraceView, event: Option<usize>) -> Option<UserLine> {
    place::place(seen.trace, &seen.trace.events.get(event?)?.stack)
}

/// When and where an event was, on one line.
fn where_it_was(seen: &TraceView, event: Option<usize>) -> String {
    let Some(event) = event.and_then(|event| seen.trace.events.get(event)) else {
        return String::new();
    };
    let when = place::since_start(seen.trace, event.t_ns);
    format!(
        "{when}, {}: {}",
        place::who(seen.trace, event.pid),
        place::chain(event).join(" → ")
    )
}

/// The user's own line of an event, its file relative to the root of the repository.
fn in_repository(seen: &TraceView, root: &str, event: Option<usize>) -> Option<UserLine> {
    let place = own_place(seen, event)?;
    // Code that was given to Python as text has no file.
    let is_text = place.file.starts_with('<');
    let file = if is_text {
        place.file.clone()
    } else {
        path_of(seen.trace, root, &place.file)
    };
    Some(UserLine { file, ..place })
}

/// Annotations. GitHub knows files by their paths in the repository, which is `root`.
pub(super) fn github(seen: &TraceView, root: &str) -> String {
    let mut out = String::new();
    let mut say = |level: &str, place, title: &str, lines: &[String]| {
        out.push_str(&annotation(level, place, title, lines));
    };
    for banner in unseen::banners(seen.trace) {
        say("warning", None, "cuda-pitfalls", &[banner]);
    }
    let is_kept = seen.violations.is_empty() && seen.undecided.is_empty();
    let level = match (is_kept, seen.found(Severity::Pitfall).next().is_none()) {
        (false, _) => "error",
        (true, false) => "warning",
        (true, true) => "notice",
    };
    say(
        level,
        None,
        "cuda-pitfalls trace",
        &[totals::parts(seen).join(", ")],
    );
    let violations = seen.violations.iter().map(|violation| {
        let place = in_repository(seen, root, violation.event);
        (
            (violation.forbidden.clone(), violation.says.clone(), place),
            violation.event,
        )
    });
    for ((forbidden, says, place), events) in grouped(violations).into_iter().take(MOST_LINES) {
        let event = events.first().copied().flatten();
        let title = format!("forbidden: {forbidden}");
        let about = seen
            .findings
            .iter()
            .find(|it| it.says == says && it.events.first().copied() == event);
        let mut lines = vec![says, where_it_was(seen, event)];
        lines.extend(about.into_iter().flat_map(advice));
        lines.push(times(events.len()));
        say("error", place, &title, &lines);
    }
    for undecided in seen.undecided.iter().take(MOST_LINES) {
        say(
            "error",
            None,
            "cuda-pitfalls: undecided",
            std::slice::from_ref(undecided),
        );
    }
    // What was forbidden in the same words is told as that.
    let forbidden: HashSet<(&str, Option<usize>)> = seen
        .violations
        .iter()
        .map(|violation| (violation.says.as_str(), violation.event))
        .collect();
    let others = seen
        .findings
        .iter()
        .filter(|it| !forbidden.contains(&(&it.says, it.events.first().copied())));
    let findings = others.map(|finding| {
        let event = finding.events.first().copied();
        (
            (alike(finding), in_repository(seen, root, event)),
            (finding, event),
        )
    });
    for ((_, place), all) in grouped(findings).into_iter().take(MOST_LINES) {
        let Some((finding, event)) = all.first() else {
            continue;
        };
        let [workaround, scenario] = advice(finding);
        let lines = [
            finding.says.clone(),
            where_it_was(seen, *event),
            workaround,
            scenario,
            times(all.len()),
        ];
        let level = if finding.severity == Severity::Pitfall {
            "warning"
        } else {
            "notice"
        };
        say(level, place, &finding.title, &lines);
    }
    for refusal in refusals(seen) {
        let level = if seen.has_failed() {
            "warning"
        } else {
            "notice"
        };
        let place = in_repository(seen, root, refusal.event);
        say(
            level,
            place,
            "cuda-pitfalls: explained error",
            &[refusal.in_words()],
        );
    }
    let missing = unseen::unseen(&seen.history);
    if !missing.is_empty() {
        say("notice", None, "cuda-pitfalls: not seen", &missing);
    }
    out
}

fn advice(finding: &Finding) -> [String; 2] {
    [
        format!("workaround: {}", finding.workaround),
        format!("scenario: {}", finding.scenario),
    ]
}

fn times(times: usize) -> String {
    if times > 1 {
        format!("{times} times")
    } else {
        String::new()
    }
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
        junit(
            &TraceView {
                findings: &findings,
                violations,
                ..TraceView::bare(trace)
            },
            "t",
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
        has(&xml, ["tests=\"5\"", "errors=\"0\"", "failures=\"2\""]);
        assert!(xml.contains("classname=\"cuda-pitfalls.trace\""), "{xml}");
        assert!(xml.contains("file=\"train.py\" line=\"52\""), "{xml}");
        assert!(
            xml.contains("workaround: torch.cuda.set_device(1) first"),
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
        let shown = github(&TraceView::new(&trace, &findings, &outcome), "/home/me");
        assert!(
            shown.contains("\n::error file=project/train.py,line=52,"),
            "{shown}"
        );
    }

    #[test]
    fn a_violation_is_an_error_and_a_pitfall_a_warning_at_the_users_line() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let shown = github(&TraceView::new(&trace, &findings, &outcome), ROOT);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].starts_with("::error title=cuda-pitfalls trace::2 pitfalls, 1 violation"),
            "{shown}"
        );
        assert!(lines[1].starts_with(
            "::error file=train.py,line=52,title=forbidden%3A context%3Agpu0::a context on GPU 0%0A2.40 s, pid 4711"
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
        let shown = github(&TraceView::new(&trace, &findings, &outcome), ROOT);
        assert_eq!(shown.matches(&findings[0].says).count(), 1, "{shown}");
        assert!(
            shown
                .lines()
                .any(|line| line.starts_with("::error file") && line.contains("workaround: ")),
            "{shown}"
        );
    }
}
