//! The output of every command: results on stdout, errors and the exit code on stderr.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::IsTerminal;

use crate::run::RunError;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_render::{self as render, Format, Prepared};

/// Reason why a command that reads or writes documents ends early.
pub(super) type CliError = Box<dyn std::error::Error>;

/// Exit code of a command. It is an error if the command ended early, after it printed the reason.
pub(super) type Outcome = Result<Exit, Exit>;

/// Returns `true` if diagnostics may be colored.
pub(super) fn is_styled() -> bool {
    terminal::is_coloured(&std::io::stderr())
}

/// Returns a text without characters that have an effect on a terminal, except for colors if they are wanted.
pub(super) fn guard_text<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if terminal::is_coloured(stream) {
        escape::escape_colored(text).into()
    } else {
        escape::escape_printed(text)
    }
}

/// Prints on stdout. A reader that has closed its end (`| head`) is not an error; a full disk is.
pub(super) fn print_text(text: &str) -> Exit {
    let text = guard_text(text, &std::io::stdout());
    terminal::printed_exit(output::write(std::io::stdout(), text.as_bytes()))
}

/// Prints a result: as one JSON document, or as text.
pub(super) fn print_result(
    json: bool,
    document: impl FnOnce() -> serde_json::Result<String>,
    text: impl FnOnce() -> String,
) -> Exit {
    if json {
        print_document(document())
    } else {
        print_text(&text())
    }
}

/// Prints a JSON document with a newline. A document that cannot be written is an error, not an empty document.
pub(super) fn print_document(document: serde_json::Result<String>) -> Exit {
    match document {
        Ok(text) => print_text(&format!("{}\n", text.trim_end())),
        Err(error) => fail(
            format!("the document cannot be written as JSON: {error}"),
            Exit::Internal,
            false,
        ),
    }
}

pub(super) const FORM_OF_REPORT: &str =
    "--as: a report has no such form: sarif is of traces, and oci is of `survey needs`";

/// Prints a report in a format, in the width of the terminal.
pub(super) fn print_report(prepared: &Prepared<'_>, form: Format) -> Exit {
    match render::render(prepared, form, terminal::screen(&std::io::stdout())) {
        Some(text) => print_text(&text),
        None => fail(FORM_OF_REPORT, Exit::Usage, false),
    }
}

/// Prints the reason on stderr and, with `--json`, in the only document too. Errors repeat the text and the names of
/// documents, so every line is made harmless here.
pub(super) fn fail(why: impl Display, exit: Exit, json: bool) -> Exit {
    let plain = why.to_string();
    print_complaint(&escape::terminal_lines(&plain), &plain, exit, json)
}

/// Like [`fail`], for the text of a [`cuda_pitfalls_core::scenario::Diagnostic`], which is already escaped and has its
/// own colors.
pub(super) fn fail_rendered(why: &str, exit: Exit, json: bool) -> Exit {
    print_complaint(why, why, exit, json)
}

fn print_complaint(shown: &str, why: &str, exit: Exit, json: bool) -> Exit {
    terminal::print_message("cuda-pitfalls: ", shown.trim_end());
    if json {
        fail_in_document(why, exit);
    }
    named(exit)
}

/// Prints the only document of a command that failed.
fn fail_in_document(why: &str, exit: Exit) {
    let document = serde_json::json!({
        "error": why,
        "exit": { "code": exit.code(), "name": exit.name() },
    });
    print_text(&format!("{document}\n"));
}

/// Reports an error in the command line. A `--json` that could not be parsed still gets its one document.
pub(super) fn report_misuse(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    let rendered = error.render();
    let text = if is_styled() {
        rendered.ansi().to_string()
    } else {
        rendered.to_string()
    };
    for line in text.lines() {
        terminal::print_message("", line);
    }
    if wants_document() {
        fail_in_document(&error.to_string(), Exit::Usage);
    }
    named(Exit::Usage)
}

/// Reports that the program panicked, which is a fault of ours.
pub(super) fn report_panic() -> Exit {
    fail(
        "the program panicked (see above)",
        Exit::Internal,
        wants_document(),
    )
}

/// Returns `true` if exactly one document is expected on stdout in any case.
fn wants_document() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}

/// Prints the name of a run's exit code, or the reason why the run could not begin or complete.
pub(super) fn end_run(ended: Result<Exit, RunError>, json: bool) -> Outcome {
    match ended {
        Ok(exit) => Ok(named(exit)),
        Err(error) => Err(fail(&error, error.exit(), json)),
    }
}

/// Prints the name of an exit code on stderr, unless all is well.
pub(super) fn ended(exit: Exit) -> Exit {
    if exit == Exit::Ok { exit } else { named(exit) }
}

/// Prints the name of an exit code on stderr.
pub(super) fn named(exit: Exit) -> Exit {
    let (code, name) = (exit.code(), exit.name());
    output::print_line(&format!("cuda-pitfalls: exit {code} ({name})"));
    exit
}
