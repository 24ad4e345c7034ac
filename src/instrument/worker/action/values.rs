//! The inputs of an action, and its results.

use std::collections::BTreeMap;

use cuda_pitfalls_calls::SIGNALS;

use cuda_pitfalls_core::event::Value;
use cuda_pitfalls_core::scenario::{Scalar, Step};

/// The values that a step returns, by name.
pub(in crate::worker) type Values = BTreeMap<String, Value>;

pub(super) fn value(name: &str, value: i64) -> Values {
    Values::from([(name.to_string(), Value::Int(value))])
}

pub(super) fn int_argument(step: &Step, name: &str) -> Option<i64> {
    match step.args.get(name)? {
        Scalar::Int(value) => Some(*value),
        Scalar::Text(text) => text.parse().ok().or_else(|| SIGNALS.value(text)),
        Scalar::List(_) => None,
    }
}

pub(super) fn text(step: &Step, name: &str) -> String {
    step.args
        .get(name)
        .map(ToString::to_string)
        .unwrap_or_default()
}
