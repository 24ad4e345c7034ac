//! The health of the machine of a report, for programs that watch nodes: a code and a line.

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::event::Event;
use cuda_pitfalls_core::report::{Calibrated, ReportView, Required, Requirement};
use cuda_pitfalls_core::scenario::environment::lending_gpus;
use cuda_pitfalls_core::verdict::{ExpectationMet, Provenance};

use super::tally::{self, Standing};
use cuda_pitfalls_core::text::escape::{shorten_text, visible};

/// Maximum bytes of a line: node-problem-detector keeps 80 bytes of a plugin's output, including the newline.
const LIMIT: usize = 79;

/// Returns 0 if all is as expected. Returns 1 if a verdict is unexpected, it is unsafe to use the host further, or a
/// GPU or its driver is lost. Returns 2 if nothing is known, such as for results of the simulated machine.
pub(super) fn report_health(report: &ReportView<'_>) -> (u8, String) {
    let lost = match report.provenance {
        Provenance::Measured => lost_gpu(report),
        Provenance::Simulated => None,
    };
    let code = match Exit::from_report(report) {
        _ if report.provenance == Provenance::Simulated => 2,
        _ if lost.is_some() => 1,
        Exit::Ok => 0,
        Exit::Unexpected | Exit::HostUnsafe => 1,
        _ => 2,
    };
    (
        code,
        shorten_text(&lost.unwrap_or_else(|| worst_question(report)), LIMIT),
    )
}

/// Returns the reason why a GPU or its driver is lost, if the report shows that: NVML or `cuInit` fails, fewer GPUs
/// answer than `--require` demands or than are on the bus, or another `--require` is not met. A machine without a sign
/// of a GPU has lost none.
fn lost_gpu(report: &ReportView<'_>) -> Option<String> {
    let machine = &report.machine;
    let on_bus = machine.pci_gpus.unwrap_or_default();
    let lost = machine
        .unavailable
        .iter()
        .find(|missing| match missing.reason.as_str() {
            "nvml_error" | "no_gpu" => true,
            "no_driver" | "no_nvml" => on_bus > 0,
            _ => false,
        });
    if let Some(unavailable) = lost {
        return Some(format!(
            "GPU or driver lost: {}: {}",
            unavailable.reason,
            visible(&unavailable.detail)
        ));
    }
    if let Some(unmet) = report
        .run
        .require
        .iter()
        .find(|required| required.what == Required::Gpus && required.is_unmet())
    {
        return Some(format!(
            "GPU lost: {} of {} can be used",
            unmet.found.unwrap_or_default(),
            unmet.wanted
        ));
    }
    if let Some(status) = report.run.calibration.iter().find_map(failed_start) {
        return Some(format!("GPU or driver lost: cuInit: {}", visible(&status)));
    }
    // A process that was given some of the GPUs cannot see the others.
    let is_lent = lending_gpus().any(|name| machine.environment.contains_key(name));
    let answer = machine.gpus.len() as u64;
    if answer < on_bus && !is_lent && machine.unavailable.is_empty() {
        return Some(format!("GPU lost: {answer} of {on_bus} on the bus answer"));
    }
    // A run that was ended early shows nothing about what it did not reach, and an unexpected verdict shows more.
    let mut verdicts = report.scenarios.iter().map(|scenario| scenario.verdict);
    let is_unexpected = verdicts.any(|one| one.expectation == ExpectationMet::Unexpected);
    if !report.complete || is_unexpected {
        return None;
    }
    let mut requirements = report.requirements().into_iter();
    let unmet = requirements.find(Requirement::is_unmet)?;
    let found = unmet.found.unwrap_or_default();
    Some(format!(
        "not met: --require {}={}, found {found}",
        unmet.what.name(),
        unmet.wanted
    ))
}

/// Returns the result of a failed `cuInit` in a control of the instrument: it is the first step of all controls that
/// call CUDA.
fn failed_start(calibrated: &Calibrated) -> Option<String> {
    let attempts = calibrated.attempts.iter().flat_map(|case| &case.attempts);
    let mut events = attempts.flat_map(|attempt| &attempt.recording.events);
    events.find_map(|record| match &record.event {
        Event::End {
            step: 0,
            status: Some(status),
            ..
        } if status.code != 0 => Some(
            status
                .name
                .clone()
                .unwrap_or_else(|| status.code.to_string()),
        ),
        _ => None,
    })
}

/// Returns the number of questions with the worst standing, and the name of the first of them.
fn worst_question(report: &ReportView<'_>) -> String {
    let mut line = String::new();
    for banner in tally::warning_banners(report) {
        // The first words of a banner; what they mean is in the documentation.
        line.push_str(banner.split(": ").next().unwrap_or_default());
        line.push_str(": ");
    }
    let Some(worst) = report
        .scenarios
        .iter()
        .map(|scenario| Standing::new(scenario.verdict))
        .max()
    else {
        return line + "no scenario ran";
    };
    line.push_str(&format!(
        "{}/{} {}",
        tally::count(report, worst),
        report.scenarios.len(),
        worst.name()
    ));
    let mut scenarios = report.scenarios.iter();
    if worst > Standing::Answered
        && let Some(first) = scenarios.find(|one| Standing::new(one.verdict) == worst)
    {
        // The name comes last, because its end can be cut.
        let word = match first.verdict.reason {
            Some(reason) => reason.name(),
            None => first.verdict.kind.name().to_owned(),
        };
        line.push_str(&format!(": {word}, {}", visible(first.name)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_core::machine::Unavailable;
    use cuda_pitfalls_core::observe::fixture::Script;
    use cuda_pitfalls_core::report::{Attempt, CaseReport, Report};

    fn code(report: &Report) -> u8 {
        report_health(&report.view()).0
    }

    fn line(report: &Report) -> String {
        report_health(&report.view()).1
    }

    #[test]
    fn the_code_is_what_the_report_says_of_the_machine() {
        assert_eq!(code(&fixture::report()), 1);
        assert_eq!(code(&fixture::empty()), 2);
        assert_eq!(code(&fixture::partial()), 2);
        let mut fine = fixture::report();
        fine.scenarios.truncate(1);
        assert_eq!(code(&fine), 0);
        fine.run.host_unsafe = Some("a GPU was lost".into());
        assert_eq!(code(&fine), 1);
        let mut simulated = fixture::simulated();
        simulated.scenarios.truncate(1);
        assert_eq!(code(&simulated), 2, "it says nothing of this machine");
    }

    #[test]
    fn a_lost_gpu_or_driver_is_a_problem_and_a_machine_without_one_is_not() {
        let with = |word: &str, on_bus: Option<u64>| {
            let mut report = fixture::empty();
            report.machine.pci_gpus = on_bus;
            report.machine.unavailable.push(Unavailable {
                reason: word.into(),
                detail: "x\u{1b}".into(),
            });
            report_health(&report.view())
        };
        for (word, on_bus) in [
            ("nvml_error", None),
            ("no_gpu", Some(0)),
            ("no_driver", Some(1)),
            ("no_nvml", Some(8)),
            ("no_gpu", Some(1)),
        ] {
            let (status, line) = with(word, on_bus);
            assert_eq!(
                (status, line),
                (1, format!("GPU or driver lost: {word}: x\\x1b"))
            );
        }
        for (word, on_bus) in [
            ("no_driver", None),
            ("no_nvml", Some(0)),
            ("no_libcudart", Some(1)),
        ] {
            assert_eq!(with(word, on_bus).0, 2, "{word}");
        }
        let mut fine = fixture::report();
        fine.scenarios.truncate(1);
        fine.machine.pci_gpus = Some(2);
        assert_eq!(code(&fine), 0);
        fine.machine.pci_gpus = Some(3);
        assert_eq!(code(&fine), 1);
        assert_eq!(line(&fine), "GPU lost: 2 of 3 on the bus answer");
        fine.machine
            .environment
            .insert("CUDA_VISIBLE_DEVICES".into(), "0,1".into());
        assert_eq!(code(&fine), 0, "it was lent two");
        fine.run
            .require
            .push(Requirement::new(Required::Gpus, 4).with(2));
        assert_eq!(code(&fine), 1);
        assert_eq!(line(&fine), "GPU lost: 2 of 4 can be used");
    }

    #[test]
    fn a_driver_that_does_not_start_is_a_problem() {
        let mut report = fixture::empty();
        let mut with = |code: i64| {
            let mut script = Script::new();
            script.step(0, code, &[]);
            let case = CaseReport::new("init", vec![Attempt::new(0, script.recording())]);
            let figures = serde_json::from_value(serde_json::json!({
                "uuid": "GPU-0", "null_bytes": 0, "context_bytes": 0, "allocation_bytes": 0, "allocated_bytes": 0,
                "epsilon_bytes": 2, "pid_listed": false, "sound": false,
            }));
            report.run.calibration = vec![Calibrated {
                figures: figures.unwrap(),
                attempts: vec![case],
            }];
            report_health(&report.view())
        };
        let (status, line) = with(802);
        assert_eq!(
            (status, line.as_str()),
            (1, "GPU or driver lost: cuInit: CUDA_ERROR_SYSTEM_NOT_READY")
        );
        assert_eq!(with(0).0, 2, "it started");
    }

    #[test]
    fn what_is_required_and_not_met_is_a_problem() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        report
            .run
            .require
            .push(Requirement::new(Required::Answers, 3));
        assert_eq!(code(&report), 1);
        assert_eq!(line(&report), "not met: --require answers=3, found 1");
        report.complete = false;
        assert_eq!(code(&report), 2, "it had no time");
        // The unexpected question is named first.
        let mut report = fixture::report();
        report
            .run
            .require
            .push(Requirement::new(Required::Answers, 99));
        assert!(line(&report).contains("unexpected"), "{}", line(&report));
    }

    #[test]
    fn the_line_names_the_worst_and_fits() {
        assert_eq!(
            line(&fixture::report()),
            "1/4 unexpected: not_reproduced, context/set-device-makes-no-context"
        );
        assert_eq!(line(&fixture::empty()), "no scenario ran");
        assert_eq!(line(&fixture::partial()), "PARTIAL: 1/1 as expected");
        assert!(line(&fixture::simulated()).starts_with("SIMULATED: 1/4 unexpected: "));
        let hostile = line(&fixture::hostile());
        assert!(
            hostile.len() <= LIMIT && hostile.lines().count() == 1,
            "{hostile}"
        );
    }
}
