//! Comparison of two traces: of two programs, or of a program with two versions of a framework.
//!
//! The actions of a program are described by facts with names that are the same in every run: the program by its
//! position in the tree of programs, the GPU by its index, the place by file and function. Line numbers, times, PIDs
//! and handles are left out, because they differ even if the behavior is the same.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{
    Comparison, ComparisonSide, EntryDifference, FactDifference, Relation, UNKNOWN, all, is_noise,
    known, yes_or_no,
};
use crate::difference::side_by_side;
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Finding;
use cuda_pitfalls_trace::history::MASK;
use cuda_pitfalls_trace::ledger::all_ledgers;
use cuda_pitfalls_trace::{
    ContextChange, ContextLife, EventKind, Frame, History, Trace, TraceEvent, TraceProcess,
    status_name,
};

/// Maximum length of values, and of parts of names, in bytes.
const LONGEST: usize = 120;
/// Names are cut to this many bytes.
const LONGEST_NAME: usize = 4 * LONGEST;
/// The longest chain of parents that is followed.
const DEEPEST: usize = 16;
/// More GPUs than any machine has.
const MOST_GPUS: usize = 64;

/// Subject of an entry. Entries are listed in this order: the most important first, and totals of the run last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BehaviorKind {
    Program,
    Finding,
    Init,
    LateWrite,
    Context,
    Fork,
    Limit,
    Error,
    Other,
    MemoryPeak,
    MemoryOwner,
    Call,
}

impl BehaviorKind {
    /// Returns `true` if a trace that was cut short contains too little of this kind.
    fn is_cumulative(self) -> bool {
        self >= BehaviorKind::MemoryPeak
    }

    /// Returns `true` if its names contain a code location, which is missing where no stack was read.
    fn is_named_by_place(self) -> bool {
        match self {
            BehaviorKind::Finding | BehaviorKind::LateWrite | BehaviorKind::Context => true,
            BehaviorKind::Fork | BehaviorKind::Limit | BehaviorKind::Other => true,
            BehaviorKind::Program | BehaviorKind::Init | BehaviorKind::Error => false,
            BehaviorKind::MemoryPeak | BehaviorKind::MemoryOwner | BehaviorKind::Call => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct TraceFact {
    name: &'static str,
    value: String,
    /// The number of bytes, if small differences do not count.
    bytes: Option<i64>,
}

impl TraceFact {
    fn text(name: &'static str, value: impl Into<String>) -> TraceFact {
        TraceFact {
            name,
            value: shorten_text(&value.into(), LONGEST),
            bytes: None,
        }
    }

    fn figure(name: &'static str, value: String, bytes: i64) -> TraceFact {
        TraceFact {
            name,
            value,
            bytes: Some(bytes),
        }
    }

    fn is_same(&self, other: &TraceFact) -> bool {
        match (self.bytes, other.bytes) {
            (Some(a), Some(b)) => is_noise(a, b),
            _ => self.value == other.value || self.value == UNKNOWN || other.value == UNKNOWN,
        }
    }
}

/// Facts of an entry; the first fact is whether the entry exists.
#[derive(Clone, Debug, PartialEq)]
struct BehaviorEntry {
    facts: Vec<TraceFact>,
    /// Value of the first fact if the other trace has no such entry.
    absent: &'static str,
}

/// Compares two traces: contexts, what `cuInit` read, late writes, limits, errors, called functions, memory, pitfalls.
/// Times and PIDs are not compared.
pub fn compare_traces(traces: [&Trace; 2], findings: [&[Finding]; 2]) -> Comparison {
    let [a, b] = traces;
    let machines =
        FactDifference::between(&trace_surroundings(a), &trace_surroundings(b), "not set");
    let mut comparison = Comparison::new("trace", traces.map(trace_side), machines);
    let [history_a, history_b] = traces.map(History::new);
    let [mut did_a, mut did_b] = TraceBehavior::new([&history_a, &history_b]);
    did_a.collect(findings[0], &did_b);
    did_b.collect(findings[1], &did_a);
    let is_blind = has_unread_stack(a) || has_unread_stack(b);
    let names: BTreeSet<&(BehaviorKind, String)> =
        did_a.entries.keys().chain(did_b.entries.keys()).collect();
    for name in names {
        let (kind, shown_name) = name;
        let both = [did_a.entries.get(name), did_b.entries.get(name)];
        let is_in_both = both[0].is_some() && both[1].is_some();
        let mut notes = Vec::new();
        // An entry that is missing in a truncated trace may have come after its end.
        for (side, trace, entry) in [("A", a, both[0]), ("B", b, both[1])] {
            let is_cut = trace.end.is_none() && (entry.is_none() || kind.is_cumulative());
            if is_cut && notes.is_empty() {
                notes.push(format!("the trace {side} is incomplete"));
            }
        }
        // An entry may have another name if its stack was not read.
        if kind.is_named_by_place() && !is_in_both && is_blind {
            notes.push("stacks are missing".to_owned());
        }
        let changes = compare_entries(both);
        let relation = match (changes.is_empty(), notes.is_empty()) {
            (true, _) => Relation::Same,
            (false, true) => Relation::Changed(EntryDifference::new(changes, notes)),
            (false, false) => Relation::Explained(EntryDifference::new(changes, notes)),
        };
        comparison.add_entry(shown_name.clone(), None, relation);
    }
    comparison
}

fn has_unread_stack(trace: &Trace) -> bool {
    let mut stacks = trace.events.iter().map(|event| &event.stack);
    stacks.any(|stack| stack.frames.is_empty() && stack.missing.is_some())
}

fn compare_entries(both: [Option<&BehaviorEntry>; 2]) -> Vec<FactDifference> {
    let mut found = Vec::new();
    match both {
        [Some(a), Some(b)] => {
            for pair in side_by_side([&a.facts, &b.facts], |fact| fact.name) {
                if let [Some(a), Some(b)] = pair
                    && !a.is_same(b)
                {
                    found.push(FactDifference::new(a.name, &a.value, &b.value));
                }
            }
        }
        // If only one trace has the entry, the first fact shows it.
        [Some(BehaviorEntry { facts, absent }), None] => {
            if let Some(fact) = facts.first() {
                found.push(FactDifference::new(fact.name, &fact.value, *absent));
            }
        }
        [None, Some(BehaviorEntry { facts, absent })] => {
            if let Some(fact) = facts.first() {
                found.push(FactDifference::new(fact.name, *absent, &fact.value));
            }
        }
        [None, None] => {}
    }
    found
}

/// Actions of a program, under names that are the same in both traces.
struct TraceBehavior<'h, 'a> {
    history: &'h History<'a>,
    /// Position of each program: the names of the programs from the first one down. Empty if its process is unknown.
    positions: Vec<String>,
    /// `true` if either trace has several positions, so that names must include the position.
    is_many: bool,
    entries: BTreeMap<(BehaviorKind, String), BehaviorEntry>,
}

impl<'h, 'a> TraceBehavior<'h, 'a> {
    /// The behavior of two traces, still without entries.
    fn new(histories: [&'h History<'a>; 2]) -> [TraceBehavior<'h, 'a>; 2] {
        let positions = histories.map(program_positions);
        let is_many = positions.iter().any(|positions| has_several(positions));
        let [in_a, in_b] = positions;
        let [a, b] = histories;
        [(a, in_a), (b, in_b)].map(|(history, positions)| TraceBehavior {
            history,
            positions,
            is_many,
            entries: BTreeMap::new(),
        })
    }

    fn collect(&mut self, findings: &[Finding], other: &TraceBehavior) {
        let trace = self.history.trace;
        if let Some(end) = &trace.end {
            let exit = match (&end.signal, end.code) {
                (Some(signal), _) => signal.clone(),
                (None, Some(code)) => code.to_string(),
                (None, None) => UNKNOWN.to_owned(),
            };
            let facts = vec![TraceFact::text("exit", exit)];
            let name = "the program".to_owned();
            self.add_entry(BehaviorKind::Program, name, UNKNOWN, facts);
        }
        for programs in self.programs_by_position() {
            self.add_inits(&programs);
        }
        self.add_contexts();
        for (index, event) in trace.events.iter().enumerate() {
            self.add_event(index, event);
        }
        for finding in findings {
            self.add_finding(finding);
        }
        self.add_memory_peaks();
        self.add_memory_owners(other);
        self.add_calls(other);
    }

    fn add_entry(
        &mut self,
        kind: BehaviorKind,
        name: String,
        absent: &'static str,
        facts: Vec<TraceFact>,
    ) {
        let name = shorten_text(&name, LONGEST_NAME);
        let entry = BehaviorEntry { facts, absent };
        self.entries.insert((kind, name), entry);
    }

    /// Adds something that a program did or did not do, regardless of how often.
    fn add_deed(&mut self, kind: BehaviorKind, name: String, fact: &'static str) {
        self.add_entry(kind, name, "no", vec![TraceFact::text(fact, "yes")]);
    }

    fn position(&self, program: Option<usize>) -> &str {
        let position = program.and_then(|program| self.positions.get(program));
        position.map_or("", String::as_str)
    }

    /// Returns a description of an action of a program, with the position of the program if there are several.
    fn qualified_name(&self, program: Option<usize>, what: &str) -> String {
        let position = self.position(program);
        if self.is_many && !position.is_empty() {
            format!("{position}: {what}")
        } else {
            what.to_owned()
        }
    }

    fn programs_by_position(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (program, position) in self.positions.iter().enumerate() {
            groups.entry(position).or_default().push(program);
        }
        groups.into_values().collect()
    }

    /// Adds the CUDA initialization of the programs at one position. The number of processes is left out, because it
    /// may depend on the machine.
    fn add_inits(&mut self, programs: &[usize]) {
        let [mut callers, mut masks, mut visible] = [const { BTreeSet::new() }; 3];
        for program in programs {
            let Some(init) = self.history.programs[*program].init() else {
                continue;
            };
            let Some((_, event)) = init.begun.last() else {
                continue;
            };
            callers.insert(place(event));
            masks.insert(match init.value(MASK) {
                None => UNKNOWN.to_owned(),
                Some(None) => "(unset)".to_owned(),
                Some(Some(mask)) => value_without_uuids(self.history.trace, mask),
            });
            visible.insert(match init.visible() {
                None => "none: it failed".to_owned(),
                Some((_, gpus)) => gpus.len().to_string(),
            });
        }
        if callers.is_empty() {
            return;
        }
        let facts = vec![
            TraceFact::text("created by", list_known(callers)),
            TraceFact::text("CUDA_VISIBLE_DEVICES", list_known(masks)),
            TraceFact::text("visible GPUs", list_known(visible)),
        ];
        let name = self.qualified_name(programs.first().copied(), "cuInit");
        self.add_entry(BehaviorKind::Init, name, "nothing", facts);
    }

    fn add_contexts(&mut self) {
        let history = self.history;
        let mut groups: BTreeMap<String, Vec<&ContextLife>> = BTreeMap::new();
        for life in &history.contexts {
            let on = gpu_name(history.trace, life.created);
            let what = format!("context on {on}, {}", place(life.created));
            let name = self.qualified_name(Some(life.program), &what);
            groups.entry(name).or_default().push(life);
        }
        for (name, lives) in groups {
            let mut uses = Vec::new();
            for life in &lives {
                uses.extend(life.uses.as_ref().map(|uses| yes_or_no(!uses.is_none())));
            }
            let used = if uses.len() == lives.len() {
                all(uses.into_iter())
            } else {
                UNKNOWN.to_owned()
            };
            let mut facts = vec![
                TraceFact::text("contexts", lives.len().to_string()),
                TraceFact::text("used", used),
            ];
            let mut lives = lives.iter();
            let bytes = lives.try_fold(0_i64, |sum, life| Some(sum.saturating_add(life.bytes?)));
            if let Some(bytes) = bytes {
                let value = units::format_delta(bytes);
                facts.push(TraceFact::figure("memory", value, bytes));
            }
            self.add_entry(BehaviorKind::Context, name, "0", facts);
        }
    }

    /// Adds an event that has its own entry.
    fn add_event(&mut self, index: usize, event: &TraceEvent) {
        let Some((kind, what, fact)) = self.describe_event(index, event) else {
            return;
        };
        let what = match kind {
            BehaviorKind::Error => what,
            _ => format!("{what}, {}", place(event)),
        };
        let name = self.qualified_name(self.history.program_of(index), &what);
        let EventKind::Limit {
            value,
            after_launch,
            ..
        } = &event.what
        else {
            self.add_deed(kind, name, fact);
            return;
        };
        let facts = vec![
            TraceFact::text(fact, value.to_string()),
            TraceFact::text("returned", status_text(event)),
            TraceFact::text("after a launch", yes_or_no(*after_launch)),
        ];
        self.add_entry(kind, name, "not set", facts);
    }

    /// Returns the kind of an event's entry, its description, and the name of the first fact; `None` if the event does
    /// not have its own entry.
    fn describe_event(
        &self,
        index: usize,
        event: &TraceEvent,
    ) -> Option<(BehaviorKind, String, &'static str)> {
        let trace = self.history.trace;
        let (kind, what, fact) = match &event.what {
            EventKind::Variable { name, value, .. } => {
                if !self.history.write(index)?.is_late() {
                    return None;
                }
                let value = match value {
                    Some(value) => value_without_uuids(trace, value),
                    None => "(unset)".to_owned(),
                };
                let what = format!("write of {name}={value}");
                return Some((BehaviorKind::LateWrite, what, "comes after cuInit"));
            }
            EventKind::Context { change, .. } => return describe_context(trace, event, *change),
            EventKind::Error => {
                let call = shorten_text(&event.call, LONGEST);
                let what = format!("{} by {call}", status_text(event));
                return Some((BehaviorKind::Error, what, "returned"));
            }
            EventKind::Limit { limit, .. } => {
                return Some((BehaviorKind::Limit, format!("limit {limit}"), "set to"));
            }
            EventKind::Forked { .. } => (BehaviorKind::Fork, "fork after cuInit", "happens"),
            EventKind::HostMemory { .. } => (BehaviorKind::Other, "pinned memory", "allocated"),
            EventKind::Peer => (BehaviorKind::Other, "peer access", "happens"),
            EventKind::Ipc => (BehaviorKind::Other, "handle between processes", "happens"),
            EventKind::Init { .. }
            | EventKind::MaskRead { .. }
            | EventKind::InitDone { .. }
            | EventKind::FirstUse { .. }
            | EventKind::Module => return None,
        };
        Some((kind, what.to_owned(), fact))
    }

    fn add_finding(&mut self, finding: &Finding) {
        let history = self.history;
        let mut what = format!("{} {}", finding.severity.name(), finding.rule);
        if let Some(gpu) = history.trace.gpu_index(finding.gpu.as_deref()) {
            what.push_str(&format!(" on GPU {gpu}"));
        }
        let mut program = None;
        if let Some(index) = finding.events.first() {
            program = history.program_of(*index);
            if let Some(event) = history.trace.events.get(*index) {
                what.push_str(&format!(", {}", place(event)));
            }
        }
        if program.is_none() {
            program = history.program_at(finding.pid, u64::MAX);
        }
        let name = self.qualified_name(program, &what);
        self.add_deed(BehaviorKind::Finding, name, "found");
    }

    /// Adds the peak growth of each GPU's memory since before the program was started.
    fn add_memory_peaks(&mut self) {
        let trace = self.history.trace;
        for (index, before) in trace.start.used_bytes.iter().enumerate().take(MOST_GPUS) {
            // The memory of a GPU that was not read is unknown.
            let Some(before) = *before else { continue };
            // A GPU whose memory did not change has a peak of 0.
            let mut peak = 0;
            for memory in &trace.memory {
                if memory.index == index {
                    let more = i128::from(memory.used_bytes) - i128::from(before);
                    peak = peak.max(i64::try_from(more).unwrap_or(i64::MAX));
                }
            }
            let facts = vec![TraceFact::figure("peak", units::format_delta(peak), peak)];
            let name = format!("memory of GPU {index}");
            self.add_entry(BehaviorKind::MemoryPeak, name, UNKNOWN, facts);
        }
    }

    /// Adds the owners of the memory at the peak of each process, by purpose. Adds nothing if one of the two traces has
    /// no ledger.
    fn add_memory_owners(&mut self, other: &TraceBehavior) {
        let trace = self.history.trace;
        if !(trace.start.ledger && other.history.trace.start.ledger) {
            return;
        }
        let mut owned = self.owned_bytes();
        // An owner that only the other trace has counts as 0 here, so that a small amount is not a difference. If NVML
        // could not be read, the amount is unknown.
        let mut ledgers = all_ledgers(trace).into_iter();
        if ledgers.all(|ledger| ledger.peak.charged_bytes.is_some()) {
            for name in other.owned_bytes().into_keys() {
                owned.entry(name).or_insert(0);
            }
        }
        for (name, bytes) in owned {
            let value = units::signed_bytes(bytes);
            let facts = vec![TraceFact::figure("at the peak", value, bytes)];
            self.add_entry(BehaviorKind::MemoryOwner, name, UNKNOWN, facts);
        }
    }

    /// Returns the bytes of each owner and purpose at the peaks, by a name that is the same in every run.
    fn owned_bytes(&self) -> BTreeMap<String, i64> {
        let mut owned: BTreeMap<String, i64> = BTreeMap::new();
        let trace = self.history.trace;
        for ledger in all_ledgers(trace) {
            let on = match trace.gpu_index(Some(ledger.gpu)) {
                Some(index) => format!("GPU {index}"),
                None => UNKNOWN.to_owned(),
            };
            let program = self.history.program_at(ledger.pid, u64::MAX);
            let mut add_bytes = |what: String, bytes: i64| {
                let sum = owned
                    .entry(self.qualified_name(program, &what))
                    .or_default();
                *sum = sum.saturating_add(bytes);
            };
            for row in &ledger.peak.rows {
                let owner = shorten_text(row.owner.name, LONGEST);
                let what = format!("{} of {owner} on {on}", row.kind.in_words());
                add_bytes(what, i64::try_from(row.bytes).unwrap_or(i64::MAX));
            }
            if let Some(rest) = ledger.peak.unattributed_bytes {
                add_bytes(format!("memory unattributed on {on}"), rest);
            }
        }
        owned
    }

    /// Adds the functions that were called. Without a process's counts, it is unknown which functions it did not call.
    fn add_calls(&mut self, other: &TraceBehavior) {
        let history = self.history;
        let mut counted = BTreeSet::new();
        for counts in &other.history.trace.counts {
            counted.insert(other.position(other.history.program_of_counts(counts)));
        }
        for counts in &history.trace.counts {
            let program = history.program_of_counts(counts);
            if !counted.contains(self.position(program)) {
                continue;
            }
            for (call, count) in &counts.calls {
                if count.calls > 0 {
                    let name = self.qualified_name(program, call);
                    self.add_deed(BehaviorKind::Call, name, "called");
                }
            }
        }
    }
}

/// Returns the part of [`TraceBehavior::describe_event`] for a change of a context.
fn describe_context(
    trace: &Trace,
    event: &TraceEvent,
    change: ContextChange,
) -> Option<(BehaviorKind, String, &'static str)> {
    let on = gpu_name(trace, event);
    match change {
        ContextChange::Failed => {
            let what = format!("no context on {on}, {}", status_text(event));
            Some((BehaviorKind::Error, what, "happens"))
        }
        ContextChange::Reset => {
            let what = format!("reset of the context on {on}");
            Some((BehaviorKind::Other, what, "happens"))
        }
        _ => None,
    }
}

/// Returns the distinct values without those that are unknown.
fn list_known(mut values: BTreeSet<String>) -> String {
    values.remove(UNKNOWN);
    listed(values, UNKNOWN)
}

fn gpu_name(trace: &Trace, event: &TraceEvent) -> String {
    match (trace.gpu_index(event.gpu.as_deref()), event.device) {
        (Some(index), _) => format!("GPU {index}"),
        (None, Some(device)) => format!("device {device}"),
        (None, None) => "an unknown GPU".to_owned(),
    }
}

fn status_text(event: &TraceEvent) -> String {
    match event.status {
        Some(status) => status_name(status),
        None => UNKNOWN.to_owned(),
    }
}

/// Returns the user's own file and function, and the called function. Line numbers are left out, because an edit
/// elsewhere in the file changes them.
fn place(event: &TraceEvent) -> String {
    let mut parts = Vec::new();
    if let Some(frame) = event.stack.user_frame() {
        parts.push(match frame.file.as_deref() {
            Some(path) => format!(
                "{} {}",
                path.rsplit('/').next().unwrap_or(path),
                frame.name()
            ),
            None => frame.name(),
        });
    }
    parts.extend(event.stack.entry().map(Frame::name));
    if parts.is_empty() {
        let is_unread = event.stack.missing.is_some() && event.stack.frames.is_empty();
        let call = if is_unread { UNKNOWN } else { &event.call };
        return shorten_text(call, LONGEST);
    }
    for part in &mut parts {
        *part = shorten_text(part, LONGEST);
    }
    parts.join(" → ")
}

/// Returns a variable's value with indices instead of UUIDs, which no two machines share.
fn value_without_uuids(trace: &Trace, value: &str) -> String {
    let value = super::machine::replace_uuids(value, &trace.start.gpus);
    if value.is_empty() {
        "(empty)".to_owned()
    } else {
        shorten_text(&value, LONGEST)
    }
}

fn has_several(positions: &[String]) -> bool {
    positions.windows(2).any(|pair| pair[0] != pair[1])
}

fn program_positions(history: &History) -> Vec<String> {
    let mut positions = Vec::new();
    for program in &history.programs {
        let mut names: Vec<String> = Vec::new();
        let mut next = program.process;
        while let Some(process) = next
            && names.len() < DEEPEST
        {
            names.push(shorten_text(&program_name(process), LONGEST));
            if process.parent == process.pid {
                break;
            }
            let parent = history.program_at(process.parent, process.t_ns);
            next = parent.and_then(|parent| history.programs.get(parent)?.process);
        }
        names.reverse();
        positions.push(names.join(" > "));
    }
    positions
}

/// Returns the name of a process without its Python version, which may be the difference.
fn program_name(process: &TraceProcess) -> String {
    let name = process.name();
    let Some(rest) = name.strip_prefix("python") else {
        return name;
    };
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    format!("python{rest}")
}

fn trace_side(trace: &Trace) -> ComparisonSide {
    let start = &trace.start;
    let machine = machine::summarize_gpus(&start.gpus, start.driver_version.as_deref());
    let command = shorten_text(&start.command.join(" "), LONGEST);
    ComparisonSide::new(
        &start.started_at,
        &start.version,
        start.provenance,
        trace.end.is_some(),
        format!("{machine}, {command}"),
    )
}

/// Returns the facts that can differ between the machines, or between what the two traces could observe.
fn trace_surroundings(trace: &Trace) -> Vec<(String, String)> {
    let start = &trace.start;
    let mut pythons = BTreeSet::new();
    for process in &trace.processes {
        pythons.extend(process.python.as_deref());
    }
    let mut not_seen = start.limits.len();
    if let Some(end) = &trace.end {
        not_seen += end.not_seen.len();
    }
    let models = start.gpus.iter().map(|gpu| known(&gpu.name));
    let fixed = [
        ("driver", known(&start.driver_version)),
        ("number of GPUs", start.gpus.len().to_string()),
        ("GPU model", all(models)),
        ("Python", listed(pythons, "none")),
        ("ran on", start.on.clone()),
        ("variable writes are recorded", yes_or_no(start.preload)),
        ("events that could not be recorded", not_seen.to_string()),
    ];
    let mut facts = Vec::new();
    for (name, value) in fixed {
        facts.push((name.to_owned(), value));
    }
    for (name, value) in &start.environment {
        facts.push((name.clone(), value_without_uuids(trace, value)));
    }
    facts
}
