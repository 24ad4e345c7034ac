//! The part of the schema that is generated from the tables of calls.

use cuda_pitfalls_calls::{self as calls, ACTOR, Call, Effect, Param, ParamKind, UINT64_MAX};
use serde_json::{Map, Value, json};

use crate::python::{LINE, LINE_VALUE, LINE_VARIES};

use super::{object_schema, or_parameter, reference, sentence, set};

/// Returns the schema of a step: an object with the call as a key, its label, and the thread or process. Kinds of
/// arguments become definitions.
pub(super) fn step_schema(definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for call in calls::all() {
        properties.insert(call.name.to_string(), call_schema(call, definitions));
    }
    let label = json!({ "description": "The name that checks use for this step.", "type": "string", "pattern": "^[a-zA-Z0-9_-]+$" });
    let on = "The thread or process that makes the call.";
    let from = "The private copy of libcuda or libcudart that is called.";
    properties.insert("label".to_string(), label);
    properties.insert(
        "on".to_string(),
        json!({ "description": on, "type": "string" }),
    );
    properties.insert(
        "from".to_string(),
        json!({ "description": from, "type": "string" }),
    );
    for (key, schema) in line() {
        properties.insert(key.to_string(), schema);
    }
    let mut schema = object_schema(Value::Object(properties), &[]);
    // A parameter may stand for any call, so the arguments are not known here.
    set(
        &mut schema,
        "patternProperties",
        json!({ "\\$\\{[a-z0-9_]+\\}": { "type": "object" } }),
    );
    set(&mut schema, "minProperties", json!(1));
    set(&mut schema, "maxProperties", json!(5));
    schema
}

fn line() -> [(&'static str, Value); 3] {
    [
        (
            LINE,
            sentence("A Python line, as people write it; in a case with `python`."),
        ),
        (
            LINE_VALUE,
            sentence("A name for the value of the line, whose last statement is an expression."),
        ),
        (
            LINE_VARIES,
            json!({ "description": "Whether the value may differ from attempt to attempt.", "type": "boolean" }),
        ),
    ]
}

fn call_schema(call: &Call, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    for param in call.input_params() {
        let schema = argument_schema(call, param, definitions);
        properties.insert(param.name.to_string(), schema);
        if param.default.is_none() {
            required.push(param.name);
        }
    }
    if let Some(of) = call.bound_handle() {
        let description = format!("A name for the {of} that the call returns.");
        properties.insert("as".to_string(), sentence(&description));
        if of == ACTOR {
            required.push("as");
        }
    }
    let mut schema = object_schema(Value::Object(properties), &required);
    set(
        &mut schema,
        "description",
        json!(format!("{} ({})", call.summary, call.library.name())),
    );
    schema
}

fn integer_schema(least: i64, most: i64) -> Value {
    json!([{ "type": "integer", "minimum": least, "maximum": most }])
}

/// Returns a reference to a definition that arguments of many calls share.
fn shared_schema(name: &str, definitions: &mut Map<String, Value>, schema: Value) -> Value {
    let name = name.replace(' ', "_");
    definitions.entry(name.as_str()).or_insert(schema);
    reference(&name)
}

/// Returns a reference to the definition of a name that an earlier step bound.
fn bound_name(noun: &str, definitions: &mut Map<String, Value>) -> Value {
    let about = format!("The name of a {noun} that an earlier step bound with `as`, or NULL.");
    shared_schema(&format!("{noun} name"), definitions, sentence(&about))
}

fn argument_schema(call: &Call, param: &Param, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = match param.kind {
        ParamKind::I32 => or_parameter(integer_schema(i64::from(i32::MIN), i64::from(i32::MAX))),
        ParamKind::U32 => or_parameter(integer_schema(0, i64::from(u32::MAX))),
        ParamKind::U64 => or_parameter(integer_schema(0, i64::MAX)),
        ParamKind::Bytes => reference("bytes"),
        ParamKind::Text if param.name == "name" && call.has(Effect::NamesVariable) => {
            reference("variable")
        }
        ParamKind::Text => json!({ "type": "string" }),
        ParamKind::Constant(constants) => {
            let names: Vec<&str> = constants.values.iter().map(|(name, _)| *name).collect();
            let values = or_parameter(json!([{ "enum": names }, { "type": "integer" }]));
            shared_schema(constants.name, definitions, values)
        }
        ParamKind::Handle(noun) | ParamKind::FatBinary(noun) => bound_name(noun, definitions),
        ParamKind::Ptx => sentence("The name of a kernel file."),
        ParamKind::Arguments => {
            json!({ "type": "array", "items": { "type": ["integer", "string"] } })
        }
        ParamKind::Dim3 => or_parameter(integer_schema(1, i64::from(i32::MAX))),
        ParamKind::Location => or_parameter(
            json!([{ "type": "integer", "minimum": 0, "maximum": 63 }, { "enum": ["host"] }]),
        ),
        ParamKind::In(template) if template.width == 8 => {
            json!({ "anyOf": [reference("bytes"), { "enum": [UINT64_MAX] }] })
        }
        ParamKind::In(_) => or_parameter(integer_schema(0, i64::from(u32::MAX))),
        ParamKind::Block(noun, _) => bound_name(noun, definitions),
        ParamKind::Actor | ParamKind::Pid => {
            let about = "The name of a thread or process that an earlier step started.";
            shared_schema(ACTOR, definitions, sentence(about))
        }
        // Parameters of these kinds are not inputs.
        ParamKind::Fixed(_) | ParamKind::Out(_) => json!(false),
    };
    // The default of a handle or of arguments is NULL, written by leaving out the key.
    if let (
        Some(default),
        ParamKind::I32
        | ParamKind::U32
        | ParamKind::U64
        | ParamKind::Bytes
        | ParamKind::Constant(_),
    ) = (param.default, param.kind)
    {
        set(&mut schema, "default", json!(default));
    }
    schema
}
