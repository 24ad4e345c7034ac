//! Why a command that reads or writes documents ends early.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use cuda_pitfalls_answers::compare::CompareError;
use cuda_pitfalls_answers::export::{Language, Refusal};
use cuda_pitfalls_core::report::StoreError;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_trace::TraceError;
use cuda_pitfalls_trace::policy::WordError;

/// What is wrong with arguments, or with what they name.
#[derive(Debug, Error)]
pub(super) enum CliError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error("`{}` holds several surveys, name one of the files: {}", terminal(&folder.to_string_lossy()), files.join(", "))]
    SeveralSurveys { folder: PathBuf, files: Vec<String> },
    #[error("`{}` is not a merged document: {}; `fleet merge` makes one of reports", terminal(&path.to_string_lossy()), terminal(why))]
    NotMerged { path: PathBuf, why: String },
    #[error("{name} cannot be written as {}: {refusal}", language.name())]
    Refused { name: String, language: Language, refusal: Refusal },
    #[error("{option}: {error}")]
    Word { option: &'static str, error: WordError },
    /// The file of `--expect` as its diagnostics show it.
    #[error("{0}")]
    Policy(String),
    #[error("--expect {name}: {error}")]
    Unreadable { name: String, error: io::Error },
    #[error("--expect {name}: {}", terminal(why))]
    Names { name: String, why: String },
    #[error("cannot write {}: {error}", path.display())]
    Unwritable { path: PathBuf, error: io::Error },
    #[error("it is no file")]
    NoFile,
    #[error("--label: `{0}` is given twice")]
    LabelTwice(String),
    #[error(
        "--as: a survey can be rendered as text, markdown or html, and one of needs as oci, systemd, apparmor, landlock or devices; the report of its controls is report.json beside it"
    )]
    FormOfSurvey,
    #[error("--as: the matrix of releases can be rendered as text, markdown or html")]
    FormOfMatrix,
    #[error("--as: a trace can be rendered as text, html, markdown, junit, github or sarif")]
    FormOfTrace,
    #[error(
        "--as: a report has no such form: sarif is of traces, and oci, systemd, apparmor, landlock and devices are of `survey needs`"
    )]
    FormOfReport,
}
