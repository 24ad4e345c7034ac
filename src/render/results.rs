//! What programs are told of a report: tests, annotations and metrics.

use std::collections::HashMap;

use super::health::report_health;
use super::machine::github::format_annotation;
use super::machine::junit::{self, TestOutcome, TestResult};
use super::machine::prometheus::{Sample, time, write_family, write_figure};
use super::tally::{self, Standing};
use super::writer::terminal::Style;
use super::{applicable, facts, full, words};
use cuda_pitfalls_answers::exit;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::escape::quote_tail;
use cuda_pitfalls_core::text::{lines, units};

/// Output of a worker is cut to this many bytes.
const TAIL: usize = 2048;

/// Test results: a suite per run, a test per scenario.
///
/// An unexpected verdict is a failure. What could not be concluded is an error, because a test that did not measure has
/// not passed either. What does not apply to the machine is skipped. A file has a failure or an error exactly where the
/// run did not end with 0; what is about the run and not about a scenario has a test of its own.
pub(super) fn junit_file(report: &ReportView<'_>) -> String {
    let mut cases = about_the_run(report);
    cases.extend(
        report
            .scenarios
            .iter()
            .map(|scenario| case(report, scenario)),
    );
    let name = format!("cuda-pitfalls {}", report.run.id);
    junit::file(
        &name,
        (&report.run.started_at, report.run.elapsed_ns),
        &suite_properties(report),
        cases,
    )
}

fn suite_properties(report: &ReportView<'_>) -> Vec<(String, String)> {
    let mut properties = vec![
        (
            "provenance",
            words::provenance(report.provenance).to_owned(),
        ),
        ("complete", report.complete.to_string()),
        ("version", report.run.version.clone()),
        ("on", report.run.on.clone()),
        (
            "driver",
            report
                .machine
                .driver_version
                .clone()
                .unwrap_or_else(|| "none".to_owned()),
        ),
        ("gpus", report.machine.gpus.len().to_string()),
    ];
    for gpu in &report.machine.gpus {
        properties.push((
            "gpu",
            format!("{} {}", gpu.uuid, gpu.name.as_deref().unwrap_or_default()),
        ));
    }
    properties.extend(
        report
            .machine
            .libcudart
            .iter()
            .filter_map(|it| it.version.clone())
            .map(|it| ("libcudart", it)),
    );
    properties.extend(
        words::label_list(report.run)
            .into_iter()
            .map(|label| ("label", label)),
    );
    properties.extend(
        report
            .run
            .nonce
            .iter()
            .map(|nonce| ("nonce", nonce.clone())),
    );
    properties.extend(
        tally::warning_banners(report)
            .into_iter()
            .map(|banner| ("banner", banner)),
    );
    properties.extend(
        applicable::not_run_notes(report)
            .into_iter()
            .map(|note| ("note", note)),
    );
    properties.extend(
        report
            .run
            .warnings
            .iter()
            .map(|warning| ("warning", warning.clone())),
    );
    properties
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The tests that stand for the run itself: a file without them would look like a smaller success.
fn about_the_run(report: &ReportView<'_>) -> Vec<TestResult> {
    let mut cases = Vec::new();
    if !report.complete || report.run.interrupted.is_some() {
        cases.push(run_error(
            report,
            "the run came to its end",
            "partial",
            &tally::warning_banners(report).join(" "),
        ));
    }
    if exit::is_host_unsafe(report) {
        let why = report
            .run
            .host_unsafe
            .as_deref()
            .unwrap_or("a worker could not be killed");
        cases.push(run_error(
            report,
            "the host is safe to go on with",
            "host_unsafe",
            why,
        ));
    }
    if !report.scenarios.iter().any(exit::is_measured) {
        let why = applicable::report(report).unwrap_or_else(|| tally::sentence(report));
        cases.push(run_error(
            report,
            "the run measured something",
            "nothing_measured",
            &why,
        ));
    }
    cases.extend(report.requirements().into_iter().map(|requirement| {
        let name = format!(
            "--require {}={}",
            requirement.what.name(),
            requirement.wanted
        );
        match requirement.is_unmet() {
            true => run_error(report, &name, "require", &requirement.sentence()),
            false => TestResult::new(report.provenance, "run", &name),
        }
    }));
    cases
}

fn run_error(report: &ReportView<'_>, name: &str, sort: &str, message: &str) -> TestResult {
    TestResult::new(report.provenance, "run", name).with(TestOutcome::Error, sort, message)
}

fn case(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> TestResult {
    let verdict = &scenario.verdict;
    let outcome = match Standing::new(verdict) {
        Standing::Unexpected => TestOutcome::Failure,
        // A simulated machine that does not model a call says nothing about it.
        Standing::Inconclusive if exit::is_unmodelled(verdict) => TestOutcome::Skipped,
        Standing::Skipped if exit::is_missed(report, scenario) => TestOutcome::Error,
        Standing::Inconclusive | Standing::HarnessError => TestOutcome::Error,
        Standing::Skipped => TestOutcome::Skipped,
        Standing::AsExpected | Standing::Answered => TestOutcome::Success,
    };
    let mut message = vec![facts::verdict(verdict)];
    message.extend(verdict.unexpected.iter().cloned());
    if !verdict.detail.is_empty() {
        message.push(verdict.detail.clone());
    }
    let sort = verdict
        .reason
        .map_or_else(|| verdict.kind.name().to_owned(), |reason| reason.name());
    let runtime = facts::libcudart(scenario)
        .map(|runtime| format!(" ({runtime})"))
        .unwrap_or_default();
    let name = format!("{}{runtime}", scenario.name);
    let subject = scenario.scenario.split('/').next().unwrap_or_default();
    let attempts = scenario.cases.iter().flat_map(|case| case.attempts);
    let properties = [
        ("verdict".to_owned(), verdict.kind.name()),
        ("expectation".to_owned(), verdict.expectation.name()),
        (
            "provenance".to_owned(),
            words::provenance(verdict.provenance),
        ),
        ("question".to_owned(), scenario.question),
        ("sha256".to_owned(), scenario.sha256),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    let examples = scenario.cases.iter().filter_map(facts::example_attempt);
    let stderr: String = examples
        .map(|attempt| quote_tail(&attempt.recording.stderr_tail, TAIL))
        .collect();
    TestResult {
        elapsed_ns: Some(
            attempts
                .map(|attempt| attempt.recording.wall_ns)
                .fold(0, u64::saturating_add),
        ),
        properties: properties.into_iter().chain(memory(scenario)).collect(),
        // What the terminal shows.
        stdout: output(&full::scenario(scenario, lines::WIDTH, Style::Plain)),
        stderr: output(&stderr),
        ..TestResult::new(verdict.provenance, subject, &name).with(
            outcome,
            &sort,
            &message.join("; "),
        )
    }
}

fn output(text: &str) -> Vec<String> {
    if text.is_empty() {
        Vec::new()
    } else {
        text.split('\n').map(str::to_owned).collect()
    }
}

/// The change of largest size on each GPU, case by case.
fn memory(scenario: &ScenarioView<'_>) -> Vec<(String, String)> {
    let tops = scenario
        .cases
        .iter()
        .filter_map(|case| Some((case.name, case.outcomes.first()?.largest_change())));
    let changes = tops.flat_map(|(case, changes)| {
        changes
            .into_iter()
            .map(move |(gpu, bytes)| (case, gpu, bytes))
    });
    changes
        .map(|(case, gpu, bytes)| {
            (
                format!("memory of {gpu} in {case}"),
                units::delta_or_unread(bytes),
            )
        })
        .collect()
}

/// Annotations: the summary, and what is not as expected, the worst first.
pub(super) fn github_annotations(report: &ReportView<'_>) -> String {
    let banner_level = if report.complete { "warning" } else { "error" };
    let worst = report
        .scenarios
        .iter()
        .map(|scenario| Standing::new(scenario.verdict))
        .max();
    let mut about_the_run: Vec<(&str, &str, String)> = Vec::new();
    about_the_run.extend(
        tally::warning_banners(report)
            .into_iter()
            .map(|banner| (banner_level, "cuda-pitfalls", banner)),
    );
    about_the_run.push((
        worst.map_or("warning", annotation_level),
        "cuda-pitfalls",
        tally::sentence(report),
    ));
    about_the_run.extend(
        applicable::not_run_notes(report)
            .into_iter()
            .map(|note| ("notice", "cuda-pitfalls", note)),
    );
    let warnings = report
        .run
        .warnings
        .iter()
        .map(|warning| ("warning", "cuda-pitfalls: warning", warning.clone()));
    let about_the_run = about_the_run.into_iter().chain(warnings);
    let about_the_run =
        about_the_run.map(|(level, title, line)| format_annotation(level, None, title, &[line]));
    // What does not apply here has its line above.
    let applicable = report
        .scenarios
        .iter()
        .filter(|scenario| !scenario.is_not_applicable());
    let mut worst_first: Vec<&ScenarioView<'_>> = applicable.collect();
    worst_first.sort_by_key(|scenario| std::cmp::Reverse(Standing::new(scenario.verdict)));
    let told = worst_first
        .into_iter()
        .filter(|scenario| Standing::new(scenario.verdict) > Standing::Answered);
    let about_scenarios = told.map(|scenario| {
        let title = format!("{}: {}", scenario.name, facts::verdict(scenario.verdict));
        let is_missed = exit::is_missed(report, scenario);
        let level = if is_missed {
            "error"
        } else {
            annotation_level(Standing::new(scenario.verdict))
        };
        format_annotation(level, None, &title, &message(scenario))
    });
    about_the_run.chain(about_scenarios).collect()
}

fn annotation_level(standing: Standing) -> &'static str {
    match standing {
        Standing::Unexpected | Standing::HarnessError => "error",
        Standing::Inconclusive => "warning",
        Standing::AsExpected | Standing::Answered | Standing::Skipped => "notice",
    }
}

fn message(scenario: &ScenarioView<'_>) -> Vec<String> {
    let mut lines = vec![scenario.question.to_owned()];
    lines.extend(
        scenario
            .verdict
            .unexpected
            .iter()
            .map(|failed| format!("unexpected: {failed}")),
    );
    lines.push(scenario.verdict.detail.clone());
    for case in &scenario.cases {
        let facts = facts::case_line(scenario, case).join(" · ");
        lines.push(format!(
            "{} {}: {facts}",
            case.name,
            facts::outcome_frequency(case)
        ));
    }
    lines
}

/// Metrics: verdicts, outcomes, memory, and what is known of the run.
pub(super) fn prometheus_file(report: &ReportView<'_>) -> String {
    let mut out = String::new();
    let scenarios = named(report);
    let verdicts = scenarios.iter().map(|(labels, scenario)| {
        let verdict = &scenario.verdict;
        let more = [
            ("verdict", verdict.kind.name().to_owned()),
            ("expectation", verdict.expectation.name().to_owned()),
            (
                "provenance",
                words::provenance(verdict.provenance).to_owned(),
            ),
        ];
        (with(labels, more), "1".to_owned())
    });
    write_family(
        &mut out,
        "scenario_verdict",
        "The verdict of a scenario; always 1.",
        verdicts,
    );
    let attempts = scenarios.iter().flat_map(outcomes);
    write_family(
        &mut out,
        "outcome_attempts",
        "Attempts of a case that ended in this outcome.",
        attempts,
    );
    let help = "The change of largest size in used memory at any step of a case.";
    write_family(
        &mut out,
        "case_used_bytes",
        help,
        scenarios.iter().flat_map(used_bytes),
    );
    write_figure(
        &mut out,
        "run_complete",
        "Whether the last run finished.",
        [u8::from(report.complete)],
    );
    let help = "Whether the last report is compact: its verdicts are those that were stored.";
    write_figure(&mut out, "run_compact", help, [u8::from(report.is_compact)]);
    let help = "Stored verdicts that the recordings of the last report do not bear out.";
    write_figure(&mut out, "verdicts_changed", help, [report.changed.len()]);
    let at = report
        .run
        .finished_at
        .as_ref()
        .unwrap_or(&report.run.started_at);
    let help = "When the last run ended, or began if it did not end.";
    time(&mut out, "last_run_timestamp_seconds", help, Some(at));
    write_figure(
        &mut out,
        "gpus",
        "GPUs that NVML lists.",
        [report.machine.gpus.len()],
    );
    let (code, why) = report_health(report);
    let meaning = "0: as expected; 1: something is not, or a GPU or its driver is lost; 2: nothing can be said.";
    write_family(
        &mut out,
        "health",
        meaning,
        [(vec![("why", why)], code.to_string())],
    );
    let driver = report.machine.driver_version.clone().unwrap_or_default();
    let build = (
        vec![("version", report.run.version.clone()), ("driver", driver)],
        "1".to_owned(),
    );
    write_family(
        &mut out,
        "build_info",
        "The version of cuda-pitfalls and of the driver; always 1.",
        [build],
    );
    out
}
type Labels = Vec<(&'static str, String)>;

/// Every scenario with the labels that tell it from all others: a collector refuses a file in which
/// a series occurs twice, and one scenario may have run on several libcudarts.
fn named<'v, 'r>(report: &'v ReportView<'r>) -> Vec<(Labels, &'v ScenarioView<'r>)> {
    let mut seen: HashMap<(String, String), u32> = HashMap::new();
    let mut named = Vec::new();
    for scenario in &report.scenarios {
        let runtime = scenario.libcudart.as_ref();
        let mut version = runtime
            .and_then(|runtime| runtime.version.clone())
            .unwrap_or_default();
        let times = seen
            .entry((scenario.name.to_owned(), version.clone()))
            .or_default();
        *times += 1;
        if *times > 1 {
            version = format!("{version}#{times}");
        }
        named.push((
            vec![
                ("scenario", scenario.name.to_owned()),
                ("libcudart", version),
            ],
            scenario,
        ));
    }
    named
}

fn with<const N: usize>(labels: &Labels, more: [(&'static str, String); N]) -> Labels {
    labels.iter().cloned().chain(more).collect()
}

/// Outcomes go by their index, most frequent first, so that the number of series stays bounded.
fn outcomes((labels, scenario): &(Labels, &ScenarioView<'_>)) -> Vec<Sample> {
    let mut samples = Vec::new();
    for case in &scenario.cases {
        let invalid = case.made.saturating_sub(
            case.outcomes
                .iter()
                .map(|outcome| outcome.count as usize)
                .sum(),
        );
        let counts = case
            .outcomes
            .iter()
            .enumerate()
            .map(|(index, it)| (index.to_string(), it.count.to_string()));
        samples.extend(
            counts
                .chain([("not_counted".to_owned(), invalid.to_string())])
                .map(|(outcome, count)| {
                    (
                        with(
                            labels,
                            [("case", case.name.to_owned()), ("outcome", outcome)],
                        ),
                        count,
                    )
                }),
        );
    }
    samples
}

fn used_bytes((labels, scenario): &(Labels, &ScenarioView<'_>)) -> Vec<Sample> {
    let Some(plan) = &scenario.plan else {
        return Vec::new();
    };
    let mut samples = Vec::new();
    for case in &scenario.cases {
        let Some(top) = case.outcomes.first() else {
            continue;
        };
        let changes = top.largest_change();
        for uuid in &plan.gpus {
            let name = plan.gpu_name(uuid);
            let change = changes
                .iter()
                .find(|(gpu, _)| Some(gpu) == name.as_ref())
                .and_then(|(_, bytes)| *bytes);
            if let Some(bytes) = change {
                samples.push((
                    with(
                        labels,
                        [("case", case.name.to_owned()), ("uuid", uuid.clone())],
                    ),
                    bytes.to_string(),
                ));
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_answers::exit::Exit;
    use cuda_pitfalls_answers::exit::fixture::{BITS, Came, made};
    use cuda_pitfalls_core::judge::fixture::scenario;
    use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason};

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
            // A run that was stopped without a reason is a fault of the harness, whatever it has.
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
