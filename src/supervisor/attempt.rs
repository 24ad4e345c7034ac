//! One attempt: a fresh worker makes the steps of a case, and every GPU is read at each of them.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use cuda_pitfalls_calls::{Effect, SIGNALS};

use super::conversation::{Conversation, Waited, Want};
use super::launch::{fresh_process, missing_in, process_of};
use super::output::Tail;
use super::reading::doubt;
use super::{Supervisor, end};
use crate::channel::Channel;
use crate::clock;
use crate::event::{Command, Event};
use crate::plan::{CasePlan, Timeouts};
use crate::report::{Attempt, Exit};
use crate::verdict::Reason;

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
    /// A process could not be ended: the host must not be used further.
    #[error("process {0} could not be killed")]
    Unkillable(u32),
}

impl Trouble {
    /// An error of the system.
    pub(super) fn system(error: std::io::Error) -> Trouble {
        Trouble::System(error.to_string())
    }
}

/// When a step, and when the attempt, is late, by [`clock::running_ns`].
struct Deadlines {
    step_ns: u64,
    last_ns: u64,
}

impl Deadlines {
    /// The deadlines of an attempt that begins now.
    fn from_now(timeouts: Timeouts) -> Deadlines {
        let last_ns = clock::running_ns() + timeouts.attempt_ms * 1_000_000;
        Deadlines { step_ns: timeouts.step_ms * 1_000_000, last_ns }
    }

    /// The deadline of something that begins now.
    fn of_next(&self) -> u64 {
        (clock::running_ns() + self.step_ns).min(self.last_ns)
    }
}

/// What there was before the worker, to tell what came with it.
struct Before {
    children: BTreeSet<i32>,
    oom_kills: Option<u64>,
}

impl Before {
    fn now() -> Before {
        Before { children: end::children(), oom_kills: end::oom_kills() }
    }
}

impl Supervisor {
    /// Looks for all that the steps of several cases need, in a worker that leaves before the first
    /// of them. A need that only one case has would otherwise show when others have been attempted.
    ///
    /// # Errors
    /// What is missing, or why it could not be looked for.
    pub fn look_for_needs(&mut self, timeouts: Timeouts, cases: &[CasePlan]) -> Result<(), Trouble> {
        let Some(first) = cases.first() else { return Ok(()) };
        let steps = cases.iter().flat_map(|case| case.steps.iter().cloned()).collect();
        let all = CasePlan { steps, probes: cases.iter().any(|case| case.probes), ..first.clone() };
        let mut attempt = blank(0);
        let (before, deadlines) = (Before::now(), Deadlines::from_now(timeouts));
        let (mut talk, ready) = self.launch(timeouts, &all)?;
        let missing = missing_in(&talk);
        self.note(&mut attempt, &mut talk, ready, None);
        self.see_off(&deadlines, &mut attempt, &mut talk);
        bury(talk, &before, self.sampler.pid(), &mut attempt);
        if attempt.exit.unkillable {
            self.lost = Some(attempt.pid);
            return Err(Trouble::Unkillable(attempt.pid));
        }
        // Whatever else went wrong the attempts will meet, and keep.
        if missing.is_empty() { Ok(()) } else { Err(Trouble::Missing(missing)) }
    }

    /// Makes one attempt. `order` is its place among the scenario's attempts. What goes wrong while
    /// the worker runs is a fact about the attempt and is kept with it.
    pub fn attempt(&mut self, timeouts: Timeouts, case: &CasePlan, order: u32) -> Result<Attempt, Trouble> {
        let mut attempt = blank(order);
        self.read(&mut attempt, None, false);
        if self.sampler.free_run().is_err() {
            doubt(&mut attempt, Reason::SamplerLost, "it could not be started before the worker");
        }
        let before = Before::now();
        attempt.started_ns = clock::now_ns();
        let deadlines = Deadlines::from_now(timeouts);
        let (mut talk, ready) = self.launch(timeouts, case)?;
        let missing = missing_in(&talk);
        self.note(&mut attempt, &mut talk, ready, None);
        if attempt.invalid.is_empty() && missing.is_empty() {
            self.make_steps(case, &deadlines, &mut attempt, &mut talk);
        }
        self.see_off(&deadlines, &mut attempt, &mut talk);
        attempt.wall_ns = clock::now_ns() - attempt.started_ns;
        bury(talk, &before, self.sampler.pid(), &mut attempt);
        self.lost = attempt.exit.unkillable.then_some(attempt.pid);
        match self.sampler.stop_free_run() {
            Ok(run) => {
                attempt.free_run = Some(run);
                self.read_after_exit(&mut attempt);
            }
            Err(error) => doubt(&mut attempt, Reason::SamplerLost, error.to_string()),
        }
        if missing.is_empty() { Ok(attempt) } else { Err(Trouble::Missing(missing)) }
    }

    /// One step after the other, each read before the next begins.
    fn make_steps(&mut self, case: &CasePlan, deadlines: &Deadlines, attempt: &mut Attempt, talk: &mut Conversation) {
        for (index, step) in case.steps.iter().enumerate() {
            let process = process_of(step, &case.steps);
            if !process.is_empty() && talk.channels.get(&process).is_none_or(Channel::is_closed) {
                // The child left at an earlier step, as it was told or by accident.
                continue;
            }
            if step.has(Effect::WaitsForProcess)
                && let Some(child) = step.args.get("actor")
            {
                talk.say(&child.to_string(), &Command::Finish);
            }
            talk.say(&process, &Command::Run { step: index, bytes: talk.bytes_for(&case.steps, step) });
            let want = Want::Step { step: index, probe: case.probes };
            let mut waited = talk.wait(&process, want, deadlines.of_next(), &mut self.interrupt);
            if let (Waited::Done, Some(fresh)) = (&waited, fresh_process(step)) {
                waited = talk.introduce(case, fresh, deadlines.of_next(), &mut self.interrupt);
            }
            if matches!(waited, Waited::Done | Waited::Gone | Waited::Deadline) {
                self.read(attempt, Some(index), false);
            }
            if waited == Waited::Done {
                continue;
            }
            self.note(attempt, talk, waited, Some(index).filter(|_| !step.has(Effect::ExitsAtOnce)));
            // The first process's channel may close a moment before its end is seen.
            let over = process.is_empty() || talk.ended;
            if over || !attempt.invalid.is_empty() || !attempt.exit.sent.is_empty() {
                return;
            }
        }
    }

    /// Asks every process to leave, children first, and waits for the worker's end.
    fn see_off(&mut self, deadlines: &Deadlines, attempt: &mut Attempt, talk: &mut Conversation) {
        if talk.ended || !attempt.exit.sent.is_empty() {
            return;
        }
        let names: Vec<String> = talk.channels.keys().rev().cloned().collect();
        for name in names {
            talk.say(&name, &Command::Finish);
        }
        let waited = talk.wait("", Want::End, deadlines.of_next(), &mut self.interrupt);
        self.note(attempt, talk, waited, None);
    }

    /// Keeps what went wrong, and ends a worker that will not go on.
    fn note(&mut self, attempt: &mut Attempt, talk: &mut Conversation, waited: Waited, step: Option<usize>) {
        match waited {
            Waited::Done => return,
            Waited::Gone => {
                attempt.exit.died_at = step;
                // A forked child died; its parent is still to be asked to leave.
                if !talk.ended {
                    return;
                }
            }
            Waited::Deadline => {
                attempt.exit.deadline_at = step;
                if step.is_none() {
                    doubt(attempt, Reason::Hang, "the worker did not get ready, or did not leave, in time");
                }
            }
            Waited::Interrupted => doubt(attempt, Reason::Interrupted, "the run was interrupted"),
            Waited::Nonsense(what) => doubt(attempt, Reason::Protocol, what),
            Waited::Failed(what) => doubt(attempt, Reason::System, what),
        }
        if !talk.ended {
            let (sent, gone) = end::kill(&mut talk.child, self.interrupt.is_impatient());
            attempt.exit.sent.extend(sent);
            attempt.exit.unkillable = !gone;
            talk.ended = gone;
        }
    }
}

/// Takes the exit status, everything that was said and printed, and whatever was left behind.
fn bury(talk: Conversation, before: &Before, sampler: Option<i32>, attempt: &mut Attempt) {
    let Conversation { child, channels, events, .. } = talk;
    // Forked processes that still listen are told by this that nobody will speak to them.
    drop(channels);
    let ours: Vec<i32> = sampler.into_iter().chain([child.pid.as_raw_nonzero().get()]).collect();
    let (leaked, gone) = end::reap_orphans(&before.children, &ours);
    let exit = &mut attempt.exit;
    exit.leaked_children = leaked;
    exit.unkillable |= !gone;
    if !exit.unkillable {
        match end::reap(&child) {
            Some(status) => {
                exit.code = status.code();
                exit.signal = status.signal().map(signal_name);
            }
            // A debugger holds it.
            None => exit.unkillable = true,
        }
    }
    exit.said_bye = events.iter().any(|event| event.process.is_none() && event.event == Event::Bye);
    let killed = exit.signal.as_deref() == Some("SIGKILL") && exit.sent.is_empty();
    exit.oom_killed = killed && before.oom_kills.zip(end::oom_kills()).is_some_and(|(before, now)| now > before);
    let in_calls = events.iter().map(|event| match event.event {
        Event::End { elapsed_ns, .. } => elapsed_ns,
        _ => 0,
    });
    attempt.overhead_ns = attempt.wall_ns.saturating_sub(in_calls.sum());
    attempt.pid = child.pid.as_raw_nonzero().get() as u32;
    attempt.events = events;
    let finish = |tail: Option<Tail>| tail.map(Tail::finish).unwrap_or_default();
    (attempt.stdout_bytes, attempt.stdout_tail) = finish(child.stdout);
    (_, attempt.stderr_tail) = finish(child.stderr);
}

/// An attempt of which nothing is known yet.
fn blank(order: u32) -> Attempt {
    Attempt {
        order,
        started_ns: 0,
        wall_ns: 0,
        overhead_ns: 0,
        pid: 0,
        events: Vec::new(),
        sweeps: Vec::new(),
        free_run: None,
        exit: Exit::default(),
        invalid: Vec::new(),
        stdout_tail: String::new(),
        stdout_bytes: 0,
        stderr_tail: String::new(),
        outcome: None,
        elsewhere: None,
    }
}

/// A signal by its C name, or by its number where we have none.
pub fn signal_name(number: i32) -> String {
    let known = SIGNALS.values.iter().find(|(_, value)| *value == i64::from(number));
    known.map_or_else(|| format!("signal {number}"), |(name, _)| (*name).to_string())
}
