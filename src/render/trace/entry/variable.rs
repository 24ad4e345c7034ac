//! Writes of variables: as entries, or below the `cuInit` that they missed.

use super::EntryKind;
use super::build::Builder;
use crate::trace::place;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::history::is_read_by_cuinit;
use cuda_pitfalls_trace::{EventKind, Trace, TraceEvent};

/// A write of a variable that came too late for a `cuInit`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::trace) struct Late {
    /// The event.
    pub(in crate::trace) event: usize,
    /// How long after `cuInit` had read the variable.
    pub(in crate::trace) after_ns: u64,
}

impl<'a> Builder<'_, 'a> {
    pub(super) fn variable(&mut self, index: usize, event: &'a TraceEvent) {
        let Some(write) = self.history.write(index) else { return };
        let entry = self.counting.get(&write.program).and_then(|place| self.entries.all.get_mut(*place));
        match (write.after_init_ns, entry) {
            (Some(after_ns), Some(entry)) if write.is_late() => {
                entry.events.push(index);
                entry.late.push(Late { event: index, after_ns });
            }
            (Some(_), _) if is_read_by_cuinit(write.name) && write.differs == Some(false) => {
                self.minor("write of the value that cuInit had read", index, event);
            }
            (after_init, _) => {
                let after = if after_init.is_some() { ", after cuInit" } else { "" };
                self.push(EntryKind::Variable, format!("{}{after}", written(event)), index, event);
            }
        }
    }
}

/// What a write of a variable did: `CUDA_VISIBLE_DEVICES set to 1`.
fn written(event: &TraceEvent) -> String {
    let EventKind::Variable { name, before, value } = &event.what else { return String::new() };
    let was = before.as_deref().map(|before| format!(" (was {})", place::value(Some(before)))).unwrap_or_default();
    match value {
        Some(value) => format!("{} set to {}{was}", place::short(name), place::value(Some(value))),
        None => format!("{} removed{was}", place::short(name)),
    }
}

/// `train.py:31 sets CUDA_VISIBLE_DEVICES=1, 410 ms too late: no effect`.
pub(in crate::trace) fn late_write(trace: &Trace, late: &Late) -> String {
    let Some(event) = trace.events.get(late.event) else { return String::new() };
    let EventKind::Variable { name, value, .. } = &event.what else { return String::new() };
    // As in chains, the file's name alone.
    let line = event.stack.users().and_then(cuda_pitfalls_trace::Frame::line);
    let who = line.map_or_else(|| format!("pid {}", event.pid), |line| place::short(&line));
    let does = match value {
        Some(value) if value.is_empty() => format!("sets {} to nothing", place::short(name)),
        Some(value) => format!("sets {}={}", place::short(name), place::short(value)),
        None => format!("removes {}", place::short(name)),
    };
    format!("{who} {does}, {} too late: no effect", units::duration(late.after_ns))
}
