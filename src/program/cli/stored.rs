//! Which document a path on the command line names.

use std::path::{Path, PathBuf};

use cuda_pitfalls_answers::survey::SurveyKind;
use cuda_pitfalls_core::text::escape;

/// The document that a path names: the file itself, or the one in a folder. The folder of a survey holds the
/// report of its controls too, and these are not what is meant. A folder without a survey is left as it is.
///
/// # Errors
/// The names of several surveys in one folder.
pub(super) fn named_by(path: &Path) -> Result<PathBuf, String> {
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
