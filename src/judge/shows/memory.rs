//! Facts of device memory: classes and bytes, by GPU.
//!
//! Memory is seen from outside, for the GPU as a whole. So what other processes on the GPU hide is
//! taken into account here: a fact that holds whatever they hide holds, one that fails whatever they
//! hide fails, and the rest cannot be told.

use std::collections::BTreeMap;

use crate::judge::compare::{Datum, Held};
use crate::observe::{Hidden, MOST_INIT_BYTES, MemoryObservation, StepObservation};
use crate::scenario::{Class, Matcher, Operand};
use crate::verdict::Reason;

use super::Asked;

const GROWN: &str = "grown_bytes";

/// Every fact of memory that a check asks for at a step.
pub(super) fn held(asked: &Asked, place: usize, step: &StepObservation) -> Vec<Held> {
    let mut held = Vec::new();
    for (gpu, classes) in by_gpu(asked, &asked.check.memory) {
        held.push(class(&gpu, step.memory.get(&gpu), classes));
    }
    let before = place.checked_sub(1).and_then(|place| asked.observation.steps.get(place));
    let used = |memory: &MemoryObservation| memory.used_bytes.map(i128::from);
    let start = |gpu: &str| before.map_or(Some(0), |before| before.memory.get(gpu).and_then(used));
    let now = |gpu: &str| step.memory.get(gpu);
    // The footprint is taken when the driver is initialised: what a later step adds hides nothing.
    let was_initialised = before.is_some_and(|before| before.initialised == Some(true));
    let mut bytes = |what: &str, matchers: &BTreeMap<String, Matcher>, of: &dyn Fn(&str) -> Option<i128>| {
        for (gpu, matcher) in by_gpu(asked, matchers) {
            let is_paid = |hidden: &Hidden| what == GROWN && was_initialised && *hidden == Hidden::Prepaid;
            let hidden = now(&gpu).and_then(|memory| memory.hidden).filter(|hidden| !is_paid(hidden));
            held.push(within(asked, &format!("{what} of {gpu}"), of(&gpu), hidden, matcher));
        }
    };
    let check = asked.check;
    bytes("used_bytes", &check.used_bytes, &|gpu| now(gpu).and_then(used));
    bytes(GROWN, &check.grown_bytes, &|gpu| Some(now(gpu).and_then(used)? - start(gpu)?));
    bytes("peak_bytes", &check.peak_bytes, &|gpu| {
        // No peak of its own means that the larger of the two ends was the largest seen.
        let memory = now(gpu)?;
        memory.peak_bytes.map(i128::from).or_else(|| Some(used(memory)?.max(start(gpu)?)))
    });
    for (gpu, matcher) in by_gpu(asked, &check.process_bytes) {
        let subject = format!("process_bytes of {gpu}");
        held.push(match now(&gpu).and_then(|memory| memory.process_bytes) {
            Some(bytes) => of_memory(asked.compare(&subject, &Datum::Int(i128::from(bytes)), matcher)),
            None => {
                Held::Unobservable(Reason::Unobservable, format!("{subject}: NVML does not say what the worker uses"))
            }
        });
    }
    held
}

fn class(gpu: &str, seen: Option<&MemoryObservation>, expected: &[Class]) -> Held {
    let Some(memory) = seen else { return Held::Unknown(format!("memory of {gpu} could not be observed")) };
    let subject = format!("memory of {gpu}");
    if memory.hidden == Some(Hidden::Uncalibrated) {
        return unobservable(Hidden::Uncalibrated, &subject);
    }
    let Some(class) = memory.class else { return Held::Unknown(format!("{subject} could not be observed")) };
    let possible: &[Class] = match (memory.hidden, class) {
        (Some(Hidden::Prepaid), Class::None) | (Some(Hidden::Wavering), Class::None | Class::Touch) => {
            &[Class::None, Class::Touch]
        }
        _ => &[class],
    };
    let asked_for = |class: &&Class| expected.contains(class);
    match (possible.iter().filter(asked_for).count(), memory.hidden) {
        (0, _) => {
            let words: Vec<&str> = expected.iter().copied().map(Class::name).collect();
            Held::NoOfMemory(format!("{subject} is {}, expected {}", class.name(), words.join(" or ")))
        }
        (count, Some(hidden)) if count < possible.len() => unobservable(hidden, &subject),
        _ => Held::Yes,
    }
}

/// Holds a figure against a matcher, with whatever may hide beside it.
fn within(asked: &Asked, subject: &str, seen: Option<i128>, hidden: Option<Hidden>, matcher: &Matcher) -> Held {
    if hidden == Some(Hidden::Uncalibrated) {
        return unobservable(Hidden::Uncalibrated, subject);
    }
    let Some(bytes) = seen else { return Held::Unknown(format!("{subject} could not be observed")) };
    let most = i128::from(MOST_INIT_BYTES);
    let (low, high) = match hidden {
        None | Some(Hidden::Uncalibrated) => (bytes, bytes),
        Some(Hidden::Prepaid) => (bytes, bytes + most),
        Some(Hidden::Wavering) => (bytes - most, bytes + most),
    };
    // Between its own bounds a matcher answers alike, so it is enough to ask at these and beside them.
    let bounds = matcher.bounds().filter_map(|(_, operand)| match operand {
        Operand::Int(bound) => Some(i128::from(*bound)),
        _ => None,
    });
    let points = bounds.flat_map(|bound| [bound - 1, bound, bound + 1]).chain([low, high]);
    let at = |bytes: i128| of_memory(asked.compare(subject, &Datum::Int(bytes), matcher));
    let answers: Vec<Held> = points.filter(|point| (low..=high).contains(point)).map(at).collect();
    let yes = answers.iter().filter(|held| **held == Held::Yes).count();
    match hidden {
        Some(hidden) if yes > 0 && yes < answers.len() => unobservable(hidden, subject),
        _ => at(bytes),
    }
}

fn unobservable(hidden: Hidden, subject: &str) -> Held {
    let (reason, why) = match hidden {
        Hidden::Uncalibrated => (Reason::Uncalibrated, "the instrument was not sound on this GPU"),
        Hidden::Prepaid => {
            (Reason::Unobservable, "a co-tenant has paid the driver-initialisation footprint, so cuInit adds nothing")
        }
        Hidden::Wavering => (
            Reason::Contaminated,
            "attempts differ by a driver-initialisation footprint, which a co-tenant may have caused",
        ),
    };
    Held::Unobservable(reason, format!("{subject} cannot be told: {why}"))
}

fn of_memory(held: Held) -> Held {
    match held {
        Held::No(words) => Held::NoOfMemory(words),
        held => held,
    }
}

/// What is asked, GPU by GPU: `others` is every GPU of the machine that is not named.
fn by_gpu<'m, T>(asked: &Asked, of: &'m BTreeMap<String, T>) -> Vec<(String, &'m T)> {
    let mut by_gpu: Vec<(String, &T)> = Vec::new();
    for (key, value) in of {
        if key == "others" {
            let names = (0..asked.plan.gpus.len()).map(|place| format!("gpu{place}"));
            by_gpu.extend(names.filter(|name| !of.contains_key(name)).map(|name| (name, value)));
        } else {
            by_gpu.push((key.clone(), value));
        }
    }
    by_gpu
}
