//! Durations of runs, compared with committed reports: the estimate, and the round of the essential set that its file
//! promises.

use crate::common;

use std::collections::BTreeMap;
use std::time::Duration;

use cuda_pitfalls::catalogue::essential;
use cuda_pitfalls::plan::estimate::{self, Pace};
use cuda_pitfalls::report::ScenarioReport;

use common::read_reports;

#[test]
fn estimates_of_whole_runs_are_within_a_half_of_what_they_took() {
    let mut compared = 0;
    for (name, report) in read_reports() {
        let plans = report
            .scenarios
            .iter()
            .filter_map(|scenario| scenario.plan.as_ref());
        let expected = estimate::run(plans, report.machine.gpus.len(), Pace::default());
        let took = Duration::from_nanos(report.run.elapsed_ns);
        // Reports of a survey have a handful of attempts, and the time of the survey. A few questions
        // are not a full run: lines of one package may take half the time of another's.
        let is_few = report.scenarios.len() < 6;
        // A run that was given some of the GPUs may share the machine with a run on the others.
        let is_beside_another = report.run.calibration.len() < report.machine.gpus.len();
        if !report.complete
            || name.starts_with("survey")
            || is_few
            || is_beside_another
            // All cores of that machine were busy with other work.
            || name == "h100-x4-mps"
            || took < Duration::from_secs(10)
        {
            continue;
        }
        let ratio = expected.as_secs_f64() / took.as_secs_f64();
        assert!(
            (1.0 / 1.5..=1.5).contains(&ratio),
            "{name}: {expected:?} expected, {took:?} taken"
        );
        compared += 1;
    }
    assert!(compared >= 15, "{compared} reports were compared");
}

/// Returns the median wall time of an attempt of each case, added up: one round.
fn round(scenario: &ScenarioReport) -> Option<Duration> {
    let of_case = |attempts: &[cuda_pitfalls::report::Attempt]| {
        let mut walls: Vec<u64> = attempts
            .iter()
            .map(|attempt| attempt.recording.wall_ns)
            .collect();
        walls.sort_unstable();
        walls
            .get(walls.len() / 2)
            .copied()
            .map(Duration::from_nanos)
    };
    scenario
        .cases
        .iter()
        .map(|case| of_case(&case.attempts))
        .sum()
}

#[test]
fn essential_round_takes_its_documented_time() {
    // The minimum of several reports: a disturbance in one of them is not a property of the question.
    let mut rounds: BTreeMap<String, Duration> = BTreeMap::new();
    for (name, report) in read_reports() {
        if report.machine.gpus.len() != 2 || name.contains("libcudart") {
            continue;
        }
        for scenario in &report.scenarios {
            let Some(round) = round(scenario).filter(|round| !round.is_zero()) else {
                continue;
            };
            let known = rounds.entry(scenario.name.clone()).or_insert(round);
            *known = round.min(*known);
        }
    }
    let mut sum = Duration::ZERO;
    for one in essential::all() {
        sum += *rounds
            .get(&one.name)
            .unwrap_or_else(|| panic!("{} was never measured on two GPUs", one.name));
    }
    assert!(
        sum > Duration::from_secs(10) && sum < Duration::from_secs(18),
        "a round takes {sum:?}"
    );
}
