//! The result of `doctor` as one JSON document.

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_answers::doctor::{Diagnosed, ProcessFindings};
use cuda_pitfalls_core::examination::{Examination, LibraryStart, ProcessExamination};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::Provenance;

const SCHEMA: &str = "cuda-pitfalls-doctor";

/// Output of `doctor --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Doctor")]
pub struct DoctorDocument {
    /// Type and version of this document.
    schema: SchemaId,
    /// Origin of the results: real or simulated libraries.
    provenance: Provenance,
    /// Diagnosis of the machine; null for the examination of a process.
    diagnosis: Option<Diagnosed>,
    /// Results of the examination; null for the examination of a process.
    examination: Option<Examination>,
    /// Findings about an examined process; null if none was examined.
    findings: Option<ProcessFindings>,
    /// Observations of the examined process; null if none was examined.
    process: Option<ProcessExamination>,
}

fn new(is_simulated: bool) -> DoctorDocument {
    DoctorDocument {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::from_simulated(is_simulated),
        ..DoctorDocument::default()
    }
}

/// Returns the document of an examination.
pub fn document(examination: &Examination, diagnosed: &Diagnosed) -> DoctorDocument {
    let is_simulated = examination.starts.iter().any(LibraryStart::is_simulated);
    let (diagnosis, examination) = (Some(diagnosed.clone()), Some(examination.clone()));
    DoctorDocument {
        diagnosis,
        examination,
        ..new(is_simulated)
    }
}

/// Returns the document of the examination of a process.
pub fn process_document(seen: &ProcessExamination, findings: &ProcessFindings) -> DoctorDocument {
    let is_simulated = seen.nvml.as_ref().is_some_and(LibraryStart::is_simulated);
    DoctorDocument {
        findings: Some(findings.clone()),
        process: Some(seen.clone()),
        ..new(is_simulated)
    }
}
