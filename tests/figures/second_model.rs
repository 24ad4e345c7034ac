//! What differs on a second GPU model: H100 beside H200.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Page, document};

/// Changes of at most this many bytes are noise on both models.
const NOISE: i64 = 2 << 20;

/// What each GPU shows at every reading of a case's first attempt at a step, less what it showed before the worker.
type Curves = BTreeMap<(String, String), Vec<Vec<i64>>>;

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().into_iter().flatten()
}

fn curves(report: &str) -> Curves {
    let report = document(&format!("{report}/report.json"));
    let mut curves = Curves::new();
    for scenario in list(&report, "scenarios") {
        for case in list(scenario, "cases") {
            let Some(first) = list(case, "attempts").next() else {
                continue;
            };
            let used = |snapshot: &Value| -> Vec<i64> {
                list(snapshot, "gpus")
                    .map(|gpu| gpu["used_bytes"].as_i64().expect("it was read"))
                    .collect()
            };
            let readings: Vec<Vec<i64>> = list(first, "snapshots").map(used).collect();
            let Some(before) = readings.first().cloned() else {
                continue;
            };
            let less = |now: &Vec<i64>| {
                now.iter()
                    .zip(&before)
                    .map(|(now, before)| now - before)
                    .collect()
            };
            let name = |of: &Value| of["name"].as_str().expect("a name").to_owned();
            curves.insert(
                (name(scenario), name(case)),
                readings.iter().map(less).collect(),
            );
        }
    }
    curves
}

/// How many cases of both were read equally often, and which of them show other memory at any reading.
fn compared(earlier: &Curves, later: &Curves) -> (usize, Vec<String>) {
    let both = later
        .iter()
        .filter_map(|(name, now)| Some((name, earlier.get(name)?, now)));
    let both: Vec<_> = both
        .filter(|(_, then, now)| then.len() == now.len())
        .collect();
    let differs = |then: &[Vec<i64>], now: &[Vec<i64>]| {
        let pairs = then
            .iter()
            .zip(now)
            .flat_map(|(then, now)| then.iter().zip(now));
        pairs
            .into_iter()
            .any(|(then, now)| (then - now).abs() > NOISE)
    };
    let other = both
        .iter()
        .filter(|(_, then, now)| differs(then, now))
        .map(|(name, ..)| name.0.clone())
        .collect();
    (both.len(), other)
}

fn merged(reports: &[&str]) -> Curves {
    // The first that asked.
    reports
        .iter()
        .rev()
        .flat_map(|report| curves(report))
        .collect()
}

#[test]
fn the_second_model_takes_the_same_memory() {
    let (cases, other) = compared(
        &merged(&[
            "h200-x1",
            "h200-x1-second",
            "h200-x2-second",
            "h200-x2",
            "h200-x2-memory",
            "h200-x2-contexts",
            "h200-x2-asked",
            "h200-x2-added",
        ]),
        &curves("h100-x1"),
    );
    let of_frameworks = compared(
        &merged(&["h200-x2-framework-again", "h200-x2-framework"]),
        &merged(&[
            "h100-x1-framework",
            "h100-x1-framework-second",
            "h100-x2-framework",
            "h100-x2-framework-second",
            "h100-x2-framework-third",
        ]),
    );
    assert_eq!(other, [""; 0]);
    assert!(
        of_frameworks
            .1
            .iter()
            .all(|name| name == "framework/torch-nccl-barrier-takes-gpu0"),
        "{of_frameworks:?}"
    );
    Page::open("docs/findings.md")
        .says(format!("{cases} of {cases} cases of CUDA calls on one GPU"))
        .says(format!(
            "{} of {} of Python lines",
            of_frameworks.0 - of_frameworks.1.len(),
            of_frameworks.0
        ));
}

#[test]
fn the_driver_reserves_other_memory_on_the_second_model() {
    let reserve = |report: &str| {
        document(&format!("{report}/report.json"))["machine"]["gpus"][0]["reserved_bytes"].take()
    };
    Page::open("docs/findings.md").says(format!(
        "| {} | {} |",
        reserve("h200-x1"),
        reserve("h100-x1")
    ));
}
