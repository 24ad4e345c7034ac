//! Starting a worker: its channels, its environment, its steps.

use std::collections::BTreeMap;
use std::ffi::OsString;

use cuda_pitfalls_calls::Effect;

use super::conversation::{Awaited, Conversation, Waited};
use super::environment::environment;
use super::error::SupervisorError;
use super::role;
use super::spawn::{self, Spawn};
use super::state::Supervisor;
use super::watch::Watch;
use crate::interrupt::Interrupt;
use crate::traced;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::event::{Command, Event, SetAside};
use cuda_pitfalls_core::experiment::{Experiment, Program, Step};

impl Supervisor {
    /// Starts the program of an experiment. If it is a worker, sends the needs of its steps, and waits until the worker
    /// is ready.
    pub(super) fn launch_program(
        &mut self,
        experiment: &Experiment,
    ) -> Result<(Conversation, Waited), SupervisorError> {
        if let Some(pid) = self.lost {
            return Err(SupervisorError::Unkillable(pid));
        }
        let environment = self.program_environment(experiment)?;
        let channels = LaunchChannels::open(experiment)?;
        let (role, arguments) = self.program_command(experiment, channels.own);
        let child = spawn::start(Spawn {
            inherit: channels.theirs,
            capture: true,
            ..Spawn::new(&self.program, role, arguments, environment)
        })?;
        let mut talk = Conversation::new(child, channels.ours);
        let filtered = is_filtered_at_once(experiment);
        if has_refusal(experiment) {
            let watch = Watch::new(&self.program, &self.home, &self.links)?;
            let watch = talk.watch.insert(watch);
            if let (Some(first), true) = (experiment.steps.first(), filtered) {
                watch.refuse_step(first)?;
            }
        }
        let command = prepare_command(experiment, channels.set_aside, None, filtered);
        talk.send_command("", &command);
        let deadline = clock::running_ns() + experiment.timeouts.step_ms * 1_000_000;
        let ready = talk.wait_for("", Awaited::Ready, deadline, &mut self.interrupt);
        Ok((talk, ready))
    }

    /// Returns the environment of the program of an experiment.
    fn program_environment(
        &self,
        experiment: &Experiment,
    ) -> Result<BTreeMap<OsString, OsString>, SupervisorError> {
        let mut extra = experiment.environment.clone();
        if let Some(gpus) = &experiment.gpus {
            extra.insert("CUDA_VISIBLE_DEVICES".to_string(), gpus.join(","));
        }
        let mut environment = match (&experiment.program, &self.python) {
            (Program::Python(_), Some(python)) => python.environment(&self.home, &extra),
            (Program::Python(_), None) => {
                return Err(SupervisorError::Missing(vec![
                    "a Python interpreter".to_string(),
                ]));
            }
            _ => environment(Some(&self.links), &self.home, &extra),
        };
        environment.extend(traced::environment());
        Ok(environment)
    }

    /// Returns the role of the process that runs the program of an experiment, and its arguments. `channel` names its
    /// channel.
    fn program_command(
        &self,
        experiment: &Experiment,
        channel: OsString,
    ) -> (&'static str, Vec<OsString>) {
        let Some(python) = &self.python else {
            return (role::WORKER, vec![channel]);
        };
        if experiment.program == Program::Worker {
            return (role::WORKER, vec![channel]);
        }
        let mut command = Vec::new();
        if has_refusal(experiment) {
            command.extend([OsString::from("--filter"), channel.clone()]);
        }
        command.push(OsString::from("--"));
        command.extend(python.command(&[channel], &self.home));
        (role::COMMAND, command)
    }
}

/// The channels to a program and to the processes that its steps start.
struct LaunchChannels {
    /// The argument with which the program finds its own channel.
    own: OsString,
    /// Our ends, by the name of the process.
    ours: BTreeMap<String, Channel>,
    /// The ends that the program inherits.
    theirs: Vec<Channel>,
    /// The inherited descriptors for the processes of steps.
    set_aside: BTreeMap<String, SetAside>,
}

impl LaunchChannels {
    fn open(experiment: &Experiment) -> Result<LaunchChannels, SupervisorError> {
        let (ours, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
        let mut channels = LaunchChannels {
            own: spawn::descriptor_argument(&theirs),
            ours: BTreeMap::from([(String::new(), ours)]),
            theirs: vec![theirs],
            set_aside: BTreeMap::new(),
        };
        for step in &experiment.steps {
            if !step.starts_process() {
                continue;
            }
            let Some(name) = &step.bind else { continue };
            let (ours, theirs) = Channel::pair().map_err(SupervisorError::from_system)?;
            let forked_by = if step.has(Effect::Forks) {
                step.on.clone()
            } else {
                None
            };
            let fd = spawn::number(&theirs);
            let set_aside = SetAside { fd, forked_by };
            channels.set_aside.insert(name.clone(), set_aside);
            channels.ours.insert(name.clone(), ours);
            channels.theirs.push(theirs);
        }
        Ok(channels)
    }
}

/// Returns `true` if a step denies system calls.
fn has_refusal(experiment: &Experiment) -> bool {
    let mut steps = experiment.steps.iter();
    steps.any(|step| step.has(Effect::Refuses))
}

/// Returns `true` if the first step denies something, so that the filter must be set before the libraries are loaded.
pub(super) fn is_filtered_at_once(experiment: &Experiment) -> bool {
    experiment
        .steps
        .first()
        .is_some_and(|step| step.has(Effect::Refuses) && step.on.is_none())
}

/// Returns the first command to a process of the worker.
fn prepare_command(
    experiment: &Experiment,
    channels: BTreeMap<String, SetAside>,
    process: Option<&str>,
    filtered: bool,
) -> Command {
    Command::Prepare {
        calls: experiment
            .steps
            .iter()
            .map(|step| step.call.clone())
            .collect(),
        channels,
        probes: experiment.probes,
        process: process.map(str::to_string),
        filtered,
    }
}

/// Returns the name of the fresh process that a step starts and that still needs its steps; `None` for other steps.
pub(super) fn fresh_process(step: &Step) -> Option<&str> {
    if step.has(Effect::Spawns) {
        return step.bind.as_deref();
    }
    if step.has(Effect::Execs) {
        return step.on.as_deref();
    }
    None
}

impl Conversation {
    /// Sends a fresh process its steps, and waits until it is ready.
    pub(super) fn prepare_fresh(
        &mut self,
        experiment: &Experiment,
        process: &str,
        deadline_ns: u64,
        interrupt: &mut Interrupt,
    ) -> Waited {
        self.send_command(
            process,
            &prepare_command(experiment, BTreeMap::new(), Some(process), false),
        );
        self.wait_for(process, Awaited::Ready, deadline_ns, interrupt)
    }

    /// Returns the bytes that a step uses and that earlier steps bound, by name.
    pub(super) fn bytes_for(&self, steps: &[Step], step: &Step) -> BTreeMap<String, String> {
        let named = step.args.values().map(ToString::to_string);
        let bound = named.filter_map(|name| {
            let said = self.events.iter().rev().find_map(|said| match &said.event {
                Event::End {
                    step,
                    bytes: Some(bytes),
                    ..
                } => (steps.get(*step)?.bind.as_deref() == Some(name.as_str()))
                    .then(|| bytes.clone()),
                _ => None,
            });
            said.map(|bytes| (name, bytes))
        });
        bound.collect()
    }
}

/// Returns the libraries and symbols that the worker did not find; empty for a worker that never became ready.
pub(super) fn missing_in(talk: &Conversation) -> Vec<String> {
    talk.events
        .iter()
        .find_map(|event| match &event.event {
            Event::Ready { missing, .. } => Some(missing.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// Returns the name of the process that makes a step: a fork's own name, or the name of the process with the thread.
pub(super) fn process_of(step: &Step, steps: &[Step]) -> String {
    let Some(actor) = step.on.as_deref() else {
        return String::new();
    };
    let maker = steps
        .iter()
        .find(|step| step.bind.as_deref() == Some(actor) && !step.has(Effect::WaitsForProcess));
    match maker {
        Some(maker) if maker.has(Effect::StartsThread) || maker.has(Effect::AddsExitHandler) => {
            process_of(maker, steps)
        }
        Some(maker) if maker.starts_process() => actor.to_string(),
        _ => String::new(),
    }
}
