//! An attempt of an experiment: a fresh worker executes its steps, and every GPU is read after each step.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use cuda_pitfalls_calls::Effect;

use super::conversation::{Awaited, Conversation, Waited};
use super::end::SHORT_GRACE_MS;
use super::error::SupervisorError;
use super::launch::{fresh_process, is_filtered_at_once, missing_in, process_of};
use super::output::Tail;
use super::reading::add_incident;
use super::state::Supervisor;
use super::watch::Watch;
use super::{end, libraries};
use crate::interrupt::signal_name;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Command, Event};
use cuda_pitfalls_core::experiment::{Experiment, Program, Step};
use cuda_pitfalls_core::recording::Recording;
use cuda_pitfalls_core::verdict::Reason;

/// The time from SIGTERM to SIGKILL for a worker.
const TERM_GRACE_MS: u64 = 2_000;

/// The deadlines of the current step and of the attempt, by [`clock::running_ns`].
struct Deadlines {
    step_ns: u64,
    last_ns: u64,
}

impl Deadlines {
    fn from_now(Experiment { timeouts, .. }: &Experiment) -> Deadlines {
        let last_ns = clock::running_ns() + timeouts.attempt_ms * 1_000_000;
        Deadlines {
            step_ns: timeouts.step_ms * 1_000_000,
            last_ns,
        }
    }

    fn next_deadline_ns(&self) -> u64 {
        (clock::running_ns() + self.step_ns).min(self.last_ns)
    }
}

/// The state before the worker was started, to recognize changes that it causes.
struct Beforehand {
    children: BTreeSet<i32>,
    oom_kills: Option<u64>,
}

impl Beforehand {
    fn now() -> Beforehand {
        Beforehand {
            children: end::children_of("self"),
            oom_kills: end::oom_kills(),
        }
    }
}

impl Supervisor {
    /// Checks that all requirements of the steps of several cases are met, in a worker that exits before its first
    /// step. Otherwise an unmet need of one case would appear only after attempts of the others.
    ///
    /// # Errors
    /// Returns the missing requirement, or the reason why the check failed.
    pub fn look_for_needs(&mut self, experiments: &[Experiment]) -> Result<(), SupervisorError> {
        // The needs of Python lines were checked before: no symbols are resolved for them.
        let experiments: Vec<&Experiment> = experiments
            .iter()
            .filter(|experiment| experiment.program == Program::Worker)
            .collect();
        let Some(first) = experiments.first().copied() else {
            return Ok(());
        };
        let steps = experiments
            .iter()
            .flat_map(|experiment| experiment.steps.iter().cloned())
            .collect();
        let all = Experiment {
            steps,
            probes: experiments.iter().any(|experiment| experiment.probes),
            ..first.clone()
        };
        let mut recording = Recording::default();
        let (before, deadlines) = (Beforehand::now(), Deadlines::from_now(&all));
        let (mut talk, ready) = self.launch_program(&all)?;
        let missing = missing_in(&talk);
        self.note_waited(&mut recording, &mut talk, ready, None);
        self.shut_down(&deadlines, &mut recording, &mut talk);
        reap_worker(talk, &before, self.sampler.pid(), &mut recording);
        if recording.exit.unkillable {
            self.lost = Some(recording.pid);
            return Err(SupervisorError::Unkillable(recording.pid));
        }
        // Other failures will occur in the attempts too, and are recorded there.
        if missing.is_empty() {
            Ok(())
        } else {
            Err(SupervisorError::Missing(missing))
        }
    }

    /// Makes one attempt of an experiment. Failures while the worker runs are recorded as facts about the attempt.
    ///
    /// # Errors
    /// Returns an error if the worker could not be started, or lacks something that its steps need.
    pub fn record_attempt(
        &mut self,
        experiment: &Experiment,
    ) -> Result<Recording, SupervisorError> {
        let mut recording = Recording::default();
        self.read(&mut recording, None, false);
        if self.sampler.start_polling().is_err() {
            add_incident(
                &mut recording,
                Reason::SamplerLost,
                "it could not be started before the worker",
            );
        }
        let before = Beforehand::now();
        recording.started_ns = clock::now_ns();
        let deadlines = Deadlines::from_now(experiment);
        let (mut talk, ready) = self.launch_program(experiment)?;
        let missing = missing_in(&talk);
        self.note_waited(&mut recording, &mut talk, ready, None);
        if recording.incidents.is_empty() && missing.is_empty() {
            self.make_steps(experiment, &deadlines, &mut recording, &mut talk);
        }
        self.shut_down(&deadlines, &mut recording, &mut talk);
        recording.wall_ns = clock::now_ns() - recording.started_ns;
        reap_worker(talk, &before, self.sampler.pid(), &mut recording);
        self.lost = recording.exit.unkillable.then_some(recording.pid);
        match self.sampler.stop_polling() {
            Ok(run) => {
                recording.polling = Some(run);
                self.read_after_exit(&mut recording);
            }
            Err(error) => add_incident(&mut recording, Reason::SamplerLost, error.to_string()),
        }
        libraries::take(&mut recording, experiment, self.provenance);
        if missing.is_empty() {
            Ok(recording)
        } else {
            Err(SupervisorError::Missing(missing))
        }
    }

    /// Makes the steps in order, and reads every GPU after each of them.
    fn make_steps(
        &mut self,
        experiment: &Experiment,
        deadlines: &Deadlines,
        recording: &mut Recording,
        talk: &mut Conversation,
    ) {
        for (index, step) in experiment.steps.iter().enumerate() {
            let process = process_of(step, &experiment.steps);
            if !process.is_empty() && talk.channels.get(&process).is_none_or(Channel::is_closed) {
                // The child exited at an earlier step, on purpose or by accident.
                continue;
            }
            if let Err(error) = send_step(experiment, (index, step), &process, talk) {
                return add_incident(recording, Reason::Protocol, error.to_string());
            }
            let waited = self.wait_for_step(experiment, (index, step), &process, deadlines, talk);
            if matches!(waited, Waited::Done | Waited::Gone | Waited::Deadline) {
                self.read(recording, Some(index), false);
            }
            if waited == Waited::Done {
                continue;
            }
            let waited_for = (step.call != "_exit").then_some(index);
            self.note_waited(recording, talk, waited, waited_for);
            // The first process's channel may close shortly before its end is noticed.
            let over = process.is_empty() || talk.ended;
            if over || !recording.incidents.is_empty() || !recording.exit.sent.is_empty() {
                return;
            }
        }
    }

    /// Waits for the end of a step, and until the fresh process that it starts is ready.
    fn wait_for_step(
        &mut self,
        experiment: &Experiment,
        (index, step): (usize, &Step),
        process: &str,
        deadlines: &Deadlines,
        talk: &mut Conversation,
    ) -> Waited {
        let want = Awaited::Step {
            step: index,
            probe: experiment.probes,
        };
        let deadline_ns = deadlines.next_deadline_ns();
        let waited = talk.wait_for(process, want, deadline_ns, &mut self.interrupt);
        match fresh_process(step) {
            Some(fresh) if waited == Waited::Done => {
                let deadline_ns = deadlines.next_deadline_ns();
                talk.prepare_fresh(experiment, fresh, deadline_ns, &mut self.interrupt)
            }
            _ => waited,
        }
    }

    /// Orders every process to exit, children first, and waits for the worker's end.
    fn shut_down(
        &mut self,
        deadlines: &Deadlines,
        recording: &mut Recording,
        talk: &mut Conversation,
    ) {
        if talk.ended || !recording.exit.sent.is_empty() {
            return;
        }
        let names: Vec<String> = talk.channels.keys().rev().cloned().collect();
        for name in names {
            talk.send_command(&name, &Command::Finish);
        }
        let waited = talk.wait_for(
            "",
            Awaited::End,
            deadlines.next_deadline_ns(),
            &mut self.interrupt,
        );
        self.note_waited(recording, talk, waited, None);
    }

    /// Records how waiting ended, and ends a worker that does not continue.
    fn note_waited(
        &mut self,
        recording: &mut Recording,
        talk: &mut Conversation,
        waited: Waited,
        step: Option<usize>,
    ) {
        match waited {
            Waited::Done => return,
            Waited::Gone => {
                recording.exit.died_at = step;
                // A forked child died; its parent will still be ordered to exit.
                if !talk.ended {
                    return;
                }
            }
            Waited::Deadline => {
                recording.exit.deadline_at = step;
                if step.is_none() {
                    add_incident(
                        recording,
                        Reason::Hang,
                        "the worker was not ready or did not exit in time",
                    );
                }
            }
            Waited::Interrupted => {
                add_incident(recording, Reason::Interrupted, "the run was interrupted")
            }
            Waited::ProtocolError(what) => add_incident(recording, Reason::Protocol, what),
            Waited::Failed(what) => add_incident(recording, Reason::System, what),
        }
        if !talk.ended {
            let grace_ms = if self.interrupt.is_impatient() {
                SHORT_GRACE_MS
            } else {
                TERM_GRACE_MS
            };
            let (sent, gone) = end::kill_child(&mut talk.child, grace_ms);
            recording.exit.sent.extend(sent);
            recording.exit.unkillable = !gone;
            talk.ended = gone;
        }
    }
}

/// Sends a process the command for a step, once the step's rules are in effect.
fn send_step(
    experiment: &Experiment,
    (index, step): (usize, &Step),
    process: &str,
    talk: &mut Conversation,
) -> Result<(), SupervisorError> {
    if step.has(Effect::WaitsForProcess)
        && let Some(child) = step.args.get("actor")
    {
        talk.send_command(&child.to_string(), &Command::Finish);
    }
    if let Some(watch) = &talk.watch {
        watch.begin_step(index);
        let is_in_force = index == 0 && is_filtered_at_once(experiment);
        if step.has(Effect::Refuses) && !is_in_force {
            watch.refuse_step(step)?;
        }
    }
    let command = Command::Run {
        step: index,
        call: step.clone(),
        bytes: talk.bytes_for(&experiment.steps, step),
    };
    talk.send_command(process, &command);
    Ok(())
}

/// Collects the exit status, all events and output, and the processes that were left behind.
fn reap_worker(
    talk: Conversation,
    before: &Beforehand,
    sampler: Option<i32>,
    recording: &mut Recording,
) {
    let Conversation {
        child,
        channels,
        events,
        watch,
        ..
    } = talk;
    // Closing our ends makes forked children exit.
    drop(channels);
    let ours: Vec<i32> = sampler
        .into_iter()
        .chain([child.pid.as_raw_nonzero().get()])
        .collect();
    let (leaked, gone) = end::reap_orphans(&before.children, &ours);
    let exit = &mut recording.exit;
    exit.leaked_children = leaked;
    exit.unkillable |= !gone;
    if !exit.unkillable {
        match end::reap_child(&child) {
            Some(status) => {
                exit.code = status.code();
                exit.signal = status.signal().map(signal_name);
            }
            // A debugger holds the process.
            None => exit.unkillable = true,
        }
    }
    exit.said_bye = events
        .iter()
        .any(|event| event.process.is_none() && matches!(event.event, Event::Bye { .. }));
    let killed = exit.signal.as_deref() == Some("SIGKILL") && exit.sent.is_empty();
    exit.oom_killed = killed
        && before
            .oom_kills
            .zip(end::oom_kills())
            .is_some_and(|(before, now)| now > before);
    let in_calls = events.iter().map(|event| match event.event {
        Event::End { elapsed_ns, .. } => elapsed_ns,
        _ => 0,
    });
    recording.overhead_ns = recording.wall_ns.saturating_sub(in_calls.sum());
    recording.pid = child.pid.as_raw_nonzero().get() as u32;
    recording.events = events;
    let (calls, fault) = watch.map(Watch::finish).unwrap_or_default();
    recording.system_calls = calls;
    if let Some(fault) = fault {
        add_incident(recording, Reason::Unobservable, fault);
    }
    (recording.stdout_bytes, recording.stdout_tail) =
        child.stdout.map(Tail::finish).unwrap_or_default();
    (_, recording.stderr_tail) = child.stderr.map(Tail::finish).unwrap_or_default();
}
