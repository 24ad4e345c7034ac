//! What every command prints, and how: results on stdout, errors and the exit code on stderr.

use std::collections::HashMap;
use std::io::Write;

use crate::exit::Exit;
use crate::render::npd;
use crate::report::{Report, ScenarioReport};
use crate::scenario::Scenario;
use crate::{catalogue, judge, render, terminal};

/// Whether diagnostics may use colour.
pub(super) fn is_styled() -> bool {
    terminal::is_coloured(&std::io::stderr())
}

/// Prints on stdout. A reader that has gone away (`| head`) is no error; a full disk is.
pub(super) fn print(text: &str) -> Exit {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "cuda-pitfalls: cannot write to stdout: {error}");
            Exit::NotDurable
        }
        _ => Exit::Ok,
    }
}

/// Prints a stored report for a person: its answers, or with `verbose` every case.
pub(super) fn print_report(report: &mut Report, verbose: bool) -> Exit {
    let width = terminal::width(&std::io::stdout());
    fill_words(report);
    if verbose {
        return print(&render::full::report(report, width));
    }
    ask_as_today(report);
    print(&render::answer::report(report, width))
}

/// Reports from before questions were worded so that `reproduced` is a yes are told in today's
/// words, where today's file makes the same calls.
pub(super) fn ask_as_today(report: &mut Report) {
    fill_words(report);
    if report.scenarios.iter().any(|part| part.remedy.is_none())
        && let Ok(scenarios) = catalogue::select(&[])
    {
        judge::ask_as_today(report, &scenarios);
    }
}

/// Gives the questions of a compact report the words that the program has for them. One that it does not
/// know any more is told by its name.
pub(super) fn fill_words(report: &mut Report) {
    let has_none = |one: &ScenarioReport| one.question.is_empty();
    if !report.run.compact || !report.scenarios.iter().any(has_none) {
        return;
    }
    let known = catalogue::select(&[]).unwrap_or_default();
    let known: HashMap<&str, &Scenario> = known.iter().map(|scenario| (scenario.name.as_str(), scenario)).collect();
    for one in report.scenarios.iter_mut().filter(|one| has_none(one)) {
        match known.get(one.scenario.as_str()) {
            Some(scenario) => {
                one.question.clone_from(&scenario.question);
                one.remedy.get_or_insert_with(|| scenario.remedy.clone());
            }
            None => one.question.clone_from(&one.name),
        }
    }
}

/// Says why on stderr, and with `--json` in the one document too.
pub(super) fn fail(why: &str, exit: Exit, json: bool) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", why.trim_end());
    if json {
        fail_in_document(why, exit);
    }
    named(exit)
}

/// The one document of a command that failed.
pub(super) fn fail_in_document(why: &str, exit: Exit) {
    let document = serde_json::json!({
        "error": why,
        "exit": { "code": exit.code(), "name": exit.name() },
    });
    print(&format!("{document}\n"));
}

/// Names an exit code on stderr.
pub(super) fn named(exit: Exit) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: exit {} ({})", exit.code(), exit.name());
    exit
}

/// How a plugin of node-problem-detector ends: by that program's codes, not by ours, so it is named
/// on stderr in that program's words.
pub(super) fn plugin(status: npd::PluginStatus) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: exit {} ({})", status.code(), status.name());
    match status {
        npd::PluginStatus::Ok => Exit::Ok,
        npd::PluginStatus::Problem => Exit::Unexpected,
        npd::PluginStatus::Unknown => Exit::Usage,
    }
}
