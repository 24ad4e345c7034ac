//! `survey`: its arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::argument;
use super::output::{fail, print};
use super::run::{ASKED, HOW_OFTEN, WRITTEN, WorkerArguments};
use super::with_workers;
use crate::run::{self, PythonOptions, ReleaseOptions, SurveyOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;
use cuda_pitfalls_answers::survey::SurveyKind;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_render::survey as render;

#[derive(Debug, clap::Args)]
pub(super) struct SurveyArguments {
    /// Which survey.
    #[arg(value_enum)]
    kind: SurveyKind,
    /// Names or globs of calls, masks, variables or lines, or names of groups (`start-up`, `Numbers`, `torch`);
    /// all if none. `!SELECTOR` leaves out what it matches.
    selectors: Vec<String>,
    #[command(flatten)]
    asked: WorkerArguments,
    /// Resume the survey in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "out", help_heading = HOW_OFTEN, hide_short_help = true)]
    resume: Option<PathBuf>,
    /// `mask`: also generate N masks and compare the driver with the rule.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = argument::generate, help_heading = ASKED)]
    generate: usize,
    /// `calls`: how many GPUs a worker sees. With one the survey finds
    /// whether a call reads the mask and whether it makes a context; with two, on which GPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = ASKED)]
    visible_gpus: u32,
    #[command(flatten)]
    of_python: PythonSurveyArguments,
}

fn jobs_help() -> String {
    let (cpus, most) = (defaults::CPUS_PER_JOB, defaults::MOST_JOBS);
    format!("`python`: how many rows run at once; without it one for every {cpus} CPUs, at most {most}")
}

fn timeout_help() -> String {
    let default = defaults::ROW_TIMEOUT_S;
    format!("`python`: kill a process that runs longer, with its children, such as 90s or 5m; {default}s if not given")
}

/// What only `survey python` takes.
#[derive(Debug, clap::Args)]
struct PythonSurveyArguments {
    #[arg(help = jobs_help(), long, value_name = "N", value_parser = argument::jobs, help_heading = HOW_OFTEN, hide_short_help = true)]
    jobs: Option<usize>,
    #[arg(help = timeout_help(), long, value_name = "DURATION", value_parser = argument::timeout, help_heading = HOW_OFTEN, hide_short_help = true)]
    timeout: Option<Duration>,
    /// `python`: ask the rows of this file instead of those that come with the program.
    #[arg(long, value_name = "FILE", help_heading = ASKED, hide_short_help = true)]
    rows: Option<PathBuf>,
    /// Allow what --rows needs: code.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"], help_heading = ASKED, hide_short_help = true)]
    allow: Vec<String>,
    /// `python`: keep the trace of each attempt in the run's folder.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    keep_traces: bool,
    /// `python`: print the rows with their code, and ask nothing.
    #[arg(long, help_heading = ASKED)]
    list: bool,
    /// `python`: ask in an environment with these packages, which `uv` makes and which is removed afterwards: \
    /// "torch==2.9.1 numpy<2". The lines about the first package are asked. May be given several times.
    #[arg(long, value_name = "PACKAGES", value_parser = EnvironmentRequest::parse, help_heading = RELEASES)]
    with: Vec<EnvironmentRequest>,
    /// `python`: ask in every environment of the list that comes with the program, or in those whose names match:
    /// --releases='torch 2.1*'.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, default_missing_value = "*", help_heading = RELEASES)]
    releases: Option<String>,
    /// `python`: the environments of this file instead of that list.
    #[arg(long, value_name = "FILE", help_heading = RELEASES, hide_short_help = true)]
    environments: Option<PathBuf>,
    /// `python`: of each package of that list, the newest release there is.
    #[arg(long, help_heading = RELEASES, hide_short_help = true)]
    latest: bool,
    /// `python`: the version of the first package of --with holds, whatever other packages ask for.
    #[arg(long, requires = "with", help_heading = RELEASES, hide_short_help = true)]
    force: bool,
    /// `python`: take no package that was published after this day, such as 2025-11-20.
    #[arg(long, value_name = "DATE", help_heading = RELEASES, hide_short_help = true)]
    newest: Option<String>,
    /// `python`: the most that environments and downloads may take on disk between two environments.
    #[arg(long, value_name = "SIZE", default_value = defaults::ENVIRONMENTS_SIZE, value_parser = argument::size, help_heading = RELEASES, hide_short_help = true)]
    disk: u64,
}

/// A group of options.
const RELEASES: &str = "In which releases it is asked";

/// The environments that the command line names.
fn environments(python: &PythonSurveyArguments) -> Result<Vec<EnvironmentRequest>, String> {
    let mut all = python.with.clone();
    all.iter_mut().for_each(|request| request.forced = python.force);
    let of_list = python.releases.is_some() || python.latest || python.environments.is_some();
    if of_list {
        let list = run::environments(python.environments.as_deref()).map_err(|error| error.to_string())?;
        let glob = python.releases.as_deref().unwrap_or("*");
        let glob = glob::Pattern::new(glob).map_err(|error| format!("--releases `{glob}`: {error}"))?;
        let mut chosen: Vec<EnvironmentRequest> =
            list.into_iter().filter(|request| glob.matches(&request.name())).collect();
        if chosen.is_empty() {
            return Err(format!("--releases: no environment of the list is named `{}`", glob.as_str()));
        }
        if python.latest {
            chosen = latest(chosen);
        }
        all.extend(chosen);
    }
    if let Some(newest) = &python.newest {
        all.iter_mut().for_each(|request| request.newest = Some(newest.clone()));
    }
    Ok(all)
}

/// One environment of each package, with the version that is the newest when it is made.
fn latest(list: Vec<EnvironmentRequest>) -> Vec<EnvironmentRequest> {
    let mut all: Vec<EnvironmentRequest> = Vec::new();
    for request in list {
        let newer = EnvironmentRequest { version: String::new(), newest: None, ..request };
        match all.iter_mut().find(|known| known.package == newer.package) {
            Some(_) => {}
            None => all.push(newer),
        }
    }
    all
}

/// Asks.
pub(super) fn survey(arguments: SurveyArguments) -> Exit {
    let SurveyArguments { kind, selectors, asked, resume, generate, visible_gpus, of_python: python } = arguments;
    if python.list {
        return list(kind, python.rows.as_deref());
    }
    let environments = match environments(&python) {
        Ok(environments) => environments,
        Err(why) => return fail(why, Exit::Usage, asked.json),
    };
    let python = PythonOptions {
        jobs: python.jobs,
        timeout: python.timeout,
        rows: python.rows,
        allow_code: !python.allow.is_empty(),
        keep_traces: python.keep_traces,
        releases: ReleaseOptions { environments, disk_bytes: python.disk },
    };
    let options = SurveyOptions { kind, run: asked.options(selectors), resume, generate, visible_gpus, python };
    with_workers(options.run.json, |program, interrupt| run::survey(&options, program, interrupt))
}

/// Prints the rows of a list.
fn list(kind: SurveyKind, rows: Option<&Path>) -> Exit {
    if kind != SurveyKind::Python {
        return fail("--list belongs to `survey python`", Exit::Usage, false);
    }
    match run::python_list(rows) {
        Ok(list) => print(&render::listed(&list)),
        Err(error) => fail(error, Exit::Usage, false),
    }
}
