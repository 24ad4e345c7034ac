//! `exit`: how the worker ended. It is the only fact that is not about a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Truth;
use crate::source::diagnostic::suggest_name;
use crate::source::reader::Reader;
use crate::source::schema::or_parameter;
use crate::source::tree::{Data, Node};
use cuda_pitfalls_calls::SIGNALS;

/// The required end of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitCheck {
    /// The worker exits with this code; 0 also means that every step was made.
    Code(i32),
    /// This signal ends the worker, by name (`SIGSEGV`); the harness did not send it.
    Signal(String),
    /// The harness ended the worker: a step did not return before its deadline.
    Deadline,
    /// Any of these ways, if chance decides.
    OneOf(Vec<ExitCheck>),
}

impl ExitCheck {
    pub(crate) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<ExitCheck> {
        match &node.data {
            Data::List(nodes)
                if nodes.len() > 1
                    && nodes.iter().all(|node| !matches!(node.data, Data::List(_))) =>
            {
                nodes
                    .iter()
                    .map(|node| ExitCheck::read(reader, node))
                    .collect::<Option<_>>()
                    .map(ExitCheck::OneOf)
            }
            Data::Text(word) if word == "deadline" => Some(ExitCheck::Deadline),
            Data::Text(word) if SIGNALS.value(word).is_some() => {
                Some(ExitCheck::Signal(word.clone()))
            }
            Data::Text(word) => {
                let help = suggest_name(word, ending_words());
                reader.reject(
                    &node.place,
                    format!("`{word}` is not an exit code, a signal or `deadline`"),
                    help,
                )
            }
            _ => reader
                .read_integer(node, 0..=255)
                .and_then(|code| i32::try_from(code).ok())
                .map(ExitCheck::Code),
        }
    }

    /// Returns every allowed way to end.
    pub fn allowed_ways(&self) -> &[ExitCheck] {
        match self {
            ExitCheck::OneOf(ways) => ways,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the requirement as a sentence.
    pub fn sentence(&self) -> String {
        match self {
            ExitCheck::Code(code) => format!("the worker exits with {code}"),
            ExitCheck::Signal(name) => format!("the worker dies by {name}"),
            ExitCheck::Deadline => "a step does not return before its deadline".to_string(),
            ExitCheck::OneOf(ways) => ways
                .iter()
                .map(ExitCheck::sentence)
                .collect::<Vec<_>>()
                .join(", or "),
        }
    }

    /// Checks if an attempt ended in an allowed way; `end` is [`crate::observation::Observation::end`].
    pub(crate) fn held(&self, end: &str) -> Truth {
        let expected: Vec<String> = self.allowed_ways().iter().map(ExitCheck::end).collect();
        match end {
            "unknown" => Truth::Unknown("how the worker ended is not known".to_string()),
            end if expected.iter().any(|expected| expected == end) => Truth::Yes,
            end => Truth::No(format!(
                "the worker's end is {end}, expected {}",
                expected.join(" or ")
            )),
        }
    }

    fn end(&self) -> String {
        match self {
            ExitCheck::Code(0) => "0".to_string(),
            ExitCheck::Code(code) => format!("exit {code}"),
            ExitCheck::Signal(signal) => signal.clone(),
            ExitCheck::Deadline => "deadline".to_string(),
            ExitCheck::OneOf(ways) => ways
                .iter()
                .map(ExitCheck::end)
                .collect::<Vec<_>>()
                .join(" or "),
        }
    }
}

/// Returns the words that are allowed in place of an exit code.
fn ending_words() -> impl Iterator<Item = &'static str> {
    SIGNALS
        .values
        .iter()
        .map(|(name, _)| *name)
        .chain(["deadline"])
}

pub(super) fn schema() -> Value {
    let words: Vec<&str> = ending_words().collect();
    let way = [
        json!({ "type": "integer", "minimum": 0, "maximum": 255 }),
        json!({ "enum": words }),
    ];
    let several = json!({ "type": "array", "minItems": 2, "items": { "anyOf": way } });
    or_parameter(json!([way[0], way[1], several]))
}
