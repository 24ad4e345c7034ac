//! From events to entries.

use std::collections::{HashMap, HashSet};

use super::{Entries, EntryKind, TraceEntry};
use crate::trace::place;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::history::{ContextLife, Init};
use cuda_pitfalls_trace::{EventKind, History, NOT_READY, TraceEvent, Usage};

/// The entries of a trace as they are made, event by event.
pub(super) struct Builder<'h, 'a> {
    pub(super) history: &'h History<'a>,
    /// Each context by the event that made it.
    pub(super) lives: HashMap<usize, &'h ContextLife<'a>>,
    /// The events that end a context, which its entry tells.
    pub(super) ends: HashSet<*const TraceEvent>,
    /// The `cuInit` that an event belongs to, with the program's index.
    pub(super) inits: HashMap<usize, (usize, &'h Init<'a>)>,
    /// The entry of the `cuInit` that counts, by program.
    pub(super) counting: HashMap<usize, usize>,
    /// The last failed call of each thread.
    failed: HashMap<(u32, u32), (&'a str, Option<i64>)>,
    /// Events that have an entry whatever they are.
    pub(super) wanted: HashSet<usize>,
    pub(super) entries: Entries,
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
            lives: history.contexts.iter().map(|life| (life.event, life)).collect(),
            ends: history.contexts.iter().filter_map(|life| life.ended.map(std::ptr::from_ref)).collect(),
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
            EventKind::Init { .. } | EventKind::MaskRead { .. } | EventKind::InitDone { .. } => self.init(index, event),
            EventKind::Variable { .. } => self.variable(index, event),
            EventKind::Context { change, primary, .. } => self.context(index, event, *change, *primary),
            EventKind::HostMemory { bytes } => {
                let label = format!("page-locked host memory, {}", units::bytes(*bytes));
                self.push(EntryKind::HostMemory, label, index, event);
            }
            EventKind::Limit { limit, value, after_launch } => {
                self.push(EntryKind::Limit, limit_label(event, *limit, *value, *after_launch), index, event);
            }
            EventKind::Forked { parent, contexts } => {
                let contexts = match contexts {
                    0 => "no context".to_owned(),
                    many => counted(u64::from(*many), "context"),
                };
                let label = format!("forked after cuInit: the parent, pid {parent}, has {contexts}");
                self.push(EntryKind::Fork, label, index, event);
            }
            EventKind::Peer => {
                self.push(EntryKind::Sharing, format!("peer access: {}", place::short(&event.call)), index, event)
            }
            EventKind::Ipc => {
                let label = format!("handle between processes: {}", place::short(&event.call));
                self.push(EntryKind::Sharing, label, index, event);
            }
            EventKind::Error if is_repeated && !self.wanted.contains(&index) => {}
            EventKind::Error if event.status == Some(NOT_READY) => self.minor("call not ready", index, event),
            EventKind::Error => {
                let label = format!("{} returned {}", place::short(&event.call), place::returned(event));
                self.push(EntryKind::Error, label, index, event);
            }
            EventKind::FirstUse { .. } => self.minor("first use of a GPU", index, event),
            EventKind::Module => self.minor("module loaded", index, event),
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

    pub(super) fn push(&mut self, kind: EntryKind, label: String, index: usize, event: &TraceEvent) {
        self.entries.all.push(TraceEntry::new(kind, label, index, event));
    }

    /// Counts an event that is of no importance by itself.
    pub(super) fn minor(&mut self, sort: &'static str, index: usize, event: &TraceEvent) {
        if !self.wanted.contains(&index) {
            *self.entries.summed.entry(sort).or_default() += 1;
            return;
        }
        let label = match event.what {
            EventKind::FirstUse { usage } => {
                let usage = match usage {
                    Usage::Launch => "launch",
                    Usage::Copy => "copy",
                    Usage::Allocation => "allocation",
                };
                format!("first {usage} on {}", place::gpu(self.history.trace, event))
            }
            EventKind::Variable { ref name, .. } => format!("{} written", place::short(name)),
            _ => place::short(&event.call),
        };
        self.push(EntryKind::Other, label, index, event);
    }
}

fn limit_label(event: &TraceEvent, limit: i32, value: u64, after_launch: bool) -> String {
    let (name, value) = place::limit(limit, value);
    let after = if after_launch { ", after a launch" } else { "" };
    match event.status.filter(|status| *status != 0) {
        None => format!("{name} set to {value}{after}"),
        Some(status) => format!("{name} not set to {value}{after}: {}", place::status(status)),
    }
}
