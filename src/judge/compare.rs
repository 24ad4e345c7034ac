//! Comparing one value with what a file says, in words.

use std::cmp::Ordering;

use crate::event::Value;
use crate::observe::Observation;
use crate::plan::Plan;
use crate::scenario::{Matcher, Operand};
use crate::verdict::Reason;

/// One fact held against one predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It is so.
    Yes,
    /// It is not so: what is, and what should be.
    No(String),
    /// It is not so, of memory.
    NoOfMemory(String),
    /// It could not be told, and why.
    Unknown(String),
    /// Other processes on the GPUs, or an instrument that was not sound, keep it from being told.
    Unobservable(Reason, String),
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
    /// UUIDs are compared by plan name, because that is how observations hold them.
    fn text(plan: &Plan, text: &str) -> Datum {
        Datum::Text(plan.gpu_name(text).unwrap_or_else(|| text.to_string()))
    }

    pub(super) fn value(plan: &Plan, value: &Value) -> Datum {
        match value {
            Value::Int(value) => Datum::Int(i128::from(*value)),
            Value::Float(value) => Datum::Float(*value),
            Value::Text(text) => Datum::text(plan, text),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            // Only compared with a float, which is no more exact itself.
            Datum::Int(value) => Some(*value as f64),
            Datum::Float(value) => Some(*value),
            Datum::Text(_) => None,
        }
    }

    /// The order of two values; none where they have none.
    fn order(&self, other: &Datum) -> Option<Ordering> {
        match (self, other) {
            (Datum::Int(a), Datum::Int(b)) => Some(a.cmp(b)),
            // Text that is a number (from an environment variable, say) compares as one.
            (Datum::Text(text), Datum::Int(b)) => text.parse::<i128>().ok().map(|a| a.cmp(b)),
            (Datum::Int(a), Datum::Text(text)) => text.parse::<i128>().ok().map(|b| a.cmp(&b)),
            (Datum::Text(a), Datum::Text(b)) if a == b => Some(Ordering::Equal),
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

/// Holds a value against every bound of a matcher. `subject` names the value in the words.
pub(super) fn compare(
    subject: &str,
    actual: &Datum,
    matcher: &Matcher,
    plan: &Plan,
    observation: &Observation,
) -> Held {
    let mut expected = Vec::new();
    let mut fails = false;
    for (word, operand) in matcher.bounds() {
        let bound = match resolve(operand, plan, observation) {
            Ok(bound) => bound,
            Err(why) => return Held::Unknown(why),
        };
        let order = actual.order(&bound);
        let holds = match word {
            "=" => order == Some(Ordering::Equal),
            "not" => order != Some(Ordering::Equal),
            _ => {
                let Some(order) = order else {
                    return Held::Unknown(format!("{subject} is {actual}, which has no order with {bound}"));
                };
                match word {
                    "at least" => order.is_ge(),
                    "at most" => order.is_le(),
                    "more than" => order.is_gt(),
                    _ => order.is_lt(),
                }
            }
        };
        fails |= !holds;
        expected.push(if word == "=" { bound.to_string() } else { format!("{word} {bound}") });
    }
    if fails { Held::No(format!("{subject} is {actual}, expected {}", expected.join(" and "))) } else { Held::Yes }
}

/// The other side of a comparison, which may be a value of another step.
fn resolve(operand: &Operand, plan: &Plan, observation: &Observation) -> Result<Datum, String> {
    match operand {
        Operand::Int(value) => Ok(Datum::Int(i128::from(*value))),
        Operand::Text(text) => Ok(Datum::text(plan, text)),
        Operand::Value { label, name } => {
            let step = observation.step(label).ok_or_else(|| format!("{label} was not reached"))?;
            let value = step.values.get(name).or_else(|| step.varying.get(name));
            value.map(|value| Datum::value(plan, value)).ok_or_else(|| format!("{label} gave no {name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::StepObservation;
    use crate::observe::fixture::plan;

    fn held(actual: Datum, matcher: Matcher) -> Held {
        let first = StepObservation {
            label: "first".into(),
            values: [("count".to_string(), Value::Int(2))].into(),
            varying: [("free".to_string(), Value::Int(100))].into(),
            ..StepObservation::default()
        };
        let observation = Observation { steps: vec![first], end: "0".into() };
        compare("count", &actual, &matcher, &plan(2, vec![]), &observation)
    }

    fn refers(name: &str) -> Operand {
        Operand::Value { label: "first".into(), name: name.into() }
    }

    #[test]
    fn every_bound_must_hold_and_the_words_say_which() {
        let between = Matcher { ge: Some(Operand::Int(1)), lt: Some(Operand::Int(3)), ..Matcher::default() };
        assert_eq!(held(Datum::Int(1), between.clone()), Held::Yes);
        let words = "count is 3, expected at least 1 and less than 3".to_string();
        assert_eq!(held(Datum::Int(3), between), Held::No(words));
        let words = "count is 2, expected 1".to_string();
        assert_eq!(held(Datum::Int(2), Matcher::equal(Operand::Int(1))), Held::No(words));
    }

    #[test]
    fn each_comparison_at_its_edge() {
        let two = || Some(Operand::Int(2));
        let none = Matcher::default;
        let table = [
            (Matcher { eq: two(), ..none() }, [false, true, false]),
            (Matcher { ne: two(), ..none() }, [true, false, true]),
            (Matcher { ge: two(), ..none() }, [false, true, true]),
            (Matcher { le: two(), ..none() }, [true, true, false]),
            (Matcher { gt: two(), ..none() }, [false, false, true]),
            (Matcher { lt: two(), ..none() }, [true, false, false]),
        ];
        for (matcher, expected) in table {
            let found = [1, 2, 3].map(|value| held(Datum::Int(value), matcher.clone()) == Held::Yes);
            assert_eq!(found, expected, "{matcher:?}");
        }
    }

    #[test]
    fn values_of_other_steps_can_be_referred_to_varying_ones_too() {
        assert_eq!(held(Datum::Int(2), Matcher::equal(refers("count"))), Held::Yes);
        let less = Matcher { lt: Some(refers("free")), ..Matcher::default() };
        assert_eq!(held(Datum::Int(99), less.clone()), Held::Yes);
        assert!(matches!(held(Datum::Int(100), less), Held::No(_)));
        assert!(matches!(held(Datum::Int(2), Matcher::equal(refers("nothing"))), Held::Unknown(_)));
    }

    #[test]
    fn uuids_are_compared_by_plan_name() {
        let uuid = Matcher::equal(Operand::Text("GPU-1".into()));
        assert_eq!(held(Datum::Text("gpu1".into()), uuid.clone()), Held::Yes);
        assert!(matches!(held(Datum::Text("gpu0".into()), uuid), Held::No(_)));
    }

    #[test]
    fn text_has_equality_and_no_order() {
        let at_least = Matcher { ge: Some(Operand::Text("a".into())), ..Matcher::default() };
        assert!(matches!(held(Datum::Text("b".into()), at_least), Held::Unknown(_)));
        let other = Matcher { ne: Some(Operand::Int(1)), ..Matcher::default() };
        assert_eq!(held(Datum::Text("NULL".into()), other), Held::Yes);
        assert_eq!(held(Datum::Text("1".into()), Matcher::equal(Operand::Int(1))), Held::Yes);
        assert_eq!(held(Datum::Float(1.0), Matcher::equal(Operand::Int(1))), Held::Yes);
    }
}
