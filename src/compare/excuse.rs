//! What two machines make different by themselves: it is no difference in behaviour.

use super::Change;
use crate::machine::Machine;
use crate::observe::{Observation, StepObservation, words};
use crate::plan::Plan;
use crate::report::ScenarioReport;
use crate::scenario::Class;

/// The fact of what a call returned.
pub(super) const STATUS: &str = "status";
/// The fact of whether it did.
pub(super) const RETURNED: &str = "returned";
/// The fact of how a process ended.
pub(super) const ENDS: &str = "ends";
/// The fact of how far it came.
pub(super) const STEPS_MADE: &str = "steps made";
/// The fact of which GPUs a process sees.
pub(super) const SEES: &str = "sees";
/// What the fact of a GPU's memory begins with; its name follows.
pub(super) const MEMORY_OF: &str = "memory of ";
/// What a fact is where only the other outcome has it.
pub(super) const NOTHING: &str = "nothing";

/// How a call and a process end: no machine explains these, whatever it has.
const BEHAVIOUR: [&str; 4] = [STATUS, RETURNED, ENDS, STEPS_MADE];

/// What the two machines are by themselves. A call that tells it behaves the same on both.
pub(super) struct Own(Vec<(&'static str, [String; 2])>);

impl Own {
    pub(super) fn new(both: [&ScenarioReport; 2], machines: [&Machine; 2]) -> Own {
        let number = |number: Option<i32>| number.map(|number| number.to_string());
        let facts = [
            ("the number of GPUs", machines.map(|machine| Some(machine.gpus.len().to_string()))),
            ("the version of libcudart", both.map(|it| number(it.libcudart.as_ref().and_then(|it| it.number)))),
            ("the driver's version", machines.map(|machine| machine.driver_version.clone())),
            ("the driver's CUDA version", machines.map(|machine| number(machine.cuda_driver_version))),
            ("NVML's version", machines.map(|machine| machine.nvml_version.clone())),
        ];
        let known = facts.into_iter().filter_map(|(what, [a, b])| Some((what, [a?, b?])));
        Own(known.filter(|(_, [a, b])| a != b).collect())
    }

    /// What a change tells about the machines, if it tells nothing else.
    fn of(&self, change: &Change) -> Option<&'static str> {
        self.0.iter().find(|(_, [a, b])| change.a == *a && change.b == *b).map(|(what, _)| *what)
    }
}

/// What the machines make different in a case, fact by fact.
pub(super) struct Excuses<'a> {
    own: &'a Own,
    case: &'a str,
    /// All GPUs of A and of B, where their numbers differ and the harness hides none of them.
    unmasked: Option<[Vec<String>; 2]>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(own: &'a Own, plans: [&Plan; 2], case: &'a str) -> Excuses<'a> {
        let all = plans.map(|plan| (0..plan.gpus.len()).map(|gpu| format!("gpu{gpu}")).collect::<Vec<_>>());
        // A case may have a mask in its environment all the same, and take it away before it counts:
        // what it saw tells.
        let is_unmasked = plans.iter().all(|plan| plan.case(case).is_some_and(|case| case.mask.is_none()));
        Excuses { own, case, unmasked: Some(all).filter(|[a, b]| is_unmasked && a != b) }
    }

    /// Why the machines explain a change between two outcomes; none if they do not.
    pub(super) fn of(&self, change: &Change, outcomes: [&Observation; 2]) -> Option<String> {
        if BEHAVIOUR.contains(&change.fact.as_str()) {
            return None;
        }
        match self.unmasked.as_ref().filter(|all| comes_of_all(change, outcomes, all)) {
            Some([a, b]) => Some(format!("{} sees all GPUs: {} in A, {} in B", self.case, a.len(), b.len())),
            None => self.own.of(change).map(|what| format!("{} is {what}", change.fact)),
        }
    }
}

/// Whether a change is no more than what comes of seeing all GPUs of either machine.
fn comes_of_all(change: &Change, [a, b]: [&Observation; 2], [all_a, all_b]: &[Vec<String>; 2]) -> bool {
    if change.fact == SEES {
        return change.a == words::gpus(all_a) && change.b == words::gpus(all_b);
    }
    // `cuInit` touches each GPU that it sees, and touched they stay. A context would be more than that.
    let touch = Class::Touch.name();
    let is_touch = [(touch, NOTHING), (NOTHING, touch)].contains(&(change.a.as_str(), change.b.as_str()));
    let is_in_both = |gpu: &str| [all_a, all_b].iter().all(|all| all.iter().any(|known| known == gpu));
    let is_of_one_machine = change.fact.strip_prefix(MEMORY_OF).is_some_and(|gpu| !is_in_both(gpu));
    is_touch && is_of_one_machine && has_seen(a, change, all_a) && has_seen(b, change, all_b)
}

/// Whether some process of an attempt has seen all these GPUs by the step at which a change is.
fn has_seen(outcome: &Observation, change: &Change, all: &Vec<String>) -> bool {
    let at = outcome.steps.iter().position(|step| Some(&step.label) == change.step.as_ref());
    let sees_all = |step: &StepObservation| step.visible.as_ref() == Some(all);
    at.is_some_and(|at| outcome.steps.iter().take(at + 1).any(sees_all))
}
