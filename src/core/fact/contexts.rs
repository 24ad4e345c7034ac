//! `contexts`: the visible GPUs whose primary context is active.

use serde_json::json;

use super::gpus::compare_names;
use super::{FactColumn, FactKind, GpuList, Sight, Unasked, words};
use crate::source::schema::reference;

pub(super) const CONTEXTS: FactKind = FactKind {
    key: "contexts",
    read: |facts, file, node| facts.contexts = GpuList::read(file, node),
    schema: || reference("gpus"),
    matchers: |_| Vec::new(),
    sentences: |facts| {
        facts
            .contexts
            .iter()
            .map(|gpus| format!("contexts are active on {}", gpus.words(" and ")))
            .collect()
    },
    held: |facts, look, gpus| {
        let Some(expected) = &facts.contexts else {
            return Vec::new();
        };
        let mut seen = look
            .step
            .contexts
            .clone()
            .or_else(|| look.step.is_idle().then(Vec::new));
        let mut expected = expected.names(gpus);
        seen.iter_mut().for_each(|seen| seen.sort());
        expected.sort();
        vec![compare_names("contexts", seen, &expected, gpus)]
    },
    needs_polling: false,
    told: FactColumn::Alone {
        heading: "contexts",
        brief: "contexts",
        unasked: Unasked::Always,
    },
    seen: |look, _| {
        let names = look.step.contexts.as_ref()?;
        let cell = words::gpus(names);
        let words = if names.is_empty() {
            "no context".to_owned()
        } else {
            format!("contexts {cell}")
        };
        Some(Sight {
            words,
            cell,
            exact: json!(names),
        })
    },
};
