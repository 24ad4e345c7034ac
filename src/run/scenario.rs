//! One instance of a scenario: plan, attempts, judgement.

use std::collections::VecDeque;

use super::console::Console;
use super::stage::Stage;
use super::{Options, provenance};
use crate::event::{Event, MappedLibrary};
use crate::judge::{self, Facts};
use crate::observe::Scene;
use crate::plan::{self, CasePlan, Plan, Unmet};
use crate::report::{Attempt, CaseReport, Doubt, Provenance, Report, ScenarioReport};
use crate::scenario::{Instance, Scenario};
use crate::step::{self, Library};
use crate::supervisor::Trouble;
use crate::verdict::{ExpectationMet, Kind, Reason, Verdict};

/// Runs one instance on the libcudart at `place`.
pub(super) fn run(
    stage: &mut Stage,
    scenario: &Scenario,
    instance: &Instance,
    report: &Report,
    options: &Options,
    place: usize,
    console: &Console,
) -> ScenarioReport {
    let runtime = stage.runtime(place);
    let mut done = ScenarioReport {
        name: instance.name.clone(),
        scenario: scenario.name.clone(),
        question: scenario.question.clone(),
        remedy: Some(scenario.remedy.clone()),
        tags: scenario.tags.clone(),
        parameters: instance.values.clone(),
        sha256: scenario.sha256.clone(),
        asked_by_name: false,
        lacks: None,
        libcudart: runtime.clone(),
        plan: None,
        verdict: nothing(stage.provenance, Kind::Skipped, Reason::HostUnsafe, String::new()),
        cases: Vec::new(),
    };
    if let Some(why) = &report.run.host_unsafe {
        done.verdict.detail.clone_from(why);
        return done;
    }
    let planning = planning(stage, options, place);
    let plan = match plan::resolve(scenario, instance, &stage.machine, &planning) {
        Ok(plan) => plan,
        Err(Unmet { reason, detail, lacks }) => {
            done.lacks = Some(lacks);
            done.verdict = nothing(stage.provenance, Kind::Skipped, reason, detail);
            return done;
        }
    };
    done.cases = plan
        .cases
        .iter()
        .map(|case| CaseReport { name: case.name.clone(), outcomes: Vec::new(), attempts: Vec::new() })
        .collect();
    let scene = Scene { calibration: &report.run.calibration, gpus: &stage.machine.gpus.clone() };
    let trouble = attempts(stage, &plan, &mut done.cases, &scene, report.run.seed, console).err();
    let facts = Facts::new(&stage.machine, done.libcudart.as_ref(), &plan, stage.provenance);
    if let Some(Trouble::Missing(what)) = &trouble {
        done.lacks = Some(what.join(" and "));
    }
    done.verdict = match trouble {
        Some(trouble) => troubled(stage.provenance, &trouble),
        None => judge::judge(&plan, &mut done.cases, &scene, &facts),
    };
    done.plan = Some(plan);
    done
}

/// What the command line and the moment decide about plans.
pub(super) fn planning(stage: &mut Stage, options: &Options, place: usize) -> plan::Options {
    plan::Options {
        repeat: options.repeat,
        quick: options.quick,
        restrict: stage.restrict.clone(),
        allow: options.allow.clone(),
        libcudart: stage.runtime(place),
        root: rustix::process::geteuid().is_root(),
        busy: busy(stage),
    }
}

/// Makes every attempt in a seeded, interleaved order, and makes those again that a stranger's
/// memory spoilt, within bounds.
fn attempts(
    stage: &mut Stage,
    plan: &Plan,
    cases: &mut [CaseReport],
    scene: &Scene,
    seed: u64,
    console: &Console,
) -> Result<(), Trouble> {
    // Of a single case the first attempt tells.
    if plan.cases.len() > 1 {
        stage.supervisor.look_for_needs(plan.timeouts(), &plan.cases)?;
    }
    let mut pending: VecDeque<usize> = plan::order(plan.cases.len(), plan.repeat, seed).into();
    let mut order = 0;
    while let Some(place) = pending.pop_front() {
        if stage.supervisor.interrupt.check() {
            return Ok(());
        }
        let (Some(case), Some(kept)) = (plan.cases.get(place), cases.get_mut(place)) else { continue };
        let mut attempt = stage.supervisor.attempt(plan.timeouts(), case, order)?;
        order += 1;
        keep_libraries(stage, case, &mut attempt);
        attempt.invalid = judge::doubts(plan, case, &attempt, scene);
        let unkillable = attempt.exit.unkillable;
        kept.attempts.push(attempt);
        if unkillable {
            return Ok(());
        }
        if pending.is_empty() {
            pending.extend(judge::additional_attempts(plan, cases));
        }
        console.tick();
    }
    Ok(())
}

/// Moves the libraries that a worker mapped to the machine's part, where they are told once, and
/// refuses an attempt that was not made on what the run is about, or of which that is unknown.
fn keep_libraries(stage: &mut Stage, case: &CasePlan, attempt: &mut Attempt) {
    // A libcudart opens libcuda itself, at the first call; the probes and the driver API need it at once.
    let of_driver = |call: &str| step::find(call).is_some_and(|kind| kind.origin == Library::Driver);
    let takes_libcuda = case.probes || case.steps.iter().any(|step| of_driver(&step.call));
    for said in &mut attempt.events {
        let Event::Ready { libraries, missing, .. } = &mut said.event else { continue };
        let is_libcuda = |library: &MappedLibrary| library.simulated || library.name == Library::Driver.name();
        if takes_libcuda && missing.is_empty() && !libraries.iter().any(is_libcuda) {
            let detail = "no libcuda is among the libraries that the worker mapped".to_string();
            attempt.invalid.push(Doubt { reason: Reason::Protocol, detail });
        }
        for library in libraries.drain(..) {
            if provenance(library.simulated) != stage.provenance {
                let detail = format!("the worker mapped {}, which is not what this run is on", library.path);
                attempt.invalid.push(Doubt { reason: Reason::Protocol, detail });
            }
            if !stage.machine.libraries.contains(&library) {
                stage.machine.libraries.push(library);
            }
        }
    }
}

/// GPUs on which somebody else's processes run right now.
fn busy(stage: &mut Stage) -> Vec<String> {
    let Ok(sweep) = stage.supervisor.sampler.sweep() else { return Vec::new() };
    let is_busy = |reading: &crate::sample::Reading| reading.processes.as_ref().is_some_and(|list| !list.is_empty());
    let gpus = stage.machine.gpus.iter().zip(&sweep.gpus);
    gpus.filter(|(_, reading)| is_busy(reading)).map(|(gpu, _)| gpu.uuid.clone()).collect()
}

fn nothing(provenance: Provenance, kind: Kind, reason: Reason, detail: String) -> Verdict {
    Verdict {
        kind,
        reason: Some(reason),
        detail,
        expectation: ExpectationMet::NoExpectation,
        unexpected: Vec::new(),
        unobservable: Vec::new(),
        provenance,
    }
}

/// What a scenario that could not be run at all concludes.
fn troubled(provenance: Provenance, trouble: &Trouble) -> Verdict {
    let detail = trouble.to_string();
    match trouble {
        // The simulated node exports what it models; the rest it does not know.
        Trouble::Missing(_) if provenance == Provenance::Simulated => {
            nothing(provenance, Kind::Inconclusive, Reason::NotModelled, detail)
        }
        Trouble::Missing(_) => nothing(provenance, Kind::Skipped, Reason::MissingSymbol, detail),
        Trouble::Sampler(_) => nothing(provenance, Kind::Inconclusive, Reason::SamplerLost, detail),
        Trouble::Protocol(_) => nothing(provenance, Kind::HarnessError, Reason::Protocol, detail),
        Trouble::System(_) => nothing(provenance, Kind::HarnessError, Reason::System, detail),
        Trouble::Unkillable(_) => nothing(provenance, Kind::Inconclusive, Reason::Unkillable, detail),
    }
}

/// What NVML answers for a GPU that nothing can be done with until it is reset.
const LOST: [&str; 2] = ["NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED"];

/// Why the host must not be used further: a worker of this scenario could not be killed, or NVML
/// says that a GPU is lost.
pub(super) fn host_unsafe(done: &ScenarioReport) -> Option<String> {
    if done.verdict.reason == Some(Reason::Unkillable) {
        return Some(format!("{}: {}", done.name, done.verdict.detail));
    }
    let mut attempts = done.cases.iter().flat_map(|case| &case.attempts);
    attempts.find_map(|attempt| {
        if attempt.exit.unkillable {
            return Some(format!("process {} of {} could not be killed", attempt.pid, done.name));
        }
        let mut errors = attempt.sweeps.iter().flat_map(|sweep| &sweep.sweep.gpus).flat_map(|gpu| &gpu.errors);
        let lost = errors.find(|error| LOST.iter().any(|lost| error.ends_with(lost)))?;
        Some(format!("a GPU was lost during {}: {lost}", done.name))
    })
}
