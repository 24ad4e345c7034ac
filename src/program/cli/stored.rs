//! Finds the document that a path on the command line refers to.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::output::CliError;
use crate::run::{environment_documents, read_imports};
use cuda_pitfalls_answers::published::{Publication, traced_run};
use cuda_pitfalls_answers::releases::{IMPORTS_FILE, ImportRow, Matrix};
use cuda_pitfalls_answers::survey::{SurveyDocument, SurveyKind};
use cuda_pitfalls_core::input::{document_path, document_sha256};
use cuda_pitfalls_core::report::{REPORT, Stored, StoredReport};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_trace::{FILE as TRACE, Trace, is_trace, trace_file};

pub(super) enum StoredDocument {
    Report(StoredReport),
    Survey(Box<SurveyDocument>),
    Trace(Box<Trace>),
    Matrix(Box<Matrix>),
    Imports(Vec<ImportRow>),
}

impl StoredDocument {
    /// Reads the document that a path refers to: the matrix of releases, a trace, a survey or a report. Returns the
    /// document, its path, and whether it is a published one.
    pub(super) fn read(
        path: &Path,
    ) -> Result<(StoredDocument, PathBuf, Option<Publication>), CliError> {
        let imports = if path.is_dir() {
            path.join(IMPORTS_FILE)
        } else {
            path.to_path_buf()
        };
        if imports.ends_with(IMPORTS_FILE) && imports.is_file() {
            let rows = read_imports(&imports).map_err(|error| error.to_string())?;
            return Ok((StoredDocument::Imports(rows), imports, None));
        }
        let documents = environment_documents(path)?;
        if !documents.is_empty() {
            return Ok((
                StoredDocument::Matrix(Box::new(Matrix::new(&documents))),
                path.to_path_buf(),
                None,
            ));
        }
        let path = newest_run(path);
        if is_trace(&path) {
            let trace = Trace::open(&path)?;
            let run = traced_run(&trace.start.started_at, trace.start.t_ns);
            let published = Publication::look_up(&run, || document_sha256(&trace_file(&path)))?;
            let document = StoredDocument::Trace(Box::new(trace));
            return Ok((document, path, published));
        }
        let path = named_by(&path)?;
        let stored = Stored::open(&path)?;
        let (run, document) = match SurveyDocument::from_stored(&stored) {
            Some(survey) => {
                let survey = Box::new(survey?);
                (survey.header.id.clone(), StoredDocument::Survey(survey))
            }
            None => {
                let report = stored.report()?;
                (report.view().run.id.clone(), StoredDocument::Report(report))
            }
        };
        let published = Publication::look_up(&run, || Ok(stored.sha256()))?;
        Ok((document, path, published))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            StoredDocument::Report(_) => "report",
            StoredDocument::Survey(_) => "survey",
            StoredDocument::Trace(_) => "trace",
            StoredDocument::Matrix(_) => "matrix of releases",
            StoredDocument::Imports(_) => "survey of imports",
        }
    }
}

/// Returns the directory of the newest run if a path refers to a directory of runs; else the path unchanged.
pub(super) fn newest_run(path: &Path) -> PathBuf {
    if written_at(path).is_some() {
        return path.to_path_buf();
    }
    let mut newest = None;
    for entry in path.read_dir().into_iter().flatten().flatten() {
        let folder = entry.path();
        if let Some(written) = written_at(&folder) {
            newest = newest.max(Some((written, folder)));
        }
    }
    match newest {
        Some((_, folder)) => folder,
        None => path.to_path_buf(),
    }
}

/// Returns the time at which the report or the trace in a directory was written; `None` if it contains neither.
fn written_at(folder: &Path) -> Option<SystemTime> {
    [REPORT, TRACE]
        .iter()
        .map(|file| document_path(&folder.join(file)))
        .find_map(|file| file.metadata().ok()?.modified().ok())
}

/// Returns the document that a path refers to: the file itself, or the one in a directory. The directory of a survey
/// also contains the report of its controls, which is not meant. A directory without a survey is returned unchanged.
///
/// # Errors
/// Returns an error if the directory holds several surveys.
fn named_by(path: &Path) -> Result<PathBuf, CliError> {
    let surveys: Vec<String> = SurveyKind::all()
        .iter()
        .map(|kind| kind.file())
        .filter(|file| document_path(&path.join(file)).exists())
        .collect();
    match surveys.as_slice() {
        [] => Ok(path.to_path_buf()),
        [file] => Ok(path.join(file)),
        _ => {
            let (folder, files) = (terminal(&path.to_string_lossy()), surveys.join(", "));
            Err(format!("`{folder}` has several surveys; specify one of the files: {files}").into())
        }
    }
}
