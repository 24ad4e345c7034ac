//! `current`: the GPU of the calling thread's current context.

use serde_json::json;

use super::gpus::{compare_names, gpu};
use super::{FactColumn, FactKind, Sight, Unasked};
use crate::source::schema::{GPU, or_parameter};
use crate::source::tree::Data;

const NONE: &str = "none";

pub(super) const CURRENT: FactKind = FactKind {
    key: "current",
    read: |facts, file, node| {
        facts.current = match &node.data {
            Data::Text(word) if word == NONE => Some(word.clone()),
            _ => gpu(file, node),
        }
    },
    schema: || or_parameter(json!([{ "const": NONE }, { "type": "string", "pattern": GPU }])),
    matchers: |_| Vec::new(),
    sentences: |facts| match facts.current.as_deref() {
        None => Vec::new(),
        Some(NONE) => vec!["no context is current".to_string()],
        Some(gpu) => vec![format!("the current context is on {gpu}")],
    },
    held: |facts, look, gpus| {
        let seen = look
            .step
            .current
            .clone()
            .or_else(|| look.step.is_idle().then(|| NONE.to_string()));
        let seen = seen.map(|name| vec![name]);
        facts
            .current
            .iter()
            .map(|name| compare_names("current", seen.clone(), std::slice::from_ref(name), gpus))
            .collect()
    },
    needs_polling: false,
    told: FactColumn::Alone {
        heading: "current",
        brief: "current",
        unasked: Unasked::Never,
    },
    seen: |look, _| {
        let name = look.step.current.as_ref()?;
        Some(Sight {
            words: format!("current {name}"),
            cell: name.clone(),
            exact: json!(name),
        })
    },
};
