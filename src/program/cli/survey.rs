//! `survey`: its arguments.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::argument;
use super::output::{fail, print};
use super::run::WorkerArguments;
use super::with_workers;
use crate::run::{self, PythonOptions, SurveyOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::SurveyKind;
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
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// `mask`: also generate N masks and compare the driver with the rule.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = argument::generate)]
    generate: usize,
    /// `calls`: how many GPUs a worker sees. With one the survey finds
    /// whether a call reads the mask and whether it makes a context; with two, on which GPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    visible_gpus: u32,
    #[command(flatten)]
    of_python: PythonSurveyArguments,
}

/// What only `survey python` takes.
#[derive(Debug, clap::Args)]
struct PythonSurveyArguments {
    /// `python`: how many rows run at once; without it a quarter of the CPUs, at most 16.
    #[arg(long, value_name = "N", value_parser = argument::jobs)]
    jobs: Option<usize>,
    /// `python`: kill a process that runs longer, with its children, such as 90s or 5m; 60s if not given.
    #[arg(long, value_name = "DURATION", value_parser = argument::timeout)]
    timeout: Option<Duration>,
    /// `python`: ask the rows of this file instead of those that come with the program.
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Allow what --rows needs: code.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"])]
    allow: Vec<String>,
    /// `python`: keep the trace of each attempt in the run's folder.
    #[arg(long)]
    keep_traces: bool,
    /// `python`: print the rows with their code, and ask nothing.
    #[arg(long)]
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
