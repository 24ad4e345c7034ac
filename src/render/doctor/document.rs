//! The result of `doctor` as one JSON document.

use schemars::JsonSchema;
use serde::Serialize;

use cuda_pitfalls_answers::doctor::Diagnosed;
use cuda_pitfalls_core::examination::{Examination, LibraryStart};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::Provenance;

const SCHEMA: &str = "cuda-pitfalls-doctor";

/// Output of `doctor --json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Doctor")]
pub struct DoctorDocument {
    /// Type and version of this document.
    schema: SchemaId,
    /// Origin of the results: real or simulated libraries.
    provenance: Provenance,
    /// Diagnosis of the machine.
    diagnosis: Diagnosed,
    /// Results of the tries.
    examination: Examination,
}

/// Returns the document of an examination.
pub fn document(examination: &Examination, diagnosed: &Diagnosed) -> DoctorDocument {
    let is_simulated = examination.starts.iter().any(LibraryStart::is_simulated);
    DoctorDocument {
        schema: SchemaId::current(SCHEMA),
        provenance: Provenance::from_simulated(is_simulated),
        diagnosis: diagnosed.clone(),
        examination: examination.clone(),
    }
}
