//! Two traces: what two programs, or one with two versions of a framework, did differently.
//!
//! What a program did is put into facts with names that hold for every run of it: the program by its position in the
//! tree of programs, the GPU by its index, the place by file and function. Line numbers, times, PIDs and handles are
//! left out, because they differ where nothing behaves differently.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{
    Comparison, ComparisonSide, EntryDifference, FactDifference, Relation, UNKNOWN, all, is_noise,
    known, yes_or_no,
};
use cuda_pitfalls_core::machine;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_trace::diagnosis::Finding;
use cuda_pitfalls_trace::history::{MASK, ProgramHistory};
use cuda_pitfalls_trace::ledger::all_ledgers;
use cuda_pitfalls_trace::{
    ContextChange, ContextLife, EventKind, History, Trace, TraceEvent, TraceProcess, status_name,
};

/// Names and values are cut to this many bytes.
const LONGEST: usize = 120;
/// The longest chain of parents that is followed.
const DEEPEST: usize = 16;

#[derive(Clone, Debug, PartialEq)]
struct TraceFact {
    name: &'static str,
    value: String,
    /// The number behind it, where a small difference is none.
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

    fn is_same(&self, other: &TraceFact) -> bool {
        match (self.bytes, other.bytes) {
            (Some(a), Some(b)) => is_noise(a, b),
            _ => {
                self.value == other.value || [self, other].iter().any(|fact| fact.value == UNKNOWN)
            }
        }
    }
}

/// The facts of one thing; the first says whether it is there at all.
#[derive(Clone, Debug, Default, PartialEq)]
struct Thing {
    facts: Vec<TraceFact>,
    /// What the first fact is where the thing is not there.
    absent: &'static str,
}

/// What a program did: things by their names, in an order that puts what matters first.
type ProgramBehaviour = BTreeMap<(u8, String), Thing>;

/// What differs between what two programs did: contexts, what `cuInit` read, late writes, limits,
/// errors, functions that are called, memory, pitfalls. Neither times nor PIDs are compared.
pub fn compare_traces(traces: [&Trace; 2], findings: [&[Finding]; 2]) -> Comparison {
    let [a, b] = traces;
    let machines =
        FactDifference::between(&trace_surroundings(a), &trace_surroundings(b), "not set");
    let mut comparison = Comparison::new("trace", traces.map(trace_side), machines);
    let histories = traces.map(History::new);
    let [in_a, in_b] = &histories;
    let did = [
        collect_behavior(in_a, findings[0], in_b),
        collect_behavior(in_b, findings[1], in_a),
    ];
    let stacks = traces
        .into_iter()
        .flat_map(|trace| &trace.events)
        .map(|event| &event.stack);
    let is_blind = stacks
        .into_iter()
        .any(|stack| stack.frames.is_empty() && stack.missing.is_some());
    let names: BTreeSet<&(u8, String)> = did.iter().flat_map(BTreeMap::keys).collect();
    for name in names {
        let [in_a, in_b] = [&did[0], &did[1]].map(|did| did.get(name));
        let changes = changes(in_a, in_b);
        // What a trace that was cut short does not have may have come after its end.
        let sides = [("A", a, in_a), ("B", b, in_b)];
        let cut = sides.iter().find(|(_, trace, thing)| {
            trace.end.is_none() && (thing.is_none() || name.0 > CUMULATIVE)
        });
        let mut notes: Vec<String> = cut
            .map(|(side, ..)| format!("the trace {side} is incomplete"))
            .into_iter()
            .collect();
        // And what it has may have another name where its stack was not read.
        let is_named_by_place = [FINDING, LATE, CONTEXT, FORK, LIMIT, OTHER].contains(&name.0);
        let is_unread = is_named_by_place && (in_a.is_none() || in_b.is_none()) && is_blind;
        notes.extend(is_unread.then(|| "stacks are missing".to_string()));
        let relation = match (changes.is_empty(), notes.is_empty()) {
            (true, _) => Relation::Same,
            (false, true) => Relation::Changed(EntryDifference::new(changes, notes)),
            (false, false) => Relation::Explained(EntryDifference::new(changes, notes)),
        };
        comparison.add_entry(name.1.clone(), None, relation);
    }
    comparison
}

fn changes(a: Option<&Thing>, b: Option<&Thing>) -> Vec<FactDifference> {
    if let (Some(a), Some(b)) = (a, b) {
        let pairs = a
            .facts
            .iter()
            .filter_map(|fact| Some((fact, b.facts.iter().find(|other| other.name == fact.name)?)));
        let differing = pairs.filter(|(fact, other)| !fact.is_same(other));
        return differing
            .map(|(fact, other)| FactDifference::new(fact.name, &fact.value, &other.value))
            .collect();
    }
    // Of a thing that is in one trace alone, the first fact says so.
    let only = a
        .or(b)
        .and_then(|thing| Some((thing.facts.first()?, thing.absent)));
    let told = only.map(|(fact, absent)| match a {
        Some(_) => FactDifference::new(fact.name, &fact.value, absent),
        None => FactDifference::new(fact.name, absent, &fact.value),
    });
    told.into_iter().collect()
}

// The order of things. What is summed over the whole run comes last.
const PROGRAM: u8 = 0;
const FINDING: u8 = 1;
const INIT: u8 = 2;
const LATE: u8 = 3;
const CONTEXT: u8 = 4;
const FORK: u8 = 5;
const LIMIT: u8 = 6;
const ERROR: u8 = 7;
const OTHER: u8 = 8;
/// What comes after this is summed, so that a trace that was cut short has too little of it.
const CUMULATIVE: u8 = 9;
const PEAK: u8 = 10;
const OWNER: u8 = 11;
const CALL: u8 = 12;

/// Everything that a program did, under names that both traces have for it.
fn collect_behavior(history: &History, findings: &[Finding], other: &History) -> ProgramBehaviour {
    let trace = history.trace;
    let tree = Tree::new(history, other);
    let mut did = ProgramBehaviour::new();
    if let Some(end) = &trace.end {
        let exit = end.signal.clone().or(end.code.map(|code| code.to_string()));
        let facts = vec![TraceFact::text(
            "exit",
            exit.unwrap_or_else(|| UNKNOWN.to_string()),
        )];
        did.insert(
            (PROGRAM, "the program".to_string()),
            Thing {
                facts,
                absent: UNKNOWN,
            },
        );
    }
    for (position, programs) in tree.programs_by_position() {
        note_inits(trace, &mut did, &tree.named(position, "cuInit"), &programs);
    }
    contexts(history, &tree, &mut did);
    for (index, event) in trace.events.iter().enumerate() {
        note_plain_event(history, &tree, &mut did, (index, event));
    }
    for finding in findings {
        let index = finding.events.first().copied();
        let event = index.and_then(|index| trace.events.get(index));
        let program = index.and_then(|index| history.program_of(index));
        let position =
            tree.program_position(program.or_else(|| history.program_at(finding.pid, u64::MAX)));
        let on = trace
            .gpu_index(finding.gpu.as_deref())
            .map(|index| format!(" on GPU {index}"))
            .unwrap_or_default();
        let at = event
            .map(|event| format!(", {}", place(event)))
            .unwrap_or_default();
        let name = tree.named(
            position,
            &format!("{} {}{on}{at}", finding.severity.name(), finding.rule),
        );
        once(&mut did, FINDING, name, "found");
    }
    note_memory_peaks(trace, &mut did);
    note_memory_owners(history, &tree, &mut did, other);
    calls(history, &tree, &mut did, other);
    did
}

fn once(did: &mut ProgramBehaviour, order: u8, name: String, fact: &'static str) {
    let thing = Thing {
        facts: vec![TraceFact::text(fact, "yes")],
        absent: "no",
    };
    did.entry((order, shorten_text(&name, 2 * LONGEST)))
        .or_insert(thing);
}

/// What the programs at one position did to initialise CUDA.
fn note_inits(trace: &Trace, did: &mut ProgramBehaviour, name: &str, programs: &[&ProgramHistory]) {
    let inits = programs.iter().filter_map(|program| program.init());
    let begun: Vec<_> = inits
        .filter_map(|init| Some((init, init.begun.last()?.1)))
        .collect();
    if begun.is_empty() {
        return;
    }
    let masks = begun.iter().map(|(init, _)| match init.value(MASK) {
        None => UNKNOWN.to_string(),
        Some(None) => "(unset)".to_string(),
        Some(Some(mask)) => value_without_uuids(trace, mask),
    });
    let visible = begun.iter().map(|(init, _)| {
        init.visible().map_or_else(
            || "none: it failed".to_string(),
            |(_, gpus)| gpus.len().to_string(),
        )
    });
    let facts = vec![
        TraceFact::text("made by", each(begun.iter().map(|(_, event)| place(event)))),
        TraceFact::text("CUDA_VISIBLE_DEVICES", each(masks)),
        TraceFact::text("visible GPUs", each(visible)),
    ];
    did.insert(
        (INIT, name.to_string()),
        Thing {
            facts,
            absent: "nothing",
        },
    );
}

/// Different values without those that are not known. How many processes have which is left out: how
/// many there are may depend on the machine.
fn each(values: impl Iterator<Item = String>) -> String {
    let known: BTreeSet<String> = values.filter(|value| value != UNKNOWN).collect();
    listed(known, UNKNOWN)
}

fn contexts(history: &History, tree: &Tree, did: &mut ProgramBehaviour) {
    let mut groups: BTreeMap<String, Vec<&ContextLife>> = BTreeMap::new();
    for life in &history.contexts {
        let name = format!(
            "context on {}, {}",
            gpu(history.trace, life.made),
            place(life.made)
        );
        groups
            .entry(tree.named(tree.program_position(Some(life.program)), &name))
            .or_default()
            .push(life);
    }
    for (name, lives) in groups {
        let used = lives
            .iter()
            .map(|life| Some(yes_or_no(!life.uses?.is_none())))
            .collect::<Option<Vec<_>>>();
        let used = used.map_or_else(|| UNKNOWN.to_string(), |used| all(used.into_iter()));
        let mut facts = vec![
            TraceFact::text("contexts", lives.len().to_string()),
            TraceFact::text("used", used),
        ];
        let bytes = lives
            .iter()
            .map(|life| life.bytes)
            .try_fold(0_i64, |sum, bytes| Some(sum.saturating_add(bytes?)));
        facts.extend(bytes.map(|bytes| TraceFact {
            name: "memory",
            value: units::format_delta(bytes),
            bytes: Some(bytes),
        }));
        did.insert(
            (CONTEXT, shorten_text(&name, 2 * LONGEST)),
            Thing { facts, absent: "0" },
        );
    }
}

fn note_plain_event(
    history: &History,
    tree: &Tree,
    did: &mut ProgramBehaviour,
    (index, event): (usize, &TraceEvent),
) {
    let trace = history.trace;
    let (order, what, fact) = match &event.what {
        EventKind::Variable { name, value, .. }
            if history.write(index).is_some_and(|write| write.is_late()) =>
        {
            let value = value.as_deref().map_or_else(
                || "(unset)".to_string(),
                |value| value_without_uuids(trace, value),
            );
            (
                LATE,
                format!("write of {name}={value}"),
                "comes after cuInit",
            )
        }
        EventKind::Context {
            change: ContextChange::Failed,
            ..
        } => (
            ERROR,
            format!("no context on {}, {}", gpu(trace, event), code(event)),
            "happens",
        ),
        EventKind::Context {
            change: ContextChange::Reset,
            ..
        } => (
            OTHER,
            format!("reset of the context on {}", gpu(trace, event)),
            "happens",
        ),
        EventKind::Limit { limit, .. } => (LIMIT, format!("limit {limit}"), "set to"),
        EventKind::Forked { .. } => (FORK, "fork after cuInit".to_string(), "happens"),
        EventKind::Error => (
            ERROR,
            format!("{} by {}", code(event), shorten_text(&event.call, LONGEST)),
            "returned",
        ),
        EventKind::HostMemory { .. } => (OTHER, "page-locked memory".to_string(), "allocated"),
        EventKind::Peer => (OTHER, "peer access".to_string(), "happens"),
        EventKind::Ipc => (OTHER, "handle between processes".to_string(), "happens"),
        EventKind::Init { .. }
        | EventKind::MaskRead { .. }
        | EventKind::InitDone { .. }
        | EventKind::Variable { .. }
        | EventKind::Context { .. }
        | EventKind::FirstUse { .. }
        | EventKind::Module => return,
    };
    let what = if order == ERROR {
        what
    } else {
        format!("{what}, {}", place(event))
    };
    let name = tree.named(tree.program_position(history.program_of(index)), &what);
    if let EventKind::Limit {
        value,
        after_launch,
        ..
    } = &event.what
    {
        let facts = vec![
            TraceFact::text(fact, value.to_string()),
            TraceFact::text("returned", code(event)),
            TraceFact::text("after a launch", yes_or_no(*after_launch)),
        ];
        did.insert(
            (order, name),
            Thing {
                facts,
                absent: "not set",
            },
        );
    } else {
        once(did, order, name, fact);
    }
}

/// The most that each GPU had more than before the program was started.
fn note_memory_peaks(trace: &Trace, did: &mut ProgramBehaviour) {
    // A GPU whose memory did not change is one with a peak of nothing. Of one that was not read, nothing is known.
    let read = trace
        .start
        .used_bytes
        .iter()
        .take(64)
        .enumerate()
        .filter_map(|(index, before)| Some((index, (*before)?)));
    let before: BTreeMap<usize, u64> = read.collect();
    let mut peaks: BTreeMap<usize, i64> = before.keys().map(|index| (*index, 0)).collect();
    for memory in &trace.memory {
        if let Some((before, peak)) = before.get(&memory.index).zip(peaks.get_mut(&memory.index)) {
            let bytes = i64::try_from(i128::from(memory.used_bytes) - i128::from(*before))
                .unwrap_or(i64::MAX);
            *peak = (*peak).max(bytes);
        }
    }
    for (index, peak) in peaks {
        let facts = vec![TraceFact {
            name: "peak",
            value: units::format_delta(peak),
            bytes: Some(peak),
        }];
        did.insert(
            (PEAK, format!("memory of GPU {index}")),
            Thing {
                facts,
                absent: UNKNOWN,
            },
        );
    }
}

/// Whose the memory was at the peak of each process, by what it is for. Nothing where one of the two has no ledger.
fn note_memory_owners(history: &History, tree: &Tree, did: &mut ProgramBehaviour, other: &History) {
    if !(history.trace.start.ledger && other.trace.start.ledger) {
        return;
    }
    let others = held(other, &Tree::new(other, history));
    let mut held = held(history, tree);
    // What only the other one has is nothing here, so that a little of it is no difference. Where NVML could not be read,
    // it is not known.
    let is_read = all_ledgers(history.trace)
        .iter()
        .all(|ledger| ledger.peak.charged_bytes.is_some());
    if is_read {
        for name in others.into_keys() {
            held.entry(name).or_insert(0);
        }
    }
    for (name, bytes) in held {
        let facts = vec![TraceFact {
            name: "at the peak",
            value: units::signed_bytes(bytes),
            bytes: Some(bytes),
        }];
        did.insert(
            (OWNER, name),
            Thing {
                facts,
                absent: UNKNOWN,
            },
        );
    }
}

/// The bytes of each owner and purpose at the peaks, by a name that holds for every run.
fn held(history: &History, tree: &Tree) -> BTreeMap<String, i64> {
    let mut held: BTreeMap<String, i64> = BTreeMap::new();
    for ledger in all_ledgers(history.trace) {
        let on = history
            .trace
            .gpu_index(Some(ledger.gpu))
            .map_or(UNKNOWN.to_string(), |index| format!("GPU {index}"));
        let rows = ledger.peak.rows.iter().map(|row| {
            let what = format!(
                "{} of {} on {on}",
                row.kind.in_words(),
                shorten_text(row.owner.name, LONGEST)
            );
            (what, i64::try_from(row.bytes).unwrap_or(i64::MAX))
        });
        let rest = ledger
            .peak
            .unattributed_bytes
            .map(|rest| (format!("memory not attributed on {on}"), rest));
        let position = tree.program_position(history.program_at(ledger.pid, u64::MAX));
        for (what, bytes) in rows.chain(rest) {
            let sum = held.entry(tree.named(position, &what)).or_insert(0);
            *sum = sum.saturating_add(bytes);
        }
    }
    held
}

/// The functions that were called. Without counts of a process nothing is known of what it did not call.
fn calls(history: &History, tree: &Tree, did: &mut ProgramBehaviour, other: &History) {
    let others = Tree::new(other, history);
    let counted = other
        .trace
        .counts
        .iter()
        .map(|counts| others.program_position(other.program_of_counts(counts)));
    let counted: BTreeSet<&str> = counted.collect();
    for counts in &history.trace.counts {
        let position = tree.program_position(history.program_of_counts(counts));
        if counted.contains(position) {
            for (name, _) in counts.calls.iter().filter(|(_, count)| count.calls > 0) {
                once(did, CALL, tree.named(position, name), "called");
            }
        }
    }
}

fn gpu(trace: &Trace, event: &TraceEvent) -> String {
    match (trace.gpu_index(event.gpu.as_deref()), event.device) {
        (Some(index), _) => format!("GPU {index}"),
        (None, Some(device)) => format!("device {device}"),
        (None, None) => "an unknown GPU".to_string(),
    }
}

fn code(event: &TraceEvent) -> String {
    event
        .status
        .map_or_else(|| UNKNOWN.to_string(), status_name)
}

/// The user's own file and function, and what it called; no line, because an edit elsewhere in the file moves it.
fn place(event: &TraceEvent) -> String {
    let own = event.stack.user_frame().map(|frame| {
        let file = frame
            .file
            .as_deref()
            .map(|file| file.rsplit('/').next().unwrap_or(file));
        file.map_or_else(|| frame.name(), |file| format!("{file} {}", frame.name()))
    });
    let entry = event.stack.entry().map(cuda_pitfalls_trace::Frame::name);
    let parts: Vec<String> = own
        .into_iter()
        .chain(entry)
        .map(|part| shorten_text(&part, LONGEST))
        .collect();
    match (parts.is_empty(), &event.stack.missing) {
        (false, _) => parts.join(" → "),
        (true, Some(_)) if event.stack.frames.is_empty() => UNKNOWN.to_string(),
        (true, _) => shorten_text(&event.call, LONGEST),
    }
}

/// A variable's value with indices instead of UUIDs, which no two machines share.
fn value_without_uuids(trace: &Trace, value: &str) -> String {
    let value = super::machine::replace_uuids(value, &trace.start.gpus);
    if value.is_empty() {
        "(empty)".to_string()
    } else {
        shorten_text(&value, LONGEST)
    }
}

/// The programs of a trace by their position: the names of the programs from the first one down.
struct Tree<'h, 'a> {
    programs: &'h [ProgramHistory<'a>],
    /// The position of each program; empty where nothing is known of its process.
    positions: Vec<String>,
    /// Whether there is more than one position, so that names have to say which.
    is_many: bool,
}

impl<'h, 'a> Tree<'h, 'a> {
    /// A trace's programs. Names say the position where either trace has several, so that a thing has one name in both.
    fn new(history: &'h History<'a>, other: &History) -> Tree<'h, 'a> {
        let positions = program_positions(history);
        let is_many = has_several(&positions) || has_several(&self::program_positions(other));
        Tree {
            programs: &history.programs,
            positions,
            is_many,
        }
    }

    fn program_position(&self, program: Option<usize>) -> &str {
        program
            .and_then(|program| self.positions.get(program))
            .map_or("", String::as_str)
    }

    fn programs_by_position(&self) -> BTreeMap<&str, Vec<&'h ProgramHistory<'a>>> {
        let mut positions: BTreeMap<&str, Vec<&ProgramHistory>> = BTreeMap::new();
        for (position, program) in self.positions.iter().zip(self.programs) {
            positions.entry(position).or_default().push(program);
        }
        positions
    }

    fn named(&self, position: &str, what: &str) -> String {
        if self.is_many && !position.is_empty() {
            format!("{position}: {what}")
        } else {
            what.to_string()
        }
    }
}

fn has_several(positions: &[String]) -> bool {
    positions
        .iter()
        .any(|position| Some(position) != positions.first())
}

fn program_positions(history: &History) -> Vec<String> {
    let positions = history.programs.iter().map(|program| {
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
        names.join(" > ")
    });
    positions.collect()
}

/// The name of a process without the version of its Python, which may be what differs.
fn program_name(process: &TraceProcess) -> String {
    let name = process.name();
    match name.strip_prefix("python") {
        Some(rest) => format!(
            "python{}",
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
        ),
        None => name,
    }
}

fn trace_side(trace: &Trace) -> ComparisonSide {
    let start = &trace.start;
    let machine = machine::summarize_gpus(&start.gpus, start.driver_version.as_deref());
    let machine = format!(
        "{machine}, {}",
        shorten_text(&start.command.join(" "), LONGEST)
    );
    ComparisonSide::new(
        &start.started_at,
        &start.version,
        start.provenance,
        trace.end.is_some(),
        machine,
    )
}

/// What differs between the machines, or between what the two traces could see.
fn trace_surroundings(trace: &Trace) -> Vec<(String, String)> {
    let start = &trace.start;
    let pythons: BTreeSet<&str> = trace
        .processes
        .iter()
        .filter_map(|process| process.python.as_deref())
        .collect();
    let not_seen = trace.end.as_ref().map_or(0, |end| end.not_seen.len()) + start.limits.len();
    let fixed = [
        ("driver", known(&start.driver_version)),
        ("number of GPUs", start.gpus.len().to_string()),
        (
            "GPU model",
            all(start.gpus.iter().map(|gpu| known(&gpu.name))),
        ),
        ("Python", listed(pythons, "none")),
        ("ran on", start.on.clone()),
        ("writes of variables are seen", yes_or_no(start.preload)),
        ("things that could not be seen", not_seen.to_string()),
    ];
    let mut facts: Vec<(String, String)> = fixed
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
    facts.extend(
        start
            .environment
            .iter()
            .map(|(name, value)| (name.clone(), value_without_uuids(trace, value))),
    );
    facts
}
