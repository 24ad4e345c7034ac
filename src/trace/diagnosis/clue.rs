//! Clues: facts of a trace that rules test. Each type has a closed list of attributes with types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::Stack;
use cuda_pitfalls_core::text::units;

/// A type of clue.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClueKind {
    /// The name of the type in rules.
    pub name: String,
    /// A description of the facts that become a clue of this type.
    pub about: String,
    /// The type's own attributes, in addition to [`common_attributes`].
    pub attributes: Vec<Attribute>,
}

/// An attribute of a type of clue.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct Attribute {
    /// The name of the attribute in rules.
    pub name: String,
    /// The type of its value.
    pub of: Type,
    /// A description of the value.
    pub about: String,
}

/// The file `scenarios/clues.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClueFile {
    common: Vec<Attribute>,
    kind: Vec<ClueKind>,
}

#[expect(
    clippy::expect_used,
    reason = "the file is part of the program, and a test reads it"
)]
static FILE: LazyLock<ClueFile> = LazyLock::new(|| {
    toml::from_str(cuda_pitfalls_scenarios::CLUES).expect("the table of clues is valid")
});

/// Returns every type of clue.
pub fn clue_kinds() -> &'static [ClueKind] {
    &FILE.kind
}

/// Returns the attributes of every clue.
pub fn common_attributes() -> &'static [Attribute] {
    &FILE.common
}

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// True or false.
    Flag,
    /// A number.
    Count,
    /// A number of bytes.
    Bytes,
    /// A time in nanoseconds.
    Duration,
    /// Text.
    Text,
    /// Several texts. A condition holds if one of them matches.
    List,
}

/// A fact of a trace. An unknown attribute has no value, so no condition on it holds.
#[derive(Clone, Debug)]
pub(super) struct Clue<'a> {
    pub(super) kind: &'static ClueKind,
    values: BTreeMap<&'static str, Value>,
    pub(super) pid: u32,
    /// The events that show it, by index; the program went wrong at the first one.
    pub(super) events: Vec<usize>,
    /// The time when the program went wrong.
    pub(super) t_ns: u64,
    /// The stack of the first event, then those of other events that explain it.
    pub(super) stacks: Vec<&'a Stack>,
    /// The UUID of the affected GPU.
    pub(super) gpu: Option<String>,
    /// The memory that the pitfall costs, in bytes.
    pub(super) bytes: Option<i64>,
}

impl ClueKind {
    /// Returns the attribute with this name.
    pub fn find_attribute(&'static self, name: &str) -> Option<&'static Attribute> {
        let mut attributes = self.attributes.iter().chain(common_attributes());
        attributes.find(|attribute| attribute.name == name)
    }
}

impl Type {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Type::Flag => "true or false",
            Type::Count => "number",
            Type::Bytes => "bytes",
            Type::Duration => "time",
            Type::Text => "text",
            Type::List => "list",
        }
    }

    pub(super) fn has(self, value: &Value) -> bool {
        match self {
            Type::Flag => value.is_boolean(),
            Type::Count | Type::Bytes | Type::Duration => value.is_number(),
            Type::Text => value.is_string(),
            Type::List => value.is_array(),
        }
    }
}

impl Attribute {
    /// Returns a value of this attribute as text.
    pub fn words(&self, value: &Value) -> String {
        let number = value.as_i64().unwrap_or(i64::MAX).unsigned_abs();
        match (self.of, value) {
            (Type::Bytes, _) => units::bytes(number),
            (Type::Duration, _) => units::format_duration(number),
            (_, Value::String(text)) => text.clone(),
            (_, Value::Array(list)) => {
                let texts: Vec<&str> = list.iter().flat_map(Value::as_str).collect();
                texts.join(", ")
            }
            (_, value) => value.to_string(),
        }
    }
}

impl<'a> Clue<'a> {
    /// Returns a clue without attributes. None if no type has this name.
    pub(super) fn new(kind: &str, pid: u32, t_ns: u64) -> Option<Clue<'a>> {
        let kind = clue_kinds().iter().find(|known| known.name == kind);
        debug_assert!(kind.is_some(), "there is no such kind of clue");
        let clue = Clue {
            kind: kind?,
            values: BTreeMap::new(),
            pid,
            events: Vec::new(),
            t_ns,
            stacks: Vec::new(),
            gpu: None,
            bytes: None,
        };
        Some(clue.with("pid", u64::from(pid)))
    }

    /// Sets a value. A null is unknown, so it is left out.
    pub(super) fn with(mut self, name: &str, known: impl Into<Value>) -> Clue<'a> {
        let value = known.into();
        if value.is_null() {
            return self;
        }
        let attribute = self.kind.find_attribute(name);
        debug_assert!(
            attribute.is_some_and(|attribute| attribute.of.has(&value)),
            "{} has no `{name}` of this type",
            self.kind.name
        );
        if let Some(attribute) = attribute {
            self.values.insert(&attribute.name, value);
        }
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Returns the texts that distinguish this clue from others of its rule. Numbers and times do not count, because
    /// they differ between two iterations of one loop.
    pub(super) fn distinguishing_texts(&self) -> Vec<Value> {
        let mut texts: Vec<Value> = self.values.values().cloned().collect();
        texts.retain(|value| value.is_string() || value.is_array());
        texts
    }

    /// Returns a sentence with each `{attribute}` replaced by its value.
    pub(super) fn fill_template(&self, template: &str) -> String {
        let mut text = String::new();
        for part in parts(template) {
            match part {
                Part::Words(words) => text.push_str(words),
                Part::Placeholder(name) => {
                    let Some(attribute) = self.kind.find_attribute(name) else {
                        continue;
                    };
                    match self.get(name) {
                        Some(value) => text.push_str(&attribute.words(value)),
                        None if attribute.of == Type::Bytes => text.push_str("memory not read"),
                        None => text.push_str("not known"),
                    }
                }
            }
        }
        text
    }
}

pub(super) enum Part<'t> {
    /// Literal text.
    Words(&'t str),
    /// The name between braces.
    Placeholder(&'t str),
}

/// Splits a sentence into its parts. An unmatched brace, or a pair around something that is not a name, is literal
/// text.
pub(super) fn parts(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        match after.split_once('}') {
            Some((name, behind)) if is_attribute_name(name) => {
                parts.extend([Part::Words(before), Part::Placeholder(name)]);
                rest = behind;
            }
            _ => {
                let end = before.len() + 1;
                parts.push(Part::Words(rest.get(..end).unwrap_or(rest)));
                rest = after;
            }
        }
    }
    parts.push(Part::Words(rest));
    parts
}

fn is_attribute_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte: u8| byte.is_ascii_lowercase() || byte == b'_')
}
