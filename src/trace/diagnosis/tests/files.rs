//! The files of rules: all names in them must exist.

use std::path::Path;

use serde_json::Value;

use crate::diagnosis::clue::{ClueKind, Part, Type, parts};
use crate::diagnosis::rule::is_function;
use crate::diagnosis::{ANY, DiagnosisRule, RuleCondition, WorkaroundRun, embedded_rules};
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::input::document_path;
use cuda_pitfalls_core::scenario::framework::frameworks;
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
        for shown in rule.shown.values().flatten() {
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

/// Returns the faults in the rules' `instead_of`: an unknown rule, or two rules that replace each other.
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

#[test]
fn rules_ask_for_what_clues_know() {
    for rule in embedded_rules() {
        assert_eq!(faults(rule), [] as [&str; 0], "{}", rule.name);
    }
    let source = r#"
title = "a"
severity = "note"
scenario = "a/b"
evidence = "reports/c"
when = [{ clue = "context-made", usd = false, ordinal = [0, "1"], workaround = "{late}" }]
says = "{byts} {used} {"
workaround = { pytorch = "a", "pandas.read" = "b" }
shown = { torch = ["context/a control"] }
"#;
    let rule = DiagnosisRule::parse("a", source).expect("a rule");
    assert_eq!(
        faults(&rule),
        [
            "it does not begin with a comment that says what goes wrong, and why",
            "`ordinal` is \"1\", which is no number",
            "a clue `context-made` has no attribute `usd`",
            "a clue `context-made` has no attribute `late`",
            "a clue `context-made` has no attribute `byts`",
            "`used` is true or false, which says nothing in a sentence",
            "`{byts} {used} {` has a brace that does not enclose the name of an attribute",
            "`pytorch` is no framework and no function of one",
            "`pandas.read` is no framework and no function of one",
            "there is no workaround for any caller",
            "`torch` was run, and is no workaround",
        ]
    );
}

/// Returns the faults of a rule that its type does not exclude.
fn faults(rule: &DiagnosisRule) -> Vec<String> {
    let mut faults = Vec::new();
    if rule.why.is_empty() {
        faults
            .push("it does not begin with a comment that says what goes wrong, and why".to_owned());
    }
    for when in &rule.when {
        for (name, wanted) in &when.is {
            faults.extend(fault_of_value(when, name, wanted));
        }
        if let Some(workaround) = &when.workaround {
            faults.extend(faults_of_text(workaround, &[when.clue]));
        }
    }
    let kinds: Vec<&'static ClueKind> = rule.when.iter().map(|when| when.clue).collect();
    faults.extend(faults_of_text(&rule.says, &kinds));
    for (key, text) in &rule.workaround {
        faults.extend(faults_of_text(text, &kinds));
        if key != ANY && !is_function(key) && frameworks().iter().all(|known| known.name != *key) {
            faults.push(format!("`{key}` is no framework and no function of one"));
        }
    }
    if rule.workaround(ANY).is_none() {
        faults.push("there is no workaround for any caller".to_owned());
    }
    for key in rule.shown.keys() {
        if rule.workaround(key).is_none() {
            faults.push(format!("`{key}` was run, and is no workaround"));
        }
    }
    faults
}

fn fault_of_value(when: &RuleCondition, name: &str, wanted: &Value) -> Option<String> {
    let Some(attribute) = when.clue.find_attribute(name) else {
        return Some(format!(
            "a clue `{}` has no attribute `{name}`",
            when.clue.name
        ));
    };
    // A condition contains one of the texts of a list.
    let wanted_type = match attribute.of {
        Type::List => Type::Text,
        other => other,
    };
    let mut values = RuleCondition::wanted_values(wanted).iter();
    let wrong = values.find(|value| !wanted_type.has(value))?;
    Some(format!(
        "`{name}` is {wrong}, which is no {}",
        wanted_type.name()
    ))
}

/// Returns the faults of a text: each name between braces must be an attribute of every type of clue in the rule.
fn faults_of_text(text: &str, kinds: &[&'static ClueKind]) -> Vec<String> {
    let (mut faults, mut placeholders) = (Vec::new(), 0);
    for part in parts(text) {
        let Part::Placeholder(name) = part else {
            continue;
        };
        placeholders += 1;
        for kind in kinds {
            match kind.find_attribute(name) {
                None => faults.push(format!("a clue `{}` has no attribute `{name}`", kind.name)),
                Some(attribute) if attribute.of == Type::Flag => faults.push(format!(
                    "`{name}` is true or false, which says nothing in a sentence"
                )),
                Some(_) => {}
            }
        }
    }
    if text.matches(['{', '}']).count() != 2 * placeholders {
        faults.push(format!(
            "`{text}` has a brace that does not enclose the name of an attribute"
        ));
    }
    faults
}

#[test]
fn what_is_no_part_of_a_rule_is_refused_at_its_place() {
    let good = r#"title = "a"
severity = "note"
scenario = "a/b"
evidence = "reports/c"
when = [{ clue = "context-made" }]
says = "a"
workaround = { any = "a", "torch.cuda.init" = "b", accelerate = "c" }
shown = { any = ["context/a control", "reports/traces/programs/b.py"] }
"#;
    let rule = DiagnosisRule::parse("a", good).expect("a rule");
    let names = rule.workaround.iter().map(|(name, _)| name.as_str());
    assert!(names.eq(["any", "torch.cuda.init", "accelerate"]));
    let runs = [
        WorkaroundRun::Case("context/a".to_owned(), "control".to_owned()),
        WorkaroundRun::Program("b".to_owned()),
    ];
    assert_eq!(rule.shown("any"), runs);
    for (from, to, line, says) in [
        ("note", "bad", 2, "unknown variant `bad`"),
        (
            "context-made",
            "context-mad",
            5,
            "unknown kind of clue `context-mad`",
        ),
        ("says = \"a\"\n", "", 1, "missing field `says`"),
        ("says =", "other = 1\nsays =", 6, "unknown field `other`"),
        (
            "context/a control",
            "context/a",
            8,
            "`context/a` is neither a case of a scenario",
        ),
        ("\"a/b\"", "1", 3, "invalid type: integer `1`"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = DiagnosisRule::parse("a", &good.replace(from, to)).expect_err(to);
        let error = error.to_string();
        assert!(error.contains(&format!("line {line}, column")), "{error}");
        assert!(error.contains(says), "{error}");
    }
}
