//! Evidence: the files that `reports/evidence.sha256` lists, with the SHA-256 of each.
//!
//! Tests and documents read committed measurements through this list alone. Runs write below `reports/` too, under any
//! name that their user gives, so neither location nor name distinguishes evidence from a user's own run. `cargo xtask
//! evidence FOLDER` adds a folder to it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cuda_pitfalls::input::{document_path, open_document};

/// The list's location in the repository. Each line is one of `sha256sum`, which can check it: a hash, two spaces, and
/// a file's path from this directory. A packed document is listed by the name and the hash of its unpacked content, so
/// that packing changes no line.
pub(crate) const LIST: &str = "reports/evidence.sha256";

const SOURCE: &str = include_str!("../../reports/evidence.sha256");

/// A file of the list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    /// The file's path below `reports/`.
    pub(crate) name: String,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// Reasons why a file of the list is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EvidenceError {
    /// The file cannot be read.
    #[error("cannot read `{}`, which {LIST} lists: {source}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content of the file differs.
    #[error("`{}` is not the file that {LIST} lists: its SHA-256 is {found}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Hash of the file's content.
        found: String,
    },
}

/// Returns the list, in the order of names.
pub(crate) fn listed() -> Vec<Listed> {
    parse(SOURCE)
}

/// Reads a list. Lines in another format than that of `sha256sum` are ignored.
pub(crate) fn parse(text: &str) -> Vec<Listed> {
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    lines
        .map(|(hash, name)| Listed {
            name: name.into(),
            sha256: hash.into(),
        })
        .collect()
}

/// Returns a list in the format of its file.
pub(crate) fn text(list: &[Listed]) -> String {
    list.iter()
        .map(|one| format!("{}  {}\n", one.sha256, one.name))
        .collect()
}

/// Reads the bytes whose SHA-256 is listed: those of the file, or of the unpacked document.
///
/// # Errors
/// Returns an error if neither can be read.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if document_path(path) == path {
        return fs::read(path);
    }
    let mut bytes = Vec::new();
    open_document(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the SHA-256 of a file, in hexadecimal digits; of a packed document, that of its unpacked bytes.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub(crate) fn file_sha256(path: &Path) -> io::Result<String> {
    Ok(hmac_sha256::Hash::hash(&read_file(path)?)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

impl Listed {
    /// Returns the path of the file in a directory `reports`, if it is the one that was listed. A packed document keeps
    /// its name in the list; [`read_file`] and every reader of documents find it by that name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or has a different hash.
    pub(crate) fn find(&self, reports: &Path) -> Result<PathBuf, EvidenceError> {
        let path = reports.join(&self.name);
        match file_sha256(&path) {
            Ok(found) if found == self.sha256 => Ok(path),
            Ok(found) => Err(EvidenceError::Changed { path, found }),
            Err(source) => Err(EvidenceError::Missing { path, source }),
        }
    }

    /// Returns the directory below `reports/` of a file of this name.
    pub(crate) fn folder_of(&self, file: &str) -> Option<&str> {
        self.name.strip_suffix(file)?.strip_suffix('/')
    }
}

/// Returns the documents in files of this name, such as `report.json`, each with the name of its directory below
/// `reports`, in the order of these names.
///
/// # Errors
/// Returns an error if one of them cannot be read, or is not the one that was listed.
pub(crate) fn documents(
    reports: &Path,
    file: &str,
) -> Result<Vec<(String, PathBuf)>, EvidenceError> {
    let listed = listed();
    let named = listed
        .iter()
        .filter_map(|one| Some((one.folder_of(file)?, one)));
    let mut found: Vec<(String, PathBuf)> = named
        .map(|(folder, one)| Ok((folder.to_owned(), one.find(reports)?)))
        .collect::<Result<_, EvidenceError>>()?;
    // Paths have another order: `x-again/` comes before `x/`.
    found.sort();
    Ok(found)
}
