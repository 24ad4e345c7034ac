//! The JSON Schemas: committed, the same as the program prints, and true of scenarios and reports.

mod common;

use std::fs;

use cuda_pitfalls::catalogue;
use jsonschema::Validator;
use serde_json::Value;

use common::{Scratch, committed_reports, root};

/// What the program prints for a kind of document.
fn printed(of: &str) -> String {
    let ran = Scratch::new().run(&["schema", of]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout
}

fn validator(of: &str) -> Validator {
    let schema: Value = serde_json::from_str(&printed(of)).expect("a schema is JSON");
    jsonschema::meta::validate(&schema).expect("a schema is a schema");
    jsonschema::validator_for(&schema).expect("a schema can be used")
}

/// What a schema has against a document.
fn errors(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn to_json(source: &str) -> Value {
    let table: toml::Table = toml::from_str(source).expect("TOML");
    serde_json::to_value(table).expect("TOML has a form in JSON")
}

#[test]
fn the_committed_schemas_are_those_that_the_program_prints() {
    for (of, path) in [
        ("scenario", "scenarios/scenario.schema.json"),
        ("report", "reports/report.schema.json"),
        ("survey-calls", "reports/survey-calls.schema.json"),
        ("survey-mask", "reports/survey-mask.schema.json"),
        ("survey-env", "reports/survey-env.schema.json"),
    ] {
        let printed = printed(of);
        let file = root().join(path);
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            committed == printed,
            "{path} is not what `cuda-pitfalls schema {of}` prints; `cargo xtask bless` writes it anew"
        );
    }
}

#[test]
fn every_scenario_that_comes_with_the_program_validates() {
    let validator = validator("scenario");
    let mut seen = 0;
    for embedded in catalogue::embedded() {
        let errors = errors(&validator, &to_json(embedded.source));
        assert!(errors.is_empty(), "{}: {errors:#?}", embedded.path);
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} scenarios");
}

#[test]
fn every_self_test_validates() {
    let validator = validator("scenario");
    for entry in fs::read_dir(root().join("tests/selftest")).expect("the folder of self-tests").flatten() {
        let source = fs::read_to_string(entry.path()).expect("a self-test can be read");
        let errors = errors(&validator, &to_json(&source));
        assert!(errors.is_empty(), "{}: {errors:#?}", entry.path().display());
    }
}

#[test]
fn an_unknown_key_does_not_validate_anywhere_in_a_scenario() {
    let validator = validator("scenario");
    let good = fs::read_to_string(root().join("tests/selftest/asked.toml")).expect("a self-test can be read");
    assert!(validator.is_valid(&to_json(&good)));
    for (from, to) in [
        ("question =", "surprise = 1\nquestion ="),
        ("does = \"waits for ever\"", "does = \"waits\"\nsurprise = 1"),
        ("exit = \"deadline\"", "exit = \"deadline\", surprise = 1"),
        ("{ pause = {} }", "{ pause = { surprise = 1 } }"),
        ("{ pause = {} }", "{ pause = {}, surprise = 1 }"),
    ] {
        assert!(good.contains(from), "{from}");
        assert!(!validator.is_valid(&to_json(&good.replacen(from, to, 1))), "{to}");
    }
}

#[test]
fn a_fresh_report_validates_and_a_damaged_one_does_not() {
    let validator = validator("report");
    let scratch = Scratch::new();
    // One that ends well, one that needs parameters and the runtime, and one that hangs.
    let selectors = ["context/set-device-is-eager", "visibility/first-invalid-hides-all", "tests/selftest/hang.toml"];
    let (ran, _) = scratch.simulate("sim:h200-x2", &selectors, &["--repeat", "1"]);
    let good = ran.json();
    let errors = errors(&validator, &good);
    assert!(errors.is_empty(), "{errors:#?}");
    for pointer in
        ["/schema", "/complete", "/scenarios/0/verdict/kind", "/scenarios/0/cases/0/attempts/0/exit", "/run/id"]
    {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = Value::from(7);
        assert!(!validator.is_valid(&bad), "{pointer} may be 7");
    }
}

#[test]
fn every_committed_report_validates() {
    let validator = validator("report");
    for (name, path) in committed_reports() {
        let text = fs::read_to_string(&path).expect("a committed report can be read");
        let document: Value = serde_json::from_str(&text).expect("a committed report is JSON");
        let errors = errors(&validator, &document);
        assert!(errors.is_empty(), "{name}: {:#?}", errors.iter().take(10).collect::<Vec<_>>());
    }
}
