//! Surveys with one difference each.

use serde_json::{Value, json};

use super::super::compare_surveys;
use super::*;
use crate::survey::fixture::{but, document};
use crate::survey::{SurveyDocument, SurveyKind as Which};

fn call() -> Value {
    json!({"call": "cudaMalloc", "library": "libcudart", "libcudart_version": "13.0", "visible_gpus": 1,
           "reads_mask": true, "context_on": [0], "device_used_bytes": [530 << 20], "status": "cudaSuccess",
           "elapsed_ns": 5, "attempts": 3, "unmeasured": null, "seen": []})
}

fn mask() -> Value {
    json!({"group": "Numbers", "mask": "0,1", "order": null, "status": "CUDA_SUCCESS", "count": 2, "gpus": [0, 1],
           "predicted": {"status": "CUDA_SUCCESS", "gpus": [0, 1]}, "as_predicted": true, "attempts": 3,
           "unmeasured": null})
}

fn variable() -> Value {
    json!({"variable": "CUDA_MODULE_LOADING", "value": "EAGER", "observable": "it loads at once.", "has_effect": true,
           "read_at": "cuInit", "attempts": 3, "unmeasured": null,
           "moments": [{"before": "init", "does": "cuInit", "effect": true},
                       {"before": "context", "does": "first context", "effect": false}]})
}

fn line() -> Value {
    json!({"id": "torch.cuda.is_available", "framework": "torch", "versions": {"torch": "2.8.0"}, "ask": "ask()",
           "before": ["import torch"], "initialised_before": false, "context_before": [], "calls_cuinit": true,
           "reads_mask": true, "mask": null, "init_status": "CUDA_SUCCESS", "in_child": false,
           "at": "torch/cuda/__init__.py:180 is_available", "entry": null, "through": "cudaGetDeviceCount",
           "context_on": [0], "context_at": null, "context_bytes": [524 << 20], "device_used_bytes": null,
           "raised": null, "value": "True", "elapsed_ns": 5, "left": null, "attempts": 3, "unmeasured": null, "seen": []})
}

fn need() -> Value {
    json!({"program": "driver", "moment": "init", "refused": "/dev/nvidiactl", "error": "EPERM", "met": true,
           "statuses": [{"call": "cuInit", "status": "CUDA_ERROR_NO_DEVICE"}], "gpus": [], "died": null,
           "attempts": 3, "unmeasured": null})
}

fn failed() -> Value {
    json!({"id": "a, cuInit 999", "framework": "torch", "line": "a", "versions": {"torch": "2.8.0"}, "ask": "ask()",
           "returned": {"place": "cuInit", "calls": ["cuInit"], "code": 999, "status": "CUDA_ERROR_UNKNOWN"},
           "met": true, "raised": {"kind": "RuntimeError", "message": "unknown"}, "value": null, "left": null,
           "attempts": 1, "unmeasured": null})
}

fn calls(rows: &[Value]) -> SurveyDocument {
    serde_json::from_value(document(Which::Calls, rows, 1)).unwrap()
}

fn survey(which: Which, row: Value, gpus: usize) -> SurveyDocument {
    SurveyDocument::parse(document(which, &[row], gpus).to_string().as_bytes()).unwrap()
}

/// Returns the differences if a row has other fields in B: `fact a -> b`.
fn found(which: Which, row: &Value, fields: Value) -> Vec<String> {
    let (a, b) = (
        survey(which, row.clone(), 1),
        survey(which, but(row.clone(), fields), 1),
    );
    told(&compare_surveys(&a, &b, None).unwrap())
}

fn told(comparison: &Comparison) -> Vec<String> {
    let all = comparison
        .changed
        .iter()
        .flat_map(|difference| &difference.changes);
    let told: Vec<String> = all
        .map(|change| format!("{} {} -> {}", change.fact, change.a, change.b))
        .collect();
    assert_eq!(
        comparison.exit(),
        if told.is_empty() {
            Exit::Ok
        } else {
            Exit::Unexpected
        },
        "{comparison:#?}"
    );
    told
}

/// `cuInit` in two attempts, with these times and this resident host memory.
fn started(elapsed_ns: [u64; 2], resident: [i64; 2]) -> Value {
    let spread = json!({"least": resident[0], "median": resident[0], "most": resident[1]});
    let host = json!({"resident_bytes": spread, "anonymous_bytes": null, "locked_bytes": null, "pinned_bytes": null,
                      "virtual_bytes": null});
    json!({"program": "driver", "visible_gpus": 1, "libcudart_version": null, "attempts": 2, "unmeasured": null,
           "cases": [{"beside": "alone", "before": null, "steps": [
               {"call": "cuInit", "status": "CUDA_SUCCESS", "elapsed_ns": elapsed_ns, "host": host}]}]})
}

#[test]
fn start_times_differ_only_if_ranges_are_disjoint() {
    const MS: u64 = 1_000_000;
    let usual = started([100 * MS, 120 * MS], [40 << 20, 41 << 20]);
    let of = |other: Value| found(Which::Startup, &usual, other);
    let but_times = |times| of(json!({"cases": started(times, [40 << 20, 41 << 20])["cases"]}));
    assert_eq!(but_times([119 * MS, 200 * MS]), [""; 0], "they overlap");
    assert_eq!(
        but_times([121 * MS, 122 * MS]),
        ["time of cuInit, alone 100 ms -> 121 ms"]
    );
    assert_eq!(but_times([121 * MS, 121 * MS]).len(), 1);
    assert_eq!(
        of(json!({"cases": started([100 * MS, 110 * MS], [42 << 20, 43 << 20])["cases"]})),
        [""; 0]
    );
    let more = of(json!({"cases": started([100 * MS, 110 * MS], [80 << 20, 81 << 20])["cases"]}));
    assert_eq!(
        more,
        ["resident host memory after cuInit, alone 40 MiB -> 80 MiB"]
    );
}

#[test]
fn every_fact_of_a_call_is_compared_and_no_time() {
    let of = |fields| found(Which::Calls, &call(), fields);
    assert_eq!(of(json!({"elapsed_ns": 999_999})), [""; 0]);
    assert_eq!(
        of(json!({"reads_mask": false})),
        ["reads the mask yes -> no"]
    );
    assert_eq!(
        of(json!({"reads_mask": null})),
        ["reads the mask yes -> unknown"]
    );
    assert_eq!(of(json!({"context_on": []})), ["context on 0 -> none"]);
    assert_eq!(
        of(json!({"status": "cudaErrorNoDevice"})),
        ["status cudaSuccess -> cudaErrorNoDevice"]
    );
}

#[test]
fn what_a_line_makes_of_an_error_is_compared() {
    let of = |fields| found(Which::Errors, &failed(), fields);
    assert_eq!(of(json!({"versions": {"torch": "2.9.0"}})), [""; 0]);
    let silent = json!({"raised": null, "value": "'cpu'"});
    assert_eq!(
        of(silent),
        [
            "raises RuntimeError: unknown -> nothing",
            "value none -> 'cpu'"
        ]
    );
    let other = json!({"raised": {"kind": "RuntimeError", "message": "other"}});
    assert_eq!(
        of(other),
        ["raises RuntimeError: unknown -> RuntimeError: other"]
    );
    assert_eq!(
        of(json!({"left": "SIGSEGV"})),
        ["process ended by exit code 0 -> SIGSEGV"]
    );
}

#[test]
fn memory_is_the_same_within_the_noise() {
    let used = |a: &[i64], b: &[i64]| {
        let row = |used: &[i64]| but(call(), json!({"device_used_bytes": used}));
        told(&compare_surveys(&calls(&[row(a)]), &calls(&[row(b)]), None).unwrap())
    };
    const MIB: i64 = 1 << 20;
    assert_eq!(used(&[0], &[2 * MIB]), [""; 0]);
    assert_eq!(used(&[0], &[2 * MIB + 1]), ["memory 0 -> +2 MiB"]);
    assert_eq!(used(&[1000 * MIB], &[1010 * MIB]), [""; 0]);
    assert_eq!(
        used(&[1000 * MIB], &[1011 * MIB]),
        ["memory +1000 MiB -> +1011 MiB"]
    );
    // An additional idle GPU, and another one of the same GPUs.
    assert_eq!(used(&[530 * MIB], &[530 * MIB, 0]), [""; 0]);
    assert_eq!(used(&[530 * MIB, 0], &[0, 530 * MIB]), [""; 0]);
    assert_eq!(
        used(&[530 * MIB, 0], &[530 * MIB, 530 * MIB]),
        ["memory 0 -> +530 MiB"]
    );
    assert_eq!(
        found(Which::Calls, &call(), json!({"device_used_bytes": null})),
        [""; 0]
    );
}

#[test]
fn with_other_visible_gpus_it_counts_whether_there_is_a_context() {
    let both = json!({"visible_gpus": 2, "context_on": [0, 1], "device_used_bytes": [530 << 20, 530 << 20]});
    assert_eq!(found(Which::Calls, &call(), both), [""; 0]);
    let none = json!({"visible_gpus": 2, "context_on": []});
    assert_eq!(
        found(Which::Calls, &call(), none),
        ["has a context yes -> no"]
    );
}

#[test]
fn disagreement_in_one_of_them_is_a_difference_of_its_own() {
    let shaky = json!({"status": null, "disagreement": ["status"]});
    assert_eq!(
        found(Which::Calls, &call(), shaky.clone()),
        ["attempts disagree on nothing -> status"]
    );
    let row = but(call(), shaky);
    let steady = json!({"status": "cudaSuccess", "disagreement": []});
    assert_eq!(
        found(Which::Calls, &row, steady),
        ["attempts disagree on status -> nothing"]
    );
    assert_eq!(found(Which::Calls, &row, json!({})), [""; 0]);
}

#[test]
fn what_was_not_measured_in_one_is_not_in_both() {
    let missing = json!({"unmeasured": {"reason": "missing_symbol", "detail": "x"}, "attempts": 0});
    let comparison =
        compare_surveys(&calls(&[call()]), &calls(&[but(call(), missing)]), None).unwrap();
    assert_eq!(comparison.exit(), Exit::NothingMeasured);
    assert_eq!(
        comparison.only_in_a[0].reason.as_deref(),
        Some("missing_symbol")
    );
}

#[test]
fn a_version_that_only_one_has_is_one_entry() {
    let on = |version: &str, name: &str| {
        but(call(), json!({"libcudart_version": version, "call": name}))
    };
    let a = calls(&[
        on("12.9", "cudaMalloc"),
        on("12.9", "cudaFree"),
        on("13.0", "cudaMalloc"),
    ]);
    let b = calls(&[on("13.0", "cudaMalloc"), on("13.0", "cudaFree")]);
    let comparison = compare_surveys(&a, &b, None).unwrap();
    assert_eq!(comparison.same, 1);
    let all = Only {
        name: None,
        libcudart: Some("12.9".into()),
        reason: None,
        count: 2,
    };
    let one = Only {
        name: Some("cudaFree".into()),
        libcudart: Some("13.0".into()),
        reason: None,
        count: 1,
    };
    assert_eq!(
        (comparison.only_in_a, comparison.only_in_b),
        (vec![all], vec![one])
    );
    let across = compare_surveys(&a, &b, Some(("12.9".into(), "13.0".into()))).unwrap();
    assert_eq!(
        (across.same, across.only_in_a.len(), across.only_in_b.len()),
        (2, 0, 0)
    );
}

#[test]
fn masks_follow_the_rule_across_gpu_counts() {
    let of = |fields| found(Which::Mask, &mask(), fields);
    assert_eq!(
        of(json!({"status": "CUDA_ERROR_NO_DEVICE"})),
        ["status CUDA_SUCCESS -> CUDA_ERROR_NO_DEVICE"]
    );
    assert_eq!(of(json!({"gpus": [1, 0]})), ["GPUs 0, 1 -> 1, 0"]);
    // The rule was corrected in between, and the driver behaved as before.
    assert_eq!(
        of(json!({"predicted": {"status": "CUDA_SUCCESS", "gpus": [0]}, "as_predicted": false})),
        [""; 0]
    );
    let alone =
        json!({"gpus": [0], "count": 1, "predicted": {"status": "CUDA_SUCCESS", "gpus": [0]}});
    let on = |gpus: usize, row: Value| survey(Which::Mask, row, gpus);
    let two = on(2, mask());
    assert_eq!(
        told(&compare_surveys(&two, &on(1, but(mask(), alone.clone())), None).unwrap()),
        [""; 0]
    );
    let against = but(
        mask(),
        json!({"status": "CUDA_ERROR_NO_DEVICE", "gpus": [], "count": 0}),
    );
    assert_eq!(
        told(&compare_surveys(&two, &on(1, against), None).unwrap()),
        ["as the rule says yes -> no"]
    );
}

#[test]
fn the_rule_is_held_against_machines_of_one_size_too() {
    // A UUID prefix that one machine has and the other does not.
    let row = but(mask(), json!({"mask": "GPU-0", "count": 1, "gpus": [0]}));
    let a = survey(Which::Mask, row, 1);
    let mut b = a.clone();
    b.machine.gpus[0].uuid = "GPU-7".into();
    assert_eq!(
        told(&compare_surveys(&a, &b, None).unwrap()),
        ["as the rule says yes -> no"]
    );
    assert_eq!(
        told(&compare_surveys(&b, &a, None).unwrap()),
        ["as the rule says no -> yes"]
    );
}

#[test]
fn every_moment_of_a_variable_is_compared() {
    let of = |fields| found(Which::Env, &variable(), fields);
    assert_eq!(of(json!({"has_effect": false})), ["has effect yes -> no"]);
    assert_eq!(
        of(json!({"read_at": "first context"})),
        ["read at cuInit -> first context"]
    );
    let moments = json!({"moments": [{"before": "init", "does": "cuInit", "effect": false}]});
    assert_eq!(of(moments), ["takes effect before init yes -> no"]);
    let other = but(variable(), json!({"value": "LAZY", "has_effect": false}));
    let comparison = compare_surveys(
        &survey(Which::Env, variable(), 1),
        &survey(Which::Env, other, 1),
        None,
    )
    .unwrap();
    assert_eq!(
        (comparison.exit(), comparison.explained.len()),
        (Exit::NothingMeasured, 1)
    );
    assert_eq!(
        comparison.explained[0].notes,
        ["set to \"EAGER\" in A, to \"LAZY\" in B"]
    );
}

#[test]
fn two_kinds_and_versions_where_there_are_none_are_refused() {
    let (masks, variables) = (
        survey(Which::Mask, mask(), 1),
        survey(Which::Env, variable(), 1),
    );
    let error = compare_surveys(&masks, &variables, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "A is a survey of mask, B is a survey of env"
    );
    let versions = Some(("12.9".to_string(), "13.0".to_string()));
    assert!(
        compare_surveys(&masks, &masks, versions)
            .unwrap_err()
            .to_string()
            .contains("libcudart versions can be compared")
    );
}

#[test]
fn a_line_of_python_does_something_else() {
    let found = |fields: Value| found(Which::Python, &line(), fields);
    for (fields, change) in [
        (
            json!({"calls_cuinit": false, "reads_mask": false, "at": null, "init_status": null}),
            vec!["calls cuInit yes -> no", "reads the mask yes -> no"],
        ),
        (
            json!({"at": "torch/cuda/__init__.py:9 device_count"}),
            vec!["at torch/cuda/__init__.py is_available -> torch/cuda/__init__.py device_count"],
        ),
        (
            json!({"context_on": [0, 1], "context_bytes": [524 << 20, 524 << 20]}),
            vec!["context on 0 -> 0, 1"],
        ),
        (
            json!({"context_bytes": [600 << 20]}),
            vec!["context takes +524 MiB -> +600 MiB"],
        ),
        (
            json!({"raised": {"kind": "RuntimeError", "message": "m"}, "value": null}),
            vec!["raises nothing -> RuntimeError"],
        ),
        (json!({"mask": "0"}), vec!["mask (unset) -> 0"]),
        (
            json!({"left": "SIGSEGV"}),
            vec!["process ended by exit code 0 -> SIGSEGV"],
        ),
        (
            json!({"initialised_before": true, "calls_cuinit": null, "reads_mask": null, "at": null}),
            vec![
                "initialised before no -> yes",
                "calls cuInit yes -> unknown",
                "reads the mask yes -> unknown",
            ],
        ),
    ] {
        assert_eq!(found(fields), change);
    }
    for same in [
        json!({"at": "torch/cuda/__init__.py:199 is_available"}),
        json!({"context_bytes": [525 << 20]}),
        json!({"value": "False"}),
        json!({"elapsed_ns": 7, "versions": {"torch": "2.9.0"}}),
    ] {
        assert_eq!(found(same), Vec::<String>::new());
    }
}

#[test]
fn another_code_is_another_question() {
    let survey = |row: Value| survey(Which::Python, row, 1);
    let other = but(line(), json!({"ask": "ask(again=True)", "context_on": []}));
    let compared = compare_surveys(&survey(line()), &survey(other), None).unwrap();
    assert!(compared.changed.is_empty());
    assert_eq!(compared.explained[0].notes, ["the asked code differs"]);
}

#[test]
fn needs_differ_in_statuses_gpus_and_ends() {
    let of = |fields| found(Which::Needs, &need(), fields);
    let statuses = json!([{"call": "cuInit", "status": "CUDA_ERROR_UNKNOWN"}]);
    assert_eq!(
        of(json!({ "statuses": statuses })),
        ["returned cuInit CUDA_ERROR_NO_DEVICE -> cuInit CUDA_ERROR_UNKNOWN"]
    );
    assert_eq!(of(json!({ "gpus": [1] })).len(), 1);
    assert_eq!(
        of(json!({ "died": {"by": "SIGSEGV", "at": "cuInit"} })),
        ["died no -> SIGSEGV"]
    );
    assert!(of(json!({ "met": false })).is_empty());
}
