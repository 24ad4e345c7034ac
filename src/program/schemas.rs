//! The JSON Schemas of the program's documents and files.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cuda_pitfalls_answers::{bisect, compare, fleet, releases, survey, visibility};
use cuda_pitfalls_core::report::{self, schema_of};
use cuda_pitfalls_core::scenario::schema as scenario;
use cuda_pitfalls_render as render;
use cuda_pitfalls_trace as document;

/// One schema.
#[derive(Debug)]
pub struct Schema {
    /// The word that `schema` takes.
    pub name: &'static str,
    /// Subject of the schema.
    about: &'static str,
    /// The schema itself.
    pub make: fn() -> serde_json::Value,
}

/// All of them, in the order of the help.
pub static SCHEMAS: [Schema; 13] = [
    row("scenario", "A scenario file", scenario::file_schema),
    row("report", "A report", report::schema),
    row(
        "fleet",
        "What `fleet merge` writes",
        schema_of::<fleet::Fleet>,
    ),
    row(
        "fleet-diff",
        "What `fleet diff --json` prints",
        schema_of::<fleet::FleetDiff>,
    ),
    row("survey", "What `survey` writes", survey::schema),
    row(
        "environment",
        "What `survey python --with` writes of each environment",
        schema_of::<releases::EnvironmentDocument>,
    ),
    row(
        "comparison",
        "What `compare --json` prints",
        schema_of::<compare::Comparison>,
    ),
    row(
        "bisection",
        "What `bisect --json` prints",
        schema_of::<bisect::Bisection>,
    ),
    row("trace", "A line of a trace", document::schema),
    row(
        "trace-summary",
        "What `trace --json` prints",
        render::trace::schema,
    ),
    row(
        "explanation",
        "What `explain --json` prints",
        schema_of::<render::explain::ExplanationDocument>,
    ),
    row(
        "doctor",
        "What `doctor --json` prints",
        schema_of::<render::doctor::DoctorDocument>,
    ),
    row(
        "visibility",
        "What `mask --json` prints",
        schema_of::<visibility::Visibility>,
    ),
];

const fn row(name: &'static str, about: &'static str, make: fn() -> serde_json::Value) -> Schema {
    Schema { name, about, make }
}

/// Returns the parser of an argument that selects a schema.
pub(crate) fn schema_parser() -> impl TypedValueParser<Value = &'static Schema> {
    let values = SCHEMAS
        .iter()
        .map(|schema| PossibleValue::new(schema.name).help(schema.about));
    PossibleValuesParser::new(values).try_map(|name| {
        SCHEMAS
            .iter()
            .find(|schema| schema.name == name)
            .ok_or("there is no such schema")
    })
}
