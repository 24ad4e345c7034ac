//! What every process of a run does before anything else.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::event::PROTOCOL;
use cuda_pitfalls_instrument::supervisor::{begin, begin_fresh};
use cuda_pitfalls_instrument::worker::filter;

/// How a process of a run was started: by the parent, or by a step of a worker, which says nothing.
#[derive(Debug, clap::Args)]
pub(super) struct StartedProgram {
    /// The PID of the process that must live.
    #[arg(long)]
    parent: Option<i32>,
    /// The version of what it will be told.
    #[arg(long)]
    protocol: Option<u32>,
    /// A descriptor that it was given; all others are closed.
    #[arg(long)]
    keep: Vec<i32>,
}

impl StartedProgram {
    /// Does what such a process does before anything else.
    pub(super) fn begin(&self) {
        if let Some(protocol) = self.protocol.filter(|protocol| *protocol != PROTOCOL) {
            eprintln!(
                "cuda-pitfalls: started by a version of this program that speaks protocol {protocol}; this one speaks \
                 {PROTOCOL}: the program's file was replaced while a run is under way"
            );
            std::process::exit(Exit::Internal.code());
        }
        match self.parent {
            Some(parent) if !begin(parent, &self.keep) => std::process::exit(Exit::Internal.code()),
            Some(_) => {}
            None => begin_fresh(),
        }
    }
}

/// Replaces this process by a command. It keeps its process group, and the wish to be killed when
/// its parent ends. `filter` is the descriptor of the channel of a command whose system calls the parent answers.
pub(super) fn become_command(command: &[OsString], filter: Option<i32>) -> ! {
    let [program, arguments @ ..] = command else { std::process::exit(Exit::Usage.code()) };
    // SAFETY: the parent started this process with its end of a channel at this descriptor.
    if let Some(Err(error)) = filter.map(|fd| unsafe { filter::before_exec(fd) }) {
        eprintln!("cuda-pitfalls: no filter on system calls: {error}");
        std::process::exit(Exit::Internal.code())
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    eprintln!("cuda-pitfalls: cannot start `{}`: {error}", program.display());
    // As shells have it: the command was not found, or cannot be executed.
    std::process::exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}
