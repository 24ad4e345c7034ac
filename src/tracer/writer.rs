//! The document on its way to the disk.

use std::collections::BTreeMap;
use std::fs::{File, create_dir_all, remove_dir, remove_file};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::trace::{self, Line, redacted};

/// More events are counted and left out: a program that makes and destroys contexts for a day would
/// fill the disk, and its trace could not be read back.
const MOST_EVENTS: u64 = 10_000;
/// Likewise changes of memory.
const MOST_MEMORY: u64 = 200_000;

/// Writes lines. What cannot be written is reported at the end: the program goes on.
pub(super) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    failed: Option<String>,
    redact: bool,
    events: u64,
    memory: u64,
    /// How many lines were left out.
    pub(super) left_out: u64,
    /// The most memory that was seen on each GPU.
    pub(super) peaks: BTreeMap<usize, u64>,
}

impl Writer {
    /// Makes the folder and the file.
    pub(super) fn create(folder: &Path, redact: bool) -> Result<Writer, String> {
        let path = folder.join(trace::FILE);
        let file = create_dir_all(folder).and_then(|()| File::create_new(&path));
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        let (failed, events, memory, left_out, peaks) = (None, 0, 0, 0, BTreeMap::new());
        Ok(Writer { path, file: BufWriter::new(file), failed, redact, events, memory, left_out, peaks })
    }

    /// Removes the file and its folder: there is nothing to be traced.
    pub(super) fn discard(self) {
        let _ = remove_file(&self.path);
        let _ = self.path.parent().map(remove_dir);
    }

    pub(super) fn write(&mut self, line: Line) {
        let count = match &line {
            Line::Event(_) => Some((&mut self.events, MOST_EVENTS)),
            Line::Memory(memory) => {
                let peak = self.peaks.entry(memory.index).or_default();
                *peak = (*peak).max(memory.used_bytes);
                Some((&mut self.memory, MOST_MEMORY))
            }
            _ => None,
        };
        if let Some((count, most)) = count {
            *count += 1;
            if *count > most {
                self.left_out += 1;
                return;
            }
        }
        if self.failed.is_some() {
            return;
        }
        let line = if self.redact { redacted(line) } else { line };
        let written =
            serde_json::to_string(&line).map_err(std::io::Error::from).and_then(|text| writeln!(self.file, "{text}"));
        self.note(written);
    }

    /// Hands what was written to the system, so that a reader finds it and a kill does not lose it.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none() {
            let flushed = self.file.flush();
            self.note(flushed);
        }
    }

    fn note(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
    }

    /// Has the document on disk. Why it is not whole, if it is not.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.flush();
        if self.failed.is_none() {
            let synced = self.file.get_ref().sync_all();
            self.note(synced);
        }
        self.failed.take()
    }
}
