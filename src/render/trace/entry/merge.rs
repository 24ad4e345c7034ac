//! Equal entries as one.

use std::collections::HashMap;

use super::{Late, TraceEntry, late_write};
use crate::trace::place;
use cuda_pitfalls_trace::History;

/// Equal entries as one. The first one's time and stack stand for all.
pub(super) fn merged(history: &History, all: Vec<TraceEntry>) -> Vec<TraceEntry> {
    let trace = history.trace;
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<TraceEntry> = Vec::new();
    for entry in all {
        let chain =
            |event: usize| trace.events.get(event).map(|event| place::chain(event).join("\n")).unwrap_or_default();
        let late: Vec<String> =
            entry.late.iter().map(|late| late_write(trace, &Late { event: late.event, after_ns: 0 })).collect();
        let key = [
            format!("{:?} {}", entry.kind, entry.label),
            entry.gpu.clone().unwrap_or_default(),
            chain(entry.first),
            entry.details.join("\n"),
            late.join("\n"),
        ];
        let known = places.get(&key.join("\0")).and_then(|place| merged.get_mut(*place));
        match known {
            Some(known) => {
                known.times += 1;
                known.bytes = known.bytes.zip(entry.bytes).map(|(a, b)| a.saturating_add(b));
                known.events.extend(entry.events);
                known.pids.extend(entry.pids);
            }
            None => {
                places.insert(key.join("\0"), merged.len());
                merged.push(entry);
            }
        }
    }
    for entry in &mut merged {
        entry.pids.sort_unstable();
        entry.pids.dedup();
    }
    merged
}
