//! The committed evidence: it can be read, its verdicts match its recordings, and the simulated driver shows the same,
//! except for the recorded differences.
//!
//! `CUDA_PITFALLS_BLESS=1 cargo test --test suite -- replay::` rewrites `tests/differences.txt`; read the diff, and
//! give the reason in the commit.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::judge::{self, plan_as_today};
use cuda_pitfalls::observe::{Hidden, Observation, StepObservation};
use cuda_pitfalls::report::{CaseReport, Report, ScenarioReport};
use cuda_pitfalls::scenario::Hazard;
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::verdict::{Kind, Reason};
use serde_json::Value;

use common::{Scratch, all_simulated, bless, read_reports, root};

/// The libcudart that the simulated driver simulates.
const SIMULATED_LIBCUDART: &str = "13.0";

#[test]
fn committed_reports_are_whole_and_measured() {
    for (name, report) in read_reports() {
        // A run that a user stopped measured the questions that it reached; a partial one that ended itself is broken.
        assert!(
            report.complete || report.run.interrupted.is_some(),
            "{name} is partial"
        );
        assert_eq!(
            report.provenance,
            Provenance::Measured,
            "{name} is no evidence"
        );
        assert!(
            report.run.on == "cuda" && !report.machine.gpus.is_empty(),
            "{name}"
        );
        for scenario in &report.scenarios {
            assert_eq!(
                scenario.verdict.provenance,
                Provenance::Measured,
                "{name}: {}",
                scenario.name
            );
        }
    }
}

#[test]
fn committed_reports_judge_to_what_they_say() {
    let mut wrong = Vec::new();
    for (name, report) in read_reports() {
        let mut again = report.clone();
        judge::rejudge(&mut again);
        for (stored, again) in report.scenarios.iter().zip(&again.scenarios) {
            let (stored_says, again_says) = (words(stored), words(again));
            if stored_says != again_says {
                wrong.push(format!(
                    "{name}: {}: stored {stored_says}, judged again {again_says}",
                    stored.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn words(scenario: &ScenarioReport) -> String {
    let verdict = &scenario.verdict;
    let reason = verdict
        .reason
        .map(|reason| format!("({})", reason.name()))
        .unwrap_or_default();
    format!(
        "{}{reason}, {}",
        verdict.kind.name(),
        verdict.expectation.name()
    )
}

#[test]
fn the_simulated_machine_shows_what_real_gpus_showed() {
    replay(true);
}

#[test]
#[ignore = "a minute: the nightly workflow runs it"]
fn simulated_machines_of_other_sizes_show_what_real_ones_showed() {
    replay(false);
}

/// Compares the results of machines with two GPUs, or of all others, with the simulated machine of that size.
fn replay(of_two_gpus: bool) {
    let scenarios = catalogue::select_scenarios(&[])
        .expect("the scenarios that come with the program are valid");
    let current: BTreeSet<&str> = scenarios
        .iter()
        .flat_map(|it| &it.instances)
        .map(|it| it.name.as_str())
        .collect();
    let is_of_size = |report: &Report| (report.machine.gpus.len() == 2) == of_two_gpus;
    let mut reports: Vec<_> = read_reports()
        .iter()
        .filter(|(_, report)| is_of_size(report))
        .cloned()
        .collect();
    for (_, real) in &mut reports {
        // Both sides are observed by this version, and asked today's question: a report keeps what was
        // seen, not how it was read.
        plan_as_today(real, &scenarios);
        judge::rejudge(real);
    }
    // One run for each size of machine answers the questions of all its reports.
    let mut asked: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (_, real) in &reports {
        let names = comparable(real, &current).map(|scenario| scenario.name.as_str());
        asked
            .entry(real.machine.gpus.len())
            .or_default()
            .extend(names);
    }
    let mut simulated: BTreeMap<(usize, &str), ScenarioReport> = BTreeMap::new();
    for (gpus, names) in asked.into_iter().filter(|(_, names)| !names.is_empty()) {
        let made = if of_two_gpus {
            all_simulated().to_vec()
        } else {
            vec![simulate(gpus, &names.iter().copied().collect::<Vec<_>>())]
        };
        let scenarios = made.into_iter().flat_map(|report| report.scenarios);
        simulated.extend(
            scenarios.filter_map(|one| Some(((gpus, *names.get(one.name.as_str())?), one))),
        );
    }
    let (mut lines, mut tally) = (Vec::new(), Tally::default());
    for (name, real) in &reports {
        let gpus = real.machine.gpus.len();
        let found = differences(
            comparable(real, &current),
            |name| simulated.get(&(gpus, name)),
            &mut tally,
        );
        lines.extend(found.into_iter().map(|line| format!("{name}: {line}\n")));
    }
    assert!(
        tally.compared > 0,
        "no report was made on libcudart {SIMULATED_LIBCUDART}: there is nothing to compare"
    );
    println!(
        "{} cases compared, {} instances not modelled",
        tally.compared,
        tally.not_modelled.len()
    );
    let names: BTreeSet<&str> = reports.iter().map(|(name, _)| name.as_str()).collect();
    let is_ours = |line: &str| {
        line.split_once(": ")
            .is_some_and(|(report, _)| names.contains(report))
    };
    holds("tests/differences.txt", &lines.concat(), is_ours);
    if of_two_gpus {
        let names = tally.not_modelled.iter().map(|name| format!("{name}\n"));
        holds("tests/not-modelled.txt", &names.collect::<String>(), |_| {
            true
        });
    }
}

/// Counts of the comparison.
#[derive(Default)]
struct Tally {
    /// Number of cases with observations on both sides.
    compared: usize,
    /// Instances that the simulated driver reports as not modeled.
    not_modelled: BTreeSet<String>,
}

/// Compares a list with those lines of the committed list that are ours.
fn holds(file: &str, found: &str, is_ours: impl Fn(&str) -> bool) {
    let path = root().join(file);
    let known = fs::read_to_string(&path).unwrap_or_default();
    let (known, others): (Vec<&str>, Vec<&str>) = known.lines().partition(|line| is_ours(line));
    if bless() {
        let mut all: Vec<&str> = others.into_iter().chain(found.lines()).collect();
        all.sort_unstable();
        fs::write(&path, all.join("\n") + "\n").expect("the list can be written");
        return;
    }
    let new: Vec<&str> = found.lines().filter(|line| !known.contains(line)).collect();
    let gone: Vec<&&str> = known
        .iter()
        .filter(|line| !found.lines().any(|found| found == **line))
        .collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "not what {file} says\nnew: {new:#?}\nno longer so: {gone:#?}"
    );
}

/// Returns the parts of a report that can be compared: those with another libcudart cannot.
fn comparable<'r>(
    real: &'r Report,
    current: &BTreeSet<&str>,
) -> impl Iterator<Item = &'r ScenarioReport> {
    real.scenarios.iter().filter(|scenario| {
        let version = scenario
            .libcudart
            .as_ref()
            .and_then(|runtime| runtime.version.as_deref());
        version == Some(SIMULATED_LIBCUDART)
            && current.contains(scenario.name.as_str())
            && scenario.verdict.kind != Kind::Skipped
    })
}

/// Runs scenarios on a simulated machine with this number of GPUs.
fn simulate(gpus: usize, names: &[&str]) -> Report {
    let hazards = Hazard::ALL
        .iter()
        .flat_map(|hazard| ["--allow", hazard.name()]);
    let more: Vec<&str> = ["--repeat", "1"].into_iter().chain(hazards).collect();
    Scratch::new()
        .simulate(&format!("sim:h200-x{gpus}"), names, &more)
        .1
}

/// Returns the differences between a real machine and a simulated one of its size.
fn differences<'r>(
    real: impl Iterator<Item = &'r ScenarioReport>,
    simulated: impl Fn(&'r str) -> Option<&'r ScenarioReport>,
    tally: &mut Tally,
) -> Vec<String> {
    let mut lines = Vec::new();
    for real in real {
        match simulated(&real.name) {
            Some(simulated) if simulated.verdict.reason == Some(Reason::NotModelled) => {
                tally.not_modelled.insert(real.name.clone());
            }
            Some(simulated) => lines.extend(compare(real, simulated, &mut tally.compared)),
            None => lines.push(format!(
                "{}: did not run on the simulated machine",
                real.name
            )),
        }
    }
    lines
}

fn compare(real: &ScenarioReport, simulated: &ScenarioReport, compared: &mut usize) -> Vec<String> {
    let mut lines = Vec::new();
    let same_calls =
        |case: &CaseReport| asked(real, Some(&case.name)) == asked(simulated, Some(&case.name));
    if !real.cases.iter().all(same_calls) {
        // The file was changed since. Another test checks that its calls of today were measured too.
        return lines;
    }
    if asked(real, None) != asked(simulated, None) {
        lines.push(format!(
            "{}: asks for something else than it did",
            real.name
        ));
    } else if real.verdict.kind != simulated.verdict.kind {
        lines.push(format!(
            "{}: real {}, simulated {}",
            real.name,
            words(real),
            words(simulated)
        ));
    }
    for case in &real.cases {
        let name = format!("{}::{}", real.name, case.name);
        let other = simulated.cases.iter().find(|other| other.name == case.name);
        let Some(other) = other else {
            lines.push(format!("{name}: was not simulated"));
            continue;
        };
        *compared += 1;
        let unmeasured = unmeasured(case);
        let (real, simulated) = (outcomes(case, &unmeasured), outcomes(other, &unmeasured));
        match (real.as_slice(), simulated.as_slice()) {
            _ if real.len() == simulated.len()
                && real.iter().all(|outcome| simulated.contains(outcome)) => {}
            ([one], [other]) => lines.extend(
                steps(one, other)
                    .into_iter()
                    .map(|line| format!("{name}{line}")),
            ),
            _ => lines.push(format!(
                "{name}: {} outcomes real, {} simulated",
                real.len(),
                simulated.len()
            )),
        }
    }
    lines
}

/// Returns the calls of a case or, if `case` is `None`, the effect. The file's hash cannot be used here: it changes
/// with every word.
fn asked(scenario: &ScenarioReport, case: Option<&str>) -> Option<String> {
    scenario.plan.as_ref()?.question_json(case)
}

/// Returns the GPUs without a memory measurement on a real machine, such as those that were left out.
fn unmeasured(case: &CaseReport) -> BTreeSet<String> {
    let steps = case
        .outcomes
        .iter()
        .flat_map(|outcome| &outcome.observation.steps);
    let hidden = steps
        .flat_map(|step| &step.memory)
        .filter(|(_, it)| it.hidden == Some(Hidden::Uncalibrated));
    hidden.map(|(gpu, _)| gpu.clone()).collect()
}

/// Returns the observations, without those that vary and those that show nothing about the machine.
fn outcomes(case: &CaseReport, unmeasured: &BTreeSet<String>) -> Vec<Observation> {
    let mut outcomes: Vec<Observation> = case
        .outcomes
        .iter()
        .map(|outcome| outcome.observation.outcome())
        .collect();
    for step in outcomes.iter_mut().flat_map(|outcome| &mut outcome.steps) {
        step.memory.retain(|gpu, _| !unmeasured.contains(gpu));
    }
    outcomes
}

/// Returns the differences between two outcomes, step by step and fact by fact.
fn steps(real: &Observation, simulated: &Observation) -> Vec<String> {
    let mut lines = Vec::new();
    if real.end != simulated.end {
        lines.push(format!(
            ": ends real {}, simulated {}",
            real.end, simulated.end
        ));
    }
    if real.steps.len() != simulated.steps.len() {
        lines.push(format!(
            ": {} steps real, {} simulated",
            real.steps.len(),
            simulated.steps.len()
        ));
    }
    for (real, simulated) in real.steps.iter().zip(&simulated.steps) {
        let (ours, theirs) = (facts(real), facts(simulated));
        let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let (one, other) = (ours.get(key), theirs.get(key));
            if one != other {
                let word = |value: Option<&Value>| {
                    value.map_or_else(|| "nothing".to_string(), Value::to_string)
                };
                lines.push(format!(
                    " at {}: {key} real {}, simulated {}",
                    real.label,
                    word(one),
                    word(other)
                ));
            }
        }
    }
    lines
}

/// Returns the facts of a step, each under its own name.
fn facts(step: &StepObservation) -> BTreeMap<String, Value> {
    let Ok(Value::Object(all)) = serde_json::to_value(step) else {
        return BTreeMap::new();
    };
    let mut flat = BTreeMap::new();
    for (key, value) in all {
        match value {
            Value::Object(parts) if matches!(key.as_str(), "values" | "memory") => {
                flat.extend(
                    parts
                        .into_iter()
                        .map(|(part, value)| (format!("{key}.{part}"), value)),
                );
            }
            value => {
                flat.insert(key, value);
            }
        }
    }
    flat
}
