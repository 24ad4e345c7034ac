//! The hidden commands with which this program starts itself as another process, and their first actions.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use clap::Subcommand;

use super::output::{fail, print_text};
use super::tracer;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::event::PROTOCOL;
use cuda_pitfalls_instrument::supervisor::{begin_child, begin_fresh, role};
use cuda_pitfalls_instrument::worker::{self, filter};
use cuda_pitfalls_instrument::{examiner, sampler, simulated, umask};
use cuda_pitfalls_trace::tracer::read_python_stack;

#[derive(Debug, Subcommand)]
pub(super) enum ProcessCommand {
    /// The worker (started by `run`).
    #[command(name = role::WORKER, hide = true)]
    Worker(ChannelArguments),
    /// The sampler (started by `run`).
    #[command(name = role::SAMPLER, hide = true)]
    Sampler {
        #[command(flatten)]
        channel: ChannelArguments,
        /// The NVML to open.
        library: Option<OsString>,
    },
    /// A watched command (started by a run).
    #[command(name = role::COMMAND, hide = true)]
    Watched {
        #[command(flatten)]
        started: StartedProgram,
        /// Descriptor of the channel on which the parent answers the system calls of the command.
        #[arg(long)]
        filter: Option<i32>,
        /// The command and its arguments.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// The tracer of one row (started by `survey python`).
    #[command(name = role::TRACER, hide = true)]
    Tracer {
        #[command(flatten)]
        started: StartedProgram,
        #[command(flatten)]
        row: tracer::TracerArguments,
    },
    /// A start that `doctor` tries, or a reader of `who` (started by them).
    #[command(name = role::EXAMINER, hide = true)]
    Examiner(ChannelArguments),
    /// A libcuda that counts calls of `cuInit` and finds no GPU, for a process that loads it by its path before another
    /// library loads one by name (started by `pytest-cuda-pitfalls`).
    #[command(name = role::STAND_IN, hide = true)]
    StandIn {
        /// The directory to put it in; only this user may write there.
        folder: PathBuf,
    },
    /// The library check (started by `run`).
    #[command(name = role::VERSIONS, hide = true)]
    Versions {
        #[command(flatten)]
        channel: ChannelArguments,
        /// The libcudart to ask.
        libcudart: Option<OsString>,
    },
}

/// Does the work of the process.
pub(super) fn serve_process(command: ProcessCommand) -> Exit {
    match command {
        ProcessCommand::Worker(channel) => {
            let fd = channel.prepare_process();
            // SAFETY: `run` started this process with its end of a channel at this descriptor.
            unsafe { worker::run(fd) }
        }
        ProcessCommand::Sampler { channel, library } => {
            let fd = channel.prepare_process();
            // SAFETY: as above.
            unsafe { sampler::run(fd, library) }
        }
        ProcessCommand::Watched {
            started,
            filter,
            command,
        } => {
            started.prepare_process();
            become_command(&command, filter)
        }
        ProcessCommand::Tracer { started, row } => {
            started.prepare_process();
            tracer::trace(row)
        }
        ProcessCommand::Examiner(channel) => {
            let fd = channel.prepare_process();
            // SAFETY: as above, by `doctor` or `who`.
            unsafe { examiner::run(fd, read_python_stack) }
        }
        ProcessCommand::StandIn { folder } => match simulated::lay_out_stand_in(&folder) {
            Ok(library) => print_text(&format!("{}\n", library.display())),
            Err(error) => fail(error, Exit::Internal, false),
        },
        ProcessCommand::Versions { channel, libcudart } => {
            let fd = channel.prepare_process();
            // SAFETY: as above.
            unsafe { worker::versions::run(fd, libcudart) }
        }
    }
}

/// Arguments of a process that has a channel to its parent.
#[derive(Debug, clap::Args)]
pub(super) struct ChannelArguments {
    /// The inherited channel.
    fd: i32,
    #[command(flatten)]
    started: StartedProgram,
}

impl ChannelArguments {
    /// Performs the first actions of such a process, and returns the descriptor of its channel.
    fn prepare_process(&self) -> i32 {
        self.started.prepare_process();
        self.fd
    }
}

/// Arguments of a process of a run, which is started by the parent or, without them, by a step of a worker.
#[derive(Debug, clap::Args)]
pub(super) struct StartedProgram {
    /// The PID of the process that must live.
    #[arg(long)]
    parent: Option<i32>,
    /// Protocol version of the messages that it will receive.
    #[arg(long)]
    protocol: Option<u32>,
    /// The umask of the caller of the run, for the caller's program.
    #[arg(long)]
    umask: Option<u32>,
    /// An inherited descriptor; all others are closed.
    #[arg(long)]
    keep: Vec<i32>,
}

impl StartedProgram {
    /// Performs the first actions of such a process.
    fn prepare_process(&self) {
        if let Some(protocol) = self.protocol.filter(|protocol| *protocol != PROTOCOL) {
            eprintln!(
                "cuda-pitfalls: started by a version of this program that speaks protocol {protocol}; this one speaks {PROTOCOL}; the program file was replaced during a run"
            );
            std::process::exit(Exit::Internal.code());
        }
        if let Some(callers) = self.umask {
            umask::keep_umask(callers);
        }
        match self.parent {
            Some(parent) if !begin_child(parent, &self.keep) => {
                std::process::exit(Exit::Internal.code())
            }
            Some(_) => {}
            None => begin_fresh(),
        }
    }
}

/// Replaces this process by a command. It keeps its process group, and its request to be killed when its parent ends.
/// `filter` is the descriptor of the channel of a command whose system calls the parent answers.
fn become_command(command: &[OsString], filter: Option<i32>) -> ! {
    let [program, arguments @ ..] = command else {
        std::process::exit(Exit::Usage.code())
    };
    // SAFETY: the parent started this process with its end of a channel at this descriptor.
    if let Some(Err(error)) = filter.map(|fd| unsafe { filter::before_exec(fd) }) {
        eprintln!("cuda-pitfalls: no filter on system calls: {error}");
        std::process::exit(Exit::Internal.code())
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    eprintln!(
        "cuda-pitfalls: cannot start `{}`: {error}",
        program.display()
    );
    // Like shells: the command was not found, or cannot be executed.
    std::process::exit(if error.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    })
}
