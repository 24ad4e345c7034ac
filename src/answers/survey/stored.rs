//! A stored survey of any kind.

use super::SurveyKind;
use super::calls::CallRow;
use super::document::{Header, MAJOR, SurveyDocument};
use super::env::EnvRow;
use super::mask::MaskRow;
use super::python::PythonRow;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{StoreError, Stored};
use cuda_pitfalls_core::verdict::Provenance;

/// A stored survey of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Survey {
    /// `survey-calls.json`.
    Calls(SurveyDocument<CallRow>),
    /// `survey-mask.json`.
    Mask(SurveyDocument<MaskRow>),
    /// `survey-env.json`.
    Env(SurveyDocument<EnvRow>),
    /// `survey-python.json`.
    Python(SurveyDocument<PythonRow>),
}

impl From<SurveyDocument<CallRow>> for Survey {
    fn from(document: SurveyDocument<CallRow>) -> Survey {
        Survey::Calls(document)
    }
}

impl From<SurveyDocument<MaskRow>> for Survey {
    fn from(document: SurveyDocument<MaskRow>) -> Survey {
        Survey::Mask(document)
    }
}

impl From<SurveyDocument<EnvRow>> for Survey {
    fn from(document: SurveyDocument<EnvRow>) -> Survey {
        Survey::Env(document)
    }
}

impl From<SurveyDocument<PythonRow>> for Survey {
    fn from(document: SurveyDocument<PythonRow>) -> Survey {
        Survey::Python(document)
    }
}

impl Survey {
    /// The survey in a stored document; `None` if it is no survey.
    pub fn of(stored: &Stored) -> Option<Result<Survey, StoreError>> {
        let kind = SurveyKind::ALL.into_iter().find(|kind| kind.schema() == stored.name())?;
        Some(match kind {
            SurveyKind::Calls => stored.parse(kind.schema(), MAJOR).map(Survey::Calls),
            SurveyKind::Mask => stored.parse(kind.schema(), MAJOR).map(Survey::Mask),
            SurveyKind::Env => stored.parse(kind.schema(), MAJOR).map(Survey::Env),
            SurveyKind::Python => stored.parse(kind.schema(), MAJOR).map(Survey::Python),
        })
    }

    /// The kind of survey.
    pub fn kind(&self) -> SurveyKind {
        match self {
            Survey::Calls(_) => SurveyKind::Calls,
            Survey::Mask(_) => SurveyKind::Mask,
            Survey::Env(_) => SurveyKind::Env,
            Survey::Python(_) => SurveyKind::Python,
        }
    }

    /// How it was asked.
    pub fn header(&self) -> &Header {
        match self {
            Survey::Calls(document) => &document.survey,
            Survey::Mask(document) => &document.survey,
            Survey::Env(document) => &document.survey,
            Survey::Python(document) => &document.survey,
        }
    }

    /// The host.
    pub fn machine(&self) -> &Machine {
        match self {
            Survey::Calls(document) => &document.machine,
            Survey::Mask(document) => &document.machine,
            Survey::Env(document) => &document.machine,
            Survey::Python(document) => &document.machine,
        }
    }

    /// Whether it has all its rows.
    pub fn is_complete(&self) -> bool {
        match self {
            Survey::Calls(document) => document.complete,
            Survey::Mask(document) => document.complete,
            Survey::Env(document) => document.complete,
            Survey::Python(document) => document.complete,
        }
    }

    /// Who answered.
    pub fn provenance(&self) -> Provenance {
        match self {
            Survey::Calls(document) => document.provenance,
            Survey::Mask(document) => document.provenance,
            Survey::Env(document) => document.provenance,
            Survey::Python(document) => document.provenance,
        }
    }
}

/// The JSON Schema of a survey's document, generated from these types.
pub fn schema(kind: SurveyKind) -> serde_json::Value {
    let schema = match kind {
        SurveyKind::Calls => schemars::schema_for!(SurveyDocument<CallRow>),
        SurveyKind::Mask => schemars::schema_for!(SurveyDocument<MaskRow>),
        SurveyKind::Env => schemars::schema_for!(SurveyDocument<EnvRow>),
        SurveyKind::Python => schemars::schema_for!(SurveyDocument<PythonRow>),
    };
    serde_json::to_value(schema).unwrap_or_default()
}
