//! Which document a path on the command line names.

use std::path::{Path, PathBuf};

use super::output::CliError;
use crate::run::environment_documents;
use cuda_pitfalls_answers::releases::Matrix;
use cuda_pitfalls_answers::survey::SurveyKind;
use cuda_pitfalls_core::report::StoreError;
use cuda_pitfalls_core::text::escape::terminal;

/// The document that a path names: the file itself, or the one in a folder. The folder of a survey holds the
/// report of its controls too, and these are not what is meant. A folder without a survey is left as it is.
///
/// # Errors
/// The folder holds several surveys.
pub(super) fn named_by(path: &Path) -> Result<PathBuf, CliError> {
    let surveys: Vec<String> =
        SurveyKind::all().iter().map(|kind| kind.file()).filter(|file| path.join(file).exists()).collect();
    match surveys.as_slice() {
        [] => Ok(path.to_path_buf()),
        [file] => Ok(path.join(file)),
        _ => {
            let (folder, files) = (terminal(&path.to_string_lossy()), surveys.join(", "));
            Err(format!("`{folder}` holds several surveys, name one of the files: {files}").into())
        }
    }
}

/// The matrix of the environments in a folder, or of the one that a file holds; `None` if the path names none.
pub(super) fn matrix(path: &Path) -> Option<Result<Matrix, StoreError>> {
    let documents = match environment_documents(path) {
        Ok(documents) if documents.is_empty() => return None,
        documents => documents,
    };
    Some(documents.map(|documents| Matrix::of(&documents)))
}
