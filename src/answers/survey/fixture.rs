//! Documents of surveys for tests.

use serde_json::{Value, json};

use super::SurveyKind;
use super::document::SCHEMA;
use cuda_pitfalls_core::plan::fixture::machine;

/// Returns a document with rows of these fields, on a machine with `gpus` GPUs.
pub(crate) fn document(kind: SurveyKind, rows: &[Value], gpus: usize) -> Value {
    let rows = rows.iter().map(|row| {
        let unread = but(json!({"key": "", "is_conclusive": true}), row.clone());
        let facts =
            (kind.kind_functions().facts)(&serde_json::from_value(unread).unwrap(), &machine(gpus))
                .unwrap();
        let names = ["key", "is_control", "is_conclusive", "is_unexpected"];
        but(
            row.clone(),
            names
                .map(|name| (name, facts.fact(name).clone()))
                .into_iter()
                .collect(),
        )
    });
    json!({
        "schema": {"name": SCHEMA, "major": 1, "minor": 0}, "kind": kind, "provenance": "measured",
        "survey": {"id": "id", "version": "0", "started_at": "", "finished_at": null, "elapsed_ns": 1, "attempts_ns": 1,
                   "resumed": 0, "selectors": [], "on": "cuda", "repeat": 3, "repeat_generated": 1,
                   "seed": 1, "generate": 0, "visible_gpus": 1, "host_unsafe": null, "interrupted": null, "exit": null},
        "machine": machine(gpus), "rows": rows.collect::<Vec<_>>(), "complete": true,
    })
}

/// Returns a row, or a part of a document, with some of its fields replaced.
pub(crate) fn but(mut row: Value, fields: Value) -> Value {
    row.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    row
}
