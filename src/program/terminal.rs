//! Terminals: their width, whether output may be colored, and what a failed write means.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use clap::ColorChoice;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::text::lines::{NARROWEST, WIDTH};
use cuda_pitfalls_instrument::output;

/// Returns the number of columns of a line: `COLUMNS` if it is a number, else the width of the terminal, else
/// [`WIDTH`]. Never less than [`NARROWEST`].
pub(crate) fn width(stream: &impl AsFd) -> usize {
    width_or(stream, WIDTH)
}

/// Like [`width`], but returns `otherwise` if no terminal reports a width.
pub(crate) fn width_or(stream: &impl AsFd, otherwise: usize) -> usize {
    let told = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .filter(|width| *width > 0);
    let seen = terminal_size::terminal_size_of(stream)
        .map(|(width, _)| usize::from(width.0))
        .filter(|width| *width > 0);
    told.or(seen).unwrap_or(otherwise).max(NARROWEST)
}

/// Value of `--color`, once it was read.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets whether output is colored, for the rest of the process.
pub(crate) fn choose_color(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Returns `true` if output on a stream is colored: as `--color` says, else if it is a terminal and `NO_COLOR` is not
/// set.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    match CHOICE.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        Some(ColorChoice::Auto) | None => {
            stream.is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

/// Returns the exit code after a result was printed on stdout: a closed pipe (`| head`) is not an error, and a full
/// disk is.
pub(crate) fn printed_exit(printed: io::Result<()>) -> Exit {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            output::print_line(&format!("cuda-pitfalls: cannot write to stdout: {error}"));
            Exit::NotDurable
        }
        _ => Exit::Ok,
    }
}
