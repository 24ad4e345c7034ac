//! A trace as test results: a test for each thing that was forbidden and done, and for each pitfall.
//!
//! A pitfall alone is no failure: only what the policy forbids is. What a trace could not see is
//! an error where it may hide something.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use super::place::{self, UserLine};
use super::{TraceView, totals, unseen};
use crate::junit::{classname, non_success};
use crate::words;
use cuda_pitfalls_core::text::escape::{shorten, xml};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Finding;

/// Messages are cut to this many bytes.
const LIMIT: usize = 4096;
const MOST: usize = 1000;

/// The whole file; `name` is what the trace is called.
pub(super) fn file(seen: &TraceView, name: &str) -> String {
    let trace = seen.trace;
    let elapsed_ns = trace.end.as_ref().map_or(0, |end| end.t_ns.saturating_sub(trace.start.t_ns));
    let mut suite = TestSuite::new(xml(&place::short(&format!("cuda-pitfalls trace {name}"))));
    for (name, value) in properties(seen) {
        suite.add_property(Property::new(name, shorten(&xml(&value), LIMIT)));
    }
    suite.add_test_case(complete(seen));
    for (number, violation) in seen.violations.iter().take(MOST).enumerate() {
        let status = non_success(NonSuccessKind::Failure, "forbidden", &violation.says);
        let name = format!("{} ({})", violation.forbidden, number + 1);
        let mut case = self::case(seen, &name, status, violation.event);
        case.set_system_out(shorten(&xml(&where_it_was(seen, violation.event)), LIMIT));
        suite.add_test_case(case);
    }
    for undecided in seen.undecided.iter().take(MOST) {
        // A condition that could not be checked has not been met either.
        let status = non_success(NonSuccessKind::Error, "undecided", undecided);
        suite.add_test_case(case(seen, &format!("undecided: {undecided}"), status, None));
    }
    for (number, finding) in seen.findings.iter().take(MOST).enumerate() {
        suite.add_test_case(found(seen, number + 1, finding));
    }
    crate::junit::file(suite, &trace.start.started_at, elapsed_ns)
}

/// The test case of a finding: it fails where a policy forbids it.
fn found(seen: &TraceView, number: usize, finding: &Finding) -> TestCase {
    let is_forbidden = |violation: &&cuda_pitfalls_trace::policy::Violation| {
        violation.forbidden == finding.rule || violation.event.is_some_and(|event| finding.events.contains(&event))
    };
    let status = seen.violations.iter().find(is_forbidden).map(|violation| {
        let message = format!("{}; forbidden by {}", finding.says, violation.forbidden);
        non_success(NonSuccessKind::Failure, &finding.rule, &message)
    });
    let status = status.unwrap_or_else(TestCaseStatus::success);
    let mut case = self::case(seen, &format!("{} ({})", finding.rule, number), status, finding.events.first().copied());
    case.add_property(Property::new("severity", finding.severity.name()));
    case.add_property(Property::new("scenario", xml(&finding.scenario)));
    if let Some(bytes) = finding.bytes {
        case.add_property(Property::new("memory", units::delta(bytes)));
    }
    let lines = [
        finding.title.clone(),
        finding.says.clone(),
        format!("workaround: {}", finding.workaround),
        where_it_was(seen, finding.events.first().copied()),
    ];
    let lines: Vec<String> = lines.iter().map(|line| xml(line)).collect();
    case.set_system_out(shorten(&lines.join("\n"), LIMIT));
    case
}

fn properties(seen: &TraceView) -> Vec<(&'static str, String)> {
    let start = &seen.trace.start;
    let mut properties = vec![
        ("provenance", words::provenance(start.provenance).to_owned()),
        ("complete", seen.trace.end.is_some().to_string()),
        ("version", start.version.clone()),
        ("on", start.on.clone()),
        ("driver", start.driver_version.clone().unwrap_or_else(|| "none".to_owned())),
        ("command", start.command.join(" ")),
        ("totals", totals::parts(seen).join(", ")),
    ];
    properties.extend(unseen::banners(seen.trace).into_iter().map(|banner| ("banner", banner)));
    properties.extend(unseen::unseen(&seen.history).into_iter().map(|line| ("not seen", line)));
    properties
}

/// The test that stands for the trace itself: without it a trace cut short would look clean.
fn complete(seen: &TraceView) -> TestCase {
    let status = match seen.trace.end {
        Some(_) => TestCaseStatus::success(),
        None => non_success(NonSuccessKind::Error, "incomplete", &unseen::banners(seen.trace).join(" ")),
    };
    case(seen, "the trace is complete", status, None)
}

fn case(seen: &TraceView, name: &str, status: TestCaseStatus, event: Option<usize>) -> TestCase {
    let mut case = TestCase::new(xml(&place::short(name)), status);
    case.set_classname(classname(seen.trace.start.provenance, "trace"));
    case.set_time(Duration::ZERO);
    if let Some(UserLine { file, line }) = own_place(seen, event) {
        case.extra.insert("file".into(), xml(&file).into());
        if let Some(line) = line {
            case.extra.insert("line".into(), line.to_string().into());
        }
    }
    case
}

pub(super) fn own_place(seen: &TraceView, event: Option<usize>) -> Option<UserLine> {
    place::place(seen.trace, seen.trace.events.get(event?)?)
}

/// When and where an event was, on one line.
pub(super) fn where_it_was(seen: &TraceView, event: Option<usize>) -> String {
    let Some(event) = event.and_then(|event| seen.trace.events.get(event)) else { return String::new() };
    let when = place::since_start(seen.trace, event.t_ns);
    format!("{when}, {}: {}", place::who(seen.trace, event.pid), place::chain(event).join(" → "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::Trace;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn of(trace: &Trace, violates: bool) -> String {
        let (findings, outcome) = (fixture::findings(trace), fixture::outcome(trace));
        let violations = if violates { outcome.violations.as_slice() } else { &[] };
        file(&TraceView { findings: &findings, violations, ..TraceView::bare(trace) }, "t")
    }

    #[test]
    fn what_is_forbidden_fails_and_a_pitfall_alone_does_not() {
        let trace = fixture::trace();
        let has = |xml: &str, counts: [&str; 3]| {
            let suite = xml.lines().find(|line| line.contains("<testsuite ")).unwrap();
            assert!(counts.iter().all(|count| suite.contains(count)), "{suite}");
        };
        has(&of(&trace, false), ["tests=\"3\"", "errors=\"0\"", "failures=\"0\""]);
        let xml = of(&trace, true);
        has(&xml, ["tests=\"4\"", "errors=\"0\"", "failures=\"2\""]);
        assert!(xml.contains("classname=\"cuda-pitfalls.trace\""), "{xml}");
        assert!(xml.contains("file=\"train.py\" line=\"52\""), "{xml}");
        assert!(xml.contains("workaround: torch.cuda.set_device(1) first"), "{xml}");
    }

    #[test]
    fn a_trace_without_an_end_is_an_error() {
        let mut trace = fixture::trace();
        trace.end = None;
        trace.start.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
        let xml = of(&trace, false);
        assert!(xml.contains("type=\"incomplete\"") && xml.contains("errors=\"1\""), "{xml}");
        assert!(xml.contains("classname=\"cuda-pitfalls.simulated.trace\""), "{xml}");
    }
}
