//! The facts in which two outcomes differ.

use std::fmt;

use super::FactDifference;
use cuda_pitfalls_core::event::{Status, Value};
use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::observation::{Observation, StepObservation};
use cuda_pitfalls_core::scenario::Class;

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About<'o> {
    /// Whether a call returned.
    Returned,
    /// What it returned.
    Status,
    /// An output of it.
    Output(&'o str),
    /// Whether the driver is initialised.
    Initialised,
    /// Which GPUs a process sees.
    Visible,
    /// On which GPUs there is a context.
    Contexts,
    /// Which GPU the thread's current context is on.
    Current,
    /// How the memory of a GPU changed.
    Memory(&'o str),
    /// How the process ended.
    End,
    /// How many steps it made.
    StepsMade,
    /// A value that no other fact covers.
    Untold,
}

/// What a fact was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Was<'o> {
    /// Only the other outcome has it.
    Absent,
    /// It is not known.
    NotTold,
    /// A call that has no status.
    NoStatus,
    Holds(bool),
    Status(&'o Status),
    Output(&'o Value),
    Gpus(&'o [String]),
    Gpu(&'o str),
    Class(Option<Class>),
    End(&'o str),
    Count(usize),
    One,
    Another,
}

/// A fact in which two outcomes differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Differing<'o> {
    /// The step's label, where the fact is one of a step.
    pub(super) step: Option<&'o str>,
    pub(super) about: About<'o>,
    pub(super) a: Was<'o>,
    pub(super) b: Was<'o>,
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            About::Returned => "returned",
            About::Status => "status",
            About::Output(name) => name,
            About::Initialised => "driver initialised",
            About::Visible => "sees",
            About::Contexts => "contexts",
            About::Current => "current",
            About::Memory(gpu) => return write!(f, "memory of {gpu}"),
            About::End => "ends",
            About::StepsMade => "steps made",
            About::Untold => "a value",
        })
    }
}

impl fmt::Display for Was<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Was::Absent => "nothing",
            Was::NotTold => "unknown",
            Was::NoStatus => "none",
            Was::Holds(true) => "yes",
            Was::Holds(false) => "no",
            Was::Status(status) => return f.write_str(&words::status(status)),
            Was::Output(value) => return f.write_str(&words::value(value)),
            Was::Gpus(gpus) => return f.write_str(&words::gpus(gpus)),
            Was::Gpu(gpu) => gpu,
            Was::Class(class) => class.map_or("not read", Class::name),
            Was::End(end) => end,
            Was::Count(count) => return write!(f, "{count}"),
            Was::One => "one",
            Was::Another => "another",
        })
    }
}

impl From<Differing<'_>> for FactDifference {
    fn from(fact: Differing<'_>) -> FactDifference {
        let step = fact.step.map(str::to_string);
        FactDifference { step, ..FactDifference::new(&fact.about.to_string(), fact.a.to_string(), fact.b.to_string()) }
    }
}

/// The facts in which two outcomes differ, step by step; at least one, if they do.
pub(super) fn differing<'o>(a: &'o Observation, b: &'o Observation) -> Vec<Differing<'o>> {
    let mut facts: Vec<Differing<'o>> = a.steps.iter().zip(&b.steps).flat_map(|(a, b)| at_step(a, b)).collect();
    let mut of_both = |about, a, b| facts.push(Differing { step: None, about, a, b });
    if a.end != b.end {
        of_both(About::End, Was::End(&a.end), Was::End(&b.end));
    }
    if a.steps.len() != b.steps.len() {
        of_both(About::StepsMade, Was::Count(a.steps.len()), Was::Count(b.steps.len()));
    }
    facts
}

fn at_step<'o>(a: &'o StepObservation, b: &'o StepObservation) -> Vec<Differing<'o>> {
    let (of_a, of_b) = (told(a), told(b));
    let was = |facts: &[(About<'o>, Was<'o>)], about| {
        facts.iter().find(|(known, _)| *known == about).map_or(Was::Absent, |(_, was)| *was)
    };
    let only_b = of_b.iter().filter(|(about, _)| !of_a.iter().any(|(known, _)| known == about));
    let step = Some(a.label.as_str());
    let facts = of_a.iter().chain(only_b).map(|(about, _)| Differing {
        step,
        about: *about,
        a: was(&of_a, *about),
        b: was(&of_b, *about),
    });
    let facts: Vec<Differing<'o>> = facts.filter(|fact| fact.a.to_string() != fact.b.to_string()).collect();
    if facts.is_empty() && a != b {
        // Two different values may have the same words.
        return vec![Differing { step, about: About::Untold, a: Was::One, b: Was::Another }];
    }
    facts
}

/// The facts of a step, the most telling first.
fn told(step: &StepObservation) -> Vec<(About<'_>, Was<'_>)> {
    let mut told = vec![
        (About::Returned, Was::Holds(step.returned)),
        (About::Status, step.status.as_ref().map_or(Was::NoStatus, Was::Status)),
    ];
    told.extend(step.values.iter().map(|(name, value)| (About::Output(name), Was::Output(value))));
    told.push((About::Initialised, step.initialised.map_or(Was::NotTold, Was::Holds)));
    told.push((About::Visible, step.visible.as_deref().map_or(Was::NotTold, Was::Gpus)));
    told.push((About::Contexts, step.contexts.as_deref().map_or(Was::NotTold, Was::Gpus)));
    told.push((About::Current, step.current.as_deref().map_or(Was::NotTold, Was::Gpu)));
    let memory = words::in_order(&step.memory).into_iter();
    told.extend(memory.map(|(gpu, memory)| (About::Memory(gpu), Was::Class(memory.class))));
    told
}
