//! Attempts whose full text is kept outside memory: a report with thousands of attempts is larger than the memory that
//! the parent may use.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use serde::Serializer;
use serde::ser::{Error as _, SerializeSeq};
use serde_json::value::RawValue;

use super::Attempt;

/// The location of the full JSON of an attempt. Memory then holds only [`Attempt::to_summary`].
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// The file.
    pub file: Arc<File>,
    /// Offset of the text in the file.
    pub offset: u64,
    /// Length of the text, in bytes.
    pub length: usize,
}

impl Elsewhere {
    /// Returns the attempt as JSON.
    ///
    /// # Errors
    /// Returns an error if the text can no longer be read.
    pub fn read_text(&self) -> io::Result<String> {
        let mut bytes = vec![0; self.length];
        self.file.read_exact_at(&mut bytes, self.offset)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

impl PartialEq for Elsewhere {
    fn eq(&self, other: &Elsewhere) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.offset == other.offset
    }
}

impl Attempt {
    /// Returns the attempt with the parts that counting and rendering need: its end, its validity and its outcome.
    /// Events, readings and samples are left out.
    pub fn to_summary(&self, elsewhere: Elsewhere) -> Attempt {
        Attempt {
            order: self.order,
            recording: self.recording.to_summary(),
            judged: self.judged.clone(),
            elsewhere: Some(elsewhere),
        }
    }
}

/// Serializes attempts with their full texts, wherever these are.
pub(super) fn serialize<S: Serializer>(
    attempts: &[Attempt],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(attempts.len()))?;
    for attempt in attempts {
        match &attempt.elsewhere {
            None => sequence.serialize_element(attempt)?,
            Some(elsewhere) => {
                let text = elsewhere.read_text().map_err(|error| {
                    S::Error::custom(format!("an attempt cannot be read back: {error}"))
                })?;
                sequence
                    .serialize_element(&RawValue::from_string(text).map_err(S::Error::custom)?)?;
            }
        }
    }
    sequence.end()
}
