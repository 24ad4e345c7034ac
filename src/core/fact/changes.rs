//! The changes from step to step in an outcome. Equal observations give equal changes, on every machine.
//!
//! A change is left out if the earlier steps predict it. A process that begins to see a GPU allocates the
//! driver-initialization footprint on it; a new context becomes the current one and costs the memory of a context. Only
//! differences from this are kept. Two outcomes with equal changes are the same, except for memory that other processes
//! hide.

use std::collections::BTreeMap;

use super::{Change, Fact, words};
use crate::event::Value;
use crate::observation::{Class, MemoryObservation, Observation, StepObservation};

/// The value of an output that is a handle.
const BOUND: &str = "bound";

/// Returns the changes of each step, and the end of the attempt unless it is 0. Steps without a change are left out.
pub fn changes(outcome: &Observation) -> Vec<Change> {
    let mut state = ProcessState::default();
    let mut changes = Vec::new();
    for (number, step) in (1..).zip(&outcome.steps) {
        let facts = state.step(step);
        if !facts.is_empty() {
            changes.push(Change {
                step: number,
                label: step.label.clone(),
                facts,
            });
        }
    }
    if outcome.end != "0" {
        changes.push(Change::end(
            u32::try_from(outcome.steps.len()).unwrap_or(u32::MAX),
            &outcome.end,
        ));
    }
    changes
}

/// The state of a process and its GPUs after the steps so far.
#[derive(Clone, Debug, Default)]
pub struct ProcessState {
    initialised: Option<bool>,
    visible: Option<Vec<String>>,
    contexts: Option<Vec<String>>,
    current: Option<String>,
    classes: BTreeMap<String, Option<Class>>,
}

impl ProcessState {
    /// Returns the facts that hold in this state, from any step. A GPU is left out if its memory never changed.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![
            Fact::Initialised(Some(self.initialised.unwrap_or(false))),
            Fact::Visible(self.visible.clone()),
            Fact::Contexts(self.contexts.clone()),
            Fact::Current(self.current.clone()),
        ];
        for (gpu, class) in &self.classes {
            facts.push(Fact::Memory(gpu.clone(), *class));
        }
        facts
    }

    /// Changes the state by a fact, and by the consequences of the fact.
    pub fn apply_fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Initialised(initialised) => self.initialised = *initialised,
            Fact::Visible(visible) => {
                for gpu in unlisted_gpus(visible, &self.visible) {
                    let class = self.classes.entry(gpu.clone()).or_insert(Some(Class::None));
                    if *class == Some(Class::None) {
                        *class = Some(Class::Init);
                    }
                }
                // A process that has just begun to see GPUs has no context yet, and no current one.
                if self.visible.is_none() {
                    self.contexts.get_or_insert_default();
                    self.current.get_or_insert_with(|| NONE.to_owned());
                }
                self.initialised = self.initialised.max(visible.as_ref().map(|_| true));
                self.visible.clone_from(visible);
            }
            Fact::Contexts(contexts) => {
                for gpu in unlisted_gpus(&self.contexts, contexts) {
                    self.classes.insert(gpu.clone(), Some(Class::Init));
                    if self.current.as_ref() == Some(gpu) {
                        self.current = Some(NONE.to_owned());
                    }
                }
                for gpu in unlisted_gpus(contexts, &self.contexts) {
                    self.classes.insert(gpu.clone(), Some(Class::Context));
                    self.current = Some(gpu.clone());
                }
                self.contexts.clone_from(contexts);
            }
            Fact::Current(current) => self.current.clone_from(current),
            Fact::Memory(gpu, class) => _ = self.classes.insert(gpu.clone(), *class),
            Fact::DidNotReturn
            | Fact::Status(_)
            | Fact::Value(..)
            | Fact::End(_)
            | Fact::Row(_) => {}
        }
    }

    /// Returns the facts of a step that the state does not predict. Afterwards the state includes them.
    fn step(&mut self, step: &StepObservation) -> Vec<Fact> {
        let mut facts = Vec::new();
        if !step.returned {
            facts.push(Fact::DidNotReturn);
        }
        if let Some(status) = &step.status
            && status.code != 0
        {
            facts.push(Fact::Status(status.into()));
        }
        // A value about every process on a GPU includes the processes of others.
        if step.shared.is_none() {
            for (name, value) in &step.values {
                if !matches!(value, Value::Text(text) if text == BOUND) {
                    facts.push(Fact::Value(name.clone(), value.into()));
                }
            }
        }
        let sees_other = step.visible != self.visible;
        let first_idle = self.initialised.is_none() && step.initialised == Some(false);
        if step.initialised != self.initialised
            && !first_idle
            && !(sees_other && step.initialised == Some(true))
        {
            facts.push(Fact::Initialised(step.initialised));
        }
        if sees_other {
            facts.push(self.applied(Fact::Visible(step.visible.clone())));
        }
        if step.contexts != self.contexts {
            facts.push(self.applied(Fact::Contexts(step.contexts.clone())));
        }
        if step.current != self.current {
            facts.push(self.applied(Fact::Current(step.current.clone())));
        }
        self.initialised = step.initialised;
        for (gpu, memory) in words::in_order(&step.memory) {
            facts.extend(self.memory(gpu, memory));
        }
        facts
    }

    fn applied(&mut self, fact: Fact) -> Fact {
        self.apply_fact(&fact);
        fact
    }

    fn memory(&mut self, gpu: &str, memory: &MemoryObservation) -> Option<Fact> {
        let known = self.classes.get(gpu).copied().unwrap_or(Some(Class::None));
        // Memory that other processes hide differs from machine to machine, so it is not kept as a change.
        let is_new = known != memory.class && !memory.is_hidden();
        is_new.then(|| self.applied(Fact::Memory(gpu.to_owned(), memory.class)))
    }
}

/// Returns the listed GPUs that others do not list.
fn unlisted_gpus<'g>(
    listed: &'g Option<Vec<String>>,
    others: &Option<Vec<String>>,
) -> Vec<&'g String> {
    let mut gpus: Vec<&String> = listed.iter().flatten().collect();
    if let Some(others) = others {
        gpus.retain(|gpu| !others.contains(gpu));
    }
    gpus
}

/// The value of `current` without a current context.
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::super::Token;
    use super::*;
    use crate::event::Status;
    use crate::observation::{Hidden, Shared};

    fn gpus(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(ToString::to_string).collect())
    }

    fn change(step: u32, label: &str, facts: &[Fact]) -> Change {
        Change {
            step,
            label: label.into(),
            facts: facts.to_vec(),
        }
    }

    fn step(label: &str, contexts: &[&str], class: Class) -> StepObservation {
        StepObservation {
            label: label.into(),
            returned: true,
            status: Some(Status {
                code: 0,
                name: Some("CUDA_SUCCESS".into()),
            }),
            initialised: Some(true),
            visible: gpus(&["gpu0", "gpu1"]),
            contexts: gpus(contexts),
            current: Some(contexts.last().unwrap_or(&NONE).to_string()),
            memory: [(
                "gpu0".to_string(),
                MemoryObservation {
                    class: Some(class),
                    ..MemoryObservation::default()
                },
            )]
            .into(),
            ..StepObservation::default()
        }
    }

    fn outcome(steps: Vec<StepObservation>) -> Observation {
        Observation {
            steps,
            end: "0".into(),
        }
    }

    #[test]
    fn only_what_cannot_be_foretold_is_told() {
        let mut all = vec![
            step("cuInit", &[], Class::Init),
            step("count", &[], Class::Init),
            step("cudaFree", &["gpu0"], Class::Context),
        ];
        let context = Fact::Contexts(gpus(&["gpu0"]));
        let first = change(1, "cuInit", &[Fact::Visible(gpus(&["gpu0", "gpu1"]))]);
        assert_eq!(
            changes(&outcome(all.clone())),
            [
                first.clone(),
                change(3, "cudaFree", std::slice::from_ref(&context))
            ]
        );
        all[2].memory.get_mut("gpu0").unwrap().class = Some(Class::Init);
        all[2].current = Some(NONE.into());
        let touch = Fact::Memory("gpu0".into(), Some(Class::Init));
        assert_eq!(
            changes(&outcome(all.clone()))[1].facts,
            [context, Fact::Current(Some(NONE.into())), touch],
            "a context that takes nothing is told"
        );
        all[1].status = Some(Status {
            code: 101,
            name: Some("CUDA_ERROR_INVALID_DEVICE".into()),
        });
        all[1]
            .values
            .insert("stream".into(), Value::Text(BOUND.into()));
        all[1].values.insert("count".into(), Value::Int(2));
        let all = changes(&Observation {
            end: "SIGSEGV".into(),
            ..outcome(all)
        });
        let status = Fact::Status(Token::Text("CUDA_ERROR_INVALID_DEVICE".into()));
        assert_eq!(
            all[1],
            change(
                2,
                "count",
                &[status, Fact::Value("count".into(), Token::Int(2))]
            )
        );
        assert_eq!(all[3], Change::end(3, "SIGSEGV"));
    }

    #[test]
    fn every_fact_of_an_outcome_is_in_the_changes() {
        let steps = [
            step("a", &[], Class::Init),
            step("b", &["gpu0"], Class::Context),
            step("c", &["gpu0"], Class::Allocation),
        ];
        let plain = changes(&outcome(steps.to_vec()));
        type Alter = fn(&mut StepObservation);
        let all: [Alter; 8] = [
            |step| step.returned = false,
            |step| step.status.as_mut().unwrap().code = 7,
            |step| step.initialised = Some(false),
            |step| step.visible = None,
            |step| step.contexts = Some(vec!["gpu1".into()]),
            |step| step.current = Some("gpu1".into()),
            |step| step.memory.get_mut("gpu0").unwrap().class = None,
            |step| _ = step.values.insert("value".into(), Value::Int(1)),
        ];
        for (which, change) in all.into_iter().enumerate() {
            for place in 0..3 {
                let mut changed = steps.to_vec();
                change(&mut changed[place]);
                assert_ne!(
                    changes(&outcome(changed)),
                    plain,
                    "change {which} at step {place}"
                );
            }
        }
    }

    #[test]
    fn what_others_on_a_gpu_hide_is_not_told() {
        let mut all = vec![step("cuInit", &[], Class::None)];
        assert_eq!(
            changes(&outcome(all.clone()))[0].facts[1..],
            [Fact::Memory("gpu0".into(), Some(Class::None))]
        );
        all[0].memory.get_mut("gpu0").unwrap().hidden = Some(Hidden::Prepaid);
        all[0].values.insert("count".into(), Value::Int(2));
        all[0].shared = Some(Shared::Listed);
        let changes = changes(&outcome(all));
        assert_eq!(
            (changes.len(), changes[0].facts.len()),
            (1, 1),
            "it sees GPUs, and nothing else is told"
        );
    }
}
