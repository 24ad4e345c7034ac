//! The entry of a `cuInit`: that it began, what it read, and what it returned.

use super::build::Builder;
use super::{EntryKind, TraceEntry};
use crate::trace::place;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_trace::history::{Init, MASK};
use cuda_pitfalls_trace::{EventKind, Trace, TraceEvent};

impl<'a> Builder<'_, 'a> {
    pub(super) fn init(&mut self, index: usize, event: &'a TraceEvent) {
        let Some((number, init)) = self.inits.get(&index).copied() else { return };
        let Some(program) = self.history.programs.get(number) else { return };
        let counting = program.init().filter(|counting| counting.has_succeeded());
        if counting.is_some_and(|counting| counting.events.first() < init.events.first()) {
            // After one that succeeded it changes nothing.
            return match event.what {
                EventKind::Init { .. } => self.minor("later cuInit", index, event),
                _ if self.wanted.contains(&index) => self.minor("", index, event),
                _ => {}
            };
        }
        if init.events.first() != Some(&index) {
            return;
        }
        if program.init().is_some_and(|counting| std::ptr::eq(counting, init)) {
            self.counting.insert(number, self.entries.all.len());
        }
        self.entries.all.push(entry(self.history.trace, index, init));
    }
}

fn entry(trace: &Trace, index: usize, init: &Init<'_>) -> TraceEntry {
    let mut entry = TraceEntry::new(EntryKind::Init, label(init), index, init.first);
    entry.events.clone_from(&init.events);
    let has_stack = |index: &&usize| trace.events.get(**index).is_some_and(|event| !event.stack.frames.is_empty());
    entry.first = init.events.iter().find(has_stack).copied().unwrap_or(index);
    let others = init.variables().into_iter().flatten();
    let others = others.filter(|(name, _)| *name != MASK && cuda_pitfalls_fake::is_of_cuda(name.as_bytes()));
    let others: Vec<String> =
        others.map(|(name, value)| format!("{}={}", place::short(name), place::short(value))).collect();
    if !others.is_empty() {
        entry.details.push(format!("with {}", others.join(", ")));
    }
    if let Some((visible, gpus)) = init.visible() {
        let has_mask = init.value(MASK).flatten().is_some();
        let is_notable = has_mask || visible as usize != trace.start.gpus.len();
        entry.details.extend(is_notable.then(|| sees(trace, visible, gpus)));
    } else if let Some((_, returned)) = init.returned {
        entry.details.push(format!("cuInit returned {}", place::returned(returned)));
    }
    entry
}

fn label(init: &Init<'_>) -> String {
    match init.value(MASK) {
        Some(mask) if init.has_read_mask() => format!("{MASK} was read as {}", place::value(mask)),
        Some(mask) => format!("cuInit with {MASK} {}", place::value(mask)),
        None => "cuInit".to_owned(),
    }
}

/// Which GPUs a process sees, in its own order.
fn sees(trace: &Trace, visible: u32, gpus: &[String]) -> String {
    const MOST: usize = 8;
    let known =
        |uuid: &String| trace.gpu_index(Some(uuid)).map_or_else(|| place::short(uuid), |at| format!("GPU {at}"));
    let mut names: Vec<String> = gpus.iter().take(MOST).map(known).collect();
    if gpus.len() > MOST {
        names.push("…".to_owned());
    }
    match (visible, names.is_empty()) {
        (0, _) => "the process sees no GPU".to_owned(),
        (_, true) => format!("the process sees {}", counted(u64::from(visible), "GPU")),
        (1, false) => format!("the process sees {}", names.join(", ")),
        (_, false) => format!("the process sees {}: {}", counted(u64::from(visible), "GPU"), names.join(", ")),
    }
}
