//! What surveys come to.

use serde_json::{Value, json};

use crate::exit::Exit;
use crate::plan::fixture::machine;
use crate::survey::Document;
use crate::survey::mask::MaskRow;

fn row() -> Value {
    json!({"group": "Numbers", "mask": "0", "order": null, "status": "CUDA_SUCCESS", "count": 1, "gpus": [0],
           "predicted": {"status": "CUDA_SUCCESS", "gpus": [0]}, "as_predicted": true, "attempts": 3,
           "unmeasured": null})
}

fn unmeasured(reason: &str) -> Value {
    json!({"unmeasured": {"reason": reason, "detail": ""}, "attempts": 0, "as_predicted": null})
}

/// How a survey ends that has a good row and one with other fields, and is itself otherwise too.
fn ends(provenance: &str, of_row: Value, of_document: Value, of_survey: Value) -> Exit {
    let but = |mut value: Value, fields: Value| {
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        value
    };
    let header = json!({"id": "", "version": "", "started_at": "", "finished_at": null, "elapsed_ns": 1,
        "attempts_ns": 1, "resumed": 0, "selectors": [], "on": "cuda", "repeat": 3, "seed": 1, "interrupted": null,
        "exit": null});
    let document = json!({"schema": {"name": "", "major": 1, "minor": 0}, "provenance": provenance,
        "survey": but(header, of_survey), "machine": machine(1), "rows": [row(), but(row(), of_row)], "complete": true});
    let document: Document<MaskRow> = serde_json::from_value(but(document, of_document)).unwrap();
    Exit::of_survey(&document)
}

#[test]
fn what_a_row_came_to_is_what_the_survey_came_to() {
    let with = |fields: Value| ends("measured", fields, json!({}), json!({}));
    assert_eq!(with(json!({})), Exit::Ok);
    assert_eq!(with(json!({"as_predicted": false})), Exit::Unexpected);
    assert_eq!(with(json!({"disagreement": ["status"], "as_predicted": null})), Exit::Inconclusive);
    assert_eq!(with(json!({"count": null, "as_predicted": null})), Exit::Inconclusive, "its attempts do not tell");
    assert_eq!(with(unmeasured("crashed")), Exit::Inconclusive);
    assert_eq!(with(unmeasured("missing_symbol")), Exit::Ok, "a library lacks the call, and that is the answer");
}

#[test]
fn what_the_simulated_node_does_not_model_is_inconclusive_on_a_gpu_alone() {
    assert_eq!(ends("simulated", unmeasured("not_modelled"), json!({}), json!({})), Exit::Ok);
    assert_eq!(ends("measured", unmeasured("not_modelled"), json!({}), json!({})), Exit::Inconclusive);
    let partly = json!({"as_predicted": null, "invalid": {"not_modelled": 2}});
    assert_eq!(ends("simulated", partly.clone(), json!({}), json!({})), Exit::Ok);
    assert_eq!(ends("measured", partly, json!({}), json!({})), Exit::Inconclusive);
}

#[test]
fn a_survey_that_did_not_come_to_its_end_is_no_success() {
    let partial = |interrupted: Value| {
        ends("measured", json!({}), json!({"complete": false}), json!({"interrupted": interrupted}))
    };
    assert_eq!(partial(json!("SIGINT")), Exit::Interrupted);
    assert_eq!(partial(json!("SIGTERM")), Exit::Terminated);
    assert_eq!(partial(Value::Null), Exit::Internal);
    let lost = json!({"host_unsafe": "a GPU was lost"});
    assert_eq!(ends("measured", json!({}), json!({"complete": false}), lost), Exit::HostUnsafe);
    assert_eq!(ends("measured", json!({}), json!({"rows": []}), json!({})), Exit::NothingMeasured);
}
