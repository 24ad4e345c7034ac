//! The processes of `doctor`: each is fresh, does one thing that may hang or crash, and reports the result. Unlike a
//! worker it has the environment of `doctor`, and opens the libraries that any program there would.

mod attempts;
mod driver;
pub mod place;
mod process;

use std::os::fd::RawFd;

use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::examination::{ExaminerMessage, Started, Want};

use crate::mapped::mapped_libraries;
use crate::sampler;
use crate::speaker::Speaker;

pub use attempts::attempt as attempt_here;

/// Returns the facts in the files of a process in this directory, which has the layout of `/proc/PID`.
#[doc(hidden)]
pub fn process_in(folder: &std::path::Path) -> cuda_pitfalls_core::examination::ProcessExamination {
    process::examine_in(folder, 0)
}

/// Executes the parent's task, and reports the results.
///
/// # Safety
/// `fd` must be this process's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: RawFd) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let mut channel = unsafe { Channel::from_inherited(fd) };
    let code = match serve_want(&mut channel) {
        Ok(()) | Err(ChannelError::Closed) => 0,
        Err(_) => 70,
    };
    std::process::exit(code)
}

fn serve_want(channel: &mut Channel) -> Result<(), ChannelError> {
    let want: Want = channel.receive()?;
    let speaker = Speaker { channel };
    match want {
        Want::Start {
            library: Started::Driver,
            uses_gpus,
            ..
        } => driver::start(&speaker, uses_gpus),
        Want::Start {
            library: Started::Nvml,
            watch_ms,
            ..
        } => sampler::start_once(&speaker, watch_ms),
        Want::Try { files, calls } => {
            attempts::attempt(&files, &calls, &mut |said| speaker.send_message(&said))
        }
        Want::Process { pid } => speaker.send_message(&ExaminerMessage::Process(Box::new(
            process::examine_process(pid),
        ))),
    }
    let mapped = mapped_libraries();
    speaker.channel.send(&ExaminerMessage::Done {
        libraries: mapped.known,
    })
}
