//! Differences that follow from the machines: they do not count as differences in behavior.

use super::differing::Differing;
use crate::difference::differing_values;
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::scenario::Class;

/// Differences between two machines that can explain a difference in a case.
pub(super) struct Excuses<'a> {
    case: &'a str,
    /// Values that belong to the machines and differ. A call that returns such a value behaves the same on both.
    own: Vec<(&'static str, [Token; 2])>,
    /// All GPUs of A and of B, if their numbers differ and the harness hides none of them.
    unmasked: Option<[Vec<String>; 2]>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(
        both: [&ScenarioView<'_>; 2],
        machines: [&Machine; 2],
        case: &'a str,
    ) -> Excuses<'a> {
        let [a, b] = [0, 1].map(|side| own_values(both[side], machines[side]));
        let mut own = Vec::new();
        for (what, values) in differing_values([a, b]) {
            if let [Some(a), Some(b)] = values {
                own.push((what, [a, b]));
            }
        }
        let unmasked = unmasked_gpus(both, case);
        Excuses {
            case,
            own,
            unmasked,
        }
    }

    /// Returns why the machines explain a difference between two outcomes, or `None` if they do not. A machine never
    /// explains how a call or a process ends.
    pub(super) fn why(
        &self,
        difference: &Differing<'_>,
        outcomes: [&[Change]; 2],
    ) -> Option<String> {
        let (Some((step, _)), [Some(a), Some(b)]) = (difference.step, &difference.facts) else {
            return None;
        };
        if let Some(all) = &self.unmasked
            && comes_of_all_gpus(all, [a, b], outcomes, step)
        {
            let [in_a, in_b] = all.each_ref().map(Vec::len);
            return Some(format!(
                "{} sees all GPUs: {in_a} in A, {in_b} in B",
                self.case
            ));
        }
        let (Fact::Value(name, a), Fact::Value(_, b)) = (a, b) else {
            return None;
        };
        for (what, [of_a, of_b]) in &self.own {
            if (of_a, of_b) == (a, b) {
                return Some(format!("{name} is {what}"));
            }
        }
        None
    }
}

/// Returns the values that belong to a machine, as far as they are known.
fn own_values(scenario: &ScenarioView<'_>, machine: &Machine) -> Vec<(&'static str, Token)> {
    let count = i32::try_from(machine.gpus.len()).ok();
    let libcudart = scenario.libcudart.and_then(|library| library.number);
    let model = machine.gpus.first().and_then(|gpu| gpu.name.as_ref());
    let mut values = Vec::new();
    for (what, number) in [
        ("the number of GPUs", count),
        ("the libcudart version", libcudart),
        ("the driver's CUDA version", machine.cuda_driver_version),
    ] {
        values.extend(number.map(|number| (what, Token::Int(number.into()))));
    }
    for (what, text) in [
        ("the driver's version", machine.driver_version.as_ref()),
        ("NVML's version", machine.nvml_version.as_ref()),
        ("the GPU's model", model),
    ] {
        values.extend(text.map(|text| (what, Token::new(text))));
    }
    values
}

/// Returns `true` if two facts differ because one machine has more GPUs than the other.
fn comes_of_all_gpus(
    all: &[Vec<String>; 2],
    facts: [&Fact; 2],
    outcomes: [&[Change]; 2],
    step: u32,
) -> bool {
    match facts {
        [Fact::Visible(Some(a)), Fact::Visible(Some(b))] => *a == all[0] && *b == all[1],
        // `cuInit` leaves its footprint on each GPU that it sees. A context takes more.
        [Fact::Memory(gpu, Some(a)), Fact::Memory(_, Some(b))] => {
            let is_footprint = *a.min(b) == Class::None && *a.max(b) == Class::Init;
            let is_in_both = all[0].contains(gpu) && all[1].contains(gpu);
            let have_seen =
                has_seen(outcomes[0], step, &all[0]) && has_seen(outcomes[1], step, &all[1]);
            is_footprint && !is_in_both && have_seen
        }
        _ => false,
    }
}

fn unmasked_gpus(both: [&ScenarioView<'_>; 2], case: &str) -> Option<[Vec<String>; 2]> {
    let [a, b] = both.map(|scenario| {
        let plan = scenario.plan?;
        // A case may still set a mask itself, so `Excuses::why` looks at what it saw.
        if plan.case(case)?.mask.is_some() {
            return None;
        }
        let names: Vec<String> = (0..plan.gpus.len())
            .map(|gpu| format!("gpu{gpu}"))
            .collect();
        Some(names)
    });
    match (a, b) {
        (Some(a), Some(b)) if a != b => Some([a, b]),
        _ => None,
    }
}

/// Returns `true` if a process of the attempt saw all these GPUs up to a step.
fn has_seen(changes: &[Change], step: u32, all: &[String]) -> bool {
    for change in changes {
        let mut facts = change.facts.iter();
        if change.step <= step
            && facts.any(|fact| matches!(fact, Fact::Visible(Some(gpus)) if gpus == all))
        {
            return true;
        }
    }
    false
}
