//! `who`: its arguments, what it prints, and how it ends.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::doctor::failed;
use super::output::{CliError, Outcome, ended, fail, named, print_document, print_text};
use crate::argument::{self, parse_duration, size};
use crate::doctor::{Doctor, DoctorError};
use crate::run::options::WHERE;
use crate::terminal;
use crate::who::{WhoRequest, find_simulated_machine};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::who::{HolderPolicy, HolderPolicyError, Holders, list_holders};
use cuda_pitfalls_core::output;
use cuda_pitfalls_core::text::json;
use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_render::who as page;

pub(super) const ENDS: &str = "\
Reads NVML and /proc. It needs neither root nor preparation, creates no context, and does not touch the processes: no \
ptrace, no signal, no file. Root sees more: open files and variables of other users' processes.

Exits 0; with --forbid 1 if something forbidden was found, 3 if not everything could be seen; 4 if NVML shows no GPU. \
With PID: 0 if no problem was found, 1 if one was, 3 if too little could be read.

Examples:
  cuda-pitfalls who
  cuda-pitfalls who 4711 --stacks
  cuda-pitfalls who --forbid 'holders,leftover>64MiB'
  cuda-pitfalls who --over 31m --forbid 'idle>30m'";

#[derive(Args, Debug)]
pub(super) struct WhoArguments {
    /// Show one process in full.
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Exit 1 if there are `holders`, `orphans`, `leftover>SIZE` or `idle>TIME` (repeatable, or
    /// comma-separated).
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = parse_rule)]
    forbid: Vec<HolderPolicy>,
    /// Read the current Python line of each holder.
    #[arg(long)]
    stacks: bool,
    /// Sample GPU utilization for this long first, e.g. 30m [default: what NVML has kept, about 10 s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    over: Option<Duration>,
    /// Repeat until Ctrl-C, every SECONDS.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=86400))]
    watch: Option<u64>,
    /// Also write metrics for the textfile collector of a Prometheus node exporter.
    #[arg(long, value_name = "FILE", value_parser = argument::file)]
    prometheus: Option<PathBuf>,
    /// Remove users, commands, paths, variables and identifiers.
    #[arg(long)]
    redact: bool,
    /// Target: `cuda` (this machine) or `sim` (the simulated machine of a running `sim`).
    #[arg(long, default_value = "cuda", value_parser = argument::on, help_heading = WHERE)]
    on: On,
    /// Print JSON; with --watch, one document per line.
    #[arg(long)]
    json: bool,
}

/// The longest time to sample.
const LONGEST: Duration = Duration::from_secs(86_400);
/// Time limit of an NVML call, in milliseconds.
const NVML_MS: u64 = 60_000;

fn parse_rule(text: &str) -> Result<HolderPolicy, HolderPolicyError> {
    let rule = match text.split_once('>') {
        None if text == "holders" => Some(HolderPolicy::Holders),
        None if text == "orphans" => Some(HolderPolicy::Orphans),
        Some(("leftover", most)) => size(most).ok().map(HolderPolicy::Leftover),
        Some(("idle", most)) => parse_duration(most).ok().map(HolderPolicy::Idle),
        _ => None,
    };
    rule.ok_or(HolderPolicyError)
}

pub(super) fn run_who(arguments: &WhoArguments) -> Outcome {
    let json = arguments.json;
    let checked = check_arguments(arguments);
    let simulated = checked.map_err(|why| fail(why, Exit::Usage, json))?;
    let doctor = Doctor::beside(simulated, NVML_MS);
    let ends = doctor.and_then(|mut doctor| repeat(&mut doctor, arguments));
    ends.map_err(|error| failed(&error, json))
}

/// Returns the folder of the simulated machine to look at; `None` for the real one.
///
/// # Errors
/// Returns an error if arguments exclude each other, the metrics cannot be written, or no simulated machine is in use.
fn check_arguments(arguments: &WhoArguments) -> Result<Option<PathBuf>, CliError> {
    if arguments.over > Some(LONGEST) {
        return Err("--over: at most 1d".into());
    }
    if arguments.pid.is_some() && !arguments.forbid.is_empty() {
        return Err("--forbid is about all processes: leave out the PID".into());
    }
    if let Some(path) = &arguments.prometheus {
        let checked = output::check(path);
        checked.map_err(|error| format!("--prometheus {}: {error}", path.display()))?;
    }
    match arguments.on {
        On::Cuda => Ok(None),
        On::Sim(None) => match find_simulated_machine(arguments.pid) {
            Some(folder) => Ok(Some(folder)),
            None => Err("--on sim: no program of yours runs on a simulated machine; start one with `cuda-pitfalls sim \
                         -- COMMAND`"
                .into()),
        },
        On::Auto | On::Sim(Some(_)) => Err(
            "--on: write `cuda`, or `sim` for the machine of a running `cuda-pitfalls sim`".into(),
        ),
    }
}

/// Looks once, or until the user stops it.
fn repeat(doctor: &mut Doctor, arguments: &WhoArguments) -> Result<Exit, DoctorError> {
    let request = WhoRequest {
        only: arguments.pid,
        sample_ms: arguments.over.map_or(0, |over| over.as_millis() as u64),
        stacks: arguments.stacks,
    };
    loop {
        let mut found = list_holders(&doctor.read_holders(&request)?);
        found.check(&arguments.forbid);
        let exit = show(&found, arguments);
        let Some(seconds) = arguments.watch else {
            return Ok(ended(exit));
        };
        if exit == Exit::NotDurable || exit == Exit::Internal {
            return Ok(named(exit));
        }
        doctor.wait(Duration::from_secs(seconds))?;
    }
}

fn show(found: &Holders, arguments: &WhoArguments) -> Exit {
    let redacted = arguments.redact.then(|| found.redact());
    let shown = redacted.as_ref().unwrap_or(found);
    let exit = match arguments.pid {
        Some(pid) => found.exit_of_process(pid),
        None => found.exit(),
    };
    if let Some(path) = &arguments.prometheus {
        let text = page::prometheus(shown);
        let written = output::replace(path, output::EVERYBODY, |file: &mut File| {
            file.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            let why = format!("--prometheus {}: {error}", path.display());
            return fail(why, Exit::NotDurable, arguments.json);
        }
    }
    if arguments.json {
        return exit.worst(print_json(shown, arguments.watch.is_some()));
    }
    let stdout = io::stdout();
    let screen = terminal::screen(&stdout);
    let mut holders = shown.holders.iter();
    let holder = holders.find(|holder| Some(holder.pid) == arguments.pid);
    let text = match holder {
        Some(holder) => page::process_text(shown, holder, screen),
        None => page::text(shown, screen),
    };
    if arguments.watch.is_some() && stdout.is_terminal() {
        print!("\x1b[H\x1b[2J");
    }
    exit.worst(print_text(&text))
}

fn print_json(found: &Holders, is_line: bool) -> Exit {
    match serde_json::to_value(found) {
        Ok(value) if is_line => print_document(serde_json::to_string(&value)),
        Ok(value) => print_document(Ok(json::document(&value))),
        Err(error) => print_document(Err(error)),
    }
}
