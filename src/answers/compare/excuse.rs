//! Differences that follow from the machines: they are not differences in behaviour.

use super::FactDifference;
use super::differing::{ABSENT, END, MEMORY, RETURNED, STATUS, STEPS_MADE, VISIBLE};
use cuda_pitfalls_core::fact::words;
use cuda_pitfalls_core::fact::{self, Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observation::{Observation, StepObservation};
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::scenario::Class;

/// Values that belong to the machines. A call that returns one behaves the same on both.
pub(super) struct MachineFacts(Vec<(&'static str, [Token; 2])>);

impl MachineFacts {
    pub(super) fn new(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> MachineFacts {
        let number = |number: Option<i32>| number.map(|number| Token::Int(number.into()));
        let text = |text: &Option<String>| text.as_deref().map(Token::of);
        let facts = [
            ("the number of GPUs", machines.map(|machine| Some(Token::Int(machine.gpus.len() as i64)))),
            ("the version of libcudart", both.map(|it| number(it.libcudart.as_ref().and_then(|it| it.number)))),
            ("the driver's version", machines.map(|machine| text(&machine.driver_version))),
            ("the driver's CUDA version", machines.map(|machine| number(machine.cuda_driver_version))),
            ("NVML's version", machines.map(|machine| text(&machine.nvml_version))),
            ("the GPU's model", machines.map(|machine| text(&machine.gpus.first()?.name))),
        ];
        let known = facts.into_iter().filter_map(|(what, [a, b])| Some((what, [a?, b?])));
        MachineFacts(known.filter(|(_, [a, b])| a != b).collect())
    }

    /// The property of the machines that explains two changes; none unless they differ in one value alone.
    pub(super) fn of_change(&self, a: &fact::Change, b: &fact::Change) -> Option<&'static str> {
        let mut differing = a.facts.iter().zip(&b.facts).filter(|(a, b)| a != b);
        let (Fact::Value(name, of_a), Fact::Value(also, of_b)) = differing.next()? else { return None };
        if name != also || differing.next().is_some() || a.facts.len() != b.facts.len() {
            return None;
        }
        self.find([of_a.clone(), of_b.clone()])
    }

    /// The property of the machines that has these values.
    fn find(&self, both: [Token; 2]) -> Option<&'static str> {
        self.0.iter().find(|(_, own)| *own == both).map(|(what, _)| *what)
    }
}

/// Explains differences in a case by the machines.
pub(super) struct Excuses<'a> {
    own: &'a MachineFacts,
    case: &'a str,
    /// All GPUs of A and of B, where their numbers differ and the harness hides none of them.
    unmasked: Option<[Vec<String>; 2]>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(own: &'a MachineFacts, plans: [&Plan; 2], case: &'a str) -> Excuses<'a> {
        let all = plans.map(|plan| (0..plan.gpus.len()).map(|gpu| format!("gpu{gpu}")).collect::<Vec<_>>());
        // A case may still set a mask itself, so `comes_of_all` looks at what it saw.
        let is_unmasked = plans.iter().all(|plan| plan.case(case).is_some_and(|case| case.mask.is_none()));
        Excuses { own, case, unmasked: Some(all).filter(|[a, b]| is_unmasked && a != b) }
    }

    /// Why the machines explain a difference between two outcomes; none if they do not.
    pub(super) fn of(&self, fact: &FactDifference, outcomes: [&Observation; 2]) -> Option<String> {
        // No machine explains how a call or a process ends.
        if [STATUS, RETURNED, END, STEPS_MADE].contains(&fact.fact.as_str()) {
            return None;
        }
        match self.unmasked.as_ref().filter(|all| comes_of_all(fact, outcomes, all)) {
            Some([a, b]) => Some(format!("{} sees all GPUs: {} in A, {} in B", self.case, a.len(), b.len())),
            None => {
                let own = self.own.find([&fact.a, &fact.b].map(|value| Token::of(value)));
                own.map(|what| format!("{} is {what}", fact.fact))
            }
        }
    }
}

/// Whether the difference follows from seeing all GPUs of each machine.
fn comes_of_all(fact: &FactDifference, outcomes: [&Observation; 2], all: &[Vec<String>; 2]) -> bool {
    let both = [fact.a.as_str(), fact.b.as_str()];
    if let Some(gpu) = fact.fact.strip_prefix(MEMORY) {
        // `cuInit` leaves its footprint on each GPU that it sees. A context takes more.
        let footprint = Class::Init.name();
        let is_footprint = [[footprint, ABSENT], [ABSENT, footprint]].contains(&both);
        let is_in_both = all.iter().all(|all| all.iter().any(|known| known == gpu));
        return is_footprint && !is_in_both && outcomes.into_iter().zip(all).all(|(it, all)| has_seen(it, fact, all));
    }
    fact.fact == VISIBLE && both == all.each_ref().map(|all| words::gpus(all)).each_ref().map(String::as_str)
}

/// Whether a process of the attempt saw all these GPUs up to the step of the fact.
fn has_seen(outcome: &Observation, fact: &FactDifference, all: &Vec<String>) -> bool {
    let at = outcome.steps.iter().position(|step| Some(&step.label) == fact.step.as_ref());
    let sees_all = |step: &StepObservation| step.visible.as_ref() == Some(all);
    at.is_some_and(|at| outcome.steps.iter().take(at + 1).any(sees_all))
}
