//! Forms that recur in the JSON Schemas of files.

use serde_json::{Value, json};

/// Returns the schema of an object with these keys and no others.
pub fn object_schema(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

/// Sets a key of an object.
pub fn set(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = schema {
        map.insert(key.to_string(), value);
    }
}

/// Returns a reference to this definition of `$defs`.
pub fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// Returns the schema of a text that is not empty.
pub fn sentence(description: &str) -> Value {
    json!({ "description": description, "type": "string", "minLength": 1 })
}

/// Returns the schema of a value in one of these forms, or `${parameter}` in its place.
pub fn or_parameter(forms: Value) -> Value {
    let mut forms = if let Value::Array(forms) = forms {
        forms
    } else {
        vec![forms]
    };
    forms.push(reference("parameter"));
    json!({ "anyOf": forms })
}

/// Returns the schema of a value in this form, or a list of them.
pub fn one_or_more(form: Value) -> Value {
    json!({ "anyOf": [form, { "type": "array", "minItems": 1, "items": form }] })
}

/// A number of bytes with its unit.
pub const BYTES: &str = "^[0-9]+ *(B|KiB|MiB|GiB)$";
/// The plan's name of a GPU.
pub const GPU: &str = "^gpu([0-9]|[1-5][0-9]|6[0-3])$";
