//! `man`: manual pages, made from the definition of the command line.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::builder::Resettable;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::output::{Outcome, fail, print_text};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::output;

/// Options of `man`.
#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// Command [default: the whole program].
    #[arg(conflicts_with = "out", value_name = "COMMAND")]
    about: Option<String>,
    /// Write all pages into this directory, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub(super) fn print_manual(program: Command, arguments: &ManArguments) -> Outcome {
    if let Some(folder) = &arguments.out {
        return write(program, folder).map(|()| Exit::Ok).map_err(|error| {
            fail(
                format!("--out {}: {error}", folder.display()),
                Exit::NotDurable,
                false,
            )
        });
    }
    let about = arguments.about.as_deref();
    let page = page(program, about).ok_or_else(|| {
        fail(
            format!("there is no command `{}`", about.unwrap_or_default()),
            Exit::Usage,
            false,
        )
    })?;
    Ok(print_text(
        &page.map_err(|error| fail(error, Exit::Internal, false))?,
    ))
}

/// Returns the page of the program, or of one of its commands; `None` if no such command exists.
fn page(program: Command, about: Option<&str>) -> Option<io::Result<String>> {
    let program = build_command(program);
    match about {
        None => Some(main_page(program)),
        Some(name) => visible_commands(&program)
            .find(|command| command.get_name() == name)
            .map(|command| render(&program, command)),
    }
}

/// Writes a page for the program and one for each command.
fn write(program: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let program = build_command(program);
    for command in visible_commands(&program) {
        let file = format!("{}-{}.1", program.get_name(), command.get_name());
        write_page(&folder.join(file), &render(&program, command)?)?;
    }
    write_page(
        &folder.join(format!("{}.1", program.get_name())),
        &main_page(program)?,
    )
}

fn write_page(path: &Path, page: &str) -> io::Result<()> {
    output::replace(path, output::EVERYBODY, |file| {
        file.write_all(page.as_bytes())
    })
}

/// Builds the definition, because only a built one knows its commands by their full names.
fn build_command(program: Command) -> Command {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    program
}

fn visible_commands(program: &Command) -> impl Iterator<Item = &Command> {
    program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
}

fn render(program: &Command, command: &Command) -> io::Result<String> {
    let source = format!(
        "{} {}",
        program.get_name(),
        program.get_version().unwrap_or_default()
    );
    let mut page = Vec::new();
    Man::new(command.clone()).source(source).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Returns the program's own page, with its exit codes in the usual place of manual pages.
fn main_page(program: Command) -> io::Result<String> {
    let program = program.after_help(Resettable::Reset);
    let mut all = Exit::WORST_FIRST;
    all.sort_by_key(|exit| exit.code());
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for exit in all {
        roff.control("TP", []).text([
            bold(exit.code().to_string()),
            roman(format!(" {}", exit.name())),
        ]);
        roff.text([roman(exit.meaning().replace('`', ""))]);
    }
    Ok(render(&program, &program)? + &roff.to_roff())
}
