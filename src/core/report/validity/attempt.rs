//! The invariants of the recording of an attempt, and of pairs of recordings.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::{self as calls, CallLibrary, status};

use super::super::{Attempt, CaseReport, ReportView, Run};
use super::Contradiction;
use crate::event::{Event, Probe, Status};
use crate::machine::Machine;
use crate::plan::CasePlan;
use crate::python::LINE;
use crate::recording::{ProcessEvent, Recording};

/// The name of the status of a Python line that raised nothing.
const PASSED: &str = "OK";

/// An attempt, and its location.
#[derive(Clone, Copy)]
pub(super) struct MadeAttempt<'r> {
    /// The instance's name, or the GPU that was calibrated.
    scenario: &'r str,
    case: &'r str,
    pub(super) attempt: &'r Attempt,
    plan: Option<&'r CasePlan>,
    run: &'r Run,
    machine: &'r Machine,
}

type AttemptCheck = (&'static str, fn(&MadeAttempt<'_>) -> bool);

/// The checks of an attempt.
const ATTEMPT: [AttemptCheck; 16] = [
    ("it was made before or after the run", |made| {
        let recording = made.recording();
        !made.run.has_time(recording.started_ns) || !made.run.has_time(recording.ended_ns())
    }),
    ("its `overhead_ns` is more than its `wall_ns`", |made| {
        made.recording().overhead_ns > made.recording().wall_ns
    }),
    ("its process has two PIDs or PID 0", |made| {
        let pid = made.recording().pid;
        for entry in made.events() {
            if let Event::Ready { pid: other, .. } = entry.event
                && entry.process.is_none()
                && other != pid
            {
                return true;
            }
        }
        pid == 0 && !made.events().is_empty()
    }),
    ("it has a step that its case does not have", |made| {
        let Some(plan) = made.plan else { return false };
        let exit = &made.recording().exit;
        let mut steps = made.seen_steps();
        steps.extend(exit.deadline_at);
        steps.extend(exit.died_at);
        steps.into_iter().max() >= Some(plan.steps.len())
    }),
    (
        "a step begins, ends or is observed twice, or a process starts or exits twice",
        |made| super::has_twice(made.events().iter().filter_map(single_event)),
    ),
    (
        "a step ends or is observed although it did not begin or its process was never ready",
        |made| {
            let begun: BTreeMap<usize, u64> = made.step_begins().into_iter().collect();
            if !begun.is_empty() && !made.was_ready() {
                return true;
            }
            for step in made.seen_steps() {
                if !begun.contains_key(&step) {
                    return true;
                }
            }
            for end in made.ends() {
                if begun.get(&end.step) > Some(&end.t_ns) {
                    return true;
                }
            }
            false
        },
    ),
    (
        "a process reports that it uses a GPU but sees none or fewer",
        |made| made.probes().into_iter().any(contradicts_itself),
    ),
    (
        "a process sees a GPU that the machine does not have",
        |made| {
            let gpus = &made.machine.gpus;
            if gpus.iter().any(|gpu| gpu.mig == Some(true)) {
                return false;
            }
            for probe in made.probes() {
                for uuid in probe.visible.iter().flatten() {
                    if !gpus.iter().any(|gpu| gpu.uuid == *uuid) {
                        return true;
                    }
                }
            }
            false
        },
    ),
    ("its steps did not begin in order", |made| {
        !made.step_begins().is_sorted_by_key(|(step, _)| step)
    }),
    (
        "the times of its events run backward or are outside the attempt",
        |made| {
            let mut last: BTreeMap<Option<&str>, u64> = BTreeMap::new();
            for entry in made.events() {
                let Some(t_ns) = time_of(&entry.event) else {
                    continue;
                };
                let before = last.insert(entry.process.as_deref(), t_ns);
                // Processes that a worker left behind may send events later.
                let is_late = entry.process.is_none() && t_ns > made.recording().ended_ns();
                let is_early = t_ns < before.unwrap_or(made.recording().started_ns);
                if is_early || is_late || !made.run.has_time(t_ns) {
                    return true;
                }
            }
            false
        },
    ),
    ("a call took longer than its step", |made| {
        let begun: BTreeMap<usize, u64> = made.step_begins().into_iter().collect();
        for end in made.ends() {
            if let Some(begin) = begun.get(&end.step)
                && end.elapsed_ns > end.t_ns.saturating_sub(*begin)
            {
                return true;
            }
        }
        false
    }),
    ("a status code has the name of another code", |made| {
        let mut entries = made.events().iter();
        entries.any(|entry| has_other_name(&entry.event, made.plan))
    }),
    (
        "its process has both an exit code and a signal, or its end and its events disagree on whether it exited",
        |made| {
            let exit = &made.recording().exit;
            let mut said_bye = false;
            for entry in made.events() {
                said_bye |= entry.process.is_none() && matches!(entry.event, Event::Bye { .. });
            }
            exit.code.is_some() && exit.signal.is_some() || exit.said_bye != said_bye
        },
    ),
    (
        "the times of its snapshots run backward or are outside the run",
        |made| {
            let snapshots = &made.recording().snapshots;
            !snapshots.is_sorted_by_key(|one| one.snapshot.t_ns)
                || snapshots
                    .iter()
                    .any(|one| !made.run.has_time(one.snapshot.t_ns))
        },
    ),
    (
        "its polling runs backward, is outside the run or is of a GPU that does not exist",
        |made| {
            let Some(polling) = &made.recording().polling else {
                return false;
            };
            let end = polling.t_ns.saturating_add(polling.elapsed_ns);
            let time = polling.t_ns..=end;
            // A lost sampler read nothing, and reports no time.
            if polling.reads == 0 {
                return false;
            }
            for change in &polling.changes {
                if !time.contains(&change.t_ns) || change.gpu >= made.machine.gpus.len() {
                    return true;
                }
            }
            for stall in &polling.stalls {
                if !time.contains(&stall.t_ns) {
                    return true;
                }
            }
            !made.run.has_time(polling.t_ns)
                || !made.run.has_time(end)
                || !polling.changes.is_sorted_by_key(|change| change.t_ns)
                || polling.longest_gap_ns > polling.elapsed_ns
        },
    ),
    (
        "more memory was in use than the GPU has, or less than it reserves",
        |made| {
            for taken in &made.recording().snapshots {
                for (gpu, reading) in made.machine.gpus.iter().zip(&taken.snapshot.gpus) {
                    let is_more = gpu.total_bytes.is_some() && reading.used_bytes > gpu.total_bytes;
                    // NVML v1 counts the reserve as used.
                    let is_less = reading.v1_used_bytes.is_some()
                        && reading.v1_used_bytes < gpu.reserved_bytes;
                    if is_more || is_less {
                        return true;
                    }
                }
            }
            false
        },
    ),
];

/// The end of a step.
struct StepEnd {
    step: usize,
    t_ns: u64,
    elapsed_ns: u64,
}

impl<'r> MadeAttempt<'r> {
    fn recording(&self) -> &'r Recording {
        &self.attempt.recording
    }

    fn events(&self) -> &'r [ProcessEvent] {
        &self.recording().events
    }

    fn step_begins(&self) -> Vec<(usize, u64)> {
        let mut begins = Vec::new();
        for entry in self.events() {
            if let Event::Begin { step, t_ns } = entry.event {
                begins.push((step, t_ns));
            }
        }
        begins
    }

    fn ends(&self) -> Vec<StepEnd> {
        let mut ends = Vec::new();
        for entry in self.events() {
            if let Event::End {
                step,
                t_ns,
                elapsed_ns,
                ..
            } = entry.event
            {
                ends.push(StepEnd {
                    step,
                    t_ns,
                    elapsed_ns,
                });
            }
        }
        ends
    }

    /// Returns the steps with an event or a snapshot.
    fn seen_steps(&self) -> Vec<usize> {
        let mut steps = Vec::new();
        for entry in self.events() {
            steps.extend(step_of(&entry.event));
        }
        for taken in &self.recording().snapshots {
            steps.extend(taken.step);
        }
        steps
    }

    fn probes(&self) -> Vec<&'r Probe> {
        let mut probes = Vec::new();
        for entry in self.events() {
            if let Event::Probe { probe, .. } = &entry.event {
                probes.push(probe);
            }
        }
        probes
    }

    fn was_ready(&self) -> bool {
        let mut entries = self.events().iter();
        entries.any(|entry| entry.process.is_none() && matches!(entry.event, Event::Ready { .. }))
    }

    fn contradiction_with(&self, fault: &'static str) -> Contradiction {
        let (scenario, case) = (self.scenario.to_owned(), self.case.to_owned());
        Contradiction::Attempt {
            scenario,
            case,
            order: self.attempt.order,
            fault,
        }
    }
}

/// Returns every attempt of a report, those of calibrations first.
pub(super) fn all_attempts<'r>(report: &ReportView<'r>) -> Vec<MadeAttempt<'r>> {
    let (run, machine) = (report.run, report.machine);
    let mut all = Vec::new();
    for calibrated in &run.calibration {
        for CaseReport { name, attempts, .. } in &calibrated.attempts {
            for attempt in attempts {
                all.push(MadeAttempt {
                    scenario: &calibrated.figures.uuid,
                    case: name,
                    attempt,
                    plan: None,
                    run,
                    machine,
                });
            }
        }
    }
    for scenario in &report.scenarios {
        for case in &scenario.cases {
            for attempt in case.attempts {
                all.push(MadeAttempt {
                    scenario: scenario.name,
                    case: case.name,
                    attempt,
                    plan: scenario.plan.and_then(|plan| plan.case(case.name)),
                    run,
                    machine,
                });
            }
        }
    }
    all
}

/// Checks every attempt, and that no two of them are the same.
pub(super) fn check(report: &ReportView<'_>) -> Result<(), Contradiction> {
    let mut all = all_attempts(report);
    for made in &all {
        if let Some((fault, _)) = ATTEMPT.iter().find(|(_, has_fault)| has_fault(made)) {
            return Err(made.contradiction_with(fault));
        }
    }
    // The worker without a CUDA call calibrates all GPUs together, and is listed for each.
    all.sort_by_key(|made| (made.recording().started_ns, made.recording().pid));
    all.dedup_by(|next, made| {
        let is_shared =
            made.plan.is_none() && next.plan.is_none() && made.scenario != next.scenario;
        is_shared && made.attempt == next.attempt
    });
    let mut times = BTreeMap::new();
    for made in &all {
        if !made.recording().events.is_empty() && times.insert(made.event_times(), ()).is_some() {
            return Err(made.contradiction_with(
                "it is a copy: another attempt has the same times to the nanosecond",
            ));
        }
    }
    for pair in all.windows(2) {
        let [made, next] = pair else { continue };
        let (before, after) = (made.recording(), next.recording());
        if (before.started_ns, before.pid) == (after.started_ns, after.pid) {
            return Err(next.contradiction_with(
                "it is a copy: another attempt has the same PID and start time",
            ));
        }
        if after.started_ns < before.ended_ns() {
            return Err(
                next.contradiction_with("another attempt of the run was not over when it began")
            );
        }
    }
    Ok(())
}

impl MadeAttempt<'_> {
    /// Returns the durations of all events, to the nanosecond. No two processes share them.
    fn event_times(&self) -> Vec<u64> {
        let recording = self.recording();
        let mut times = vec![recording.wall_ns, recording.overhead_ns];
        for entry in self.events() {
            times.extend(time_of(&entry.event).map(|t_ns| t_ns - recording.started_ns));
        }
        times
    }
}

fn time_of(event: &Event) -> Option<u64> {
    match event {
        Event::Begin { t_ns, .. } | Event::End { t_ns, .. } => Some(*t_ns),
        _ => None,
    }
}

fn step_of(event: &Event) -> Option<usize> {
    match event {
        Event::Begin { step, .. } | Event::End { step, .. } | Event::Probe { step, .. } => {
            Some(*step)
        }
        _ => None,
    }
}

/// Returns the key of an event that occurs once in an attempt: its kind, its process if every process has it, and its
/// step.
fn single_event(entry: &ProcessEvent) -> Option<(&'static str, Option<&str>, Option<usize>)> {
    let process = entry.process.as_deref();
    Some(match entry.event {
        Event::Ready { .. } => ("ready", process, None),
        Event::Begin { step, .. } => ("begin", None, Some(step)),
        Event::End { step, .. } => ("end", None, Some(step)),
        Event::Probe { step, .. } => ("probe", process, Some(step)),
        Event::Bye { .. } => ("bye", process, None),
        Event::Filtered | Event::Broken { .. } => return None,
    })
}

/// Returns `true` if a probe reports the use of GPUs that it does not see.
fn contradicts_itself(
    Probe {
        status,
        visible,
        active,
        current,
        ..
    }: &Probe,
) -> bool {
    let count = visible.as_ref().map_or(0, Vec::len);
    let has_failed = status.as_ref().is_some_and(|status| status.code != 0);
    let is_beyond =
        current.is_some_and(|place| usize::try_from(place).is_ok_and(|place| place >= count));
    active.as_ref().is_some_and(|active| active.len() != count)
        || visible.is_some() && is_beyond
        || has_failed && count > 0
}

/// Returns `true` if an event has a status with the name of another status. A newer version may know codes that this
/// one does not.
fn has_other_name(event: &Event, plan: Option<&CasePlan>) -> bool {
    let (call, statuses) = match event {
        Event::End { step, status, .. } => {
            let step = plan.and_then(|plan| plan.steps.get(*step));
            (step.map(|step| step.call.as_str()), [status.as_ref(), None])
        }
        Event::Probe { probe, .. } => (
            Some("cuDeviceGetCount"),
            [probe.status.as_ref(), probe.current_status.as_ref()],
        ),
        _ => return false,
    };
    statuses.into_iter().flatten().any(|Status { code, name }| {
        let Some(name) = name else { return false };
        match (call, call.and_then(calls::find)) {
            (Some(LINE), _) => (*code == 0) != (name == PASSED),
            (_, Some(call)) => {
                let known = status::name(call.library, *code);
                known.map_or_else(|| status::has(call.library, name), |known| known != name)
            }
            (_, None) => !CallLibrary::ALL
                .into_iter()
                .any(|library| status::name(library, *code) == Some(name)),
        }
    })
}
