//! The output of a process: its size, and its end. No result is read from it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::pipe::{PipeFlags, pipe_with};

/// Number of bytes of the end that are kept.
const KEPT_BYTES: usize = 4096;

pub(super) struct Tail {
    pipe: Option<OwnedFd>,
    kept: VecDeque<u8>,
    seen: u64,
}

impl Tail {
    /// Returns a new pipe: the reading end, which never blocks, and the end for the child.
    pub(super) fn new_pipe() -> io::Result<(Tail, std::fs::File)> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        Ok((
            Tail {
                pipe: Some(ours),
                kept: VecDeque::new(),
                seen: 0,
            },
            theirs.into(),
        ))
    }

    /// Returns the descriptor to poll; `None` once the other side has closed the pipe.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads the bytes that have arrived, at most one mebibyte, so that a process that writes much cannot delay
    /// deadlines.
    pub(super) fn read_arrived(&mut self) {
        let mut buffer = [0; 65536];
        for _ in 0..16 {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.keep_tail(buffer.get(..read).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // Otherwise a failed pipe would be ready forever.
                Err(_) => self.pipe = None,
            }
        }
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let start = bytes.len().saturating_sub(KEPT_BYTES);
        self.kept.extend(bytes.get(start..).unwrap_or_default());
        let excess = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..excess);
    }

    /// Returns the number of bytes, and the last of them as text.
    pub(super) fn finish(mut self) -> (u64, String) {
        self.read_arrived();
        let bytes: Vec<u8> = self.kept.into_iter().collect();
        (self.seen, String::from_utf8_lossy(&bytes).into_owned())
    }
}
