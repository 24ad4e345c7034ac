//! A stored survey of any kind.

use std::any::Any;

use super::SurveyKind;
use super::calls::CallRow;
use super::document::{Header, LeftOut, Row, SurveyDocument};
use super::env::EnvRow;
use super::errors::ErrorRow;
use super::mask::MaskRow;
use super::needs::NeedRow;
use super::python::PythonRow;
use super::startup::StartRow;
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
    /// `survey-needs.json`.
    Needs(SurveyDocument<NeedRow>),
    /// `survey-python.json`.
    Python(SurveyDocument<PythonRow>),
    /// `survey-errors.json`.
    Errors(SurveyDocument<ErrorRow>),
    /// `survey-startup.json`.
    Startup(SurveyDocument<StartRow>),
}

/// What all surveys have.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The kind of survey.
    pub kind: SurveyKind,
    /// Who answered.
    pub provenance: Provenance,
    /// How it was asked.
    pub header: &'a Header,
    /// The host.
    pub machine: &'a Machine,
    /// How many rows it has.
    pub rows: usize,
    /// What was not asked about.
    pub left_out: &'a [LeftOut],
    /// Whether it has all its rows.
    pub complete: bool,
}

impl Survey {
    /// The survey in a stored document; `None` if it is no survey.
    pub fn of(stored: &Stored) -> Option<Result<Survey, StoreError>> {
        let kind = SurveyKind::ALL.into_iter().find(|kind| kind.schema() == stored.name())?;
        Some(match kind {
            SurveyKind::Calls => stored.parse(&kind.schema()).map(Survey::Calls),
            SurveyKind::Mask => stored.parse(&kind.schema()).map(Survey::Mask),
            SurveyKind::Env => stored.parse(&kind.schema()).map(Survey::Env),
            SurveyKind::Needs => stored.parse(&kind.schema()).map(Survey::Needs),
            SurveyKind::Python => stored.parse(&kind.schema()).map(Survey::Python),
            SurveyKind::Errors => stored.parse(&kind.schema()).map(Survey::Errors),
            SurveyKind::Startup => stored.parse(&kind.schema()).map(Survey::Startup),
        })
    }

    /// The document, if its rows are of this type.
    pub fn document<R: Row + 'static>(&self) -> Option<&SurveyDocument<R>> {
        let document: &dyn Any = match self {
            Survey::Calls(document) => document,
            Survey::Mask(document) => document,
            Survey::Env(document) => document,
            Survey::Needs(document) => document,
            Survey::Python(document) => document,
            Survey::Errors(document) => document,
            Survey::Startup(document) => document,
        };
        document.downcast_ref()
    }

    /// The kind of survey.
    pub fn kind(&self) -> SurveyKind {
        self.about().kind
    }

    /// What all surveys have: everything but the rows themselves.
    pub fn about(&self) -> About<'_> {
        fn about<R: Row>(document: &SurveyDocument<R>) -> About<'_> {
            let SurveyDocument { provenance, survey: header, machine, rows, left_out, complete, .. } = document;
            let (provenance, complete) = (*provenance, *complete);
            About { kind: R::KIND, provenance, header, machine, rows: rows.len(), left_out, complete }
        }
        match self {
            Survey::Calls(document) => about(document),
            Survey::Mask(document) => about(document),
            Survey::Env(document) => about(document),
            Survey::Needs(document) => about(document),
            Survey::Python(document) => about(document),
            Survey::Errors(document) => about(document),
            Survey::Startup(document) => about(document),
        }
    }

    /// How it was asked.
    pub fn header(&self) -> &Header {
        self.about().header
    }

    /// The host.
    pub fn machine(&self) -> &Machine {
        self.about().machine
    }

    /// Whether it has all its rows.
    pub fn is_complete(&self) -> bool {
        self.about().complete
    }

    /// Who answered.
    pub fn provenance(&self) -> Provenance {
        self.about().provenance
    }
}

/// The JSON Schema of a survey's document, generated from these types.
pub fn schema(kind: SurveyKind) -> serde_json::Value {
    let schema = match kind {
        SurveyKind::Calls => schemars::schema_for!(SurveyDocument<CallRow>),
        SurveyKind::Mask => schemars::schema_for!(SurveyDocument<MaskRow>),
        SurveyKind::Env => schemars::schema_for!(SurveyDocument<EnvRow>),
        SurveyKind::Needs => schemars::schema_for!(SurveyDocument<NeedRow>),
        SurveyKind::Python => schemars::schema_for!(SurveyDocument<PythonRow>),
        SurveyKind::Errors => schemars::schema_for!(SurveyDocument<ErrorRow>),
        SurveyKind::Startup => schemars::schema_for!(SurveyDocument<StartRow>),
    };
    serde_json::to_value(schema).unwrap_or_default()
}
