//! What is shown of a trace: an entry for each important event, or for a group of equal ones. Every form is made of
//! these, so that no two of them can disagree about what is important.

mod build;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use self::build::Builder;
use super::place;
use crate::machine::UserLine;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Finding;
use cuda_pitfalls_trace::policy::Violation;
use cuda_pitfalls_trace::{EventKind, History, Trace, TraceEvent, line_in_words};

/// What an entry is about. The order is that of importance: a group of marks has the first's colour.
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

    /// The class that gives it its colour on a page.
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
            EntryKind::HostMemory => ("page-locked memory", "host"),
            EntryKind::Sharing => ("peer access, IPC", "sharing"),
            EntryKind::Other => ("other", "other"),
        }
    }
}

/// A write of a variable that came too late for a `cuInit`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Late {
    pub(super) event: usize,
    /// How long after `cuInit` had read the variable.
    pub(super) after_ns: u64,
}

/// An important event, or a group of equal ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TraceEntry {
    pub(super) kind: EntryKind,
    /// What happened, without the GPU and its memory.
    label: String,
    pub(super) gpu: Option<String>,
    /// The memory of these contexts on that GPU; none if it was not read for one of them.
    pub(super) bytes: Option<i64>,
    pub(super) times: usize,
    pub(super) pids: Vec<u32>,
    /// The event whose time and stack are shown.
    pub(super) first: usize,
    pub(super) events: Vec<usize>,
    /// What else has to be known, in words.
    pub(super) details: Vec<String>,
    /// Writes that came too late for this `cuInit`.
    pub(super) late: Vec<Late>,
    /// The pitfalls that begin here, by their index.
    pub(super) findings: Vec<usize>,
    /// The violations that are shown by it, by their index.
    pub(super) violations: Vec<usize>,
}

impl TraceEntry {
    fn new(kind: EntryKind, label: String, index: usize, event: &TraceEvent) -> TraceEntry {
        let (gpu, bytes, times, first) = (None, None, 1, index);
        let (pids, events) = (vec![event.pid], vec![index]);
        let (late, findings, violations) = Default::default();
        let details = place::other_thread_line(event).into_iter().collect();
        TraceEntry {
            kind,
            label,
            gpu,
            bytes,
            times,
            pids,
            first,
            events,
            details,
            late,
            findings,
            violations,
        }
    }

    /// Whether something was found at it.
    pub(super) fn is_told(&self) -> bool {
        !self.findings.is_empty() || !self.violations.is_empty() || !self.late.is_empty()
    }

    /// The process, or how many there are.
    pub(super) fn process_words(&self, trace: &Trace) -> String {
        match self.pids.as_slice() {
            [pid] => place::process_words(trace, *pid),
            several => format!("{} processes", several.len()),
        }
    }

    /// What happened: `GPU 0  +524 MiB  context, never used afterwards`.
    pub(super) fn title(&self) -> String {
        let Some(gpu) = &self.gpu else {
            return if self.times > 1 {
                format!("{} ({} times)", self.label, self.times)
            } else {
                self.label.clone()
            };
        };
        let memory = units::delta_or_unread(self.bytes);
        let memory = if self.bytes.is_some() {
            memory
        } else {
            "memory not known".to_owned()
        };
        let label = match self.label.strip_prefix("context") {
            Some(rest) if self.times > 1 => format!("{} contexts{rest}", self.times),
            _ => self.label.clone(),
        };
        format!("{gpu}  {memory}  {label}")
    }
}

/// The entries of a trace, and what is left to be said beside them.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// In the order of time.
    pub(super) all: Vec<TraceEntry>,
    /// How many events of each sort have no entry, in words.
    pub(super) summed: BTreeMap<&'static str, usize>,
    /// Findings of which the trace has no event.
    pub(super) findings: Vec<usize>,
    /// Violations of which it has none.
    pub(super) violations: Vec<usize>,
}

impl Entries {
    /// What has no entry, as one list: `12× module loaded, 3× first use of a GPU`.
    pub(super) fn not_listed(&self) -> Option<String> {
        let sorts: Vec<String> = self
            .summed
            .iter()
            .map(|(sort, times)| format!("{times}× {sort}"))
            .collect();
        (!sorts.is_empty()).then(|| sorts.join(", "))
    }

    /// Gives each finding and violation to the entry of its event.
    fn attach_findings(&mut self, findings: &[Finding], violations: &[Violation]) {
        let mut owners: HashMap<usize, usize> = HashMap::new();
        for (place, entry) in self.all.iter().enumerate() {
            owners.extend(entry.events.iter().map(|event| (*event, place)));
        }
        for (index, finding) in findings.iter().enumerate() {
            let place = finding.events.iter().find_map(|event| owners.get(event));
            match place.and_then(|place| self.all.get_mut(*place)) {
                Some(entry) => entry.findings.push(index),
                None => self.findings.push(index),
            }
        }
        for entry in &mut self.all {
            // Pitfalls stand before notes.
            entry
                .findings
                .sort_by_key(|index| findings.get(*index).map(|finding| finding.severity));
        }
        for (index, violation) in violations.iter().enumerate() {
            let place = violation.event.and_then(|event| owners.get(&event));
            match place.and_then(|place| self.all.get_mut(*place)) {
                Some(entry) => entry.violations.push(index),
                None => self.violations.push(index),
            }
        }
    }
}

pub(super) fn entries(
    history: &History,
    findings: &[Finding],
    violations: &[Violation],
) -> Entries {
    let of_findings = findings
        .iter()
        .flat_map(|finding| finding.events.iter().copied());
    let wanted = of_findings
        .chain(violations.iter().filter_map(|violation| violation.event))
        .collect();
    let mut entries = Builder::new(history, wanted).entries();
    entries.all = merge::merge_entries(history, std::mem::take(&mut entries.all));
    entries.attach_findings(findings, violations);
    entries
}

/// `train.py:31`, with its path; `cell 3 line 2` of what is in no file.
pub(super) fn shown(place: &UserLine) -> String {
    let line = line_in_words(&place::shorten_place(&place.file), place.line);
    if place.is_beside {
        format!("a thread beside {line}")
    } else {
        line
    }
}

/// `train.py:31 sets CUDA_VISIBLE_DEVICES=1, 410 ms too late: no effect`.
pub(super) fn late_write(trace: &Trace, late: &Late) -> String {
    let Some(event) = trace.events.get(late.event) else {
        return String::new();
    };
    let EventKind::Variable { name, value, .. } = &event.what else {
        return String::new();
    };
    // As in chains, the file's name alone.
    let line = event
        .stack
        .user_frame()
        .and_then(cuda_pitfalls_trace::Frame::line);
    let who = line.map_or_else(
        || format!("pid {}", event.pid),
        |line| place::shorten_place(&line),
    );
    let does = match value {
        Some(value) if value.is_empty() => {
            format!("sets {} to nothing", place::shorten_place(name))
        }
        Some(value) => format!(
            "sets {}={}",
            place::shorten_place(name),
            place::shorten_place(value)
        ),
        None => format!("removes {}", place::shorten_place(name)),
    };
    format!(
        "{who} {does}, {} too late: no effect",
        units::format_duration(late.after_ns)
    )
}
