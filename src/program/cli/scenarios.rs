//! `list`, `show` and `check`: the scenarios themselves.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::output::{Outcome, ended, fail_rendered, is_styled, print_text};
use crate::run::options::ExclusionOptions;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_core::catalogue::{self, Selection};
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_render::listing;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Selectors [default: list the directories]: `all`, `essential`, or a name, prefix, directory,
    /// glob, tag, symptom or file. `!SELECTOR` excludes.
    selectors: Vec<String>,
    #[command(flatten)]
    left_out: ExclusionOptions,
    /// List symptoms, with the number of questions of each.
    #[arg(long)]
    symptoms: bool,
    /// List the names that `explain` knows, for shell completion.
    #[arg(long, conflicts_with_all = ["symptoms", "json", "selectors", "exclude"])]
    names: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// Names, directories, globs, tags, symptoms or files. `!SELECTOR` excludes.
    #[arg(required_unless_present = "exclude")]
    selectors: Vec<String>,
    #[command(flatten)]
    left_out: ExclusionOptions,
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Scenario files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn list(arguments: &ListArguments) -> Outcome {
    let ListArguments {
        selectors,
        left_out,
        symptoms,
        names,
        json,
    } = arguments;
    if *names {
        return Ok(print_text(&Known::embedded().words()));
    }
    let left_out = &left_out.exclude;
    let outlines = catalogue::list(selectors, left_out)
        .map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, *json))?;
    let screen = terminal::screen(&std::io::stdout());
    Ok(print_text(&match (symptoms, json) {
        (true, true) => format!("{:#}\n", listing::symptoms_json(&outlines)),
        (true, false) => listing::symptoms_text(&outlines, screen),
        (false, true) => format!("{:#}\n", listing::list_json(&outlines)),
        (false, false) if selectors.is_empty() && left_out.is_empty() => {
            listing::folders_text(&outlines, screen)
        }
        (false, false) => listing::list_text(&outlines, screen),
    }))
}

pub(super) fn show_scenarios(arguments: &ShowArguments) -> Outcome {
    let selection = Selection::new(
        &arguments.selectors,
        &arguments.left_out.exclude,
        catalogue::Unselected::All,
    )
    .map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, false))?;
    let screen = terminal::screen(&std::io::stdout());
    let pages = selection
        .scenarios
        .iter()
        .map(|scenario| listing::show::text(scenario, screen));
    Ok(print_text(&pages.collect::<Vec<_>>().join("\n")))
}

pub(super) fn check(arguments: &CheckArguments) -> Exit {
    let mut exit = Exit::Ok;
    for file in &arguments.files {
        match catalogue::load_file(&file.to_string_lossy()) {
            Ok(scenario) => {
                let name = escape::terminal(&file.to_string_lossy());
                let style = terminal::screen(&std::io::stdout()).style;
                let valid = style.paint_words("32", "valid");
                let count = scenario.instances.len();
                exit = exit.worst(print_text(&format!(
                    "{name}: {valid} ({count} instance(s))\n"
                )));
            }
            Err(error) => {
                exit = exit.worst(Exit::Usage);
                let _ = writeln!(
                    std::io::stderr(),
                    "{}",
                    error.render(is_styled()).trim_end()
                );
            }
        }
    }
    ended(exit)
}
