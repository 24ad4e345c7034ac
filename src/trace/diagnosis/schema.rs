//! The JSON Schema of a rule, for editors to complete and check with while a file is written.
//! [`super::load`] decides; what a schema cannot express (what stands between braces) only it checks.

use serde_json::{Map, Value, json};

use super::Severity;
use super::clue::{Attribute, COMMON, ClueKind, KINDS, Type};
use super::rule::ANY;
use cuda_pitfalls_core::scenario::framework::frameworks;
use cuda_pitfalls_core::source::schema::{BYTES, object, one_or_more, sentence, set};

/// The name of a function of a framework.
const FUNCTION: &str = "^[a-z0-9_]+\\.";

/// The schema of a file of `scenarios/diagnoses/` (JSON Schema 2020-12).
pub fn file_schema() -> Value {
    let whens: Vec<Value> = KINDS.iter().map(when).collect();
    let mut schema = object(
        json!({
            "title": sentence("A few words, as they stand beside an event."),
            "severity": {
                "description": "Whether it is counted as a pitfall.",
                "enum": Severity::ALL.map(Severity::name),
            },
            "scenario": {
                "description": "The scenario that proves it.",
                "type": "string", "pattern": "^[^/]+/[^/]+$",
            },
            "evidence": {
                "description": "The committed report in which it was measured.",
                "type": "string", "pattern": "^reports/",
            },
            "when": {
                "description": "What is asked of a clue; of a list, one must hold.",
                "anyOf": [{ "anyOf": whens }, { "type": "array", "minItems": 1, "items": { "anyOf": whens } }],
            },
            "says": sentence("What happened, with {attribute} for what the clue knows; no full stop."),
            "instead_of": one_or_more(sentence("A rule that says less about the same events.")),
            "leaves_open": one_or_more(sentence(
                "A rule about whose pitfall nothing is known where this one finds something.",
            )),
            "workaround": workaround(),
            "shown": shown(),
        }),
        &[
            "title",
            "severity",
            "scenario",
            "evidence",
            "when",
            "says",
            "workaround",
        ],
    );
    set(
        &mut schema,
        "$schema",
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    set(&mut schema, "title", json!("A rule of cuda-pitfalls"));
    schema
}

fn when(kind: &ClueKind) -> Value {
    let mut properties = Map::new();
    properties.insert(
        "clue".to_owned(),
        json!({ "description": format!("There is one for {}.", kind.about), "const": kind.name }),
    );
    for attribute in kind.attributes.iter().chain(COMMON) {
        let mut form = one_or_more(value(attribute));
        set(&mut form, "description", json!(attribute.about));
        properties.insert(attribute.name.to_owned(), form);
    }
    properties.insert(
        "stack_has".to_owned(),
        one_or_more(sentence("A function of which one must be on the stack.")),
    );
    properties.insert(
        "package".to_owned(),
        one_or_more(sentence("A package of which one must have made the call.")),
    );
    properties.insert(
        "workaround".to_owned(),
        sentence("What to write instead where this holds, whoever the caller is."),
    );
    object(Value::Object(properties), &["clue"])
}

fn value(attribute: &Attribute) -> Value {
    match attribute.of {
        Type::Flag => json!({ "type": "boolean" }),
        Type::Count | Type::Duration => json!({ "type": "integer" }),
        Type::Bytes => {
            json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": BYTES }] })
        }
        Type::Text | Type::List => json!({ "type": "string", "minLength": 1 }),
    }
}

/// A text or a run for each framework and function.
fn by_caller(value: impl Fn(&str) -> Value, function: Value, required: &[&str]) -> Value {
    let names = [ANY]
        .into_iter()
        .chain(frameworks().iter().map(|framework| framework.name.as_str()));
    let properties: Map<String, Value> = names.map(|name| (name.to_owned(), value(name))).collect();
    let mut schema = object(Value::Object(properties), required);
    set(
        &mut schema,
        "patternProperties",
        json!({ FUNCTION: function }),
    );
    schema
}

fn workaround() -> Value {
    let of = |name: &str| {
        if name == ANY {
            "What to write instead.".to_owned()
        } else {
            format!("The same in {name}.")
        }
    };
    let function = sentence(
        "What to write where this function is on the stack, such as `torch.cuda.is_available`.",
    );
    by_caller(|name| sentence(&of(name)), function, &[ANY])
}

/// Where workarounds were run, by the keys of `workaround`.
fn shown() -> Value {
    let run = one_or_more(json!({
        "description": "A case of a scenario in which it was run (`framework/cupy-with-device-3 control`), or a program \
                        that was traced.",
        "type": "string",
        "pattern": "^([^/ ]+/[^/ ]+ [^ ]+|reports/traces/programs/[a-z0-9_]+\\.py)$",
    }));
    by_caller(|_| run.clone(), run.clone(), &[])
}
