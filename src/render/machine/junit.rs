//! Test results for CI systems, in the dialect of Jenkins: one suite.

use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite, XmlString,
};

use super::{BESIDE, LIMIT, UserLine};
use cuda_pitfalls_core::text::escape::{escape_xml, shorten_text};
use cuda_pitfalls_core::verdict::Provenance;

/// What became of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TestOutcome {
    #[default]
    Success,
    Skipped,
    Error,
    Failure,
}

/// A test: a scenario, what is forbidden, what a rule found, or something about the run itself.
#[derive(Default)]
pub(crate) struct TestResult {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) outcome: TestOutcome,
    /// A word for the sort of outcome, and a sentence; neither is shown of a success.
    pub(crate) sort: String,
    pub(crate) message: String,
    pub(crate) place: Option<UserLine>,
    pub(crate) elapsed_ns: Option<u64>,
    pub(crate) properties: Vec<(String, String)>,
    /// Lines of output.
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
}

impl TestResult {
    /// A success. Its class is that of a subject: `cuda-pitfalls.visibility`, or `cuda-pitfalls.simulated.visibility`.
    pub(crate) fn new(provenance: Provenance, subject: &str, name: &str) -> TestResult {
        let simulated = if provenance == Provenance::Simulated {
            ".simulated"
        } else {
            ""
        };
        TestResult {
            name: name.to_owned(),
            class: format!("cuda-pitfalls{simulated}.{subject}"),
            ..TestResult::default()
        }
    }

    pub(crate) fn with(self, outcome: TestOutcome, sort: &str, message: &str) -> TestResult {
        TestResult {
            outcome,
            sort: sort.to_owned(),
            message: message.to_owned(),
            ..self
        }
    }

    fn written(self) -> TestCase {
        let mut status = match self.outcome {
            TestOutcome::Success => TestCaseStatus::success(),
            TestOutcome::Skipped => TestCaseStatus::skipped(),
            TestOutcome::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
            TestOutcome::Failure => TestCaseStatus::non_success(NonSuccessKind::Failure),
        };
        status
            .set_type(escape_xml(&self.sort))
            .set_message(shorten_text(&escape_xml(&self.message), LIMIT));
        let mut case = TestCase::new(escape_xml(&self.name), status);
        case.set_classname(escape_xml(&self.class));
        case.time = self.elapsed_ns.map(Duration::from_nanos);
        if let Some(UserLine { file, line, .. }) = &self.place {
            case.extra.insert("file".into(), escape_xml(file).into());
            case.extra
                .extend(line.map(|line| ("line".into(), line.to_string().into())));
        }
        case.properties
            .extend(self.properties.iter().map(xml_property));
        let beside = self
            .place
            .as_ref()
            .is_some_and(|place| place.is_beside)
            .then(|| BESIDE.to_owned());
        case.system_out = output(
            &self
                .stdout
                .iter()
                .cloned()
                .chain(beside)
                .collect::<Vec<_>>(),
        );
        case.system_err = output(&self.stderr);
        case
    }
}

fn xml_property((name, value): &(String, String)) -> Property {
    Property::new(escape_xml(name), shorten_text(&escape_xml(value), LIMIT))
}

fn output(lines: &[String]) -> Option<XmlString> {
    let text = lines
        .iter()
        .map(|line| escape_xml(line))
        .collect::<Vec<_>>()
        .join("\n");
    (!lines.is_empty()).then(|| shorten_text(&text, 2 * LIMIT).into())
}

/// A file of one suite, which began then and took so long.
pub(crate) fn file(
    name: &str,
    (started_at, elapsed_ns): (&str, u64),
    properties: &[(String, String)],
    cases: Vec<TestResult>,
) -> String {
    let mut suite = TestSuite::new(escape_xml(name));
    suite.properties.extend(properties.iter().map(xml_property));
    suite.add_test_cases(cases.into_iter().map(TestResult::written));
    let mut file = Report::new("cuda-pitfalls");
    let (at, took) = (started_at.parse().ok(), Duration::from_nanos(elapsed_ns));
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
