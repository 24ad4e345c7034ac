//! Terminals: their width, whether output may be colored, and what a failed write means.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use clap::ColorChoice;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::text::lines::{NARROWEST, UNBROKEN, display_columns, words};
use cuda_pitfalls_instrument::output;
use cuda_pitfalls_render::{Screen, Style};

/// The width if there is no terminal. It fits a CI log and half a screen.
pub(crate) const WIDTH: usize = 80;

/// Returns the width of a line of text for people, and whether it is colored.
pub(crate) fn screen(stream: &(impl AsFd + IsTerminal)) -> Screen {
    let style = if is_coloured(stream) {
        Style::Colour
    } else {
        Style::Plain
    };
    let width = width_or(stream, WIDTH);
    Screen { width, style }
}

/// Returns the number of columns of a line: `COLUMNS` if it is a number, else the width of the terminal, else
/// `otherwise`. Never less than [`NARROWEST`].
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

/// Prints a line on stderr, broken to the width of the terminal. In a log it stays one line, which a search finds, and
/// it also does if a word or a command in it is longer than a line.
pub(crate) fn print_message(head: &str, text: &str) {
    let room = width_or(&io::stderr(), usize::MAX).saturating_sub(head.len() + 2);
    // A command is copied.
    let (mut bound, mut is_code) = (String::new(), false);
    for c in text.chars() {
        is_code ^= c == '`';
        bound.push(if is_code && c == ' ' { UNBROKEN } else { c });
    }
    let is_long = bound.split(' ').any(|word| display_columns(word) > room);
    let lines = if is_long || text.contains('\n') {
        text.to_owned()
    } else {
        words(&bound, room).join("\n  ")
    };
    output::print_line(&format!("{head}{lines}"));
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
