//! `survey`: its arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::argument;
use super::output::{fail, print};
use super::run::{ASKED, HOW_OFTEN, WRITTEN, WorkerArguments};
use super::with_workers;
use crate::run::{self, PythonOptions, SurveyOptions};
use cuda_pitfalls_answers::exit::Exit;
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
    #[arg(long, value_name = "DIR", conflicts_with = "out", help_heading = HOW_OFTEN)]
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
    #[arg(help = jobs_help(), long, value_name = "N", value_parser = argument::jobs, help_heading = HOW_OFTEN)]
    jobs: Option<usize>,
    #[arg(help = timeout_help(), long, value_name = "DURATION", value_parser = argument::timeout, help_heading = HOW_OFTEN)]
    timeout: Option<Duration>,
    /// `python`: ask the rows of this file instead of those that come with the program.
    #[arg(long, value_name = "FILE", help_heading = ASKED)]
    rows: Option<PathBuf>,
    /// Allow what --rows needs: code.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"], help_heading = ASKED)]
    allow: Vec<String>,
    /// `python`: keep the trace of each attempt in the run's folder.
    #[arg(long, help_heading = WRITTEN)]
    keep_traces: bool,
    /// `python`: print the rows with their code, and ask nothing.
    #[arg(long, help_heading = ASKED)]
    list: bool,
}

/// Asks.
pub(super) fn survey(arguments: SurveyArguments) -> Exit {
    let SurveyArguments { kind, selectors, asked, resume, generate, visible_gpus, of_python: python } = arguments;
    if python.list {
        return list(kind, python.rows.as_deref());
    }
    let python = PythonOptions {
        jobs: python.jobs,
        timeout: python.timeout,
        rows: python.rows,
        allow_code: !python.allow.is_empty(),
        keep_traces: python.keep_traces,
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
