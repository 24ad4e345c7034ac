//! Differences that follow from the machines: they are not differences in behaviour.

use super::differing::{About, Differing, Was};
use cuda_pitfalls_core::fact::{self, Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observation::{Observation, StepObservation};
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::scenario::Class;

/// What the two machines are by themselves. A call that tells it behaves the same on both.
pub(super) struct MachineFacts(Vec<(&'static str, [Token; 2])>);

impl MachineFacts {
    pub(super) fn new(both: [&ScenarioReport; 2], machines: [&Machine; 2]) -> MachineFacts {
        let number = |number: Option<i32>| number.map(|number| Token::Int(number.into()));
        let text = |text: &Option<String>| text.as_deref().map(Token::of);
        let facts = [
            ("the number of GPUs", machines.map(|machine| Some(Token::Int(machine.gpus.len() as i64)))),
            ("the version of libcudart", both.map(|it| number(it.libcudart.as_ref().and_then(|it| it.number)))),
            ("the driver's version", machines.map(|machine| text(&machine.driver_version))),
            ("the driver's CUDA version", machines.map(|machine| number(machine.cuda_driver_version))),
            ("NVML's version", machines.map(|machine| text(&machine.nvml_version))),
        ];
        let known = facts.into_iter().filter_map(|(what, [a, b])| Some((what, [a?, b?])));
        MachineFacts(known.filter(|(_, [a, b])| a != b).collect())
    }

    /// What two changes at a step tell about the machines, if they differ in one value and in nothing else.
    pub(super) fn of_change(&self, a: &fact::Change, b: &fact::Change) -> Option<&'static str> {
        let mut differing = a.facts.iter().zip(&b.facts).filter(|(a, b)| a != b);
        let (Fact::Value(name, of_a), Fact::Value(also, of_b)) = differing.next()? else { return None };
        if name != also || differing.next().is_some() || a.facts.len() != b.facts.len() {
            return None;
        }
        self.find([of_a.clone(), of_b.clone()])
    }

    /// What a fact tells about the machines, if it tells nothing else.
    fn of(&self, fact: &Differing) -> Option<&'static str> {
        let (Was::Output(of_a), Was::Output(of_b)) = (fact.a, fact.b) else { return None };
        self.find([of_a, of_b].map(Token::from))
    }

    fn find(&self, both: [Token; 2]) -> Option<&'static str> {
        self.0.iter().find(|(_, own)| *own == both).map(|(what, _)| *what)
    }
}

/// What the machines make different in a case, fact by fact.
pub(super) struct Excuses<'a> {
    own: &'a MachineFacts,
    case: &'a str,
    /// All GPUs of A and of B, where their numbers differ and the harness hides none of them.
    unmasked: Option<[Vec<String>; 2]>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(own: &'a MachineFacts, plans: [&Plan; 2], case: &'a str) -> Excuses<'a> {
        let all = plans.map(|plan| (0..plan.gpus.len()).map(|gpu| format!("gpu{gpu}")).collect::<Vec<_>>());
        // A case may have a mask in its environment all the same, and take it away before it counts:
        // what it saw tells.
        let is_unmasked = plans.iter().all(|plan| plan.case(case).is_some_and(|case| case.mask.is_none()));
        Excuses { own, case, unmasked: Some(all).filter(|[a, b]| is_unmasked && a != b) }
    }

    /// Why the machines explain a difference between two outcomes; none if they do not.
    pub(super) fn of(&self, fact: &Differing, outcomes: [&Observation; 2]) -> Option<String> {
        // How a call and a process end: no machine explains these, whatever it has.
        if matches!(fact.about, About::Status | About::Returned | About::End | About::StepsMade) {
            return None;
        }
        match self.unmasked.as_ref().filter(|all| comes_of_all(fact, outcomes, all)) {
            Some([a, b]) => Some(format!("{} sees all GPUs: {} in A, {} in B", self.case, a.len(), b.len())),
            None => self.own.of(fact).map(|what| format!("{} is {what}", fact.about)),
        }
    }
}

/// Whether a difference is no more than what comes of seeing all GPUs of either machine.
fn comes_of_all(fact: &Differing, [a, b]: [&Observation; 2], [all_a, all_b]: &[Vec<String>; 2]) -> bool {
    // `cuInit` touches each GPU that it sees, and touched they stay. A context would be more than that.
    let touch = Was::Class(Some(Class::Touch));
    match fact.about {
        About::Visible => (fact.a, fact.b) == (Was::Gpus(all_a), Was::Gpus(all_b)),
        About::Memory(gpu) => {
            let is_touch = [(touch, Was::Absent), (Was::Absent, touch)].contains(&(fact.a, fact.b));
            let is_in_both = [all_a, all_b].iter().all(|all| all.iter().any(|known| known == gpu));
            is_touch && !is_in_both && has_seen(a, fact, all_a) && has_seen(b, fact, all_b)
        }
        _ => false,
    }
}

/// Whether some process of an attempt has seen all these GPUs by the step of a fact.
fn has_seen(outcome: &Observation, fact: &Differing, all: &Vec<String>) -> bool {
    let at = outcome.steps.iter().position(|step| Some(step.label.as_str()) == fact.step);
    let sees_all = |step: &StepObservation| step.visible.as_ref() == Some(all);
    at.is_some_and(|at| outcome.steps.iter().take(at + 1).any(sees_all))
}
