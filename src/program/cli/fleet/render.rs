//! `fleet render`: a stored fleet in another form.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::output::{fail, print, put};
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::fleet::{self, Fleet};
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_render::fleet::{FleetForm, render as rendered};

/// What a screen is taken to have where the text goes to no terminal.
const COLUMNS: usize = 80;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// What `fleet merge` wrote.
    fleet: PathBuf,
    /// The form.
    #[arg(long = "as", value_enum, default_value_t = FleetForm::Text)]
    form: FleetForm,
    /// Write to this file, in whose place the whole text comes at once, and not to stdout.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Where the documentation is, `https://…` or a path: pages of pitfalls become links below it.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    docs: Option<String>,
}

/// An address to which a page may link: nothing that a browser would run.
fn parse_address(text: &str) -> Result<String, String> {
    let is_address = ["https://", "http://", "file:///", "/", "./", "../"].iter().any(|start| text.starts_with(start));
    match text {
        _ if !is_address => {
            Err("an address such as https://example.org/docs, or a path that begins with / or .".into())
        }
        _ if text.contains(|c: char| c.is_whitespace() || c.is_control()) => Err("an address has no blanks".into()),
        text => Ok(text.to_owned()),
    }
}

/// A stored fleet.
///
/// # Errors
/// Why it is none, in words that say what makes one.
pub(super) fn read(path: &Path) -> Result<Fleet, String> {
    let parsed = |stored: Stored| stored.parse(fleet::SCHEMA, fleet::MAJOR).map(Fleet::ranked);
    Stored::open(path).and_then(parsed).map_err(|error| match error {
        StoreError::Unreadable { why, .. } => {
            let path = terminal(&path.to_string_lossy());
            format!("`{path}` is not a merged document: {}; `fleet merge` makes one of reports", terminal(&why))
        }
        error => error.to_string(),
    })
}

/// Renders.
pub(in crate::cli) fn render(arguments: &Arguments) -> Exit {
    let fleet = match read(&arguments.fleet) {
        Ok(fleet) => fleet,
        Err(why) => return fail(&why, Exit::Usage, false),
    };
    let width = match &arguments.out {
        None => terminal::width_or(&std::io::stdout(), COLUMNS),
        Some(_) => COLUMNS,
    };
    let text = rendered(&fleet, arguments.form, width, arguments.docs.as_deref());
    match &arguments.out {
        None => print(&text),
        Some(path) => match put(path, |file| file.write_all(text.as_bytes())) {
            Ok(()) => Exit::Ok,
            Err(error) => fail(&format!("--out {}: {error}", path.display()), Exit::NotDurable, false),
        },
    }
}
