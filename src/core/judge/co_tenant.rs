//! Signs that other processes used the GPUs during an attempt.
//!
//! NVML lists a process only once it has a context. A process that has only called `cuInit` holds the
//! driver-initialisation footprint and is in no list, and in a container other processes may not be listed at all. So
//! co-tenants are noticed by their process if it is listed, and otherwise by memory that changed where and when the
//! worker cannot have changed it. No rule asks what the worker showed: an attempt must be neither discarded for
//! showing the effect, nor kept for not showing it.

use cuda_pitfalls_calls::Effect;

use crate::event::Event;
use crate::observe::{Scene, baseline_snapshot, difference, noise_limit, own_pids};
use crate::plan::CasePlan;
use crate::recording::BarrierSnapshot;
use crate::recording::Recording;
use crate::sample::{Gpu, Process};

/// A foreign process whose memory changes by this many bytes was at work.
const AT_WORK_BYTES: u64 = 1 << 20;

/// The first sign of a co-tenant at work during an attempt, in words.
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
    /// The GPUs of the run, with their index in snapshots.
    fn gpus(&self) -> impl Iterator<Item = (usize, &'a Gpu)> {
        let scene = self.scene;
        scene
            .gpus
            .iter()
            .enumerate()
            .filter(|(_, gpu)| scene.is_of_the_run(gpu))
    }

    /// The snapshots after the baseline.
    fn later_snapshots(&self) -> impl Iterator<Item = &'a BarrierSnapshot> {
        let place = self
            .recording
            .snapshots
            .iter()
            .position(|snapshot| std::ptr::eq(snapshot, self.baseline))
            .unwrap_or(0);
        self.recording
            .snapshots
            .iter()
            .skip(place.saturating_add(1))
    }

    fn noise_bytes(&self, gpu: &Gpu) -> u64 {
        noise_limit(self.scene.calibration_of(&gpu.uuid, self.recording))
    }

    fn start(&self, gpu: usize) -> Option<u64> {
        self.baseline.snapshot.gpus.get(gpu)?.used_bytes
    }

    /// A process that does not belong to this attempt came, went, or changed its memory after the baseline. A list that
    /// could not be read is no sign.
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
                    list.iter()
                        .filter(|process| !own.contains(&process.pid))
                        .copied()
                        .collect::<Vec<_>>()
                });
                if let Some(words) = at_work(&before, &now, self.unlisted_count(own.len())) {
                    return Some(format!("{words} on {}", gpu.uuid));
                }
            }
        }
        None
    }

    /// How many new processes may belong to the attempt: none if NVML lists PIDs as processes see them, and as many
    /// as it has processes otherwise (in a PID namespace). Without a calibration that made a context, PIDs are assumed
    /// to match: it is better to discard a good attempt than to keep a disturbed one.
    fn unlisted_count(&self, own: usize) -> usize {
        let calibration = self.scene.calibration;
        let mut known = calibration
            .iter()
            .filter_map(|calibration| calibration.lists_pids())
            .peekable();
        let matched = known.peek().is_none() || known.any(|listed| listed);
        // The first client of an MPS daemon has it start a server, which no step names.
        let servers = self
            .case
            .steps
            .iter()
            .filter(|step| step.has(Effect::StartsMps))
            .count();
        if matched { servers } else { own + servers }
    }

    /// Memory before the attempt differs from the calibration: a process came or left since, so the cost of `cuInit`
    /// and of a context is no longer known.
    fn shifted_baseline(&self) -> Option<String> {
        self.gpus().find_map(|(place, gpu)| {
            let calibrated = self
                .scene
                .calibration_of(&gpu.uuid, self.recording)?
                .baseline_bytes?;
            let change = difference(self.start(place)?, calibrated);
            (change.unsigned_abs() > self.noise_bytes(gpu)).then(|| {
                format!(
                    "before the attempt {} held {change:+} bytes against the calibration",
                    gpu.uuid
                )
            })
        })
    }

    /// Memory fell below its level before the worker, which held nothing at that time.
    fn memory_drop(&self) -> Option<String> {
        self.gpus().find_map(|(place, gpu)| {
            let readings = self.snapshot_bytes(place).map(|(_, used)| used);
            let lowest = self.changes(place, u64::MAX).chain(readings).min()?;
            let fall = self.start(place)?.saturating_sub(lowest);
            (fall > self.noise_bytes(gpu)).then(|| {
                format!(
                    "{fall} bytes were given back on {} that were not the worker's",
                    gpu.uuid
                )
            })
        })
    }

    /// Memory changed when or where the worker cannot have changed it: before its first step, at a step that makes no
    /// call, or on a GPU that it does not see.
    fn unprovoked_change(&self) -> Option<String> {
        self.gpus().find_map(|(place, gpu)| {
            let start = self.start(place)?;
            if self
                .changes(place, self.first_step())
                .any(|used| used.abs_diff(start) > self.noise_bytes(gpu))
            {
                return Some(format!(
                    "memory of {} changed before the first step",
                    gpu.uuid
                ));
            }
            if !self.may_use_gpu(gpu) {
                let mut seen = self
                    .changes(place, u64::MAX)
                    .chain(self.snapshot_bytes(place).map(|(_, used)| used));
                return seen
                    .any(|used| used.abs_diff(start) > self.noise_bytes(gpu))
                    .then(|| {
                        format!(
                            "memory of {} changed, which the worker does not see",
                            gpu.uuid
                        )
                    });
            }
            let readings: Vec<(Option<usize>, u64)> = self.snapshot_bytes(place).collect();
            readings.windows(2).find_map(|pair| {
                let [(_, before), (Some(step), used)] = pair else {
                    return None;
                };
                let step = self.case.steps.get(*step)?;
                // Threads of a framework may be at work at any step.
                let is_idle = step.has(Effect::Inert) && self.case.python.is_none();
                (is_idle && used.abs_diff(*before) > self.noise_bytes(gpu)).then(|| {
                    format!(
                        "memory of {} changed at {}, which makes no call",
                        gpu.uuid, step.label
                    )
                })
            })
        })
    }

    /// Memory that the background polling saw on a GPU before this time, while the worker lived, in bytes.
    fn changes(&self, gpu: usize, until_ns: u64) -> impl Iterator<Item = u64> {
        let end = self
            .recording
            .started_ns
            .saturating_add(self.recording.wall_ns)
            .min(until_ns);
        let run = self.recording.polling.iter().flat_map(|run| &run.changes);
        run.filter(move |change| change.gpu == gpu && change.t_ns < end)
            .map(|change| change.used_bytes)
    }

    /// Memory at the baseline and after each step, with the step, in bytes.
    fn snapshot_bytes(&self, gpu: usize) -> impl Iterator<Item = (Option<usize>, u64)> {
        let later = self
            .later_snapshots()
            .filter(|snapshot| !snapshot.after_exit);
        std::iter::once(self.baseline)
            .chain(later)
            .filter_map(move |snapshot| {
                Some((snapshot.step, snapshot.snapshot.gpus.get(gpu)?.used_bytes?))
            })
    }

    fn first_step(&self) -> u64 {
        let begins = self
            .recording
            .events
            .iter()
            .filter_map(|said| match said.event {
                Event::Begin { t_ns, .. } => Some(t_ns),
                _ => None,
            });
        begins.min().unwrap_or(u64::MAX)
    }

    /// Whether a process of the attempt may use a GPU.
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

/// What a foreign process did between two lists, if `unlisted` new processes may be our own.
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

/// Memory that was not given back after the worker's end, on any GPU of the run.
pub(super) fn find_residue(recording: &Recording, scene: &Scene) -> Option<String> {
    let baseline = baseline_snapshot(recording)?;
    // A snapshot after the end that equals the one before it was left out, so the last snapshot stands for it.
    let last = recording
        .snapshots
        .iter()
        .rev()
        .find(|snapshot| snapshot.after_exit)
        .or(recording.snapshots.last())?;
    let gpus = scene
        .gpus
        .iter()
        .zip(baseline.snapshot.gpus.iter().zip(&last.snapshot.gpus));
    gpus.filter(|(gpu, _)| scene.is_of_the_run(gpu))
        .filter_map(|(gpu, (before, after))| {
            Some((gpu, difference(after.used_bytes?, before.used_bytes?)))
        })
        .find(|(gpu, delta)| {
            delta.unsigned_abs() > noise_limit(scene.calibration_of(&gpu.uuid, recording))
        })
        .map(|(gpu, delta)| format!("{delta:+} bytes on {} after the worker's end", gpu.uuid))
}
