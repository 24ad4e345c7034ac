//! Test results for CI systems, in the dialect of Jenkins: a suite per run, a test per scenario.
//!
//! An unexpected verdict is a failure. What could not be concluded is an error, because a test that did not measure has
//! not passed either. What does not apply to the machine is skipped. A file has a failure or an error exactly where the
//! run did not end with 0; what is about the run and not about a scenario has a test of its own.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report as Xml, TestCase, TestCaseStatus, TestSuite};

use cuda_pitfalls_answers::exit;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::verdict::Provenance;

use super::tally::{self, Standing};
use super::{applicable, facts, full, words};
use cuda_pitfalls_core::text::escape::{shorten, tail, xml};
use cuda_pitfalls_core::text::{lines, units};

/// Messages are cut to this many bytes, and output to twice as many, so that a file stays readable
/// for CI systems that load it whole.
const LIMIT: usize = 4096;

/// The whole file.
pub fn report(report: &ReportView<'_>) -> String {
    let mut suite = TestSuite::new(xml(&format!("cuda-pitfalls {}", report.run.id)));
    for (name, value) in properties(report) {
        suite.add_property(Property::new(name, xml(&value)));
    }
    suite.add_test_cases(about_the_run(report));
    suite.add_test_cases(report.scenarios.iter().map(|scenario| test_case(report, scenario)));
    file(suite, &report.run.started_at, report.run.elapsed_ns)
}

/// A file of one suite, which began then and took so long.
pub(super) fn file(mut suite: TestSuite, started_at: &str, elapsed_ns: u64) -> String {
    let mut file = Xml::new("cuda-pitfalls");
    let (at, took) = (started_at.parse().ok(), Duration::from_nanos(elapsed_ns));
    (suite.timestamp, file.timestamp) = (at, at);
    suite.set_time(took);
    file.set_time(took);
    file.add_test_suite(suite);
    // Writing to memory does not fail, and text without forbidden characters can be written.
    let mut text = file.to_string().unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn properties(report: &ReportView<'_>) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("provenance", words::provenance(report.provenance).to_owned()),
        ("complete", report.complete.to_string()),
        ("version", report.run.version.clone()),
        ("on", report.run.on.clone()),
        ("driver", report.machine.driver_version.clone().unwrap_or_else(|| "none".to_owned())),
        ("gpus", report.machine.gpus.len().to_string()),
    ];
    for gpu in &report.machine.gpus {
        properties.push(("gpu", format!("{} {}", gpu.uuid, gpu.name.as_deref().unwrap_or_default())));
    }
    properties.extend(report.machine.libcudart.iter().filter_map(|it| it.version.clone()).map(|it| ("libcudart", it)));
    properties.extend(words::labels(report.run).into_iter().map(|label| ("label", label)));
    properties.extend(tally::banners(report).into_iter().map(|banner| ("banner", banner)));
    properties.extend(applicable::notes(report).into_iter().map(|note| ("note", note)));
    properties.extend(report.run.warnings.iter().map(|warning| ("warning", warning.clone())));
    properties
}

/// The tests that stand for the run itself: a file without them would look like a smaller success.
fn about_the_run(report: &ReportView<'_>) -> Vec<TestCase> {
    let banners = tally::banners(report).join(" ");
    let mut cases = Vec::new();
    let mut add = |name: &str, kind: &str, wrong: Option<String>| {
        let status = wrong.map(|message| non_success(NonSuccessKind::Error, kind, &message));
        let mut case = TestCase::new(xml(name), status.unwrap_or_else(TestCaseStatus::success));
        case.set_classname(classname(report.provenance, "run"));
        cases.push(case);
    };
    if !report.complete || report.run.interrupted.is_some() {
        add("the run came to its end", "partial", Some(banners.clone()));
    }
    if exit::is_host_unsafe(report) {
        let why = report.run.host_unsafe.clone().unwrap_or_else(|| "a worker could not be killed".to_owned());
        add("the host is safe to go on with", "host_unsafe", Some(why));
    }
    if !report.scenarios.iter().any(exit::is_measured) {
        let why = applicable::report(report).unwrap_or_else(|| tally::sentence(report));
        add("the run measured something", "nothing_measured", Some(why));
    }
    for requirement in report.requirements() {
        let name = format!("--require {}={}", requirement.what.name(), requirement.wanted);
        add(&name, "require", requirement.is_unmet().then(|| requirement.sentence()));
    }
    cases
}

pub(super) fn non_success(kind: NonSuccessKind, sort: &str, message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(xml(sort)).set_message(shorten(&xml(message), LIMIT));
    status
}

/// `cuda-pitfalls.visibility`, or `cuda-pitfalls.simulated.visibility`.
pub(super) fn classname(provenance: Provenance, subject: &str) -> String {
    match provenance {
        Provenance::Measured => format!("cuda-pitfalls.{subject}"),
        Provenance::Simulated => format!("cuda-pitfalls.simulated.{subject}"),
    }
}

fn test_case(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> TestCase {
    let verdict = &scenario.verdict;
    let mut status = match Standing::of(verdict) {
        Standing::Unexpected => TestCaseStatus::non_success(NonSuccessKind::Failure),
        // A simulated machine that does not model a call says nothing about it.
        Standing::Inconclusive if exit::is_unmodelled(verdict) => TestCaseStatus::skipped(),
        Standing::Skipped if exit::is_missed(report, scenario) => TestCaseStatus::non_success(NonSuccessKind::Error),
        Standing::Inconclusive | Standing::HarnessError => TestCaseStatus::non_success(NonSuccessKind::Error),
        Standing::Skipped => TestCaseStatus::skipped(),
        Standing::AsExpected | Standing::Answered => TestCaseStatus::success(),
    };
    let mut message = vec![facts::verdict(verdict)];
    message.extend(verdict.unexpected.iter().cloned());
    if !verdict.detail.is_empty() {
        message.push(verdict.detail.clone());
    }
    status
        .set_type(verdict.reason.map_or_else(|| verdict.kind.name().to_owned(), |reason| reason.name()))
        .set_message(shorten(&xml(&message.join("; ")), LIMIT));
    let name = match facts::libcudart(scenario) {
        Some(runtime) => format!("{} ({runtime})", scenario.name),
        None => scenario.name.to_owned(),
    };
    let mut case = TestCase::new(xml(&name), status);
    let subject = scenario.scenario.split('/').next().unwrap_or_default();
    case.set_classname(xml(&classname(verdict.provenance, subject)));
    let wall_ns = scenario.cases.iter().flat_map(|case| case.attempts).map(|attempt| attempt.recording.wall_ns);
    case.set_time(Duration::from_nanos(wall_ns.fold(0, u64::saturating_add)));
    for (name, value) in [
        ("verdict", verdict.kind.name()),
        ("expectation", verdict.expectation.name()),
        ("provenance", words::provenance(verdict.provenance)),
        ("question", scenario.question),
        ("sha256", scenario.sha256),
    ] {
        case.add_property(Property::new(name, xml(value)));
    }
    for (gpu, case_name, bytes) in memory(scenario) {
        let name = xml(&format!("memory of {gpu} in {case_name}"));
        case.add_property(Property::new(name, units::delta_or_unread(bytes)));
    }
    // What the terminal shows; its lines cannot be taken for commands of a CI system.
    case.set_system_out(shorten(&full::scenario(scenario, lines::WIDTH, full::Style::Plain), 2 * LIMIT));
    let said: String = scenario
        .cases
        .iter()
        .filter_map(facts::example)
        .map(|attempt| tail(&attempt.recording.stderr_tail, LIMIT / 2))
        .collect();
    if !said.is_empty() {
        case.set_system_err(shorten(&said, 2 * LIMIT));
    }
    case
}

/// The change of largest size on each GPU, case by case.
fn memory<'r>(scenario: &ScenarioView<'r>) -> Vec<(String, &'r str, Option<i64>)> {
    let tops = scenario.cases.iter().filter_map(|case| Some((case.name, case.outcomes.first()?)));
    tops.flat_map(|(name, top)| top.largest_change().into_iter().map(move |(gpu, bytes)| (gpu, name, bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_answers::exit::Exit;
    use cuda_pitfalls_answers::exit::fixture::{BITS, Came, made};
    use cuda_pitfalls_core::judge::fixture::scenario;
    use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason};

    fn counts(xml: &str) -> Vec<&str> {
        let suite = xml.lines().find(|line| line.contains("<testsuite ")).unwrap();
        ["tests=\"", "errors=\"", "failures=\"", "skipped=\"", "disabled=\""]
            .into_iter()
            .filter_map(|name| suite.split_once(name).and_then(|(_, rest)| rest.split('"').next()))
            .collect()
    }

    #[test]
    fn verdicts_become_failures_errors_and_skips() {
        let xml = report(&fixture::report().view());
        assert_eq!(counts(&xml)[..3], ["4", "1", "1"], "{xml}");
        assert!(xml.contains("<failure message=\"not_reproduced; expected reproduced"), "{xml}");
        assert!(xml.contains("<skipped message=\"skipped: too_few_gpus"), "{xml}");
        assert!(xml.contains("classname=\"cuda-pitfalls.visibility\""), "{xml}");
    }

    #[test]
    fn simulated_results_are_in_a_class_of_their_own() {
        let xml = report(&fixture::simulated().view());
        assert!(xml.contains("classname=\"cuda-pitfalls.simulated.visibility\""), "{xml}");
        assert!(xml.contains("<property name=\"provenance\" value=\"simulated\"/>"), "{xml}");
        assert!(!xml.contains("classname=\"cuda-pitfalls.visibility\""), "{xml}");
    }

    /// A CI system that reads JUnit and one that reads the exit code come to the same conclusion.
    #[test]
    fn junit_has_a_failure_exactly_where_the_exit_code_is_not_zero() {
        let mut seen = std::collections::BTreeSet::new();
        for bits in (0..1u32 << BITS).filter(|bits| bits.count_ones() <= 3) {
            let report = made(Came(bits));
            let exit = Exit::of_report(&report.view());
            let xml = super::report(&report.view());
            let fails = xml.contains("<failure") || xml.contains("<error");
            // A run that was stopped without a reason is a fault of the harness, whatever it has.
            assert_eq!(fails, exit != Exit::Ok, "{bits:015b} ends with {exit:?}:\n{xml}");
            seen.insert(exit.code());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 3, 4, 5, 6, 70, 130, 143]);
    }

    #[test]
    fn junit_agrees_on_what_the_simulated_machine_does_not_model() {
        use ExpectationMet::{AsExpected, NoExpectation};
        let mut unknown = scenario(Kind::Inconclusive, Some(Reason::NotModelled), NoExpectation, 1);
        unknown.verdict.provenance = cuda_pitfalls_core::verdict::Provenance::Simulated;
        let fine = scenario(Kind::Reproduced, None, AsExpected, 2);
        for (scenarios, exit) in [(vec![fine, unknown.clone()], Exit::Ok), (vec![unknown], Exit::Inconclusive)] {
            let report = cuda_pitfalls_core::judge::fixture::report(scenarios, true);
            assert_eq!(Exit::of_report(&report.view()), exit);
            assert_eq!(super::report(&report.view()).contains("<error"), exit != Exit::Ok);
        }
    }
}
