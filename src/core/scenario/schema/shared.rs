//! A schema without repetition: repeated parts become definitions.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::reference;

/// A part that is shorter than this is repeated, because a reference would say less.
const SHORTEST: usize = 110;

/// The same schema with a definition for each part that occurs more than once. A definition is named after the first
/// key at which its schema occurs.
pub(super) fn shared(mut schema: Value) -> Value {
    let Some(Value::Object(own)) = schema
        .as_object_mut()
        .and_then(|schema| schema.remove("$defs"))
    else {
        return schema;
    };
    let mut times = BTreeMap::new();
    for part in own.values().chain([&schema]) {
        each_child(part, &mut |child| count(child, &mut times));
    }
    let mut sharing = Sharing {
        times,
        definitions: own.clone(),
        names: BTreeMap::new(),
    };
    for (name, definition) in own {
        let definition = sharing.share_children(&name, definition);
        sharing.definitions.insert(name, definition);
    }
    schema = sharing.share_children("", schema);
    if let Value::Object(schema) = &mut schema {
        schema.insert("$defs".to_string(), Value::Object(sharing.definitions));
    }
    schema
}

/// Counts the schema and its parts. The parts of a schema that occurred before are not counted again: they will occur
/// only once, in the definition.
fn count(schema: &Value, times: &mut BTreeMap<String, usize>) {
    let known = times
        .entry(without_default(schema).0.to_string())
        .or_default();
    *known += 1;
    if *known == 1 {
        each_child(schema, &mut |child| count(child, times));
    }
}

/// A schema without its default, and the default, which describes only the place where the schema occurs.
fn without_default(schema: &Value) -> (Value, Option<Value>) {
    let mut schema = schema.clone();
    let default = schema
        .as_object_mut()
        .and_then(|schema| schema.remove("default"));
    (schema, default)
}

fn each_child(schema: &Value, f: &mut dyn FnMut(&Value)) {
    for (key, value) in schema.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(schemas)) => {
                schemas.values().for_each(&mut *f)
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter().for_each(&mut *f),
            ("items" | "additionalProperties" | "propertyNames", schema) => f(schema),
            _ => {}
        }
    }
}

struct Sharing {
    times: BTreeMap<String, usize>,
    definitions: Map<String, Value>,
    /// The names of definitions, by the texts of their schemas.
    names: BTreeMap<String, String>,
}

impl Sharing {
    /// The schema of a key: a reference, if the schema occurs elsewhere too.
    fn schema(&mut self, key: &str, schema: Value) -> Value {
        let (bare, default) = without_default(&schema);
        let text = bare.to_string();
        if text.len() < SHORTEST || self.times.get(&text).is_none_or(|times| *times < 2) {
            return self.share_children(key, schema);
        }
        let name = match self.names.get(&text) {
            Some(name) => name.clone(),
            None => {
                let numbered = (2..).map(|number| format!("{key}_{number}"));
                let mut names = std::iter::once(key.to_string()).chain(numbered);
                let name = names
                    .find(|name| !self.definitions.contains_key(name))
                    .unwrap_or_default();
                self.names.insert(text, name.clone());
                self.definitions.insert(name.clone(), json!(null));
                let definition = self.share_children(key, bare);
                self.definitions.insert(name.clone(), definition);
                name
            }
        };
        let mut reference = reference(&name);
        if let (Value::Object(reference), Some(default)) = (&mut reference, default) {
            reference.insert("default".to_string(), default);
        }
        reference
    }

    /// A schema whose parts are shared.
    fn share_children(&mut self, key: &str, schema: Value) -> Value {
        let Value::Object(schema) = schema else {
            return schema;
        };
        let mut children = Map::new();
        for (word, value) in schema {
            let value = match (word.as_str(), value) {
                ("properties", Value::Object(schemas)) => schemas
                    .into_iter()
                    .map(|(name, child)| (name.clone(), self.schema(&name, child)))
                    .collect(),
                ("patternProperties", Value::Object(schemas)) => schemas
                    .into_iter()
                    .map(|(name, child)| (name, self.schema(key, child)))
                    .collect(),
                ("anyOf" | "oneOf", Value::Array(schemas)) => schemas
                    .into_iter()
                    .map(|child| self.schema(key, child))
                    .collect(),
                ("items" | "additionalProperties" | "propertyNames", child) => {
                    self.schema(key, child)
                }
                (_, value) => value,
            };
            children.insert(word, value);
        }
        children.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema with every reference replaced by its definition.
    fn spelled_out(schema: &Value, definitions: &Value) -> Value {
        match schema {
            Value::Object(parts) => {
                let mut whole = Map::new();
                for (key, part) in parts.iter().filter(|(key, _)| *key != "$defs") {
                    match part.as_str().and_then(|part| part.strip_prefix("#/$defs/")) {
                        Some(name) if key == "$ref" => {
                            let Value::Object(meant) = spelled_out(&definitions[name], definitions)
                            else {
                                panic!()
                            };
                            whole.extend(meant);
                        }
                        _ => drop(whole.insert(key.clone(), spelled_out(part, definitions))),
                    }
                }
                Value::Object(whole)
            }
            Value::Array(parts) => parts
                .iter()
                .map(|part| spelled_out(part, definitions))
                .collect(),
            other => other.clone(),
        }
    }

    #[test]
    fn nothing_is_lost_and_nothing_long_stands_twice() {
        let whole = super::super::whole();
        let shared = shared(whole.clone());
        assert_eq!(
            spelled_out(&shared, &shared["$defs"]),
            spelled_out(&whole, &whole["$defs"])
        );
        let mut times = BTreeMap::new();
        let parts = shared["$defs"]
            .as_object()
            .unwrap()
            .values()
            .chain([&shared]);
        parts.for_each(|part| each_child(part, &mut |child| count(child, &mut times)));
        let twice: Vec<_> = times
            .iter()
            .filter(|(text, times)| text.len() >= SHORTEST && **times > 1)
            .collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert!(shared.to_string().len() < whole.to_string().len());
    }
}
