//! The JSON Schemas: committed, the same as the program prints, and true of scenarios and reports.

use crate::common;

use std::fs;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::explain::{Explainer, Query};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use common::{Scratch, committed_reports, root};

/// Returns the schema that the program prints for a kind of document.
fn printed(of: &str) -> String {
    Scratch::new().run(&["schema", of]).good().stdout
}

fn validator(of: &str) -> Validator {
    let schema: Value = serde_json::from_str(&printed(of)).expect("a schema is JSON");
    jsonschema::meta::validate(&schema).expect("a schema is a schema");
    jsonschema::validator_for(&schema).expect("a schema can be used")
}

/// Returns the errors of a schema for a document.
fn errors(validator: &Validator, document: &Value) -> Vec<String> {
    validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

fn valid(validator: &Validator, what: &str, document: &Value) {
    let errors = errors(validator, document);
    assert!(
        errors.is_empty(),
        "{what}: {:#?}",
        errors.iter().take(10).collect::<Vec<_>>()
    );
}

fn to_json(source: &str) -> Value {
    let table: toml::Table = toml::from_str(source).expect("TOML");
    serde_json::to_value(table).expect("TOML has a form in JSON")
}

#[test]
fn every_twin_is_a_scenario_about_calls() {
    let all = cuda_pitfalls::catalogue::select_scenarios(&[]).expect("valid scenarios");
    let named = all
        .iter()
        .filter_map(|scenario| Some((scenario, scenario.twin.as_ref()?)));
    let unknown: Vec<String> = named
        .clone()
        .filter(|(_, twin)| {
            !all.iter()
                .any(|other| other.name == **twin && other.twin.is_none())
        })
        .map(|(scenario, twin)| format!("{}: {twin}", scenario.name))
        .collect();
    assert!(unknown.is_empty() && named.count() >= 40, "{unknown:?}");
}

#[test]
fn every_scenario_and_every_self_test_validates() {
    let validator = validator("scenario");
    let mut all: Vec<(String, String)> = catalogue::embedded_files()
        .map(|it| (it.path.to_string(), it.source.to_string()))
        .collect();
    assert!(all.len() >= 20, "only {} scenarios", all.len());
    for entry in fs::read_dir(root().join("tests/selftest"))
        .expect("the folder of self-tests")
        .flatten()
    {
        let source = fs::read_to_string(entry.path()).expect("a self-test can be read");
        all.push((entry.path().display().to_string(), source));
    }
    for (path, source) in all {
        valid(&validator, &path, &to_json(&source));
    }
}

#[test]
fn an_unknown_key_does_not_validate_anywhere_in_a_scenario() {
    let validator = validator("scenario");
    let good = fs::read_to_string(root().join("tests/selftest/asked.toml"))
        .expect("a self-test can be read");
    assert!(validator.is_valid(&to_json(&good)));
    for (from, to) in [
        ("step_timeout", "surprise = 1\nstep_timeout"),
        (
            "does = \"waits for ever\"",
            "does = \"waits\"\nsurprise = 1",
        ),
        ("exit = \"deadline\"", "exit = \"deadline\", surprise = 1"),
        ("{ pause = {} }", "{ pause = { surprise = 1 } }"),
        ("{ pause = {} }", "{ pause = {}, surprise = 1 }"),
    ] {
        assert!(good.contains(from), "{from}");
        assert!(
            !validator.is_valid(&to_json(&good.replacen(from, to, 1))),
            "{to}"
        );
    }
}

/// No argument of any call is a truth value, none has a key of this name, and no call takes a number
/// in place of its arguments. A definition that several calls share must hold for each of them.
#[test]
fn every_argument_of_every_call_is_checked() {
    let validator = validator("scenario");
    let good = fs::read_to_string(root().join("tests/selftest/asked.toml"))
        .expect("a self-test can be read");
    let mut document = to_json(&good);
    let mut accepts = |call: &str, arguments: Value| {
        document["cases"]["trap"]["steps"] = json!([{ call: arguments }]);
        validator.is_valid(&document)
    };
    let schema: Value = serde_json::from_str(&printed("scenario")).expect("a schema is JSON");
    let calls = schema["$defs"]["step"]["properties"]
        .as_object()
        .expect("calls");
    let mut seen = 0;
    for (call, described) in calls
        .iter()
        .filter(|(_, described)| described["properties"].is_object())
    {
        assert!(!accepts(call, json!(1)), "{call} takes a number");
        assert!(
            !accepts(call, json!({ "surprise": 1 })),
            "{call} takes anything"
        );
        let arguments = described["properties"].as_object().expect("arguments");
        let required: Vec<&str> = described["required"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(Value::as_str)
            .collect();
        // The placeholder of a parameter fits everywhere, except for names, which are texts as well.
        let fits = |name: &str| {
            if name == "arguments" {
                json!([])
            } else {
                json!("${x}")
            }
        };
        let good: Map<String, Value> = required
            .iter()
            .map(|name| (name.to_string(), fits(name)))
            .collect();
        assert!(
            accepts(call, Value::Object(good.clone())),
            "{call} does not take {good:?}"
        );
        for argument in arguments.keys() {
            let mut bad = good.clone();
            bad.insert(argument.clone(), json!(true));
            assert!(
                !accepts(call, Value::Object(bad)),
                "{call} takes a truth value as {argument}"
            );
            seen += 1;
        }
    }
    assert!(seen > 1400, "only {seen} arguments");
}

#[test]
fn a_fresh_report_validates_and_a_damaged_one_does_not() {
    let validator = validator("report");
    let scratch = Scratch::new();
    // One that ends well, one that needs parameters and the runtime, and one that hangs.
    let selectors = [
        "context/set-device-is-eager",
        "visibility/first-invalid-hides-all",
        "tests/selftest/hang.toml",
    ];
    let good = scratch
        .simulated("sim:h200-x2", &selectors, &["--repeat", "1"])
        .json();
    valid(&validator, "a run", &good);
    for pointer in [
        "/schema",
        "/complete",
        "/scenarios/0/verdict/kind",
        "/scenarios/0/cases/0/attempts/0/exit",
        "/run/id",
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{pointer}")) = Value::from(7);
        assert!(!validator.is_valid(&bad), "{pointer} may be 7");
    }
}

#[test]
fn every_committed_report_validates() {
    let validator = validator("report");
    for (name, path) in committed_reports() {
        valid(&validator, &name, &common::read_json(path));
    }
}

/// Compact reports validate like full ones, and so does the document that they are merged into.
#[test]
fn compact_and_merged_documents_validate() {
    let scratch = Scratch::new();
    let ran = scratch.simulated(
        "sim:h200-x2",
        &["memory/context-cost"],
        &["--repeat", "1", "--compact"],
    );
    valid(&validator("report"), "a compact report", &ran.json());
    let (report, out) = (
        scratch.file("compact.json", &ran.stdout),
        scratch.at("fleet.json"),
    );
    let merged = scratch.run(&[
        "fleet",
        "merge",
        "--simulated",
        &report,
        "--out",
        &out,
        "--json",
    ]);
    valid(&validator("fleet"), "a merge", &merged.json());
    valid(
        &validator("fleet-diff"),
        "a diff",
        &scratch.run(&["fleet", "diff", &out, &out, "--json"]).json(),
    );
}

/// `explain --json` for each kind of text: a call, an error, a line, a variable, a symptom, and nothing.
#[test]
fn what_explain_prints_validates() {
    let validator = validator("explanation");
    let explainer = Explainer::embedded();
    for text in [
        "cudaSetDevice",
        "700",
        "304",
        "No CUDA GPUs are available",
        "mask-ignored",
        "torch.cuda.is_available",
        "CUDA_LAUNCH_BLOCKING",
        "500 MiB on GPU 0",
        "banana",
    ] {
        let found = explainer.explain(Query::parse(text));
        let document =
            serde_json::to_value(cuda_pitfalls::render::explain::document(&found)).expect("JSON");
        assert_eq!(
            document["schema"],
            json!({ "name": "cuda-pitfalls-explanation", "major": 1, "minor": 0 })
        );
        valid(&validator, text, &document);
    }
}
