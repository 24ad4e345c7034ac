//! What the files expect today, held against what was measured: every expectation stands on a
//! committed real report, and a changed expectation that no measurement bears out fails here, without
//! a GPU.

mod common;

use std::collections::BTreeSet;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::judge::{self, Facts};
use cuda_pitfalls::observe::Scene;
use cuda_pitfalls::plan::{self, CasePlan, Plan};
use cuda_pitfalls::report::{Report, ScenarioReport, read};
use cuda_pitfalls::scenario::{Hazard, Scenario};
use cuda_pitfalls::verdict::{ExpectationMet, Kind};

use common::committed_reports;

#[test]
fn todays_expectations_hold_on_committed_reports() {
    let scenarios = catalogue::select(&[]).expect("the scenarios that come with the program are valid");
    let (mut wrong, mut proven) = (Vec::new(), BTreeSet::new());
    for (name, path) in committed_reports() {
        let report = read(&path).expect("a committed report can be read");
        for measured in report.scenarios.iter().filter(|measured| measured.verdict.kind != Kind::Skipped) {
            let Some(plan) = planned_today(&scenarios, &report, measured) else { continue };
            let mut cases = measured.cases.clone();
            let scene = Scene { calibration: &report.run.calibration, gpus: &report.machine.gpus };
            let facts = Facts::new(&report.machine, measured.libcudart.as_ref(), &plan, report.provenance);
            let verdict = judge::judge(&plan, &mut cases, &scene, &facts);
            if verdict.expectation == ExpectationMet::AsExpected {
                proven.insert(measured.name.clone());
            } else {
                let (kind, met) = (verdict.kind.name(), verdict.expectation.name());
                wrong.push(format!("{name}: {}: {kind}, {met}: {}", measured.name, verdict.unexpected.join("; ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all = scenarios.iter().flat_map(|scenario| &scenario.instances);
    let opinions: Vec<&str> = all.map(|it| it.name.as_str()).filter(|name| !proven.contains(*name)).collect();
    assert!(opinions.is_empty(), "no committed report bears these out: {opinions:?}");
}

/// The plan that today's file makes for the machine of a report, if it makes the calls that were
/// measured. A file whose calls changed needs a new measurement, and gets no credit for the old one.
fn planned_today(scenarios: &[Scenario], report: &Report, measured: &ScenarioReport) -> Option<Plan> {
    let scenario = scenarios.iter().find(|scenario| scenario.name == measured.scenario)?;
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
    made.steps.iter_mut().for_each(|step| step.line = 0);
    made
}
