//! The times at which a reading is asked for.

use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::super::TracerError;
use super::super::signals::Withheld;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_instrument::supervisor::{is_ignored, signal_name, to_timespec};

/// When whose the memory is is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingTime {
    /// So long after the program's start.
    After(Duration),
    /// Whenever this signal reaches the tracer, which then does not hand it on.
    Signal(i32),
}

/// What is still to come.
#[derive(Default)]
pub(in crate::tracer) struct AskedReadings {
    started_ns: u64,
    times_ns: BTreeSet<u64>,
    /// Readable when a signal came.
    bell: Option<PipeReader>,
    /// How many readings had nobody to read.
    in_vain: u64,
}

impl AskedReadings {
    /// The readings of a program that starts now, and the signals that are not for it.
    ///
    /// # Errors
    /// A signal cannot be waited for.
    pub(in crate::tracer) fn new(
        times: &[ReadingTime],
        started_ns: u64,
    ) -> Result<(AskedReadings, Withheld), TracerError> {
        let (mut asked, mut withheld) = (
            AskedReadings {
                started_ns,
                ..AskedReadings::default()
            },
            Withheld::default(),
        );
        for time in times {
            match time {
                ReadingTime::After(after) => {
                    let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
                    asked.times_ns.insert(started_ns.saturating_add(after_ns));
                }
                // A handler of ours would take away from the program that it is ignored.
                ReadingTime::Signal(signal) if is_ignored(*signal) => {
                    let name = signal_name(*signal);
                    return Err(TracerError::Usage(format!(
                        "--at: {name} is ignored here (nohup, trap)"
                    )));
                }
                ReadingTime::Signal(signal) => drop(withheld.signals.insert(*signal)),
            }
        }
        if !withheld.signals.is_empty() {
            let (bell, rope) = io::pipe().map_err(TracerError::internal)?;
            (asked.bell, withheld.bell) = (Some(bell), Some(rope));
        }
        Ok((asked, withheld))
    }

    /// What becomes readable when a signal comes.
    pub(in crate::tracer) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(PipeReader::as_fd)
    }

    /// How long it is to the next time, at most `most_ns`.
    pub(in crate::tracer) fn wait_ns(&self, now_ns: u64, most_ns: u64) -> u64 {
        self.times_ns
            .first()
            .map_or(most_ns, |next| next.saturating_sub(now_ns).min(most_ns))
    }

    /// Whether a reading is wanted now. It is wanted no more then.
    pub(in crate::tracer) fn is_due(&mut self, now_ns: u64) -> bool {
        let later = self.times_ns.split_off(&now_ns.saturating_add(1));
        let is_time = !std::mem::replace(&mut self.times_ns, later).is_empty();
        is_time | self.has_rung()
    }

    fn has_rung(&mut self) -> bool {
        let Some(bell) = &mut self.bell else {
            return false;
        };
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        let is_readable = poll(&mut fds, Some(&to_timespec(0))).is_ok_and(|ready| ready > 0);
        is_readable && bell.read(&mut [0; 1024]).is_ok_and(|read| read > 0)
    }

    /// Notes that nobody held memory when a reading was wanted.
    pub(in crate::tracer) fn find_nobody(&mut self) {
        self.in_vain += 1;
    }

    /// The readings that there are not, in words.
    pub(in crate::tracer) fn not_read(&self) -> Vec<String> {
        let seconds = self
            .times_ns
            .iter()
            .map(|time| (time - self.started_ns) as f64 / 1e9);
        let mut all: Vec<String> = seconds
            .map(|seconds| format!("--at {seconds}: the program had ended before"))
            .collect();
        if self.in_vain > 0 {
            let times = counted(self.in_vain, "reading");
            all.push(format!(
                "--at: {times} found no process that had initialised CUDA"
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_due_once_for_each_time() {
        let times =
            [3.0, 1.0, 1.0, 2.5].map(|after| ReadingTime::After(Duration::from_secs_f64(after)));
        let (mut asked, withheld) = AskedReadings::new(&times, 1_000_000_000).unwrap();
        assert!(withheld.signals.is_empty() && asked.bell().is_none());
        assert_eq!(
            (asked.wait_ns(0, u64::MAX), asked.wait_ns(0, 5)),
            (2_000_000_000, 5)
        );
        assert!(!asked.is_due(1_999_999_999));
        assert!(asked.is_due(2_000_000_000) && !asked.is_due(2_000_000_000));
        assert_eq!(asked.wait_ns(9_000_000_000, 5), 0);
        assert_eq!(
            asked.not_read(),
            [
                "--at 2.5: the program had ended before",
                "--at 3: the program had ended before"
            ]
        );
        assert!(asked.is_due(9_000_000_000) && asked.not_read().is_empty());
        asked.find_nobody();
        assert_eq!(
            asked.not_read(),
            ["--at: 1 reading found no process that had initialised CUDA"]
        );
    }

    #[test]
    fn a_signal_rings_once() {
        let (mut asked, withheld) =
            AskedReadings::new(&[ReadingTime::Signal(libc::SIGUSR2)], 0).unwrap();
        assert_eq!(withheld.signals, BTreeSet::from([libc::SIGUSR2]));
        assert!(!asked.is_due(5));
        std::io::Write::write_all(&mut withheld.bell.as_ref().unwrap(), &[0]).unwrap();
        assert!(asked.is_due(5) && !asked.is_due(6));
        drop(withheld);
        assert!(!asked.is_due(7), "whoever hands on signals has gone");
    }
}
