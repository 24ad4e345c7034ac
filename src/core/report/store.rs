//! Writes the report so that a crash, a full disk or a kill leaves a complete document or none. Also reads it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{COMPACT, CompactReport, Report, ReportView, Run, SCHEMA, ScenarioReport, SchemaId};
use crate::text::escape::terminal;
use crate::{input, output};

/// The report's file in the folder of a run.
pub const REPORT: &str = "report.json";
/// Larger files are not reports.
const LARGEST_BYTES: u64 = 256 << 20;

/// A folder that holds one run's report.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// A function that is set for compact reports: returns `true` if readers have the texts of a scenario.
    compact: Option<fn(&ScenarioReport) -> bool>,
}

/// The reason why a report could not be written or read. Each variant has the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the system failed.
    #[error("cannot {what} `{}`: {source}", terminal(&path.to_string_lossy()))]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not a report that this version can read.
    #[error("`{}` is not a report this version can read: {}", terminal(&path.to_string_lossy()), terminal(why))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io { what, path, source }
}

impl Store {
    /// Creates the directory of a run. An existing directory belongs to another run.
    ///
    /// # Errors
    /// Returns an error if the directory exists already, or cannot be created.
    pub fn create(reports: &Path, run: &str) -> Result<Store, StoreError> {
        fs::create_dir_all(reports).map_err(io_error("create the directory", reports))?;
        let folder = reports.join(run);
        fs::create_dir(&folder).map_err(io_error("create the directory", &folder))?;
        Ok(Store {
            folder,
            compact: None,
        })
    }

    /// Opens the directory at this path, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created.
    pub fn at(folder: &Path) -> Result<Store, StoreError> {
        fs::create_dir_all(folder).map_err(io_error("create the directory", folder))?;
        Ok(Store {
            folder: folder.to_path_buf(),
            compact: None,
        })
    }

    /// Returns the same store, which now writes compact reports.
    pub fn with_compact(self, has_words: fn(&ScenarioReport) -> bool) -> Store {
        Store {
            compact: Some(has_words),
            ..self
        }
    }

    /// Returns the path of the report.
    pub fn path(&self) -> PathBuf {
        self.folder.join(REPORT)
    }

    /// Replaces the report, as [`Store::write_document`] does.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, report: &Report) -> Result<(), StoreError> {
        match self.compact {
            Some(has_words) => self
                .write_document(REPORT, &CompactReport::new(report, has_words))
                .map(drop),
            None => self.write_document(REPORT, report).map(drop),
        }
    }

    /// Replaces a document: writes a file in the same directory, flushes it, renames it, and flushes the directory.
    /// After a crash either the old document or the new one exists, in full. Returns its path.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_document(
        &self,
        name: &str,
        document: &impl Serialize,
    ) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(name);
        output::document(&path, document).map_err(io_error("write", &path))?;
        let flushed = File::open(&self.folder).and_then(|folder| folder.sync_all());
        flushed.map_err(io_error("flush", &self.folder))?;
        Ok(path)
    }
}

/// A stored report, full or compact.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StoredReport {
    /// A full report.
    Whole(Box<Report>),
    /// A report without plans, steps, attempts and samples.
    Compact(Box<CompactReport>),
}

impl StoredReport {
    /// Returns the view that readers use.
    pub fn view(&self) -> ReportView<'_> {
        match self {
            StoredReport::Whole(report) => report.view(),
            StoredReport::Compact(report) => report.view(),
        }
    }

    /// Returns its run, for changes.
    pub fn run_mut(&mut self) -> &mut Run {
        match self {
            StoredReport::Whole(report) => &mut report.run,
            StoredReport::Compact(report) => &mut report.run,
        }
    }
}

/// The part of a document that determines whether it can be read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "StoredHead")]
pub struct Head {
    /// The name of its schema.
    pub name: String,
    /// The major version of its schema.
    pub major: Option<u64>,
    /// Words that a reader must know.
    required: Vec<String>,
}

impl Head {
    /// Reads the head of a document. The rest is skipped, not stored: a document may need a thousand times its size on
    /// disk in memory.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON.
    pub fn read(text: &[u8]) -> Result<Head, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Returns the head of a compact report.
    pub fn from_compact(schema: &SchemaId, must_understand: &[String]) -> Head {
        let (name, required) = (schema.name.clone(), must_understand.to_vec());
        Head {
            name,
            major: Some(schema.major.into()),
            required,
        }
    }

    /// Returns `true` if it is a compact report.
    pub fn is_compact(&self) -> bool {
        self.required.iter().any(|word| word == COMPACT)
    }

    /// Returns the first required word that is unknown to this version.
    pub fn unsupported_word(&self) -> Option<&str> {
        self.required
            .iter()
            .map(String::as_str)
            .find(|word| *word != COMPACT)
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct StoredHead {
    #[serde(default)]
    schema: StoredSchema,
    #[serde(default)]
    must_understand: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct StoredSchema {
    name: Option<String>,
    major: Option<u64>,
    /// The field `must_understand` of a trace, which lies in its schema.
    #[serde(default)]
    must_understand: Vec<String>,
}

impl From<StoredHead> for Head {
    fn from(
        StoredHead {
            schema,
            mut must_understand,
        }: StoredHead,
    ) -> Head {
        must_understand.extend(schema.must_understand);
        let (name, major) = (schema.name.unwrap_or_default(), schema.major);
        Head {
            name,
            major,
            required: must_understand,
        }
    }
}

/// A document whose head was read, but nothing else.
#[derive(Debug)]
pub struct Stored {
    path: PathBuf,
    text: Vec<u8>,
    head: Head,
}

impl Stored {
    /// Reads a document: a file, which may be compressed, standard input (`-`), or the report in a run's directory.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is too large, or has no head.
    pub fn open(path: &Path) -> Result<Stored, StoreError> {
        let path = if path.is_dir() {
            path.join(REPORT)
        } else {
            path.to_path_buf()
        };
        let text = input::read_document(&path, LARGEST_BYTES).map_err(io_error("read", &path))?;
        let head = Head::read(&text)
            .map_err(|error| error.to_string())
            .and_then(|head| match head.unsupported_word() {
                Some(what) => Err(format!(
                    "it requires `{what}`, which this version does not support"
                )),
                None => Ok(head),
            });
        match head {
            Ok(head) => Ok(Stored { path, text, head }),
            Err(_) if text.trim_ascii().is_empty() => Err(StoreError::Unreadable {
                path,
                why: "it is empty".into(),
            }),
            Err(why) => Err(StoreError::Unreadable { path, why }),
        }
    }

    /// Returns the SHA-256 of its unpacked content.
    pub fn sha256(&self) -> [u8; 32] {
        hmac_sha256::Hash::hash(&self.text)
    }

    /// Returns the name of its schema.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// Parses the document, which must have this schema and our major version.
    ///
    /// # Errors
    /// Returns an error if it has another schema or version, requires an unknown word, or does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        self.parse_by(name, |text| serde_json::from_slice(text))
    }

    /// Parses the document like [`Stored::parse`], with a function that checks more than the type.
    ///
    /// # Errors
    /// Returns the errors of [`Stored::parse`] and of the function.
    pub fn parse_by<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&[u8]) -> serde_json::Result<T>,
    ) -> Result<T, StoreError> {
        if self.head.name != name {
            return Err(self.unreadable_error(format!("`schema.name` is not \"{name}\"")));
        }
        if self.head.major != Some(u64::from(SchemaId::MAJOR)) {
            let found = self
                .head
                .major
                .map_or_else(|| "none".to_string(), |major| major.to_string());
            return Err(self.unreadable_error(format!(
                "its major version is {found}, this program reads {}",
                SchemaId::MAJOR
            )));
        }
        // Parses the text again: a value that was parsed before no longer has lines and columns for the error.
        parse(&self.text).map_err(|error| self.unreadable_error(error.to_string()))
    }

    /// Parses the document as a report, full or compact.
    ///
    /// # Errors
    /// Returns an error if the document is not a report, or if it contradicts itself.
    pub fn report(&self) -> Result<StoredReport, StoreError> {
        if self.head.is_compact() {
            Ok(StoredReport::Compact(Box::new(self.parse(SCHEMA)?)))
        } else {
            Ok(StoredReport::Whole(Box::new(self.parse(SCHEMA)?)))
        }
    }

    /// Returns an error about this document.
    pub fn unreadable_error(&self, why: String) -> StoreError {
        StoreError::Unreadable {
            path: self.path.clone(),
            why,
        }
    }
}

/// Reads a full report: a file, or the directory of a run.
///
/// # Errors
/// Returns an error if the file cannot be read, or if the report is compact; [`Stored::report`] reads both forms.
pub fn read(path: &Path) -> Result<Report, StoreError> {
    let stored = Stored::open(path)?;
    match stored.report()? {
        StoredReport::Whole(report) => Ok(*report),
        StoredReport::Compact(_) => Err(stored.unreadable_error(
            "it is compact and has no attempts to judge by; use the full report".to_owned(),
        )),
    }
}
