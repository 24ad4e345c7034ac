//! Checks and expectations as sentences.

use std::fmt::Write;

use crate::scenario::{Check, Class, ExitCheck, Expectation, Expected, GpuList, Matcher, Operand, When};

/// An expected verdict as a sentence.
pub fn expected(expectation: &Expectation) -> String {
    let verdict = match expectation.verdict {
        Expected::Reproduced => "reproduced",
        Expected::NotReproduced => "not reproduced",
    };
    let mut words = format!("{verdict}{}", condition(&expectation.when));
    reason(&mut words, &expectation.because, &expectation.evidence);
    words
}

fn condition(when: &When) -> String {
    let mut all = Vec::new();
    let ranges = [
        ("driver", &when.driver),
        ("libcudart", &when.libcudart),
        ("compute capability", &when.compute_capability),
        ("GPUs", &when.gpus),
    ];
    for (name, range) in ranges {
        all.extend(range.as_ref().map(|range| format!("{name} {range}")));
    }
    for (name, values) in &when.parameters {
        let values: Vec<String> = values.iter().map(|value| value.to_string()).collect();
        all.push(format!("{name} is {}", values.join(" or ")));
    }
    if all.is_empty() { String::new() } else { format!(", where {}", all.join(" and ")) }
}

fn reason(words: &mut String, because: &str, evidence: &str) {
    if !because.is_empty() {
        let _ = write!(words, ": {because}");
    }
    if !evidence.is_empty() {
        let _ = write!(words, " ({evidence})");
    }
}

/// A check as a sentence.
pub fn check(check: &Check) -> String {
    let mut words = match &check.exit {
        Some(ending) => exit(ending),
        None => format!("at {}: {}", check.at, facts(check).join(", and ")),
    };
    words.push_str(&condition(&check.when));
    reason(&mut words, &check.because, &check.evidence);
    words
}

/// How a worker must have ended, as a sentence.
pub fn exit(ending: &ExitCheck) -> String {
    match ending {
        ExitCheck::Code(code) => format!("the worker exits with {code}"),
        ExitCheck::Signal(name) => format!("the worker dies by {name}"),
        ExitCheck::Deadline => "a step does not return before its deadline".to_string(),
    }
}

/// What must hold at the step of a check, fact by fact.
pub fn facts(check: &Check) -> Vec<String> {
    let mut facts = Vec::new();
    if !check.status.is_empty() {
        facts.push(format!("it returns {}", check.status.join(" or ")));
    }
    facts.extend(check.value.iter().map(|(name, matcher)| format!("{name} is {}", compared(matcher, false))));
    facts.extend(check.visible.as_ref().map(|gpus| format!("the process sees {}", list(gpus, ", "))));
    facts.extend(check.contexts.as_ref().map(|gpus| format!("contexts are active on {}", list(gpus, " and "))));
    facts.extend(check.current.as_ref().map(|gpu| match gpu.as_str() {
        "none" => "no context is current".to_string(),
        gpu => format!("the current context is on {gpu}"),
    }));
    facts.extend(check.initialised.map(|yes| format!("the driver is {}initialised", if yes { "" } else { "not " })));
    for (gpu, classes) in &check.memory {
        let amounts: Vec<&str> = classes.iter().map(|class| amount(*class)).collect();
        facts.push(match classes.as_slice() {
            [Class::None] => format!("memory of {gpu} has not changed"),
            _ => format!("memory of {gpu} has changed by {}", amounts.join(" or by ")),
        });
    }
    let amounts = [
        ("memory in use on", &check.used_bytes),
        ("the growth of memory on", &check.grown_bytes),
        ("the peak of memory on", &check.peak_bytes),
        ("memory of the worker on", &check.process_bytes),
    ];
    for (what, by_gpu) in amounts {
        facts.extend(by_gpu.iter().map(|(gpu, matcher)| format!("{what} {gpu} is {}", compared(matcher, true))));
    }
    facts
}

/// A class of memory in words.
fn amount(class: Class) -> &'static str {
    match class {
        Class::None => "nothing",
        Class::Touch => "less than half a context",
        Class::Context => "about one context",
        Class::Allocation => "more than one context",
    }
}

fn list(gpus: &GpuList, between: &str) -> String {
    match gpus {
        GpuList::All => "every GPU".to_string(),
        GpuList::None => "no GPU".to_string(),
        GpuList::Named(names) if names.is_empty() => "no GPU".to_string(),
        GpuList::Named(names) => names.join(between),
    }
}

fn compared(matcher: &Matcher, in_bytes: bool) -> String {
    let operand = |operand: &Operand| match operand {
        Operand::Int(value) if in_bytes => bytes(*value),
        Operand::Int(value) => value.to_string(),
        Operand::Text(text) if text == "${gpus}" => "the number of GPUs".to_string(),
        Operand::Text(text) => format!("\"{text}\""),
        Operand::Value { label, name } => format!("{name} of {label}"),
    };
    let bounds: Vec<String> = matcher
        .bounds()
        .map(|(word, bound)| if word == "=" { operand(bound) } else { format!("{word} {}", operand(bound)) })
        .collect();
    bounds.join(" and ")
}

/// A number of bytes in the largest unit that divides it.
fn bytes(value: i64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| value != 0 && value % unit == 0) {
        Some((unit, name)) => format!("{} {name}", value / unit),
        None => format!("{value} B"),
    }
}
