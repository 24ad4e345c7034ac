//! An instance of a scenario on one libcudart: planned, measured in rounds, and judged.
//!
//! A round is one attempt of every case. A run makes the first round of every question, then the second, and so on.
//! Therefore a run that is stopped after three rounds has an answer to every question. A survey completes one question
//! before it begins the next.

use std::collections::VecDeque;

use super::console::Console;
use super::options::RunOptions;
use super::session::Session;
use cuda_pitfalls_core::experiment::Experiment;
use cuda_pitfalls_core::judge::{self, Facts};
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::plan::{self, Plan, Unmet};
use cuda_pitfalls_core::report::{Attempt, CaseReport, Run, ScenarioReport};
use cuda_pitfalls_core::sample::Reading;
use cuda_pitfalls_core::scenario::{Hazard, Instance, Scenario};
use cuda_pitfalls_core::verdict::{Kind, Provenance, Reason, Verdict};
use cuda_pitfalls_instrument::supervisor::SupervisorError;
use cuda_pitfalls_render::answer::InstanceAnswer;

/// A question in progress. Its results are in its [`ScenarioReport`].
pub(super) struct OpenQuestion {
    pub(super) runtime: usize,
    /// `true` if it may cause a GPU fault. Such questions run last.
    pub(super) may_fault: bool,
    /// The cases of the remaining attempts, in order.
    pending: VecDeque<usize>,
    made: u32,
    /// Number of complete rounds.
    rounds: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No process was started for it.
    Planned,
    /// The question's needs were checked, and attempts are being made.
    Begun,
    /// The verdict is known.
    Done,
}

/// Session and outputs that the attempts of a question use.
pub(super) struct Asking<'a> {
    pub(super) session: &'a mut Session,
    pub(super) run: &'a Run,
    pub(super) done: &'a mut ScenarioReport,
    pub(super) console: &'a Console,
}

/// Plans an instance on a libcudart. If the machine cannot answer it, it is done.
pub(super) fn plan_question(
    session: &Session,
    scenario: &Scenario,
    instance: &Instance,
    run: &Run,
    planning: &plan::Options,
    runtime: usize,
) -> (OpenQuestion, ScenarioReport) {
    let mut done = ScenarioReport {
        name: instance.name.clone(),
        scenario: scenario.name.clone(),
        question: scenario.question.clone(),
        workaround: scenario.workaround.clone(),
        tags: scenario.tags.clone(),
        parameters: instance.values.clone(),
        sha256: scenario.sha256.clone(),
        libcudart: if scenario.has_python_lines() {
            None
        } else {
            session.runtime(runtime)
        },
        verdict: open_verdict(session.provenance, "not run yet".to_string()),
        ..ScenarioReport::default()
    };
    let mut question = OpenQuestion {
        runtime,
        may_fault: scenario.hazards.contains(&Hazard::Fault),
        pending: VecDeque::new(),
        made: 0,
        rounds: 0,
        state: State::Planned,
    };
    match plan::resolve_plan(scenario, instance, &session.machine, planning) {
        Ok(plan) => {
            question.pending = plan::order(plan.cases.len(), plan.repeat, run.order_seed()).into();
            for case in &plan.cases {
                done.cases
                    .push(CaseReport::new(case.name.clone(), Vec::new()));
            }
            done.plan = Some(plan);
        }
        Err(Unmet {
            reason,
            detail,
            lacks,
        }) => {
            done.lacks = Some(lacks);
            done.verdict = unanswered(session.provenance, Kind::Skipped, reason, detail);
            question.state = State::Done;
        }
    }
    (question, done)
}

impl OpenQuestion {
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns `true` if any attempt was made or tried.
    pub(super) fn has_begun(&self) -> bool {
        self.state != State::Planned
    }

    /// Returns `true` if the next round is the last one.
    pub(super) fn is_last_round(&self, done: &ScenarioReport) -> bool {
        self.rounds + 1 >= repeat(done)
    }

    /// Returns the number of rounds that were made, and of those still to be made.
    pub(super) fn round_counts(&self, done: &ScenarioReport) -> (usize, usize) {
        let to_make = if self.is_done() {
            0
        } else {
            repeat(done).saturating_sub(self.rounds)
        };
        (self.rounds as usize, to_make as usize)
    }

    /// Limits the question to this many rounds, but not below those that were made.
    pub(super) fn limit(&mut self, done: &mut ScenarioReport, rounds: u32) {
        if self.is_done() {
            return;
        }
        let Some(plan) = done.plan.as_mut() else {
            return;
        };
        plan.repeat = plan.repeat.min(rounds.max(self.rounds).max(1));
        let left = (plan.repeat - self.rounds) as usize * plan.cases.len();
        self.pending.truncate(left);
    }

    /// Makes one attempt of every case. If the question turns out not to be possible here, it is done.
    pub(super) fn make_round(&mut self, asking: &mut Asking<'_>) {
        let Some(plan) = asking.done.plan.clone() else {
            return;
        };
        match self.ask(asking, &plan, plan.cases.len()) {
            Err(trouble) => self.give_up(asking, &trouble),
            Ok(is_whole) => {
                self.rounds += u32::from(is_whole);
                let words = format!(
                    "{} of {} attempts of each case are made",
                    self.rounds, plan.repeat
                );
                asking.done.verdict = open_verdict(asking.session.provenance, words);
            }
        }
    }

    /// Returns the answer of the rounds so far; their attempts must be in memory. The question stays open.
    pub(super) fn so_far(&self, asking: &mut Asking<'_>) -> Option<InstanceAnswer> {
        if self.is_done() || self.rounds == 0 {
            return None;
        }
        let mut plan = asking.done.plan.clone()?;
        plan.repeat = self.rounds;
        let open = asking.done.verdict.clone();
        asking.judge_attempts(&plan);
        let answer = InstanceAnswer::new(&asking.done.view());
        asking.done.verdict = open;
        Some(answer)
    }

    /// Repeats attempts that others disturbed, confirms an unexpected verdict, and judges. All attempts must be in
    /// memory.
    ///
    /// If `is_over`, no more attempts are made, and the complete rounds so far are judged, if they are enough.
    pub(super) fn conclude(&mut self, asking: &mut Asking<'_>, is_over: bool) {
        if self.is_done() {
            return;
        }
        match self.make_sure(asking, is_over) {
            Err(trouble) => self.give_up(asking, &trouble),
            Ok(()) => self.state = State::Done,
        }
    }

    fn make_sure(&mut self, asking: &mut Asking<'_>, is_over: bool) -> Result<(), SupervisorError> {
        let Some(mut plan) = asking.done.plan.clone() else {
            return Ok(());
        };
        if is_over && (1..plan.repeat).contains(&self.rounds) {
            plan.planned = Some(plan.repeat);
            plan.repeat = self.rounds;
        }
        if !is_over {
            self.make_again(asking, &plan)?;
        }
        asking.judge_attempts(&plan);
        let confirming = judge::confirming_attempts(&plan, &asking.done.verdict);
        if confirming > 0 && !is_over {
            plan.repeat += confirming;
            self.pending.extend(plan::order(
                plan.cases.len(),
                confirming,
                asking.run.order_seed(),
            ));
            self.ask(asking, &plan, self.pending.len())?;
            self.make_again(asking, &plan)?;
            asking.judge_attempts(&plan);
        }
        asking.done.plan = Some(plan);
        Ok(())
    }

    /// Repeats attempts that another process disturbed, up to a limit.
    fn make_again(&mut self, asking: &mut Asking<'_>, plan: &Plan) -> Result<(), SupervisorError> {
        loop {
            let again = judge::additional_attempts(plan, &asking.done.cases);
            if again.is_empty() || asking.is_over() {
                return Ok(());
            }
            self.pending.extend(again);
            self.ask(asking, plan, self.pending.len())?;
        }
    }

    /// Makes this many of the remaining attempts. False if it had to stop earlier.
    fn ask(
        &mut self,
        asking: &mut Asking<'_>,
        plan: &Plan,
        attempts: usize,
    ) -> Result<bool, SupervisorError> {
        let timeouts = plan.timeouts();
        // If there is a single case, its first attempt shows what is missing.
        if self.state == State::Planned && plan.cases.len() > 1 {
            let experiments: Vec<Experiment> = plan
                .cases
                .iter()
                .map(|case| case.experiment(timeouts))
                .collect();
            asking.session.supervisor.look_for_needs(&experiments)?;
        }
        self.state = State::Begun;
        let figures = asking.run.calibrations();
        for _ in 0..attempts {
            if asking.is_over() {
                return Ok(false);
            }
            let Some(index) = self.pending.pop_front() else {
                break;
            };
            let (Some(case), Some(kept)) =
                (plan.cases.get(index), asking.done.cases.get_mut(index))
            else {
                continue;
            };
            let mut attempt = Attempt::new(
                self.made,
                asking.session.record_attempt(&case.experiment(timeouts))?,
            );
            self.made += 1;
            let scene = Scene {
                calibration: &figures,
                gpus: &asking.session.machine.gpus,
            };
            attempt.judged.invalid = judge::invalidations(plan, case, &attempt.recording, &scene);
            kept.attempts.push(attempt);
            asking.console.tick();
        }
        // An interrupted attempt does not count.
        Ok(!asking.session.supervisor.interrupt.check())
    }

    fn give_up(&mut self, asking: &mut Asking<'_>, trouble: &SupervisorError) {
        if let SupervisorError::Missing(what) = trouble {
            asking.done.lacks = Some(what.join(" and "));
        }
        asking.done.verdict = trouble_verdict(asking.session.provenance, trouble);
        self.state = State::Done;
    }

    /// Concludes the question without an attempt, because the host is unsafe.
    pub(super) fn refuse_unsafe(
        &mut self,
        session: &Session,
        done: &mut ScenarioReport,
        why: &str,
    ) {
        if self.state == State::Planned {
            done.plan = None;
            done.cases.clear();
            done.verdict = unanswered(
                session.provenance,
                Kind::Skipped,
                Reason::HostUnsafe,
                why.to_string(),
            );
            self.state = State::Done;
        }
    }
}

/// Returns the number of attempts that each case should have.
pub(super) fn repeat(done: &ScenarioReport) -> u32 {
    done.plan.as_ref().map_or(0, |plan| plan.repeat)
}

/// Runs one instance until it is done.
pub(super) fn answer(
    session: &mut Session,
    scenario: &Scenario,
    instance: &Instance,
    run: &Run,
    planning: &plan::Options,
    runtime: usize,
    console: &Console,
) -> ScenarioReport {
    let (mut question, mut done) =
        plan_question(session, scenario, instance, run, planning, runtime);
    if let Some(why) = &run.host_unsafe {
        question.refuse_unsafe(session, &mut done, why);
    }
    while !question.is_done() {
        let is_last = question.is_last_round(&done);
        let asking = &mut Asking {
            session: &mut *session,
            run,
            done: &mut done,
            console,
        };
        question.make_round(asking);
        let is_interrupted = asking.session.supervisor.interrupt.check();
        if is_last || asking.is_over() {
            question.conclude(asking, is_interrupted);
        }
    }
    done
}

/// Returns the options of plans, from the command line and the current state of the GPUs.
pub(super) fn plan_options(
    session: &mut Session,
    options: &RunOptions,
    runtime: usize,
) -> plan::Options {
    plan::Options {
        repeat: options.asked.repeat,
        quick: options.asked.quick,
        restrict: session.restrict.clone(),
        allow: options.allow.clone(),
        libcudart: session.runtime(runtime),
        root: rustix::process::geteuid().is_root(),
        busy: busy_gpus(session),
    }
}

impl Asking<'_> {
    fn judge_attempts(&mut self, plan: &Plan) {
        let facts = Facts::new(
            &self.session.machine,
            self.done.libcudart.as_ref(),
            plan,
            self.session.provenance,
        );
        let figures = self.run.calibrations();
        let scene = Scene {
            calibration: &figures,
            gpus: &self.session.machine.gpus,
        };
        self.done.verdict = judge::judge_scenario(plan, &mut self.done.cases, &scene, &facts);
    }

    /// Returns `true` if no more attempts may be started: the user stopped the run, or a process could not be killed.
    pub(super) fn is_over(&mut self) -> bool {
        let mut attempts = self.done.cases.iter().flat_map(|case| &case.attempts);
        self.session.supervisor.interrupt.check()
            || attempts.any(|attempt| attempt.recording.exit.unkillable)
    }
}

/// Returns the UUIDs of the GPUs that other processes run on now.
fn busy_gpus(session: &mut Session) -> Vec<String> {
    let Ok(snapshot) = session.supervisor.sampler.snapshot() else {
        return Vec::new();
    };
    let is_busy = |reading: &Reading| {
        let processes = reading.processes.as_ref();
        processes.is_some_and(|list| !list.is_empty())
    };
    let mut busy = Vec::new();
    for (gpu, reading) in session.machine.gpus.iter().zip(&snapshot.gpus) {
        if is_busy(reading) {
            busy.push(gpu.uuid.clone());
        }
    }
    busy
}

/// Returns the verdict of a question that is not answered yet.
fn open_verdict(provenance: Provenance, detail: String) -> Verdict {
    unanswered(provenance, Kind::Inconclusive, Reason::Interrupted, detail)
}

/// Returns a verdict without an answer.
fn unanswered(provenance: Provenance, kind: Kind, reason: Reason, detail: String) -> Verdict {
    Verdict {
        kind,
        reason: Some(reason),
        detail,
        provenance,
        ..Verdict::default()
    }
}

/// Returns the verdict of a scenario that could not be run at all.
fn trouble_verdict(provenance: Provenance, trouble: &SupervisorError) -> Verdict {
    use SupervisorError::{Missing, Protocol, Sampler, Stuck, System, Unkillable, Unwatched};
    let (kind, reason) = match trouble {
        // The simulated machine exports exactly what it models, so a missing symbol is not modeled.
        Missing(_) if provenance == Provenance::Simulated => {
            (Kind::Inconclusive, Reason::NotModelled)
        }
        Missing(_) => (Kind::Skipped, Reason::MissingSymbol),
        Sampler(_) => (Kind::Inconclusive, Reason::SamplerLost),
        Protocol(_) => (Kind::HarnessError, Reason::Protocol),
        System(_) | Unwatched(_) | Stuck(_) => (Kind::HarnessError, Reason::System),
        Unkillable(_) => (Kind::Inconclusive, Reason::Unkillable),
    };
    unanswered(provenance, kind, reason, trouble.to_string())
}

/// NVML's errors for a GPU that cannot be used until it is reset.
const LOST: [&str; 2] = ["NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED"];

/// Returns the reason why the host must not be used further: a worker of this scenario could not be killed, or NVML
/// reports a lost GPU.
pub(super) fn why_host_unsafe(done: &ScenarioReport) -> Option<String> {
    if done.verdict.reason == Some(Reason::Unkillable) {
        return Some(format!("{}: {}", done.name, done.verdict.detail));
    }
    for attempt in done.cases.iter().flat_map(|case| &case.attempts) {
        let recording = &attempt.recording;
        if recording.exit.unkillable {
            let (pid, name) = (recording.pid, &done.name);
            return Some(format!("process {pid} of {name} could not be killed"));
        }
        let snapshots = recording.snapshots.iter();
        let gpus = snapshots.flat_map(|snapshot| &snapshot.snapshot.gpus);
        let mut errors = gpus.flat_map(|gpu| &gpu.errors);
        if let Some(lost) = errors.find(|error| LOST.iter().any(|lost| error.ends_with(lost))) {
            return Some(format!("a GPU was lost during {}: {lost}", done.name));
        }
    }
    None
}
