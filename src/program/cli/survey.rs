//! `survey`: the environments that it is to ask in, and its start.

use std::collections::BTreeSet;
use std::path::Path;

use super::output::{CliError, Outcome, end_run, fail, print_text};
use crate::run::{self, PythonOptions, SurveyOptions};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;
use cuda_pitfalls_answers::survey::SurveyKind;
use cuda_pitfalls_render::survey as render;

/// The environments that the command line names.
fn requested_environments(python: &PythonOptions) -> Result<Vec<EnvironmentRequest>, CliError> {
    let mut all = python.with.clone();
    all.iter_mut()
        .for_each(|request| request.forced = python.force);
    let of_list = python.releases.is_some() || python.latest || python.environments.is_some();
    if of_list {
        let list = run::list_environments(python.environments.as_deref())?;
        let glob = python.releases.as_deref().unwrap_or("*");
        let glob =
            glob::Pattern::new(glob).map_err(|error| format!("--releases `{glob}`: {error}"))?;
        let mut chosen: Vec<EnvironmentRequest> = list
            .into_iter()
            .filter(|request| glob.matches(&request.name()))
            .collect();
        if chosen.is_empty() {
            return Err(format!(
                "--releases: no environment of the list is named `{}`",
                glob.as_str()
            )
            .into());
        }
        if python.latest {
            chosen = latest_environments(chosen);
        }
        all.extend(chosen);
    }
    if let Some(newest) = &python.newest {
        all.iter_mut()
            .for_each(|request| request.newest = Some(newest.clone()));
    }
    Ok(all)
}

/// One environment of each package, with the version that is the newest when it is made.
fn latest_environments(list: Vec<EnvironmentRequest>) -> Vec<EnvironmentRequest> {
    let mut known = BTreeSet::new();
    let first = list
        .into_iter()
        .filter(|request| known.insert(request.package.clone()));
    first
        .map(|request| EnvironmentRequest {
            version: String::new(),
            newest: None,
            ..request
        })
        .collect()
}

pub(super) fn survey(mut options: SurveyOptions) -> Outcome {
    if options.python.list {
        return list(options.kind, options.python.rows.as_deref());
    }
    let json = options.asked.json;
    options.python.requests =
        requested_environments(&options.python).map_err(|why| fail(why, Exit::Usage, json))?;
    end_run(run::survey(&options), json)
}

fn list(kind: SurveyKind, rows: Option<&Path>) -> Outcome {
    if !kind.kind_file().takes("--rows") {
        return Err(fail(
            "--list belongs to `survey python`",
            Exit::Usage,
            false,
        ));
    }
    let list = run::python_list(rows).map_err(|error| fail(error, Exit::Usage, false))?;
    Ok(print_text(&render::listed(&list)))
}
