//! One line for node-problem-detector, which keeps 80 bytes of a plugin's output, and the status
//! that it takes from the plugin's exit code.

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::event::Event;
use cuda_pitfalls_core::report::{Calibrated, ReportView, Required, Requirement};
use cuda_pitfalls_core::verdict::{ExpectationMet, Provenance};

use super::tally::{self, Standing};
use cuda_pitfalls_core::text::escape::{shorten, visible};

/// What node-problem-detector keeps, the newline included.
pub const LIMIT: usize = 80;

/// Variables by which schedulers and runtimes lend some of a machine's GPUs.
const LENT: [&str; 4] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS"];

/// What a plugin of node-problem-detector says with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginStatus {
    /// 0: all is as expected.
    Ok,
    /// 1: a verdict is not as expected, the host is unsafe to go on with, or a GPU or its driver is lost.
    Problem,
    /// 2: nothing can be said. The simulated machine says nothing of the one that it runs on.
    Unknown,
}

impl PluginStatus {
    /// What the report says of the machine.
    pub fn of(report: &ReportView<'_>) -> PluginStatus {
        match Exit::of_report(report) {
            _ if report.provenance == Provenance::Simulated => PluginStatus::Unknown,
            _ if lost(report).is_some() => PluginStatus::Problem,
            Exit::Ok => PluginStatus::Ok,
            Exit::Unexpected | Exit::HostUnsafe => PluginStatus::Problem,
            _ => PluginStatus::Unknown,
        }
    }

    /// The exit code.
    pub const fn code(self) -> i32 {
        match self {
            PluginStatus::Ok => 0,
            PluginStatus::Problem => 1,
            PluginStatus::Unknown => 2,
        }
    }

    /// The word beside the code on stderr.
    pub const fn name(self) -> &'static str {
        match self {
            PluginStatus::Ok => "ok",
            PluginStatus::Problem => "problem",
            PluginStatus::Unknown => "unknown",
        }
    }
}

/// Why a GPU or its driver is lost, if the report shows that: NVML or `cuInit` fails, or fewer GPUs answer than
/// `--require` asks for or than are on the bus; or which other `--require` is not met. A machine without a sign of a GPU
/// has lost none.
fn lost(report: &ReportView<'_>) -> Option<String> {
    let machine = &report.machine;
    let on_bus = machine.pci_gpus.unwrap_or_default();
    let is_loss = |word: &str| match word {
        "nvml_error" | "no_gpu" => true,
        "no_driver" | "no_nvml" => on_bus > 0,
        _ => false,
    };
    if let Some(unavailable) = machine.unavailable.iter().find(|it| is_loss(&it.reason)) {
        return Some(format!("GPU or driver lost: {}: {}", unavailable.reason, visible(&unavailable.detail)));
    }
    let of_gpus = |requirement: &&Requirement| requirement.what == Required::Gpus && requirement.is_unmet();
    if let Some(unmet) = report.run.require.iter().find(of_gpus) {
        return Some(format!("GPU lost: {} of {} can be used", unmet.found.unwrap_or_default(), unmet.wanted));
    }
    if let Some(status) = report.run.calibration.iter().find_map(failed_start) {
        return Some(format!("GPU or driver lost: cuInit: {}", visible(&status)));
    }
    // Those who were lent some of the GPUs cannot see the others.
    let is_lent = LENT.iter().any(|name| machine.environment.contains_key(*name));
    let answer = machine.gpus.len() as u64;
    if answer < on_bus && !is_lent && machine.unavailable.is_empty() {
        return Some(format!("GPU lost: {answer} of {on_bus} on the bus answer"));
    }
    // A run that was ended before it was done says nothing of what it had no time for, and an unexpected verdict says more.
    let is_unexpected = report.scenarios.iter().any(|it| it.verdict.expectation == ExpectationMet::Unexpected);
    let unmet = report.requirements().into_iter().find(Requirement::is_unmet);
    let unmet = unmet.filter(|_| report.complete && !is_unexpected)?;
    let found = unmet.found.unwrap_or_default();
    Some(format!("not met: --require {}={}, found {found}", unmet.what.name(), unmet.wanted))
}

/// What `cuInit` returned in a control of the instrument, if it failed: it is the first step of every control that
/// calls CUDA.
fn failed_start(calibrated: &Calibrated) -> Option<String> {
    let attempts = calibrated.attempts.iter().flat_map(|case| &case.attempts);
    let mut events = attempts.flat_map(|attempt| &attempt.recording.events);
    events.find_map(|it| match &it.event {
        Event::End { step: 0, status: Some(status), .. } if status.code != 0 => {
            Some(status.name.clone().unwrap_or_else(|| status.code.to_string()))
        }
        _ => None,
    })
}

/// The line: how many stand worst, and the name of the first of them.
pub fn report(report: &ReportView<'_>) -> String {
    if let Some(why) = lost(report).filter(|_| report.provenance == Provenance::Measured) {
        return format!("{}\n", shorten(&why, LIMIT - 1));
    }
    let mut line = String::new();
    for banner in tally::banners(report) {
        // The first words of a banner; what they mean is in the documentation.
        line.push_str(banner.split(" — ").next().unwrap_or_default());
        line.push_str(": ");
    }
    let worst = report.scenarios.iter().map(|scenario| Standing::of(scenario.verdict)).max();
    match worst {
        None => line.push_str("no scenario ran"),
        Some(worst) => {
            line.push_str(&format!("{}/{} {}", tally::count(report, worst), report.scenarios.len(), worst.name()));
            let first = report.scenarios.iter().find(|scenario| Standing::of(scenario.verdict) == worst);
            if let Some(first) = first.filter(|_| worst > Standing::Answered) {
                // The name comes last, because it is what can do without its end.
                let word = match first.verdict.reason {
                    Some(reason) => reason.name(),
                    None => first.verdict.kind.name().to_owned(),
                };
                line.push_str(&format!(": {word}, {}", visible(first.name)));
            }
        }
    }
    format!("{}\n", shorten(&line, LIMIT - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_calls::CallLibrary;
    use cuda_pitfalls_core::event::Status;
    use cuda_pitfalls_core::machine::Unavailable;
    use cuda_pitfalls_core::recording::ProcessEvent;
    use cuda_pitfalls_core::report::{Attempt, CaseReport};

    #[test]
    fn the_status_is_what_the_report_says_of_the_machine() {
        assert_eq!(PluginStatus::of(&fixture::report().view()), PluginStatus::Problem);
        assert_eq!(PluginStatus::of(&fixture::empty().view()), PluginStatus::Unknown);
        assert_eq!(PluginStatus::of(&fixture::partial().view()), PluginStatus::Unknown);
        let mut fine = fixture::report();
        fine.scenarios.truncate(1);
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Ok);
        fine.run.host_unsafe = Some("a GPU was lost".into());
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Problem);
    }

    #[test]
    fn the_simulated_machine_says_nothing_of_this_one() {
        let mut fine = fixture::simulated();
        fine.scenarios.truncate(1);
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Unknown);
        assert_eq!(PluginStatus::of(&fixture::simulated().view()), PluginStatus::Unknown);
    }

    #[test]
    fn a_lost_gpu_or_driver_is_a_problem_and_a_machine_without_one_is_not() {
        let with = |word: &str, on_bus: Option<u64>| {
            let mut report = fixture::empty();
            report.machine.pci_gpus = on_bus;
            report.machine.unavailable.push(Unavailable { reason: word.into(), detail: "x\u{1b}".into() });
            (PluginStatus::of(&report.view()), super::report(&report.view()))
        };
        for (word, on_bus) in [
            ("nvml_error", None),
            ("no_gpu", Some(0)),
            ("no_driver", Some(1)),
            ("no_nvml", Some(8)),
            ("no_gpu", Some(1)),
        ] {
            let (status, line) = with(word, on_bus);
            assert_eq!((status, line), (PluginStatus::Problem, format!("GPU or driver lost: {word}: x\\x1b\n")));
        }
        for (word, on_bus) in [("no_driver", None), ("no_nvml", Some(0)), ("no_libcudart", Some(1))] {
            assert_eq!(with(word, on_bus).0, PluginStatus::Unknown, "{word}");
        }
        let mut fine = fixture::report();
        fine.scenarios.truncate(1);
        fine.machine.pci_gpus = Some(2);
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Ok);
        fine.machine.pci_gpus = Some(3);
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Problem);
        assert_eq!(super::report(&fine.view()), "GPU lost: 2 of 3 on the bus answer\n");
        fine.machine.environment.insert("CUDA_VISIBLE_DEVICES".into(), "0,1".into());
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Ok, "it was lent two");
        fine.run.require.push(Requirement::new(Required::Gpus, 4).with(2));
        assert_eq!(PluginStatus::of(&fine.view()), PluginStatus::Problem);
        assert_eq!(super::report(&fine.view()), "GPU lost: 2 of 4 can be used\n");
    }

    #[test]
    fn a_driver_that_does_not_start_is_a_problem() {
        let mut report = fixture::empty();
        let mut recording = fixture::report().scenarios[0].cases[0].attempts[0].recording.clone();
        let mut with = |code: i64| {
            let status = Status::named(CallLibrary::Driver, code);
            let event = Event::End {
                step: 0,
                t_ns: 1,
                elapsed_ns: 1,
                status: Some(status),
                values: Default::default(),
                bytes: None,
                calls: None,
                processes: Vec::new(),
                varying: Vec::new(),
            };
            recording.events = vec![ProcessEvent { event, ..recording.events[0].clone() }];
            let case = CaseReport::new("init", vec![Attempt::new(0, recording.clone())]);
            let figures = serde_json::from_value(serde_json::json!({
                "uuid": "GPU-0", "null_bytes": 0, "context_bytes": 0, "allocation_bytes": 0, "allocated_bytes": 0,
                "epsilon_bytes": 2, "pid_listed": false, "sound": false,
            }));
            report.run.calibration = vec![Calibrated { figures: figures.unwrap(), attempts: vec![case] }];
            (PluginStatus::of(&report.view()), super::report(&report.view()))
        };
        let (status, line) = with(802);
        assert_eq!(
            (status, line.as_str()),
            (PluginStatus::Problem, "GPU or driver lost: cuInit: CUDA_ERROR_SYSTEM_NOT_READY\n")
        );
        assert_eq!(with(0).0, PluginStatus::Unknown, "it started");
    }

    #[test]
    fn what_is_required_and_not_met_is_a_problem() {
        let mut report = fixture::report();
        report.scenarios.truncate(1);
        report.run.require.push(Requirement::new(Required::Answers, 3));
        assert_eq!(PluginStatus::of(&report.view()), PluginStatus::Problem);
        assert_eq!(super::report(&report.view()), "not met: --require answers=3, found 1\n");
        report.complete = false;
        assert_eq!(PluginStatus::of(&report.view()), PluginStatus::Unknown, "it had no time");
        // What was unexpected is named first.
        let mut report = fixture::report();
        report.run.require.push(Requirement::new(Required::Answers, 99));
        assert!(super::report(&report.view()).contains("unexpected"), "{}", super::report(&report.view()));
    }

    #[test]
    fn the_line_names_the_worst_and_fits() {
        assert_eq!(
            report(&fixture::report().view()),
            "1/4 unexpected: not_reproduced, context/set-device-makes-no-context\n"
        );
        assert_eq!(report(&fixture::empty().view()), "no scenario ran\n");
        assert_eq!(report(&fixture::partial().view()), "PARTIAL: 1/1 as expected\n");
        assert!(report(&fixture::simulated().view()).starts_with("SIMULATED: 1/4 unexpected: "));
        let hostile = report(&fixture::hostile().view());
        assert!(hostile.len() <= LIMIT && hostile.lines().count() == 1, "{hostile}");
    }
}
