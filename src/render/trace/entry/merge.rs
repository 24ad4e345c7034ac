//! Merging of entries that are shown together.

use super::{Late, TraceEntry, late_write};
use cuda_pitfalls_core::text::counts::group_by_key;

/// Returns the entries, with equal ones merged into one. The merged entry has the first one's time and stack.
pub(super) fn merge_entries(all: Vec<TraceEntry<'_>>) -> Vec<TraceEntry<'_>> {
    let keyed = all.into_iter().map(|entry| (entry_key(&entry), entry));
    let mut merged = Vec::new();
    for (_, alike) in group_by_key(keyed) {
        merged.extend(alike.into_iter().reduce(join_entries));
    }
    for entry in &mut merged {
        entry.pids.sort_unstable();
        entry.pids.dedup();
    }
    merged
}

/// Returns the key of an entry. Entries with the same key are shown together.
fn entry_key(entry: &TraceEntry<'_>) -> String {
    let mut key = vec![
        format!("{:?} {}", entry.kind, entry.label),
        entry.gpu.clone().unwrap_or_default(),
        entry.chain.join("\n"),
        entry.details.join("\n"),
    ];
    for late in &entry.late {
        key.push(late_write(&Late {
            after_ns: 0,
            ..late.clone()
        }));
    }
    key.join("\0")
}

fn join_entries<'a>(mut known: TraceEntry<'a>, entry: TraceEntry<'a>) -> TraceEntry<'a> {
    known.times += 1;
    known.bytes = match (known.bytes, entry.bytes) {
        (Some(bytes), Some(more)) => Some(bytes.saturating_add(more)),
        _ => None,
    };
    known.events.extend(entry.events);
    known.pids.extend(entry.pids);
    known
}
