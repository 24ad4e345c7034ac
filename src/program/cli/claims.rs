//! `claims`: finding the reports and printing what follows from them.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{fail, fail_rendered, is_styled, named, print};
use crate::evidence::{self, EvidenceError};
use cuda_pitfalls_answers::claim::{self, Evidence, NamedReport};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report;
use cuda_pitfalls_core::scenario::Diagnostic;
use cuda_pitfalls_render::claims::{ClaimsFormat, render};

/// What can be given to `claims`.
#[derive(Debug, clap::Args)]
pub(super) struct ClaimsArguments {
    /// A report, or the folder of a run; the committed reports in `reports/` if none. Runs of your own do not count.
    report: Option<PathBuf>,
    /// The form.
    #[arg(long = "as", value_enum, default_value_t = ClaimsFormat::Text)]
    form: ClaimsFormat,
    /// As JSON: the same as `--as json`.
    #[arg(long, conflicts_with = "form")]
    json: bool,
}

/// Prints every claim with what was measured about it.
pub(super) fn claims(arguments: &ClaimsArguments) -> Exit {
    let form = if arguments.json { ClaimsFormat::Json } else { arguments.form };
    let json = form == ClaimsFormat::Json;
    let scenarios = match catalogue::select(&[]) {
        Ok(scenarios) => scenarios,
        Err(error) => return fail_rendered(&error.render(is_styled()), Exit::Internal, json),
    };
    let articles = match claim::load_all(&scenarios) {
        Ok(articles) => articles,
        Err((diagnostics, source)) => return fail_rendered(&lines(&diagnostics, &source), Exit::Internal, json),
    };
    let sources = match &arguments.report {
        Some(path) => match report::read(path) {
            Ok(report) => vec![NamedReport { name: path.to_string_lossy().into_owned(), report }],
            Err(error) => return fail(error, Exit::Usage, json),
        },
        None => all(Path::new(defaults::REPORTS)),
    };
    if sources.is_empty() && arguments.report.is_none() {
        let why = "there is no measured report in ./reports that is committed evidence, so no claim can be decided \
                   here; give a report, or run this in a checkout, whose docs/claims.md has what its reports say";
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

/// The reports of a folder that are evidence, by name; of a partial one counts what was asked to its end. One that is
/// not what was committed is named on stderr and left out. A folder that is not there holds none.
fn all(folder: &Path) -> Vec<NamedReport> {
    let mut sources = Vec::new();
    for listed in evidence::listed() {
        let Some(name) = listed.folder_of(report::REPORT) else { continue };
        let found = match listed.find(folder) {
            Ok(path) => report::read(&path).map_err(|error| error.to_string()),
            Err(EvidenceError::Missing { .. }) => continue,
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(report) => sources.push(NamedReport { name: name.to_owned(), report }),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "cuda-pitfalls: a report is left out: {why}");
            }
        }
    }
    sources.sort_by(|one, other| one.name.cmp(&other.name));
    sources
}
