//! A program that behaves as if its caller had started it, although its stderr is recorded while it is passed on.

use std::ffi::OsString;

use rustix::event::{PollFd, PollFlags, poll};

use super::caller::Caller;
use super::program::TracedProgram;
use super::signals::Bystander;
use super::stderr::PassedStderr;
use super::{Ended, TracerError};
use cuda_pitfalls_instrument::supervisor;

/// Runs a command to its end, and passes on its stderr as it comes. Returns how it ended, and the last `most_bytes` of
/// its stderr. Processes that it leaves behind may continue to write there.
///
/// # Errors
/// Returns an error if the command could not be started.
pub fn pass_through(
    command: &[OsString],
    most_bytes: usize,
) -> Result<(Ended, Vec<u8>), TracerError> {
    supervisor::can_watch().map_err(TracerError::internal)?;
    let caller = Caller::take_over().map_err(TracerError::internal)?;
    let bystander = Bystander::start(command).map_err(TracerError::internal)?;
    let passed = PassedStderr::start(most_bytes).map_err(TracerError::internal)?;
    let mut program = TracedProgram::start(command, &[], caller, bystander, None, Some(&passed))?;
    loop {
        if let Some(ended) = program.ended() {
            return Ok((ended, passed.finish_passing()));
        }
        let _ = poll(&mut [PollFd::new(&program, PollFlags::IN)], None);
    }
}
