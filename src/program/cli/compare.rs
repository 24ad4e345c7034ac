//! `compare`: its arguments.

use std::path::{Path, PathBuf};

use super::output::{CliError, fail, named, show};
use super::stored::{matrix, named_by};
use crate::argument;
use crate::terminal;
use cuda_pitfalls_answers::compare::{self, CompareError, Comparison};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::{self, Matrix};
use cuda_pitfalls_answers::survey::Survey;
use cuda_pitfalls_core::report::{Stored, StoredReport};
use cuda_pitfalls_render as render;
use cuda_pitfalls_trace::diagnosis;
use cuda_pitfalls_trace::{self as trace, Trace};

#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// A report, a survey or a trace, or the folder of a run: of a survey, if it holds one.
    a: PathBuf,
    /// Another one of the same kind.
    b: PathBuf,
    /// Compare what ran on libcudart X in A with what ran on Y in B; A and B may be one file.
    #[arg(long, value_name = "X,Y", value_parser = argument::versions)]
    libcudart: Option<(String, String)>,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

enum ComparedDocument {
    Report(StoredReport),
    Survey(Box<Survey>),
    Trace(Box<Trace>),
    Matrix(Box<Matrix>),
}

impl ComparedDocument {
    fn name(&self) -> &'static str {
        match self {
            ComparedDocument::Report(_) => "report",
            ComparedDocument::Survey(_) => "survey",
            ComparedDocument::Trace(_) => "trace",
            ComparedDocument::Matrix(_) => "matrix of releases",
        }
    }
}

pub(super) fn compare(arguments: CompareArguments) -> Exit {
    let CompareArguments { a, b, libcudart, json } = arguments;
    let compared = match (read(&a), read(&b)) {
        (Ok(ComparedDocument::Matrix(a)), Ok(ComparedDocument::Matrix(b))) => return matrices(&a, &b, json),
        (Ok(a), Ok(b)) => of(&a, &b, libcudart).map_err(CliError::from),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    let mut comparison = match compared {
        Ok(comparison) => render::compare::worded(comparison),
        Err(why) => return fail(why, Exit::Usage, json),
    };
    comparison.a.name = a.to_string_lossy().into_owned();
    comparison.b.name = b.to_string_lossy().into_owned();
    let shown = show(json, || serde_json::to_string(&comparison), || render::compare::text(&comparison));
    named(comparison.exit().worst(shown))
}

/// Compares what lines do in one release after another.
fn matrices(a: &Matrix, b: &Matrix, json: bool) -> Exit {
    let found = releases::differences(a, b);
    let text = || render::releases::difference(&found, terminal::width(&std::io::stdout()));
    let shown = show(json, || serde_json::to_string(&found), text);
    let exit = match (found.compared, found.cells.is_empty()) {
        (0, _) => Exit::NothingMeasured,
        (_, true) => Exit::Ok,
        (_, false) => Exit::Unexpected,
    };
    named(exit.worst(shown))
}

fn read(path: &Path) -> Result<ComparedDocument, CliError> {
    if let Some(matrix) = matrix(path) {
        return Ok(ComparedDocument::Matrix(Box::new(matrix?)));
    }
    if trace::is_trace(path) {
        return Ok(ComparedDocument::Trace(Box::new(Trace::open(path)?)));
    }
    let stored = Stored::open(&named_by(path)?)?;
    Ok(match Survey::of(&stored) {
        Some(survey) => ComparedDocument::Survey(Box::new(survey?)),
        None => ComparedDocument::Report(stored.report()?),
    })
}

fn of(
    a: &ComparedDocument,
    b: &ComparedDocument,
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    match (a, b) {
        (ComparedDocument::Report(a), ComparedDocument::Report(b)) => compare::reports(&a.view(), &b.view(), versions),
        (ComparedDocument::Survey(a), ComparedDocument::Survey(b)) => compare::surveys(a, b, versions),
        (ComparedDocument::Trace(_), ComparedDocument::Trace(_)) if versions.is_some() => Err(CompareError::Versions),
        (ComparedDocument::Trace(a), ComparedDocument::Trace(b)) => {
            Ok(compare::traces([a, b], [&diagnosis::findings(a), &diagnosis::findings(b)]))
        }
        (a, b) => Err(CompareError::Documents { a: a.name(), b: b.name() }),
    }
}
