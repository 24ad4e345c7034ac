//! The observations at a step of an attempt, in the form that compact reports keep and that machines are compared by.
//!
//! A change has no words; only `render` writes sentences about it.

use std::fmt;
use std::mem::{Discriminant, discriminant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words;
use crate::event;
use crate::observation::Class;

/// The change at one step, the end of the attempt, or a fact in a row of a survey. In JSON it is an array of these
/// three parts.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(from = "StoredChange", into = "StoredChange")]
pub struct Change {
    /// The number of the step, from 1. For an end, the number of steps; for a row, 0.
    pub step: u32,
    /// The label of the step; empty for an end and for a row.
    pub label: String,
    /// The observations, in the order of [`Fact`].
    pub facts: Vec<Fact>,
}

/// A change in its stored form: the number of the step, its label, and the facts.
#[derive(Serialize, Deserialize, JsonSchema)]
struct StoredChange(u32, String, Vec<Fact>);

impl From<StoredChange> for Change {
    fn from(StoredChange(step, label, facts): StoredChange) -> Change {
        Change { step, label, facts }
    }
}

impl From<Change> for StoredChange {
    fn from(Change { step, label, facts }: Change) -> StoredChange {
        StoredChange(step, label, facts)
    }
}

/// A single observation.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The call did not return.
    DidNotReturn,
    /// The call returned this error: its C name, or its number if it has no name.
    Status(Token),
    /// An output of the call: the name and the value.
    Value(String, Token),
    /// The driver is initialized, or not; null if it was not queried.
    Initialised(Option<bool>),
    /// The GPUs that the process sees, in CUDA order; null if the driver did not report them.
    Visible(Option<Vec<String>>),
    /// The visible GPUs with an active primary context; null if the driver did not report them.
    Contexts(Option<Vec<String>>),
    /// The GPU of the thread's current context, or `none`; null if the driver did not report it.
    Current(Option<String>),
    /// A GPU, and the class of the change in its memory; null if it could not be read.
    Memory(String, Option<Class>),
    /// The end of the attempt: `exit 3`, `SIGSEGV`, `deadline`.
    End(String),
    /// A fact in a row of a survey.
    Row(RowFact),
}

/// A fact in a row of a survey. Null means that the value could not be measured.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RowFact {
    /// The mask has been read when the call returns, or not.
    ReadsMask(Option<bool>),
    /// `cuInit` is called, or not.
    CallsCuinit(Option<bool>),
    /// The place in the program that calls it; null if nothing does.
    CalledAt(Option<String>),
    /// The GPUs with a context.
    ContextOn(Option<Vec<u32>>),
    /// The status of the call, or the value of a line; null if the call or line returns nothing.
    Returned(Option<String>),
    /// The status of `cuInit`; empty if it was not called.
    CuInit(String),
    /// The visible GPUs.
    Gpus(Option<Vec<u32>>),
    /// The visible GPUs match the prediction of the mask rules, or not.
    AsPredicted(Option<bool>),
    /// The variable has an effect, or not.
    HasEffect(Option<bool>),
    /// The call that reads the variable, once.
    ReadAt(Option<String>),
    /// The exception; null if none was raised.
    Raises(Option<String>),
    /// The end of the process; null for exit code 0.
    Left(Option<String>),
}

/// A number, or text.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(untagged)]
pub enum Token {
    /// An integer.
    Int(i64),
    /// Anything else.
    Text(String),
}

impl Token {
    /// Parses a text; a text that is an integer becomes one, so that a count is the same as text and as a number.
    pub fn new(text: &str) -> Token {
        match text.parse::<i64>() {
            Ok(value) if value.to_string() == text => Token::Int(value),
            _ => Token::Text(text.to_owned()),
        }
    }
}

impl From<&event::Value> for Token {
    fn from(value: &event::Value) -> Token {
        Token::new(&words::value(value))
    }
}

impl From<&event::Status> for Token {
    fn from(status: &event::Status) -> Token {
        status
            .name
            .as_ref()
            .map_or(Token::Int(status.code), |name| Token::Text(name.clone()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Int(value) => value.fmt(f),
            Token::Text(text) => f.write_str(text),
        }
    }
}

/// The subject of a change. Changes with one subject are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeSubject<'c> {
    /// The number and the label of a step.
    Step(u32, &'c str),
    /// The end of an attempt, or a fact in a row.
    Whole(Option<Discriminant<Fact>>, Option<Discriminant<RowFact>>),
}

impl Change {
    /// Returns the change for the end of an attempt, after this many steps.
    pub fn end(steps: u32, end: &str) -> Change {
        Change {
            step: steps,
            label: String::new(),
            facts: vec![Fact::End(end.to_owned())],
        }
    }

    /// Returns the change for a fact in a row of a survey.
    pub fn row(fact: RowFact) -> Change {
        Change {
            step: 0,
            label: String::new(),
            facts: vec![Fact::Row(fact)],
        }
    }

    /// Returns the subject of the change.
    pub fn subject(&self) -> ChangeSubject<'_> {
        if !self.label.is_empty() {
            return ChangeSubject::Step(self.step, &self.label);
        }
        let row = match self.facts.first() {
            Some(Fact::Row(row)) => Some(discriminant(row)),
            _ => None,
        };
        ChangeSubject::Whole(self.facts.first().map(discriminant), row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(step: u32, label: &str, facts: &[Fact]) -> Change {
        Change {
            step,
            label: label.to_owned(),
            facts: facts.to_vec(),
        }
    }

    #[test]
    fn changes_about_one_step_have_one_subject() {
        let [one, other] = [1, 2].map(|step| change(step, "a", &[Fact::DidNotReturn]));
        assert_eq!(one.subject(), change(1, "a", &[]).subject());
        assert_ne!(one.subject(), other.subject());
        assert_eq!(
            Change::end(2, "SIGSEGV").subject(),
            Change::end(3, "exit 1").subject()
        );
        let rows = [
            RowFact::ReadsMask(None),
            RowFact::ReadsMask(Some(true)),
            RowFact::Raises(None),
        ]
        .map(Change::row);
        assert_eq!(rows[0].subject(), rows[1].subject());
        assert_ne!(rows[0].subject(), rows[2].subject());
    }

    #[test]
    fn a_change_is_read_as_it_is_written() {
        let facts = [
            Fact::DidNotReturn,
            Fact::Status(Token::Int(999)),
            Fact::Value("count".into(), Token::Int(2)),
            Fact::Visible(None),
            Fact::Contexts(Some(vec!["gpu0".into()])),
            Fact::Memory("gpu0".into(), Some(Class::Init)),
        ];
        let text = serde_json::to_string(&change(2, "b", &facts)).unwrap();
        let expected = concat!(
            r#"[2,"b",["did_not_return",{"status":999},{"value":["count",2]},{"visible":null},"#,
            r#"{"contexts":["gpu0"]},{"memory":["gpu0","init"]}]]"#
        );
        assert_eq!(text, expected);
        assert_eq!(
            serde_json::from_str::<Change>(&text).unwrap(),
            change(2, "b", &facts)
        );
        assert!(serde_json::from_str::<Change>(r#"[2,"b"]"#).is_err());
    }
}
