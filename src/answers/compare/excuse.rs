//! Differences that follow from the machines: they are not differences in behaviour.

use super::differing::Differing;
use cuda_pitfalls_core::fact::{Change, Fact, Token};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::plan::Plan;
use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::scenario::Class;

/// What differs between two machines and can explain a difference in a case.
pub(super) struct Excuses<'a> {
    case: &'a str,
    /// Values that belong to the machines, where they are not the same. A call that returns one behaves the same on both.
    own: Vec<(&'static str, [Token; 2])>,
    /// All GPUs of A and of B, where their numbers differ and the harness hides none of them.
    unmasked: Option<[Vec<String>; 2]>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(
        both: [&ScenarioView<'_>; 2],
        machines: [&Machine; 2],
        case: &'a str,
    ) -> Excuses<'a> {
        let own = [
            (
                "the number of GPUs",
                machines.map(|machine| Some(Token::Int(machine.gpus.len() as i64))),
            ),
            (
                "the version of libcudart",
                both.map(|scenario| scenario.libcudart?.number.map(number)),
            ),
            (
                "the driver's version",
                machines.map(|machine| machine.driver_version.as_deref().map(Token::new)),
            ),
            (
                "the driver's CUDA version",
                machines.map(|machine| machine.cuda_driver_version.map(number)),
            ),
            (
                "NVML's version",
                machines.map(|machine| machine.nvml_version.as_deref().map(Token::new)),
            ),
            (
                "the GPU's model",
                machines.map(|machine| machine.gpus.first()?.name.as_deref().map(Token::new)),
            ),
        ];
        let own = own
            .into_iter()
            .filter_map(|(what, [a, b])| Some((what, [a?, b?])))
            .filter(|(_, [a, b])| a != b);
        Excuses {
            case,
            own: own.collect(),
            unmasked: unmasked_gpus(both, case),
        }
    }

    /// Why the machines explain a difference between two outcomes; `None` if they do not. No machine explains how a
    /// call or a process ends.
    pub(super) fn why(
        &self,
        difference: &Differing<'_>,
        outcomes: [&[Change]; 2],
    ) -> Option<String> {
        let (Some((step, _)), [Some(a), Some(b)]) = (difference.step, &difference.facts) else {
            return None;
        };
        if let Some(all) = &self.unmasked {
            let comes_of_all = match (a, b) {
                (Fact::Visible(Some(a)), Fact::Visible(Some(b))) => *a == all[0] && *b == all[1],
                // `cuInit` leaves its footprint on each GPU that it sees. A context takes more.
                (Fact::Memory(gpu, Some(a)), Fact::Memory(_, Some(b))) => {
                    let is_footprint = *a.min(b) == Class::None && *a.max(b) == Class::Init;
                    let is_in_both = all.iter().all(|all| all.contains(gpu));
                    let have_seen = outcomes
                        .iter()
                        .zip(all)
                        .all(|(changes, all)| has_seen(changes, step, all));
                    is_footprint && !is_in_both && have_seen
                }
                _ => false,
            };
            if comes_of_all {
                return Some(format!(
                    "{} sees all GPUs: {} in A, {} in B",
                    self.case,
                    all[0].len(),
                    all[1].len()
                ));
            }
        }
        let (Fact::Value(name, a), Fact::Value(_, b)) = (a, b) else {
            return None;
        };
        let own = self
            .own
            .iter()
            .find(|(_, [of_a, of_b])| (of_a, of_b) == (a, b));
        own.map(|(what, _)| format!("{name} is {what}"))
    }
}

fn number(number: i32) -> Token {
    Token::Int(number.into())
}

fn unmasked_gpus(both: [&ScenarioView<'_>; 2], case: &str) -> Option<[Vec<String>; 2]> {
    let [a, b] = both.map(|scenario| {
        // A case may still set a mask itself, so `Excuses::why` looks at what it saw.
        let plan = scenario
            .plan
            .filter(|plan| plan.case(case).is_some_and(|case| case.mask.is_none()));
        plan.map(|plan: &Plan| {
            (0..plan.gpus.len())
                .map(|gpu| format!("gpu{gpu}"))
                .collect::<Vec<_>>()
        })
    });
    a.zip(b).filter(|(a, b)| a != b).map(Into::into)
}

/// Whether a process of the attempt saw all these GPUs up to a step.
fn has_seen(changes: &[Change], step: u32, all: &[String]) -> bool {
    let before = changes
        .iter()
        .filter(|change| change.step <= step)
        .flat_map(|change| &change.facts);
    before
        .into_iter()
        .any(|fact| matches!(fact, Fact::Visible(Some(gpus)) if gpus == all))
}
