//! The processes of `doctor`: each is fresh, does one thing that may hang or crash, and reports the result. Unlike a
//! worker it has the environment of `doctor`, and opens the libraries that any program there would.

mod attempts;
mod driver;
mod files;
pub mod place;
mod process;
mod scan;

use std::os::fd::RawFd;

use cuda_pitfalls_core::channel::{Channel, ChannelError};
use cuda_pitfalls_core::examination::{ExaminerMessage, Started, Want};
use cuda_pitfalls_core::holding::PythonStack;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::mapped::mapped_libraries;
use crate::sampler;
use crate::speaker::Speaker;
use scan::ScanTask;

pub use attempts::attempt as attempt_here;
pub use files::DEVICES;
pub use scan::list_processes;

/// Returns the facts in the files of a process in this directory, which has the layout of `/proc/PID`.
#[doc(hidden)]
pub fn process_in(folder: &std::path::Path) -> cuda_pitfalls_core::holding::ProcessExamination {
    process::examine_in(folder, 0, &files::DeviceFiles::new(files::DEVICES))
}

/// Returns the Python stack of a process; `None` if it has no Python.
pub type ReadStack = fn(pid: u32) -> Option<PythonStack>;

/// Executes the parent's task, and reports the results. `read_stack` reads Python stacks.
///
/// # Safety
/// `fd` must be this process's end of a channel, inherited and without another owner.
pub unsafe fn run(fd: RawFd, read_stack: ReadStack) -> ! {
    // SAFETY: the caller guarantees the descriptor.
    let mut channel = unsafe { Channel::from_inherited(fd) };
    let code = match serve_want(&mut channel, read_stack) {
        Ok(()) | Err(ChannelError::Closed) => 0,
        Err(_) => 70,
    };
    std::process::exit(code)
}

fn serve_want(channel: &mut Channel, read_stack: ReadStack) -> Result<(), ChannelError> {
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
        Want::Scan {
            only,
            listed,
            skipped,
            devices,
        } => {
            let task = ScanTask {
                only,
                listed,
                skipped,
                devices,
            };
            scan::scan_processes(&speaker, &task)
        }
        Want::Stack {
            pid,
            started_unix_ms,
        } => {
            limit_memory();
            let mut stack = None;
            if process::take_file_rights(pid) {
                stack = read_stack(pid);
            }
            if !process::has_started_at(pid, started_unix_ms) {
                stack = None;
            }
            speaker.send_message(&ExaminerMessage::Stack(stack))
        }
    }
    let mapped = mapped_libraries();
    speaker.channel.send(&ExaminerMessage::Done {
        libraries: mapped.known,
    })
}

/// The most memory of a process that reads a stack: the other process decides what is read.
const MOST_FOR_A_STACK: u64 = 4 << 30;

fn limit_memory() {
    let was = getrlimit(Resource::As);
    let least = was
        .maximum
        .map_or(MOST_FOR_A_STACK, |most| most.min(MOST_FOR_A_STACK));
    let lower = Rlimit {
        current: Some(least),
        maximum: was.maximum,
    };
    let _ = setrlimit(Resource::As, lower);
}
