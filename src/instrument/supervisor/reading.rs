//! Reading every GPU between steps, until two readings agree.

use std::time::Duration;

use super::state::Supervisor;
use crate::interrupt::is_overdue;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::recording::{BarrierSnapshot, Recording};
use cuda_pitfalls_core::sample::Snapshot;
use cuda_pitfalls_core::verdict::{Invalidation, Reason};

/// The time between two readings that must agree: while a context is destroyed, NVML shows a new value every few tenths
/// of a millisecond.
const APART: Duration = Duration::from_micros(300);
/// Memory that still changes after this time is unsettled.
const SETTLE_MS: u64 = 5_000;
/// Memory this close to the baseline counts as freed: the driver allocates and frees it in blocks of this size.
const BACK_BYTES: u64 = 2 << 20;

impl Supervisor {
    /// Reads every GPU until two readings of those of the run agree, and records the last one. `step` is the step that
    /// has just ended; `None` for the baseline and after the worker's end.
    pub(super) fn read(
        &mut self,
        recording: &mut Recording,
        step: Option<usize>,
        after_exit: bool,
    ) {
        let deadline = clock::running_ns() + SETTLE_MS * 1_000_000;
        let mut before: Option<Snapshot> = None;
        let snapshot = loop {
            let snapshot = match self.sampler.snapshot() {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    return add_incident(recording, Reason::SamplerLost, error.to_string());
                }
            };
            if before
                .as_ref()
                .is_some_and(|before| self.memory_moved(before, &snapshot) == Some(0))
            {
                break snapshot;
            }
            if clock::running_ns() > deadline || is_overdue() {
                let when = step.map_or_else(
                    || "outside of steps".to_string(),
                    |step| format!("after step {}", step + 1),
                );
                let detail = format!("memory did not settle within {SETTLE_MS} ms {when}");
                add_incident(recording, Reason::Unsettled, detail);
                break snapshot;
            }
            before = Some(snapshot);
            std::thread::sleep(APART);
        };
        // A snapshot that equals the one before is left out, to keep reports small.
        let same = recording
            .snapshots
            .last()
            .is_some_and(|last| last.snapshot.gpus == snapshot.gpus);
        if !same || after_exit || step.is_none() {
            recording.snapshots.push(BarrierSnapshot {
                step,
                after_exit,
                snapshot,
            });
        }
    }

    /// Reads after the worker's end, until memory is back at the baseline or the time is over. The judge decides later
    /// whether it is back, from the recorded snapshot.
    pub(super) fn read_after_exit(&mut self, recording: &mut Recording) {
        let Some(baseline) = recording
            .snapshots
            .first()
            .map(|snapshot| snapshot.snapshot.clone())
        else {
            return;
        };
        let deadline = clock::running_ns() + SETTLE_MS * 1_000_000;
        while let Ok(snapshot) = self.sampler.snapshot() {
            let back = self
                .memory_moved(&baseline, &snapshot)
                .is_none_or(|bytes| bytes < BACK_BYTES);
            if back || clock::running_ns() > deadline || is_overdue() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.read(recording, None, true);
    }

    /// Compares snapshots like [`differ_by`], on the GPUs of the run only. Another run may use the others.
    fn memory_moved(&self, first: &Snapshot, second: &Snapshot) -> Option<u64> {
        let gpus = self
            .sampler
            .inventory
            .as_ref()
            .map_or(&[][..], |inventory| &inventory.gpus);
        differ_by(first, second, |place| {
            match (&self.watched, gpus.get(place)) {
                (Some(watched), Some(gpu)) => watched.contains(&gpu.uuid),
                _ => true,
            }
        })
    }
}

/// Records a fault of the measurement itself.
pub(super) fn add_incident(recording: &mut Recording, reason: Reason, detail: impl Into<String>) {
    recording.incidents.push(Invalidation {
        reason,
        detail: detail.into(),
    });
}

/// Returns the largest difference in memory between two readings, in bytes, over the watched GPUs that both read;
/// `None` if they did not read the same GPUs.
fn differ_by(
    first: &Snapshot,
    second: &Snapshot,
    is_watched: impl Fn(usize) -> bool,
) -> Option<u64> {
    let pairs = first
        .gpus
        .iter()
        .zip(&second.gpus)
        .enumerate()
        .filter(|(place, _)| is_watched(*place));
    let differences =
        pairs.map(
            |(_, (first, second))| match (first.used_bytes, second.used_bytes) {
                (Some(first), Some(second)) => Some(first.abs_diff(second)),
                (None, None) => Some(0),
                _ => None,
            },
        );
    let largest = differences
        .collect::<Option<Vec<u64>>>()?
        .into_iter()
        .max()
        .unwrap_or(0);
    (first.gpus.len() == second.gpus.len()).then_some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::sample::Reading;

    fn snapshot(used: &[Option<u64>]) -> Snapshot {
        let gpus = used.iter().map(|used_bytes| Reading {
            used_bytes: *used_bytes,
            ..Reading::default()
        });
        Snapshot {
            gpus: gpus.collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn readings_agree_only_on_the_same_gpus() {
        let differ_by = |first: &[Option<u64>], second: &[Option<u64>]| {
            super::differ_by(&snapshot(first), &snapshot(second), |_| true)
        };
        assert_eq!(differ_by(&[Some(5), None], &[Some(9), None]), Some(4));
        assert_eq!(differ_by(&[Some(5)], &[None]), None);
        assert_eq!(differ_by(&[Some(5)], &[Some(5), Some(5)]), None);
        assert_eq!(differ_by(&[], &[]), Some(0));
    }

    #[test]
    fn a_gpu_of_another_run_is_not_waited_for() {
        let (first, second) = (
            snapshot(&[Some(5), Some(7), None]),
            snapshot(&[Some(6), Some(900), Some(3)]),
        );
        assert_eq!(differ_by(&first, &second, |place| place == 0), Some(1));
        assert_eq!(differ_by(&first, &second, |place| place < 2), Some(893));
        assert_eq!(differ_by(&first, &second, |place| place == 2), None);
    }
}
