//! Evaluates a list of checks on an observation.

use crate::fact::{GpuNames, Look, Truth};
use crate::observation::Observation;
use crate::plan::Plan;
use crate::scenario::Check;
use crate::verdict::Reason;

use super::{Facts, matches};

/// The result of a list of checks in one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Every check that applies holds.
    Yes,
    /// Some checks fail.
    No(Vec<Failed>),
    /// Every fact that could be judged holds, and at least one was judged. Another could not be judged, for this
    /// reason.
    Partly(Reason, String),
    /// No fact fails, and none could be judged, for this reason.
    Unobservable(Reason, String),
    /// No fact fails, and this one could not be determined.
    Unknown(String),
}

/// A fact that a check requires and that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The actual value and the required one.
    pub words: String,
    /// `true` if it is a fact about device memory, which other processes on the GPU can change.
    pub of_memory: bool,
}

/// Compares an observation with checks. All checks that apply to the machine must hold. Without `polled`, memory was
/// not read during calls, and no peak is known.
///
/// A check that fails decides, even if others could not be determined. If no check applies, the result gives no
/// information about this machine, and is not [`Shows::Yes`].
pub fn shows(
    checks: &[Check],
    observation: &Observation,
    polled: bool,
    plan: &Plan,
    facts: &Facts,
) -> Shows {
    let applicable: Vec<&Check> = applicable_checks(checks, plan, facts).collect();
    if applicable.is_empty() {
        return Shows::Unknown("no check applies to this machine".to_string());
    }
    let gpus = GpuNames {
        plan: &plan.gpus,
        machine: &facts.gpus,
    };
    let unseen = applicable
        .iter()
        .find(|check| !polled && check.facts.needs_polling());
    let mut unknown =
        unseen.map(|check| with_step_label(check, "memory was not read during the call"));
    let (mut failed, mut hidden, mut any) = (Vec::new(), None, false);
    for check in applicable {
        for held in check_facts(check, observation, &gpus, polled) {
            match held {
                Truth::Yes => any = true,
                Truth::No(words) => failed.push(Failed {
                    words: with_step_label(check, &words),
                    of_memory: false,
                }),
                Truth::NoOfMemory(words) => failed.push(Failed {
                    words: with_step_label(check, &words),
                    of_memory: true,
                }),
                Truth::Unknown(words) => {
                    unknown = unknown.or_else(|| Some(with_step_label(check, &words)))
                }
                Truth::Unobservable(reason, words) => {
                    hidden = hidden.or_else(|| Some((reason, with_step_label(check, &words))));
                }
            }
        }
    }
    match (unknown, hidden) {
        _ if !failed.is_empty() => Shows::No(failed),
        (Some(words), _) => Shows::Unknown(words),
        (None, Some((reason, words))) if any => Shows::Partly(reason, words),
        (None, Some((reason, words))) => Shows::Unobservable(reason, words),
        (None, None) => Shows::Yes,
    }
}

/// Returns the checks with a matching `when`.
pub(super) fn applicable_checks<'a>(
    checks: &'a [Check],
    plan: &'a Plan,
    facts: &'a Facts,
) -> impl Iterator<Item = &'a Check> {
    checks
        .iter()
        .filter(|check| matches(&check.when, facts, &plan.parameters))
}

fn with_step_label(check: &Check, words: &str) -> String {
    if check.at.is_empty() {
        words.to_string()
    } else {
        format!("at {}: {words}", check.at)
    }
}

fn check_facts(
    check: &Check,
    observation: &Observation,
    gpus: &GpuNames<'_>,
    polled: bool,
) -> Vec<Truth> {
    let mut held: Vec<Truth> = check
        .facts
        .exit
        .iter()
        .map(|exit| exit.held(&observation.end))
        .collect();
    match Look::at(observation, &check.at) {
        _ if check.at.is_empty() => {}
        None => held.push(Truth::Unknown("the step was not reached".to_string())),
        Some(look) if !look.step.returned => {
            held.push(Truth::Unknown("the call did not return".to_string()))
        }
        Some(look) => held.extend(check.facts.held(&look, gpus, polled)),
    }
    held
}
