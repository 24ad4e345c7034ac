//! Contexts as entries.

use super::build::Builder;
use super::{EntryKind, TraceEntry, shown};
use crate::trace::place;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::{Beside, ContextChange, EventKind, Trace, TraceEvent};

/// A change of another GPU's memory that is worth a word, in bytes.
const NOTABLE_BYTES: u64 = 2 << 20;

impl<'a> Builder<'_, 'a> {
    pub(super) fn context(&mut self, index: usize, event: &'a TraceEvent, change: ContextChange, primary: bool) {
        let gpu = place::gpu(self.history.trace, event);
        let verb = match change {
            ContextChange::Made => return self.made(index, event, primary),
            ContextChange::Failed => {
                let label = format!("no context on {gpu}: {}", place::returned(event));
                return self.push(EntryKind::Context, label, index, event);
            }
            change => ended(change),
        };
        if self.ends.contains(&std::ptr::from_ref(event)) && !self.wanted.contains(&index) {
            // The entry of the context says that it ended.
            return;
        }
        self.push(EntryKind::Context, format!("context on {gpu} {verb}"), index, event);
    }

    fn made(&mut self, index: usize, event: &'a TraceEvent, primary: bool) {
        let Some(life) = self.lives.get(&index) else { return };
        let label = if life.is_unused() { "context, never used afterwards" } else { "context" };
        let mut entry = TraceEntry::new(EntryKind::Context, label.to_owned(), index, event);
        entry.gpu = Some(place::gpu(self.history.trace, event));
        entry.bytes = life.bytes;
        if !primary {
            entry.details.push("not the primary context of its GPU".to_owned());
        }
        if let Some((end, EventKind::Context { change, .. })) = life.ended.map(|end| (end, &end.what)) {
            let at = place::place(self.history.trace, end).map(|place| format!(" by {}", shown(&place)));
            entry.details.push(format!("{}{}", ended(*change), at.unwrap_or_default()));
        }
        entry.details.extend(memory_details(self.history.trace, event, life.beside));
        self.entries.all.push(entry);
    }
}

/// What else changed memory while a context was made.
fn memory_details(trace: &Trace, event: &TraceEvent, beside: Beside) -> Vec<String> {
    let own = trace.gpu_index(event.gpu.as_deref());
    let grown = own.and_then(|own| event.memory_bytes.get(own).copied().flatten());
    let grown = grown.map_or_else(String::new, |grown| format!(": {} in total", units::delta(grown)));
    let mut details: Vec<String> = match beside {
        Beside::Nobody => Vec::new(),
        Beside::Context => vec![format!("another context was created or destroyed there at the same time{grown}")],
        Beside::Process => vec![format!("another process changed the GPU's memory at the same time{grown}")],
    };
    for (gpu, bytes) in event.memory_bytes.iter().enumerate().filter(|(gpu, _)| Some(*gpu) != own) {
        if let Some(bytes) = bytes.filter(|bytes| bytes.unsigned_abs() >= NOTABLE_BYTES) {
            details.push(format!("at the same time GPU {gpu} {}", units::delta(bytes)));
        }
    }
    details
}

fn ended(change: ContextChange) -> &'static str {
    match change {
        ContextChange::Reset => "reset",
        ContextChange::Destroyed => "destroyed",
        _ => "released",
    }
}
