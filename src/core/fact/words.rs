//! Words for results of calls and for observations, the same in every format.
//!
//! Nothing is escaped here; each format escapes its own output.

use std::collections::BTreeMap;

use crate::event::{Status, Value};
use crate::observation::MemoryObservation;
use crate::text::counts::listed;

/// Returns a status as its C name, or as its number if it has no name.
pub fn status(status: &Status) -> String {
    status
        .name
        .clone()
        .unwrap_or_else(|| format!("status {}", status.code))
}

/// Returns a value as a word.
pub fn value(value: &Value) -> String {
    match value {
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(value) => value.clone(),
    }
}

/// Returns the calls and their counts: `cuInit, cuDeviceGet ×2`, or `none`.
pub fn calls(made: &BTreeMap<String, u64>) -> String {
    listed(
        made.iter().map(|(name, n)| {
            if *n == 1 {
                name.clone()
            } else {
                format!("{name} ×{n}")
            }
        }),
        "none",
    )
}

/// Returns a list of GPUs: `gpu0,gpu1`, or `no GPU`.
pub fn gpus(names: &[String]) -> String {
    if names.is_empty() {
        "no GPU".to_owned()
    } else {
        names.join(",")
    }
}

/// Returns GPUs in numerical order; the map has `gpu10` before `gpu2`.
pub fn in_order(
    memory: &BTreeMap<String, MemoryObservation>,
) -> Vec<(&String, &MemoryObservation)> {
    let mut memory: Vec<_> = memory.iter().collect();
    memory.sort_by_key(|(gpu, _)| (gpu.len(), *gpu));
    memory
}
