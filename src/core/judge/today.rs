//! Judges earlier measurements by today's files.

use std::collections::BTreeMap;

use crate::plan::{self, CasePlan, Plan};
use crate::report::{CaseReport, Report, ScenarioReport};
use crate::scenario::Scenario;
use crate::verdict::ExpectationMet;

/// Today's plan for a scenario that was measured earlier with the same calls.
#[derive(Clone, Debug)]
pub struct Today {
    /// The plan from today's file.
    pub plan: Plan,
    /// Today's names of the cases, by their names when they were measured.
    names: BTreeMap<String, String>,
}

impl Today {
    /// Returns `true` if another case is the trap or the control today.
    pub fn compares_others(&self) -> bool {
        self.names
            .iter()
            .any(|(then, today)| then != today && ["trap", "control"].contains(&today.as_str()))
    }

    /// Renames measured cases to their names of today.
    pub fn rename_cases(&self, cases: &mut [CaseReport]) {
        for case in cases {
            if let Some(name) = self.names.get(&case.name) {
                case.name.clone_from(name);
            }
        }
    }
}

/// Assigns to each scenario of a report the plan and the words of today's file, if the calls are the same. Returns the
/// names of the other scenarios, which keep the plan and the words of their run.
pub fn plan_as_today(report: &mut Report, scenarios: &[Scenario]) -> Vec<String> {
    let plans: Vec<Option<(&Scenario, Today)>> = report
        .scenarios
        .iter()
        .map(|measured| {
            let scenario = scenarios
                .iter()
                .find(|scenario| scenario.name == measured.scenario)?;
            Some((scenario, planned_today(scenario, report, measured)?))
        })
        .collect();
    let mut others = Vec::new();
    for (measured, today) in report.scenarios.iter_mut().zip(plans) {
        match today {
            Some((scenario, today)) => {
                today.rename_cases(&mut measured.cases);
                // The answer is for today's question, which may be the opposite of the earlier one.
                measured.question.clone_from(&scenario.question);
                measured.workaround.clone_from(&scenario.workaround);
                measured.plan = Some(today.plan);
            }
            None => others.push(measured.name.clone()),
        }
    }
    others
}

/// Returns the plan that today's file yields for the machine of a report, if it makes the calls that were measured. A
/// file with different calls needs a new measurement. The file decides which case is the trap and which the control,
/// and it defines the effect. A case that was added to the file later was not measured, so the plan leaves it out.
pub fn planned_today(
    scenario: &Scenario,
    report: &Report,
    measured: &ScenarioReport,
) -> Option<Today> {
    let then = measured.plan.as_ref()?;
    let libcudart = measured.libcudart.as_ref();
    let mut plan = plan::again(
        scenario,
        &measured.name,
        &report.machine,
        libcudart,
        Some(then),
    )?;
    plan.planned = then
        .planned
        .or_else(|| planned_then(scenario, report, then));
    let names = same_calls(&then.cases, &plan.cases)?;
    plan.cases
        .retain(|case| names.values().any(|name| *name == case.name));
    (plan.gpus == then.gpus).then_some(Today { plan, names })
}

/// Returns the number of planned attempts of each case in a run that was interrupted, if fewer were made.
///
/// Earlier programs stored the number of attempts that were made, not the planned number. All scenarios of a run have
/// as many rounds as their files or the user requested, so the scenarios with the most rounds show the planned number.
/// Scenarios with an unexpected verdict were retried more often.
fn planned_then(scenario: &Scenario, report: &Report, then: &Plan) -> Option<u32> {
    report.run.interrupted.as_ref()?;
    let as_planned = report
        .scenarios
        .iter()
        .filter(|part| part.verdict.expectation != ExpectationMet::Unexpected);
    let most = as_planned
        .filter_map(|part| part.plan.as_ref())
        .map(|plan| plan.repeat)
        .max()?;
    Some(most.min(scenario.repeat)).filter(|planned| *planned > then.repeat)
}

/// Returns today's names of the cases by the names of the measured ones that make the same calls, if every measured
/// case has a counterpart and both trap and control are among them.
fn same_calls(then: &[CasePlan], today: &[CasePlan]) -> Option<BTreeMap<String, String>> {
    let mut left: Vec<&CasePlan> = today.iter().collect();
    let mut names = BTreeMap::new();
    for case in then {
        let calls = without_texts(case);
        // If two cases make the same calls, the one with the same name is chosen.
        let named = left
            .iter()
            .position(|today| today.name == case.name && without_texts(today) == calls);
        let today = left
            .remove(named.or_else(|| left.iter().position(|today| without_texts(today) == calls))?);
        names.insert(case.name.clone(), today.name.clone());
    }
    (!left
        .iter()
        .any(|case| matches!(case.name.as_str(), "trap" | "control")))
    .then_some(names)
}

/// Returns a case reduced to its actions, without descriptions and expectations.
fn without_texts(case: &CasePlan) -> CasePlan {
    let mut made = CasePlan {
        name: String::new(),
        does: String::new(),
        expect: Vec::new(),
        ..case.clone()
    };
    if let Some(python) = &mut made.python {
        python.needs.clear();
    }
    made.steps.iter_mut().for_each(|step| step.line = 0);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fixture::{report, scenario};
    use crate::verdict::Kind;

    fn cases(names: &[&str]) -> Vec<CasePlan> {
        let cases = names.iter().enumerate().map(|(index, name)| CasePlan {
            env: [("ORDER".to_string(), index.to_string())].into(),
            ..crate::observe::fixture::case(name, &[])
        });
        cases.collect()
    }

    #[test]
    fn a_case_is_known_by_its_calls_and_not_by_its_name() {
        let then = cases(&["trap", "control", "host"]);
        let mut today = cases(&["trap", "selected", "control"]);
        today.reverse();
        let names = same_calls(&then, &today).unwrap();
        assert_eq!(names["control"], "selected");
        assert_eq!(names["host"], "control");
        assert_eq!(
            same_calls(&then, &cases(&["trap", "control"])),
            None,
            "one is gone"
        );
        let added = same_calls(&then[..2], &cases(&["trap", "control", "host"])).unwrap();
        assert_eq!(added.len(), 2, "one was added");
        assert_eq!(
            same_calls(&then[..2], &cases(&["trap", "host", "control"])),
            None,
            "the control is another"
        );
        let mut other = cases(&["trap", "control", "host"]);
        other[2].probes = !other[2].probes;
        assert_eq!(same_calls(&then, &other), None, "one makes other calls");
    }

    /// Returns a scenario of an interrupted run that completed `rounds` rounds.
    fn part(rounds: u32, expectation: ExpectationMet) -> ScenarioReport {
        let plan = Plan {
            repeat: rounds,
            ..Plan::default()
        };
        ScenarioReport {
            plan: Some(plan),
            ..scenario(Kind::Reproduced, None, expectation, 0)
        }
    }

    #[test]
    fn of_a_run_that_was_cut_off_the_questions_with_most_rounds_tell_what_was_planned() {
        let planned = |signal: Option<&str>, rounds: &[u32], file: u32| {
            let parts = rounds
                .iter()
                .map(|&rounds| part(rounds, ExpectationMet::AsExpected));
            let mut report = report(parts.collect(), false);
            report.scenarios.push(part(9, ExpectationMet::Unexpected));
            report.run.interrupted = signal.map(str::to_owned);
            let file = Scenario {
                repeat: file,
                ..crate::plan::fixture::scenario()
            };
            planned_then(&file, &report, report.scenarios[0].plan.as_ref().unwrap())
        };
        assert_eq!(planned(Some("SIGINT"), &[2, 5], 5), Some(5));
        assert_eq!(
            planned(Some("SIGINT"), &[2, 5], 3),
            Some(3),
            "its file plans fewer than another"
        );
        assert_eq!(
            planned(Some("SIGINT"), &[5, 2], 5),
            None,
            "it was asked to the end"
        );
        assert_eq!(
            planned(Some("SIGINT"), &[2, 2], 5),
            None,
            "nothing tells of more"
        );
        assert_eq!(planned(None, &[2, 5], 5), None, "the run ended by itself");
    }

    #[test]
    fn of_cases_with_the_same_calls_each_keeps_its_name() {
        let mut then = cases(&["trap", "control"]);
        then[1].env = then[0].env.clone();
        let mut today = then.clone();
        today.reverse();
        let names = same_calls(&then, &today).unwrap();
        assert_eq!(
            (names["trap"].as_str(), names["control"].as_str()),
            ("trap", "control")
        );
    }
}
