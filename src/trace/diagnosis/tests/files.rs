//! The files of rules: what they name is there.

use std::path::Path;

use crate::diagnosis::{DiagnosisRule, WorkaroundRun, embedded_rules};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::input::document_path;
use cuda_pitfalls_core::source::reader::is_name;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn every_rule_names_a_scenario_and_the_report_that_measured_it() {
    for rule in embedded_rules() {
        let scenario = catalogue::embedded_files().find(|scenario| scenario.name == rule.scenario);
        let scenario = scenario
            .unwrap_or_else(|| panic!("{}: there is no scenario {}", rule.name, rule.scenario));
        let is_survey = rule.evidence.starts_with("reports/survey-");
        let file = root().join(&rule.evidence).join("report.json");
        assert!(
            document_path(&file).is_file(),
            "{}: {} is not there",
            rule.name,
            file.display()
        );
        let is_named = scenario
            .source
            .contains(&format!("evidence = \"{}\"", rule.evidence));
        assert!(
            is_survey || is_named,
            "{}: {} does not rest on {}",
            rule.name,
            rule.scenario,
            rule.evidence
        );
    }
}

#[test]
fn what_showed_a_workaround_is_there() {
    for rule in embedded_rules() {
        for shown in rule.shown.iter().flat_map(|(_, shown)| shown) {
            match shown {
                WorkaroundRun::Case(name, case) => {
                    let scenario =
                        catalogue::embedded_files().find(|scenario| scenario.name == *name);
                    let has = scenario.is_some_and(|scenario| {
                        scenario.source.contains(&format!("[cases.{case}]"))
                    });
                    assert!(has, "{}: {name} has no case {case}", rule.name);
                }
                WorkaroundRun::Program(name) => {
                    let file = root()
                        .join("reports/traces/programs")
                        .join(format!("{name}.py"));
                    assert!(
                        file.is_file(),
                        "{}: {} is not there",
                        rule.name,
                        file.display()
                    );
                }
            }
        }
        let unknown = rule
            .leaves_open
            .iter()
            .find(|name| embedded_rules().iter().all(|other| other.name != **name));
        assert_eq!(unknown, None, "{} leaves open what is no rule", rule.name);
    }
}

#[test]
fn rules_replace_others_that_there_are() {
    assert_eq!(unconnected(embedded_rules()), [] as [&str; 0]);
    let names: Vec<&str> = embedded_rules()
        .iter()
        .map(|rule| rule.name.as_str())
        .collect();
    assert!(names.len() >= 13 && names.is_sorted(), "{names:?}");
}

/// What is wrong with `instead_of` of rules: a rule that there is not, or two that replace each other.
fn unconnected(rules: &[DiagnosisRule]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in rules {
        for name in &rule.instead_of {
            match rules.iter().find(|rule| rule.name == *name) {
                None => wrong.push(format!(
                    "{} is instead of `{name}`, which is no rule",
                    rule.name
                )),
                Some(other) if other.instead_of.contains(&rule.name) => {
                    wrong.push(format!(
                        "{} and {name} are instead of each other",
                        rule.name
                    ));
                }
                Some(_) => {}
            }
        }
        if !is_name(&rule.name) {
            wrong.push(format!("`{}` is no name for a rule", rule.name));
        }
    }
    wrong
}
