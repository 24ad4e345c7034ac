//! `doctor`: its arguments, its output, and its end.

use std::io;

use clap::Args;

use super::output::{Outcome, ended, fail, print_document, print_text};
use crate::argument;
use crate::doctor::{Doctor, DoctorError};
use crate::run::options::WHERE;
use crate::terminal;
use cuda_pitfalls_answers::doctor::{Diagnosed, diagnose_start, findings};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_core::examination::Examination;
use cuda_pitfalls_core::text::json;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::signal_name;
use cuda_pitfalls_render::doctor as page;

pub(super) const ENDS: &str = "\
A fresh process with the current environment initializes libcuda and NVML, tries every file and system call that they \
need, and briefly creates a context on each visible GPU. If CUDA does not start, each variable is removed in turn. \
Nothing is changed.

Exits 0 if CUDA and NVML start, 1 if one fails for a known reason, 3 if the reason is unknown, 4 if there is no GPU. \
With --pid: 0 if no problem was found, 1 if one was, 3 if too little could be read.

Examples:
  cuda-pitfalls doctor
  docker run --gpus all -v $PWD/cuda-pitfalls:/doctor IMAGE /doctor doctor
  cuda-pitfalls doctor --pid 4711";

/// Time limit of a call when a program is explained, in milliseconds.
const BESIDE_A_PROGRAM_MS: u64 = 10_000;

#[derive(Args, Debug)]
pub(super) struct DoctorArguments {
    /// Inspect this running process from outside: its mask at start and now, the GPUs it uses,
    /// duplicate libraries.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// How long `--pid` samples GPU utilization, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "pid", value_parser = clap::value_parser!(u64).range(0..=600))]
    watch: u64,
    /// Time limit of a call, in seconds; a slower call counts as hanging.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Target: `cuda` (this machine) or `sim[:MACHINE]` (simulated).
    #[arg(long, default_value = "cuda", value_parser = argument::on, help_heading = WHERE)]
    on: On,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run_doctor(arguments: &DoctorArguments) -> Outcome {
    if arguments.on == On::Auto {
        let why = "--on auto: a doctor does not choose another machine; write `cuda` or `sim`";
        return Err(fail(why, Exit::Usage, arguments.json));
    }
    let doctor = Doctor::new(&arguments.on, arguments.timeout * 1000);
    let ended = doctor.and_then(|mut doctor| examine_and_print(&mut doctor, arguments));
    ended.map_err(|error| failed(&error, arguments.json))
}

fn examine_and_print(
    doctor: &mut Doctor,
    arguments: &DoctorArguments,
) -> Result<Exit, DoctorError> {
    let screen = terminal::screen(&io::stdout());
    let (text, document, exit) = match arguments.pid {
        Some(pid) => {
            let seen = doctor.look_at(pid, arguments.watch * 1000)?;
            let found = findings(&seen);
            (
                page::process_text(&seen, &found, screen),
                page::process_document(&seen, &found),
                found.exit(),
            )
        }
        None => {
            let needs = &Known::embedded().needs;
            let examination = doctor.examine_machine(needs)?;
            let diagnosed = diagnose_start(&examination, needs);
            let text = page::text(&examination, &diagnosed, screen);
            (
                text,
                page::document(&examination, &diagnosed),
                diagnosed.state.exit(),
            )
        }
    };
    let shown = if arguments.json {
        print_document(serde_json::to_value(&document).map(|document| json::document(&document)))
    } else {
        print_text(&text)
    };
    Ok(ended(exit.worst(shown)))
}

/// Examines how CUDA starts here, after a program failed to start it; `None` if that cannot be examined.
pub(super) fn examine_here() -> Option<(Examination, Diagnosed)> {
    let needs = &Known::embedded().needs;
    let mut doctor = Doctor::new(&On::Cuda, BESIDE_A_PROGRAM_MS).ok()?;
    let examination = doctor.examine_machine(needs).ok()?;
    let diagnosed = diagnose_start(&examination, needs);
    Some((examination, diagnosed))
}

fn failed(error: &DoctorError, json: bool) -> Exit {
    let exit = match error {
        DoctorError::Machine(_) | DoctorError::Folder(_) | DoctorError::NoProcess(_) => Exit::Usage,
        DoctorError::System(_) => Exit::Internal,
        DoctorError::Unkillable(_) => Exit::HostUnsafe,
        DoctorError::Interrupted(signal) => Exit::stopped_by(&signal_name(*signal)),
    };
    fail(error, exit, json)
}
