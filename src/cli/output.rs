//! What every command prints, and how: results on stdout, errors and the exit code on stderr.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::exit::Exit;
use crate::render::npd;
use crate::report::{Report, ScenarioReport};
use crate::scenario::Scenario;
use crate::text::escape;
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

/// Says why on stderr, and with `--json` in the one document too. Errors repeat what is in documents and in their names,
/// so that every line is made harmless here.
pub(super) fn fail(why: &str, exit: Exit, json: bool) -> Exit {
    let lines: Vec<String> = why.lines().map(escape::terminal).collect();
    complain(&lines.join("\n"), why, exit, json)
}

/// The same for what a [`crate::scenario::Diagnostic`] made harmless, with colours of its own.
pub(super) fn fail_rendered(why: &str, exit: Exit, json: bool) -> Exit {
    complain(why, why, exit, json)
}

fn complain(shown: &str, why: &str, exit: Exit, json: bool) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", shown.trim_end());
    if json {
        fail_in_document(why, exit);
    }
    named(exit)
}

/// Puts what is written in place of a file at once, so that nobody reads half of it: a collector of metrics reads
/// whenever it likes, as another user. A link is replaced and not followed.
pub(super) fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let file = written(path, write)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The same for a file that must not be there yet.
///
/// # Errors
/// `AlreadyExists`, or what the system refused. Nothing is left in its place then.
pub(super) fn put_new(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    // What takes long to make is not made in vain.
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let file = written(path, write)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

fn written(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let everybody = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".cuda-pitfalls-").permissions(everybody).tempfile_in(folder)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    Ok(file)
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
