//! Progress of a run or a survey, and its expected duration.

use std::io::IsTerminal;
use std::time::Duration;

use cuda_pitfalls_core::clock;

/// Without a terminal there is no progress bar; a line is printed this often instead.
const SAY_EVERY_NS: u64 = 30_000_000_000;
/// Interval at which the known results are written.
const WRITE_EVERY_NS: u64 = 1_000_000_000;

/// Questions of a survey, done and to do.
pub(super) struct Progress {
    all: usize,
    done: usize,
    started_ns: u64,
    said_ns: u64,
    written_ns: u64,
}

impl Progress {
    pub(super) fn new(all: usize) -> Progress {
        let now = clock::now_ns();
        Progress {
            all,
            done: 0,
            started_ns: now,
            said_ns: now,
            written_ns: now,
        }
    }

    /// Returns the remaining time, if the remaining questions take as long as those before.
    pub(super) fn left(&self) -> String {
        let gone = clock::now_ns() - self.started_ns;
        left(gone, self.done, self.all)
    }

    /// Returns `true` if the answers so far are due to be written.
    pub(super) fn is_write_due(&mut self) -> bool {
        let now = clock::now_ns();
        let is_due = now - self.written_ns >= WRITE_EVERY_NS;
        if is_due {
            self.written_ns = now;
        }
        is_due
    }

    /// Counts one more question. Returns a line to print if no progress bar shows it.
    pub(super) fn done(&mut self) -> Option<String> {
        self.done += 1;
        let now = clock::now_ns();
        if std::io::stderr().is_terminal()
            || now - self.said_ns < SAY_EVERY_NS
            || self.done == self.all
        {
            return None;
        }
        self.said_ns = now;
        Some(format!(
            "{} of {} questions, {}",
            self.done,
            self.all,
            self.left()
        ))
    }
}

/// Returns the remaining time, if the rest takes as long as the part that is done.
pub(super) fn left(gone_ns: u64, done: usize, all: usize) -> String {
    let Some(each) = gone_ns.checked_div(done as u64) else {
        return "time left not known yet".to_string();
    };
    about(Duration::from_nanos(
        each.saturating_mul(all.saturating_sub(done) as u64),
    ))
}

/// Returns the remaining time as text, rounded.
pub(super) fn about(left: Duration) -> String {
    let seconds = left.as_secs();
    format!("about {}:{:02} min left", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done() {
        assert_eq!(left(10_000_000_000, 20, 260), "about 2:00 min left");
        assert_eq!(left(0, 0, 260), "time left not known yet");
        assert_eq!(left(90_000_000_000, 3, 3), "about 0:00 min left");
    }
}
