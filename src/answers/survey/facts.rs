//! A row of any kind, as its facts.

use serde_json::{Map, Value};

use super::row::{KindRow, RowAttempts, document_fields};
use cuda_pitfalls_core::machine::Machine;

/// A row of any kind.
#[derive(Clone, Debug)]
pub struct FactRow {
    /// The question, which is unique in the document together with the libcudart.
    pub question: String,
    /// Version of the libcudart that answered the question, if it ran on each.
    pub libcudart: Option<String>,
    /// What was tested, unless the question determines it.
    pub asked_as: String,
    /// Number of attempts that count, and the reasons why the others do not.
    pub standing: RowAttempts,
    /// Fields of the row, and derived facts.
    facts: Map<String, Value>,
}

impl FactRow {
    /// Returns the facts of a row of this machine.
    pub fn new<R: KindRow>(row: &R, machine: &Machine) -> FactRow {
        let (question, libcudart) = row.question();
        let mut facts = document_fields(row);
        facts.extend(
            row.derived_facts(machine)
                .into_iter()
                .map(|(name, value)| (name.to_string(), value)),
        );
        let standing = row.standing().clone();
        let mut facts = FactRow {
            question,
            libcudart,
            asked_as: row.asked_as(),
            standing,
            facts,
        };
        facts.set("key", row.key());
        facts.set("is_control", row.is_control());
        facts.set("is_conclusive", row.is_conclusive());
        facts.set("is_unexpected", row.is_unexpected());
        facts
    }

    /// Returns a fact by its field; null if the row does not have it. `died.by` is the field of a field.
    pub fn fact(&self, name: &str) -> &Value {
        let mut parts = name.split('.');
        let first = parts.next().and_then(|part| self.facts.get(part));
        parts
            .fold(first, |value, part| value?.get(part))
            .unwrap_or(&Value::Null)
    }

    /// Returns `true` if a condition holds: `fact`, which must not be null, false or empty, `!fact`, `fact=value` or
    /// `fact!=value`.
    pub fn has(&self, condition: &str) -> bool {
        if let Some((name, value)) = condition.split_once("!=") {
            return !self.fact_equals(name, value);
        }
        match (condition.split_once('='), condition.strip_prefix('!')) {
            (Some((name, value)), _) => self.fact_equals(name, value),
            (None, Some(name)) => !self.has(name),
            (None, None) => match self.fact(condition) {
                Value::Null | Value::Bool(false) => false,
                Value::Array(list) => !list.is_empty(),
                Value::String(text) => !text.is_empty(),
                _ => true,
            },
        }
    }

    /// Returns `true` if a fact has this value.
    pub fn fact_equals(&self, name: &str, value: &str) -> bool {
        let fact = self.fact(name);
        let text = fact
            .as_str()
            .map_or_else(|| fact.to_string(), str::to_string);
        text == value
    }

    /// Records a fact.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_string(), value.into());
    }
}
