//! Writing the report so that a crash, a full disk or a kill leaves a whole document or none, and
//! reading one back.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{CompactReport, MAJOR, Report, ReportView, Run, SCHEMA, ScenarioReport, SchemaId, UNDERSTOOD};
use crate::input;
use crate::text::escape::terminal;

/// The report's file in the folder of a run.
pub const REPORT: &str = "report.json";
/// Larger files are not reports.
const LARGEST_BYTES: u64 = 256 << 20;

/// A folder that holds one run's report.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Of a compact report: whether readers have the words of a question.
    compact: Option<fn(&ScenarioReport) -> bool>,
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
    /// Makes the folder of a run. One that is there already belongs to another.
    ///
    /// # Errors
    /// The folder is there, or cannot be made.
    pub fn create(reports: &Path, run: &str) -> Result<Store, StoreError> {
        fs::create_dir_all(reports).map_err(io_error("create the folder", reports))?;
        let folder = reports.join(run);
        fs::create_dir(&folder).map_err(io_error("create the folder", &folder))?;
        Ok(Store { folder, compact: None })
    }

    /// The folder of a run by its own path, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn at(folder: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(folder).map_err(io_error("create the folder", folder))?;
        Ok(Store { folder: folder.to_path_buf(), compact: None })
    }

    /// The same folder, for a compact report.
    pub fn compact(self, has_words: fn(&ScenarioReport) -> bool) -> Store {
        Store { compact: Some(has_words), ..self }
    }

    /// Where the report is.
    pub fn path(&self) -> PathBuf {
        self.folder.join(REPORT)
    }

    /// Puts a report in place of the one before, as [`Store::put`] does.
    pub fn write(&self, report: &Report) -> Result<(), StoreError> {
        match self.compact {
            Some(has_words) => self.put(REPORT, &CompactReport::new(report, has_words)).map(drop),
            None => self.put(REPORT, report).map(drop),
        }
    }

    /// Puts a document in place of the one before: written beside it, flushed, renamed, and the
    /// folder flushed too. Whatever happens, one of the two is there in full. Says where it is.
    pub fn put(&self, name: &str, document: &impl Serialize) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(name);
        // As any other file that a program writes: an audit reads what nodes wrote as other users.
        let everybody = Permissions::from_mode(0o666);
        let made = tempfile::Builder::new().permissions(everybody).tempfile_in(&self.folder);
        let mut file = made.map_err(io_error("write in", &self.folder))?;
        // Not as one text in memory: a report can be larger than the parent may be.
        let mut writer = BufWriter::new(file.as_file_mut());
        serde_json::to_writer(&mut writer, document).map_err(|error| io_error("write", &path)(error.into()))?;
        writer.write_all(b"\n").and_then(|()| writer.flush()).map_err(io_error("write", &path))?;
        drop(writer);
        file.as_file().sync_all().map_err(io_error("flush", &path))?;
        file.persist(&path).map_err(|error| io_error("rename to", &path)(error.error))?;
        let flushed = File::open(&self.folder).and_then(|folder| folder.sync_all());
        flushed.map_err(io_error("flush", &self.folder))?;
        Ok(path)
    }
}

/// A report as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StoredReport {
    /// With everything in it.
    Whole(Box<Report>),
    /// Without plans, steps, attempts and samples.
    Compact(Box<CompactReport>),
}

impl StoredReport {
    /// What its readers see.
    pub fn view(&self) -> ReportView<'_> {
        match self {
            StoredReport::Whole(report) => report.view(),
            StoredReport::Compact(report) => report.view(),
        }
    }

    /// Its run, to be changed.
    pub fn run_mut(&mut self) -> &mut Run {
        match self {
            StoredReport::Whole(report) => &mut report.run,
            StoredReport::Compact(report) => &mut report.run,
        }
    }
}

/// What every document begins to be understood by.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "StoredHead")]
pub struct Head {
    /// The name of its schema.
    pub name: String,
    /// The major version of its schema.
    pub major: Option<u64>,
    /// Whether it is a compact report.
    pub is_compact: bool,
    /// What a reader must know that is to believe the document.
    required: Vec<String>,
}

impl Head {
    /// The head of a document. The rest is read past, and kept nowhere: a document may be a thousand times as large in
    /// memory as it is on disk.
    pub fn read(text: &[u8]) -> Result<Head, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The head of a compact report.
    pub fn of(schema: &SchemaId, must_understand: &[String]) -> Head {
        let (name, required) = (schema.name.clone(), must_understand.to_vec());
        Head { name, major: Some(schema.major.into()), is_compact: true, required }
    }

    /// The first thing that a reader must know and this version does not.
    pub fn unsupported(&self) -> Option<&str> {
        self.required.iter().map(String::as_str).find(|what| !UNDERSTOOD.contains(what))
    }
}

#[derive(Deserialize)]
struct StoredHead {
    #[serde(default)]
    schema: StoredSchema,
    #[serde(default)]
    must_understand: Vec<String>,
    #[serde(default)]
    run: StoredRun,
}

#[derive(Default, Deserialize)]
struct StoredRun {
    #[serde(default)]
    compact: bool,
}

#[derive(Default, Deserialize)]
struct StoredSchema {
    name: Option<String>,
    major: Option<u64>,
    /// Where a trace has it.
    #[serde(default)]
    must_understand: Vec<String>,
}

impl From<StoredHead> for Head {
    fn from(StoredHead { schema, mut must_understand, run }: StoredHead) -> Head {
        must_understand.extend(schema.must_understand);
        let (name, major) = (schema.name.unwrap_or_default(), schema.major);
        Head { name, major, is_compact: run.compact, required: must_understand }
    }
}

/// A document that was read and not yet understood.
#[derive(Debug)]
pub struct Stored {
    path: PathBuf,
    text: Vec<u8>,
    head: Head,
}

impl Stored {
    /// Reads a document: a file, which may be compressed, standard input (`-`), or the report in the folder of a
    /// run.
    pub fn open(path: &Path) -> Result<Stored, StoreError> {
        let path = if path.is_dir() { path.join(REPORT) } else { path.to_path_buf() };
        let text = input::read_document(&path, LARGEST_BYTES).map_err(io_error("read", &path))?;
        let unreadable = |why: String| StoreError::Unreadable { path: path.clone(), why };
        let head = Head::read(&text).map_err(|error| unreadable(error.to_string()))?;
        if let Some(what) = head.unsupported() {
            return Err(unreadable(format!("it requires `{what}`, which this program does not support")));
        }
        Ok(Stored { path, text, head })
    }

    /// The name of its schema.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The document, if it is of this schema and major.
    pub fn parse<T: DeserializeOwned>(&self, name: &str, major: u32) -> Result<T, StoreError> {
        if self.head.name != name {
            return Err(self.unreadable(format!("`schema.name` is not \"{name}\"")));
        }
        if self.head.major != Some(u64::from(major)) {
            let found = self.head.major.map_or_else(|| "none".to_string(), |major| major.to_string());
            return Err(self.unreadable(format!("its major version is {found}, this program reads {major}")));
        }
        // The text once more: a value that was read already no longer knows its line and column.
        serde_json::from_slice(&self.text).map_err(|error| self.unreadable(error.to_string()))
    }

    /// The document, if it is a report.
    pub fn report(&self) -> Result<StoredReport, StoreError> {
        Ok(match self.head.is_compact {
            true => StoredReport::Compact(Box::new(self.parse(SCHEMA, MAJOR)?)),
            false => StoredReport::Whole(Box::new(self.parse(SCHEMA, MAJOR)?)),
        })
    }

    /// An error about this document.
    pub fn unreadable(&self, why: String) -> StoreError {
        StoreError::Unreadable { path: self.path.clone(), why }
    }
}

/// Reads a whole report: a file, or the folder of a run.
///
/// # Errors
/// It cannot be read, or it is compact; [`Stored::report`] reads both.
pub fn read(path: &Path) -> Result<Report, StoreError> {
    let stored = Stored::open(path)?;
    match stored.report()? {
        StoredReport::Whole(report) => Ok(*report),
        StoredReport::Compact(_) => {
            Err(stored.unreadable("it is compact, and has no attempts to judge by: give the whole report".to_owned()))
        }
    }
}
