//! The longest gap between readings of each GPU's memory. Growth within a gap is unknown.

use cuda_pitfalls_core::sample::Polling;

#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    last_ns: Option<u64>,
    longest_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct MemoryWatch(Vec<Readings>);

impl MemoryWatch {
    /// Returns a watch that begins with the readings from before the program's start, in NVML order.
    pub(super) fn from_first_readings(used: &[Option<u64>], now_ns: u64) -> MemoryWatch {
        MemoryWatch(
            used.iter()
                .map(|used| Readings {
                    last_ns: used.map(|_| now_ns),
                    longest_ns: 0,
                })
                .collect(),
        )
    }

    /// Records the readings of background polling.
    pub(super) fn ran(&mut self, run: &Polling) {
        let end_ns = run.t_ns.saturating_add(run.elapsed_ns);
        for (gpu, readings) in self.0.iter_mut().enumerate() {
            // Every period begins with a reading of each GPU that can be read.
            let Some(first) = run.changes.iter().find(|change| change.gpu == gpu) else {
                continue;
            };
            readings.at(first.t_ns);
            // The dropped readings may have been large.
            let within = if run.truncated {
                run.elapsed_ns
            } else {
                run.longest_gap_ns
            };
            readings.longest_ns = readings.longest_ns.max(within);
            readings.last_ns = Some(end_ns);
        }
    }

    /// Records one reading of all GPUs.
    pub(super) fn read(&mut self, used: &[Option<u64>], now_ns: u64) {
        for (readings, used) in self.0.iter_mut().zip(used) {
            if used.is_some() {
                readings.at(now_ns);
            }
        }
    }

    /// Returns the longest gap of each GPU in nanoseconds. None for a GPU without a reading after the program's end.
    pub(super) fn longest_gaps(&self, ended_ns: u64) -> Vec<Option<u64>> {
        let all = self.0.iter();
        all.map(|it| {
            it.last_ns
                .filter(|last| *last >= ended_ns)
                .map(|_| it.longest_ns)
        })
        .collect()
    }
}

impl Readings {
    fn at(&mut self, t_ns: u64) {
        if let Some(last) = self.last_ns {
            self.longest_ns = self.longest_ns.max(t_ns.saturating_sub(last));
            self.last_ns = Some(last.max(t_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_core::sample::MemoryChange;

    fn run(t_ns: u64, elapsed_ns: u64, gpus: &[usize]) -> Polling {
        let changes = gpus
            .iter()
            .map(|gpu| MemoryChange {
                t_ns,
                gpu: *gpu,
                used_bytes: 0,
            })
            .collect();
        Polling {
            t_ns,
            elapsed_ns,
            changes,
            longest_gap_ns: 7,
            ..Polling::default()
        }
    }

    #[test]
    fn the_longest_time_without_a_reading_is_kept() {
        let mut watch = MemoryWatch::from_first_readings(&[Some(0), Some(0), None], 100);
        watch.ran(&run(110, 90, &[0, 1]));
        // This period does not read GPU 1.
        watch.ran(&run(210, 90, &[0]));
        watch.ran(&run(310, 90, &[0, 1]));
        watch.read(&[Some(0), Some(0), Some(0)], 405);
        assert_eq!(
            watch.longest_gaps(400),
            [Some(10), Some(110), None],
            "one that was not read at first never counts"
        );
        assert_eq!(
            watch.longest_gaps(406),
            [None, None, None],
            "nothing was read after the end"
        );
    }

    #[test]
    fn changes_that_were_left_out_are_a_time_without_readings() {
        let mut watch = MemoryWatch::from_first_readings(&[Some(0)], 0);
        watch.ran(&Polling {
            truncated: true,
            ..run(5, 90, &[0])
        });
        watch.read(&[Some(0)], 100);
        assert_eq!(watch.longest_gaps(100), [Some(90)]);
    }
}
