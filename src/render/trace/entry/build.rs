//! From events to entries.

use std::collections::{HashMap, HashSet};

use super::{Entries, EntryKind, Late, TraceEntry, shown};
use crate::trace::place;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::history::{ContextLife, Init, MASK, is_read_by_cuinit};
use cuda_pitfalls_trace::{
    Beside, ContextChange, EventKind, GpuUse, History, NOT_READY, Trace, TraceEvent,
};

/// A change of another GPU's memory that is worth a word, in bytes.
const NOTABLE_BYTES: u64 = 2 << 20;

pub(super) struct Builder<'h, 'a> {
    history: &'h History<'a>,
    /// Each context by the event that made it.
    lives: HashMap<usize, &'h ContextLife<'a>>,
    /// The events that end a context, which its entry tells.
    ends: HashSet<*const TraceEvent>,
    /// The `cuInit` that an event belongs to, with the program's index.
    inits: HashMap<usize, (usize, &'h Init<'a>)>,
    /// The entry of the `cuInit` that counts, by program.
    counting: HashMap<usize, usize>,
    /// The last failed call of each thread.
    failed: HashMap<(u32, u32), (&'a str, Option<i64>)>,
    /// Events that have an entry whatever they are.
    wanted: HashSet<usize>,
    entries: Entries,
}

impl<'h, 'a> Builder<'h, 'a> {
    pub(super) fn new(history: &'h History<'a>, wanted: HashSet<usize>) -> Builder<'h, 'a> {
        let mut inits = HashMap::new();
        for (number, program) in history.programs.iter().enumerate() {
            for init in &program.inits {
                inits.extend(init.events.iter().map(|event| (*event, (number, init))));
            }
        }
        Builder {
            history,
            lives: history
                .contexts
                .iter()
                .map(|life| (life.event, life))
                .collect(),
            ends: history
                .contexts
                .iter()
                .filter_map(|life| life.ended.map(std::ptr::from_ref))
                .collect(),
            inits,
            counting: HashMap::new(),
            failed: HashMap::new(),
            wanted,
            entries: Entries::default(),
        }
    }

    /// The entries of all events, in the order of time.
    pub(super) fn entries(mut self) -> Entries {
        for (index, event) in self.history.trace.events.iter().enumerate() {
            self.event(index, event);
        }
        self.entries
    }

    fn event(&mut self, index: usize, event: &'a TraceEvent) {
        let is_repeated = self.repeats_failure(event);
        match &event.what {
            EventKind::Init { .. } | EventKind::MaskRead { .. } | EventKind::InitDone { .. } => {
                self.init(index, event)
            }
            EventKind::Variable { .. } => self.variable(index, event),
            EventKind::Context {
                change, primary, ..
            } => self.context(index, event, *change, *primary),
            EventKind::HostMemory { bytes } => {
                let label = format!("page-locked host memory, {}", units::bytes(*bytes));
                self.push(EntryKind::HostMemory, label, index, event);
            }
            EventKind::Limit {
                limit,
                value,
                after_launch,
            } => {
                self.push(
                    EntryKind::Limit,
                    limit_label(event, *limit, *value, *after_launch),
                    index,
                    event,
                );
            }
            EventKind::Forked { parent, contexts } => {
                let contexts = match contexts {
                    0 => "no context".to_owned(),
                    many => counted(u64::from(*many), "context"),
                };
                let label =
                    format!("forked after cuInit: the parent, pid {parent}, has {contexts}");
                self.push(EntryKind::Fork, label, index, event);
            }
            EventKind::Peer => self.push(
                EntryKind::Sharing,
                format!("peer access: {}", place::shorten_place(&event.call)),
                index,
                event,
            ),
            EventKind::Ipc => {
                let label = format!(
                    "handle between processes: {}",
                    place::shorten_place(&event.call)
                );
                self.push(EntryKind::Sharing, label, index, event);
            }
            EventKind::Error if is_repeated && !self.wanted.contains(&index) => {}
            EventKind::Error if event.status == Some(NOT_READY) => {
                self.add_minor("call not ready", index, event)
            }
            EventKind::Error => {
                let label = format!(
                    "{} returned {}",
                    place::shorten_place(&event.call),
                    place::returned(event)
                );
                self.push(EntryKind::Error, label, index, event);
            }
            EventKind::FirstUse { .. } => self.add_minor("first use of a GPU", index, event),
            EventKind::Module => self.add_minor("module loaded", index, event),
        }
    }

    /// Whether the last call of this thread was the same and failed alike.
    fn repeats_failure(&mut self, event: &'a TraceEvent) -> bool {
        let (thread, call) = ((event.pid, event.tid), (event.call.as_str(), event.status));
        let is_repeated = self.failed.get(&thread) == Some(&call);
        if event.status.is_some_and(|status| status != 0) {
            self.failed.insert(thread, call);
        } else {
            self.failed.remove(&thread);
        }
        is_repeated
    }

    fn push(&mut self, kind: EntryKind, label: String, index: usize, event: &TraceEvent) {
        self.entries
            .all
            .push(TraceEntry::new(kind, label, index, event));
    }

    /// Counts an event that is of no importance by itself.
    fn add_minor(&mut self, sort: &'static str, index: usize, event: &TraceEvent) {
        if !self.wanted.contains(&index) {
            *self.entries.summed.entry(sort).or_default() += 1;
            return;
        }
        let label = match event.what {
            EventKind::FirstUse { usage } => {
                let usage = match usage {
                    GpuUse::Launch => "launch",
                    GpuUse::Copy => "copy",
                    GpuUse::Allocation => "allocation",
                };
                format!("first {usage} on {}", place::gpu(self.history.trace, event))
            }
            EventKind::Variable { ref name, .. } => {
                format!("{} written", place::shorten_place(name))
            }
            _ => place::shorten_place(&event.call),
        };
        self.push(EntryKind::Other, label, index, event);
    }

    fn init(&mut self, index: usize, event: &'a TraceEvent) {
        let Some((number, init)) = self.inits.get(&index).copied() else {
            return;
        };
        let Some(program) = self.history.programs.get(number) else {
            return;
        };
        let counting = program.init().filter(|counting| counting.has_succeeded());
        if counting.is_some_and(|counting| counting.events.first() < init.events.first()) {
            // After one that succeeded it changes nothing.
            return match event.what {
                EventKind::Init { .. } => self.add_minor("later cuInit", index, event),
                _ if self.wanted.contains(&index) => self.add_minor("", index, event),
                _ => {}
            };
        }
        if init.events.first() != Some(&index) {
            return;
        }
        if program
            .init()
            .is_some_and(|counting| std::ptr::eq(counting, init))
        {
            self.counting.insert(number, self.entries.all.len());
        }
        self.entries
            .all
            .push(init_entry(self.history.trace, index, init));
    }

    fn variable(&mut self, index: usize, event: &'a TraceEvent) {
        let Some(write) = self.history.write(index) else {
            return;
        };
        let entry = self
            .counting
            .get(&write.program)
            .and_then(|place| self.entries.all.get_mut(*place));
        match (write.after_init_ns, entry) {
            (Some(after_ns), Some(entry)) if write.is_late() => {
                entry.events.push(index);
                entry.late.push(Late {
                    event: index,
                    after_ns,
                });
            }
            (Some(_), _) if is_read_by_cuinit(write.name) && write.differs == Some(false) => {
                self.add_minor("write of the value that cuInit had read", index, event);
            }
            (after_init, _) => {
                let after = if after_init.is_some() {
                    ", after cuInit"
                } else {
                    ""
                };
                self.push(
                    EntryKind::Variable,
                    format!("{}{after}", written(event)),
                    index,
                    event,
                );
            }
        }
    }

    fn context(
        &mut self,
        index: usize,
        event: &'a TraceEvent,
        change: ContextChange,
        primary: bool,
    ) {
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
        self.push(
            EntryKind::Context,
            format!("context on {gpu} {verb}"),
            index,
            event,
        );
    }

    fn made(&mut self, index: usize, event: &'a TraceEvent, primary: bool) {
        let Some(life) = self.lives.get(&index) else {
            return;
        };
        let label = if life.is_unused() {
            "context, never used afterwards"
        } else {
            "context"
        };
        let mut entry = TraceEntry::new(EntryKind::Context, label.to_owned(), index, event);
        entry.gpu = Some(place::gpu(self.history.trace, event));
        entry.bytes = life.bytes;
        if !primary {
            entry
                .details
                .push("not the primary context of its GPU".to_owned());
        }
        if let Some((end, EventKind::Context { change, .. })) =
            life.ended.map(|end| (end, &end.what))
        {
            let at = place::place(self.history.trace, &end.stack)
                .map(|place| format!(" by {}", shown(&place)));
            entry
                .details
                .push(format!("{}{}", ended(*change), at.unwrap_or_default()));
        }
        entry
            .details
            .extend(memory_details(self.history.trace, event, life.beside));
        self.entries.all.push(entry);
    }
}

fn limit_label(event: &TraceEvent, limit: i32, value: u64, after_launch: bool) -> String {
    let (name, value) = place::limit(limit, value);
    let after = if after_launch { ", after a launch" } else { "" };
    match event.status.filter(|status| *status != 0) {
        None => format!("{name} set to {value}{after}"),
        Some(status) => format!(
            "{name} not set to {value}{after}: {}",
            place::status(status)
        ),
    }
}

fn init_entry(trace: &Trace, index: usize, init: &Init<'_>) -> TraceEntry {
    let mut entry = TraceEntry::new(EntryKind::Init, init_label(init), index, init.first);
    entry.events.clone_from(&init.events);
    let mut events = init.events.iter().copied();
    let with_stack = events.find(|index| {
        trace
            .events
            .get(*index)
            .is_some_and(|it| !it.stack.frames.is_empty())
    });
    entry.first = with_stack.unwrap_or(index);
    let others = init.variables().into_iter().flatten();
    let others =
        others.filter(|(name, _)| *name != MASK && cuda_pitfalls_fake::is_of_cuda(name.as_bytes()));
    let others: Vec<String> = others
        .map(|(name, value)| {
            format!(
                "{}={}",
                place::shorten_place(name),
                place::shorten_place(value)
            )
        })
        .collect();
    if !others.is_empty() {
        entry.details.push(format!("with {}", others.join(", ")));
    }
    if let Some((visible, gpus)) = init.visible() {
        let has_mask = init.value(MASK).flatten().is_some();
        let is_notable = has_mask || visible as usize != trace.start.gpus.len();
        entry
            .details
            .extend(is_notable.then(|| visible_gpus(trace, visible, gpus)));
    } else if let Some((_, returned)) = init.returned {
        entry
            .details
            .push(format!("cuInit returned {}", place::returned(returned)));
    }
    entry
}

fn init_label(init: &Init<'_>) -> String {
    match init.value(MASK) {
        Some(mask) if init.has_read_mask() => format!("{MASK} was read as {}", place::value(mask)),
        Some(mask) => format!("cuInit with {MASK} {}", place::value(mask)),
        None => "cuInit".to_owned(),
    }
}

/// Which GPUs a process sees, in its own order.
fn visible_gpus(trace: &Trace, visible: u32, gpus: &[String]) -> String {
    const MOST: usize = 8;
    let known = |uuid: &String| {
        trace
            .gpu_index(Some(uuid))
            .map_or_else(|| place::shorten_place(uuid), |at| format!("GPU {at}"))
    };
    let mut names: Vec<String> = gpus.iter().take(MOST).map(known).collect();
    if gpus.len() > MOST {
        names.push("…".to_owned());
    }
    match (visible, names.is_empty()) {
        (0, _) => "the process sees no GPU".to_owned(),
        (_, true) => format!("the process sees {}", counted(u64::from(visible), "GPU")),
        (1, false) => format!("the process sees {}", names.join(", ")),
        (_, false) => format!(
            "the process sees {}: {}",
            counted(u64::from(visible), "GPU"),
            names.join(", ")
        ),
    }
}

/// What a write of a variable did: `CUDA_VISIBLE_DEVICES set to 1`.
fn written(event: &TraceEvent) -> String {
    let EventKind::Variable {
        name,
        before,
        value,
    } = &event.what
    else {
        return String::new();
    };
    let was = before
        .as_deref()
        .map(|before| format!(" (was {})", place::value(Some(before))))
        .unwrap_or_default();
    match value {
        Some(value) => format!(
            "{} set to {}{was}",
            place::shorten_place(name),
            place::value(Some(value))
        ),
        None => format!("{} removed{was}", place::shorten_place(name)),
    }
}

/// What else changed memory while a context was made.
fn memory_details(trace: &Trace, event: &TraceEvent, beside: Beside) -> Vec<String> {
    let own = trace.gpu_index(event.gpu.as_deref());
    let grown = own.and_then(|own| event.memory_bytes.get(own).copied().flatten());
    let grown = grown.map_or_else(String::new, |grown| {
        format!(": {} in total", units::format_delta(grown))
    });
    let mut details: Vec<String> = match beside {
        Beside::Nobody => Vec::new(),
        Beside::Context => vec![format!(
            "another context was created or destroyed there at the same time{grown}"
        )],
        Beside::Process => vec![format!(
            "another process changed the GPU's memory at the same time{grown}"
        )],
    };
    for (gpu, bytes) in event
        .memory_bytes
        .iter()
        .enumerate()
        .filter(|(gpu, _)| Some(*gpu) != own)
    {
        if let Some(bytes) = bytes.filter(|bytes| bytes.unsigned_abs() >= NOTABLE_BYTES) {
            details.push(format!(
                "at the same time GPU {gpu} {}",
                units::format_delta(bytes)
            ));
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
