//! Compares an observed value with a value in a file.

use std::cmp::Ordering::{self, Equal};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use super::{CheckReader, GpuNames, Look, Truth};
use crate::event::Value;
use crate::observation::StepObservation;
use crate::source::diagnostic::suggest_name;
use crate::source::schema::{object_schema, set};
use crate::source::size;
use crate::source::tree::{Data, Node, TreeEntry};
use cuda_pitfalls_calls::{Call, Output};

/// A bound: its key in files, its sign in C and Python, its word in sentences, and its function. The function returns
/// `true` if the bound holds for a value whose comparison with the operand has this result. It returns `None` if the
/// bound needs an order and the two values have no order.
pub struct BoundWord {
    key: &'static str,
    /// The comparison in C and Python.
    pub sign: &'static str,
    /// The word before the operand in a sentence.
    pub word: &'static str,
    holds: fn(Option<Ordering>) -> Option<bool>,
}

/// The bounds in the order of the fields of a [`Matcher`].
const BOUNDS: [BoundWord; 6] = [
    BoundWord {
        key: "eq",
        sign: "==",
        word: "",
        holds: |order| Some(order == Some(Equal)),
    },
    BoundWord {
        key: "ne",
        sign: "!=",
        word: "not ",
        holds: |order| Some(order != Some(Equal)),
    },
    BoundWord {
        key: "ge",
        sign: ">=",
        word: "at least ",
        holds: |order| order.map(Ordering::is_ge),
    },
    BoundWord {
        key: "le",
        sign: "<=",
        word: "at most ",
        holds: |order| order.map(Ordering::is_le),
    },
    BoundWord {
        key: "gt",
        sign: ">",
        word: "more than ",
        holds: |order| order.map(Ordering::is_gt),
    },
    BoundWord {
        key: "lt",
        sign: "<",
        word: "less than ",
        holds: |order| order.map(Ordering::is_lt),
    },
];

/// Smaller differences between two sums of memory are ignored. While processes on other GPUs came and went, NVML's
/// figure for an idle H200 moved by up to 192 KiB, and the figure for an H100 by 64 KiB at one step in twenty.
const STIR_BYTES: u32 = 1 << 20;

/// Returns `true` if a value with this name is the memory that all processes on a GPU use or leave free, so that
/// another process may have changed it.
pub(super) fn is_sum(name: &str) -> bool {
    name == "used" || name == "free"
}

/// The condition for a value. Every bound that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matcher {
    /// Equal to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eq: Option<Operand>,
    /// The value is not equal to this operand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ne: Option<Operand>,
    /// The value is at least this operand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ge: Option<Operand>,
    /// The value is at most this operand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub le: Option<Operand>,
    /// Greater than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gt: Option<Operand>,
    /// Less than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lt: Option<Operand>,
}

/// A side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operand {
    /// An integer. Text such as `"64 MiB"` becomes an integer when the file is read.
    Int(i64),
    /// Text, after the plan has filled in `${gpus}` and `${gpu0}`; text that consists of digits compares as an integer.
    Text(String),
    /// A value of another step, written `"@label.name"`.
    Value {
        /// The label of the step.
        label: String,
        /// The name among its values.
        name: String,
    },
}

impl Matcher {
    /// Returns a matcher for exactly this operand.
    pub fn equal_to(operand: Operand) -> Matcher {
        Matcher {
            eq: Some(operand),
            ..Matcher::default()
        }
    }

    /// Returns `true` if some operand is a number or text of the file, rather than a value of another step.
    pub fn is_absolute(&self) -> bool {
        self.operands()
            .any(|operand| !matches!(operand, Operand::Value { .. }))
    }

    /// Returns the operands of all bounds.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.bounds().map(|(_, operand)| operand)
    }

    pub(crate) fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        self.bounds_mut().into_iter().flatten()
    }

    fn bounds_mut(&mut self) -> [&mut Option<Operand>; 6] {
        let Matcher {
            eq,
            ne,
            ge,
            le,
            gt,
            lt,
        } = self;
        [eq, ne, ge, le, gt, lt]
    }

    /// Returns the bounds that are set.
    pub fn bounds(&self) -> impl Iterator<Item = (&'static BoundWord, &Operand)> {
        let Matcher {
            eq,
            ne,
            ge,
            le,
            gt,
            lt,
        } = self;
        BOUNDS
            .iter()
            .zip([eq, ne, ge, le, gt, lt])
            .filter_map(|(bound, operand)| Some((bound, operand.as_ref()?)))
    }

    /// Reads an operand, which is short for `{ eq = operand }`, or a table of bounds.
    pub(super) fn read(
        file: &mut CheckReader<'_, '_>,
        node: &Node,
        kind: OperandKind,
    ) -> Option<Matcher> {
        if !matches!(node.data, Data::Table(_)) {
            return Operand::read(file, node, kind).map(Matcher::equal_to);
        }
        let entries = file.reader.table_of(node, &BOUNDS.map(|bound| bound.key))?;
        if entries.is_empty() {
            file.reader.error(
                &node.place,
                "this matcher is empty",
                Some("such as `{ ge = 1 }`".to_string()),
            );
        }
        let mut matcher = Matcher::default();
        for TreeEntry { key, value } in entries {
            let operand = Operand::read(file, value, kind);
            let named = BOUNDS
                .iter()
                .zip(matcher.bounds_mut())
                .find(|(bound, _)| bound.key == key.text);
            if let Some((_, stored)) = named {
                *stored = operand;
            }
        }
        Some(matcher)
    }

    /// Returns the expected sum of memory, or 0, if `bytes` is close enough to it; otherwise `bytes`.
    pub(super) fn snap_to_expected(&self, bytes: i128) -> i128 {
        let asked =
            [&self.eq, &self.ne]
                .into_iter()
                .flatten()
                .filter_map(|operand| match operand {
                    Operand::Int(asked) => Some(i128::from(*asked)),
                    _ => None,
                });
        let near = asked
            .chain([0])
            .find(|asked| bytes.abs_diff(*asked) < u128::from(STIR_BYTES));
        near.unwrap_or(bytes)
    }

    pub(super) fn words(&self, in_bytes: bool) -> String {
        let bounds = self
            .bounds()
            .map(|(bound, operand)| format!("{}{}", bound.word, operand.words(in_bytes)));
        bounds.collect::<Vec<_>>().join(" and ")
    }

    /// Compares a value with every bound. `subject` is the name of the value in messages.
    pub(super) fn compare(
        &self,
        subject: &str,
        actual: &Datum,
        look: &Look<'_>,
        gpus: &GpuNames<'_>,
    ) -> Truth {
        let mut expected = Vec::new();
        let mut fails = false;
        for (bound, operand) in self.bounds() {
            let other = match operand.resolve(look, gpus) {
                Ok(other) => other,
                Err(unknown) => return unknown,
            };
            let order = if matches!(operand, Operand::Value { name, .. } if is_sum(name))
                && actual.is_near(&other)
            {
                Some(Equal)
            } else {
                actual.order(&other)
            };
            let Some(holds) = (bound.holds)(order) else {
                return Truth::Unknown(format!(
                    "{subject} is {actual}, which cannot be compared with {other}"
                ));
            };
            fails |= !holds;
            expected.push(format!("{}{other}", bound.word));
        }
        if fails {
            Truth::No(format!(
                "{subject} is {actual}, expected {}",
                expected.join(" and ")
            ))
        } else {
            Truth::Yes
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandKind {
    /// Integers and text.
    Anything,
    /// A number of bytes, or a change in bytes.
    Bytes,
}

impl Operand {
    fn read(file: &mut CheckReader<'_, '_>, node: &Node, kind: OperandKind) -> Option<Operand> {
        let reader = &mut *file.reader;
        match &node.data {
            Data::Int(value) => Some(Operand::Int(*value)),
            Data::Text(text) => match parse_reference(text) {
                Some((label, name)) => {
                    is_returned(file, node, label, name);
                    Some(Operand::Value {
                        label: label.to_string(),
                        name: name.to_string(),
                    })
                }
                None if text.starts_with('@') => {
                    let help = Some("write `@label.name`".to_string());
                    reader.reject(
                        &node.place,
                        format!("`{text}` does not refer to a value of a step"),
                        help,
                    )
                }
                None if kind == OperandKind::Bytes || size::looks_like_bytes(text) => {
                    reader.bytes(node).map(Operand::Int)
                }
                None => Some(Operand::Text(text.clone())),
            },
            Data::Bool(value) => {
                let help = Some(format!(
                    "C uses integers for these: write {}",
                    i32::from(*value)
                ));
                reader.reject(
                    &node.place,
                    "expected an integer or a string, found a Boolean",
                    help,
                )
            }
            _ => reader.reject_type(node, "an integer or text"),
        }
    }

    fn words(&self, in_bytes: bool) -> String {
        match self {
            Operand::Int(value) if in_bytes => bytes(*value),
            Operand::Int(value) => value.to_string(),
            Operand::Text(text) if text == "${gpus}" => "the number of GPUs".to_string(),
            Operand::Text(text) => format!("\"{text}\""),
            Operand::Value { label, name } => format!("{name} of {label}"),
        }
    }

    /// Returns the value of the operand. For a value of another step, that is the value that the step returned.
    ///
    /// # Errors
    /// Returns [`Truth::Unknown`] if the other step did not return it.
    fn resolve(&self, look: &Look<'_>, gpus: &GpuNames<'_>) -> Result<Datum, Truth> {
        match self {
            Operand::Int(value) => Ok(Datum::Int(i128::from(*value))),
            Operand::Text(text) => Ok(Datum::text(gpus, text)),
            Operand::Value { label, name } => {
                let step = look
                    .observation
                    .step(label)
                    .ok_or_else(|| Truth::Unknown(format!("{label} was not reached")))?;
                let value = output(step, name)
                    .ok_or_else(|| Truth::Unknown(format!("{label} returned no {name}")))?;
                Ok(Datum::value(gpus, value))
            }
        }
    }
}

/// Parses `@label.name`: the label and the name of the value. The last dot separates them: names of values have no dot.
fn parse_reference(text: &str) -> Option<(&str, &str)> {
    let (label, name) = text.strip_prefix('@')?.rsplit_once('.')?;
    (!label.is_empty() && !name.is_empty()).then_some((label, name))
}

/// Checks that `"@label.name"` refers to a step and to a value that it returns.
fn is_returned(file: &mut CheckReader<'_, '_>, node: &Node, label: &str, name: &str) {
    for row in (file.find)(file.reader, label, &node.place) {
        let names = row.values();
        if !names.contains(&name) {
            let message = format!("`{}` returns no value `{name}`", row.name());
            file.reader
                .error(&node.place, message, suggest_name(name, names));
        }
    }
}

/// Returns the names of the values that a call returns in addition to its status.
pub fn values_of(call: &Call) -> Vec<&'static str> {
    call.outputs()
        .flat_map(|(name, output)| match output {
            Output::Struct(layout) => layout.fields.iter().map(|field| field.name).collect(),
            _ => vec![name],
        })
        .collect()
}

/// Returns the value with this name that a step returned, whether or not it varies between attempts.
pub(super) fn output<'s>(step: &'s StepObservation, name: &str) -> Option<&'s Value> {
    step.values.get(name).or_else(|| step.varying.get(name))
}

pub(super) fn schema(operand: serde_json::Value) -> serde_json::Value {
    let bounds: Map<String, _> = BOUNDS
        .iter()
        .map(|bound| (bound.key.to_string(), operand.clone()))
        .collect();
    let mut table = object_schema(bounds.into(), &[]);
    set(&mut table, "minProperties", json!(1));
    json!({ "anyOf": [operand, table] })
}

/// Returns a number of bytes, in the largest unit that divides it.
fn bytes(value: i64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units
        .into_iter()
        .find(|(unit, _)| value != 0 && value % unit == 0)
    {
        Some((unit, name)) => format!("{} {name}", value / unit),
        None => format!("{value} B"),
    }
}

/// A value that can be compared: wide enough for every integer a report holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Datum {
    /// An integer.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// Text; GPUs by plan name.
    Text(String),
}

impl Datum {
    /// Returns text as a value. UUIDs become plan names, because observations have plan names.
    fn text(gpus: &GpuNames<'_>, text: &str) -> Datum {
        Datum::Text(gpus.name(text).unwrap_or_else(|| text.to_string()))
    }

    pub(super) fn value(gpus: &GpuNames<'_>, value: &Value) -> Datum {
        match value {
            Value::Int(value) => Datum::Int(i128::from(*value)),
            Value::Float(value) => Datum::Float(*value),
            Value::Text(text) => Datum::text(gpus, text),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            // It is only compared with a float, which is no more exact.
            Datum::Int(value) => Some(*value as f64),
            Datum::Float(value) => Some(*value),
            Datum::Text(_) => None,
        }
    }

    /// Returns `true` if two sums of memory differ by less than processes anywhere on the machine may change them.
    fn is_near(&self, other: &Datum) -> bool {
        self.number()
            .zip(other.number())
            .is_some_and(|(a, b)| (a - b).abs() < f64::from(STIR_BYTES))
    }

    /// Returns the order of two values; `None` if they cannot be ordered.
    fn order(&self, other: &Datum) -> Option<Ordering> {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => Some(a.cmp(b)),
            // Text that is a number, such as that of an environment variable, compares as a number.
            (Datum::Text(text), Datum::Int(b)) => text.parse::<i128>().ok().map(|a| a.cmp(b)),
            (Datum::Int(a), Datum::Text(text)) => text.parse::<i128>().ok().map(|b| a.cmp(&b)),
            (Datum::Text(a), Datum::Text(b)) if a == b => Some(Equal),
            (Datum::Text(_), Datum::Text(_)) => None,
            _ => self.number()?.partial_cmp(&other.number()?),
        }
    }
}

impl std::fmt::Display for Datum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Datum::Int(value) => write!(f, "{value}"),
            Datum::Float(value) => write!(f, "{value}"),
            Datum::Text(text) if text.is_empty() => f.write_str("empty"),
            Datum::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Observation;

    fn held(actual: Datum, matcher: Matcher) -> Truth {
        let first = StepObservation {
            label: "first".into(),
            values: [("count".to_string(), Value::Int(2))].into(),
            varying: [("free".to_string(), Value::Int(100))].into(),
            ..StepObservation::default()
        };
        let observation = Observation {
            steps: vec![first],
            end: "0".into(),
        };
        let gpus = ["GPU-0".to_string(), "GPU-1".to_string()];
        let gpus = GpuNames {
            plan: &gpus,
            machine: &gpus,
        };
        matcher.compare(
            "count",
            &actual,
            &Look::at(&observation, "first").unwrap(),
            &gpus,
        )
    }

    fn refers(name: &str) -> Operand {
        Operand::Value {
            label: "first".into(),
            name: name.into(),
        }
    }

    #[test]
    fn every_bound_must_hold_and_the_words_say_which() {
        let between = Matcher {
            ge: Some(Operand::Int(1)),
            lt: Some(Operand::Int(3)),
            ..Matcher::default()
        };
        assert_eq!(held(Datum::Int(1), between.clone()), Truth::Yes);
        let words = "count is 3, expected at least 1 and less than 3".to_string();
        assert_eq!(held(Datum::Int(3), between), Truth::No(words));
        let words = "count is 2, expected 1".to_string();
        assert_eq!(
            held(Datum::Int(2), Matcher::equal_to(Operand::Int(1))),
            Truth::No(words)
        );
    }

    #[test]
    fn each_comparison_at_its_edge() {
        let (two, none) = (Some(Operand::Int(2)), Matcher::default);
        let table = [
            (
                Matcher {
                    eq: two.clone(),
                    ..none()
                },
                [false, true, false],
            ),
            (
                Matcher {
                    ne: two.clone(),
                    ..none()
                },
                [true, false, true],
            ),
            (
                Matcher {
                    ge: two.clone(),
                    ..none()
                },
                [false, true, true],
            ),
            (
                Matcher {
                    le: two.clone(),
                    ..none()
                },
                [true, true, false],
            ),
            (
                Matcher {
                    gt: two.clone(),
                    ..none()
                },
                [false, false, true],
            ),
            (
                Matcher {
                    lt: two.clone(),
                    ..none()
                },
                [true, false, false],
            ),
        ];
        for (matcher, expected) in table {
            let found =
                [1, 2, 3].map(|value| held(Datum::Int(value), matcher.clone()) == Truth::Yes);
            assert_eq!(found, expected, "{matcher:?}");
        }
    }

    #[test]
    fn values_of_other_steps_can_be_referred_to_varying_ones_too() {
        assert_eq!(
            held(Datum::Int(2), Matcher::equal_to(refers("count"))),
            Truth::Yes
        );
        let less = Matcher {
            lt: Some(refers("free")),
            ..Matcher::default()
        };
        // Sums of memory that differ by less than 1 MiB are equal.
        assert_eq!(held(Datum::Int(100 - (1 << 20)), less.clone()), Truth::Yes);
        assert!(matches!(
            held(Datum::Int(101 - (1 << 20)), less),
            Truth::No(_)
        ));
        assert!(matches!(
            held(Datum::Int(2), Matcher::equal_to(refers("nothing"))),
            Truth::Unknown(_)
        ));
    }

    #[test]
    fn uuids_are_compared_by_plan_name() {
        let uuid = Matcher::equal_to(Operand::Text("GPU-1".into()));
        assert_eq!(held(Datum::Text("gpu1".into()), uuid.clone()), Truth::Yes);
        assert!(matches!(
            held(Datum::Text("gpu0".into()), uuid),
            Truth::No(_)
        ));
    }

    #[test]
    fn text_has_equality_and_no_order() {
        let at_least = Matcher {
            ge: Some(Operand::Text("a".into())),
            ..Matcher::default()
        };
        assert!(matches!(
            held(Datum::Text("b".into()), at_least),
            Truth::Unknown(_)
        ));
        let other = Matcher {
            ne: Some(Operand::Int(1)),
            ..Matcher::default()
        };
        assert_eq!(held(Datum::Text("NULL".into()), other), Truth::Yes);
        assert_eq!(
            held(Datum::Text("1".into()), Matcher::equal_to(Operand::Int(1))),
            Truth::Yes
        );
        assert_eq!(
            held(Datum::Float(1.0), Matcher::equal_to(Operand::Int(1))),
            Truth::Yes
        );
    }
}
