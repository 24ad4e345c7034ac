//! Signs that other processes used the GPUs during an attempt.
//!
//! NVML lists a process only once it has a context. A process that has only called `cuInit` holds the
//! driver-initialization footprint and is in no list. In a container, other processes may not be listed at all. So a
//! co-tenant is detected by its process if it is listed, and otherwise by memory that changed where and when the worker
//! cannot have changed it. No rule considers the worker's result: an attempt must be neither discarded for showing the
//! effect, nor kept for not showing it.

use cuda_pitfalls_calls::Effect;

use crate::event::Event;
use crate::observe::{Scene, baseline_snapshot, difference, noise_limit, own_pids};
use crate::plan::CasePlan;
use crate::recording::BarrierSnapshot;
use crate::recording::Recording;
use crate::sample::{Gpu, Process};

/// A foreign process is considered active if its memory changes by at least this many bytes.
const AT_WORK_BYTES: u64 = 1 << 20;

/// Returns the first sign of an active co-tenant during an attempt, as text.
pub(super) fn find_contamination(
    case: &CasePlan,
    recording: &Recording,
    scene: &Scene,
) -> Option<String> {
    let baseline = baseline_snapshot(recording)?;
    let watch = CoTenantWatch {
        case,
        recording,
        scene,
        baseline,
    };
    watch
        .processes()
        .or_else(|| watch.shifted_baseline())
        .or_else(|| watch.memory_drop())
        .or_else(|| watch.unprovoked_change())
}

struct CoTenantWatch<'a> {
    case: &'a CasePlan,
    recording: &'a Recording,
    scene: &'a Scene<'a>,
    baseline: &'a BarrierSnapshot,
}

impl<'a> CoTenantWatch<'a> {
    /// Returns the GPUs of the run, with their index in snapshots.
    fn gpus(&self) -> Vec<(usize, &'a Gpu)> {
        let mut gpus = Vec::new();
        for (place, gpu) in self.scene.gpus.iter().enumerate() {
            if self.scene.is_of_the_run(gpu) {
                gpus.push((place, gpu));
            }
        }
        gpus
    }

    /// Returns the snapshots after the baseline.
    fn later_snapshots(&self) -> &'a [BarrierSnapshot] {
        let mut rest = self.recording.snapshots.as_slice();
        while let [first, later @ ..] = rest {
            rest = later;
            if std::ptr::eq(first, self.baseline) {
                break;
            }
        }
        rest
    }

    fn noise_bytes(&self, gpu: &Gpu) -> u64 {
        noise_limit(self.scene.calibration_of(&gpu.uuid, self.recording))
    }

    fn start(&self, gpu: usize) -> Option<u64> {
        self.baseline.snapshot.gpus.get(gpu)?.used_bytes
    }

    /// Returns a process that does not belong to this attempt and that started, ended or changed its memory after the
    /// baseline. A list that could not be read is not a sign.
    fn processes(&self) -> Option<String> {
        let own = own_pids(self.case, self.recording);
        for snapshot in self.later_snapshots() {
            for (place, gpu) in self.gpus() {
                let (before, now) = (
                    self.baseline.snapshot.gpus.get(place)?,
                    snapshot.snapshot.gpus.get(place)?,
                );
                let (Some(before), Some(now)) = (&before.processes, &now.processes) else {
                    continue;
                };
                let [before, now] = [before, now].map(|list| {
                    let mut foreign = list.clone();
                    foreign.retain(|process| !own.contains(&process.pid));
                    foreign
                });
                if let Some(words) = at_work(&before, &now, self.unlisted_count(own.len())) {
                    return Some(format!("{words} on {}", gpu.uuid));
                }
            }
        }
        None
    }

    /// Returns how many new processes may belong to the attempt: none if NVML lists the PIDs that processes themselves
    /// see, otherwise (in a PID namespace) as many as the attempt has processes. Without a calibration that created a
    /// context, PIDs are assumed to match, because it is better to discard a good attempt than to keep a disturbed one.
    fn unlisted_count(&self, own: usize) -> usize {
        let calibration = self.scene.calibration;
        let known: Vec<bool> = calibration
            .iter()
            .filter_map(|calibration| calibration.lists_pids())
            .collect();
        let matched = known.is_empty() || known.contains(&true);
        // The first client of an MPS daemon has it start a server, which no step names.
        let servers = self
            .case
            .steps
            .iter()
            .filter(|step| step.has(Effect::StartsMps))
            .count();
        if matched { servers } else { own + servers }
    }

    /// Returns a difference in memory between the calibration and the time before the attempt: a process started or
    /// ended since, so the cost of `cuInit` and of a context is no longer known.
    fn shifted_baseline(&self) -> Option<String> {
        for (place, gpu) in self.gpus() {
            let calibration = self.scene.calibration_of(&gpu.uuid, self.recording);
            let calibrated = calibration.and_then(|calibration| calibration.baseline_bytes);
            let (Some(start), Some(calibrated)) = (self.start(place), calibrated) else {
                continue;
            };
            let change = difference(start, calibrated);
            if change.unsigned_abs() > self.noise_bytes(gpu) {
                return Some(format!(
                    "before the attempt {} held {change:+} bytes against the calibration",
                    gpu.uuid
                ));
            }
        }
        None
    }

    /// Returns a fall of memory below its level before the worker, which held nothing at that time.
    fn memory_drop(&self) -> Option<String> {
        for (place, gpu) in self.gpus() {
            let lowest = self.readings(place).into_iter().min();
            let (Some(start), Some(lowest)) = (self.start(place), lowest) else {
                continue;
            };
            let fall = start.saturating_sub(lowest);
            if fall > self.noise_bytes(gpu) {
                return Some(format!(
                    "{fall} bytes were given back on {} that were not the worker's",
                    gpu.uuid
                ));
            }
        }
        None
    }

    /// Returns a change of memory that the worker cannot have caused: before its first step, at a step without a call,
    /// or on a GPU that it does not see.
    fn unprovoked_change(&self) -> Option<String> {
        for (place, gpu) in self.gpus() {
            let Some(start) = self.start(place) else {
                continue;
            };
            let (uuid, noise) = (&gpu.uuid, self.noise_bytes(gpu));
            let has_changed = |used: &u64| used.abs_diff(start) > noise;
            if self
                .changes(place, self.first_step())
                .iter()
                .any(has_changed)
            {
                return Some(format!("memory of {uuid} changed before the first step"));
            }
            if self.may_use_gpu(gpu) {
                if let Some(step) = self.idle_change(place, noise) {
                    return Some(format!(
                        "memory of {uuid} changed at {step}, which makes no call"
                    ));
                }
            } else if self.readings(place).iter().any(has_changed) {
                return Some(format!(
                    "memory of {uuid} changed, which the worker does not see"
                ));
            }
        }
        None
    }

    /// Returns the label of a step without a call during which memory of a GPU changed by more than noise.
    fn idle_change(&self, gpu: usize, noise: u64) -> Option<&'a str> {
        // Threads of a framework may be at work at any step.
        if self.case.python.is_some() {
            return None;
        }
        for pair in self.snapshot_bytes(gpu).windows(2) {
            let [(_, before), (Some(step), used)] = pair else {
                continue;
            };
            if let Some(step) = self.case.steps.get(*step)
                && step.has(Effect::Inert)
                && used.abs_diff(*before) > noise
            {
                return Some(&step.label);
            }
        }
        None
    }

    /// Returns the memory of a GPU in all polling readings and snapshots, in bytes.
    fn readings(&self, gpu: usize) -> Vec<u64> {
        let mut readings = self.changes(gpu, u64::MAX);
        readings.extend(self.snapshot_bytes(gpu).iter().map(|(_, used)| *used));
        readings
    }

    /// Returns the memory of a GPU in the background polling before this time, while the worker lived, in bytes.
    fn changes(&self, gpu: usize, until_ns: u64) -> Vec<u64> {
        let Recording {
            started_ns,
            wall_ns,
            polling,
            ..
        } = self.recording;
        let end = started_ns.saturating_add(*wall_ns).min(until_ns);
        let mut seen = Vec::new();
        for change in polling.iter().flat_map(|run| &run.changes) {
            if change.gpu == gpu && change.t_ns < end {
                seen.push(change.used_bytes);
            }
        }
        seen
    }

    /// Returns the memory at the baseline and after each step, with the step, in bytes.
    fn snapshot_bytes(&self, gpu: usize) -> Vec<(Option<usize>, u64)> {
        let mut read = Vec::new();
        for taken in [self.baseline].into_iter().chain(self.later_snapshots()) {
            if taken.after_exit && !std::ptr::eq(taken, self.baseline) {
                continue;
            }
            if let Some(reading) = taken.snapshot.gpus.get(gpu)
                && let Some(used) = reading.used_bytes
            {
                read.push((taken.step, used));
            }
        }
        read
    }

    fn first_step(&self) -> u64 {
        let mut first = u64::MAX;
        for said in &self.recording.events {
            if let Event::Begin { t_ns, .. } = said.event {
                first = first.min(t_ns);
            }
        }
        first
    }

    /// Returns `true` if a process of the attempt may use a GPU.
    fn may_use_gpu(&self, gpu: &Gpu) -> bool {
        let Some(mask) = &self.case.mask else {
            return true;
        };
        let may_unmask = self
            .case
            .steps
            .iter()
            .any(|step| step.has(Effect::MayUnmask) || step.has(Effect::StartsMps));
        mask.contains(&gpu.uuid) || may_unmask || self.case.env.contains_key("CUDA_VISIBLE_DEVICES")
    }
}

/// Returns the activity of a foreign process between two lists, if `unlisted` new processes may be our own.
fn at_work(before: &[Process], now: &[Process], unlisted: usize) -> Option<String> {
    for process in before {
        let Some(still) = now.iter().find(|still| still.pid == process.pid) else {
            return Some(format!("process {} disappeared", process.pid));
        };
        if let (Some(bytes_before), Some(bytes_now)) = (process.used_bytes, still.used_bytes)
            && bytes_before.abs_diff(bytes_now) >= AT_WORK_BYTES
        {
            return Some(format!(
                "process {} went from {bytes_before} to {bytes_now} bytes",
                process.pid
            ));
        }
    }
    let mut new = now
        .iter()
        .filter(|process| !before.iter().any(|known| known.pid == process.pid));
    new.nth(unlisted)
        .map(|process| format!("process {} appeared", process.pid))
}

/// Returns memory that was not freed after the worker's end, on any GPU of the run.
pub(super) fn find_residue(recording: &Recording, scene: &Scene) -> Option<String> {
    let baseline = baseline_snapshot(recording)?;
    // A snapshot after the end that equals the one before it was left out, so the last snapshot stands for it.
    let last = recording
        .snapshots
        .iter()
        .rev()
        .find(|snapshot| snapshot.after_exit)
        .or(recording.snapshots.last())?;
    let readings = baseline.snapshot.gpus.iter().zip(&last.snapshot.gpus);
    for (gpu, (before, after)) in scene.gpus.iter().zip(readings) {
        if !scene.is_of_the_run(gpu) {
            continue;
        }
        let (Some(before), Some(after)) = (before.used_bytes, after.used_bytes) else {
            continue;
        };
        let delta = difference(after, before);
        if delta.unsigned_abs() > noise_limit(scene.calibration_of(&gpu.uuid, recording)) {
            let uuid = &gpu.uuid;
            return Some(format!("{delta:+} bytes on {uuid} after the worker's end"));
        }
    }
    None
}
