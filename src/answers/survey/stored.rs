//! A stored survey of any kind.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::SurveyKind;
use super::calls::CallRow;
use super::document::{Header, LeftOut, Row, SurveyDocument};
use super::env::EnvRow;
use super::errors::ErrorRow;
use super::facts::FactRow;
use super::mask::MaskRow;
use super::needs::NeedRow;
use super::python::PythonRow;
use super::startup::StartRow;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{StoreError, Stored, schema_of};
use cuda_pitfalls_core::verdict::Provenance;

/// A survey of any kind.
#[derive(Clone, Debug)]
pub struct Survey(Arc<dyn AnyDocument>);

/// What all surveys have.
#[derive(Clone, Debug)]
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

/// A document whose type of row is not known.
trait AnyDocument: Any + Debug + Send + Sync {
    fn about(&self) -> About<'_>;
    fn fact_rows(&self) -> Vec<FactRow<'_>>;
}

impl<R: Row> AnyDocument for SurveyDocument<R> {
    fn about(&self) -> About<'_> {
        let SurveyDocument { provenance, survey: header, machine, rows, left_out, complete, .. } = self;
        About {
            kind: R::kind(),
            provenance: *provenance,
            header,
            machine,
            rows: rows.len(),
            left_out,
            complete: *complete,
        }
    }

    fn fact_rows(&self) -> Vec<FactRow<'_>> {
        self.rows.iter().map(|row| FactRow::new(row, &self.machine)).collect()
    }
}

/// What is done with a type of row.
struct RowType {
    name: &'static str,
    parse: fn(&[u8]) -> serde_json::Result<Survey>,
    schema: fn() -> Value,
}

impl RowType {
    fn new<R: Row>(name: &'static str) -> RowType {
        RowType {
            name,
            parse: |text| SurveyDocument::<R>::parse(text).map(Survey::new),
            schema: schema_of::<SurveyDocument<R>>,
        }
    }
}

impl SurveyKind {
    fn rows(self) -> RowType {
        match self {
            SurveyKind::Calls => RowType::new::<CallRow>("calls"),
            SurveyKind::Mask => RowType::new::<MaskRow>("mask"),
            SurveyKind::Env => RowType::new::<EnvRow>("env"),
            SurveyKind::Needs => RowType::new::<NeedRow>("needs"),
            SurveyKind::Python => RowType::new::<PythonRow>("python"),
            SurveyKind::Errors => RowType::new::<ErrorRow>("errors"),
            SurveyKind::Startup => RowType::new::<StartRow>("startup"),
        }
    }

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        self.rows().name
    }

    /// The kind whose documents have this schema.
    pub fn of_schema(name: &str) -> Option<SurveyKind> {
        SurveyKind::all().iter().copied().find(|kind| kind.schema() == name)
    }

    /// Parses a survey of this kind.
    ///
    /// # Errors
    /// It does not fit the type, or contradicts itself.
    pub fn parse(self, text: &[u8]) -> serde_json::Result<Survey> {
        (self.rows().parse)(text)
    }

    /// The JSON schema of the documents.
    pub fn json_schema(self) -> Value {
        (self.rows().schema)()
    }
}

impl Survey {
    /// The survey with this document.
    pub fn new<R: Row>(document: SurveyDocument<R>) -> Survey {
        Survey(Arc::new(document))
    }

    /// The survey in a stored document; `None` if it is no survey.
    pub fn of(stored: &Stored) -> Option<Result<Survey, StoreError>> {
        let kind = SurveyKind::of_schema(stored.name())?;
        Some(stored.parse_by(&kind.schema(), |text| kind.parse(text)))
    }

    /// The document, if it has rows of this type.
    pub fn document<R: Row>(&self) -> Option<&SurveyDocument<R>> {
        let document: &dyn Any = &*self.0;
        document.downcast_ref()
    }

    /// The rows, if they are of this type; none otherwise.
    pub fn rows<R: Row>(&self) -> &[R] {
        self.document().map(|document| document.rows.as_slice()).unwrap_or_default()
    }

    /// Its rows, whatever its kind.
    pub fn fact_rows(&self) -> Vec<FactRow<'_>> {
        self.0.fact_rows()
    }

    /// What every survey has.
    pub fn about(&self) -> About<'_> {
        self.0.about()
    }

    /// The kind of survey.
    pub fn kind(&self) -> SurveyKind {
        self.about().kind
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
