//! `memory`: the class of the change in device memory, by GPU.
//!
//! Memory is read from outside, for the entire GPU, so other processes may hide a part of a change. Here and in
//! [`super::bytes`] a fact holds if it holds for any hidden part, fails if it fails for any hidden part, and is
//! undetermined otherwise.

use serde_json::json;

use super::gpus::{by_gpu, by_gpu_schema};
use super::{CheckReader, FactColumn, FactKind, Sight, Truth};
use crate::observation::{Class, Hidden, MemoryObservation};
use crate::source::schema::{one_or_more, reference};
use crate::source::tree::Node;
use crate::verdict::Reason;

pub(super) const MEMORY: FactKind = FactKind {
    key: "memory",
    read: |facts, file, node| facts.memory = by_gpu(file, node, parse_classes),
    schema: || {
        by_gpu_schema(
            one_or_more(reference("class")),
            "The class of the change in device memory.",
        )
    },
    matchers: |_| Vec::new(),
    sentences: |facts| {
        facts
            .memory
            .iter()
            .map(|(gpu, classes)| sentence(gpu, classes))
            .collect()
    },
    held: |facts, look, gpus| {
        let of_each = gpus.each(&facts.memory).into_iter();
        of_each
            .map(|(gpu, classes)| class(&gpu, look.step.memory.get(&gpu), classes))
            .collect()
    },
    needs_polling: false,
    told: FactColumn::WithMemory,
    seen: |look, gpu| {
        let class = look.step.memory.get(gpu?)?.class?.name();
        Some(Sight {
            words: format!("{} {class}", gpu?),
            cell: class.to_owned(),
            exact: json!(class),
        })
    },
};

fn sentence(gpu: &str, classes: &[Class]) -> String {
    let amounts: Vec<&str> = classes.iter().map(|class| class_words(*class)).collect();
    match classes {
        [Class::None] => format!("memory of {gpu} has not changed"),
        _ => format!("memory of {gpu} has changed by {}", amounts.join(" or by ")),
    }
}

fn parse_classes(file: &mut CheckReader<'_, '_>, node: &Node) -> Option<Vec<Class>> {
    let mut classes = Vec::new();
    for node in file.reader.one_or_more(node) {
        let word = file
            .reader
            .word(node, "class", &Class::ALL.map(Class::name))?;
        classes.extend(Class::ALL.into_iter().find(|class| class.name() == word));
    }
    Some(classes)
}

fn class_words(class: Class) -> &'static str {
    match class {
        Class::None => "nothing",
        Class::Init => "less than half a context",
        Class::Context => "about one context",
        Class::Allocation => "more than one context",
    }
}

fn class(gpu: &str, seen: Option<&MemoryObservation>, expected: &[Class]) -> Truth {
    let Some(memory) = seen else {
        return Truth::Unknown(format!("memory of {gpu} could not be observed"));
    };
    let subject = format!("memory of {gpu}");
    if memory.hidden == Some(Hidden::Uncalibrated) {
        return unobservable(Hidden::Uncalibrated, &subject);
    }
    let Some(class) = memory.class else {
        return Truth::Unknown(format!("{subject} could not be observed"));
    };
    let possible: &[Class] = match (memory.hidden, class) {
        (Some(Hidden::Prepaid), Class::None)
        | (Some(Hidden::Wavering), Class::None | Class::Init) => &[Class::None, Class::Init],
        _ => &[class],
    };
    match (
        possible
            .iter()
            .filter(|class| expected.contains(class))
            .count(),
        memory.hidden,
    ) {
        (0, _) => {
            let words: Vec<&str> = expected.iter().copied().map(Class::name).collect();
            Truth::NoOfMemory(format!(
                "{subject} is {}, expected {}",
                class.name(),
                words.join(" or ")
            ))
        }
        (count, Some(hidden)) if count < possible.len() => unobservable(hidden, &subject),
        _ => Truth::Yes,
    }
}

pub(super) fn unobservable(hidden: Hidden, subject: &str) -> Truth {
    let (reason, why) = match hidden {
        Hidden::Uncalibrated => (
            Reason::Uncalibrated,
            "the instrument was not sound on this GPU",
        ),
        Hidden::Prepaid => (
            Reason::Unobservable,
            "a co-tenant has paid the driver-initialization footprint, so cuInit adds nothing",
        ),
        Hidden::Wavering => (
            Reason::Contaminated,
            "attempts differ by a driver-initialization footprint, which a co-tenant may have caused",
        ),
    };
    Truth::Unobservable(reason, format!("{subject} cannot be determined: {why}"))
}
