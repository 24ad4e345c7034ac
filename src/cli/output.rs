//! What every command prints, and how: results on stdout, errors and the exit code on stderr.

use std::io::{IsTerminal, Write};

use crate::exit::Exit;
use crate::render::npd;

/// Whether diagnostics may use colour.
pub(super) fn is_styled() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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

/// Says why on stderr, and with `--json` in the one document too.
pub(super) fn fail(why: &str, exit: Exit, json: bool) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", why.trim_end());
    if json {
        explain(why, exit);
    }
    named(exit)
}

/// The one document of a command that failed.
pub(super) fn explain(why: &str, exit: Exit) {
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
pub(super) fn plugin(status: npd::Status) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: exit {} ({})", status.code(), status.name());
    match status {
        npd::Status::Ok => Exit::Ok,
        npd::Status::Problem => Exit::Unexpected,
        npd::Status::Unknown => Exit::Usage,
    }
}
