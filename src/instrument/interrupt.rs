//! Ctrl-C and other termination signals, as a pollable descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use signal_hook::consts::{
    SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
};

use cuda_pitfalls_calls::SIGNALS;
use cuda_pitfalls_core::clock;

/// Arrival time of the first signal, by `CLOCK_MONOTONIC`; 0 before that.
static CAME_NS: AtomicU64 = AtomicU64::new(0);

/// Maximum time that the parent still waits for its own processes after an interrupt, in nanoseconds.
const GRACE_NS: u64 = 1_000_000_000;

/// Returns `true` if the user has wanted to stop for so long that the parent only waits for the end of processes.
pub fn is_overdue() -> bool {
    let came = CAME_NS.load(Ordering::Relaxed);
    came != 0 && clock::now_ns().saturating_sub(came) > GRACE_NS
}

/// Resets inherited settings that break a run: an ignored SIGCHLD, which prevents waiting for children, and SIGXFSZ,
/// which kills this process where a write at the limit on file sizes should fail.
fn make_bearable() -> io::Result<()> {
    // SAFETY: the default action of a signal that has no handler in this program yet.
    if unsafe { libc::signal(SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handler does nothing. It does not survive exec, so workers get the default action.
    unsafe { signal_hook::low_level::register(SIGXFSZ, || {}) }.map(drop)
}

/// Returns `true` if the caller set a signal to be ignored, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the call only reads the action, into a live struct of plain values.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
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
    /// Installs handlers for the signals with which a user or a scheduler ends a program, except for those that the
    /// caller ignores.
    ///
    /// # Errors
    /// Returns an error if a system call fails.
    pub fn install() -> io::Result<Interrupt> {
        make_bearable()?;
        let mut pipes = Vec::new();
        let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU];
        for signal in signals.into_iter().filter(|signal| !is_ignored(*signal)) {
            // SAFETY: the handler reads a clock and stores a number; both are allowed in a handler.
            unsafe {
                signal_hook::low_level::register(signal, || {
                    let _ = CAME_NS.compare_exchange(
                        0,
                        clock::now_ns(),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                })?;
            }
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, theirs)?;
            pipes.push((signal, ours));
        }
        Ok(Interrupt {
            pipes,
            first: None,
            count: 0,
        })
    }

    /// Installs nothing; for callers that are a library in another program.
    pub fn none() -> Interrupt {
        Interrupt {
            pipes: Vec::new(),
            first: None,
            count: 0,
        }
    }

    pub(crate) fn signal_pipes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(|(_, pipe)| pipe.as_fd())
    }

    /// Takes note of signals that have arrived. True if any has arrived so far.
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

    /// Returns the first signal that arrived.
    pub fn signal(&self) -> Option<i32> {
        self.first
    }

    /// Returns `true` if the user sent a second signal, so that the grace period of a worker is cut short.
    pub(crate) fn is_impatient(&self) -> bool {
        self.count > 1
    }
}

/// Returns the C name of a signal, or its number if it has no name here.
pub fn signal_name(number: i32) -> String {
    let known = SIGNALS
        .values
        .iter()
        .find(|(_, value)| *value == i64::from(number));
    known.map_or_else(
        || format!("signal {number}"),
        |(name, _)| (*name).to_string(),
    )
}
