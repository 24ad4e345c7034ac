//! Ctrl-C and friends, as something that can be polled.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The signals that end a run early, after a partial report.
#[derive(Debug)]
pub struct Interrupt {
    pipes: Vec<(i32, UnixStream)>,
    first: Option<i32>,
    count: u32,
}

impl Interrupt {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
    pub fn install() -> io::Result<Interrupt> {
        let mut pipes = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
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
