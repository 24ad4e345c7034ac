//! The facts in which two outcomes differ, in the words of a comparison.

use super::{FactDifference, yes_or_no};
use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::observation::{Observation, StepObservation};
use cuda_pitfalls_core::scenario::Class;

pub(super) const RETURNED: &str = "returned";
pub(super) const STATUS: &str = "status";
pub(super) const END: &str = "ends";
pub(super) const STEPS_MADE: &str = "steps made";
pub(super) const VISIBLE: &str = "sees";
/// How the memory of a GPU changed; the GPU stands behind it.
pub(super) const MEMORY: &str = "memory of ";
/// A fact that only the other outcome has.
pub(super) const ABSENT: &str = "nothing";

/// The facts in which two outcomes differ, step by step; at least one, if they do.
pub(super) fn differing(a: &Observation, b: &Observation) -> Vec<FactDifference> {
    let mut facts: Vec<FactDifference> = a.steps.iter().zip(&b.steps).flat_map(|(a, b)| at_step(a, b)).collect();
    let of_all =
        |it: &Observation| [(END.to_string(), it.end.clone()), (STEPS_MADE.to_string(), it.steps.len().to_string())];
    facts.extend(FactDifference::between(&of_all(a), &of_all(b), ABSENT));
    facts
}

fn at_step(a: &StepObservation, b: &StepObservation) -> Vec<FactDifference> {
    let mut facts = FactDifference::between(&told(a), &told(b), ABSENT);
    if facts.is_empty() && a != b {
        // Two different values may have the same words.
        facts.push(FactDifference::new("a value", "one", "another"));
    }
    facts.into_iter().map(|fact| FactDifference { step: Some(a.label.clone()), ..fact }).collect()
}

/// The facts of a step, the most telling first.
fn told(step: &StepObservation) -> Vec<(String, String)> {
    let gpus = |gpus: &Option<Vec<String>>| gpus.as_deref().map(words::gpus);
    let unknown = |fact: Option<String>| fact.unwrap_or_else(|| "unknown".to_string());
    let call = [
        (RETURNED, yes_or_no(step.returned)),
        (STATUS, step.status.as_ref().map_or_else(|| "none".to_string(), words::status)),
    ];
    let process = [
        ("driver initialised", unknown(step.initialised.map(yes_or_no))),
        (VISIBLE, unknown(gpus(&step.visible))),
        ("contexts", unknown(gpus(&step.contexts))),
        ("current", unknown(step.current.clone())),
    ];
    let named = |(name, words): (&str, String)| (name.to_string(), words);
    let mut told: Vec<(String, String)> = call.map(named).into();
    told.extend(step.values.iter().map(|(name, value)| (name.clone(), words::value(value))));
    told.extend(process.map(named));
    told.extend(
        words::in_order(&step.memory)
            .into_iter()
            .map(|(gpu, memory)| (format!("{MEMORY}{gpu}"), memory.class.map_or("not read", Class::name).to_string())),
    );
    told
}
