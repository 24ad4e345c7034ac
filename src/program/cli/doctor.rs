//! `doctor`: its arguments, its output, and its end.

use std::io;

use clap::Args;

use super::output::{Outcome, ended, fail, print_result};
use crate::argument;
use crate::doctor::{Doctor, DoctorError};
use crate::run::options::WHERE;
use crate::terminal;
use cuda_pitfalls_answers::doctor::{Diagnosed, diagnose_start};
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
No setting is changed. As root, libcuda creates missing device files, even without a driver.

Exits 0 if CUDA and NVML start, 1 if one fails for a known reason, 3 if the reason is unknown, 4 if there is no GPU.

Examples:
  cuda-pitfalls doctor
  docker run --gpus all -v $PWD/cuda-pitfalls:/doctor IMAGE /doctor doctor";

/// Time limit of a call when a program is explained, in milliseconds.
const BESIDE_A_PROGRAM_MS: u64 = 10_000;

#[derive(Args, Debug)]
pub(super) struct DoctorArguments {
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
    let needs = &Known::embedded().needs;
    let examination = doctor.examine_machine(needs)?;
    let diagnosed = diagnose_start(&examination, needs);
    let shown = print_result(
        arguments.json,
        || {
            let document = serde_json::to_value(page::document(&examination, &diagnosed))?;
            Ok(json::document(&document))
        },
        || page::text(&examination, &diagnosed, screen),
    );
    Ok(ended(diagnosed.state.exit().worst(shown)))
}

/// Examines how CUDA starts here, after a program failed to start it; `None` if that cannot be examined.
pub(super) fn examine_here() -> Option<(Examination, Diagnosed)> {
    let needs = &Known::embedded().needs;
    let mut doctor = Doctor::new(&On::Cuda, BESIDE_A_PROGRAM_MS).ok()?;
    let examination = doctor.examine_machine(needs).ok()?;
    let diagnosed = diagnose_start(&examination, needs);
    Some((examination, diagnosed))
}

pub(super) fn failed(error: &DoctorError, json: bool) -> Exit {
    let exit = match error {
        DoctorError::Machine(_) | DoctorError::Folder(_) | DoctorError::NoProcess(_) => Exit::Usage,
        DoctorError::System(_) => Exit::Internal,
        DoctorError::Unkillable => Exit::HostUnsafe,
        DoctorError::Interrupted(signal) => Exit::stopped_by(&signal_name(*signal)),
    };
    fail(error, exit, json)
}
