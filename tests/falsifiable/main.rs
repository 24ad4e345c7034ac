//! An expectation that can never fail is worthless.
//!
//! Every scenario's trap is judged as if it had made the control's calls: under the trap's expectation, the control's
//! results must be unexpected. On the simulated machine this is done for what it models, and on the committed reports
//! for everything that was measured.
//!
//! If the pitfall is expected *not* to occur, trap and control may show the same, which is the answer. Then each fact
//! in the expectations is changed in the recordings, one at a time: none of these changes may pass, and at least one
//! must be unexpected.

use crate::common;
mod perturb;

use std::collections::BTreeSet;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::judge::{self, Facts, plan_as_today};
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::plan::{CasePlan, Plan};
use cuda_pitfalls::report::{CaseReport, Report};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::verdict::ExpectationMet;

use common::{all_simulated, read_reports};

/// Counts of expectations by result.
#[derive(Default)]
struct Tally {
    /// Instances that failed under the control's calls.
    by_control: BTreeSet<String>,
    /// Instances that failed only where a fact was changed.
    by_fact: BTreeSet<String>,
    /// Instances that nothing failed.
    immune: Vec<String>,
}

impl Tally {
    fn take(&mut self, report: &Report) {
        let figures = report.run.calibrations();
        let scene = Scene {
            calibration: &figures,
            gpus: &report.machine.gpus,
        };
        for scenario in &report.scenarios {
            // One report of an instance is enough.
            let Some(plan) = scenario
                .plan
                .as_ref()
                .filter(|_| !self.by_control.contains(&scenario.name))
            else {
                continue;
            };
            let facts = Facts::new(
                &report.machine,
                scenario.libcudart.as_ref(),
                plan,
                report.provenance,
            );
            let judged = |plan: &Plan, mut cases: Vec<CaseReport>| {
                judge::judge_scenario(plan, &mut cases, &scene, &facts)
            };
            if judged(plan, scenario.cases.clone()).expectation != ExpectationMet::AsExpected {
                continue;
            }
            let under_control =
                swapped(plan, &scenario.cases).map(|(plan, cases)| judged(&plan, cases));
            if under_control
                .is_some_and(|verdict| verdict.expectation != ExpectationMet::AsExpected)
            {
                self.by_control.insert(scenario.name.clone());
                continue;
            }
            let mut failed = 0;
            for (fact, cases) in perturb::all(plan, &scenario.cases, &facts) {
                let verdict = judged(plan, cases);
                if verdict.expectation == ExpectationMet::AsExpected {
                    self.immune.push(format!("{}: {fact}", scenario.name));
                }
                // A verdict that became inconclusive was not compared with anything.
                failed += usize::from(
                    verdict.kind.is_conclusive()
                        && verdict.expectation == ExpectationMet::Unexpected,
                );
            }
            if failed > 0 {
                self.by_fact.insert(scenario.name.clone());
            } else {
                self.immune.push(format!(
                    "{}: nothing that its expectations name can fail",
                    scenario.name
                ));
            }
        }
    }

    fn holds(mut self, least: usize) {
        println!("{} fail under the control's calls", self.by_control.len());
        self.by_fact.retain(|name| !self.by_control.contains(name));
        println!(
            "{} fail only where a fact is changed: {:?}",
            self.by_fact.len(),
            self.by_fact
        );
        assert!(
            self.immune.is_empty(),
            "as expected, whatever happens:\n{}",
            self.immune.join("\n")
        );
        assert!(
            self.by_control.len() >= least,
            "only {} could be tried",
            self.by_control.len()
        );
    }
}

/// Returns the plan and the cases with the control's calls and results in the trap's place.
fn swapped(plan: &Plan, cases: &[CaseReport]) -> Option<(Plan, Vec<CaseReport>)> {
    let control = plan
        .cases
        .iter()
        .find(|case| case.name == "control")?
        .clone();
    let shown = cases.iter().find(|case| case.name == "control")?.clone();
    let (mut plan, mut cases) = (plan.clone(), cases.to_vec());
    for trap in plan.cases.iter_mut().filter(|case| case.name == "trap") {
        *trap = CasePlan {
            name: trap.name.clone(),
            expect: trap.expect.clone(),
            ..control.clone()
        };
    }
    for trap in cases.iter_mut().filter(|case| case.name == "trap") {
        trap.attempts.clone_from(&shown.attempts);
    }
    Some((plan, cases))
}

fn today() -> Vec<Scenario> {
    catalogue::select_scenarios(&[]).expect("the scenarios that come with the program are valid")
}

#[test]
fn every_expectation_can_fail_on_the_simulated_machine() {
    let mut tally = Tally::default();
    all_simulated().iter().for_each(|report| tally.take(report));
    tally.holds(60);
}

#[test]
fn every_expectation_can_fail_on_what_was_measured() {
    let scenarios = today();
    let mut tally = Tally::default();
    for (_, report) in read_reports() {
        let mut report = report.clone();
        plan_as_today(&mut report, &scenarios);
        tally.take(&report);
    }
    tally.holds(100);
}
