//! Made-up measurements for tests.

use cuda_pitfalls::observation::Observation;
use cuda_pitfalls::plan::fixture;
use cuda_pitfalls::report::{Attempt, CaseReport, Outcome, ScenarioReport};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::verdict::{Kind, Verdict};

use crate::page::Measurement;

/// Returns a question with a trap and a control.
pub(crate) fn question(name: &str) -> Scenario {
    let mut scenario = fixture::scenario();
    scenario.name = name.to_owned();
    scenario.instances[0].name = name.to_owned();
    scenario
}

/// Returns a measurement with these attempts of trap and control, one second each.
pub(crate) fn measurement(name: &str, report: &str, gpu: &str, attempts: [u32; 2]) -> Measurement {
    let mut machine = fixture::machine(1);
    machine.gpus[0].name = Some(gpu.to_owned());
    let mut cases = Vec::new();
    for (name, count) in ["trap", "control"].into_iter().zip(attempts) {
        let mut attempt = Attempt::default();
        attempt.recording.wall_ns = 1_000_000_000;
        let mut case = CaseReport::new(name, vec![attempt; count as usize]);
        case.outcomes = vec![Outcome::new(count, Observation::default())];
        cases.push(case);
    }
    let verdict = Verdict {
        kind: Kind::Reproduced,
        ..Verdict::default()
    };
    Measurement {
        report: report.to_owned(),
        started_at: "2026-11-27T10:00:00Z".to_owned(),
        machine,
        alone: true,
        interrupted: false,
        then: verdict.clone(),
        changed: None,
        part: ScenarioReport {
            name: name.to_owned(),
            scenario: name.to_owned(),
            verdict,
            cases,
            ..ScenarioReport::default()
        },
    }
}
