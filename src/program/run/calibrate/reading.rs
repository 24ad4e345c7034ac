//! The figures of one GPU, from an attempt.

use cuda_pitfalls_core::recording::Recording;

/// Returns the change in bytes from one step (`None` for the baseline) to another.
pub(super) fn change(
    recording: &Recording,
    from: Option<usize>,
    to: usize,
    gpu: usize,
) -> Option<u64> {
    let start = match from {
        Some(step) => used_after(recording, step, gpu),
        None => used_before(recording, gpu),
    };
    Some(used_after(recording, to, gpu)?.saturating_sub(start?))
}

/// Returns `used` before the first step, in bytes.
pub(super) fn used_before(recording: &Recording, gpu: usize) -> Option<u64> {
    recording
        .snapshots
        .first()?
        .snapshot
        .gpus
        .get(gpu)?
        .used_bytes
}

/// Returns `used` after a step, in bytes: that of the last snapshot up to it, since equal snapshots are left out.
fn used_after(recording: &Recording, step: usize, gpu: usize) -> Option<u64> {
    let mut before_exit = recording
        .snapshots
        .iter()
        .rev()
        .filter(|snapshot| !snapshot.after_exit);
    let last = before_exit.find(|snapshot| snapshot.step.is_none_or(|at| at <= step))?;
    last.snapshot.gpus.get(gpu)?.used_bytes
}

/// Returns the reason why NVML did not report the used memory before the first step.
pub(super) fn why_unread(recording: &Recording, gpu: usize) -> Option<String> {
    let reading = recording.snapshots.first()?.snapshot.gpus.get(gpu)?;
    let why = if reading.errors.is_empty() {
        "no error".to_string()
    } else {
        reading.errors.join(", ")
    };
    reading
        .used_bytes
        .is_none()
        .then(|| format!("NVML does not say how much memory is used ({why})"))
}

pub(super) fn largest_change(recording: &Recording, gpu: usize) -> u64 {
    let Some(before) = used_before(recording, gpu) else {
        return 0;
    };
    let seen = recording
        .snapshots
        .iter()
        .filter_map(|snapshot| snapshot.snapshot.gpus.get(gpu)?.used_bytes);
    seen.map(|used| used.abs_diff(before)).max().unwrap_or(0)
}

pub(super) fn is_listed(recording: &Recording, gpu: usize) -> bool {
    let lists = recording
        .snapshots
        .iter()
        .filter_map(|snapshot| snapshot.snapshot.gpus.get(gpu)?.processes.as_ref());
    lists.flatten().any(|process| process.pid == recording.pid)
}
