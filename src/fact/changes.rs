//! What changed from step to step of an outcome, in short lines that are the same wherever the same was seen.
//!
//! A line says what cannot be foretold from the lines above it. A process that begins to see a GPU touches it,
//! and a context becomes the current one and takes what a context costs: that is told only where it is not so.
//! Two outcomes with the same lines showed the same, but for memory that other processes hide.

use std::collections::BTreeMap;

use super::words;
use crate::event::Value;
use crate::observation::{Class, Hidden, MemoryObservation, Observation, StepObservation};

/// A handle that was given, as values say it.
const BOUND: &str = "bound";

/// The lines, such as `2 cudaSetDevice: sees gpu0, context on gpu0`: the number of the step, its label, and what
/// changed with it. A step without a change has none.
pub fn changes(outcome: &Observation) -> Vec<String> {
    let mut known = Known::default();
    let told = |(place, step): (usize, &StepObservation)| {
        let words = known.tell(step);
        (!words.is_empty()).then(|| format!("{} {}: {}", place + 1, step.label, words.join(", ")))
    };
    let mut lines: Vec<String> = outcome.steps.iter().enumerate().filter_map(told).collect();
    if outcome.end != "0" {
        lines.push(format!("end: {} after {} steps", outcome.end, outcome.steps.len()));
    }
    lines
}

/// What a line is about and what it says: `2 cudaSetDevice` and `context on gpu0`.
pub fn parts(line: &str) -> (&str, &str) {
    line.split_once(": ").unwrap_or((line, ""))
}

/// What two lists of lines differ in, line by line: what it is about, and what either says of it, empty where it
/// says nothing. In the order of the first.
pub fn differing_lines(a: &[String], b: &[String]) -> Vec<(String, String, String)> {
    let said = |all: &[String], about: &str| {
        let line = all.iter().map(|line| parts(line)).find(|(known, _)| *known == about);
        line.map(|(_, words)| words.to_owned()).unwrap_or_default()
    };
    let mut about: Vec<&str> = Vec::new();
    for (name, _) in a.iter().chain(b).map(|line| parts(line)) {
        if !about.contains(&name) {
            about.push(name);
        }
    }
    let each = about.into_iter().map(|name| (name.to_owned(), said(a, name), said(b, name)));
    each.filter(|(_, a, b)| a != b).collect()
}

/// What the lines so far say.
#[derive(Default)]
struct Known {
    initialised: Option<bool>,
    visible: Option<Vec<String>>,
    contexts: Option<Vec<String>>,
    current: Option<String>,
    classes: BTreeMap<String, Option<Class>>,
}

impl Known {
    /// What a step changed, and what is known after it.
    fn tell(&mut self, step: &StepObservation) -> Vec<String> {
        let mut told = Vec::new();
        if !step.returned {
            told.push("did not return".to_owned());
        }
        told.extend(step.status.as_ref().filter(|status| status.code != 0).map(words::status));
        let is_bound = |value: &Value| matches!(value, Value::Text(text) if text == BOUND);
        // What a call says about every process on a GPU is about those of others too.
        let values = step.values.iter().filter(|(_, value)| step.shared.is_none() && !is_bound(value));
        told.extend(values.map(|(name, value)| format!("{name}={}", words::value(value))));
        let mut foretold = self.current.clone();
        self.process(step, &mut told, &mut foretold);
        if step.current != foretold {
            told.push(format!("current {}", step.current.as_deref().unwrap_or("unknown")));
        }
        self.current.clone_from(&step.current);
        for (gpu, memory) in words::in_order(&step.memory) {
            self.memory(gpu, memory, &mut told);
        }
        told
    }

    /// Whether the driver is initialised, what the process sees, and where it has contexts.
    fn process(&mut self, step: &StepObservation, told: &mut Vec<String>, foretold: &mut Option<String>) {
        let sees_other = step.visible != self.visible;
        let first_idle = self.initialised.is_none() && step.initialised == Some(false);
        if step.initialised != self.initialised && !first_idle && !(sees_other && step.initialised == Some(true)) {
            told.push(match step.initialised {
                Some(true) => "driver initialised".to_owned(),
                Some(false) => "driver not initialised".to_owned(),
                None => "driver not asked".to_owned(),
            });
        }
        self.initialised = step.initialised;
        let listed = |gpus: Option<&Vec<String>>| gpus.cloned().unwrap_or_default();
        if sees_other {
            let gpus = step.visible.as_deref();
            told.push(gpus.map_or_else(|| "sees unknown".to_owned(), |gpus| format!("sees {}", words::gpus(gpus))));
            let before = listed(self.visible.as_ref());
            for gpu in step.visible.iter().flatten().filter(|gpu| !before.contains(gpu)) {
                let class = self.classes.entry(gpu.clone()).or_insert(Some(Class::None));
                if *class == Some(Class::None) {
                    *class = Some(Class::Touch);
                }
            }
            // A process that begins to see has no context yet, and none is current.
            if self.visible.is_none() {
                self.contexts.get_or_insert_default();
                foretold.get_or_insert_with(|| NONE.to_owned());
            }
            self.visible.clone_from(&step.visible);
        }
        if step.contexts != self.contexts {
            let before = listed(self.contexts.as_ref());
            let now = listed(step.contexts.as_ref());
            match &step.contexts {
                None => told.push("contexts unknown".to_owned()),
                Some(gpus) if gpus.is_empty() => told.push("no context".to_owned()),
                Some(gpus) => told.push(format!("context on {}", gpus.join(","))),
            }
            for gpu in before.iter().filter(|gpu| !now.contains(gpu)) {
                self.classes.insert(gpu.clone(), Some(Class::Touch));
                if foretold.as_ref() == Some(gpu) {
                    *foretold = Some(NONE.to_owned());
                }
            }
            for gpu in now.iter().filter(|gpu| !before.contains(gpu)) {
                self.classes.insert(gpu.clone(), Some(Class::Context));
                *foretold = Some(gpu.clone());
            }
            self.contexts.clone_from(&step.contexts);
        }
    }

    fn memory(&mut self, gpu: &str, memory: &MemoryObservation, told: &mut Vec<String>) {
        let is_small = memory.class.is_some_and(|class| class <= Class::Touch);
        // What others on the GPU hide is no fact: it would differ from machine to machine with them.
        if memory.hidden == Some(Hidden::Uncalibrated) || (memory.hidden.is_some() && is_small) {
            return;
        }
        let class = self.classes.entry(gpu.to_owned()).or_insert(Some(Class::None));
        if *class != memory.class {
            told.push(format!("{gpu} {}", memory.class.map_or("not read", Class::name)));
            *class = memory.class;
        }
    }
}

/// No current context, as observations say it.
const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Status;
    use crate::observation::Shared;

    fn step(label: &str, contexts: &[&str], class: Class) -> StepObservation {
        let gpus = |names: &[&str]| Some(names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>());
        StepObservation {
            label: label.into(),
            returned: true,
            status: Some(Status { code: 0, name: Some("CUDA_SUCCESS".into()) }),
            initialised: Some(true),
            visible: gpus(&["gpu0", "gpu1"]),
            contexts: gpus(contexts),
            current: Some(contexts.last().unwrap_or(&NONE).to_string()),
            memory: [("gpu0".to_string(), MemoryObservation { class: Some(class), ..MemoryObservation::default() })]
                .into(),
            ..StepObservation::default()
        }
    }

    fn outcome(steps: Vec<StepObservation>) -> Observation {
        Observation { steps, end: "0".into() }
    }

    #[test]
    fn a_line_tells_what_cannot_be_foretold() {
        let mut all = vec![
            step("cuInit", &[], Class::Touch),
            step("count", &[], Class::Touch),
            step("cudaFree", &["gpu0"], Class::Context),
        ];
        assert_eq!(changes(&outcome(all.clone())), ["1 cuInit: sees gpu0,gpu1", "3 cudaFree: context on gpu0"]);
        all[2].memory.get_mut("gpu0").unwrap().class = Some(Class::Touch);
        all[2].current = Some(NONE.into());
        assert_eq!(
            changes(&outcome(all.clone()))[1],
            "3 cudaFree: context on gpu0, current none, gpu0 touch",
            "a context that takes nothing is told"
        );
        all[1].status = Some(Status { code: 101, name: Some("CUDA_ERROR_INVALID_DEVICE".into()) });
        all[1].values.insert("stream".into(), Value::Text(BOUND.into()));
        all[1].values.insert("count".into(), Value::Int(2));
        let text = changes(&Observation { end: "SIGSEGV".into(), ..outcome(all) });
        assert_eq!(text[1], "2 count: CUDA_ERROR_INVALID_DEVICE, count=2");
        assert_eq!(text[3], "end: SIGSEGV after 3 steps");
        assert_eq!(parts(&text[1]), ("2 count", "CUDA_ERROR_INVALID_DEVICE, count=2"));
    }

    #[test]
    fn every_fact_of_an_outcome_is_in_the_lines() {
        let steps = || {
            vec![
                step("a", &[], Class::Touch),
                step("b", &["gpu0"], Class::Context),
                step("c", &["gpu0"], Class::Allocation),
            ]
        };
        let plain = changes(&outcome(steps()));
        type Change = fn(&mut StepObservation);
        let all: [Change; 8] = [
            |step| step.returned = false,
            |step| step.status.as_mut().unwrap().code = 7,
            |step| step.initialised = Some(false),
            |step| step.visible = None,
            |step| step.contexts = Some(vec!["gpu1".into()]),
            |step| step.current = Some("gpu1".into()),
            |step| step.memory.get_mut("gpu0").unwrap().class = None,
            |step| _ = step.values.insert("value".into(), Value::Int(1)),
        ];
        for (which, change) in all.into_iter().enumerate() {
            for place in 0..3 {
                let mut changed = steps();
                change(&mut changed[place]);
                assert_ne!(changes(&outcome(changed)), plain, "change {which} at step {place}");
            }
        }
    }

    #[test]
    fn lines_are_held_against_each_other_by_what_they_are_about() {
        let lines = |all: &[&str]| all.iter().map(|line| line.to_string()).collect::<Vec<_>>();
        let (a, b) = (lines(&["1 a: x", "2 b: y"]), lines(&["2 b: z", "3 c: w"]));
        let text = |a: &str, b: &str, c: &str| (a.to_string(), b.to_string(), c.to_string());
        assert_eq!(differing_lines(&a, &b), [text("1 a", "x", ""), text("2 b", "y", "z"), text("3 c", "", "w")]);
        assert!(differing_lines(&a, &a).is_empty());
    }

    #[test]
    fn what_others_on_a_gpu_hide_is_not_told() {
        let mut all = vec![step("cuInit", &[], Class::None)];
        assert_eq!(changes(&outcome(all.clone())), ["1 cuInit: sees gpu0,gpu1, gpu0 none"]);
        all[0].memory.get_mut("gpu0").unwrap().hidden = Some(Hidden::Prepaid);
        all[0].values.insert("count".into(), Value::Int(2));
        all[0].shared = Some(Shared::Listed);
        assert_eq!(changes(&outcome(all)), ["1 cuInit: sees gpu0,gpu1"]);
    }
}
