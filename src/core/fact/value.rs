//! `value`: values that the call returned in addition to its status, by name.

use std::collections::BTreeMap;

use serde_json::json;

use super::matcher::{Datum, OperandKind, is_sum, output};
use super::{CheckReader, FactColumn, FactKind, GpuNames, Look, Matcher, Sight, Truth, words};
use crate::observation::Shared;
use crate::source::diagnostic::suggest_name;
use crate::source::schema::reference;
use crate::source::tree::{Node, TreeEntry};
use crate::verdict::Reason;

pub(super) const VALUE: FactKind = FactKind {
    key: "value",
    read: |facts, file, node| facts.value = read(file, node),
    schema: || {
        json!({
            "description": "Values that the call returned in addition to its status, by name.",
            "type": "object", "additionalProperties": reference("matcher"),
        })
    },
    matchers: |facts| facts.value.values_mut().collect(),
    sentences: |facts| {
        facts
            .value
            .iter()
            .map(|(name, matcher)| format!("{name} is {}", matcher.words(false)))
            .collect()
    },
    held: |facts, look, gpus| {
        facts
            .value
            .iter()
            .map(|(name, matcher)| check_value(name, matcher, look, gpus))
            .collect()
    },
    needs_polling: false,
    told: FactColumn::WithCall,
    seen: |look, name| {
        let value = output(look.step, name?)?;
        let cell = words::value(value);
        Some(Sight {
            words: format!("{} = {cell}", name?),
            cell,
            exact: json!(value),
        })
    },
};

fn read(file: &mut CheckReader<'_, '_>, node: &Node) -> BTreeMap<String, Matcher> {
    let mut values = BTreeMap::new();
    for TreeEntry { key, value } in file.reader.table(node).unwrap_or_default() {
        for row in file.rows {
            let names = row.values();
            if !names.contains(&key.text.as_str()) {
                let help = suggest_name(&key.text, names).or(Some("it returns none".to_string()));
                let message = format!("`{}` returns no value `{}`", row.name(), key.text);
                file.reader.error(&key.place, message, help);
            }
        }
        let matcher = Matcher::read(file, value, OperandKind::Anything);
        values.extend(matcher.map(|matcher| (key.text.clone(), matcher)));
    }
    values
}

fn check_value(name: &str, matcher: &Matcher, look: &Look<'_>, gpus: &GpuNames<'_>) -> Truth {
    let is_hidden = match look.step.shared {
        None => false,
        Some(Shared::Listed) => true,
        // The difference between two sums is still caused by the worker alone.
        Some(Shared::Summed) => matcher.is_absolute(),
    };
    if is_hidden {
        let why = "the call is about every process on the GPU, and the worker is not known to be the only one";
        return Truth::Unobservable(
            Reason::Unobservable,
            format!("{name} cannot be determined: {why}"),
        );
    }
    match output(look.step, name) {
        None => Truth::Unknown(format!("the call returned no {name}")),
        Some(value) => {
            let truth = matcher.compare(name, &Datum::value(gpus, value), look, gpus);
            if is_sum(name) {
                truth.about_memory()
            } else {
                truth
            }
        }
    }
}
