//! What a lane says to its run, a line at a time.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Calibrated, ScenarioReport};
use crate::event::MappedLibrary;

/// One line.
#[expect(clippy::large_enum_variant, reason = "one exists at a time")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneMessage<'a> {
    /// Calibrations of its GPUs, before the answers that need them.
    Calibrated(Cow<'a, [Calibrated]>),
    /// An answer.
    Answered {
        /// The index of its libcudart among those of the run.
        runtime: usize,
        /// The answer, with all attempts.
        answer: Cow<'a, ScenarioReport>,
    },
    /// The end.
    Ended {
        /// What its workers had mapped.
        libraries: Vec<MappedLibrary>,
        /// Why nothing more may be started on this host.
        host_unsafe: Option<String>,
    },
}
