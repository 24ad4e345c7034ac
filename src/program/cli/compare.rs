//! `compare`: its arguments.

use std::path::{Path, PathBuf};

use super::argument;
use super::output::{fail, named, print};
use super::stored::named_by;
use cuda_pitfalls_answers::compare::{self, Comparison};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::Survey;
use cuda_pitfalls_core::report::{self, Report, Stored as Document};
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

/// What can be compared.
enum Stored {
    Report(Box<Report>),
    Survey(Box<Survey>),
    Trace(Box<Trace>),
}

impl Stored {
    fn name(&self) -> &'static str {
        match self {
            Stored::Report(_) => "report",
            Stored::Survey(_) => "survey",
            Stored::Trace(_) => "trace",
        }
    }
}

/// Compares.
pub(super) fn compare(arguments: CompareArguments) -> Exit {
    let CompareArguments { a, b, libcudart, json } = arguments;
    let compared = match (read(&a), read(&b)) {
        (Ok(a), Ok(b)) => of(&a, &b, libcudart),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    let mut comparison = match compared {
        Ok(comparison) => render::compare::worded(comparison),
        Err(why) => return fail(&why, Exit::Usage, json),
    };
    comparison.a.name = a.to_string_lossy().into_owned();
    comparison.b.name = b.to_string_lossy().into_owned();
    let shown = if json {
        print(&format!("{}\n", serde_json::to_string(&comparison).unwrap_or_default()))
    } else {
        print(&render::compare::text(&comparison))
    };
    named(comparison.exit().worst(shown))
}

fn read(path: &Path) -> Result<Stored, String> {
    if trace::is_trace(path) {
        let trace = Trace::open(path).map_err(|error| error.to_string())?;
        return Ok(Stored::Trace(Box::new(trace)));
    }
    let stored = Document::open(&named_by(path)?).map_err(|error| error.to_string())?;
    let read = match Survey::of(&stored) {
        Some(survey) => survey.map(|survey| Stored::Survey(Box::new(survey))),
        None => stored.parse(report::SCHEMA, report::MAJOR).map(|report| Stored::Report(Box::new(report))),
    };
    read.map_err(|error| error.to_string())
}

fn of(a: &Stored, b: &Stored, versions: Option<(String, String)>) -> Result<Comparison, String> {
    match (a, b) {
        (Stored::Report(a), Stored::Report(b)) => compare::reports(a, b, versions).map_err(|error| error.to_string()),
        (Stored::Survey(a), Stored::Survey(b)) => compare::surveys(a, b, versions).map_err(|error| error.to_string()),
        (Stored::Trace(_), Stored::Trace(_)) if versions.is_some() => {
            Err("versions of libcudart can be compared in reports and in surveys of calls".to_string())
        }
        (Stored::Trace(a), Stored::Trace(b)) => {
            Ok(compare::traces([a, b], [&diagnosis::findings(a), &diagnosis::findings(b)]))
        }
        (a, b) => Err(format!("A is a {}, B is a {}: only two of a kind can be compared", a.name(), b.name())),
    }
}
