//! What every command prints, and how: results on stdout, errors and the exit code on stderr.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::StoredReport;
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_render::{self as render, Format, Prepared};

/// Why a command that reads or writes documents ends early.
pub(super) type CliError = Box<dyn std::error::Error>;

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

/// Prints a result: as one JSON document, or as text.
pub(super) fn show(
    json: bool,
    document: impl FnOnce() -> serde_json::Result<String>,
    text: impl FnOnce() -> String,
) -> Exit {
    print(&if json { document().unwrap_or_default() + "\n" } else { text() })
}

const FORM_OF_REPORT: &str = "--as: a report has no such form: sarif is of traces, and oci, systemd, apparmor, landlock and devices are of `survey needs`";

/// Prints a stored report in a form, in the width of the terminal.
pub(super) fn print_report(report: StoredReport, form: Format) -> Exit {
    let prepared = Prepared::stored(report);
    match render::render(&prepared, form, terminal::width(&std::io::stdout())) {
        Some(text) => print(&text),
        None => fail(FORM_OF_REPORT, Exit::Usage, false),
    }
}

/// Says why on stderr, and with `--json` in the one document too. Errors repeat what is in documents and in their names,
/// so that every line is made harmless here.
pub(super) fn fail(why: impl Display, exit: Exit, json: bool) -> Exit {
    let why = why.to_string();
    let lines: Vec<String> = why.lines().map(escape::terminal).collect();
    complain(&lines.join("\n"), &why, exit, json)
}

/// The same for what a [`cuda_pitfalls_core::scenario::Diagnostic`] made harmless, with colours of its own.
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
/// whenever it likes, as another user. A link is replaced and not followed; what the system has below /dev, such as
/// /dev/stdout, is written to and never replaced.
pub(super) fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if is_of_the_system(path) {
        return write(&mut OpenOptions::new().write(true).open(path)?);
    }
    let file = written(path, EVERYBODY, write)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The same for a file that must not be there yet, and that only this user may read: an archive may hold a private trace.
///
/// # Errors
/// `AlreadyExists`, or what the system refused. Nothing is left in its place then.
pub(super) fn put_new(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    // What takes long to make is not made in vain.
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let file = written(path, OWNER, write)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

fn is_of_the_system(path: &Path) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    !climbs && std::path::absolute(path).is_ok_and(|path| path.starts_with("/dev") && !path.starts_with("/dev/shm"))
}

/// Modes of files that are written; the umask takes bits away.
const EVERYBODY: u32 = 0o666;
const OWNER: u32 = 0o600;

fn written(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new().prefix(".cuda-pitfalls-").permissions(mode).tempfile_in(folder)?;
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

/// Names an exit code on stderr, unless all is well.
pub(super) fn ended(exit: Exit) -> Exit {
    if exit == Exit::Ok { exit } else { named(exit) }
}

/// Names an exit code on stderr.
pub(super) fn named(exit: Exit) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: exit {} ({})", exit.code(), exit.name());
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_has_below_dev_is_not_replaced() {
        for path in ["/dev/null", "/dev/stdout", "/dev/fd/1"] {
            assert!(is_of_the_system(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/report.xml", "report.xml", "/home/user/dev/report.xml", "/dev/../tmp/report.xml"] {
            assert!(!is_of_the_system(Path::new(path)), "{path}");
        }
    }
}
