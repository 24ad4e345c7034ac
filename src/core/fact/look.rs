//! A fact compared with what was seen.

use serde_json::Value;

use crate::observation::{Observation, StepObservation};
use crate::verdict::Reason;

/// One step of what an attempt showed.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// What was seen after it.
    pub step: &'a StepObservation,
    pub(super) observation: &'a Observation,
    index: usize,
}

impl<'a> Look<'a> {
    /// Every step that an attempt came to, in order.
    pub fn all(observation: &'a Observation) -> impl Iterator<Item = Look<'a>> {
        observation.steps.iter().enumerate().map(move |(index, step)| Look { step, observation, index })
    }

    /// The step with this label, if the attempt came so far.
    pub fn at(observation: &'a Observation, label: &str) -> Option<Look<'a>> {
        Look::all(observation).find(|look| look.step.label == label)
    }

    /// The step before; none for the first, before which there is the baseline.
    pub(super) fn before(&self) -> Option<&'a StepObservation> {
        self.observation.steps.get(self.index.checked_sub(1)?)
    }

    /// The steps up to this one, and this one.
    pub(super) fn so_far(&self) -> &'a [StepObservation] {
        self.observation.steps.get(..=self.index).unwrap_or_default()
    }
}

/// One fact compared with one predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It is so.
    Yes,
    /// It is not so: what is, and what should be.
    No(String),
    /// It is not so, of memory.
    NoOfMemory(String),
    /// It could not be determined, and why.
    Unknown(String),
    /// Other processes on the GPUs, or an instrument that was not sound, keep it from being determined.
    Unobservable(Reason, String),
}

impl Truth {
    /// A failure is one of memory, which other processes on the GPU can disturb.
    pub(super) fn of_memory(self) -> Truth {
        match self {
            Truth::No(words) => Truth::NoOfMemory(words),
            truth => truth,
        }
    }
}

/// What was seen of a fact after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// In a sentence: `sees gpu0,gpu1`.
    pub words: String,
    /// In a column of its own: `gpu0,gpu1`.
    pub cell: String,
    /// Exactly: a number, a name, a list, or an object by GPU.
    pub exact: Value,
}
