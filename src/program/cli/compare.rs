//! `compare`: its arguments.

use std::path::PathBuf;

use super::output::{CliError, Outcome, fail, named, print_result};
use super::stored::StoredDocument;
use crate::argument;
use crate::terminal;
use cuda_pitfalls_answers::compare::{self, CompareError, Comparison};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::report::StoredReport;
use cuda_pitfalls_render as render;
use cuda_pitfalls_trace::diagnosis;

#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// A report, survey or trace, or the directory of a run.
    a: PathBuf,
    /// A second document of the same type.
    b: PathBuf,
    /// Compare attempts on libcudart X in A with attempts on Y in B; A and B may be the same file.
    #[arg(long, value_name = "X,Y", value_parser = argument::versions)]
    libcudart: Option<(String, String)>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn run_compare(arguments: CompareArguments) -> Outcome {
    let CompareArguments {
        a,
        b,
        libcudart,
        json,
    } = arguments;
    let compared = match (StoredDocument::read(&a), StoredDocument::read(&b)) {
        (Ok((a, _, published_a)), Ok((b, _, published_b))) => compare_documents(a, b, libcudart)
            .map(|comparison| (comparison, [published_a, published_b]))
            .map_err(CliError::from),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    let (mut comparison, published) = compared.map_err(|why| fail(why, Exit::Usage, json))?;
    [comparison.a.published, comparison.b.published] = published;
    comparison.a.name = a.to_string_lossy().into_owned();
    comparison.b.name = b.to_string_lossy().into_owned();
    let shown = print_result(
        json,
        || serde_json::to_string(&comparison),
        || render::compare::text(&comparison, terminal::screen(&std::io::stdout())),
    );
    Ok(named(comparison.exit().worst(shown)))
}

/// Returns a report with today's observations of its recordings, so that two versions of the program do not differ by
/// themselves. A compact report has no recordings.
fn observed_again(mut report: StoredReport) -> StoredReport {
    if let StoredReport::Whole(whole) = &mut report {
        judge::rejudge(whole);
    }
    report
}

fn compare_documents(
    a: StoredDocument,
    b: StoredDocument,
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    match (a, b) {
        (StoredDocument::Report(a), StoredDocument::Report(b)) => {
            let [a, b] = [a, b].map(observed_again);
            compare::reports(&a.view(), &b.view(), versions)
        }
        (StoredDocument::Survey(a), StoredDocument::Survey(b)) => {
            compare::compare_surveys(&a, &b, versions)
        }
        (StoredDocument::Trace(_), StoredDocument::Trace(_)) if versions.is_some() => {
            Err(CompareError::Versions)
        }
        (StoredDocument::Trace(a), StoredDocument::Trace(b)) => Ok(compare::compare_traces(
            [&a, &b],
            [&diagnosis::findings(&a), &diagnosis::findings(&b)],
        )),
        (StoredDocument::Matrix(a), StoredDocument::Matrix(b)) => {
            compare::compare_matrices([&a, &b], versions)
        }
        (a, b) => Err(CompareError::Documents {
            a: a.name(),
            b: b.name(),
        }),
    }
}
