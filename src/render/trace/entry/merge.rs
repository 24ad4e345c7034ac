//! Entries that are told together.

use super::{Late, TraceEntry, late_write};
use crate::trace::place;
use cuda_pitfalls_core::text::counts::group_by_key;
use cuda_pitfalls_trace::History;

/// Equal entries as one. The first one's time and stack stand for all.
pub(super) fn merge_entries(history: &History, all: Vec<TraceEntry>) -> Vec<TraceEntry> {
    let trace = history.trace;
    let keyed = all.into_iter().map(|entry| {
        let chain = trace
            .events
            .get(entry.first)
            .map(|event| place::chain(event).join("\n"));
        let late: Vec<String> = entry
            .late
            .iter()
            .map(|late| {
                late_write(
                    trace,
                    &Late {
                        event: late.event,
                        after_ns: 0,
                    },
                )
            })
            .collect();
        let key = [
            format!("{:?} {}", entry.kind, entry.label),
            entry.gpu.clone().unwrap_or_default(),
            chain.unwrap_or_default(),
            entry.details.join("\n"),
            late.join("\n"),
        ];
        (key.join("\0"), entry)
    });
    let merged = group_by_key(keyed).into_iter().filter_map(|(_, alike)| {
        let mut merged = alike.into_iter().reduce(|mut known, entry| {
            known.times += 1;
            known.bytes = known
                .bytes
                .zip(entry.bytes)
                .map(|(a, b)| a.saturating_add(b));
            known.events.extend(entry.events);
            known.pids.extend(entry.pids);
            known
        })?;
        merged.pids.sort_unstable();
        merged.pids.dedup();
        Some(merged)
    });
    merged.collect()
}
