//! Scenarios as tests: one trial for each case of each instance, on the simulated driver (`sim`) and, where available,
//! on this host's GPUs (`gpu`).
//!
//! Listing reads the scenario files and counts device nodes; no CUDA call is ever made in this process. A directory of
//! scenarios runs once for all its trials. GPU trials hold a lock on a file, so that they exclude each other across
//! threads and, under nextest, across processes; their reports are kept in the directory of
//! `CUDA_PITFALLS_KEEP_REPORTS`.
//!
//! The trials of `deploy` are here too: they wait for other processes while the scenarios run.

mod common;
#[path = "deploy/main.rs"]
mod deploy;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cuda_pitfalls::catalogue;
use cuda_pitfalls::report::{Attempt, Report, ScenarioReport};
use cuda_pitfalls::scenario::{Hazard, Scenario};
use cuda_pitfalls::verdict::Provenance;
use cuda_pitfalls::verdict::{ExpectationMet, Kind, Reason};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use common::{Scratch, all_simulated};

/// Longer than a folder takes on 8 GPUs.
const LONGEST: Duration = Duration::from_secs(900);

/// Subject of one trial.
#[derive(Clone)]
struct Subject {
    instance: String,
    case: String,
    gpus: usize,
    /// `true` if an expectation exists. A scenario that requires root or a changed setting may wait for a measurement.
    expects: bool,
    /// `true` if its lines need packages.
    is_of_a_framework: bool,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.test_threads == Some(0) {
        eprintln!("error: --test-threads 0 would run nothing; say 1 or more");
        return ExitCode::from(2);
    }
    let scenarios = match catalogue::select_scenarios(&[]) {
        Ok(scenarios) => scenarios,
        Err(error) => {
            eprintln!("{}", error.render(false));
            return ExitCode::FAILURE;
        }
    };
    let present = common::gpus();
    let subjects: Vec<Subject> = scenarios.iter().flat_map(subjects).collect();
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty();
    let mut runs = Runs {
        is_whole,
        ..Runs::default()
    };
    for subject in &subjects {
        runs.add(simulated(subject), subject);
        runs.add("cuda", subject);
    }
    let runs = Arc::new(runs);
    let mut trials = Vec::new();
    for subject in subjects {
        let name = format!(
            "{}::{}",
            subject.instance.replacen('/', "::", 1),
            subject.case
        );
        let lacking = present < subject.gpus.max(1);
        let (on_simulated, by_simulated) = (subject.clone(), runs.clone());
        let trial = move || on_simulated_machine(&on_simulated, &by_simulated);
        trials.push(Trial::ignorable_test(name.clone(), trial).with_kind("sim"));
        let by_measured = runs.clone();
        let measured =
            Trial::ignorable_test(name, move || on_gpus(&subject, present, &by_measured));
        trials.push(measured.with_kind("gpu").with_ignored_flag(lacking));
    }
    // Trials of one folder wait for one run: the first of each folder come first, so that runs are made side by side.
    let mut seen = BTreeMap::new();
    trials.sort_by_cached_key(|trial| {
        let count: &mut usize = seen
            .entry(
                trial
                    .name()
                    .split("::")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )
            .or_default();
        *count += 1;
        *count
    });
    // These wait most of the time.
    trials.splice(0..0, deploy::all());
    // A run waits for its processes half of the time.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    arguments.test_threads = arguments.test_threads.or(Some(2 * cores));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn subjects(scenario: &Scenario) -> impl Iterator<Item = Subject> {
    scenario.instances.iter().flat_map(move |instance| {
        instance.cases.iter().map(move |case| Subject {
            instance: instance.name.clone(),
            case: case.name.clone(),
            gpus: scenario.needs.gpus as usize,
            is_of_a_framework: case
                .python
                .as_ref()
                .is_some_and(|python| !python.needs.is_empty()),
            expects: !instance.expect.is_empty()
                || instance.cases.iter().any(|case| !case.expect.is_empty()),
        })
    })
}

/// Returns the smallest machine that is big enough; one GPU would hide what happens to the others.
fn simulated(subject: &Subject) -> &'static str {
    match subject.gpus {
        0..=2 => "sim:h200-x2",
        3..=4 => "sim:h200-x4",
        _ => "sim:h200-x8",
    }
}

fn on_simulated_machine(subject: &Subject, runs: &Runs) -> Result<Completion, Failed> {
    let done = runs.part(simulated(subject), subject)?;
    let attempts = attempts(&done, &subject.case);
    if subject.is_of_a_framework {
        // If it is installed, it uses a driver that models the calls of scenarios, not the framework's.
        return match done.verdict.kind {
            Kind::HarnessError => Err(done.verdict.detail.clone().into()),
            _ => Ok(Completion::ignored_with(format!(
                "a framework on a fake driver: {}",
                done.verdict.detail
            ))),
        };
    }
    if done.verdict.expectation == ExpectationMet::NoExpectation && !subject.expects {
        return Ok(Completion::ignored_with(
            "expects nothing: nobody has measured it yet",
        ));
    }
    let not_modelled = |attempt: &Attempt| {
        attempt
            .judged
            .invalid
            .iter()
            .any(|invalid| invalid.reason == Reason::NotModelled)
    };
    if done.verdict.reason == Some(Reason::NotModelled)
        && (attempts.is_empty() || attempts.iter().any(not_modelled))
    {
        return Ok(Completion::ignored_with(format!(
            "not modelled: {}",
            done.verdict.detail
        )));
    }
    if let Some(invalid) = attempts
        .iter()
        .find_map(|attempt| attempt.judged.invalid.first())
    {
        return Err(format!(
            "an attempt does not count: {}: {}",
            invalid.reason.name(),
            invalid.detail
        )
        .into());
    }
    let by_another_case = done.verdict.reason == Some(Reason::NotModelled);
    answered(&done, &subject.case, Provenance::Simulated, by_another_case)
}

fn on_gpus(subject: &Subject, present: usize, runs: &Runs) -> Result<Completion, Failed> {
    let needed = subject.gpus.max(1);
    if present < needed {
        return Ok(Completion::ignored_with(format!(
            "needs {needed} GPU(s), found {present}"
        )));
    }
    let done = runs.part("cuda", subject)?;
    if done.verdict.kind == Kind::Skipped {
        return Ok(Completion::ignored_with(done.verdict.detail.clone()));
    }
    answered(&done, &subject.case, Provenance::Measured, false)
}

/// Checks the properties that a scenario must have wherever it ran.
fn answered(
    done: &ScenarioReport,
    case: &str,
    by: Provenance,
    may_be_open: bool,
) -> Result<Completion, Failed> {
    let verdict = &done.verdict;
    let words = || {
        format!(
            "{} ({}): {}",
            verdict.kind.name(),
            verdict.expectation.name(),
            verdict.detail
        )
    };
    if verdict.provenance != by {
        return Err(format!(
            "the verdict is {:?} and should be {by:?}",
            verdict.provenance
        )
        .into());
    }
    if !attempts(done, case)
        .iter()
        .any(|attempt| attempt.judged.invalid.is_empty())
    {
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
    done.cases
        .iter()
        .find(|known| known.name == case)
        .map_or(&[], |case| &case.attempts)
}

/// A run of all instances of a directory on a machine, so that the instrument is measured once for all of them.
#[derive(Default)]
struct Runs {
    /// `true` if all trials run: then the other test programs share the simulated run.
    is_whole: bool,
    by_folder: BTreeMap<(&'static str, String), Run>,
}

#[derive(Default)]
struct Run {
    instances: BTreeSet<String>,
    done: OnceLock<Result<BTreeMap<String, ScenarioReport>, String>>,
}

impl Runs {
    fn add(&mut self, on: &'static str, subject: &Subject) {
        self.by_folder
            .entry((on, folder(subject)))
            .or_default()
            .instances
            .insert(subject.instance.clone());
    }

    /// Returns the result for the subject's instance from the run of its directory.
    fn part(&self, on: &'static str, subject: &Subject) -> Result<ScenarioReport, String> {
        if self.is_whole && on == "sim:h200-x2" {
            let mut all = all_simulated().iter().flat_map(|report| &report.scenarios);
            let found = all.find(|scenario| scenario.name == subject.instance);
            return found
                .cloned()
                .ok_or_else(|| format!("{} is not in the reports", subject.instance));
        }
        let run = self
            .by_folder
            .get(&(on, folder(subject)))
            .ok_or("no run has this instance")?;
        let done = run
            .done
            .get_or_init(|| ask(on, &run.instances))
            .as_ref()
            .map_err(Clone::clone)?;
        done.get(&subject.instance)
            .cloned()
            .ok_or_else(|| format!("{} is not in the report", subject.instance))
    }
}

fn folder(subject: &Subject) -> String {
    subject
        .instance
        .split('/')
        .next()
        .unwrap_or_default()
        .to_string()
}

/// Runs instances, one attempt of each case.
fn ask(on: &str, instances: &BTreeSet<String>) -> Result<BTreeMap<String, ScenarioReport>, String> {
    let _alone = if on == "cuda" { Some(lock()?) } else { None };
    let scratch = Scratch::new();
    let selectors: Vec<&str> = instances.iter().map(String::as_str).collect();
    let mut command = scratch.simulating(on, &selectors, &["--repeat", "1"]);
    // A hazard is one for the host's GPUs only.
    for hazard in Hazard::ALL.into_iter().filter(|_| on != "cuda") {
        command.args(["--allow", hazard.name()]);
    }
    let ran = scratch.start(command).wait(LONGEST);
    let report: Report = serde_json::from_str(&ran.stdout).map_err(|error| {
        format!(
            "stdout is not a report ({error}):\n{}\n{}",
            ran.stdout, ran.stderr
        )
    })?;
    // The report of a GPU machine can be kept.
    if on == "cuda"
        && let Some(folder) = std::env::var_os("CUDA_PITFALLS_KEEP_REPORTS")
    {
        let folder = std::path::PathBuf::from(folder).join(format!("trials-{}", report.run.id));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        std::fs::write(folder.join("report.json"), &ran.stdout)
            .map_err(|error| error.to_string())?;
    }
    Ok(report
        .scenarios
        .into_iter()
        .map(|done| (done.name.clone(), done))
        .collect())
}

/// Keeps every other trial off the GPUs until the file is closed.
fn lock() -> Result<File, String> {
    let path = std::env::temp_dir().join("cuda-pitfalls-tests.lock");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(|error| error.to_string())?;
    file.lock().map_err(|error| error.to_string())?;
    Ok(file)
}
