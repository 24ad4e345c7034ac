//! `sim`: runs a program on the simulated machine, and reports what the machine does not model.

use std::ffi::OsString;

use clap::Args;

use super::output::{Outcome, fail, named};
use super::trace::{end_as, not_started, print_stderr};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_instrument::folder::Folder;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::simulated;
use cuda_pitfalls_render::trace::sim as page;
use cuda_pitfalls_trace::Trace;
use cuda_pitfalls_trace::tracer::{self, Traced};

pub(super) const ENDS: &str = "\
The program loads the libcuda, libcudart and NVML of a simulated machine before all others. The GPUs are not real, and \
kernels do not run. A call that is not modeled fails with status 60000, or is missing in NVML, and is listed at the end. \
Programs that bring their own libcudart, such as PyTorch, are not supported (docs/simulated-machine.md).

The exit code is the program's own, or its signal; 3 if the program ended with 0 and used a call that is not modeled; \
126 or 127 if it cannot be started.

Examples:
  cuda-pitfalls sim --gpus 8 -- python list_gpus.py
  cuda-pitfalls sim --machine mixed-pair -- ./program";

#[derive(Args, Debug)]
pub(super) struct SimArguments {
    /// Number of simulated GPUs (NVIDIA H200).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), conflicts_with = "machine")]
    gpus: Option<u8>,
    /// Machine name, or path of a description (docs/simulated-machine.md).
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Command and arguments. Write `--` first if the command begins with a dash.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn sim(arguments: SimArguments) -> Outcome {
    let machine = match arguments.gpus {
        Some(gpus) => simulated::sized_machine(gpus.into()),
        None => arguments
            .machine
            .unwrap_or_else(|| defaults::MACHINE.to_owned()),
    };
    let program = std::env::current_exe().map_err(|error| fail(error, Exit::Internal, false))?;
    let folder = Folder::create().map_err(|error| fail(error, Exit::Usage, false))?;
    // A wrong name is reported before the banner.
    if machine != simulated::NO_DEVICE {
        simulated::lay_out(&machine, &folder.path().join("checked"))
            .map_err(|error| fail(format!("--machine: {error}"), Exit::Usage, false))?;
    }
    let screen = terminal::screen(&std::io::stderr());
    print_stderr(&page::begin_message(&machine, screen));
    let options = tracer::TraceOptions {
        commit: crate::COMMIT.map(str::to_owned),
        command: arguments.command,
        on: On::Sim(Some(machine.clone())),
        folder: folder.path().join("trace"),
        returns: tracer::not_modelled(),
        // The preloaded library shows which functions the program looks up.
        preload: true,
        ..tracer::TraceOptions::default()
    };
    let traced = tracer::trace(&program, &options).map_err(|error| not_started(&error, false))?;
    let Traced {
        ended,
        document,
        unmodelled,
        absent,
        ..
    } = traced;
    let trace = Trace::open(&document).ok();
    let called = page::unmodeled_functions(trace.as_ref(), &unmodelled);
    print_stderr(&page::end(&machine, &called, &absent, screen));
    // `end_as` does not return, so nothing would remove it.
    drop(folder);
    match ended.code {
        Some(0) if !called.is_empty() || !absent.is_empty() => Ok(named(Exit::Inconclusive)),
        _ => end_as(ended),
    }
}
