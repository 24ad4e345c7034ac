//! `fleet render`: a stored fleet in another format.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::output::{CliError, Outcome, fail, print_text};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::fleet::{self, Fleet};
use cuda_pitfalls_core::output::{EVERYBODY, replace};
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_render::fleet::{FleetForm, render as rendered};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FleetRenderArguments {
    /// A fleet report written by `fleet merge`.
    fleet: PathBuf,
    /// Output format.
    #[arg(long = "as", value_enum, default_value_t = FleetForm::Text)]
    form: FleetForm,
    /// Write to this file instead of stdout; the file is replaced atomically.
    #[arg(long, value_name = "PATH", value_parser = crate::argument::file)]
    out: Option<PathBuf>,
    /// Address or path of the documentation; pages of pitfalls become links below it.
    #[arg(long, value_name = "ADDRESS", value_parser = crate::argument::address)]
    docs: Option<String>,
}

/// Reads a fleet report.
pub(super) fn read(path: &Path) -> Result<Fleet, CliError> {
    Stored::open(path)
        .and_then(|stored| stored.parse_by(fleet::SCHEMA, Fleet::parse))
        .map_err(|error| match error {
            StoreError::Unreadable { why, .. } => {
                let (path, why) = (
                    escape::terminal(&path.to_string_lossy()),
                    escape::terminal(&why),
                );
                format!("{path}: not a fleet report ({why}). Create one with `fleet merge`").into()
            }
            error => error.into(),
        })
}

pub(in crate::cli) fn render(arguments: &FleetRenderArguments) -> Outcome {
    let fleet = read(&arguments.fleet).map_err(|why| fail(why, Exit::Usage, false))?;
    let screen = match &arguments.out {
        None => terminal::screen(&std::io::stdout()),
        Some(_) => terminal::WIDTH.into(),
    };
    let made = rendered(&fleet, arguments.form, screen, arguments.docs.as_deref());
    let text = made.map_err(|error| {
        let why = format!("the fleet cannot be written as JSON: {error}");
        fail(why, Exit::Internal, false)
    })?;
    let Some(path) = &arguments.out else {
        return Ok(print_text(&text));
    };
    match replace(path, EVERYBODY, |file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => {
            let why = format!("--out {}: {error}", path.display());
            Err(fail(why, Exit::NotDurable, false))
        }
    }
}
