//! `survey`: its arguments.

use std::path::PathBuf;

use super::run::Asked;
use super::with_workers;
use crate::exit::Exit;
use crate::run::{self, MOST_GENERATED, SurveyOptions};
use crate::survey::SurveyKind;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which survey.
    #[arg(value_enum)]
    kind: SurveyKind,
    /// Names or globs of calls, masks or variables, or names of groups (`start-up`, `Numbers`); all if
    /// none. `!SELECTOR` leaves out what it matches.
    selectors: Vec<String>,
    #[command(flatten)]
    asked: Asked,
    /// Resume the survey in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    resume: Option<PathBuf>,
    /// `mask`: also generate N masks and compare the driver with the rule.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_generate)]
    generate: usize,
    /// `calls`: how many GPUs a worker sees. With one the survey finds
    /// whether a call reads the mask and whether it makes a context; with two, on which GPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    visible_gpus: u32,
}

fn parse_generate(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok().filter(|count| *count <= MOST_GENERATED);
    count.ok_or_else(|| format!("a number of masks, at most {MOST_GENERATED}"))
}

/// Asks.
pub(super) fn survey(arguments: Arguments) -> Exit {
    let Arguments { kind, selectors, asked, resume, generate, visible_gpus } = arguments;
    let options = SurveyOptions { kind, run: asked.options(selectors), resume, generate, visible_gpus };
    with_workers(options.run.json, |program, interrupt| run::survey(&options, program, interrupt))
}
