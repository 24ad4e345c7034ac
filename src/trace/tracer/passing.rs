//! A program whose stderr is read on its way, and that otherwise is as if its caller had started it.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;

use super::caller::Caller;
use super::program::TracedProgram;
use super::signals::{Bystander, Withheld};
use super::{Ended, TracerError};
use cuda_pitfalls_core::input;
use cuda_pitfalls_instrument::supervisor;

/// Runs a command to its end, and passes each piece of its stderr to `each` as it comes. Returns how it ended, and the
/// last `most_bytes` of its stderr.
///
/// # Errors
/// The command was not started, and why.
pub fn pass_through(
    command: &[OsString],
    most_bytes: usize,
    each: impl FnMut(&[u8]),
) -> Result<(Ended, Vec<u8>), TracerError> {
    supervisor::can_watch().map_err(TracerError::internal)?;
    let caller = Caller::take_over().map_err(TracerError::internal)?;
    let bystander = Bystander::start(command).map_err(TracerError::internal)?;
    let (pipe, stderr) = io::pipe().map_err(TracerError::internal)?;
    let (stderr, withheld) = (Some(stderr.into()), Withheld::default());
    let mut program = TracedProgram::start(command, &[], caller, bystander, None, stderr, withheld)?;
    let kept = input::tail(Stderr { pipe, program: &program, left: None }, most_bytes, each).unwrap_or_default();
    loop {
        if let Some(ended) = program.ended() {
            return Ok((ended, kept));
        }
        let _ = poll(&mut [PollFd::new(&program, PollFlags::IN)], None);
    }
}

/// What a program writes until it ends. What it leaves behind may hold the pipe open, and write to it, for ever.
struct Stderr<'p> {
    pipe: PipeReader,
    program: &'p TracedProgram,
    /// How many bytes of the pipe are still to be read, once the program has ended.
    left: Option<u64>,
}

impl Read for Stderr<'_> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        if self.left.is_none() {
            let fds = [self.pipe.as_fd(), self.program.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            poll(&mut fds, None)?;
            let [_, ended] = &fds;
            if ended.revents().is_empty() {
                return self.pipe.read(piece);
            }
            // Its last lines may have come after the pipe was looked at.
            self.left = Some(ioctl_fionread(&self.pipe)?);
        }
        let left = self.left.get_or_insert_default();
        let read = (&self.pipe).take(*left).read(piece)?;
        *left -= read as u64;
        Ok(read)
    }
}
