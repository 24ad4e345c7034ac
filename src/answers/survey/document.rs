//! The document of a survey: settings, machine and rows.

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SurveyKind;
use super::facts::FactRow;
use super::row::{KindRow, LeftOut, SurveyRow};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{ExitCode, SchemaId, StoreError, Stored};
use cuda_pitfalls_core::verdict::Provenance;

/// The name of the schema of surveys.
pub const SCHEMA: &str = "cuda-pitfalls-survey";

/// A survey of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurveyDocument {
    /// Schema of this document.
    pub schema: SchemaId,
    /// Kind of the rows.
    pub kind: SurveyKind,
    /// Source of the answers: a real driver or the simulated machine. Simulated rows are not evidence.
    pub provenance: Provenance,
    /// Settings of the survey.
    #[serde(rename = "survey")]
    pub header: Header,
    /// The host, as in the report of the controls.
    pub machine: Machine,
    /// Rows, one per question and libcudart, in the order of the measurements.
    pub rows: Vec<SurveyRow>,
    /// Excluded items, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// `true` if every question has its row. Otherwise the survey can be resumed.
    pub complete: bool,
}

impl SurveyDocument {
    /// Returns the survey in a stored document; `None` if the document is not a survey.
    pub fn from_stored(stored: &Stored) -> Option<Result<SurveyDocument, StoreError>> {
        (stored.name() == SCHEMA).then(|| stored.parse_by(SCHEMA, SurveyDocument::parse))
    }

    /// Parses a document.
    ///
    /// # Errors
    /// Returns an error if the text does not fit the type, if a row does not fit its kind, or if the document
    /// contradicts itself: about the source of the answers, or about conclusions from the facts of a row.
    pub fn parse(text: &[u8]) -> serde_json::Result<SurveyDocument> {
        let document: SurveyDocument = serde_json::from_slice(text)?;
        if let Some(why) = document
            .provenance
            .find_contradiction(&document.header.on, document.machine.is_simulated())
        {
            return Err(serde::de::Error::custom(why));
        }
        for (row, facts) in document.rows.iter().zip(document.read_facts()?) {
            let SurveyRow {
                key,
                is_control,
                is_conclusive,
                is_unexpected,
                ..
            } = row;
            let said = [
                ("is_control", is_control),
                ("is_conclusive", is_conclusive),
                ("is_unexpected", is_unexpected),
            ];
            if let Some((name, said)) = said
                .into_iter()
                .find(|(name, said)| facts.has(name) != **said)
            {
                let why = format!(
                    "it contradicts itself: `{name}` of {key} is {said}, but its facts disagree"
                );
                return Err(serde::de::Error::custom(why));
            }
        }
        Ok(document)
    }

    /// Returns its rows, with derived facts.
    pub fn fact_rows(&self) -> Vec<FactRow> {
        self.read_facts().unwrap_or_default()
    }

    fn read_facts(&self) -> serde_json::Result<Vec<FactRow>> {
        self.rows
            .iter()
            .map(|row| (self.kind.kind_functions().facts)(row, &self.machine))
            .collect()
    }

    /// Returns its rows, if they have this type; empty otherwise.
    pub fn rows_of<R: KindRow>(&self) -> Vec<R> {
        if self.kind != R::KIND {
            return Vec::new();
        }
        let rows = self.rows.iter();
        rows.filter_map(|row| row.read().ok()).collect()
    }
}

/// Returns the JSON Schema of surveys of all kinds.
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let of_kinds: Vec<Value> = SurveyKind::all()
        .iter()
        .map(|kind| {
            let row = (kind.kind_functions().schema)(&mut generator);
            json_schema!({"properties": {"kind": {"const": kind.name()}, "rows": {"items": row}}})
                .to_value()
        })
        .collect();
    let mut schema = generator.into_root_schema_for::<SurveyDocument>();
    schema.insert("oneOf".to_string(), of_kinds.into());
    schema.to_value()
}

/// Settings of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Id of the run, which is also the name of its directory.
    pub id: String,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// Start of the survey: RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; null until it has finished.
    pub finished_at: Option<String>,
    /// Wall time of the survey, over all sessions.
    pub elapsed_ns: u64,
    /// The part of it when attempts of rows were running, from a worker's start to its end.
    pub attempts_ns: u64,
    /// Number of times that the survey was resumed.
    pub resumed: u32,
    /// Selectors from the command line; empty for all.
    pub selectors: Vec<String>,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// Attempts of each question, unless its rows say otherwise.
    pub repeat: u32,
    /// Attempts of each generated mask.
    pub repeat_generated: u32,
    /// The seed of the order of attempts and of generated questions.
    pub seed: u64,
    /// Number of masks to generate in addition to the listed ones.
    pub generate: u64,
    /// Number of GPUs visible to a worker of `survey calls`.
    pub visible_gpus: u32,
    /// Reason why the survey stopped using this host, such as a lost GPU; null if it did not.
    pub host_unsafe: Option<String>,
    /// The signal that ended the survey early.
    pub interrupted: Option<String>,
    /// Exit code and its name; null until the survey has finished.
    pub exit: Option<ExitCode>,
}
