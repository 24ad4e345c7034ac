//! The findings of a report for machine-readable formats: one for each question, and those about the run itself.

use std::collections::HashMap;

use super::health::report_health;
use super::machine::junit::TestOutcome;
use super::machine::prometheus::{Labels, Metric, Sample};
use super::machine::{Findings, Level, MachineFinding};
use super::tally::{self, Standing};
use super::{applicable, facts, full, words};
use cuda_pitfalls_answers::exit;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::quote_tail;
use cuda_pitfalls_core::text::{lines, units};

/// Output of a worker is cut to this many bytes.
const TAIL: usize = 2048;

const TITLE: &str = "cuda-pitfalls";

/// Every metric of a report, in the order of the file.
const METRICS: &[Metric] = &[
    ("scenario_verdict", "Verdict of a scenario; always 1."),
    ("outcome_attempts", "Attempts of a case with this outcome."),
    (
        "case_used_bytes",
        "Largest change in used memory at any step of a case.",
    ),
    ("run_complete", "1 if the last run finished."),
    (
        "run_compact",
        "1 if the last report is compact, so its stored verdicts are used.",
    ),
    (
        "verdicts_changed",
        "Stored verdicts that the recordings of the last report do not confirm.",
    ),
    (
        "last_run_timestamp_seconds",
        "End of the last run, or its start if it did not end.",
    ),
    ("gpus", "GPUs that NVML lists."),
    (
        "health",
        "0: as expected; 1: unexpected, or a GPU or its driver is lost; 2: inconclusive.",
    ),
    (
        "build_info",
        "Version of cuda-pitfalls and of the driver; always 1.",
    ),
];

/// Returns the findings of a report: warnings first, then tests that represent the run, and a test for each question.
///
/// An unexpected verdict is a failure. An inconclusive one is an error, because a test that did not measure has not
/// passed either. A question that does not apply to the machine is skipped. A list has a failure or an error if and
/// only if the run did not end with 0; a problem of the run rather than of a scenario has its own test.
pub(super) fn report_findings(report: &ReportView<'_>) -> Findings {
    let mut list = run_remarks(report);
    list.extend(run_tests(report));
    let labels = scenario_labels(report);
    for (scenario, labels) in report.scenarios.iter().zip(labels) {
        list.push(question_finding(report, scenario, &labels));
    }
    Findings {
        name: format!("cuda-pitfalls {}", report.run.id),
        started_at: report.run.started_at.clone(),
        elapsed_ns: report.run.elapsed_ns,
        properties: run_properties(report),
        metrics: METRICS,
        samples: run_samples(report),
        list,
    }
}

fn run_properties(report: &ReportView<'_>) -> Vec<(&'static str, String)> {
    let (run, machine) = (report.run, report.machine);
    let driver = machine.driver_version.as_deref().unwrap_or("none");
    let mut properties = vec![
        (
            "provenance",
            words::provenance(report.provenance).to_owned(),
        ),
        ("complete", report.complete.to_string()),
        ("version", run.version.clone()),
        ("on", run.on.clone()),
        ("driver", driver.to_owned()),
        ("gpus", machine.gpus.len().to_string()),
    ];
    for gpu in &machine.gpus {
        let name = gpu.name.as_deref().unwrap_or_default();
        properties.push(("gpu", format!("{} {name}", gpu.uuid)));
    }
    for runtime in &machine.libcudart {
        properties.extend(
            runtime
                .version
                .clone()
                .map(|version| ("libcudart", version)),
        );
    }
    let lists = [
        ("label", words::label_list(run)),
        ("nonce", run.nonce.iter().cloned().collect()),
        ("banner", tally::warning_banners(report)),
        ("note", applicable::not_run_notes(report)),
        ("warning", run.warnings.clone()),
    ];
    for (name, values) in lists {
        properties.extend(values.into_iter().map(|value| (name, value)));
    }
    properties
}

/// Returns the remarks before the questions, such as one for all questions that do not apply here.
fn run_remarks(report: &ReportView<'_>) -> Vec<MachineFinding> {
    let mut list = Vec::new();
    let banner_level = if report.complete {
        Level::Warning
    } else {
        Level::Error
    };
    for banner in tally::warning_banners(report) {
        list.push(MachineFinding::new_remark(
            banner_level,
            TITLE,
            vec![banner],
        ));
    }
    let standings = report
        .scenarios
        .iter()
        .map(|scenario| Standing::new(scenario.verdict));
    let level = standings.max().map_or(Level::Warning, standing_level);
    let counts = tally::sentence(report);
    list.push(MachineFinding::new_remark(level, TITLE, vec![counts]));
    for note in applicable::not_run_notes(report) {
        list.push(MachineFinding::new_remark(Level::Note, TITLE, vec![note]));
    }
    for warning in &report.run.warnings {
        let lines = vec![warning.clone()];
        list.push(MachineFinding::new_remark(
            Level::Warning,
            "cuda-pitfalls: warning",
            lines,
        ));
    }
    list
}

/// Returns the tests that represent the run itself: a file without them would look like a smaller success.
fn run_tests(report: &ReportView<'_>) -> Vec<MachineFinding> {
    let test = |name: &str| MachineFinding::new_test(report.provenance, "run", name);
    let mut tests = Vec::new();
    if !report.complete || report.run.interrupted.is_some() {
        let banners = tally::warning_banners(report).join(" ");
        tests.push(test("the run finished").with_error("partial", &banners));
    }
    if exit::is_host_unsafe(report) {
        let why = report.run.host_unsafe.as_deref();
        let why = why.unwrap_or("a worker could not be killed");
        tests.push(test("the host is safe for further runs").with_error("host_unsafe", why));
    }
    if !report.scenarios.iter().any(exit::is_measured) {
        let why = applicable::report(report).unwrap_or_else(|| tally::sentence(report));
        tests.push(test("the run measured something").with_error("nothing_measured", &why));
    }
    for requirement in report.requirements() {
        let (what, wanted) = (requirement.what.name(), requirement.wanted);
        let test = test(&format!("--require {what}={wanted}"));
        if requirement.is_unmet() {
            tests.push(test.with_error("require", &requirement.sentence()));
        } else {
            tests.push(test);
        }
    }
    tests
}

fn question_finding(
    report: &ReportView<'_>,
    scenario: &ScenarioView<'_>,
    labels: &Labels,
) -> MachineFinding {
    let verdict = scenario.verdict;
    let answer = facts::verdict(verdict);
    let sort = match verdict.reason {
        Some(reason) => reason.name(),
        None => verdict.kind.name().to_owned(),
    };
    let mut message = vec![answer.clone()];
    message.extend(verdict.unexpected.iter().cloned());
    if !verdict.detail.is_empty() {
        message.push(verdict.detail.clone());
    }
    let mut name = scenario.name.to_owned();
    if let Some(runtime) = facts::libcudart(scenario) {
        name += &format!(" ({runtime})");
    }
    let (mut elapsed_ns, mut stderr) = (0_u64, String::new());
    for case in &scenario.cases {
        for attempt in case.attempts {
            elapsed_ns = elapsed_ns.saturating_add(attempt.recording.wall_ns);
        }
        if let Some(attempt) = facts::example_attempt(case) {
            stderr += &quote_tail(&attempt.recording.stderr_tail, TAIL);
        }
    }
    let subject = scenario.scenario.split('/').next().unwrap_or_default();
    MachineFinding {
        outcome: Some(question_outcome(report, scenario)),
        level: question_level(report, scenario),
        rank: question_rank(Standing::new(verdict)),
        sort,
        title: format!("{}: {answer}", scenario.name),
        message: message.join("; "),
        lines: question_lines(scenario),
        elapsed_ns: Some(elapsed_ns),
        properties: question_properties(scenario),
        samples: question_samples(scenario, labels),
        output: split_lines(&full::scenario(scenario, lines::WIDTH)),
        stderr: split_lines(&stderr),
        ..MachineFinding::new_test(verdict.provenance, subject, &name)
    }
}

fn question_outcome(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> TestOutcome {
    match Standing::new(scenario.verdict) {
        Standing::Unexpected => TestOutcome::Failure,
        // A simulated machine that does not model a call says nothing about it.
        Standing::Inconclusive if exit::is_unmodelled(scenario.verdict) => TestOutcome::Skipped,
        Standing::Skipped if exit::is_missed(report, scenario) => TestOutcome::Error,
        Standing::Inconclusive | Standing::HarnessError => TestOutcome::Error,
        Standing::Skipped => TestOutcome::Skipped,
        Standing::AsExpected | Standing::Answered => TestOutcome::Success,
    }
}

/// Returns `None` if the question is answered, or if it does not apply here: a remark covers all such questions.
fn question_level(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> Option<Level> {
    let standing = Standing::new(scenario.verdict);
    if standing <= Standing::Answered || scenario.is_not_applicable() {
        return None;
    }
    if exit::is_missed(report, scenario) {
        return Some(Level::Error);
    }
    Some(standing_level(standing))
}

fn standing_level(standing: Standing) -> Level {
    match standing {
        Standing::Unexpected | Standing::HarnessError => Level::Error,
        Standing::Inconclusive => Level::Warning,
        Standing::AsExpected | Standing::Answered | Standing::Skipped => Level::Note,
    }
}

/// Returns the rank of a question: after the findings about the run, the worst first.
fn question_rank(standing: Standing) -> u8 {
    match standing {
        Standing::Unexpected => 1,
        Standing::HarnessError => 2,
        Standing::Inconclusive => 3,
        Standing::Skipped => 4,
        Standing::Answered | Standing::AsExpected => 5,
    }
}

fn question_lines(scenario: &ScenarioView<'_>) -> Vec<String> {
    let mut lines = vec![scenario.question.to_owned()];
    for failed in &scenario.verdict.unexpected {
        lines.push(format!("unexpected: {failed}"));
    }
    lines.push(scenario.verdict.detail.clone());
    for case in &scenario.cases {
        let facts = facts::case_line(scenario, case).join(" · ");
        let frequency = facts::outcome_frequency(case);
        lines.push(format!("{} {frequency}: {facts}", case.name));
    }
    lines
}

/// Returns the properties of a question, with the change of largest size in each case on each GPU.
fn question_properties(scenario: &ScenarioView<'_>) -> Vec<(String, String)> {
    let verdict = scenario.verdict;
    let properties = [
        ("verdict", verdict.kind.name()),
        ("expectation", verdict.expectation.name()),
        ("provenance", words::provenance(verdict.provenance)),
        ("question", scenario.question),
        ("sha256", scenario.sha256),
    ];
    let mut properties = properties
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    for case in &scenario.cases {
        let Some(outcome) = case.outcomes.first() else {
            continue;
        };
        for (gpu, bytes) in outcome.largest_change() {
            let name = format!("memory of {gpu} in {}", case.name);
            properties.push((name, units::delta_or_unread(bytes)));
        }
    }
    properties
}

/// Returns the lines of a text. If the text ends with a newline, the last line is empty.
fn split_lines(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split('\n').map(str::to_owned).collect()
}

/// Returns labels that distinguish each scenario from all others: a collector rejects a file where a series occurs
/// twice, and one scenario may have run on several libcudarts.
fn scenario_labels(report: &ReportView<'_>) -> Vec<Labels> {
    let mut seen: HashMap<(&str, String), u32> = HashMap::new();
    let mut all = Vec::new();
    for scenario in &report.scenarios {
        let runtime = scenario.libcudart.as_ref();
        let mut version = runtime
            .and_then(|runtime| runtime.version.clone())
            .unwrap_or_default();
        let times = seen.entry((scenario.name, version.clone())).or_default();
        *times += 1;
        if *times > 1 {
            version += &format!("#{times}");
        }
        all.push(vec![
            ("scenario", scenario.name.to_owned()),
            ("libcudart", version),
        ]);
    }
    all
}

fn question_samples(scenario: &ScenarioView<'_>, labels: &Labels) -> Vec<Sample> {
    let with = |more: &[(&'static str, &str)]| {
        let mut all = labels.clone();
        all.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        all
    };
    let verdict = scenario.verdict;
    let answer = with(&[
        ("verdict", verdict.kind.name()),
        ("expectation", verdict.expectation.name()),
        ("provenance", words::provenance(verdict.provenance)),
    ]);
    let mut samples = vec![Sample::new("scenario_verdict", answer, 1)];
    for case in &scenario.cases {
        // Outcomes are labeled by their index, most frequent first, so that the number of series stays bounded.
        let mut counted = 0;
        for (index, outcome) in case.outcomes.iter().enumerate() {
            let labels = with(&[("case", case.name), ("outcome", &index.to_string())]);
            samples.push(Sample::new("outcome_attempts", labels, outcome.count));
            counted += outcome.count as usize;
        }
        let labels = with(&[("case", case.name), ("outcome", "not_counted")]);
        let others = case.made.saturating_sub(counted);
        samples.push(Sample::new("outcome_attempts", labels, others));
        let (Some(plan), Some(outcome)) = (&scenario.plan, case.outcomes.first()) else {
            continue;
        };
        let changes = outcome.largest_change();
        for uuid in &plan.gpus {
            let Some(name) = plan.gpu_name(uuid) else {
                continue;
            };
            let change = changes.iter().find(|(gpu, _)| *gpu == name);
            if let Some((_, Some(bytes))) = change {
                let labels = with(&[("case", case.name), ("uuid", uuid)]);
                samples.push(Sample::new("case_used_bytes", labels, bytes));
            }
        }
    }
    samples
}

/// Returns the metrics of the run.
fn run_samples(report: &ReportView<'_>) -> Vec<Sample> {
    let (run, machine) = (report.run, report.machine);
    let (code, why) = report_health(report);
    let driver = machine.driver_version.clone().unwrap_or_default();
    let build = vec![("version", run.version.clone()), ("driver", driver)];
    let mut samples = vec![
        Sample::figure("run_complete", u8::from(report.complete)),
        Sample::figure("run_compact", u8::from(report.is_compact)),
        Sample::figure("verdicts_changed", report.changed.len()),
        Sample::figure("gpus", machine.gpus.len()),
        Sample::new("health", vec![("why", why)], code),
        Sample::new("build_info", build, 1),
    ];
    let at = run.finished_at.as_ref().unwrap_or(&run.started_at);
    samples.extend(Sample::time("last_run_timestamp_seconds", at));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::machine::{github, junit, prometheus};
    use cuda_pitfalls_answers::exit::Exit;
    use cuda_pitfalls_answers::exit::fixture::{BITS, Came, made};
    use cuda_pitfalls_core::judge::fixture::scenario;
    use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason};

    fn junit_file(report: &ReportView<'_>) -> String {
        junit::write_tests(&report_findings(report))
    }

    fn github_annotations(report: &ReportView<'_>) -> String {
        github::write_annotations(&report_findings(report))
    }

    fn prometheus_file(report: &ReportView<'_>) -> String {
        prometheus::write_samples(&report_findings(report))
    }

    fn counts(xml: &str) -> Vec<&str> {
        let suite = xml
            .lines()
            .find(|line| line.contains("<testsuite "))
            .unwrap();
        [
            "tests=\"",
            "errors=\"",
            "failures=\"",
            "skipped=\"",
            "disabled=\"",
        ]
        .into_iter()
        .filter_map(|name| {
            suite
                .split_once(name)
                .and_then(|(_, rest)| rest.split('"').next())
        })
        .collect()
    }

    #[test]
    fn verdicts_become_failures_errors_and_skips() {
        let xml = junit_file(&fixture::report().view());
        assert_eq!(counts(&xml)[..3], ["4", "1", "1"], "{xml}");
        assert!(
            xml.contains("<failure message=\"not_reproduced; expected reproduced"),
            "{xml}"
        );
        assert!(
            xml.contains("<skipped message=\"skipped: too_few_gpus"),
            "{xml}"
        );
        assert!(
            xml.contains("classname=\"cuda-pitfalls.visibility\""),
            "{xml}"
        );
    }

    #[test]
    fn simulated_results_are_in_a_class_of_their_own() {
        let xml = junit_file(&fixture::simulated().view());
        assert!(
            xml.contains("classname=\"cuda-pitfalls.simulated.visibility\""),
            "{xml}"
        );
        assert!(
            xml.contains("<property name=\"provenance\" value=\"simulated\"/>"),
            "{xml}"
        );
        assert!(
            !xml.contains("classname=\"cuda-pitfalls.visibility\""),
            "{xml}"
        );
    }

    /// A CI system that reads JUnit and one that reads the exit code come to the same conclusion.
    #[test]
    fn junit_has_a_failure_exactly_where_the_exit_code_is_not_zero() {
        let mut seen = std::collections::BTreeSet::new();
        for bits in (0..1u32 << BITS).filter(|bits| bits.count_ones() <= 3) {
            let report = made(Came(bits));
            let exit = Exit::from_report(&report.view());
            let xml = junit_file(&report.view());
            let fails = xml.contains("<failure") || xml.contains("<error");
            // A run that was stopped without a reason is a fault of the harness, regardless of its content.
            assert_eq!(
                fails,
                exit != Exit::Ok,
                "{bits:015b} ends with {exit:?}:\n{xml}"
            );
            seen.insert(exit.code());
        }
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            [0, 1, 3, 4, 5, 6, 70, 130, 143]
        );
    }

    #[test]
    fn junit_agrees_on_what_the_simulated_machine_does_not_model() {
        use ExpectationMet::{AsExpected, NoExpectation};
        let mut unknown = scenario(
            Kind::Inconclusive,
            Some(Reason::NotModelled),
            NoExpectation,
            1,
        );
        unknown.verdict.provenance = Provenance::Simulated;
        let fine = scenario(Kind::Reproduced, None, AsExpected, 2);
        for (scenarios, exit) in [
            (vec![fine, unknown.clone()], Exit::Ok),
            (vec![unknown], Exit::Inconclusive),
        ] {
            let report = cuda_pitfalls_core::judge::fixture::report(scenarios, true);
            assert_eq!(Exit::from_report(&report.view()), exit);
            assert_eq!(
                junit_file(&report.view()).contains("<error"),
                exit != Exit::Ok
            );
        }
    }

    #[test]
    fn the_summary_comes_first_and_the_worst_next() {
        let lines = github_annotations(&fixture::report().view());
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            lines[0],
            "::error title=cuda-pitfalls::1 as expected, 1 skipped, 1 inconclusive, 1 unexpected"
        );
        assert_eq!(
            lines[1], "::notice title=cuda-pitfalls::not applicable here: 1 (1 needs too few gpus)",
            "what does not apply is one line"
        );
        assert!(
            lines[2].starts_with(
                "::error title=context/set-device-makes-no-context%3A not_reproduced::Does CUDA"
            ),
            "{lines:?}"
        );
        assert!(
            lines[3]
                .starts_with("::warning title=memory/heap-growth[limit=64 MiB]%3A inconclusive"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 4, "what is as expected has no line");
        assert!(
            github_annotations(&fixture::partial().view())
                .starts_with("::error title=cuda-pitfalls::PARTIAL")
        );
    }

    #[test]
    fn samples_are_named_and_labelled() {
        let file = prometheus_file(&fixture::report().view());
        for line in [
            "cuda_pitfalls_scenario_verdict{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",\
             verdict=\"reproduced\",expectation=\"as_expected\",provenance=\"measured\"} 1",
            "cuda_pitfalls_outcome_attempts{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",case=\"trap\",\
             outcome=\"0\"} 3",
            "cuda_pitfalls_case_used_bytes{scenario=\"visibility/mask-after-count\",libcudart=\"13.0\",case=\"trap\",\
             uuid=\"GPU-8b6c2f00-0000-4000-8000-00000000000a\"} 555745280",
            "cuda_pitfalls_run_complete 1",
            "cuda_pitfalls_health{why=\"1/4 unexpected: not_reproduced, context/set-device-makes-no-context\"} 1",
            "cuda_pitfalls_last_run_timestamp_seconds 1763654473",
            "cuda_pitfalls_build_info{version=\"0.1.0\",driver=\"580.159.04\"} 1",
        ] {
            assert!(file.lines().any(|found| found == line), "{line}\n{file}");
        }
        assert!(file.ends_with("} 1\n"));
    }

    #[test]
    fn no_series_occurs_twice_and_every_line_is_well_formed() {
        let mut twice = fixture::hostile();
        twice.scenarios.extend(twice.scenarios.clone());
        fixture::assert_metrics(&prometheus_file(&twice.view()), "cuda_pitfalls_");
    }
}
