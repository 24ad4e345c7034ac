//! What `doctor` found as one JSON document.

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_answers::doctor::{Diagnosed, ProcessFindings};
use cuda_pitfalls_core::examination::{Examination, LibraryStart, ProcessExamination};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::Provenance;

const SCHEMA: &str = "cuda-pitfalls-doctor";

/// What `doctor --json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Doctor")]
pub struct DoctorDocument {
    /// Which document this is.
    schema: SchemaId,
    /// Whether the libraries were real.
    provenance: Provenance,
    /// What follows; null for a look at a process.
    diagnosis: Option<Diagnosed>,
    /// What was tried; null for a look at a process.
    examination: Option<Examination>,
    /// What follows from a look at a process; null without one.
    findings: Option<ProcessFindings>,
    /// What was seen of it.
    process: Option<ProcessExamination>,
}

fn new(is_simulated: bool) -> DoctorDocument {
    DoctorDocument {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::from_simulated(is_simulated),
        ..DoctorDocument::default()
    }
}

/// The document of an examination.
pub fn document(examination: &Examination, diagnosed: &Diagnosed) -> DoctorDocument {
    let is_simulated = examination.starts.iter().any(LibraryStart::is_simulated);
    let (diagnosis, examination) = (Some(diagnosed.clone()), Some(examination.clone()));
    DoctorDocument {
        diagnosis,
        examination,
        ..new(is_simulated)
    }
}

/// The document of a look at a process.
pub fn process_document(seen: &ProcessExamination, findings: &ProcessFindings) -> DoctorDocument {
    let is_simulated = seen.nvml.as_ref().is_some_and(LibraryStart::is_simulated);
    DoctorDocument {
        findings: Some(findings.clone()),
        process: Some(seen.clone()),
        ..new(is_simulated)
    }
}
