//! Generated fleets against what was put into them: every difference is found, none is invented, and every document
//! is in its bucket.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cuda_pitfalls::fleet::{Fleet, What};
use cuda_pitfalls::random::Random;
use serde_json::{Value, json};

use common::Scratch;
use common::fleets::{Generator, Recipe, SIZES, Truth};

/// Reports that began before this many days are stale: the generated ones are from November 2026 or from 2001.
const MAX_AGE: &str = "7000d";

fn merged(recipe: Recipe) -> (Fleet, Truth) {
    let scratch = Scratch::new();
    let folder = scratch.path().join("reports");
    fs::create_dir(&folder).expect("a folder of our own");
    let mut generator = Generator::new(recipe);
    for document in generator.by_ref() {
        // A name of a machine may contain characters that no file name has.
        let name: String = document
            .name
            .chars()
            .map(|c| if c == '/' { '_' } else { c })
            .collect();
        fs::write(folder.join(name), document.bytes).expect("a file of our own");
    }
    let out = scratch.path().join("fleet.json");
    let [folder, out] = [folder, out].map(|path| path.to_string_lossy().into_owned());
    scratch
        .run(&[
            "fleet",
            "merge",
            &folder,
            "--out",
            &out,
            "--max-age",
            MAX_AGE,
        ])
        .good();
    (common::read_json(out), generator.truth)
}

/// Returns the name of a question. If two variants of a question have the same name, one has its difference as a
/// suffix, which is removed.
fn name_of(fleet: &Fleet, question: usize) -> String {
    let name = &fleet.questions[question].name;
    name.split(" (measured differently")
        .next()
        .unwrap_or(name)
        .to_owned()
}

/// Returns the outcomes of a fleet: machine, question, property. Questions about the machine itself do not count.
fn outcomes(fleet: &Fleet) -> BTreeSet<(String, String, &'static str)> {
    let mut found = BTreeSet::new();
    for difference in fleet
        .differences
        .iter()
        .filter(|difference| !name_of(fleet, difference.question).starts_with("machine: "))
    {
        let word = match difference.what {
            What::Outcome {
                verdict_differs: true,
                ..
            } => "verdict",
            What::Outcome { .. } => "fact",
            What::NoAnswer { .. } => "no_answer",
            What::Bytes { .. } => continue,
        };
        let question = name_of(fleet, difference.question);
        let names = difference
            .machines
            .iter()
            .map(|place| fleet.machines[*place].name.clone());
        found.extend(names.map(|name| (name, question.clone(), word)));
    }
    found
}

fn bytes(fleet: &Fleet) -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for difference in &fleet.differences {
        let What::Bytes { figure, .. } = &difference.what else {
            continue;
        };
        let question = name_of(fleet, difference.question);
        let names = difference
            .machines
            .iter()
            .map(|place| fleet.machines[*place].name.clone());
        found.extend(names.map(|name| (name, question.clone(), figure.clone())));
    }
    found
}

/// Returns the median of the group of a machine.
fn median(fleet: &Fleet, (machine, question, figure): &(String, String, String)) -> i64 {
    let machine = fleet
        .machines
        .iter()
        .position(|it| it.name == *machine)
        .expect("the machine is there");
    let of_machine = fleet
        .groups
        .iter()
        .filter(|group| group.machines.contains(&machine));
    let mut usual = of_machine
        .flat_map(|group| &group.usual)
        .filter(|usual| name_of(fleet, usual.question) == *question);
    usual
        .find_map(|usual| usual.used_bytes.get(figure))
        .map_or(0, |spread| spread.median_bytes)
}

/// Fails unless groups, outcomes and differences are in the order that the document promises.
fn in_order(fleet: &Fleet) {
    let sizes: Vec<usize> = fleet
        .groups
        .iter()
        .map(|group| group.machines.len())
        .collect();
    assert!(
        sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes.first() > sizes.last(),
        "{sizes:?}"
    );
    for usual in fleet.groups.iter().flat_map(|group| &group.usual) {
        let counts: Vec<usize> = usual
            .outcomes
            .iter()
            .map(|outcome| outcome.machines)
            .collect();
        assert!(
            counts.windows(2).all(|pair| pair[0] >= pair[1]),
            "{counts:?}"
        );
    }
    // A verdict, then facts, then no answer, then bytes; within a kind, a smaller share of the machines
    // before a larger.
    let weight = |difference: &cuda_pitfalls::fleet::Difference| {
        let kind = match difference.what {
            What::Outcome {
                verdict_differs: true,
                ..
            } => 0,
            What::Outcome { .. } => 1,
            What::NoAnswer { .. } => 2,
            What::Bytes { .. } => 3,
        };
        let these = difference.machines.len() as f64;
        (kind, these / (these + difference.usual_machines as f64))
    };
    let weights: Vec<(i32, f64)> = fleet.differences.iter().map(weight).collect();
    for pair in weights.windows(2) {
        let ((kind, share), (next, larger)) = (pair[0], pair[1]);
        assert!(kind < next || (kind == next && share <= larger), "{pair:?}");
    }
    let differ = |pair: &[(i32, f64)]| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1;
    assert!(
        weights.windows(2).any(differ),
        "no two of one kind differ in their share: {weights:?}"
    );
}

#[test]
fn every_difference_is_found_and_none_is_invented() {
    let recipe = Recipe {
        machines: 1000,
        hostile_percent: 20,
        differing_percent: 12,
        seed: 1,
    };
    let (fleet, truth) = merged(recipe);
    let compared = fleet
        .machines
        .iter()
        .filter(|machine| machine.left_out.is_none());
    let names: BTreeSet<String> = compared.map(|machine| machine.name.clone()).collect();
    assert_eq!(
        names, truth.machines,
        "the machines are those that have a whole report"
    );

    let mut buckets: BTreeMap<String, u64> = fleet
        .input
        .buckets
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(bucket, count)| {
            (
                serde_json::to_value(bucket)
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .to_owned(),
                *count,
            )
        })
        .collect();
    // Where the later report has a difference, the earlier one disagrees.
    let disagreeing = buckets.remove("disagreeing").expect("some do");
    *buckets.entry("duplicate".to_owned()).or_default() += disagreeing;
    assert_eq!(buckets, truth.buckets);
    assert_eq!(fleet.input.documents, truth.documents);
    assert_eq!(
        buckets.values().sum::<u64>(),
        truth.documents,
        "the buckets add up to what was read"
    );
    let hostile = truth.documents - truth.machines.len() as u64;
    assert!(
        (15..=25).contains(&(hostile * 100 / truth.documents)),
        "{hostile} of {}",
        truth.documents
    );

    in_order(&fleet);
    let found = outcomes(&fleet);
    let missed: Vec<_> = truth.outcomes.difference(&found).collect();
    let invented: Vec<_> = found.difference(&truth.outcomes).collect();
    assert!(
        missed.is_empty() && invented.is_empty(),
        "missed {missed:#?}\ninvented {invented:#?}"
    );
    for word in ["verdict", "fact", "no_answer"] {
        assert!(
            truth.outcomes.iter().any(|(_, _, known)| *known == word),
            "no {word} was put in"
        );
    }

    // No difference in bytes is invented, and each one above noise is found: more than 2 MiB, and more than a hundredth
    // of the usual figure.
    let found = bytes(&fleet);
    let put: BTreeSet<_> = truth.bytes.keys().cloned().collect();
    let invented: Vec<_> = found.difference(&put).collect();
    assert!(invented.is_empty(), "invented {invented:#?}");
    for (key, more) in &truth.bytes {
        let is_noise = *more <= (2 << 20).max(median(&fleet, key) / 100);
        assert_eq!(
            found.contains(key),
            !is_noise,
            "{key:?} uses {more} bytes more"
        );
    }
    let sizes_found: BTreeSet<i64> = found.iter().map(|key| truth.bytes[key]).collect();
    assert!(
        sizes_found.iter().eq(&SIZES[1..]),
        "of sizes only {sizes_found:?} were found"
    );
    let sizes: BTreeSet<i64> = truth.bytes.values().copied().collect();
    assert_eq!(
        sizes.into_iter().collect::<Vec<_>>(),
        SIZES,
        "each size was put in"
    );
}

#[test]
fn a_fleet_without_differences_has_none() {
    let recipe = Recipe {
        machines: 200,
        hostile_percent: 0,
        differing_percent: 0,
        seed: 3,
    };
    let (fleet, truth) = merged(recipe);
    assert_eq!(fleet.machines.len(), truth.machines.len());
    // Some have another driver.
    assert!(
        outcomes(&fleet).is_empty() && bytes(&fleet).is_empty(),
        "{:#?}",
        fleet.differences
    );
}

/// Breaks a machine in one of twelve ways, by its number.
fn break_machine(kind: usize, report: &mut Value) {
    let gpus = report["machine"]["gpus"].as_array_mut().expect("GPUs");
    match kind {
        0 => {
            gpus.clear();
            report["machine"]["unavailable"] =
                json!([{"reason": "no_libcuda", "detail": "libcuda.so.1 was not found"}]);
            for scenario in report["scenarios"].as_array_mut().expect("questions") {
                scenario["cases"] = json!([]);
                scenario["verdict"] = json!({"kind": "skipped", "reason": "no_libcuda", "expectation": "no_expectation"});
            }
        }
        1 => _ = gpus.pop(),
        2 => gpus
            .iter_mut()
            .for_each(|gpu| gpu["name"] = "NVIDIA H100 80GB HBM3".into()),
        3 => report["machine"]["driver_version"] = "575.57.08".into(),
        4 => gpus[1]["mig"] = true.into(),
        5 => gpus[0]["compute_mode"] = "ExclusiveProcess".into(),
        6 => gpus[0]["persistence"] = false.into(),
        7 => report["machine"]["mps"] = true.into(),
        8 => report["machine"]["environment"] = json!({"CUDA_VISIBLE_DEVICES": "0"}),
        9 => {
            gpus[1]["total_bytes"] =
                (gpus[1]["total_bytes"].as_u64().expect("bytes") - (96 << 20)).into()
        }
        10 => {
            for calibrated in report["run"]["calibration"]
                .as_array_mut()
                .expect("calibrations")
            {
                let bytes = calibrated["context_bytes"].as_u64().expect("bytes") + (40 << 20);
                calibrated["context_bytes"] = bytes.into();
            }
        }
        _ => {
            report["scenarios"][0]["verdict"] =
                json!({"kind": "not_reproduced", "expectation": "unexpected"})
        }
    }
}

/// Returns a thousand machines with random labels, three of them broken in each way, and the order of the broken ones.
/// With `explains`, a label names the way.
fn thousand_machines(seed: u64, explains: bool) -> (String, Vec<usize>) {
    let example =
        fs::read_to_string(common::root().join("docs/examples/fleet.ndjson")).expect("the example");
    let base = example.lines().next().expect("a line");
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..1000).collect();
    for at in 0..36 {
        order.swap(at, at + random.below(1000 - at));
    }
    order.truncate(36);
    let mut lines = String::new();
    for machine in 0..1000 {
        let text = base.replace("GPU-0000010", &format!("GPU-{machine:05}00"));
        let mut report: Value = serde_json::from_str(&text).expect("a report");
        let mut labels = json!({"node": format!("gpu-{machine}")});
        for (name, values) in [("rack", 40), ("zone", 3), ("image", 7), ("serial", 700)] {
            labels[name] = random.below(values).to_string().into();
        }
        if let Some(broken) = order.iter().position(|broken| *broken == machine) {
            break_machine(broken / 3, &mut report);
            if explains {
                labels["batch"] = (broken / 3).to_string().into();
            }
        }
        report["run"]["labels"] = labels;
        lines += &(report.to_string() + "\n");
    }
    (lines, order)
}

#[test]
fn broken_machines_are_named_and_chance_is_not_accused() {
    for (seed, explains) in [(11, false), (12, false), (13, true)] {
        let (lines, broken) = thousand_machines(seed, explains);
        let scratch = Scratch::new();
        let (path, out) = (scratch.file("all.ndjson", lines), scratch.at("fleet.json"));
        let merge = [
            "fleet",
            "merge",
            &path,
            "--out",
            &out,
            "--simulated",
            "--forbid",
            "differences",
        ];
        scratch
            .run(&merge)
            .ended(1, "unexpected")
            .prints("3 machines cannot use CUDA: ");
        let fleet: Fleet = common::read_json(out);
        assert_eq!(fleet.machines.len(), 1000);
        let named = fleet
            .outliers
            .iter()
            .flat_map(|outliers| &outliers.machines);
        let named: BTreeSet<String> = named
            .map(|machine| fleet.machines[*machine].name.clone())
            .collect();
        assert_eq!(
            named,
            broken
                .iter()
                .map(|machine| format!("gpu-{machine}"))
                .collect(),
            "seed {seed}"
        );
        let labels: BTreeSet<String> = fleet
            .outliers
            .iter()
            .flat_map(|outliers| outliers.labels.clone())
            .collect();
        let wanted = (0..if explains { 12 } else { 0 }).map(|kind| format!("batch={kind}"));
        assert_eq!(labels, wanted.collect(), "seed {seed}");
        assert_eq!(fleet.outliers.len(), 12, "{:#?}", fleet.outliers);
    }
}
