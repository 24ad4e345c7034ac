//! The JSON Schemas of the program's documents and files.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cuda_pitfalls_answers::{bisect, compare, fleet, releases, survey, visibility, who};
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
pub static SCHEMAS: [Schema; 14] = [
    row("scenario", "A scenario file", scenario::file_schema),
    row("report", "A report", report::schema),
    row(
        "fleet",
        "A fleet report, written by `fleet merge`",
        schema_of::<fleet::Fleet>,
    ),
    row(
        "fleet-diff",
        "The output of `fleet diff --json`",
        schema_of::<fleet::FleetDiff>,
    ),
    row("survey", "The output of `survey`", survey::schema),
    row(
        "environment",
        "The result of `survey python --with` for one environment",
        schema_of::<releases::EnvironmentDocument>,
    ),
    row(
        "comparison",
        "The output of `compare --json`",
        schema_of::<compare::Comparison>,
    ),
    row(
        "bisection",
        "The output of `bisect --json`",
        schema_of::<bisect::Bisection>,
    ),
    row("trace", "A line of a trace", document::schema),
    row(
        "trace-summary",
        "The output of `trace --json`",
        render::trace::schema,
    ),
    row(
        "explanation",
        "The output of `explain --json`",
        schema_of::<render::explain::ExplanationDocument>,
    ),
    row(
        "doctor",
        "The output of `doctor --json`",
        schema_of::<render::doctor::DoctorDocument>,
    ),
    row("who", "What `who --json` prints", schema_of::<who::Holders>),
    row(
        "visibility",
        "The output of `mask --json`",
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
