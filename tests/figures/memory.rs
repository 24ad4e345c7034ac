//! Memory as scenarios measured it.

use serde_json::Value;

use super::{Page, document, mib};

/// Returns a step of a case with the result of every attempt.
fn step(report: &str, scenario: &str, case: &str, at: &str) -> Value {
    let report = document(&format!("{report}/report.json"));
    let all = report["scenarios"].as_array().expect("scenarios");
    let scenario = all
        .iter()
        .find(|one| one["name"] == scenario)
        .expect("the scenario");
    let case = scenario["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .find(|one| one["name"] == case)
        .expect("the case");
    let outcomes = case["outcomes"].as_array().expect("outcomes");
    assert_eq!(outcomes.len(), 1, "one outcome is a figure");
    let steps = outcomes[0]["observation"]["steps"]
        .as_array()
        .expect("steps");
    steps
        .iter()
        .find(|step| step["label"] == at)
        .expect("the step")
        .clone()
}

fn used(report: &str, scenario: &str, case: &str, at: &str, gpu: &str) -> i64 {
    step(report, scenario, case, at)["memory"][gpu]["used_bytes"]
        .as_i64()
        .expect("bytes")
}

#[test]
fn what_the_driver_and_a_context_take() {
    let at = |label: &str| used("h200-x2", "memory/context-cost", "trap", label, "gpu0");
    let plan = document("h200-x2/report.json");
    let calibration = &plan["run"]["calibration"][0];
    let context = calibration["context_bytes"].as_i64().expect("bytes");
    let init = used(
        "h200-x2",
        "context/guard-restore-pollutes-gpu0",
        "trap",
        "previous",
        "gpu0",
    );
    let restored = used(
        "h200-x2",
        "context/guard-restore-pollutes-gpu0",
        "trap",
        "end",
        "gpu0",
    );
    assert_eq!(at("look"), context, "calibration and scenario agree");
    let thousands = |bytes: i64| {
        let (rest, ones) = (bytes / 1000, bytes % 1000);
        format!("{},{:03},{ones:03}", rest / 1000, rest % 1000)
    };
    let init_mib = init as f64 / f64::from(1 << 20);
    let whole = |bytes: i64| (bytes as f64 / f64::from(1 << 20)).round();
    Page::open("README.md").says(format!(
        "On an H200 it uses {} MiB before anything is allocated",
        whole(context)
    ));
    Page::open("docs/results.md")
        .says(format!(
            "`cuInit` uses {init_mib} MiB on every visible GPU that no other process uses"
        ))
        .says(format!(
            "A context uses {} MiB in total there",
            whole(context)
        ))
        .says(format!(
            "and {} MiB if other processes already use the GPU",
            whole(context - init)
        ))
        .says(format!(
            "a guard that \"restores\" device 0 uses {} MiB there",
            whole(restored - init)
        ));
    Page::open("docs/findings.md")
        .says(format!(
            "{} MiB ({} bytes) on an H200 that no other process uses",
            mib(context),
            thousands(context)
        ))
        .says(format!("{init_mib} MiB of it come with `cuInit`"))
        .says(format!(
            "restoring device 0 creates a context there: +{} MiB",
            mib(restored - init)
        ));
}

#[test]
fn a_handle_of_cublas_takes_more_loaded_eagerly() {
    let grown = |case: &str| {
        let at = |label: &str| {
            used(
                "h200-x2-contexts",
                "context/eager-loading-costs-memory",
                case,
                label,
                "gpu0",
            )
        };
        at("create") - at("context")
    };
    let (eager, lazy) = (mib(grown("trap")), mib(grown("control")));
    Page::open("docs/findings.md").says(format!(
        "a cuBLAS handle takes {eager} MiB instead of {lazy}, and"
    ));
}
