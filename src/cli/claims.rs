//! `claims`: finding the reports and printing what follows from them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{fail, is_styled, named, print};
use crate::catalogue;
use crate::claim::{self, Evidence, NamedReport};
use crate::exit::Exit;
use crate::render::claims::{ClaimsFormat, render};
use crate::report;
use crate::scenario::Diagnostic;
use crate::text::escape::terminal;
use crate::verdict::Provenance;

/// Where `run` puts reports if it is not told otherwise.
const REPORTS: &str = "reports";

/// What can be given to `claims`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A report, or the folder of a run; all measured reports in `reports/` if none.
    report: Option<PathBuf>,
    /// The form.
    #[arg(long = "as", value_enum, default_value_t = ClaimsFormat::Text)]
    form: ClaimsFormat,
    /// As JSON: the same as `--as json`.
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

/// Prints every claim with what was measured about it.
pub(super) fn claims(arguments: &Arguments) -> Exit {
    let form = if arguments.json { ClaimsFormat::Json } else { arguments.form };
    let json = form == ClaimsFormat::Json;
    let scenarios = match catalogue::select(&[]) {
        Ok(scenarios) => scenarios,
        Err(error) => return fail(&error.render(is_styled()), Exit::Internal, json),
    };
    let articles = match claim::load_all(&scenarios) {
        Ok(articles) => articles,
        Err((diagnostics, source)) => return fail(&lines(&diagnostics, &source), Exit::Internal, json),
    };
    let sources = match &arguments.report {
        Some(path) => match report::read(path) {
            Ok(report) => vec![NamedReport { name: path.to_string_lossy().into_owned(), report }],
            Err(error) => return fail(&error.to_string(), Exit::Usage, json),
        },
        None => all(Path::new(REPORTS)),
    };
    if sources.is_empty() && arguments.report.is_none() {
        let why = "there is no measured report in ./reports, so no claim can be decided here; give a report, or run \
                   this in a checkout, whose docs/claims.md has what its reports say";
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {why}");
    }
    let evidence = Evidence::new(sources, &scenarios);
    let ledger = claim::weigh(&articles, &evidence);
    let exit = ledger.exit();
    let shown = print(&render(&ledger, &evidence, form));
    named(exit.worst(shown))
}

fn lines(diagnostics: &[Diagnostic], source: &str) -> String {
    let lines = diagnostics.iter().map(|diagnostic| diagnostic.render(source, is_styled()));
    lines.collect::<Vec<_>>().join("\n\n")
}

/// The measured reports of a folder, by name; of a partial one counts what was asked to its end. What is left out is named on stderr; a
/// folder that is not there holds none.
fn all(folder: &Path) -> Vec<NamedReport> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path().join("report.json")).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let why = match report::read(&path) {
            Ok(report) if report.provenance == Provenance::Simulated => "it is simulated".to_owned(),
            Ok(report) => {
                sources.push(NamedReport { name, report });
                continue;
            }
            Err(error) => error.to_string(),
        };
        let name = terminal(&path.to_string_lossy());
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {name} is left out: {why}");
    }
    sources
}
