//! `initialised`: `true` if the driver is initialized in the process.

use serde_json::json;

use super::{FactColumn, FactKind, Sight, Truth, Unasked};

pub(super) const INITIALISED: FactKind = FactKind {
    key: "initialised",
    read: |facts, file, node| facts.initialised = file.reader.read_boolean(node),
    schema: || json!({ "type": "boolean" }),
    matchers: |_| Vec::new(),
    sentences: |facts| {
        let not = facts.initialised.map(|yes| if yes { "" } else { "not " });
        not.into_iter()
            .map(|not| format!("the driver is {not}initialized"))
            .collect()
    },
    held: |facts, look, _| {
        let Some(expected) = facts.initialised else {
            return Vec::new();
        };
        vec![match look.step.initialised {
            None => Truth::Unknown("initialization could not be observed".to_string()),
            Some(seen) if seen == expected => Truth::Yes,
            Some(seen) => Truth::No(format!("initialized is {seen}, expected {expected}")),
        }]
    },
    needs_polling: false,
    told: FactColumn::Alone {
        heading: "driver initialized",
        brief: "initialised:",
        unasked: Unasked::Never,
    },
    seen: |look, _| {
        let yes = look.step.initialised?;
        let words = if yes {
            "initialised"
        } else {
            "not initialised"
        }
        .to_owned();
        Some(Sight {
            words,
            cell: if yes { "yes" } else { "no" }.to_owned(),
            exact: json!(yes),
        })
    },
};
