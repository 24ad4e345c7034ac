//! The document of a survey: how and where it was asked, and its rows.

use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SurveyKind;
use super::row::{RowAttempts, keyed};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{ExitCode, SchemaId};
use cuda_pitfalls_core::verdict::Provenance;

/// One survey on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct SurveyDocument<R> {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether a real driver or the simulated machine answered. Simulated rows are not evidence.
    pub provenance: Provenance,
    /// How it was asked.
    pub survey: Header,
    /// The host, as in the report of the controls.
    pub machine: Machine,
    /// One row per question and libcudart, in the order in which they were asked.
    pub rows: Vec<R>,
    /// What is not asked about, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Whether every question has its row. Otherwise the survey can be resumed.
    pub complete: bool,
}

impl<R: Row> SurveyDocument<R> {
    /// Parses a document.
    ///
    /// # Errors
    /// It does not fit the type, or contradicts itself about who answered.
    pub fn parse(text: &[u8]) -> serde_json::Result<SurveyDocument<R>> {
        let document: SurveyDocument<R> = serde_json::from_slice(text)?;
        let has_simulated_library = document.machine.libraries.iter().any(|library| library.simulated);
        match document.provenance.contradiction(&document.survey.on, has_simulated_library) {
            Some(why) => Err(serde::de::Error::custom(why)),
            None => Ok(document),
        }
    }
}

/// How a survey was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// The run's id, which is also the folder's name.
    pub id: String,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; null while it goes on.
    pub finished_at: Option<String>,
    /// Wall time of the survey, over all sessions.
    pub elapsed_ns: u64,
    /// The part of it in which attempts of rows were under way, from a worker's start to its end.
    pub attempts_ns: u64,
    /// How often the survey was resumed.
    pub resumed: u32,
    /// What was selected on the command line; empty for all.
    pub selectors: Vec<String>,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// Attempts of each question, unless its rows say otherwise.
    pub repeat: u32,
    /// Attempts of each generated mask.
    pub repeat_generated: u32,
    /// The seed of the order of attempts and of generated questions.
    pub seed: u64,
    /// How many masks to generate in addition to the listed ones.
    pub generate: u64,
    /// How many GPUs a worker of `survey calls` sees.
    pub visible_gpus: u32,
    /// Why nothing further was asked of this host, such as a lost GPU; null if there was no reason.
    pub host_unsafe: Option<String>,
    /// The signal that ended it early.
    pub interrupted: Option<String>,
    /// The exit code and its name; null while it goes on.
    pub exit: Option<ExitCode>,
}

/// Something that was not asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its name, or a pattern for several (`*_ptsz`).
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The properties of every row.
pub trait Row: Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The survey of the row.
    fn kind() -> SurveyKind;

    /// The question, and the libcudart that answered it, if each is asked.
    fn question(&self) -> (String, Option<String>);

    /// The question with the libcudart, unique in the document.
    fn key(&self) -> String {
        let (question, libcudart) = self.question();
        keyed(&question, libcudart.as_deref())
    }

    /// How many attempts count, and why others do not.
    fn standing(&self) -> &RowAttempts;

    /// Whether the row has facts; a row that was not measured has none.
    fn has_facts(&self) -> bool;

    /// Whether the row has its facts, and its attempts agree on them.
    fn is_conclusive(&self) -> bool {
        let standing = self.standing();
        standing.unmeasured.is_none() && standing.disagreement.is_empty() && self.has_facts()
    }

    /// Facts that follow from the row and its machine, beside its fields.
    fn derived(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Whether the row is a control of the instrument.
    fn is_control(&self) -> bool {
        false
    }

    /// Whether the driver contradicts one of our rules.
    fn is_unexpected(&self) -> bool {
        false
    }
}
