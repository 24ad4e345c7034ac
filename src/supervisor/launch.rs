//! Starting a worker: its channels, its environment, its steps.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::conversation::{Conversation, Waited, Want};
use super::spawn::{self, Spawn};
use super::{Supervisor, Trouble, environment, role};
use crate::channel::Channel;
use crate::clock;
use crate::event::{Command, Event};
use crate::plan::{CasePlan, Timeouts};
use crate::scenario::Step;

impl Supervisor {
    /// Starts the worker and hands it its steps.
    pub(super) fn launch(&mut self, timeouts: Timeouts, case: &CasePlan) -> Result<(Conversation, Waited), Trouble> {
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
        let deadline = clock::now_ns() + timeouts.step_ms * 1_000_000;
        let ready = talk.wait("", Want::Ready, deadline, &mut self.interrupt);
        Ok((talk, ready))
    }
}

/// What the worker could not find.
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
    let maker = steps.iter().find(|step| step.bind.as_deref() == Some(actor) && step.call != "waitpid");
    match maker {
        Some(maker) if maker.call == "pthread_create" => process_of(maker, steps),
        Some(maker) if maker.call == "fork" => actor.to_string(),
        _ => String::new(),
    }
}
