//! Ctrl-C and other termination signals, as a pollable descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use cuda_pitfalls_core::clock;

/// When the first of the signals came, by `CLOCK_MONOTONIC`; 0 as long as none did.
static CAME_NS: AtomicU64 = AtomicU64::new(0);

/// How long a wait for an own process lasts after an interrupt.
const GRACE_NS: u64 = 1_000_000_000;

/// Whether the user has wanted to stop for so long that nothing is waited for any more, but for the
/// end of processes.
pub fn is_overdue() -> bool {
    let came = CAME_NS.load(Ordering::Relaxed);
    came != 0 && clock::now_ns().saturating_sub(came) > GRACE_NS
}

/// Undoes what the caller may have set and a run cannot bear: children that cannot be waited for
/// (SIGCHLD ignored), and a limit on the size of files that kills instead of failing a write.
fn make_bearable() -> io::Result<()> {
    // SAFETY: the default action of a signal that has no handler in this program yet.
    if unsafe { libc::signal(SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handler does nothing. It ends at exec, so that workers meet the default action.
    unsafe { signal_hook::low_level::register(SIGXFSZ, || {}) }.map(drop)
}

/// Whether the caller wants a signal to be ignored, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the action is only asked for, and written to a live struct of plain values.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The signals that end a run early, after a partial report.
#[derive(Debug)]
pub struct Interrupt {
    pipes: Vec<(i32, UnixStream)>,
    first: Option<i32>,
    count: u32,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP, but for those that the caller ignores.
    ///
    /// # Errors
    /// What the system refused.
    pub fn install() -> io::Result<Interrupt> {
        make_bearable()?;
        let mut pipes = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
            // SAFETY: a clock is read and a number stored; both may be done in a handler.
            unsafe {
                signal_hook::low_level::register(signal, || {
                    let _ = CAME_NS.compare_exchange(0, clock::now_ns(), Ordering::Relaxed, Ordering::Relaxed);
                })?;
            }
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, theirs)?;
            pipes.push((signal, ours));
        }
        Ok(Interrupt { pipes, first: None, count: 0 })
    }

    /// Nothing is taken over; for callers that are not a program of their own.
    pub fn none() -> Interrupt {
        Interrupt { pipes: Vec::new(), first: None, count: 0 }
    }

    /// What to poll.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(|(_, pipe)| pipe.as_fd())
    }

    /// Notices signals that have come. True if any ever came.
    pub fn check(&mut self) -> bool {
        for (signal, pipe) in &mut self.pipes {
            let mut buffer = [0; 64];
            if let Ok(read) = pipe.read(&mut buffer)
                && read > 0
            {
                self.first.get_or_insert(*signal);
                self.count += read as u32;
            }
        }
        self.first.is_some()
    }

    /// The signal that came first.
    pub fn signal(&self) -> Option<i32> {
        self.first
    }

    /// Whether the user insisted: the grace of a worker is then cut short.
    pub(super) fn is_impatient(&self) -> bool {
        self.count > 1
    }
}
