//! Attempts whose whole text is kept outside memory: a report with thousands of attempts is larger
//! than the parent may be.

use std::io;
use std::sync::Arc;

use serde::Serializer;
use serde::ser::{Error as _, SerializeSeq};
use serde_json::value::RawValue;

use super::Attempt;

/// Something that has the whole text of one attempt.
pub trait Whole: std::fmt::Debug + Send + Sync {
    /// The attempt as JSON.
    ///
    /// # Errors
    /// Why it cannot be had any more.
    fn text(&self) -> io::Result<String>;
}

/// Where the whole text of an attempt is. What is in memory of it then is [`Attempt::light`].
#[derive(Clone, Debug)]
pub struct Elsewhere(pub Arc<dyn Whole>);

impl PartialEq for Elsewhere {
    fn eq(&self, other: &Elsewhere) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Attempt {
    /// What counting and rendering need of an attempt: how it ended, whether it counts, and which
    /// outcome it is one of. Events, readings and samples are left out.
    pub fn light(&self, elsewhere: Elsewhere) -> Attempt {
        Attempt {
            order: self.order,
            recording: self.recording.light(),
            judged: self.judged.clone(),
            elsewhere: Some(elsewhere),
        }
    }
}

/// Writes attempts whole, wherever they are.
pub(super) fn serialize<S: Serializer>(attempts: &[Attempt], serializer: S) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(attempts.len()))?;
    for attempt in attempts {
        match &attempt.elsewhere {
            None => sequence.serialize_element(attempt)?,
            Some(elsewhere) => {
                let text = elsewhere
                    .0
                    .text()
                    .map_err(|error| S::Error::custom(format!("an attempt cannot be read back: {error}")))?;
                sequence.serialize_element(&RawValue::from_string(text).map_err(S::Error::custom)?)?;
            }
        }
    }
    sequence.end()
}
