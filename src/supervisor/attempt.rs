//! One attempt: a fresh worker makes the steps of a case, and every GPU is read at each of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use super::conversation::{Conversation, Waited, Want};
use super::spawn::{self, Spawn};
use super::{Supervisor, end, environment, role};
use crate::channel::Channel;
use crate::clock;
use crate::event::{Command, Event};
use crate::plan::{CasePlan, Plan};
use crate::report::{Attempt, AttemptSweep, Doubt, Exit};
use crate::sample::Sweep;
use crate::scenario::Step;
use crate::step::constants::SIGNALS;
use crate::verdict::Reason;

/// Readings closer than this are equal: NVML counts in pages, and nothing smaller is real.
const SETTLED_BYTES: u64 = 2 << 20;
/// Memory that has not come to rest by then is unsettled.
const SETTLE_MS: u64 = 5_000;

/// Why an attempt could not be made, or not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Libraries or symbols that the steps need are not there.
    #[error("missing: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(String),
    /// A process of ours spoke nonsense.
    #[error("{0}")]
    Protocol(String),
    /// The sampler is lost.
    #[error("the sampler was lost: {0}")]
    Sampler(String),
}

impl Trouble {
    /// An error of the system.
    pub(super) fn system(error: std::io::Error) -> Trouble {
        Trouble::System(error.to_string())
    }
}

/// What goes wrong while a worker runs is a fact about the attempt and is kept with it.
#[derive(Default)]
struct Facts {
    sweeps: Vec<AttemptSweep>,
    doubts: Vec<Doubt>,
    exit: Exit,
}

impl Facts {
    fn doubt(&mut self, reason: Reason, detail: impl Into<String>) {
        self.doubts.push(Doubt { reason, detail: detail.into() });
    }
}

impl Supervisor {
    /// Makes one attempt. `order` is its place among the scenario's attempts.
    pub fn attempt(&mut self, plan: &Plan, case: &CasePlan, order: u32) -> Result<Attempt, Trouble> {
        let mut facts = Facts::default();
        self.sweep(&mut facts, None, false);
        if self.sampler.free_run().is_err() {
            facts.doubt(Reason::SamplerLost, "it could not be started before the worker");
        }
        let children = end::children();
        let ooms = end::oom_kills();
        let started_ns = clock::now_ns();
        let (mut talk, ready) = self.launch(plan, case)?;
        let last = started_ns + plan.timeout_ms * 1_000_000;
        let step_ns = plan.step_timeout_ms * 1_000_000;
        let deadline = |now: u64| (now + step_ns).min(last);
        let mut missing = Vec::new();
        match ready {
            Waited::Done => missing = missing_in(&talk),
            other => self.note(&mut facts, &mut talk, other, None),
        }
        if facts.doubts.is_empty() && missing.is_empty() {
            for (index, step) in case.steps.iter().enumerate() {
                let process = process_of(step, &case.steps);
                if !process.is_empty() && talk.channels.get(&process).is_none_or(Channel::is_closed) {
                    // The child left at an earlier step, as it was told or by accident.
                    continue;
                }
                if step.call == "waitpid"
                    && let Some(child) = step.args.get("actor")
                {
                    talk.say(&child.to_string(), &Command::Finish);
                }
                talk.say(&process, &Command::Run { step: index });
                let want = Want::Step { step: index, probe: case.probes };
                let waited = talk.wait(&process, want, deadline(clock::now_ns()), &mut self.interrupt);
                if matches!(waited, Waited::Done | Waited::Gone | Waited::Deadline) {
                    self.sweep(&mut facts, Some(index), false);
                }
                if waited != Waited::Done {
                    self.note(&mut facts, &mut talk, waited, Some(index).filter(|_| step.call != "_exit"));
                    // The first process's channel may close a moment before its end is seen.
                    let over = process.is_empty() || talk.ended;
                    if over || !facts.doubts.is_empty() || !facts.exit.sent.is_empty() {
                        break;
                    }
                }
            }
        }
        if !talk.ended && facts.exit.sent.is_empty() {
            let names: Vec<String> = talk.channels.keys().rev().cloned().collect();
            for name in names {
                talk.say(&name, &Command::Finish);
            }
            let waited = talk.wait("", Want::End, deadline(clock::now_ns()), &mut self.interrupt);
            if waited != Waited::Done {
                self.note(&mut facts, &mut talk, waited, None);
            }
        }
        let wall_ns = clock::now_ns() - started_ns;
        let pid = talk.child.pid.as_raw_nonzero().get();
        let (events, stdout, stderr) = self.bury(talk, &children, ooms, &mut facts);
        match self.sampler.stop_free_run() {
            Ok(run) => {
                self.come_to_rest(&mut facts);
                if !missing.is_empty() {
                    return Err(Trouble::Missing(missing));
                }
                Ok(finished(order, started_ns, wall_ns, pid, events, Some(run), stdout, stderr, facts))
            }
            Err(error) => {
                facts.doubt(Reason::SamplerLost, error.to_string());
                Ok(finished(order, started_ns, wall_ns, pid, events, None, stdout, stderr, facts))
            }
        }
    }

    /// Starts the worker and hands it its steps.
    fn launch(&mut self, plan: &Plan, case: &CasePlan) -> Result<(Conversation, Waited), Trouble> {
        let (ours, theirs) = Channel::pair().map_err(Trouble::system)?;
        let mut arguments = vec![OsString::from(role::WORKER)];
        arguments.push(spawn::descriptor(&theirs));
        let mut inherit = vec![theirs];
        let mut channels = BTreeMap::from([(String::new(), ours)]);
        let mut numbers = BTreeMap::new();
        for step in case.steps.iter().filter(|step| step.call == "fork") {
            let Some(name) = &step.bind else { continue };
            let (ours, theirs) = Channel::pair().map_err(Trouble::system)?;
            numbers.insert(name.clone(), spawn::number(&theirs));
            channels.insert(name.clone(), ours);
            inherit.push(theirs);
        }
        let mut extra = case.env.clone();
        if let Some(mask) = &case.mask {
            extra.insert("CUDA_VISIBLE_DEVICES".to_string(), mask.join(","));
        }
        let child = spawn::start(Spawn {
            program: &self.program,
            arguments,
            environment: environment(Some(&self.links), &self.home, &extra),
            inherit,
            capture: true,
        })?;
        let mut talk = Conversation { child, channels, events: Vec::new(), ended: false };
        talk.say("", &Command::Prepare { steps: case.steps.clone(), channels: numbers, probes: case.probes });
        let deadline = clock::now_ns() + plan.step_timeout_ms * 1_000_000;
        let ready = talk.wait("", Want::Ready, deadline, &mut self.interrupt);
        Ok((talk, ready))
    }

    /// Keeps what went wrong, and ends a worker that will not go on.
    fn note(&mut self, facts: &mut Facts, talk: &mut Conversation, waited: Waited, step: Option<usize>) {
        match waited {
            Waited::Done => return,
            Waited::Gone => {
                facts.exit.died_at = step;
                // A forked child died; its parent is still to be asked to leave.
                if !talk.ended {
                    return;
                }
            }
            Waited::Deadline => {
                facts.exit.deadline_at = step;
                if step.is_none() {
                    facts.doubt(Reason::Hang, "the worker did not get ready, or did not leave, in time");
                }
            }
            Waited::Interrupted => facts.doubt(Reason::Interrupted, "the run was interrupted"),
            Waited::Nonsense(what) => facts.doubt(Reason::Protocol, what),
        }
        if !talk.ended {
            let (sent, gone) = end::kill(&mut talk.child, self.interrupt.is_impatient());
            facts.exit.sent.extend(sent);
            facts.exit.unkillable = !gone;
            talk.ended = gone;
        }
    }

    /// Reads every GPU until two readings agree.
    fn sweep(&mut self, facts: &mut Facts, step: Option<usize>, after_exit: bool) {
        let deadline = clock::now_ns() + SETTLE_MS * 1_000_000;
        let mut before: Option<Sweep> = None;
        loop {
            let sweep = match self.sampler.sweep() {
                Ok(sweep) => sweep,
                Err(error) => return facts.doubt(Reason::SamplerLost, error.to_string()),
            };
            let rests = before.as_ref().is_some_and(|before| is_equal(before, &sweep));
            if !rests && before.is_some() && clock::now_ns() > deadline {
                facts.doubt(Reason::Unsettled, format!("memory did not rest for {SETTLE_MS} ms at step {step:?}"));
            } else if !rests {
                if before.is_some() {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                before = Some(sweep);
                continue;
            }
            // A sweep that says what the one before said is left out: reports stay small.
            let same = facts.sweeps.last().is_some_and(|last| last.sweep.gpus == sweep.gpus);
            if !same || after_exit || step.is_none() {
                facts.sweeps.push(AttemptSweep { step, after_exit, sweep });
            }
            return;
        }
    }

    /// After the worker's end: reads until memory is back where it was, or it is late.
    fn come_to_rest(&mut self, facts: &mut Facts) {
        let Some(baseline) = facts.sweeps.first().map(|sweep| sweep.sweep.clone()) else { return };
        let deadline = clock::now_ns() + SETTLE_MS * 1_000_000;
        loop {
            let back = match self.sampler.sweep() {
                Ok(sweep) => is_equal(&baseline, &sweep),
                Err(_) => true,
            };
            if back || clock::now_ns() > deadline {
                return self.sweep(facts, None, true);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Takes the exit status and everything that was left behind.
    fn bury(
        &mut self,
        talk: Conversation,
        children: &std::collections::BTreeSet<i32>,
        ooms: Option<u64>,
        facts: &mut Facts,
    ) -> (Vec<crate::report::AttemptEvent>, (u64, String), (u64, String)) {
        let Conversation { child, channels, events, .. } = talk;
        // Forked processes that still listen are told by this that nobody will speak to them.
        drop(channels);
        let (leaked, gone) = end::reap_orphans(children, child.pid);
        facts.exit.leaked_children = leaked;
        facts.exit.unkillable |= !gone;
        if !facts.exit.unkillable
            && let Ok(output) = child.handle.wait()
        {
            facts.exit.code = output.status.code();
            facts.exit.signal = output.status.signal().map(signal_name);
        }
        facts.exit.said_bye = events.iter().any(|event| event.process.is_none() && event.event == Event::Bye);
        let killed = facts.exit.signal.as_deref() == Some("SIGKILL") && facts.exit.sent.is_empty();
        facts.exit.oom_killed = killed && ooms.zip(end::oom_kills()).is_some_and(|(before, now)| now > before);
        let tail = |tail: Option<super::output::Tail>| tail.map(super::output::Tail::finish).unwrap_or_default();
        (events, tail(child.stdout), tail(child.stderr))
    }
}

#[expect(clippy::too_many_arguments, reason = "one literal, written once")]
fn finished(
    order: u32,
    started_ns: u64,
    wall_ns: u64,
    pid: i32,
    events: Vec<crate::report::AttemptEvent>,
    free_run: Option<crate::sample::FreeRun>,
    (stdout_bytes, stdout_tail): (u64, String),
    (_, stderr_tail): (u64, String),
    facts: Facts,
) -> Attempt {
    let in_calls: u64 = events
        .iter()
        .map(|event| match event.event {
            Event::End { elapsed_ns, .. } => elapsed_ns,
            _ => 0,
        })
        .sum();
    Attempt {
        order,
        started_ns,
        wall_ns,
        overhead_ns: wall_ns.saturating_sub(in_calls),
        pid: pid as u32,
        events,
        sweeps: facts.sweeps,
        free_run,
        exit: facts.exit,
        invalid: facts.doubts,
        findings: Vec::new(),
        stdout_tail,
        stdout_bytes,
        stderr_tail,
        outcome: None,
    }
}

/// What the worker could not find; taken out of the events, where nobody would look for it.
fn missing_in(talk: &Conversation) -> Vec<String> {
    talk.events
        .iter()
        .find_map(|event| match &event.event {
            Event::Ready { missing, .. } => Some(missing.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// The process that makes a step: a fork's own name, or that of the process that made its thread.
fn process_of(step: &Step, steps: &[Step]) -> String {
    let Some(actor) = step.on.as_deref() else { return String::new() };
    let maker = steps.iter().find(|step| step.bind.as_deref() == Some(actor) && step.call != "waitpid");
    match maker {
        Some(maker) if maker.call == "pthread_create" => process_of(maker, steps),
        Some(maker) if maker.call == "fork" => actor.to_string(),
        _ => String::new(),
    }
}

/// Whether two readings show the same memory, within what NVML can tell apart.
fn is_equal(one: &Sweep, other: &Sweep) -> bool {
    one.gpus.len() == other.gpus.len()
        && one.gpus.iter().zip(&other.gpus).all(|(one, other)| match (one.used_bytes, other.used_bytes) {
            (Some(one), Some(other)) => one.abs_diff(other) < SETTLED_BYTES,
            (one, other) => one == other,
        })
}

/// A signal by its C name, or by its number where we have none.
pub fn signal_name(number: i32) -> String {
    let known = SIGNALS.values.iter().find(|(_, value)| *value == i64::from(number));
    known.map_or_else(|| format!("signal {number}"), |(name, _)| (*name).to_string())
}
