//! Surveys: one question about every item of an axis (every call, every mask, every variable), with a row for each.
//!
//! A survey's questions are scenarios that a recipe generates, so all rules about attempts apply to them too. The
//! result of a question is reduced to a row. The rows form a document, which is stored next to the report of the
//! instrument's controls. The questions of `survey python` are Python lines, each in a traced program. Everything here
//! is pure; `crate::run` runs the scenarios.

pub mod calls;
pub mod document;
pub mod env;
pub mod errors;
mod facts;
#[cfg(test)]
pub(crate) mod fixture;
mod kind;
mod list;
pub mod mask;
pub mod needs;
pub mod python;
mod question;
mod row;
pub mod startup;

pub use document::{Header, SCHEMA, SurveyDocument, schema};
pub use facts::FactRow;
pub use kind::{Compared, FactForm, KindFile, SectionForm, ValueForm};
pub(crate) use list::read_list;
pub use question::{Item, SurveyAnswer, SurveyQuestions, SurveyRequest};
pub use row::{KindRow, LeftOut, RowAttempts, SurveyRow, Unmeasured, format_row_key};

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::machine::Machine;

/// The kind of survey.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    ValueEnum,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SurveyKind {
    /// Calls that read the mask, create a context or allocate memory.
    Calls,
    /// The driver's rules for `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`.
    Mask,
    /// The moment when each environment variable is read.
    Env,
    /// Files and system calls that CUDA and NVML need, and the effect of denying each.
    Needs,
    /// Python lines that read the mask, create a context or allocate memory.
    Python,
    /// Exceptions that frameworks raise for each driver error.
    Errors,
    /// Duration and host memory of each start-up step.
    Startup,
}

/// Builds the questions of a kind.
type QuestionsFunction = fn(&SurveyRequest<'_>) -> Result<SurveyQuestions, Invalid>;

/// Functions for the rows of a kind.
struct KindFunctions {
    name: &'static str,
    questions: QuestionsFunction,
    facts: fn(&SurveyRow, &Machine) -> serde_json::Result<FactRow>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl KindFunctions {
    fn new<R: KindRow>(name: &'static str, questions: QuestionsFunction) -> KindFunctions {
        KindFunctions {
            name,
            questions,
            facts: |row, machine| Ok(FactRow::new(&row.read::<R>()?, machine)),
            schema: SchemaGenerator::subschema_for::<R>,
        }
    }
}

/// Returns the name of a value in documents.
pub fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Returns the median; if there are two middle values, the smaller one.
fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / 2).copied()
}

impl SurveyKind {
    /// Returns all kinds.
    pub fn all() -> &'static [SurveyKind] {
        SurveyKind::value_variants()
    }

    fn kind_functions(self) -> KindFunctions {
        use SurveyQuestions::Lines;
        match self {
            SurveyKind::Calls => KindFunctions::new::<calls::CallRow>("calls", calls::questions),
            SurveyKind::Mask => KindFunctions::new::<mask::MaskRow>("mask", mask::questions),
            SurveyKind::Env => KindFunctions::new::<env::EnvRow>("env", |_| env::questions()),
            SurveyKind::Needs => {
                KindFunctions::new::<needs::NeedRow>("needs", |_| Ok(needs::questions()))
            }
            SurveyKind::Python => KindFunctions::new::<python::PythonRow>("python", |_| {
                Ok(Lines(python::questions()?))
            }),
            SurveyKind::Errors => {
                KindFunctions::new::<errors::ErrorRow>("errors", |_| Ok(Lines(errors::questions())))
            }
            SurveyKind::Startup => KindFunctions::new::<startup::StartRow>("startup", |request| {
                Ok(startup::questions(request))
            }),
        }
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        self.kind_functions().name
    }

    /// Returns the questions.
    ///
    /// # Errors
    /// Returns an error if the list of the kind has an error.
    pub fn questions(self, request: &SurveyRequest<'_>) -> Result<SurveyQuestions, Invalid> {
        (self.kind_functions().questions)(request)
    }

    /// Returns the name of the file in the directory of a run.
    pub fn file(self) -> String {
        format!("survey-{}.json", self.name())
    }
}
