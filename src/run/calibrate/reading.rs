//! Figures of one GPU, read off an attempt.

use crate::report::Attempt;

/// The change from one step (or from before the first) to another.
pub(super) fn change(attempt: &Attempt, from: Option<usize>, to: usize, gpu: usize) -> Option<u64> {
    let start = match from {
        Some(step) => used_after(attempt, step, gpu),
        None => used_before(attempt, gpu),
    };
    Some(used_after(attempt, to, gpu)?.saturating_sub(start?))
}

/// `used` before the first step.
pub(super) fn used_before(attempt: &Attempt, gpu: usize) -> Option<u64> {
    attempt.sweeps.first()?.sweep.gpus.get(gpu)?.used_bytes
}

/// `used` after a step: the last sweep up to it, since equal ones are left out.
fn used_after(attempt: &Attempt, step: usize, gpu: usize) -> Option<u64> {
    let up_to = |sweep: &&crate::report::AttemptSweep| !sweep.after_exit && sweep.step.is_none_or(|at| at <= step);
    attempt.sweeps.iter().rfind(up_to)?.sweep.gpus.get(gpu)?.used_bytes
}

pub(super) fn largest_change(attempt: &Attempt, gpu: usize) -> u64 {
    let Some(before) = used_before(attempt, gpu) else { return 0 };
    let seen = attempt.sweeps.iter().filter_map(|sweep| sweep.sweep.gpus.get(gpu)?.used_bytes);
    seen.map(|used| used.abs_diff(before)).max().unwrap_or(0)
}

pub(super) fn is_listed(attempt: &Attempt, gpu: usize) -> bool {
    let lists = attempt.sweeps.iter().filter_map(|sweep| sweep.sweep.gpus.get(gpu)?.processes.as_ref());
    lists.flatten().any(|process| process.pid == attempt.pid)
}
