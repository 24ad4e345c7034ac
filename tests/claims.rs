//! docs/claims.md: the verdict of each row rests on the answers of committed reports today.

use std::fs;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::fact::{FactKind, Look};
use cuda_pitfalls::judge::{self, Facts, planned_today};
use cuda_pitfalls::observation::Observation;
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::report::{CaseReport, Report, ScenarioReport};
use cuda_pitfalls::scenario::{Range, Scenario};
use serde_json::Value;

use crate::common::{read_reports, root};

/// An answer that a row names: `[NAME](…) with libcudart RANGE: VERDICT, with FACT (CASE, at STEP). Words`.
struct NamedAnswer {
    /// A scenario, for all of its instances, or one instance.
    name: String,
    libcudart: Option<Range>,
    verdict: &'static str,
    fact: Option<NamedFact>,
}

/// A fact that every outcome of a case has at a step.
struct NamedFact {
    key: String,
    /// The GPU or value that it is about.
    about: Option<String>,
    is: String,
    case: String,
    at: String,
}

/// Returns the cells of the table's rows.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| S"));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

fn parse_answer(text: &str) -> Option<NamedAnswer> {
    let text = text.replace('\\', "").replace("&gt;", ">");
    let text = text.replace("&lt;", "<").replace("&amp;", "&");
    let (name, rest) = text.strip_prefix('[')?.split_once("](pitfalls/")?;
    let (_, rest) = rest.split_once(".md)")?;
    let (range, said) = rest.split_once(": ")?;
    let libcudart = range.strip_prefix(" with libcudart ");
    let verdict = ["reproduced", "not reproduced"]
        .into_iter()
        .find(|verdict| said.starts_with(verdict))?;
    let fact = said
        .strip_prefix(verdict)?
        .strip_prefix(", with ")
        .map(|fact| parse_fact(fact).unwrap_or_else(|| panic!("{text}")));
    Some(NamedAnswer {
        name: name.to_owned(),
        libcudart: libcudart.map(|range| Range(range.to_owned())),
        verdict,
        fact,
    })
}

fn parse_fact(text: &str) -> Option<NamedFact> {
    let (key, rest) = text.split_once(' ')?;
    let (fact, place) = rest.split_once(" (")?;
    let (case, rest) = place.split_once(", at ")?;
    let (at, _) = rest.split_once(')')?;
    let (key, value_name) = key
        .split_once('.')
        .map_or((key, None), |(key, name)| (key, Some(name)));
    let of_gpu = fact
        .strip_prefix("of ")
        .and_then(|rest| rest.split_once(' '));
    let (about, is) = of_gpu.map_or((value_name, fact), |(gpu, is)| (Some(gpu), is));
    Some(NamedFact {
        key: key.to_owned(),
        about: about.map(str::to_owned),
        is: is.to_owned(),
        case: case.to_owned(),
        at: at.to_owned(),
    })
}

/// Returns the fact in an observation, in the words of the page; absent if it could not be read.
fn observed(fact: &NamedFact, observation: &Observation) -> Option<String> {
    let kind = FactKind::find(&fact.key).expect("a kind of fact");
    let look = Look::at(observation, &fact.at)?;
    let exact = (kind.seen)(&look, fact.about.as_deref())?.exact;
    Some(match exact {
        Value::String(text) => text,
        Value::Array(names) if names.is_empty() => "none".to_owned(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(",")
        }
        // A status is compared by its C name.
        Value::Object(status) if status.contains_key("name") => {
            status["name"].as_str().unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    })
}

/// Returns the answer of a report today: `reproduced` or `not reproduced`, and the cases; absent without an answer.
fn answered_today(
    scenario: &Scenario,
    report: &Report,
    part: &ScenarioReport,
) -> Option<(String, Vec<CaseReport>)> {
    let today = planned_today(scenario, report, part)?;
    let mut cases = part.cases.clone();
    today.rename_cases(&mut cases);
    let calibration = report.run.calibrations();
    let scene = Scene {
        calibration: &calibration,
        gpus: &report.machine.gpus,
    };
    let facts = Facts::new(
        &report.machine,
        part.libcudart.as_ref(),
        &today.plan,
        report.provenance,
    );
    let kind = judge::judge_scenario(&today.plan, &mut cases, &scene, &facts).kind;
    kind.is_conclusive()
        .then(|| (kind.name().replace('_', " "), cases))
}

/// Returns the objections of today's reports to an answer of a row.
fn objections(answer: &NamedAnswer, scenarios: &[Scenario]) -> Vec<String> {
    let mut objections = Vec::new();
    let is_named =
        |name: &str| name == answer.name || answer.name == name.split('[').next().unwrap_or(name);
    let instances = scenarios.iter().flat_map(|scenario| {
        let named = scenario
            .instances
            .iter()
            .filter(|instance| is_named(&instance.name));
        named.map(move |instance| (scenario, &instance.name))
    });
    let mut is_known = false;
    for (scenario, instance) in instances {
        is_known = true;
        let mut is_answered = false;
        for (report_name, report) in read_reports() {
            for part in report
                .scenarios
                .iter()
                .filter(|part| part.name == *instance)
            {
                let version = part
                    .libcudart
                    .as_ref()
                    .and_then(|library| library.version.as_deref());
                let range = answer.libcudart.as_ref();
                if range.is_some_and(|range| !version.is_some_and(|version| range.matches(version)))
                {
                    continue;
                }
                let Some((verdict, cases)) = answered_today(scenario, report, part) else {
                    continue;
                };
                if verdict != answer.verdict {
                    objections.push(format!("{instance}: {verdict} in {report_name}"));
                    continue;
                }
                let Some(fact) = &answer.fact else {
                    is_answered = true;
                    continue;
                };
                let case = cases.iter().find(|case| case.name == fact.case);
                let outcomes = case.map_or(&[][..], |case| &case.outcomes);
                for outcome in outcomes {
                    match observed(fact, &outcome.observation) {
                        Some(seen) if seen == fact.is => is_answered = true,
                        Some(seen) => objections.push(format!(
                            "{instance}: {} is {seen} in {report_name}, not {}",
                            fact.key, fact.is
                        )),
                        None => {}
                    }
                }
            }
        }
        if !is_answered {
            objections.push(format!("{instance}: no report answers it"));
        }
    }
    if !is_known {
        objections.push(format!("there is no question `{}`", answer.name));
    }
    objections
}

#[test]
fn verdicts_of_claims_are_todays() {
    let page = fs::read_to_string(root().join("docs/claims.md")).expect("the page can be read");
    let scenarios = catalogue::select_scenarios(&[]).expect("the scenarios are valid");
    let (mut wrong, mut verdicts) = (Vec::new(), 0);
    for row in rows(&page) {
        let [id, _, verdict, shown_by, _] = row[..] else {
            panic!("a row has five cells: {row:?}");
        };
        let has_verdict = ["confirmed", "refuted", "qualified", "not seen"]
            .iter()
            .any(|word| verdict.starts_with(&format!("**{word}")));
        let answers: Vec<NamedAnswer> = shown_by.split("<br>").filter_map(parse_answer).collect();
        let links = shown_by.matches("](pitfalls/").count();
        assert_eq!(
            answers.len(),
            links,
            "{id}: an answer that is not understood"
        );
        if !has_verdict {
            continue;
        }
        verdicts += 1;
        if answers.is_empty() {
            wrong.push(format!("{id}: nothing shows its verdict"));
        }
        for answer in &answers {
            let objections = objections(answer, &scenarios);
            wrong.extend(
                objections
                    .iter()
                    .map(|objection| format!("{id}: {objection}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(verdicts > 60, "only {verdicts} verdicts");
}
