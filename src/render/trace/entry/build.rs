//! From events to entries.

use std::collections::{HashMap, HashSet};

use super::{Entries, EntryKind, Late, TraceEntry, line_words};
use crate::trace::place;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::history::{ContextLife, Init, MASK, is_read_by_cuinit};
use cuda_pitfalls_trace::{
    ConcurrentChange, ContextChange, EventKind, GpuUse, History, NOT_READY, Trace, TraceEvent,
};

/// Minimum change of another GPU's memory that is mentioned, in bytes.
const NOTABLE_BYTES: u64 = 2 << 20;

pub(super) struct Builder<'h, 'a> {
    history: &'h History<'a>,
    /// Each context by the event that created it.
    lives: HashMap<usize, &'h ContextLife<'a>>,
    /// The events that end a context, which the context's entry mentions.
    ends: HashSet<*const TraceEvent>,
    /// The `cuInit` that an event belongs to, with the program's index.
    inits: HashMap<usize, (usize, &'h Init<'a>)>,
    /// The entry of the `cuInit` that counts, by program.
    counting: HashMap<usize, usize>,
    /// The last failed call of each thread.
    failed: HashMap<(u32, u32), (&'a str, Option<i64>)>,
    /// Events that have an entry regardless of their kind.
    wanted: HashSet<usize>,
    entries: Entries<'a>,
}

impl<'h, 'a> Builder<'h, 'a> {
    pub(super) fn new(history: &'h History<'a>, wanted: HashSet<usize>) -> Builder<'h, 'a> {
        let mut inits = HashMap::new();
        for (number, program) in history.programs.iter().enumerate() {
            for init in &program.inits {
                inits.extend(init.events.iter().map(|event| (*event, (number, init))));
            }
        }
        let (mut lives, mut ends) = (HashMap::new(), HashSet::new());
        for life in &history.contexts {
            lives.insert(life.event, life);
            ends.extend(life.ended.map(std::ptr::from_ref));
        }
        Builder {
            history,
            lives,
            ends,
            inits,
            counting: HashMap::new(),
            failed: HashMap::new(),
            wanted,
            entries: Entries::default(),
        }
    }

    /// Returns the entries of all events, in the order of time.
    pub(super) fn entries(mut self) -> Entries<'a> {
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
            EventKind::Error if is_repeated && !self.wanted.contains(&index) => {}
            EventKind::Error if event.status == Some(NOT_READY) => {
                self.add_minor("call not ready", index, event)
            }
            EventKind::FirstUse { .. } => self.add_minor("first use of a GPU", index, event),
            EventKind::Module => self.add_minor("module loaded", index, event),
            _ => {
                if let Some((kind, label)) = plain_entry(event) {
                    self.push(kind, label, index, event);
                }
            }
        }
    }

    /// Returns `true` if the last call of this thread was the same and failed in the same way.
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

    fn push(&mut self, kind: EntryKind, label: String, index: usize, event: &'a TraceEvent) {
        self.entries
            .all
            .push(TraceEntry::new(kind, label, index, event));
    }

    /// Counts an event that is of no importance by itself.
    fn add_minor(&mut self, sort: &'static str, index: usize, event: &'a TraceEvent) {
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
        if let Some(counting) = program.init()
            && counting.has_succeeded()
            && counting.events.first() < init.events.first()
        {
            // After a `cuInit` that succeeded, a later one changes nothing.
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
        let place = self.counting.get(&write.program);
        let entry = place.and_then(|place| self.entries.all.get_mut(*place));
        match (write.after_init_ns, entry) {
            (Some(after_ns), Some(entry)) if write.is_late() => {
                entry.events.push((index, event));
                entry.late.push(Late {
                    event: index,
                    write: event,
                    after_ns,
                });
            }
            (Some(_), _) if is_read_by_cuinit(write.name) && write.differs == Some(false) => {
                self.add_minor("write of the same value", index, event);
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
            // The entry of the context shows that it ended.
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
            let ended = ended(*change);
            let by = place::place(self.history.trace, &end.stack);
            entry.details.push(match by {
                Some(line) => format!("{ended} by {}", line_words(&line)),
                None => ended.to_owned(),
            });
        }
        entry
            .details
            .extend(memory_details(self.history.trace, event, life.concurrent));
        self.entries.all.push(entry);
    }
}

/// Returns the kind and the text of an event that is shown by itself.
fn plain_entry(event: &TraceEvent) -> Option<(EntryKind, String)> {
    let call = place::shorten_place(&event.call);
    Some(match &event.what {
        EventKind::HostMemory { bytes } => {
            let size = units::bytes(*bytes);
            (EntryKind::HostMemory, format!("pinned host memory, {size}"))
        }
        EventKind::Limit {
            limit,
            value,
            after_launch,
        } => (
            EntryKind::Limit,
            limit_label(event, *limit, *value, *after_launch),
        ),
        EventKind::Forked { parent, contexts } => {
            let contexts = match contexts {
                0 => "no context".to_owned(),
                many => counted(u64::from(*many), "context"),
            };
            let label = format!("forked after cuInit: the parent, pid {parent}, has {contexts}");
            (EntryKind::Fork, label)
        }
        EventKind::Peer => (EntryKind::Sharing, format!("peer access: {call}")),
        EventKind::Ipc => (
            EntryKind::Sharing,
            format!("handle between processes: {call}"),
        ),
        EventKind::Error => {
            let returned = place::returned(event);
            (EntryKind::Error, format!("{call} returned {returned}"))
        }
        _ => return None,
    })
}

fn limit_label(event: &TraceEvent, limit: i32, value: u64, after_launch: bool) -> String {
    let (name, value) = place::limit(limit, value);
    let after = if after_launch { ", after a launch" } else { "" };
    match event.status {
        None | Some(0) => format!("{name} set to {value}{after}"),
        Some(status) => {
            let status = place::status(status);
            format!("{name} not set to {value}{after}: {status}")
        }
    }
}

fn init_entry<'a>(trace: &'a Trace, index: usize, init: &Init<'a>) -> TraceEntry<'a> {
    let mut entry = TraceEntry::new(EntryKind::Init, init_label(init), index, init.first);
    entry.t_ns = init.t_ns();
    entry.events.clear();
    for index in &init.events {
        let event = trace.events.get(*index);
        entry.events.extend(event.map(|event| (*index, event)));
    }
    let mut events = entry.events.iter();
    if let Some((_, event)) = events.find(|(_, event)| !event.stack.frames.is_empty()) {
        entry.shown_event = event;
        entry.chain = place::chain(event);
    }
    let mut others = Vec::new();
    for (name, value) in init.variables().into_iter().flatten() {
        if name != MASK && cuda_pitfalls_fake::is_of_cuda(name.as_bytes()) {
            let [name, value] = [name, value].map(|text| place::shorten_place(text));
            others.push(format!("{name}={value}"));
        }
    }
    if !others.is_empty() {
        entry.details.push(format!("with {}", others.join(", ")));
    }
    if let Some((visible, gpus)) = init.visible() {
        let has_mask = init.value(MASK).flatten().is_some();
        if has_mask || visible as usize != trace.start.gpus.len() {
            entry.details.push(visible_gpus(trace, visible, gpus));
        }
    } else if let Some((_, returned)) = init.returned {
        let returned = place::returned(returned);
        entry.details.push(format!("cuInit returned {returned}"));
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

/// Returns the GPUs that a process sees, in its own order.
fn visible_gpus(trace: &Trace, visible: u32, gpus: &[String]) -> String {
    const MOST: usize = 8;
    let known = gpus.iter().take(MOST);
    let mut names: Vec<String> = known.map(|uuid| place::gpu_name(trace, uuid)).collect();
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

/// Returns the effect of a write of a variable: `CUDA_VISIBLE_DEVICES set to 1`.
fn written(event: &TraceEvent) -> String {
    let EventKind::Variable {
        name,
        before,
        value,
    } = &event.what
    else {
        return String::new();
    };
    let was = match before.as_deref() {
        Some(before) => format!(" (was {})", place::value(Some(before))),
        None => String::new(),
    };
    let name = place::shorten_place(name);
    match value.as_deref() {
        Some(value) => format!("{name} set to {}{was}", place::value(Some(value))),
        None => format!("{name} removed{was}"),
    }
}

/// Returns other changes of memory while a context was created.
fn memory_details(trace: &Trace, event: &TraceEvent, concurrent: ConcurrentChange) -> Vec<String> {
    let own = trace.gpu_index(event.gpu.as_deref());
    let total = match own.and_then(|own| event.memory_change(own)) {
        Some(grown) => format!(": {} in total", units::format_delta(grown)),
        None => String::new(),
    };
    let mut details = Vec::new();
    match concurrent {
        ConcurrentChange::None => {}
        ConcurrentChange::OtherContext => details.push(format!(
            "another context was created or destroyed there at the same time{total}"
        )),
        ConcurrentChange::OtherProcess => details.push(format!(
            "another process changed the GPU's memory at the same time{total}"
        )),
    }
    for (gpu, bytes) in event.memory_bytes.iter().enumerate() {
        let bytes = bytes.unwrap_or(0);
        if Some(gpu) != own && bytes.unsigned_abs() >= NOTABLE_BYTES {
            let bytes = units::format_delta(bytes);
            details.push(format!("at the same time on GPU {gpu}: {bytes}"));
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
