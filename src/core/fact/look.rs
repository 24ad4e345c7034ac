//! Comparing a fact with an observation.

use serde_json::Value;

use crate::observation::{Observation, StepObservation};
use crate::verdict::Reason;

/// A step of an observation.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The observation after the step.
    pub step: &'a StepObservation,
    pub(super) observation: &'a Observation,
    index: usize,
}

impl<'a> Look<'a> {
    /// Returns every step that the attempt reached, in order.
    pub fn all(observation: &'a Observation) -> impl Iterator<Item = Look<'a>> {
        observation
            .steps
            .iter()
            .enumerate()
            .map(move |(index, step)| Look {
                step,
                observation,
                index,
            })
    }

    /// Returns the step with this label, if the attempt reached it.
    pub fn at(observation: &'a Observation, label: &str) -> Option<Look<'a>> {
        Look::all(observation).find(|look| look.step.label == label)
    }

    /// Returns the previous step; `None` for the first step, which follows the baseline.
    pub(super) fn before(&self) -> Option<&'a StepObservation> {
        self.observation.steps.get(self.index.checked_sub(1)?)
    }

    pub(super) fn so_far(&self) -> &'a [StepObservation] {
        self.observation
            .steps
            .get(..=self.index)
            .unwrap_or_default()
    }
}

/// The result of comparing a fact with a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    /// The fact holds.
    Yes,
    /// The fact fails; the text has the actual value and the required one.
    No(String),
    /// A fact that another process can change fails, such as one about device memory; the text has the actual value and
    /// the required one.
    NoOfMemory(String),
    /// The fact could not be determined, for this reason.
    Unknown(String),
    /// The fact could not be determined because of other processes on the GPUs, or of an instrument that was not sound.
    Unobservable(Reason, String),
}

impl Truth {
    /// Marks a failure as one that another process can cause.
    pub(super) fn about_memory(self) -> Truth {
        match self {
            Truth::No(words) => Truth::NoOfMemory(words),
            truth => truth,
        }
    }
}

/// The observation of a fact after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// The words in a sentence: `sees gpu0,gpu1`.
    pub words: String,
    /// The cell of a column: `gpu0,gpu1`.
    pub cell: String,
    /// The exact value: a number, a name, a list, or an object by GPU.
    pub exact: Value,
}
