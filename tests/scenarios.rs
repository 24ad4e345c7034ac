//! Scenarios as tests: one trial for each case of each instance, on the simulated node (`sim`) and,
//! where there are any, on this host's GPUs (`gpu`).
//!
//! Listing reads the scenario files and counts device nodes; no CUDA call is ever made in this
//! process. An instance runs once for all its cases. GPU trials hold a lock on a file, so that they
//! exclude each other across threads and, under nextest, across processes.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use cuda_pitfalls::catalogue;
use cuda_pitfalls::report::{Attempt, Provenance, ScenarioReport};
use cuda_pitfalls::scenario::Scenario;
use cuda_pitfalls::verdict::{ExpectationMet, Kind, Reason};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use common::Scratch;

/// What one trial runs.
#[derive(Clone)]
struct Subject {
    instance: String,
    case: String,
    gpus: usize,
    hazards: Vec<&'static str>,
    /// Whether anything is expected. What takes root or a changed setting may wait for a measurement.
    expects: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if arguments.test_threads == Some(0) {
        eprintln!("error: --test-threads 0 would run nothing; say 1 or more");
        return ExitCode::from(2);
    }
    let scenarios = match catalogue::select(&[]) {
        Ok(scenarios) => scenarios,
        Err(error) => {
            eprintln!("{}", error.render(false));
            return ExitCode::FAILURE;
        }
    };
    let present = common::gpus();
    let mut trials = Vec::new();
    for scenario in &scenarios {
        for subject in subjects(scenario) {
            let name = format!("{}::{}", subject.instance.replacen('/', "::", 1), subject.case);
            let lacking = present < subject.gpus.max(1);
            let simulated = subject.clone();
            trials.push(Trial::ignorable_test(name.clone(), move || on_simulated_node(&simulated)).with_kind("sim"));
            let measured = Trial::ignorable_test(name, move || on_gpus(&subject, present));
            trials.push(measured.with_kind("gpu").with_ignored_flag(lacking));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn subjects(scenario: &Scenario) -> impl Iterator<Item = Subject> {
    scenario.instances.iter().flat_map(move |instance| {
        instance.cases.iter().map(move |case| Subject {
            instance: instance.name.clone(),
            case: case.name.clone(),
            gpus: scenario.needs.gpus as usize,
            hazards: scenario.hazards.iter().map(|hazard| hazard.name()).collect(),
            expects: !instance.expect.is_empty() || instance.cases.iter().any(|case| !case.expect.is_empty()),
        })
    })
}

fn on_simulated_node(subject: &Subject) -> Result<Completion, Failed> {
    // The smallest machine that is big enough; one GPU would hide what happens to the others.
    let machine = match subject.gpus {
        0..=2 => "sim:h200-x2",
        3..=4 => "sim:h200-x4",
        _ => "sim:h200-x8",
    };
    // A hazard is one for the host's GPUs only.
    let allowed = subject.hazards.iter().flat_map(|hazard| ["--allow", hazard]).collect::<Vec<_>>();
    let done = once(subject, machine, &allowed)?;
    let attempts = attempts(&done, &subject.case);
    if done.verdict.expectation == ExpectationMet::NoExpectation && !subject.expects {
        return Ok(Completion::ignored_with("expects nothing: nobody has measured it yet"));
    }
    let not_modelled = |attempt: &Attempt| attempt.invalid.iter().any(|doubt| doubt.reason == Reason::NotModelled);
    if done.verdict.reason == Some(Reason::NotModelled) && (attempts.is_empty() || attempts.iter().any(not_modelled)) {
        return Ok(Completion::ignored_with(format!("not modelled: {}", done.verdict.detail)));
    }
    if let Some(doubt) = attempts.iter().find_map(|attempt| attempt.invalid.first()) {
        return Err(format!("an attempt does not count: {}: {}", doubt.reason.name(), doubt.detail).into());
    }
    let by_another_case = done.verdict.reason == Some(Reason::NotModelled);
    answered(&done, &subject.case, Provenance::Simulated, by_another_case)
}

fn on_gpus(subject: &Subject, present: usize) -> Result<Completion, Failed> {
    let needed = subject.gpus.max(1);
    if present < needed {
        return Ok(Completion::ignored_with(format!("needs {needed} GPU(s), found {present}")));
    }
    let done = once(subject, "cuda", &[])?;
    if done.verdict.kind == Kind::Skipped {
        return Ok(Completion::ignored_with(done.verdict.detail.clone()));
    }
    answered(&done, &subject.case, Provenance::Measured, false)
}

/// What must hold wherever a scenario ran.
fn answered(done: &ScenarioReport, case: &str, by: Provenance, may_be_open: bool) -> Result<Completion, Failed> {
    let verdict = &done.verdict;
    let words = || format!("{} ({}): {}", verdict.kind.name(), verdict.expectation.name(), verdict.detail);
    if verdict.provenance != by {
        return Err(format!("the verdict is {:?} and should be {by:?}", verdict.provenance).into());
    }
    if !attempts(done, case).iter().any(|attempt| attempt.invalid.is_empty()) {
        return Err(format!("no attempt counts: {}", words()).into());
    }
    if verdict.expectation == ExpectationMet::Unexpected {
        return Err(format!("{}\n{}", words(), verdict.unexpected.join("\n")).into());
    }
    if !verdict.kind.is_conclusive() && !may_be_open {
        return Err(words().into());
    }
    Ok(Completion::Completed)
}

fn attempts<'r>(done: &'r ScenarioReport, case: &str) -> &'r [Attempt] {
    done.cases.iter().find(|known| known.name == case).map_or(&[], |case| &case.attempts)
}

type Done = Arc<OnceLock<Result<ScenarioReport, String>>>;

static RUNS: LazyLock<Mutex<BTreeMap<String, Done>>> = LazyLock::new(Mutex::default);

/// Runs an instance, unless a trial of another of its cases already has.
fn once(subject: &Subject, on: &str, more: &[&str]) -> Result<ScenarioReport, String> {
    let key = format!("{on} {}", subject.instance);
    let run = RUNS.lock().map_err(|error| error.to_string())?.entry(key).or_default().clone();
    run.get_or_init(|| run_instance(&subject.instance, on, more)).clone()
}

fn run_instance(instance: &str, on: &str, more: &[&str]) -> Result<ScenarioReport, String> {
    let _alone = if on == "cuda" { Some(lock()?) } else { None };
    let scratch = Scratch::new();
    let (_, mut report) = scratch.simulate(on, &[instance], &[&["--repeat", "1"], more].concat());
    match (report.scenarios.pop(), report.scenarios.is_empty()) {
        (Some(done), true) if done.name == instance => Ok(done),
        _ => Err(format!("the report is not about {instance} alone")),
    }
}

/// Keeps every other trial off the GPUs until the file is closed.
fn lock() -> Result<File, String> {
    let path = std::env::temp_dir().join("cuda-pitfalls-tests.lock");
    let file = File::options().create(true).append(true).open(&path).map_err(|error| error.to_string())?;
    file.lock().map_err(|error| error.to_string())?;
    Ok(file)
}
