//! `compare` on committed reports, on copies of them with one change, and on simulated runs.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use common::{Ran, Scratch, against_schema, read_document, read_json, root};

/// Returns a committed report.
fn committed(name: &str) -> String {
    root()
        .join("reports")
        .join(name)
        .to_string_lossy()
        .into_owned()
}

fn compare(arguments: &[&str]) -> Ran {
    let scratch = Scratch::new();
    let mut command = scratch.command(&[&["compare"], arguments].concat());
    command.env("COLUMNS", "400");
    scratch.ran(command)
}

fn lines(ran: &Ran) -> Vec<&str> {
    ran.stdout.lines().collect()
}

#[test]
fn one_libcudart_is_held_against_another() {
    let path = committed("h200-x2-libcudart-all");
    let ran = compare(&[&path, &path, "--libcudart", "11.7,13.4"]).ended(1, "unexpected");
    let wanted = "- context/set-device-is-eager: verdict not_reproduced -> reproduced; trap: at select: contexts no GPU -> gpu1";
    assert!(lines(&ran).contains(&wanted), "{}", ran.stdout);
    assert!(
        lines(&ran).contains(&"libcudart 11.7 of A is compared with 13.4 of B"),
        "{}",
        ran.stdout
    );
    compare(&[&path, &path, "--libcudart", "11.6,13.4"])
        .ended(2, "usage")
        .says("A has no results for libcudart 11.6; it has 11.7, 12.1");
    for wrong in ["12.9", "12.9,", "12.9,13.0,13.1", "a,b"] {
        compare(&[&path, &path, "--libcudart", wrong]).ended(2, "usage");
    }
}

#[test]
fn recordings_are_compared_as_text_and_json() {
    let scratch = Scratch::new();
    let edited = |change: fn(&mut Value)| {
        let mut report: Value = read_json(root().join("reports/h200-x2/report.json"));
        let mut scenarios = report["scenarios"]
            .as_array_mut()
            .expect("scenarios")
            .iter_mut();
        let found =
            scenarios.find(|scenario| scenario["name"] == "visibility/empty-mask-hides-all");
        change(found.expect("it is in the report"));
        scratch.file("edited.json", report.to_string())
    };
    // A different judgment of the same recordings by another version of the program is not a difference.
    let path = edited(|scenario| {
        scenario["verdict"]["kind"] = "not_reproduced".into();
        scenario["cases"][0]["outcomes"][0]["observation"]["steps"][0]["status"]["code"] = 1.into();
    });
    compare(&[&path, &committed("h200-x2")])
        .ended(0, "ok")
        .prints("50 the same");
    let path = edited(|scenario| {
        for attempt in scenario["cases"][0]["attempts"]
            .as_array_mut()
            .expect("attempts")
        {
            let events = attempt["events"].as_array_mut().expect("events").iter_mut();
            for event in events.filter(|event| event["event"] == "end" && event["step"] == 0) {
                event["status"] = json!({"code": 0, "name": "CUDA_SUCCESS"});
            }
        }
    });
    let ran = compare(&[&path, &committed("h200-x2")]).ended(1, "unexpected");
    let wanted = "- visibility/empty-mask-hides-all: verdict not_reproduced, unexpected -> reproduced; \
                  trap: at init: status success -> CUDA_ERROR_NO_DEVICE";
    assert_eq!(
        lines(&ran)[4..],
        [
            "",
            "behaves differently",
            wanted,
            "1 different, 49 the same"
        ]
    );
    let document = compare(&[&path, &committed("h200-x2"), "--json"]).json();
    assert_eq!(
        document["schema"],
        json!({"name": "cuda-pitfalls-comparison", "major": 1, "minor": 0})
    );
    assert_eq!(
        against_schema("comparison", &document),
        Vec::<String>::new()
    );
    assert_eq!(
        (&document["same"], &document["of"]),
        (&49.into(), &"report".into())
    );
    assert_eq!(document["changed"].as_array().map(Vec::len), Some(1));
    let change = json!({"fact": "verdict", "a": "not_reproduced, unexpected", "b": "reproduced"});
    assert_eq!(document["changed"][0]["changes"][0], change);
    assert_eq!(document["a"]["name"], path.as_str());
}

#[test]
fn a_folder_with_a_survey_means_the_survey() {
    let (mask, first_look) = (
        committed("survey-mask-h200-x2"),
        committed("survey-mask-h200-x2-first-look"),
    );
    let folders = compare(&[&mask, &first_look, "--json"]).json();
    assert_eq!(
        (&folders["of"], &folders["a"]["name"]),
        (&"mask".into(), &mask.as_str().into())
    );
    let file = |folder: &str, name: &str| format!("{folder}/{name}");
    let mut files = compare(&[
        &file(&mask, "survey-mask.json"),
        &file(&first_look, "survey-mask.json"),
        "--json",
    ])
    .json();
    for side in ["a", "b"] {
        files[side]["name"] = folders[side]["name"].clone();
    }
    assert_eq!(folders, files);
    // The controls next to it are still a report like any other.
    let controls = compare(&[
        &file(&mask, "report.json"),
        &file(&first_look, "report.json"),
        "--json",
    ])
    .json();
    assert_eq!(controls["of"], "report");
    let (calls, env) = (
        committed("survey-calls-h200-x2"),
        committed("survey-env-h200-x2"),
    );
    compare(&[&calls, &calls]).ended(0, "ok");
    compare(&[&env, &env]).ended(0, "ok");
    compare(&[&calls, &env])
        .ended(2, "usage")
        .says("A is a survey of calls, B is a survey of env");
    compare(&[&mask, &committed("h200-x2")])
        .ended(2, "usage")
        .says("A is a survey, B is a report");
}

#[test]
fn a_folder_with_two_surveys_means_neither() {
    let scratch = Scratch::new();
    for (kind, folder) in [
        ("calls", "survey-calls-h200-x2"),
        ("env", "survey-env-h200-x2"),
    ] {
        let name = format!("survey-{kind}.json");
        let text = read_document(PathBuf::from(committed(folder)).join(&name));
        scratch.file(&name, text);
    }
    compare(&[
        &scratch.path().to_string_lossy(),
        &committed("survey-env-h200-x2"),
    ])
    .ended(2, "usage")
    .says("survey-calls.json, survey-env.json");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let scratch = Scratch::new();
    let good = committed("h200-x1");
    let path = scratch.at("bad.json");
    let schema = |name: &str, major: u32| {
        format!("{{\"schema\":{{\"name\":\"{name}\",\"major\":{major},\"minor\":0}}}}")
    };
    let newer = [
        schema("cuda-pitfalls-report", 99),
        schema("cuda-pitfalls-survey", 99),
        schema("other", 1),
    ];
    for text in ["".to_string(), "[]".to_string()].iter().chain(&newer) {
        fs::write(&path, text).expect("a file of our own");
        for pair in [[good.as_str(), &path], [&path, good.as_str()]] {
            let ran = compare(&[&pair[..], &["--json"]].concat())
                .ended(2, "usage")
                .says("bad.json");
            assert_eq!(ran.json()["exit"]["code"], 2);
        }
    }
    compare(&[&good, &format!("{path}.absent")]).ended(2, "usage");
}

/// Returns the parts of a document below a key; empty if it does not have the key.
fn parts<'v>(value: &'v mut Value, key: &str) -> &'v mut [Value] {
    value
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// Returns a report as another version of the program writes it: other words, another number, and all parts with an
/// arbitrary order in another order.
fn written_otherwise(mut report: Value) -> Value {
    report["run"]["version"] = "99.0.0".into();
    report["schema"]["minor"] = 99.into();
    parts(&mut report, "scenarios").reverse();
    for scenario in parts(&mut report, "scenarios") {
        for words in ["question", "workaround"] {
            scenario[words] = "in other words".into();
        }
        scenario["sha256"] = "0123456789abcdef".repeat(4).into();
        scenario["verdict"]["detail"] = "in other words".into();
        // The seed of a full report determines the order of its cases.
        if scenario["plan"].is_null() {
            parts(scenario, "cases").reverse();
        }
        for case in parts(scenario, "cases") {
            parts(case, "outcomes").reverse();
            for outcome in parts(case, "outcomes") {
                if let Some(observation) = outcome.get_mut("observation") {
                    observation["end"] = "in other words".into();
                }
                parts(outcome, "facts").reverse();
                for change in parts(outcome, "facts") {
                    change[2].as_array_mut().expect("facts").reverse();
                }
            }
        }
    }
    report
}

/// Returns the differences of a merge of two reports of one GPU model as two machines: each question and case, or only
/// the question if its verdict differs or is missing on one side.
fn merged(scratch: &Scratch, reports: [&Value; 2]) -> BTreeSet<(String, String)> {
    let machines =
        reports
            .map(Value::clone)
            .into_iter()
            .zip(["a", "b"])
            .map(|(mut report, node)| {
                report["run"]["labels"] = json!({ "node": node });
                scratch.file(&format!("{node}.json"), report.to_string())
            });
    let machines: Vec<String> = machines.collect();
    let out = scratch.at("fleet.json");
    scratch
        .run(&["fleet", "merge", "--out", &out, &machines[0], &machines[1]])
        .ended(0, "ok");
    let fleet: Value = read_json(out);
    let mut found = BTreeSet::new();
    for difference in fleet["differences"].as_array().expect("differences") {
        let question = &fleet["questions"]
            [difference["question"].as_u64().expect("an index") as usize]["name"];
        if question
            .as_str()
            .is_some_and(|name| name.starts_with("machine: "))
        {
            continue;
        }
        let what = &difference["what"];
        let facts = what["facts"].as_array().into_iter().flatten();
        let cases = facts.map(|fact| fact["case"].as_str().unwrap_or_default());
        let verdict =
            Some("").filter(|_| what["verdict_differs"] == true || what["kind"] == "no_answer");
        found.extend(
            cases
                .chain(verdict)
                .map(|case| (question.as_str().expect("a name").into(), case.into())),
        );
    }
    found
}

/// Returns the same differences by a comparison, unless the question or the machine explains them. A fleet does not
/// check whether a verdict was expected.
fn compared(scratch: &Scratch, reports: [&Value; 2]) -> (u64, BTreeSet<(String, String)>) {
    let paths = reports
        .map(Value::to_string)
        .into_iter()
        .zip(["a.json", "b.json"]);
    let paths: Vec<String> = paths.map(|(text, name)| scratch.file(name, text)).collect();
    let comparison = scratch
        .run(&["compare", "--json", &paths[0], &paths[1]])
        .json();
    let mut found = BTreeSet::new();
    for difference in comparison["changed"].as_array().expect("changes") {
        for change in difference["changes"].as_array().expect("changes") {
            let case = change["case"].as_str().unwrap_or_default();
            let [a, b] = ["a", "b"].map(|side| {
                change[side]
                    .as_str()
                    .unwrap_or_default()
                    .split([',', ':'])
                    .next()
            });
            if change["fact"] == "verdict" && a == b {
                continue;
            }
            found.insert((
                difference["name"].as_str().expect("a name").into(),
                case.into(),
            ));
        }
    }
    for only in ["only_in_a", "only_in_b"]
        .iter()
        .flat_map(|side| comparison[side].as_array().expect("a list"))
    {
        let name = only["name"].as_str().filter(|_| !only["reason"].is_null());
        found.extend(name.map(|name| (name.into(), String::new())));
    }
    (comparison["same"].as_u64().expect("a number"), found)
}

#[test]
fn order_and_wording_of_other_versions_are_ignored() {
    let scratch = Scratch::new();
    let whole: Value = read_json(root().join("reports/h200-x2-added/report.json"));
    let compact: Value = read_json(root().join("reports/compact/h100-x1-all.json"));
    for (report, expected) in [(&whole, 4), (&compact, 110)] {
        let other = written_otherwise(report.clone());
        for reports in [[report, &other], [&other, report]] {
            assert_eq!(compared(&scratch, reports), (expected, BTreeSet::new()));
            assert_eq!(merged(&scratch, reports), BTreeSet::new());
        }
    }
}

/// A comparison and a merge agree on two machines of one group.
#[test]
fn two_machines_differ_in_a_fleet_as_they_do_in_a_comparison() {
    let scratch = Scratch::new();
    let pairs = [
        ["compact/h100-x1-all.json", "compact/h100-x1-all-again.json"],
        [
            "compact/h100-x1-all.json",
            "compact/h100-x1-stale-stream.json",
        ],
        ["compact/h100-x1-all.json", "h100-x1/report.json"],
        ["compact/h100-x1-all-again.json", "h100-x1/report.json"],
        ["compact/h100-x2-all.json", "compact/h100-x2-all-again.json"],
        ["compact/h100-x2-all.json", "h100-x2-added/report.json"],
        ["compact/h200-x2-all.json", "h200-x2/report.json"],
        ["compact/h200-x2-all.json", "h200-x2-contexts/report.json"],
        ["compact/h200-x2-all.json", "h200-x2-corrected/report.json"],
        ["compact/h200-x2-all.json", "h200-x2-second/report.json"],
        [
            "h200-x2-framework-again/report.json",
            "h200-x2-framework/report.json",
        ],
        [
            "survey-calls-h200-x2/report.json",
            "survey-calls-h200-x2/again/report.json",
        ],
    ];
    let mut differences = 0;
    for pair in pairs {
        let [a, b]: [Value; 2] = pair.map(|name| read_json(root().join("reports").join(name)));
        let (same, found) = compared(&scratch, [&a, &b]);
        assert!(same > 0, "{pair:?}");
        assert_eq!(found, merged(&scratch, [&a, &b]), "{pair:?}");
        differences += found.len();
    }
    assert!(differences >= 5, "the pairs show too little: {differences}");
}
