//! Writing the report so that a crash, a full disk or a kill leaves a whole document or none, and
//! reading one back.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{MAJOR, Report, SCHEMA};
use crate::input;
use crate::render::escape::terminal;

/// Larger files are not reports.
const LARGEST_BYTES: u64 = 256 << 20;

/// A folder that holds one run's report.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Why a report could not be written or read. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {what} `{}`: {source}", terminal(&path.to_string_lossy()))]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is not a report, or not one of ours.
    #[error("`{}` is not a report this version can read: {}", terminal(&path.to_string_lossy()), terminal(why))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io { what, path, source }
}

impl Store {
    /// Makes the folder of a run.
    pub fn create(reports: &Path, run: &str) -> Result<Store, StoreError> {
        let folder = reports.join(run);
        fs::create_dir_all(&folder).map_err(io_error("create the folder", &folder))?;
        Ok(Store { folder })
    }

    /// Where the report is.
    pub fn path(&self) -> PathBuf {
        self.folder.join("report.json")
    }

    /// Puts a report in place of the one before: written beside it, flushed, renamed, and the
    /// folder flushed too. Whatever happens, one of the two is there in full.
    pub fn write(&self, report: &Report) -> Result<(), StoreError> {
        let path = self.path();
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(io_error("write in", &self.folder))?;
        let text = serde_json::to_vec(report).map_err(|error| io_error("write", &path)(error.into()))?;
        file.write_all(&text).and_then(|()| file.write_all(b"\n")).map_err(io_error("write", &path))?;
        file.as_file().sync_all().map_err(io_error("flush", &path))?;
        file.persist(&path).map_err(|error| io_error("rename to", &path)(error.error))?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(io_error("flush", &self.folder))
    }
}

/// Reads a report: a file, or the folder of a run.
pub fn read(path: &Path) -> Result<Report, StoreError> {
    let path = if path.is_dir() { path.join("report.json") } else { path.to_path_buf() };
    let unreadable = |why: String| StoreError::Unreadable { path: path.clone(), why };
    let text = input::read(&path, LARGEST_BYTES).map_err(io_error("read", &path))?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let schema = document.get("schema").cloned().unwrap_or_default();
    if schema.get("name").and_then(serde_json::Value::as_str) != Some(SCHEMA) {
        return Err(unreadable(format!("`schema.name` is not \"{SCHEMA}\"")));
    }
    let major = schema.get("major").and_then(serde_json::Value::as_u64);
    if major != Some(u64::from(MAJOR)) {
        let found = major.map_or_else(|| "none".to_string(), |major| major.to_string());
        return Err(unreadable(format!("its major version is {found}, this program reads {MAJOR}")));
    }
    // The text once more: a value that was read already no longer knows its line and column.
    serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))
}
