//! Writing the document to disk.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, create_dir_all, remove_dir, remove_file};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::TracerError;
use crate::{TraceLine, redact_line};
use cuda_pitfalls_core::text::redact::Redactor;

/// The maximum number of events. Further ones are only counted: a program that creates contexts for a day would fill
/// the disk.
const MOST_EVENTS: u64 = 10_000;
/// The maximum number of memory changes, for the same reason.
const MOST_MEMORY: u64 = 200_000;

/// The longest document, in bytes, because the program decides how long its messages are.
const MOST_BYTES: u64 = 256 << 20;

/// A writer of lines. A failure is reported at the end, so that the program can continue.
pub(super) struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    failed: Option<String>,
    /// The redactor of the names of the trace's author; `None` to write them as they are.
    redact: Option<Redactor>,
    events: u64,
    memory: u64,
    bytes: u64,
    /// The number of events that were left out; changes of memory are not counted.
    pub(super) left_out: u64,
    /// The highest memory in use on each GPU, in bytes.
    pub(super) peaks: BTreeMap<usize, u64>,
}

impl Writer {
    /// Creates the folder and the file. Only this user can read them, because arguments and variables of a program may
    /// be secret.
    pub(super) fn create_file(
        folder: &Path,
        redact: Option<Redactor>,
    ) -> Result<Writer, TracerError> {
        let path = folder.join(crate::FILE);
        let file = folder
            .parent()
            .map_or(Ok(()), create_dir_all)
            .and_then(|()| DirBuilder::new().mode(0o700).create(folder))
            .and_then(|()| {
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
            });
        let file =
            file.map_err(|error| TracerError::Document(format!("{}: {error}", path.display())))?;
        let (failed, events, memory, bytes, left_out, peaks) = (None, 0, 0, 0, 0, BTreeMap::new());
        Ok(Writer {
            path,
            file: BufWriter::new(file),
            failed,
            redact,
            events,
            memory,
            bytes,
            left_out,
            peaks,
        })
    }

    /// Removes the file and its folder, because nothing was traced.
    pub(super) fn discard_file(self) {
        let _ = remove_file(&self.path);
        let _ = self.path.parent().map(remove_dir);
    }

    pub(super) fn write(&mut self, line: TraceLine) {
        let count = match &line {
            TraceLine::Event(_) => Some((&mut self.events, MOST_EVENTS)),
            TraceLine::Memory(memory) => {
                let peak = self.peaks.entry(memory.index).or_default();
                *peak = (*peak).max(memory.used_bytes);
                Some((&mut self.memory, MOST_MEMORY))
            }
            _ => None,
        };
        if let Some((count, most)) = count {
            *count += 1;
            if *count > most {
                self.left_out += u64::from(matches!(line, TraceLine::Event(_)));
                return;
            }
        }
        if self.failed.is_some() {
            return;
        }
        let (is_end, is_memory) = (
            matches!(line, TraceLine::End(_)),
            matches!(line, TraceLine::Memory(_)),
        );
        let text = match &mut self.redact {
            Some(redactor) => {
                redact_line(line, redactor).and_then(|line| serde_json::to_string(&line))
            }
            None => serde_json::to_string(&line),
        };
        let written = text.map_err(std::io::Error::from).and_then(|text| {
            if self.bytes.saturating_add(text.len() as u64) > MOST_BYTES && !is_end {
                self.left_out += u64::from(!is_memory);
                return Ok(());
            }
            self.bytes += text.len() as u64 + 1;
            writeln!(self.file, "{text}")
        });
        self.note_result(written);
    }

    /// Flushes the lines to the system, so that readers see them and a kill does not lose them.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none() {
            let flushed = self.file.flush();
            self.note_result(flushed);
        }
    }

    fn note_result(&mut self, result: std::io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
    }

    /// Syncs the document to disk. Returns why it is incomplete, if it is.
    pub(super) fn sync_file(&mut self) -> Option<String> {
        self.flush();
        if self.failed.is_none() {
            let synced = self.file.get_ref().sync_all();
            self.note_result(synced);
        }
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn a_change_of_memory_that_is_left_out_is_no_event_that_is_missing() {
        let folder =
            std::env::temp_dir().join(format!("cuda-pitfalls-writer-{}", std::process::id()));
        let mut writer = Writer::create_file(&folder, None).unwrap();
        writer.memory = MOST_MEMORY;
        writer.write(TraceLine::Memory(Memory {
            t_ns: 1,
            index: 0,
            used_bytes: 5,
        }));
        assert_eq!((writer.left_out, writer.peaks[&0]), (0, 5));
        (writer.memory, writer.bytes) = (0, MOST_BYTES);
        writer.write(TraceLine::Memory(Memory {
            t_ns: 2,
            index: 0,
            used_bytes: 6,
        }));
        assert_eq!((writer.left_out, writer.peaks[&0]), (0, 6));
        writer.discard_file();
    }
}
