//! Test results for CI systems, in the dialect of Jenkins: one suite.

use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite, XmlString,
};

use super::{Findings, LIMIT, MachineFinding};
use cuda_pitfalls_core::text::escape::{escape_xml, shorten_text};

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestOutcome {
    Success,
    Skipped,
    Error,
    Failure,
}

/// Returns a file of one suite, with a test for each finding that is a test.
pub(crate) fn write_tests(findings: &Findings) -> String {
    let mut suite = TestSuite::new(escape_xml(&findings.name));
    for (name, value) in &findings.properties {
        suite.properties.push(xml_property(name, value));
    }
    for finding in &findings.list {
        if let Some(outcome) = finding.outcome {
            suite.add_test_case(test_case(outcome, finding));
        }
    }
    let mut file = Report::new("cuda-pitfalls");
    let at = findings.started_at.parse().ok();
    let took = Duration::from_nanos(findings.elapsed_ns);
    (suite.timestamp, file.timestamp) = (at, at);
    suite.set_time(took);
    file.set_time(took);
    file.add_test_suite(suite);
    #[expect(
        clippy::expect_used,
        reason = "memory takes every text, and this one is escaped"
    )]
    let text = file.to_string().expect("escaped text can be written");
    text.trim_end().to_owned() + "\n"
}

fn test_case(outcome: TestOutcome, finding: &MachineFinding) -> TestCase {
    let mut status = match outcome {
        TestOutcome::Success => TestCaseStatus::success(),
        TestOutcome::Skipped => TestCaseStatus::skipped(),
        TestOutcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        TestOutcome::Failure => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    status
        .set_type(escape_xml(&finding.sort))
        .set_message(shorten_text(&escape_xml(&finding.message), LIMIT));
    let mut case = TestCase::new(escape_xml(&finding.name), status);
    case.set_classname(escape_xml(&finding.class));
    case.time = finding.elapsed_ns.map(Duration::from_nanos);
    for (name, value) in &finding.properties {
        case.properties.push(xml_property(name, value));
    }
    let mut output = finding.output.clone();
    if let Some(place) = &finding.place {
        output.extend(place.remark().map(str::to_owned));
        let file = escape_xml(&place.file).into();
        case.extra.insert("file".into(), file);
        let line = place.line.map(|line| line.to_string().into());
        case.extra.extend(line.map(|line| ("line".into(), line)));
    }
    case.system_out = xml_lines(&output);
    case.system_err = xml_lines(&finding.stderr);
    case
}

fn xml_property(name: &str, value: &str) -> Property {
    Property::new(escape_xml(name), shorten_text(&escape_xml(value), LIMIT))
}

/// Returns lines of output; `None` if the list is empty.
fn xml_lines(lines: &[String]) -> Option<XmlString> {
    if lines.is_empty() {
        return None;
    }
    // Each line separately, so that a newline within a line is escaped.
    let lines: Vec<String> = lines.iter().map(|line| escape_xml(line)).collect();
    Some(shorten_text(&lines.join("\n"), 2 * LIMIT).into())
}
