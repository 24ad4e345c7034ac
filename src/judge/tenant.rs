//! What other processes on the GPUs did meanwhile.
//!
//! Both rules read process lists and the memory before and after an attempt, never what the worker
//! was seen to do in between: an attempt must not be discarded for showing the effect, nor kept
//! for not showing it.

use crate::observe::{Scene, baseline, difference, epsilon, own_pids};
use crate::plan::CasePlan;
use crate::report::{Attempt, AttemptSweep};
use crate::sample::Process;

/// A foreign process whose memory changes by this much was at work.
const AT_WORK_BYTES: u64 = 1 << 20;

/// A process that is not of this attempt came, went, or changed its memory after the baseline.
/// Where a list could not be read, it says nothing.
pub(super) fn contaminated(case: &CasePlan, attempt: &Attempt, scene: &Scene) -> Option<String> {
    let baseline = baseline(attempt)?;
    let own = own_pids(case, attempt);
    let foreign = |list: &[Process]| -> Vec<Process> {
        list.iter().filter(|process| !own.contains(&process.pid)).copied().collect()
    };
    for sweep in later(attempt, baseline) {
        let gpus = scene.gpus.iter().zip(baseline.sweep.gpus.iter().zip(&sweep.sweep.gpus));
        for (gpu, (before, now)) in gpus {
            if let (Some(before), Some(now)) = (&before.processes, &now.processes)
                && let Some(words) = at_work(&foreign(before), &foreign(now), pids_match(scene))
            {
                return Some(format!("{words} on {}", gpu.uuid));
            }
        }
    }
    None
}

/// Whether the PIDs that NVML lists are those that processes see themselves. In a PID namespace
/// they are not, and a worker's own process looks like a newcomer. Without any calibration they
/// are taken to match: a doubt too many is better than one too few.
fn pids_match(scene: &Scene) -> bool {
    scene.calibration.is_empty() || scene.calibration.iter().any(|calibration| calibration.pid_listed)
}

fn at_work(before: &[Process], now: &[Process], newcomers_are_foreign: bool) -> Option<String> {
    for process in before {
        let Some(still) = now.iter().find(|still| still.pid == process.pid) else {
            return Some(format!("process {} disappeared", process.pid));
        };
        if let (Some(was), Some(is)) = (process.used_bytes, still.used_bytes)
            && was.abs_diff(is) >= AT_WORK_BYTES
        {
            return Some(format!("process {} went from {was} to {is} bytes", process.pid));
        }
    }
    let mut new = now.iter().filter(|process| !before.iter().any(|known| known.pid == process.pid));
    new.next().filter(|_| newcomers_are_foreign).map(|process| format!("process {} appeared", process.pid))
}

/// Memory that did not come back after the worker's end, on any GPU.
pub(super) fn residue(attempt: &Attempt, scene: &Scene) -> Option<String> {
    let baseline = baseline(attempt)?;
    // The last sweep of all: if the one after the end was equal to the one before, it was left out.
    let last = attempt.sweeps.iter().rev().find(|sweep| sweep.after_exit).or(attempt.sweeps.last())?;
    let gpus = scene.gpus.iter().zip(baseline.sweep.gpus.iter().zip(&last.sweep.gpus));
    gpus.filter_map(|(gpu, (before, after))| Some((gpu, difference(after.used_bytes?, before.used_bytes?))))
        .find(|(gpu, delta)| delta.unsigned_abs() > epsilon(scene.calibration_of(&gpu.uuid)))
        .map(|(gpu, delta)| format!("{delta:+} bytes on {} after the worker's end", gpu.uuid))
}

/// The sweeps after the baseline.
fn later<'a>(attempt: &'a Attempt, baseline: &AttemptSweep) -> impl Iterator<Item = &'a AttemptSweep> {
    let place = attempt.sweeps.iter().position(|sweep| std::ptr::eq(sweep, baseline)).unwrap_or(0);
    attempt.sweeps.iter().skip(place.saturating_add(1))
}
