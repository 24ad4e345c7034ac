//! Documents of surveys for tests.

use serde_json::{Value, json};

use super::document::Row;
use cuda_pitfalls_core::plan::fixture::machine;

/// A document with these rows, on a machine with so many GPUs.
pub(crate) fn document<R: Row>(rows: &[Value], gpus: usize) -> Value {
    json!({
        "schema": {"name": R::kind().schema(), "major": 1, "minor": 0}, "provenance": "measured",
        "survey": {"id": "id", "version": "0", "started_at": "", "finished_at": null, "elapsed_ns": 1, "attempts_ns": 1,
                   "resumed": 0, "selectors": [], "on": "cuda", "repeat": 3, "repeat_generated": 1,
                   "seed": 1, "generate": 0, "visible_gpus": 1, "host_unsafe": null, "interrupted": null, "exit": null},
        "machine": machine(gpus), "rows": rows, "complete": true,
    })
}

/// A row, or a part of a document, with some of its fields replaced.
pub(crate) fn but(mut row: Value, fields: Value) -> Value {
    row.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    row
}
