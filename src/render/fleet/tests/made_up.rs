//! Tests of fleets of synthetic machines.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::fleet::words;
use cuda_pitfalls_answers::fleet::*;
use cuda_pitfalls_core::verdict::Provenance;

pub(super) const MIB: i64 = 1 << 20;

/// Returns a compact report of a machine with one GPU, whose context costs `bytes`.
fn report(node: &str, uuid: &str, bytes: i64) -> Value {
    json!({
        "schema": {"name": "cuda-pitfalls-report", "major": 1, "minor": 0},
        "must_understand": ["compact"],
        "provenance": "measured",
        "run": {
            "id": node, "version": "0.1.0", "started_at": "2026-11-20T10:00:00Z", "started_ns": 0,
            "elapsed_ns": 0, "selectors": [], "labels": {"node": node}, "on": "cuda", "seed": 0, "allowed": [],
            "calibration": [], "warnings": [],
        },
        "machine": {
            "driver_version": "580.1", "gpus": [{"uuid": uuid, "name": "H", "mig": false}], "libraries": [],
            "libcudart": [], "architecture": "x86_64", "isolation": {}, "environment": {}, "mps": false,
        },
        "scenarios": [scenario("context/one", "1 a: context on gpu0", bytes), scenario("context/two", "1 b: x", bytes)],
        "complete": true,
    })
}

/// Returns a step of a compact report, from `STEP LABEL: WHAT`: a context on a GPU, or a status.
pub(super) fn seen(line: &str) -> Value {
    let (about, what) = line.split_once(": ").expect("a step and what was seen");
    let (step, label) = about.split_once(' ').expect("a number and a label");
    let fact = what.strip_prefix("context on ").map_or(
        json!({ "status": what }),
        |gpu| json!({ "contexts": [gpu] }),
    );
    json!([step.parse::<u32>().expect("a number"), label, [fact]])
}

pub(super) fn scenario(name: &str, line: &str, bytes: i64) -> Value {
    json!({
        "name": name, "sha256": "00ff", "asked": "00ff", "libcudart": {"version": "13.0"},
        "verdict": {"kind": "reproduced", "expectation": "as_expected"},
        "cases": [{"name": "trap", "outcomes": [{"count": 5, "facts": [seen(line)], "used_bytes": {"gpu0": bytes}}]}],
    })
}

/// Returns this many machines with the same results.
pub(super) fn fleet_of(count: usize) -> Vec<Value> {
    (0..count)
        .map(|at| {
            report(
                &format!("node-{at:02}"),
                &format!("GPU-{at:012}"),
                527 * MIB,
            )
        })
        .collect()
}

/// Merges texts, each in a separate file.
fn merged_with(texts: &[Vec<u8>], rule: Rule) -> Fleet {
    let folder = tempfile::tempdir().unwrap();
    for (at, text) in texts.iter().enumerate() {
        fs::write(folder.path().join(format!("{at:03}.json")), text).unwrap();
    }
    let pool = DocumentPool::new(rule);
    gather(&[folder.path().to_path_buf()], &pool);
    let words = |name: &str| {
        (name == "context/one").then(|| Words {
            question: "Does it?".into(),
            page: None,
        })
    };
    let fleet = merge(pool, None, words);
    assert_eq!(
        fleet.input.buckets.values().sum::<u64>(),
        fleet.input.documents,
        "{:?}",
        fleet.input
    );
    fleet
}

fn measured() -> Rule {
    Rule {
        provenance: Provenance::Measured,
        not_before: None,
        not_after: Some("2026-12-01T00:00:00Z".into()),
        group_by: None,
    }
}

/// Returns the largest group of answers.
pub(super) fn answers(fleet: &Fleet) -> &Group {
    fleet
        .groups
        .iter()
        .find(|group| !group.key.is_of_facts)
        .expect("a group of answers")
}

pub(super) fn merged(reports: &[Value]) -> Fleet {
    let texts: Vec<Vec<u8>> = reports
        .iter()
        .map(|report| report.to_string().into_bytes())
        .collect();
    merged_with(&texts, measured())
}

/// Returns every difference as short text: the question, the machines, and the property.
fn told(fleet: &Fleet) -> Vec<(String, Vec<String>, String)> {
    let all = words::in_words(fleet).into_iter().map(|one| {
        let contrasts = one
            .contrasts
            .iter()
            .map(|it| format!("{}: {} / {}", it.about, it.usual, it.these));
        let machines = one.machines.iter().map(|name| (*name).to_owned()).collect();
        (
            one.name.to_owned(),
            machines,
            contrasts.collect::<Vec<_>>().join("; "),
        )
    });
    all.collect()
}

fn difference(question: &str, machines: &[&str], what: &str) -> (String, Vec<String>, String) {
    (
        question.into(),
        machines.iter().map(|name| (*name).into()).collect(),
        what.into(),
    )
}

#[test]
fn a_minority_differs_in_verdict_facts_bytes_or_has_no_answer() {
    let mut all = fleet_of(9);
    all[1]["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced");
    all[1]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([]);
    all[2]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] =
        json!([seen("1 a: CUDA_ERROR_NO_DEVICE")]);
    all[3]["scenarios"][1]["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"] = json!(600 * MIB);
    all[4]["scenarios"][1]["cases"][0]["outcomes"][0]["used_bytes"] = json!({});
    all[5]["scenarios"][1] = json!({"name": "context/two", "sha256": "00ff", "libcudart": {"version": "13.0"}, "verdict":
        {"kind": "inconclusive", "reason": "hang", "expectation": "no_expectation"}});
    // Its figure could not be read, so it is absent rather than zero.
    all[6]["scenarios"][1]["cases"][0]["outcomes"][0]["used_bytes"]["gpu0"] = json!(null);
    // A question that the user did not allow to run shows nothing about the machine.
    all[7]["scenarios"][1] = json!({"name": "context/two", "sha256": "00ff", "verdict":
        {"kind": "skipped", "reason": "hazard_not_allowed", "expectation": "no_expectation"}});
    let fleet = merged(&all);
    let verdict =
        "verdict: yes (reproduced) / no (not_reproduced); trap 1 a: context on gpu0 / absent";
    let facts = "trap 1 a: context on gpu0 / CUDA_ERROR_NO_DEVICE";
    assert_eq!(
        told(&fleet),
        [
            difference("context/one", &["node-01"], verdict),
            difference("context/one", &["node-02"], facts),
            difference(
                "context/two",
                &["node-05"],
                "verdict: yes (reproduced) / no answer: hang"
            ),
            difference(
                "context/two",
                &["node-04"],
                "trap/gpu0: +527 MiB / 0 (-527 MiB)"
            ),
            difference(
                "context/two",
                &["node-03"],
                "trap/gpu0: +527 MiB / +600 MiB (+73 MiB)"
            ),
        ]
    );
    let usual = &answers(&fleet).usual[1];
    assert_eq!(
        (usual.no_answer.as_slice(), usual.not_asked.as_slice()),
        (&[5][..], &[7][..])
    );
    assert_eq!(
        (
            usual.outcomes[0].machines,
            usual.used_bytes["trap/gpu0"].count
        ),
        (7, 4)
    );
}

#[test]
fn of_two_equally_frequent_outcomes_none_is_usual() {
    let mut all = fleet_of(4);
    for report in &mut all[2..] {
        report["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: z")]);
    }
    let fleet = merged(&all);
    let [one] = fleet.differences.as_slice() else {
        panic!("{:?}", fleet.differences)
    };
    assert_eq!(
        (one.machines.len(), one.usual_machines),
        (2, 2),
        "who reads it can tell that it is a tie"
    );
    assert!(
        answers(&fleet).usual[0].used_bytes.is_empty(),
        "there are no usual members to take figures of"
    );
}

#[test]
fn mixed_attempts_are_an_outcome_unless_probabilistic() {
    let mut all = fleet_of(5);
    let outcomes = json!([{"count": 4, "facts": [seen("1 a: context on gpu0")]}, {"count": 1, "facts": [seen("1 a: 700")]}]);
    all[3]["scenarios"][0]["cases"][0]["outcomes"] = outcomes.clone();
    assert_eq!(told(&merged(&all))[0].1, ["node-03"]);
    // Which of the two is more frequent is a matter of chance.
    let mut both = all.clone();
    both[2]["scenarios"][0]["cases"][0]["outcomes"] = json!([outcomes[1], outcomes[0]]);
    assert_eq!(told(&merged(&both))[0].1, ["node-02", "node-03"]);
    for report in &mut all {
        report["scenarios"][0]["nondeterministic"] = json!(true);
    }
    assert_eq!(told(&merged(&all)), []);
}

#[test]
fn machines_are_compared_within_their_group_only() {
    let mut all = fleet_of(6);
    let outcome = "/scenarios/0/cases/0/outcomes/0/facts";
    type Change = fn(&mut Value);
    let changes: [Change; 5] = [
        |report| report["machine"]["driver_version"] = json!("590.1"),
        |report| report["machine"]["gpus"][0]["mig"] = json!(true),
        |report| report["machine"]["gpus"][0]["name"] = json!("B"),
        |report| {
            report["run"]["co_tenants"] =
                json!([{"uuid": "GPU-1", "used_bytes": 1, "processes": null}])
        },
        |report| report["scenarios"][0]["cases"][0]["not_counted"] = json!({"contaminated": 2}),
    ];
    for (report, change) in all.iter_mut().zip(changes) {
        change(report);
        *report.pointer_mut(outcome).unwrap() = json!([seen("1 a: other")]);
    }
    let fleet = merged(&all);
    // The property that puts them in another group is a difference from the rest of the fleet.
    let facts = [
        difference("machine: GPU model", &["node-02"], "GPU model: H / B"),
        difference("machine: MIG", &["node-01"], "MIG: no / yes"),
        difference("machine: driver", &["node-00"], "driver: 580.1 / 590.1"),
    ];
    let mut found = told(&fleet);
    found.sort();
    assert_eq!(found, facts);
    let sizes: Vec<usize> = fleet
        .groups
        .iter()
        .map(|group| group.machines.len())
        .collect();
    assert_eq!(
        sizes,
        [6, 2, 1, 1, 1, 1],
        "the largest first; two are disturbed by others"
    );
    assert!(fleet.groups[0].key.is_of_facts && fleet.groups[1].key.shared);
    // One disturbed attempt of twenty may occur on an idle machine; two show that other processes were active.
    for (counted, disturbed, is_shared) in [([9, 10], 1, false), ([9, 9], 2, true)] {
        let mut one = fleet_of(1);
        for (at, count) in counted.into_iter().enumerate() {
            one[0]["scenarios"][at]["cases"][0]["outcomes"][0]["count"] = json!(count);
        }
        one[0]["scenarios"][0]["cases"][0]["not_counted"] = json!({"contaminated": disturbed});
        assert_eq!(
            answers(&merged(&one)).key.shared,
            is_shared,
            "{disturbed} of 20"
        );
    }
    // Other libcudarts form other groups of the same machine.
    let mut both = fleet_of(1);
    let other = both[0]["scenarios"][0].clone();
    both[0]["scenarios"].as_array_mut().unwrap().push(other);
    both[0]["scenarios"][2]["libcudart"]["version"] = json!("12.9");
    let fleet = merged(&both);
    assert_eq!(
        fleet
            .groups
            .iter()
            .filter(|group| !group.key.is_of_facts)
            .map(|group| &group.machines[..])
            .collect::<Vec<_>>(),
        [[0], [0]]
    );
}

#[test]
fn a_question_that_was_asked_otherwise_is_another_one() {
    let mut all = fleet_of(5);
    all[4]["scenarios"][0]["asked"] = json!("beef");
    all[4]["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: other")]);
    all[3]["scenarios"][0] = json!({"name": "context/one", "sha256": "00ff", "libcudart": {"version": "13.0"}, "verdict":
        {"kind": "skipped", "reason": "no_package", "expectation": "no_expectation"}});
    let fleet = merged(&all);
    let names: Vec<&str> = fleet
        .questions
        .iter()
        .map(|question| question.name.as_str())
        .collect();
    assert_eq!(
        names[..3],
        [
            "context/one",
            "context/one (measured differently: beef)",
            "context/two"
        ]
    );
    assert_eq!(
        told(&fleet),
        [difference(
            "context/one",
            &["node-03"],
            "verdict: yes (reproduced) / no answer: no_package"
        )]
    );
}

#[test]
fn contradicting_reports_of_a_machine_are_a_conflict() {
    let mut all = fleet_of(3);
    all[0]["scenarios"][0]["verdict"] =
        json!({"kind": "not_reproduced", "expectation": "unexpected"});
    for (change, what) in [
        ("2026-11-21T10:00:00Z", "later"),
        ("2026-11-19T10:00:00Z", "earlier"),
    ] {
        let mut liar = all[0].clone();
        liar["run"]["started_at"] = json!(change);
        liar["scenarios"][0]["verdict"] =
            json!({"kind": "reproduced", "expectation": "as_expected"});
        let fleet = merged(&[&all[..], &[liar]].concat());
        let machine = &fleet.machines[0];
        assert!(
            machine.has_conflict() && machine.conflicts[0].ends_with("disagree on context/one"),
            "{machine:?}"
        );
        assert_eq!(
            (
                machine.unexpected,
                fleet.input.buckets.get(&Bucket::Disagreeing)
            ),
            (1, Some(&1)),
            "{what}"
        );
        let text = super::render(&fleet, super::super::FleetForm::Text, 200, None);
        assert!(
            text.contains("disagree on context/one")
                && text.contains("unexpected verdicts on 1 machine"),
            "{text}"
        );
    }
    // With another driver, its answers are in another group, and one machine cannot have both.
    let mut other = all[1].clone();
    other["machine"]["driver_version"] = json!("590.1");
    other["run"]["started_at"] = json!("2026-11-21T10:00:00Z");
    let fleet = merged(&[&all[..], &[other]].concat());
    assert!(
        fleet.machines[1].conflicts[0].contains("disagree on driver"),
        "{:?}",
        fleet.machines[1]
    );
    assert!(!fleet.machines[2].has_conflict());
}

#[test]
fn machines_without_cuda_lost_gpus_and_left_out_reports_are_all_there() {
    let mut all = fleet_of(9);
    let reason =
        |word: &str| json!({"kind": "skipped", "reason": word, "expectation": "no_expectation"});
    for scenario in all[1]["scenarios"].as_array_mut().unwrap() {
        *scenario =
            json!({"name": scenario["name"], "sha256": "00ff", "verdict": reason("no_nvml")});
    }
    all[1]["machine"]["gpus"] = json!([]);
    all[1]["machine"]["unavailable"] =
        json!([{"reason": "no_libcuda", "detail": "x".repeat(1000)}]);
    for scenario in all[2]["scenarios"].as_array_mut().unwrap() {
        scenario["cases"] = json!([{"name": "trap", "outcomes": [{"count": 1, "facts": [seen("1 cuInit: CUDA_ERROR_SYSTEM_NOT_READY")]}]}]);
    }
    let gpus = |count: usize| {
        (0..count).map(|gpu| json!({"uuid": format!("GPU-9{gpu}"), "name": "H", "mig": false}))
    };
    for (at, report) in all.iter_mut().enumerate().skip(3) {
        report["machine"]["gpus"] = gpus(if at == 4 { 7 } else { 8 }).collect();
        for gpu in report["machine"]["gpus"].as_array_mut().unwrap() {
            gpu["uuid"] = json!(format!("{}-{at}", gpu["uuid"].as_str().unwrap()));
        }
    }
    all[0]["scenarios"] = json!([]);
    all[0]["machine"]["gpus"] = json!([]);
    all[0]["machine"]["gpus"] = gpus(8).collect();
    all[3]["provenance"] = json!("simulated");
    let fleet = merged(&all);
    let states: Vec<(bool, Option<Bucket>)> = fleet
        .machines
        .iter()
        .map(|it| (it.no_cuda.is_some(), it.left_out))
        .collect();
    assert_eq!(fleet.machines.len(), 9);
    assert_eq!(states.iter().filter(|it| it.0).count(), 2);
    let reasons: Vec<&str> = fleet
        .machines
        .iter()
        .filter_map(|it| it.no_cuda.as_deref())
        .collect();
    assert!(
        reasons[0].chars().count() == 200 && reasons[1] == "CUDA_ERROR_SYSTEM_NOT_READY",
        "{reasons:?}"
    );
    let left_out: Vec<Bucket> = states.iter().filter_map(|it| it.1).collect();
    assert_eq!(left_out, [Bucket::Empty, Bucket::Simulated]);
    assert_eq!(
        told(&fleet),
        [difference(
            "machine: number of GPUs",
            &["node-04"],
            "number of GPUs: 8 / 7"
        )]
    );
    // Within a label, the only machine of its kind is usual.
    for (at, report) in all.iter_mut().enumerate() {
        report["run"]["labels"]["pool"] = json!(if at == 4 { "small" } else { "large" });
    }
    let texts: Vec<Vec<u8>> = all
        .iter()
        .map(|report| report.to_string().into_bytes())
        .collect();
    let fleet = merged_with(
        &texts,
        Rule {
            group_by: Some("pool".into()),
            ..measured()
        },
    );
    assert_eq!(told(&fleet), []);
    assert!(
        fleet
            .groups
            .iter()
            .any(|group| group.key.label.as_deref() == Some("pool=small"))
    );
}

#[test]
fn later_report_replaces_and_partial_reports_are_joined() {
    let mut all = fleet_of(3);
    let mut later = all[0].clone();
    later["run"]["started_at"] = json!("2026-11-21T10:00:00Z");
    later["scenarios"][0]["cases"][0]["outcomes"][0]["facts"] = json!([seen("1 a: other")]);
    let mut half = later.clone();
    half["scenarios"].as_array_mut().unwrap().truncate(1);
    all.insert(0, half);
    let fleet = merged(&all);
    assert_eq!(
        fleet.machines[0].reports.len(),
        2,
        "each of the two answers what the other does not"
    );
    assert_eq!(told(&fleet)[0].1, ["node-00"]);
    assert_eq!(fleet.input.buckets, BTreeMap::from([(Bucket::Merged, 4)]));
    all.insert(0, later);
    let fleet = merged(&all);
    let buckets = [
        (Bucket::Merged, 3),
        (Bucket::Duplicate, 1),
        (Bucket::Disagreeing, 1),
    ];
    assert_eq!(fleet.input.buckets, BTreeMap::from(buckets));
    assert_eq!(
        (fleet.machines.len(), fleet.machines[0].started_at.as_str()),
        (3, "2026-11-21T10:00:00Z")
    );
    assert_eq!(fleet.input.from.as_deref(), Some("2026-11-20T10:00:00Z"));
}

#[test]
fn machines_are_named_by_label_or_by_their_gpus() {
    let mut all = fleet_of(4);
    all[0]["run"]["labels"] = json!({});
    all[1]["run"]["labels"] = json!({"host": "h"});
    // A report without a label, from the same GPUs as a report with one.
    all[2]["run"]["labels"] = json!({});
    all[2]["machine"]["gpus"][0]["uuid"] = json!("GPU-000000000003");
    all[2]["scenarios"].as_array_mut().unwrap().truncate(1);
    all[2]["run"]["started_at"] = json!("2026-11-21T10:00:00Z");
    let fleet = merged(&all);
    let names: Vec<&str> = fleet
        .machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    assert_eq!(names, ["GPU-00000000", "h", "node-03"]);
    assert_eq!(fleet.machines[2].reports.len(), 2);
    // The same UUID under two names: both are kept, and both report it.
    let mut clash = fleet_of(2);
    clash[1]["machine"]["gpus"][0]["uuid"] = clash[0]["machine"]["gpus"][0]["uuid"].clone();
    let fleet = merged(&clash);
    let warnings: Vec<&str> = fleet
        .machines
        .iter()
        .flat_map(|it| &it.warnings)
        .map(String::as_str)
        .collect();
    assert_eq!(
        warnings,
        ["node-01", "node-00"].map(|name| format!("has a GPU with the same UUID as one of {name}"))
    );
}

#[test]
fn of_two_machines_with_one_name_none_is_hidden() {
    // A later report with the name of another machine, and UUIDs that begin alike: they are shown in
    // full. A label that looks like such a name is a different name.
    let mut all = fleet_of(3);
    for report in &mut all[..2] {
        report["run"]["labels"]["node"] = json!("node-02");
    }
    all[1]["run"]["started_at"] = json!("2026-11-21T10:00:00Z");
    all[1]["scenarios"][0]["verdict"]["kind"] = json!("not_reproduced");
    all[2]["run"]["labels"]["node"] = json!("node-02 (GPU-000000000000)");
    let fleet = merged(&all);
    assert_eq!(
        fleet.input.buckets,
        BTreeMap::from([(Bucket::Merged, 3)]),
        "none is a later report of the other"
    );
    let names: Vec<&str> = fleet
        .machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    let [first, second] = ["node-02 (GPU-000000000000)", "node-02 (GPU-000000000001)"];
    assert_eq!(names, [first, &format!("{first} (2)"), second]);
    assert_eq!(
        told(&fleet),
        [difference(
            "context/one",
            &[second],
            "verdict: yes (reproduced) / no (not_reproduced)"
        )]
    );
    // Reports that share a GPU, directly or through another report, belong to one machine: some see only a part of it.
    for (at, gpus) in [["a", "b"], ["b", "c"], ["c", "d"]].into_iter().enumerate() {
        all[at]["run"]["labels"]["node"] = json!("node-00");
        all[at]["machine"]["gpus"] =
            json!(gpus.map(|uuid| json!({"uuid": uuid, "name": "H", "mig": false})));
    }
    let fleet = merged(&all);
    assert_eq!(
        (fleet.machines.len(), fleet.machines[0].name.as_str()),
        (1, "node-00")
    );
}

#[test]
fn sole_report_counts_despite_future_date() {
    let mut all = fleet_of(4);
    all[2]["run"]["started_at"] = json!("2099-01-01T00:00:00Z");
    let fleet = merged(&all);
    let ahead: Vec<bool> = fleet.machines.iter().map(|it| it.dated_ahead).collect();
    assert_eq!(ahead, [false, false, true, false]);
    assert_eq!(
        fleet.machines[2].warnings,
        ["a report is dated in the future: 2099-01-01T00:00:00Z"]
    );
    assert_eq!(fleet.input.to.as_deref(), Some("2026-11-20T10:00:00Z"));
}

#[test]
fn whatever_is_read_falls_into_one_bucket() {
    let good = fleet_of(2);
    let text = good[0].to_string();
    let changed = |pointer: &str, value: Value| {
        let mut changed = good[0].clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed.to_string()
    };
    let twice = text.replacen(
        "\"complete\":true",
        "\"complete\":true,\"complete\":true",
        1,
    );
    // As written by the program: the type is at the beginning, but it is not trusted.
    let written = |text: &str| {
        let rest = text.replacen("\"must_understand\":[\"compact\"],", "", 1);
        format!(
            "{{\"must_understand\":[\"compact\"],{}",
            rest.strip_prefix('{').unwrap()
        )
    };
    let all: Vec<(Bucket, String)> = vec![
        (Bucket::Merged, written(&text).replace("node-00", "node-08")),
        (
            Bucket::Unsupported,
            written(&changed("/schema/major", json!(2))),
        ),
        (
            Bucket::Invalid,
            written(&changed("/schema/name", json!("something-else"))),
        ),
        (Bucket::Merged, text.clone()),
        (Bucket::Truncated, String::new()),
        (Bucket::Invalid, "NaN".into()),
        (Bucket::Invalid, "\u{0}\u{0}".into()),
        (Bucket::Invalid, twice),
        (
            Bucket::Invalid,
            text.replace("\"count\":5", "\"count\":NaN"),
        ),
        (Bucket::Invalid, text.replace("\"count\":5", "\"count\":-1")),
        (
            Bucket::Invalid,
            changed("/run/started_at", json!("yesterday")),
        ),
        (
            Bucket::Invalid,
            changed("/run/labels/node", json!("x".repeat(300))),
        ),
        (
            Bucket::Unsupported,
            changed("/must_understand", json!(["compact", "weights"])),
        ),
        (
            Bucket::Unsupported,
            changed("/schema/name", json!("cuda-pitfalls-trace")),
        ),
        (
            Bucket::Simulated,
            changed("/provenance", json!("simulated")),
        ),
    ];
    let mut counts: BTreeMap<Bucket, u64> = BTreeMap::new();
    for (bucket, _) in &all {
        *counts.entry(*bucket).or_default() += 1;
    }
    let texts: Vec<Vec<u8>> = all
        .iter()
        .map(|(_, text)| text.clone().into_bytes())
        .collect();
    let fleet = merged_with(&texts, measured());
    for one in &fleet.input.not_merged {
        let at: usize = one
            .path
            .rsplit('/')
            .next()
            .unwrap()
            .trim_end_matches(".json")
            .parse()
            .unwrap();
        assert_eq!(
            (one.bucket, !one.why.is_empty()),
            (all[at].0, true),
            "{at}: {}",
            one.why
        );
    }
    assert_eq!(fleet.input.buckets, counts);
    assert_eq!(fleet.machines.len(), 2);
    // The simulated reports are a separate fleet.
    let rule = Rule {
        provenance: Provenance::Simulated,
        ..measured()
    };
    let fleet = merged_with(&texts, rule);
    assert_eq!(fleet.input.buckets[&Bucket::Merged], 1);
    assert!(
        fleet.input.buckets[&Bucket::Measured] >= 2
            && !fleet.input.buckets.contains_key(&Bucket::Simulated)
    );
    assert_eq!(fleet.provenance, Provenance::Simulated);
}

#[test]
fn a_source_of_many_that_are_no_reports_is_left() {
    let lines = 400_000;
    let file = tempfile::Builder::new()
        .suffix(".ndjson")
        .tempfile()
        .unwrap();
    fs::write(
        file.path(),
        b"{\"must_understand\":[\"compact\"]}\n".repeat(lines),
    )
    .unwrap();
    let pool = DocumentPool::new(measured());
    gather(&[file.path().to_path_buf()], &pool);
    let fleet = merge(pool, None, |_| None);
    assert!(
        (100_000..200_000).contains(&fleet.input.documents),
        "{}",
        fleet.input.documents
    );
    let why = &fleet.input.not_merged[0].why;
    assert!(
        why.contains("100000 of its documents are not reports"),
        "the limit is named: {why}"
    );
}

#[test]
fn what_is_named_of_a_bucket_is_bounded() {
    let texts: Vec<Vec<u8>> = vec![b"{}\n".repeat(3000)];
    let fleet = merged_with(&texts, measured());
    assert_eq!(
        fleet.input.buckets,
        BTreeMap::from([(Bucket::Invalid, 1000)]),
        "the source is left"
    );
    assert_eq!(fleet.input.not_merged.len(), MOST_EXAMPLES);
    let why = &fleet.input.not_merged[0].why;
    assert!(
        why.contains("1000 consecutive lines are not reports"),
        "the limit is named: {why}"
    );
}

#[test]
fn measured_claim_on_simulated_machine_is_invalid() {
    let good = fleet_of(1).remove(0);
    for (pointer, key, value) in [
        ("/run", "on", json!("sim:h200-x2")),
        (
            "/machine",
            "libraries",
            json!([{"library": "x", "path": "x", "simulated": true}]),
        ),
    ] {
        let mut changed = good.clone();
        changed.pointer_mut(pointer).unwrap()[key] = value;
        let fleet = merged(&[changed]);
        assert_eq!(fleet.input.buckets, BTreeMap::from([(Bucket::Invalid, 1)]));
        assert!(
            fleet.input.not_merged[0].why.contains("contradicts itself"),
            "{:?}",
            fleet.input.not_merged
        );
    }
    let mut real = good.clone();
    real["run"]["on"] = json!("cuda");
    real["machine"]["libraries"] = json!([{"library": "x", "path": "x", "simulated": false}]);
    assert_eq!(
        merged(&[real]).input.buckets,
        BTreeMap::from([(Bucket::Merged, 1)])
    );
}
