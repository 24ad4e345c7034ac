//! Memory after each step, from the snapshots and background polling of an attempt.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::Effect;

use crate::calibration::Calibration;
use crate::event::{Event, Value};
use crate::plan::{CasePlan, Plan};
use crate::recording::BarrierSnapshot;
use crate::recording::Recording;
use crate::sample::{Gpu, Reading};

use super::memory::{classify_change, is_sound, noise_limit};
use super::{Hidden, MemoryObservation, Scene};

pub(super) struct StepMemory<'a> {
    plan: &'a Plan,
    recording: &'a Recording,
    scene: &'a Scene<'a>,
    baseline: Option<&'a BarrierSnapshot>,
    pids: Vec<u32>,
}

impl<'a> StepMemory<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        case: &CasePlan,
        recording: &'a Recording,
        scene: &'a Scene<'a>,
    ) -> StepMemory<'a> {
        StepMemory {
            plan,
            recording,
            scene,
            baseline: baseline_snapshot(recording),
            pids: own_pids(case, recording),
        }
    }

    /// Returns the memory after a step, by plan name. Empty without a baseline, because then no change can be computed.
    pub(super) fn after(&self, step: usize, returned: bool) -> BTreeMap<String, MemoryObservation> {
        let (Some(baseline), Some(snapshot)) = (self.baseline, self.snapshot_after(step, returned))
        else {
            return BTreeMap::new();
        };
        let readings = baseline.snapshot.gpus.iter().zip(&snapshot.snapshot.gpus);
        let mut seen = BTreeMap::new();
        for (place, (gpu, (start, now))) in self.scene.gpus.iter().zip(readings).enumerate() {
            let Some(name) = self.plan.gpu_name(&gpu.uuid) else {
                continue;
            };
            let mut memory = change(start, now, self.calibration_of(gpu));
            memory.peak_bytes = self.peak_change(step, place, gpu, now);
            memory.process_bytes = self.process_bytes(gpu, now);
            seen.insert(name, memory);
        }
        seen
    }

    fn calibration_of(&self, gpu: &Gpu) -> Option<&'a Calibration> {
        self.scene.calibration_of(&gpu.uuid, self.recording)
    }

    /// Returns the snapshot taken after a step. If the step returned, a missing snapshot was equal to the one before.
    /// If it did not, the snapshot may not exist.
    fn snapshot_after(&self, step: usize, returned: bool) -> Option<&'a BarrierSnapshot> {
        if returned {
            last_snapshot(self.recording, |after| after <= Some(step))
        } else {
            last_snapshot(self.recording, |after| after == Some(step))
        }
    }

    /// Returns the largest change during a step, if it exceeds the changes at both ends.
    fn peak_change(&self, step: usize, place: usize, gpu: &Gpu, now: &Reading) -> Option<i64> {
        let start = self.baseline?.snapshot.gpus.get(place)?.used_bytes?;
        let before = last_snapshot(self.recording, |after| after < Some(step))?;
        let before = before.snapshot.gpus.get(place)?.used_bytes?;
        let ends = before.max(now.used_bytes?);
        let (from, to) = self.step_window(step)?;
        let mut highest = 0;
        for change in &self.recording.polling.as_ref()?.changes {
            if change.gpu == place && (from..=to).contains(&change.t_ns) {
                highest = highest.max(change.used_bytes);
            }
        }
        let noise = noise_limit(self.calibration_of(gpu));
        (highest > ends.saturating_add(noise)).then(|| difference(highest, start))
    }

    /// Returns the time of a step: from its beginning to the beginning of the next step, or to the last reading after
    /// it. A snapshot that was left out has no timestamp.
    fn step_window(&self, step: usize) -> Option<(u64, u64)> {
        let from = self.step_began_ns(step)?;
        if let Some(to) = self.step_began_ns(step.saturating_add(1)) {
            return Some((from, to));
        }
        let mut last = None;
        for said in &self.recording.events {
            if let Event::End { step: of, t_ns, .. } = said.event
                && of == step
            {
                last = last.max(Some(t_ns));
            }
        }
        for taken in &self.recording.snapshots {
            if taken.step == Some(step) && !taken.after_exit {
                let end = taken
                    .snapshot
                    .t_ns
                    .saturating_add(taken.snapshot.elapsed_ns);
                last = last.max(Some(end));
            }
        }
        Some((from, last.unwrap_or(from)))
    }

    fn step_began_ns(&self, step: usize) -> Option<u64> {
        self.recording
            .events
            .iter()
            .find_map(|said| match said.event {
                Event::Begin { step: of, t_ns } if of == step => Some(t_ns),
                _ => None,
            })
    }

    /// Returns the memory that NVML reports for the attempt's own processes. If they are not in its list, they use
    /// nothing, unless calibration found that our PIDs are never listed.
    fn process_bytes(&self, gpu: &Gpu, now: &Reading) -> Option<u64> {
        let mut bytes = None;
        for process in now.processes.as_ref()? {
            if self.pids.contains(&process.pid) {
                bytes = Some(process.used_bytes?.saturating_add(bytes.unwrap_or(0)));
            }
        }
        match self.calibration_of(gpu) {
            Some(calibration) if calibration.pid_listed => bytes.or(Some(0)),
            _ => bytes,
        }
    }
}

/// Returns the last snapshot before the first step.
pub(crate) fn baseline_snapshot(recording: &Recording) -> Option<&BarrierSnapshot> {
    last_snapshot(recording, |after| after.is_none())
}

/// Returns the last snapshot of a living worker that was taken after such a step; `None` refers to the time before the
/// first step.
fn last_snapshot(
    recording: &Recording,
    is_asked: impl Fn(Option<usize>) -> bool,
) -> Option<&BarrierSnapshot> {
    let mut latest_first = recording.snapshots.iter().rev();
    latest_first.find(|taken| !taken.after_exit && is_asked(taken.step))
}

/// Returns the PIDs of the worker and of the processes that it started, as these processes see themselves.
pub(crate) fn own_pids(case: &CasePlan, recording: &Recording) -> Vec<u32> {
    let mut pids = vec![recording.pid];
    for said in &recording.events {
        match &said.event {
            Event::Ready { pid, .. } => pids.push(*pid),
            // A forked child does not report its PID; its parent knows it.
            Event::End {
                step,
                values,
                processes,
                ..
            } => {
                let forks = case
                    .steps
                    .get(*step)
                    .is_some_and(|step| step.has(Effect::Forks));
                if let (true, Some(Value::Int(pid))) = (forks, values.get("pid")) {
                    pids.extend(u32::try_from(*pid));
                }
                // The processes that a Python line starts do not report either; the worker looks for them.
                pids.extend(processes);
            }
            _ => {}
        }
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn change(start: &Reading, now: &Reading, calibration: Option<&Calibration>) -> MemoryObservation {
    let used = optional_difference(start.used_bytes, now.used_bytes);
    let v1_used = optional_difference(start.v1_used_bytes, now.v1_used_bytes);
    MemoryObservation {
        class: used.and_then(|delta| classify_change(delta, calibration)),
        used_bytes: used,
        v1_used_bytes: if v1_used == used { None } else { v1_used },
        hidden: hidden_reason(calibration),
        ..MemoryObservation::default()
    }
}

/// Returns the reason why other processes may hide memory of the worker. Older calibrations do not have the bytes of
/// `cuInit` alone; they were made on idle machines.
fn hidden_reason(calibration: Option<&Calibration>) -> Option<Hidden> {
    if !is_sound(calibration) {
        return Some(Hidden::Uncalibrated);
    }
    let calibration = calibration?;
    calibration
        .init_bytes
        .is_some_and(|bytes| bytes <= calibration.epsilon_bytes)
        .then_some(Hidden::Prepaid)
}

fn optional_difference(start: Option<u64>, now: Option<u64>) -> Option<i64> {
    Some(difference(now?, start?))
}

/// Returns the change from `start` to `now`, in bytes. Memory sizes are far below the limit of 8 EiB.
pub(crate) fn difference(now: u64, start: u64) -> i64 {
    let size = i64::try_from(now.abs_diff(start)).unwrap_or(i64::MAX);
    if now < start { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::fixture::{CONTEXT, Script, calibration, case, plan};
    use crate::observe::{Observation, observe_attempt};
    use crate::plan::fixture::gpu;
    use crate::sample::{MemoryChange, Polling, Process};
    use crate::scenario::Class;

    fn seen(script: &Script, calls: &[&str]) -> Observation {
        let case = case("trap", calls);
        let mut plan = plan(2, vec![case.clone()]);
        // Plan order differs from NVML order here.
        plan.gpus.reverse();
        let gpus = [gpu("GPU-0"), gpu("GPU-1")];
        let calibration = [
            calibration("GPU-0"),
            Calibration {
                pid_listed: false,
                ..calibration("GPU-1")
            },
        ];
        observe_attempt(
            &plan,
            &case,
            &script.recording(),
            &Scene {
                calibration: &calibration,
                gpus: &gpus,
            },
        )
    }

    #[test]
    fn a_missing_snapshot_is_as_the_one_before_and_gpus_bear_plan_names() {
        let mut script = Script::new();
        script.snapshot(None, &[10, 20]);
        for step in 0..3 {
            script.step(step, 0, &[]);
            if step == 1 {
                script.snapshot(Some(1), &[10 + CONTEXT, 20]);
            }
        }
        let observation = seen(&script, &["cuInit", "mark", "mark"]);
        let class = |step: usize, gpu: &str| observation.steps[step].memory[gpu].class;
        assert_eq!(
            (class(0, "gpu1"), class(0, "gpu0")),
            (Some(Class::None), Some(Class::None))
        );
        assert_eq!(
            (class(1, "gpu1"), class(1, "gpu0")),
            (Some(Class::Context), Some(Class::None))
        );
        assert_eq!(class(2, "gpu1"), Some(Class::Context));
        assert_eq!(
            observation.steps[2].memory["gpu1"].used_bytes,
            Some(CONTEXT as i64)
        );
    }

    #[test]
    fn nothing_is_said_about_memory_that_nobody_read() {
        let mut script = Script::new();
        script.snapshot(None, &[10, 20]);
        script.step(0, 0, &[]);
        script.begin(1);
        let observation = seen(&script, &["cuInit", "pause"]);
        assert!(observation.steps[1].memory.is_empty());
        let mut script = Script::new();
        script.step(0, 0, &[]);
        assert!(seen(&script, &["cuInit"]).steps[0].memory.is_empty());
    }

    #[test]
    fn an_unreadable_gpu_has_null_and_never_zero() {
        let mut script = Script::new();
        script.snapshot(None, &[10, 20]);
        script.step(0, 0, &[]);
        script.snapshot(Some(0), &[10, 20]);
        script.snapshots[1].snapshot.gpus[0].used_bytes = None;
        let observation = seen(&script, &["cuInit"]);
        assert_eq!(observation.steps[0].memory["gpu1"].class, None);
        assert_eq!(observation.steps[0].memory["gpu1"].used_bytes, None);
        assert_eq!(observation.steps[0].memory["gpu0"].class, Some(Class::None));
    }

    #[test]
    fn a_peak_is_one_only_above_both_ends_and_within_its_step() {
        let mut script = Script::new();
        script.snapshot(None, &[100, 0]);
        script.step(0, 0, &[]);
        script.step(1, 0, &[]);
        let begun = script.events.iter().find_map(|event| match event {
            Event::Begin { step: 0, t_ns } => Some(*t_ns),
            _ => None,
        });
        let at = begun.unwrap();
        let changes = [
            (at - 1, 9 * CONTEXT),
            (at + 1, CONTEXT + 100),
            (at + 2, 100),
        ];
        let changes = changes.map(|(t_ns, used_bytes)| MemoryChange {
            t_ns,
            gpu: 0,
            used_bytes,
        });
        script.polling = Some(Polling {
            changes: changes.to_vec(),
            ..Polling::default()
        });
        let observation = seen(&script, &["cuInit", "mark"]);
        assert_eq!(
            observation.steps[0].memory["gpu1"].peak_bytes,
            Some(CONTEXT as i64)
        );
        assert_eq!(observation.steps[0].memory["gpu0"].peak_bytes, None);
        assert_eq!(observation.steps[1].memory["gpu1"].peak_bytes, None);
    }

    #[test]
    fn process_memory_is_the_sum_over_our_own() {
        let mut script = Script::new();
        script.snapshot(None, &[0, 0]);
        script.step(0, 0, &[("pid", Value::Int(4243))]);
        script.snapshot(Some(0), &[CONTEXT, 0]);
        let listed = [(script.pid, 5), (4243, 6), (1, 1000)];
        let listed = listed.map(|(pid, bytes)| Process {
            pid,
            used_bytes: Some(bytes),
        });
        script.snapshots[1].snapshot.gpus[0].processes = Some(listed.to_vec());
        let bytes =
            |script: &Script, gpu: &str| seen(script, &["fork"]).steps[0].memory[gpu].process_bytes;
        assert_eq!(bytes(&script, "gpu1"), Some(11));
        // On the other GPU the calibration did not find our PID in the list.
        assert_eq!(bytes(&script, "gpu0"), None);
        script.snapshots[1].snapshot.gpus[0].processes = Some(vec![]);
        assert_eq!(bytes(&script, "gpu1"), Some(0));
        script.snapshots[1].snapshot.gpus[0].processes = None;
        assert_eq!(bytes(&script, "gpu1"), None);
    }

    #[test]
    fn v1_is_kept_only_where_it_tells_something_else() {
        let mut script = Script::new();
        script.snapshot(None, &[10, 20]);
        script.step(0, 0, &[]);
        script.snapshot(Some(0), &[30, 20]);
        script.snapshots[0].snapshot.gpus[0].v1_used_bytes = Some(110);
        script.snapshots[1].snapshot.gpus[0].v1_used_bytes = Some(130);
        assert_eq!(
            seen(&script, &["cuInit"]).steps[0].memory["gpu1"].v1_used_bytes,
            None
        );
        script.snapshots[1].snapshot.gpus[0].v1_used_bytes = Some(131);
        assert_eq!(
            seen(&script, &["cuInit"]).steps[0].memory["gpu1"].v1_used_bytes,
            Some(21)
        );
    }
}
