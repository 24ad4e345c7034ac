//! Starting a worker: its channels, its environment, its steps.

use std::collections::BTreeMap;
use std::ffi::OsString;

use cuda_pitfalls_calls::Effect;

use super::conversation::{Conversation, Waited, Want};
use super::spawn::{self, Spawn};
use super::{Interrupt, Supervisor, Trouble, environment, role};
use crate::channel::Channel;
use crate::clock;
use crate::event::{Command, Event};
use crate::plan::{CasePlan, Timeouts};
use crate::scenario::Step;

impl Supervisor {
    /// Starts the worker and hands it its steps.
    pub(super) fn launch(&mut self, timeouts: Timeouts, case: &CasePlan) -> Result<(Conversation, Waited), Trouble> {
        if let Some(pid) = self.lost {
            return Err(Trouble::Unkillable(pid));
        }
        let (ours, theirs) = Channel::pair().map_err(Trouble::system)?;
        let mut arguments = vec![OsString::from(role::WORKER)];
        arguments.push(spawn::descriptor(&theirs));
        let mut inherit = vec![theirs];
        let mut channels = BTreeMap::from([(String::new(), ours)]);
        let mut numbers = BTreeMap::new();
        for step in case.steps.iter().filter(|step| step.starts_process()) {
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
        let mut talk = Conversation::new(child, channels);
        let steps = case.steps.clone();
        talk.say("", &Command::Prepare { steps, channels: numbers, probes: case.probes, process: None });
        let deadline = clock::running_ns() + timeouts.step_ms * 1_000_000;
        let ready = talk.wait("", Want::Ready, deadline, &mut self.interrupt);
        Ok((talk, ready))
    }
}

/// The process that is a fresh program once a step has been made, and has yet to be told its steps.
pub(super) fn fresh_process(step: &Step) -> Option<&str> {
    if step.has(Effect::Spawns) { step.bind.as_deref() } else { step.on.as_deref().filter(|_| step.has(Effect::Execs)) }
}

impl Conversation {
    /// Tells a fresh process its steps and waits until it is ready.
    pub(super) fn introduce(
        &mut self,
        case: &CasePlan,
        process: &str,
        deadline_ns: u64,
        interrupt: &mut Interrupt,
    ) -> Waited {
        let (steps, name) = (case.steps.clone(), Some(process.to_string()));
        self.say(process, &Command::Prepare { steps, channels: BTreeMap::new(), probes: case.probes, process: name });
        self.wait(process, Want::Ready, deadline_ns, interrupt)
    }

    /// The bytes that a step takes and earlier ones bound, by name.
    pub(super) fn bytes_for(&self, steps: &[Step], step: &Step) -> BTreeMap<String, String> {
        let named = step.args.values().map(ToString::to_string);
        let bound = named.filter_map(|name| {
            let said = self.events.iter().rev().find_map(|said| match &said.event {
                Event::End { step, bytes: Some(bytes), .. } => {
                    (steps.get(*step)?.bind.as_deref() == Some(name.as_str())).then(|| bytes.clone())
                }
                _ => None,
            });
            said.map(|bytes| (name, bytes))
        });
        bound.collect()
    }
}

/// What the worker could not find; nothing of one that never got ready.
pub(super) fn missing_in(talk: &Conversation) -> Vec<String> {
    talk.events
        .iter()
        .find_map(|event| match &event.event {
            Event::Ready { missing, .. } => Some(missing.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

/// The process that makes a step: a fork's own name, or that of the process that made its thread.
pub(super) fn process_of(step: &Step, steps: &[Step]) -> String {
    let Some(actor) = step.on.as_deref() else { return String::new() };
    let maker = steps.iter().find(|step| step.bind.as_deref() == Some(actor) && !step.has(Effect::WaitsForProcess));
    match maker {
        Some(maker) if maker.has(Effect::StartsThread) || maker.has(Effect::AddsExitHandler) => {
            process_of(maker, steps)
        }
        Some(maker) if maker.starts_process() => actor.to_string(),
        _ => String::new(),
    }
}
