//! `doctor`: its arguments, what it prints, and how it ends.

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
Each thing is tried in a fresh process with the environment that it has here: libcuda and NVML are started as any program \
would, each file and each system call that they need is tried, and if CUDA does not start, it is started again without \
each variable. Nothing is changed. On each visible GPU a context is made for a moment.

Exits 0 if CUDA and NVML start, 1 if one does not and the reason is known, 3 if it is not known, 4 if there is no GPU. \
With --pid: 0 if nothing is wrong, 1 if something is, 3 if too little may be read.

Examples:
  cuda-pitfalls doctor
  docker run --gpus all -v $PWD/cuda-pitfalls:/doctor IMAGE /doctor doctor
  cuda-pitfalls doctor --pid 4711";

/// How long a call may take where a program is explained, in milliseconds.
const BESIDE_A_PROGRAM_MS: u64 = 10_000;

#[derive(Args, Debug)]
pub(super) struct DoctorArguments {
    /// Look at this running process instead, from outside: the mask that it was started with and that is set now, the
    /// GPUs that it took and holds, libraries of which it has two.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// For how long --pid watches how busy the process keeps each GPU, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, requires = "pid", value_parser = clap::value_parser!(u64).range(0..=600))]
    watch: u64,
    /// How long a call may take until it counts as one that does not return, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Where: `cuda` (this machine) or `sim[:MACHINE]` (the simulated machine).
    #[arg(long, default_value = "cuda", value_parser = argument::on, help_heading = WHERE)]
    on: On,
    /// As JSON.
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
    let width = terminal::width(&io::stdout());
    let (text, document, exit) = match arguments.pid {
        Some(pid) => {
            let seen = doctor.look_at(pid, arguments.watch * 1000)?;
            let found = findings(&seen);
            (
                page::process_text(&seen, &found, width),
                page::process_document(&seen, &found),
                found.exit(),
            )
        }
        None => {
            let needs = &Known::embedded().needs;
            let examination = doctor.examine_machine(needs)?;
            let diagnosed = diagnose_start(&examination, needs);
            let text = page::text(&examination, &diagnosed, width);
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

/// How CUDA starts here, beside a program that could not start it; none if that cannot be examined.
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
