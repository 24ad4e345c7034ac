//! The cells of notebooks.
//!
//! A Jupyter kernel compiles a cell under the name of a file that does not exist: the hash of the cell's text. The
//! tracer searches for a notebook that has a code cell with this hash: under the name that Jupyter gives the kernel,
//! and among the arguments of the traced command, for `jupyter execute train.ipynb`. A notebook that was changed since
//! has another hash.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Deserialize;

use super::source::{self, Readable};
use crate::Stack;
use crate::stack::kernel_cell;

/// The largest notebook that is read, in bytes: those with many figures are large.
const LARGEST: u64 = 32 << 20;
/// The maximum number of bytes that are read of an environment.
const MOST_ENVIRONMENT: u64 = 1 << 20;
/// The maximum number of notebooks that are searched for a command.
const MOST: usize = 8;
/// The longest kept cell. The number of kept cells is limited too, because a program can invent any number of them.
const LONGEST: usize = 64 << 10;
const MOST_CELLS: usize = 1_000;
/// The variable that contains the name of a kernel's notebook, set by Jupyter.
const OWN_NOTEBOOK: &str = "JPY_SESSION_NAME=";
/// The seed of ipykernel's hash.
const SEED: u32 = 0xC70F_6907;

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<NotebookCell>,
}

#[derive(Deserialize)]
struct NotebookCell {
    cell_type: String,
    source: CellText,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CellText {
    Whole(String),
    Lines(Vec<String>),
}

/// The code cells that were found.
pub(super) struct Notebooks {
    /// The notebooks among the arguments of the traced command.
    named: Vec<String>,
    /// The names and texts of the cells by their hash; `None` if no notebook has the cell.
    cells: BTreeMap<u32, Option<(String, String)>>,
}

impl Notebooks {
    /// Returns an empty list of cells. `arguments` must come from the traced command, which starts in the current
    /// folder.
    pub(super) fn new(arguments: &[OsString]) -> Notebooks {
        // The kernel may run in another folder.
        let folder = std::env::current_dir().unwrap_or_default();
        let paths = arguments
            .iter()
            .map(|name| folder.join(name))
            .filter(|path| is_notebook(path));
        let named = paths
            .map(|path| path.to_string_lossy().into_owned())
            .take(MOST)
            .collect();
        Notebooks {
            named,
            cells: BTreeMap::new(),
        }
    }

    /// Renames the frames of cells to `<notebook train.ipynb code cell 3>`, and adds the line of the user's own frame.
    pub(super) fn name(&mut self, pid: u32, waiting: &UnixStream, stack: &mut Stack) {
        let own = stack
            .user_frame()
            .or_else(|| stack.users_meanwhile())
            .cloned();
        for frame in stack.frames.iter_mut().chain(&mut stack.meanwhile) {
            let hash = frame
                .file
                .as_deref()
                .and_then(kernel_cell)
                .and_then(|hash| hash.parse().ok());
            let Some(hash) =
                hash.filter(|hash| self.cells.len() < MOST_CELLS || self.cells.contains_key(hash))
            else {
                continue;
            };
            let found = self
                .cells
                .entry(hash)
                .or_insert_with(|| find(&self.named, pid, waiting, hash));
            if let Some((name, text)) = found {
                let line = frame
                    .line
                    .and_then(|line| text.lines().nth((line as usize).checked_sub(1)?));
                if own.as_ref() == Some(&*frame) {
                    stack.source = line.and_then(source::trimmed_line);
                }
                frame.file = Some(name.clone());
            }
        }
    }
}

fn is_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "ipynb")
}

/// Returns the name and the text of the cell with this hash.
fn find(named: &[String], pid: u32, waiting: &UnixStream, hash: u32) -> Option<(String, String)> {
    let mut environment = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
        let _ = file.take(MOST_ENVIRONMENT).read_to_end(&mut environment);
    }
    let environment = String::from_utf8_lossy(&environment);
    let own = environment
        .split('\0')
        .find_map(|variable| variable.strip_prefix(OWN_NOTEBOOK));
    let readable = Readable {
        is_wanted: is_notebook,
        largest: LARGEST,
    };
    own.into_iter()
        .chain(named.iter().map(String::as_str))
        .find_map(|path| {
            let mut text = String::new();
            readable
                .open(pid, waiting, path)?
                .take(LARGEST)
                .read_to_string(&mut text)
                .ok()?;
            let (cells, code) = cell_with_hash(&text, hash)?;
            Some((
                format!(
                    "<notebook {} code cell {cells}>",
                    Path::new(path).file_name()?.to_string_lossy()
                ),
                code,
            ))
        })
}

/// Returns the number of the code cell with this hash, or the numbers of equal ones, and its text.
fn cell_with_hash(notebook: &str, hash: u32) -> Option<(String, String)> {
    let notebook: Notebook = serde_json::from_str(notebook).ok()?;
    let code = notebook
        .cells
        .into_iter()
        .filter(|cell| cell.cell_type == "code")
        .map(|cell| match cell.source {
            CellText::Whole(text) => text,
            CellText::Lines(lines) => lines.concat(),
        });
    let code = code.enumerate().filter(|(_, text)| text.len() <= LONGEST);
    let found: Vec<(usize, String)> = code
        .filter(|(_, text)| murmur2(text.as_bytes()) == hash)
        .collect();
    let numbers: Vec<String> = found
        .iter()
        .map(|(index, _)| (index + 1).to_string())
        .collect();
    Some((numbers.join(" or "), found.into_iter().next()?.1))
}

/// Returns the 32-bit MurmurHash2, as in ipykernel's compiler.py.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5BD1_E995;
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let last = rest
            .iter()
            .rev()
            .fold(0, |last, byte| last << 8 | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes from ipykernel 7.1.
    #[test]
    fn the_hash_is_ipykernels() {
        for (text, hash) in [
            ("", 3_990_065_800),
            ("a", 2_167_009_006),
            ("ab", 2_805_137_849),
            ("abc", 3_350_977_461),
            ("abcd", 804_720_481),
            ("import torch\ntorch.cuda.is_available()", 4_260_340_405),
            ("é=1\n", 1_554_287_220),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn a_cell_is_found_by_its_hash_and_equal_ones_are_both_named() {
        let notebook = r#"{"cells": [{"cell_type": "markdown", "source": "abc"}, {"cell_type": "code", "source": "a"},
            {"cell_type": "code", "source": ["a", "bc"]}, {"cell_type": "code", "source": "a"}], "metadata": {}}"#;
        assert_eq!(
            cell_with_hash(notebook, murmur2(b"abc")),
            Some(("2".into(), "abc".into()))
        );
        assert_eq!(
            cell_with_hash(notebook, murmur2(b"a")),
            Some(("1 or 3".into(), "a".into()))
        );
        assert_eq!(cell_with_hash(notebook, 7), None);
        assert_eq!(cell_with_hash("{}", murmur2(b"a")), None);
    }
}
