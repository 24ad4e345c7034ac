//! What a call returned and what was seen around it, as words: the same in every format.
//!
//! Nothing is escaped here; each format escapes what it prints.

use std::collections::BTreeMap;

use crate::event::{Status, Value};
use crate::observation::MemoryObservation;

/// A status by its C name, or by its number where it has none.
pub fn status(status: &Status) -> String {
    status.name.clone().unwrap_or_else(|| format!("status {}", status.code))
}

/// A value as a word.
pub fn value(value: &Value) -> String {
    match value {
        Value::Int(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(value) => value.clone(),
    }
}

/// Calls with how often they were made: `cuInit, cuDeviceGet ×2`, or `none`.
pub fn calls(made: &BTreeMap<String, u64>) -> String {
    if made.is_empty() {
        return "none".to_owned();
    }
    let counted = |(name, count): (&String, &u64)| if *count == 1 { name.clone() } else { format!("{name} ×{count}") };
    made.iter().map(counted).collect::<Vec<_>>().join(", ")
}

/// A list of GPUs: `gpu0,gpu1`, or `no GPU`.
pub fn gpus(names: &[String]) -> String {
    if names.is_empty() { "no GPU".to_owned() } else { names.join(",") }
}

/// GPUs in the order of their numbers, which is not the order of the map past `gpu9`.
pub fn in_order(memory: &BTreeMap<String, MemoryObservation>) -> Vec<(&String, &MemoryObservation)> {
    let mut memory: Vec<_> = memory.iter().collect();
    memory.sort_by_key(|(gpu, _)| (gpu.len(), *gpu));
    memory
}
