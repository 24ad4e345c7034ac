//! Today's expectations, compared with the measurements: every expectation rests on a committed real report, and a
//! changed expectation that no measurement confirms fails here, without a GPU.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::diagnosis::{WorkaroundRun, embedded_rules};
use cuda_pitfalls::judge::{self, Facts, Shows, matches, planned_today};
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::scenario::{Hazard, Instance, Scenario, When};
use cuda_pitfalls::verdict::{ExpectationMet, Kind, Reason};

use common::{read_reports, root};

#[test]
fn todays_expectations_hold_on_committed_reports() {
    let scenarios = catalogue::select_scenarios(&[])
        .expect("the scenarios that come with the program are valid");
    let (mut wrong, mut proven) = (Vec::new(), BTreeSet::new());
    for (name, report) in read_reports() {
        for measured in report
            .scenarios
            .iter()
            .filter(|measured| measured.verdict.kind != Kind::Skipped)
        {
            let Some(scenario) = scenarios
                .iter()
                .find(|scenario| scenario.name == measured.scenario)
            else {
                continue;
            };
            // Measurements with old calls do not count for a file whose calls changed.
            let Some(today) = planned_today(scenario, report, measured) else {
                continue;
            };
            let mut cases = measured.cases.clone();
            today.rename_cases(&mut cases);
            let plan = today.plan;
            let figures = report.run.calibrations();
            let scene = Scene {
                calibration: &figures,
                gpus: &report.machine.gpus,
            };
            let facts = Facts::new(
                &report.machine,
                measured.libcudart.as_ref(),
                &plan,
                report.provenance,
            );
            let verdict = judge::judge_scenario(&plan, &mut cases, &scene, &facts);
            // Attempts that did not end, or were never made, are not evidence for or against anything.
            use Reason::{Crashed, Hang, Interrupted, TooFewAttempts};
            if matches!(
                verdict.reason,
                Some(Interrupted | Crashed | Hang | TooFewAttempts)
            ) {
                continue;
            }
            if verdict.expectation == ExpectationMet::AsExpected {
                proven.insert(measured.name.clone());
                // The pitfall must not occur in the code that pages, `explain` and diagnoses recommend.
                for case in cases
                    .iter()
                    .filter(|case| is_offered(&scenario.name, &case.name, verdict.kind))
                {
                    let mut shown = case.outcomes.iter().map(|seen| &seen.observation);
                    if shown.any(|seen| {
                        judge::shows(&plan.effect, seen, true, &plan, &facts) == Shows::Yes
                    }) {
                        wrong.push(format!(
                            "{name}: {}: write its {}",
                            measured.name, case.name
                        ));
                    }
                }
            } else {
                let (kind, met) = (verdict.kind.name(), verdict.expectation.name());
                wrong.push(format!(
                    "{name}: {}: {kind}, {met}: {}",
                    measured.name,
                    verdict.unexpected.join("; ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unproven = scenarios.iter().flat_map(|scenario| {
        scenario
            .instances
            .iter()
            .filter(|it| !proven.contains(&it.name))
            .map(move |instance| (scenario, instance))
    });
    let opinions: Vec<&str> = unproven
        .filter(|it| !is_left_open(it.0, it.1))
        .map(|(_, instance)| instance.name.as_str())
        .collect();
    assert!(
        opinions.is_empty(),
        "no committed report bears these out: commit one, or take out what they expect and list them in \
         TO_BE_MEASURED: {opinions:?}"
    );
    let measured: Vec<&&str> = TO_BE_MEASURED
        .iter()
        .filter(|name| proven.contains(**name))
        .collect();
    assert!(
        measured.is_empty(),
        "no longer to be measured: {measured:?}"
    );
}

/// Returns `true` if a case is presented as the order that works: by the pages of what happens, or as the evidence of a
/// workaround.
fn is_offered(scenario: &str, case: &str, kind: Kind) -> bool {
    let ran = WorkaroundRun::Case(scenario.to_string(), case.to_string());
    let mut shown = embedded_rules().iter().flat_map(|rule| rule.shown.values());
    (case == "control" && kind == Kind::Reproduced) || shown.any(|runs| runs.contains(&ran))
}

/// Questions that were added but not measured yet. Each name is removed when its report is added.
const TO_BE_MEASURED: [&str; 0] = [];

/// Returns `true` if an instance may lack a measurement: it requires root, a changed setting or more memory than
/// available, or was added last, and it expects nothing.
fn is_left_open(scenario: &Scenario, instance: &Instance) -> bool {
    let out_of_reach = [Hazard::Root, Hazard::Settings, Hazard::Oversubscribe];
    let expects =
        !instance.expect.is_empty() || instance.cases.iter().any(|case| !case.expect.is_empty());
    let waits = TO_BE_MEASURED.contains(&instance.name.as_str());
    (waits
        || scenario
            .hazards
            .iter()
            .any(|hazard| out_of_reach.contains(hazard)))
        && !expects
}

/// An expectation's place: its scenario, its case (empty for the verdict), and its number there.
type Place = (String, String, usize);

/// The report of an expectation is one where it applied. An expectation without a matching machine, runtime or
/// parameter in that report has no evidence.
#[test]
fn every_expectation_applied_in_the_report_that_it_names() {
    let scenarios = catalogue::select_scenarios(&[])
        .expect("the scenarios that come with the program are valid");
    let mut applied: BTreeSet<(Place, String)> = BTreeSet::new();
    for (name, report) in read_reports() {
        for measured in &report.scenarios {
            let Some(scenario) = scenarios
                .iter()
                .find(|scenario| scenario.name == measured.scenario)
            else {
                continue;
            };
            let Some(plan) = planned_today(scenario, report, measured).map(|today| today.plan)
            else {
                continue;
            };
            let facts = Facts::new(
                &report.machine,
                measured.libcudart.as_ref(),
                &plan,
                report.provenance,
            );
            let holds = |when: &When| matches(when, &facts, &plan.parameters);
            let here = |case: &str, number| {
                (
                    (scenario.name.clone(), case.to_string(), number),
                    name.clone(),
                )
            };
            // The first expected verdict with a condition that holds is the one that counts.
            applied.extend(
                plan.expect
                    .iter()
                    .position(|it| holds(&it.when))
                    .map(|number| here("", number)),
            );
            for case in &plan.cases {
                let of_case = case
                    .expect
                    .iter()
                    .enumerate()
                    .filter(|(_, check)| holds(&check.when));
                applied.extend(of_case.map(|(number, _)| here(&case.name, number)));
            }
        }
    }
    let mut idle = BTreeSet::new();
    for scenario in &scenarios {
        for instance in &scenario.instances {
            let verdicts = instance
                .expect
                .iter()
                .enumerate()
                .map(|(number, it)| ("", number, &it.evidence));
            let checks = instance.cases.iter().flat_map(|case| {
                case.expect
                    .iter()
                    .enumerate()
                    .map(|(number, it)| (case.name.as_str(), number, &it.evidence))
            });
            for (case, number, evidence) in verdicts.chain(checks) {
                let place = (scenario.name.clone(), case.to_string(), number);
                let report = evidence.trim_start_matches("reports/").to_string();
                if !applied.contains(&(place, report)) {
                    idle.insert(format!(
                        "{}: {case} #{}: {evidence}",
                        scenario.name,
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(
        idle.is_empty(),
        "never applied there:\n{}",
        idle.into_iter().collect::<Vec<_>>().join("\n")
    );
}

/// `reports/provenance.toml` lists the runs that are known not to name a commit of a clean checkout.
#[test]
fn a_new_report_names_a_clean_commit() {
    let source = fs::read_to_string(root().join("reports/provenance.toml"))
        .expect("reports/provenance.toml can be read");
    let known: BTreeMap<String, usize> =
        toml::from_str(&source).expect("reports/provenance.toml is valid");
    let mut unclean = BTreeSet::new();
    for (name, report) in read_reports() {
        match &report.run.commit {
            Some(commit) if !commit.ends_with("-dirty") => {}
            _ => drop(unclean.insert(name.clone())),
        }
    }
    let listed: BTreeSet<String> = known.into_keys().collect();
    assert_eq!(
        unclean, listed,
        "a report is measured by a program of a clean checkout; reports/provenance.toml has the older ones"
    );
}
