//! Which document a path on the command line names.

use std::path::{Path, PathBuf};

use super::error::CliError;
use cuda_pitfalls_answers::survey::SurveyKind;

/// The document that a path names: the file itself, or the one in a folder. The folder of a survey holds the
/// report of its controls too, and these are not what is meant. A folder without a survey is left as it is.
///
/// # Errors
/// [`CliError::SeveralSurveys`].
pub(super) fn named_by(path: &Path) -> Result<PathBuf, CliError> {
    let surveys: Vec<&str> =
        SurveyKind::ALL.iter().map(|kind| kind.file()).filter(|file| path.join(file).exists()).collect();
    match surveys.as_slice() {
        [] => Ok(path.to_path_buf()),
        [file] => Ok(path.join(file)),
        _ => Err(CliError::SeveralSurveys { folder: path.to_path_buf(), files: surveys }),
    }
}
