//! The document of a survey: who asked, where, and rows of one kind.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::SurveyKind;
use super::row::RowAttempts;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{ExitCode, SchemaId};
use cuda_pitfalls_core::verdict::Provenance;

/// Readers refuse another major.
pub const MAJOR: u32 = 1;
/// Readers accept a newer minor and keep what they know.
pub const MINOR: u32 = 3;

/// One survey on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "StoredDocument<R>")]
#[schemars(!try_from, rename = "Document")]
pub struct SurveyDocument<R> {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether a real driver answered. Simulated rows are never evidence.
    pub provenance: Provenance,
    /// How it was asked.
    pub survey: Header,
    /// The host, as in the report beside this document.
    pub machine: Machine,
    /// One per question and libcudart, in the order in which they were asked.
    pub rows: Vec<R>,
    /// What there is and was not asked, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Whether every question has its row. A survey without this can be resumed.
    pub complete: bool,
}

/// A survey as it is read, before it is known that its parts can all be true.
#[derive(Deserialize)]
struct StoredDocument<R> {
    schema: SchemaId,
    provenance: Provenance,
    survey: Header,
    machine: Machine,
    rows: Vec<R>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    complete: bool,
}

impl<R> TryFrom<StoredDocument<R>> for SurveyDocument<R> {
    type Error = serde::de::value::Error;

    fn try_from(stored: StoredDocument<R>) -> Result<SurveyDocument<R>, Self::Error> {
        let StoredDocument { schema, provenance, survey, machine, rows, left_out, complete } = stored;
        let has_simulated_library = machine.libraries.iter().any(|library| library.simulated);
        match provenance.contradiction(&survey.on, has_simulated_library) {
            Some(why) => Err(serde::de::Error::custom(why)),
            None => Ok(SurveyDocument { schema, provenance, survey, machine, rows, left_out, complete }),
        }
    }
}

/// How a survey was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// The run's id, which is also the folder's name.
    pub id: String,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; null while it goes on.
    pub finished_at: Option<String>,
    /// Wall time spent on it, over all sittings.
    pub elapsed_ns: u64,
    /// Of that, wall time in which attempts of rows were under way, from a worker's start to its end.
    pub attempts_ns: u64,
    /// How often it was taken up again.
    pub resumed: u32,
    /// What was selected on the command line; empty for all.
    pub selectors: Vec<String>,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// Attempts of each question, unless its rows say otherwise.
    pub repeat: u32,
    /// Attempts of each generated mask (since 1.2; it was 1 before).
    #[serde(default = "one")]
    pub repeat_generated: u32,
    /// The seed of the order of attempts and of generated questions.
    pub seed: u64,
    /// How many masks were to be generated, on top of those that are listed (since 1.1).
    #[serde(default)]
    pub generate: u64,
    /// How many GPUs a worker of `survey calls` sees (since 1.1; its rows have said so from the first).
    #[serde(default = "one")]
    pub visible_gpus: u32,
    /// Why nothing further was asked of this host, such as a GPU that was lost; null while there was
    /// no reason (since 1.1).
    #[serde(default)]
    pub host_unsafe: Option<String>,
    /// The signal that ended it early.
    pub interrupted: Option<String>,
    /// The exit code and its name; null while it goes on.
    pub exit: Option<ExitCode>,
}

fn one() -> u32 {
    1
}

/// Something that was not asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its name, or a pattern for several (`*_ptsz`).
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What every row can say about itself.
pub trait Row: Clone + Serialize + DeserializeOwned {
    /// The survey it belongs to.
    const KIND: SurveyKind;

    /// What the question was, unique in the document.
    fn key(&self) -> String;

    /// How its attempts went.
    fn standing(&self) -> &RowAttempts;

    /// Whether what was asked is told; a row that was not measured tells nothing.
    fn has_facts(&self) -> bool;

    /// Whether the row has its facts, and its attempts agree on them.
    fn is_conclusive(&self) -> bool {
        let standing = self.standing();
        standing.unmeasured.is_none() && standing.disagreement.is_empty() && self.has_facts()
    }

    /// Whether it is there to check the instrument, and answers nothing.
    fn is_control(&self) -> bool {
        false
    }

    /// Whether the driver did something else than a rule of ours says.
    fn is_unexpected(&self) -> bool {
        false
    }
}
