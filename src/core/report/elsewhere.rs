//! Attempts whose full text is kept outside memory: a report with thousands of attempts is larger than the memory that
//! the parent may use.

use std::io;
use std::sync::Arc;

use serde::Serializer;
use serde::ser::{Error as _, SerializeSeq};
use serde_json::value::RawValue;

use super::Attempt;

/// A store that has the full text of one attempt.
pub trait Whole: std::fmt::Debug + Send + Sync {
    /// The attempt as JSON.
    ///
    /// # Errors
    /// The text cannot be read any more.
    fn text(&self) -> io::Result<String>;
}

/// Where the full text of an attempt is. In memory then is [`Attempt::light`].
#[derive(Clone, Debug)]
pub struct Elsewhere(pub Arc<dyn Whole>);

impl PartialEq for Elsewhere {
    fn eq(&self, other: &Elsewhere) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Attempt {
    /// The attempt with what counting and rendering need: how it ended, whether it counts, and which outcome it has.
    /// Events, readings and samples are left out.
    pub fn light(&self, elsewhere: Elsewhere) -> Attempt {
        Attempt {
            order: self.order,
            recording: self.recording.light(),
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
                let text = elsewhere.0.text().map_err(|error| {
                    S::Error::custom(format!("an attempt cannot be read back: {error}"))
                })?;
                sequence
                    .serialize_element(&RawValue::from_string(text).map_err(S::Error::custom)?)?;
            }
        }
    }
    sequence.end()
}
