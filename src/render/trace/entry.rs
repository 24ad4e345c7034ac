//! The content of a trace's view: an entry for each important event, or for a group of equal ones. Every format is made
//! of these, so that no two of them can disagree about what is important.

mod build;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::build::Builder;
use super::place;
use crate::machine::UserLine;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::{Finding, Severity};
use cuda_pitfalls_trace::policy::Violation;
use cuda_pitfalls_trace::{EventKind, Frame, History, Trace, TraceEvent, line_in_words};

/// Subject of an entry, in order of importance: a group of marks has the color of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EntryKind {
    Init,
    Variable,
    Context,
    Fork,
    Error,
    Limit,
    HostMemory,
    Sharing,
    Other,
}

impl EntryKind {
    pub(super) fn name(self) -> &'static str {
        self.shown().0
    }

    /// Returns the class that sets its color on a page.
    pub(super) fn class(self) -> &'static str {
        self.shown().1
    }

    fn shown(self) -> (&'static str, &'static str) {
        match self {
            EntryKind::Init => ("cuInit", "init"),
            EntryKind::Variable => ("variable", "variable"),
            EntryKind::Context => ("context", "context"),
            EntryKind::Fork => ("fork", "fork"),
            EntryKind::Error => ("error", "failure"),
            EntryKind::Limit => ("limit", "limit"),
            EntryKind::HostMemory => ("pinned memory", "host"),
            EntryKind::Sharing => ("peer access, IPC", "sharing"),
            EntryKind::Other => ("other", "other"),
        }
    }
}

/// A write of a variable that came too late for a `cuInit`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Late<'a> {
    /// The event, by its index.
    pub(super) event: usize,
    pub(super) write: &'a TraceEvent,
    /// Time since `cuInit` had read the variable, in nanoseconds.
    pub(super) after_ns: u64,
}

/// An important event, or a group of equal ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TraceEntry<'a> {
    pub(super) kind: EntryKind,
    /// The event, without the GPU and its memory.
    label: String,
    pub(super) gpu: Option<String>,
    /// The memory of these contexts on that GPU; `None` if it was not read for one of them.
    pub(super) bytes: Option<i64>,
    pub(super) times: usize,
    pub(super) pids: Vec<u32>,
    /// The event whose stack is shown.
    pub(super) shown_event: &'a TraceEvent,
    /// The time that is shown; for a `cuInit`, the time from which lateness is measured.
    pub(super) t_ns: u64,
    /// The call path to it, from the user's first line.
    pub(super) chain: Vec<String>,
    /// Every event, with its index.
    pub(super) events: Vec<(usize, &'a TraceEvent)>,
    /// Details, as text.
    pub(super) details: Vec<String>,
    /// Writes that came too late for this `cuInit`.
    pub(super) late: Vec<Late<'a>>,
    /// The findings that begin here, by their index.
    pub(super) findings: Vec<usize>,
    /// `true` if one of them is a pitfall.
    has_pitfall: bool,
    /// The violations that are shown by it, by their index.
    pub(super) violations: Vec<usize>,
}

impl<'a> TraceEntry<'a> {
    fn new(kind: EntryKind, label: String, index: usize, event: &'a TraceEvent) -> TraceEntry<'a> {
        TraceEntry {
            kind,
            label,
            gpu: None,
            bytes: None,
            times: 1,
            pids: vec![event.pid],
            shown_event: event,
            t_ns: event.t_ns,
            chain: place::chain(event),
            events: vec![(index, event)],
            details: place::other_thread_line(event).into_iter().collect(),
            late: Vec::new(),
            findings: Vec::new(),
            has_pitfall: false,
            violations: Vec::new(),
        }
    }

    /// Returns the time of one of its events. For a `cuInit`, it is the same for all but late writes.
    pub(super) fn event_time(&self, event: &TraceEvent) -> u64 {
        if std::ptr::eq(event, self.shown_event)
            || self.kind == EntryKind::Init
                && self.times == 1
                && !self.late.iter().any(|late| std::ptr::eq(late.write, event))
        {
            return self.t_ns;
        }
        event.t_ns
    }

    /// Returns `true` if it has a finding.
    pub(super) fn has_finding(&self) -> bool {
        !self.findings.is_empty() || self.has_problem()
    }

    /// Returns `true` if it has a finding other than notes.
    pub(super) fn has_problem(&self) -> bool {
        self.has_pitfall || !self.violations.is_empty() || !self.late.is_empty()
    }

    /// Returns the process, or the number of processes.
    pub(super) fn process_words(&self, trace: &Trace) -> String {
        match self.pids.as_slice() {
            [pid] => place::process_words(trace, *pid),
            several => format!("{} processes", several.len()),
        }
    }

    /// Returns the title: `GPU 0  +524 MiB  context, never used afterwards`.
    pub(super) fn title(&self) -> String {
        let Some(gpu) = &self.gpu else {
            return if self.times > 1 {
                format!("{} ({} times)", self.label, self.times)
            } else {
                self.label.clone()
            };
        };
        let memory = match self.bytes {
            Some(bytes) => units::format_delta(bytes),
            None => "memory not known".to_owned(),
        };
        let label = match self.label.strip_prefix("context") {
            Some(rest) if self.times > 1 => format!("{} contexts{rest}", self.times),
            _ => self.label.clone(),
        };
        format!("{gpu}  {memory}  {label}")
    }
}

/// The entries of a trace, and the events without an entry.
#[derive(Debug, Default)]
pub(super) struct Entries<'a> {
    /// In the order of time.
    pub(super) all: Vec<TraceEntry<'a>>,
    /// Number of events of each sort that have no entry.
    pub(super) summed: BTreeMap<&'static str, usize>,
    /// The entry of each event that has one.
    pub(super) owners: HashMap<usize, usize>,
}

impl Entries<'_> {
    /// Returns the events without an entry, as one list: `12× module loaded, 3× first use of a GPU`.
    pub(super) fn not_listed(&self) -> Option<String> {
        if self.summed.is_empty() {
            return None;
        }
        let sorts = self.summed.iter();
        let sorts: Vec<String> = sorts
            .map(|(sort, times)| format!("{times}× {sort}"))
            .collect();
        Some(sorts.join(", "))
    }

    /// Attaches each finding and violation to the entry of its event.
    fn attach_findings(&mut self, findings: &[Finding], violations: &[Violation]) {
        for (place, entry) in self.all.iter().enumerate() {
            for (event, _) in &entry.events {
                self.owners.insert(*event, place);
            }
        }
        for (index, finding) in findings.iter().enumerate() {
            let mut owners = finding.events.iter().flat_map(|at| self.owners.get(at));
            if let Some(entry) = owners.next().and_then(|at| self.all.get_mut(*at)) {
                entry.findings.push(index);
                entry.has_pitfall |= finding.severity == Severity::Pitfall;
            }
        }
        for entry in &mut self.all {
            // Pitfalls come before notes.
            entry
                .findings
                .sort_by_key(|index| findings.get(*index).map(|finding| finding.severity));
        }
        for (index, violation) in violations.iter().enumerate() {
            let owner = violation.event.and_then(|event| self.owners.get(&event));
            if let Some(entry) = owner.and_then(|at| self.all.get_mut(*at)) {
                entry.violations.push(index);
            }
        }
    }
}

pub(super) fn entries<'a>(
    history: &History<'a>,
    findings: &[Finding],
    violations: &[Violation],
) -> Entries<'a> {
    let mut wanted = HashSet::new();
    for finding in findings {
        wanted.extend(&finding.events);
    }
    for violation in violations {
        wanted.extend(violation.event);
    }
    let mut entries = Builder::new(history, wanted).entries();
    entries.all = merge::merge_entries(std::mem::take(&mut entries.all));
    entries.attach_findings(findings, violations);
    entries
}

/// Returns `train.py:31`, with its path; `cell 3 line 2` for code that is not in a file.
pub(super) fn line_words(place: &UserLine) -> String {
    let line = line_in_words(&place::shorten_place(&place.file), place.line);
    if place.is_beside {
        format!("other thread (main thread at {line})")
    } else {
        line
    }
}

/// Returns the note on a late write: `train.py:31 sets CUDA_VISIBLE_DEVICES=1, 410 ms too late: no effect`.
pub(super) fn late_write(late: &Late) -> String {
    let EventKind::Variable { name, value, .. } = &late.write.what else {
        return String::new();
    };
    // Only the file's name, as in chains.
    let line = late.write.stack.user_frame().and_then(Frame::line);
    let who = match line {
        Some(line) => place::shorten_place(&line),
        None => format!("pid {}", late.write.pid),
    };
    let variable = place::shorten_place(name);
    let does = match value.as_deref() {
        Some("") => format!("sets {variable} to nothing"),
        Some(value) => format!("sets {variable}={}", place::shorten_place(value)),
        None => format!("removes {variable}"),
    };
    let after = units::format_duration(late.after_ns);
    format!("{who} {does}, {after} too late: no effect")
}
