//! The forms that recur in the JSON Schema of a file.

use serde_json::{Value, json};

/// An object with these keys and no others.
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

pub(crate) fn set(schema: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = schema {
        map.insert(key.to_string(), value);
    }
}

/// What `$defs` calls by this name.
pub(crate) fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

pub(crate) fn sentence(description: &str) -> Value {
    json!({ "description": description, "type": "string", "minLength": 1 })
}

/// One of these forms, or a `${parameter}` in its place.
pub(crate) fn or_parameter(forms: Value) -> Value {
    let mut forms = if let Value::Array(forms) = forms { forms } else { vec![forms] };
    forms.push(reference("parameter"));
    json!({ "anyOf": forms })
}

pub(crate) fn one_or_more(form: Value) -> Value {
    json!({ "anyOf": [form, { "type": "array", "minItems": 1, "items": form }] })
}

/// A number of bytes with its unit.
pub(crate) const BYTES: &str = "^[0-9]+ *(B|KiB|MiB|GiB)$";
/// A GPU as a plan calls it.
pub(crate) const GPU: &str = "^gpu([0-9]|[1-5][0-9]|6[0-3])$";
