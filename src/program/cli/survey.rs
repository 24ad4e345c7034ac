//! `survey`: the options of each kind, the environments to measure in, and its start.

use std::collections::BTreeSet;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::output::{CliError, Outcome, end_run, fail, print_text};
use crate::run::{self, PythonOptions, SurveyOptions, SurveySubject};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;
use cuda_pitfalls_render::survey as render;

/// Returns the environments of the command line.
fn requested_environments(python: &PythonOptions) -> Result<Vec<EnvironmentRequest>, CliError> {
    let mut all = python.with.clone();
    for request in &mut all {
        request.forced = python.force;
    }
    if python.releases.is_some() || python.latest || python.environments.is_some() {
        all.extend(choose_from_list(python)?);
    }
    if let Some(newest) = &python.newest {
        for request in &mut all {
            request.newest = Some(newest.clone());
        }
    }
    Ok(all)
}

/// Returns the environments of a list whose names match or, with `--latest`, one of each package, with the version that
/// is the newest when it is made.
fn choose_from_list(python: &PythonOptions) -> Result<Vec<EnvironmentRequest>, CliError> {
    let glob = python.releases.as_deref().unwrap_or("*");
    let pattern =
        glob::Pattern::new(glob).map_err(|error| format!("--releases `{glob}`: {error}"))?;
    let mut chosen = run::list_environments(python.environments.as_deref())?;
    chosen.retain(|request| pattern.matches(&request.name()));
    if chosen.is_empty() {
        return Err(format!("--releases: no environment of the list is named `{glob}`").into());
    }
    if python.latest {
        let mut known = BTreeSet::new();
        chosen.retain(|request| known.insert(request.package.clone()));
        for request in &mut chosen {
            request.version.clear();
            request.newest = None;
        }
    }
    Ok(chosen)
}

pub(super) fn survey(mut options: SurveyOptions) -> Outcome {
    if options.python.list {
        return print_lines(options.python.rows.as_deref());
    }
    let json = options.asked.json;
    options.python.requests =
        requested_environments(&options.python).map_err(|why| fail(why, Exit::Usage, json))?;
    end_run(run::survey(&options), json)
}

/// Rejects an option that is only for other kinds of survey.
///
/// # Errors
/// Returns the exit code, after printing which kinds have the option.
pub(super) fn refuse_other_options(matches: &ArgMatches) -> Result<(), Exit> {
    let Some(("survey", given)) = matches.subcommand() else {
        return Ok(());
    };
    let Some(kind) = given.get_one::<SurveySubject>("kind") else {
        return Ok(());
    };
    for id in given.ids() {
        let is_given = given.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        let option = format!("--{}", id.as_str().replace('_', "-"));
        // All surveys accept a single libcudart.
        if !is_given || kind.takes(&option) || option == "--libcudart" {
            continue;
        }
        if let Some(takers) = run::name_takers(&option) {
            let why = format!("{option} belongs to {takers}");
            return Err(fail(why, Exit::Usage, given.get_flag("json")));
        }
    }
    Ok(())
}

/// Prints the lines of a list with their code.
fn print_lines(rows: Option<&Path>) -> Outcome {
    let list = run::python_list(rows).map_err(|error| fail(error, Exit::Usage, false))?;
    Ok(print_text(&render::listed(&list)))
}

#[cfg(test)]
mod tests {
    use cuda_pitfalls_answers::survey::SurveyKind;

    /// The help of such an option begins with the names of its kinds.
    #[test]
    fn options_of_one_kind_are_in_its_file() {
        let program = super::super::help::command();
        let survey = program.find_subcommand("survey").unwrap();
        let mut found = 0;
        for argument in survey.get_arguments() {
            let (Some(option), Some(help)) = (argument.get_long(), argument.get_help()) else {
                continue;
            };
            let help = help.to_string();
            let kinds = help.split(':').next().unwrap_or_default();
            for kind in SurveyKind::all() {
                if kinds.starts_with('`') && kinds.contains(&format!("`{}`", kind.name())) {
                    found += 1;
                    let option = format!("--{option}");
                    assert!(kind.kind_file().takes(&option), "{} {option}", kind.name());
                }
            }
        }
        assert!(found > 10, "{found}");
    }
}
