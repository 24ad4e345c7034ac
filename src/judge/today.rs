//! What was measured then, under what the files say now.

use crate::plan::{self, CasePlan, Plan};
use crate::report::{Report, ScenarioReport};
use crate::scenario::{Hazard, Scenario};

/// Gives every part of a report the plan that today's file makes for it, where the calls are the same.
/// The names of the others come back: they keep the plan they were made with.
pub fn plan_as_today(report: &mut Report, scenarios: &[Scenario]) -> Vec<String> {
    let plans: Vec<Option<Plan>> = report
        .scenarios
        .iter()
        .map(|measured| {
            let scenario = scenarios.iter().find(|scenario| scenario.name == measured.scenario)?;
            planned_today(scenario, report, measured)
        })
        .collect();
    let mut others = Vec::new();
    for (measured, plan) in report.scenarios.iter_mut().zip(plans) {
        if plan.is_none() {
            others.push(measured.name.clone());
        }
        measured.plan = plan.or(measured.plan.take());
    }
    others
}

/// Gives every part of a report that has no workaround the question and the workaround of today's
/// file, where the calls are the same.
pub fn ask_as_today(report: &mut Report, scenarios: &[Scenario]) {
    let asked: Vec<Option<(String, String)>> = report
        .scenarios
        .iter()
        .map(|measured| {
            let scenario = scenarios.iter().find(|scenario| scenario.name == measured.scenario)?;
            let is_same = measured.remedy.is_none() && planned_today(scenario, report, measured).is_some();
            is_same.then(|| (scenario.question.clone(), scenario.remedy.clone()))
        })
        .collect();
    for (measured, asked) in report.scenarios.iter_mut().zip(asked) {
        if let Some((question, remedy)) = asked {
            measured.question = question;
            measured.remedy = Some(remedy);
        }
    }
}

/// The plan that today's file makes for the machine of a report, if it makes the calls that were
/// measured. A file whose calls changed needs a new measurement, and gets no credit for the old one.
pub fn planned_today(scenario: &Scenario, report: &Report, measured: &ScenarioReport) -> Option<Plan> {
    let instance = scenario.instances.iter().find(|instance| instance.name == measured.name)?;
    let options = plan::Options {
        repeat: measured.plan.as_ref().map(|plan| plan.repeat),
        allow: Hazard::ALL.to_vec(),
        libcudart: measured.libcudart.clone(),
        root: true,
        ..plan::Options::default()
    };
    let plan = plan::resolve(scenario, instance, &report.machine, &options).ok()?;
    let then = measured.plan.as_ref()?;
    let calls = |cases: &[CasePlan]| -> Vec<_> { cases.iter().map(made).collect() };
    (calls(&plan.cases) == calls(&then.cases) && plan.gpus == then.gpus).then_some(plan)
}

/// What a case does, without what is said about it.
fn made(case: &CasePlan) -> CasePlan {
    let mut made = CasePlan { does: String::new(), expect: Vec::new(), ..case.clone() };
    if let Some(python) = &mut made.python {
        python.needs.clear();
    }
    made.steps.iter_mut().for_each(|step| step.line = 0);
    made
}
