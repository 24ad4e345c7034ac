//! Whether an observation shows what a list of checks says.

mod memory;

use crate::observe::{Observation, Shared, StepObservation};
use crate::plan::Plan;
use crate::scenario::{Check, ExitCheck, GpuList, Matcher};
use crate::verdict::Reason;

use super::compare::{Datum, Held, compare};
use super::{Facts, matches};

/// Statuses by which a driver says that there is no GPU, before it says anything else.
const NO_DEVICE: [&str; 2] = ["CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice"];

/// What a list of checks comes to in one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Every check that applies holds.
    Yes,
    /// Some do not.
    No(Vec<Failed>),
    /// Every fact that could be judged holds, at least one; another could not, for this reason.
    Partly(Reason, String),
    /// None fails and none could be judged, for this reason.
    Unobservable(Reason, String),
    /// None fails, and this could not be told.
    Unknown(String),
}

/// A fact that is not as a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What is, and what should be.
    pub words: String,
    /// Whether it is a fact of device memory, which other processes on the GPU can disturb.
    pub of_memory: bool,
}

/// Holds an observation against checks, of which all that apply to the machine must hold.
///
/// A check that fails decides, whatever else could not be told. Where no check applies, nothing is
/// said about this machine, which is not the same as saying that all is so.
pub fn shows(checks: &[Check], observation: &Observation, plan: &Plan, facts: &Facts) -> Shows {
    let applicable: Vec<&Check> = applicable(checks, plan, facts).collect();
    if applicable.is_empty() {
        return Shows::Unknown("no check applies to this machine".to_string());
    }
    let (mut failed, mut unknown, mut hidden, mut any) = (Vec::new(), None, None, false);
    for check in applicable {
        for held in (Asked { check, observation, plan, facts }).held() {
            match held {
                Held::Yes => any = true,
                Held::No(words) => failed.push(Failed { words: placed(check, &words), of_memory: false }),
                Held::NoOfMemory(words) => failed.push(Failed { words: placed(check, &words), of_memory: true }),
                Held::Unknown(words) => unknown = unknown.or_else(|| Some(placed(check, &words))),
                Held::Unobservable(reason, words) => {
                    hidden = hidden.or_else(|| Some((reason, placed(check, &words))));
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

/// The checks whose `when` holds.
pub(super) fn applicable<'a>(checks: &'a [Check], plan: &'a Plan, facts: &'a Facts) -> impl Iterator<Item = &'a Check> {
    checks.iter().filter(|check| matches(&check.when, facts, &plan.parameters))
}

fn placed(check: &Check, words: &str) -> String {
    if check.at.is_empty() { words.to_string() } else { format!("at {}: {words}", check.at) }
}

/// One check and everything it is held against.
struct Asked<'a> {
    check: &'a Check,
    observation: &'a Observation,
    plan: &'a Plan,
    facts: &'a Facts,
}

impl Asked<'_> {
    fn held(&self) -> Vec<Held> {
        let mut held: Vec<Held> = self.check.exit.iter().map(|exit| self.exit(exit)).collect();
        if self.check.at.is_empty() {
            return held;
        }
        let place = self.observation.steps.iter().position(|step| step.label == self.check.at);
        let reached = place.and_then(|place| self.observation.steps.get(place).map(|step| (place, step)));
        match reached {
            None => held.push(Held::Unknown("the step was not reached".to_string())),
            Some((_, step)) if !step.returned => held.push(Held::Unknown("the call did not return".to_string())),
            Some((place, step)) => {
                self.called(step, &mut held);
                self.looked(place, step, &mut held);
                held.extend(memory::held(self, place, step));
            }
        }
        held
    }

    fn exit(&self, exit: &ExitCheck) -> Held {
        let expected = match exit {
            ExitCheck::Code(0) => "0".to_string(),
            ExitCheck::Code(code) => format!("exit {code}"),
            ExitCheck::Signal(signal) => signal.clone(),
            ExitCheck::Deadline => "deadline".to_string(),
        };
        match self.observation.end.as_str() {
            "unknown" => Held::Unknown("how the worker ended is not known".to_string()),
            end if end == expected => Held::Yes,
            end => Held::No(format!("the end is {end}, expected {expected}")),
        }
    }

    /// What the call gave back.
    fn called(&self, step: &StepObservation, held: &mut Vec<Held>) {
        if !self.check.status.is_empty() {
            held.push(match &step.status {
                None => Held::Unknown("the step has no status".to_string()),
                Some(status) if status.name.as_ref().is_some_and(|name| self.check.status.contains(name)) => Held::Yes,
                Some(status) => {
                    let name = status.name.clone().unwrap_or_else(|| status.code.to_string());
                    Held::No(format!("status is {name}, expected {}", self.check.status.join(" or ")))
                }
            });
        }
        for (name, matcher) in &self.check.value {
            let is_hidden = match step.shared {
                None => false,
                Some(Shared::Listed) => true,
                // Held against another sum it says what the worker did all the same.
                Some(Shared::Summed) => matcher.is_absolute(),
            };
            if is_hidden {
                let why = "the call is about every process on the GPU, and a co-tenant is there";
                held.push(Held::Unobservable(Reason::Unobservable, format!("{name} cannot be told: {why}")));
                continue;
            }
            held.push(match step.values.get(name).or_else(|| step.varying.get(name)) {
                None => Held::Unknown(format!("the call gave no {name}")),
                Some(value) => self.compare(name, &Datum::value(self.plan, value), matcher),
            });
        }
    }

    /// What the process saw when it looked around.
    fn looked(&self, place: usize, step: &StepObservation, held: &mut Vec<Held>) {
        let check = self.check;
        if let Some(expected) = &check.visible {
            let seen = step.visible.clone().or_else(|| self.saw_no_device(place, step).then(Vec::new));
            held.push(equal("visible", seen, self.named(expected)));
        }
        // A process whose driver is not initialised has no contexts, though nobody could ask it.
        let idle = step.initialised == Some(false);
        if let Some(expected) = &check.contexts {
            let mut seen = step.contexts.clone().or_else(|| idle.then(Vec::new));
            let mut expected = self.named(expected);
            seen.iter_mut().for_each(|seen| seen.sort());
            expected.sort();
            held.push(equal("contexts", seen, expected));
        }
        if let Some(expected) = &check.current {
            let seen = step.current.clone().or_else(|| idle.then(|| "none".to_string()));
            held.push(equal("current", seen.map(|name| vec![name]), vec![expected.clone()]));
        }
        if let Some(expected) = check.initialised {
            held.push(match step.initialised {
                None => Held::Unknown("initialised could not be observed".to_string()),
                Some(seen) if seen == expected => Held::Yes,
                Some(seen) => Held::No(format!("initialised is {seen}, expected {expected}")),
            });
        }
    }

    /// Whether a call has said that there is no GPU, and nothing was initialised since. Such a
    /// driver answers as one that nobody initialised, so looking around cannot tell.
    fn saw_no_device(&self, place: usize, step: &StepObservation) -> bool {
        let mut so_far = self.observation.steps.iter().take(place.saturating_add(1));
        let says_none = |step: &StepObservation| {
            let name = step.status.as_ref().and_then(|status| status.name.as_deref());
            name.is_some_and(|name| NO_DEVICE.contains(&name))
        };
        step.initialised != Some(true) && so_far.any(says_none)
    }

    fn named(&self, list: &GpuList) -> Vec<String> {
        match list {
            GpuList::None => Vec::new(),
            GpuList::Named(names) => names.clone(),
            GpuList::All => {
                let uuids = self.facts.gpus.iter();
                uuids.map(|uuid| self.plan.gpu_name(uuid).unwrap_or_else(|| uuid.clone())).collect()
            }
        }
    }

    fn compare(&self, subject: &str, actual: &Datum, matcher: &Matcher) -> Held {
        compare(subject, actual, matcher, self.plan, self.observation)
    }
}

fn equal(what: &str, seen: Option<Vec<String>>, expected: Vec<String>) -> Held {
    let list = |names: &[String]| if names.is_empty() { "none".to_string() } else { names.join(", ") };
    match seen {
        None => Held::Unknown(format!("{what} could not be observed")),
        Some(seen) if seen == expected => Held::Yes,
        Some(seen) => Held::No(format!("{what} is {}, expected {}", list(&seen), list(&expected))),
    }
}
