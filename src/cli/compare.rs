//! `compare`: its arguments.

use std::path::{Path, PathBuf};

use super::output::{fail, named, print};
use crate::compare::{self, Comparison};
use crate::exit::Exit;
use crate::render;
use crate::report::{self, Report, Stored};
use crate::survey::{Survey, SurveyKind};
use crate::text::escape;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A report or a survey, or the folder of a run: of a survey, if it holds one.
    a: PathBuf,
    /// Another one of the same kind.
    b: PathBuf,
    /// Compare what ran on libcudart X in A with what ran on Y in B; A and B may be one file.
    #[arg(long, value_name = "X,Y", value_parser = parse_versions)]
    libcudart: Option<(String, String)>,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

fn parse_versions(text: &str) -> Result<(String, String), String> {
    let is_version = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    match text.split_once(',') {
        Some((a, b)) if is_version(a) && is_version(b) => Ok((a.to_string(), b.to_string())),
        _ => Err("two versions, such as 12.9,13.0".to_string()),
    }
}

/// What can be compared.
enum ReportOrSurvey {
    Report(Box<Report>),
    Survey(Box<Survey>),
}

/// Compares.
pub(super) fn compare(arguments: Arguments) -> Exit {
    let Arguments { a, b, libcudart, json } = arguments;
    let compared = match (read(&a), read(&b)) {
        (Ok(a), Ok(b)) => of(&a, &b, libcudart),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    let mut comparison = match compared {
        Ok(comparison) => comparison,
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

fn read(path: &Path) -> Result<ReportOrSurvey, String> {
    let stored = Stored::open(&document(path)?).map_err(|error| error.to_string())?;
    let read = match Survey::of(&stored) {
        Some(survey) => survey.map(|survey| ReportOrSurvey::Survey(Box::new(survey))),
        None => stored.parse(report::SCHEMA, report::MAJOR).map(|report| ReportOrSurvey::Report(Box::new(report))),
    };
    read.map_err(|error| error.to_string())
}

/// What is meant by a path. The folder of a survey holds the report of its controls too, and these
/// are not what is compared.
fn document(path: &Path) -> Result<PathBuf, String> {
    let surveys: Vec<&str> =
        SurveyKind::ALL.iter().map(|kind| kind.file()).filter(|file| path.join(file).exists()).collect();
    match surveys.as_slice() {
        [] => Ok(path.to_path_buf()),
        [file] => Ok(path.join(file)),
        several => {
            let path = escape::terminal(&path.to_string_lossy());
            Err(format!("`{path}` holds several surveys, name one of the files: {}", several.join(", ")))
        }
    }
}

fn of(a: &ReportOrSurvey, b: &ReportOrSurvey, versions: Option<(String, String)>) -> Result<Comparison, String> {
    let differ = |a: &str, b: &str| Err(format!("A is a {a}, B is a {b}: only two of a kind can be compared"));
    match (a, b) {
        (ReportOrSurvey::Report(a), ReportOrSurvey::Report(b)) => compare::reports(a, b, versions),
        (ReportOrSurvey::Survey(a), ReportOrSurvey::Survey(b)) => compare::surveys(a, b, versions),
        (ReportOrSurvey::Report(_), ReportOrSurvey::Survey(_)) => differ("report", "survey"),
        (ReportOrSurvey::Survey(_), ReportOrSurvey::Report(_)) => differ("survey", "report"),
    }
}
