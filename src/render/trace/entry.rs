//! What is shown of a trace: an entry for each important event, or for a group of equal ones.
//!
//! Every form is made of these, so that no two of them can disagree about what is important.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::place;
use crate::diagnosis::Finding;
use crate::policy::Violation;
use crate::text::counts::counted;
use crate::text::units;
use crate::trace::{self, Beside, ContextChange, ContextLife, Event, Trace, Usage, What, Witness, variable};

/// The variables that `cuInit` reads, and nothing reads again in a process (docs/surveys/env.md).
/// A later write of another one may still have an effect.
const READ_BY_CUINIT: [&str; 15] = [
    MASK,
    "CUDA_DEVICE_ORDER",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_DISABLE_JIT",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_MODULE_LOADING",
    "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION",
    "CUDA_COREDUMP_GENERATION_FLAGS",
    "CUDA_COREDUMP_FILE",
];
const MASK: &str = "CUDA_VISIBLE_DEVICES";
/// `CUDA_ERROR_NOT_READY`, which says that work is still going on and is no error.
const NOT_READY: i64 = 600;
/// A change of another GPU's memory that is worth a word, in bytes.
const NOTABLE_BYTES: u64 = 2 << 20;

/// What an entry is about. The order is that of importance: a group of marks has the first's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
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

impl Kind {
    /// All of them.
    pub(super) const ALL: [Kind; 9] = [
        Kind::Init,
        Kind::Variable,
        Kind::Context,
        Kind::Fork,
        Kind::Error,
        Kind::Limit,
        Kind::HostMemory,
        Kind::Sharing,
        Kind::Other,
    ];

    /// A few words for a legend.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Init => "cuInit",
            Kind::Variable => "variable",
            Kind::Context => "context",
            Kind::Fork => "fork",
            Kind::Error => "error",
            Kind::Limit => "limit",
            Kind::HostMemory => "page-locked memory",
            Kind::Sharing => "peer access, IPC",
            Kind::Other => "other",
        }
    }
}

/// A write of a variable after `cuInit` had read it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Late {
    /// The event.
    pub(super) event: usize,
    /// How long after `cuInit`.
    pub(super) after_ns: u64,
}

/// An important event, or a group of equal ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// What it is about.
    pub(super) kind: Kind,
    /// What happened, without the GPU and its memory.
    label: String,
    /// The GPU of a context.
    pub(super) gpu: Option<String>,
    /// The memory of these contexts on that GPU; none where it was not read for one of them.
    pub(super) bytes: Option<i64>,
    /// How many equal ones.
    pub(super) times: usize,
    /// The processes.
    pub(super) pids: Vec<u32>,
    /// The event whose time and stack are shown.
    pub(super) first: usize,
    /// Every event that this entry stands for.
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

impl Entry {
    fn new(kind: Kind, label: String, index: usize, event: &Event) -> Entry {
        let (gpu, bytes, times, first) = (None, None, 1, index);
        let (pids, events) = (vec![event.pid], vec![index]);
        let (late, findings, violations) = Default::default();
        let details = place::meanwhile(event).into_iter().collect();
        Entry { kind, label, gpu, bytes, times, pids, first, events, details, late, findings, violations }
    }

    /// What happened: `GPU 0  +524 MiB  context, never used afterwards`.
    pub(super) fn title(&self) -> String {
        let Some(gpu) = &self.gpu else {
            return if self.times > 1 { format!("{} ({} times)", self.label, self.times) } else { self.label.clone() };
        };
        let memory = units::delta_or_unread(self.bytes);
        let memory = if self.bytes.is_some() { memory } else { "memory not known".to_owned() };
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
    pub(super) all: Vec<Entry>,
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
        let sorts: Vec<String> = self.summed.iter().map(|(sort, times)| format!("{times}× {sort}")).collect();
        (!sorts.is_empty()).then(|| sorts.join(", "))
    }
}

/// What is known of the start-up of CUDA in a process.
#[derive(Default)]
struct Latch<'a> {
    /// The entry of its `cuInit`.
    entry: Option<usize>,
    /// When the driver read its variables.
    t_ns: u64,
    /// Whether it has succeeded, so that nothing is read again.
    is_done: bool,
    /// When that `cuInit` returned.
    returned_ns: u64,
    /// Whether the injection hook was called: it is called once.
    has_hook: bool,
    /// Whether `cuInit` was called again.
    is_again: bool,
    variables: Option<&'a BTreeMap<String, String>>,
    mask: Option<Option<&'a str>>,
}

impl Latch<'_> {
    /// Whether a variable has this value since `cuInit`, as far as it is known.
    fn has(&self, name: &str, value: Option<&str>) -> bool {
        let read = match (name, self.mask) {
            (MASK, Some(mask)) => Some(mask),
            _ => self.variables.map(|variables| variables.get(name).map(String::as_str)),
        };
        read == Some(value)
    }
}

struct Builder<'a> {
    trace: &'a Trace,
    /// When each process began, and when it became another program.
    programs: HashMap<u32, Vec<u64>>,
    lives: HashMap<*const Event, ContextLife<'a>>,
    ends: HashSet<*const Event>,
    /// By PID and by how many programs it has been.
    latches: HashMap<(u32, usize), Latch<'a>>,
    /// The last failed call of each thread.
    failed: HashMap<(u32, u32), (&'a str, Option<i64>)>,
    /// Events that have an entry whatever they are.
    wanted: HashSet<usize>,
    made: Entries,
}

/// The entries of a trace with its findings and violations.
pub(super) fn entries(trace: &Trace, findings: &[Finding], violations: &[Violation]) -> Entries {
    let wanted = findings.iter().flat_map(|finding| finding.events.iter().copied());
    let mut builder = Builder {
        trace,
        programs: HashMap::new(),
        lives: HashMap::new(),
        ends: HashSet::new(),
        latches: HashMap::new(),
        failed: HashMap::new(),
        wanted: wanted.chain(violations.iter().filter_map(|violation| violation.event)).collect(),
        made: Entries::default(),
    };
    for process in &trace.processes {
        builder.programs.entry(process.pid).or_default().push(process.t_ns);
    }
    for life in trace::contexts(trace) {
        builder.ends.extend(life.ended.map(std::ptr::from_ref));
        builder.lives.insert(std::ptr::from_ref(life.made), life);
    }
    for (index, event) in trace.events.iter().enumerate() {
        builder.event(index, event);
    }
    let mut entries = builder.made;
    entries.all = merged(trace, std::mem::take(&mut entries.all));
    let mut owner: HashMap<usize, usize> = HashMap::new();
    for (place, entry) in entries.all.iter().enumerate() {
        owner.extend(entry.events.iter().map(|event| (*event, place)));
    }
    for (index, finding) in findings.iter().enumerate() {
        let place = finding.events.iter().find_map(|event| owner.get(event));
        match place.and_then(|place| entries.all.get_mut(*place)) {
            Some(entry) => entry.findings.push(index),
            None => entries.findings.push(index),
        }
    }
    for entry in &mut entries.all {
        // Pitfalls stand before notes.
        entry.findings.sort_by_key(|index| findings.get(*index).map(|finding| finding.severity));
    }
    for (index, violation) in violations.iter().enumerate() {
        let place = violation.event.and_then(|event| owner.get(&event));
        match place.and_then(|place| entries.all.get_mut(*place)) {
            Some(entry) => entry.violations.push(index),
            None => entries.violations.push(index),
        }
    }
    entries
}

impl<'a> Builder<'a> {
    fn event(&mut self, index: usize, event: &'a Event) {
        let programs = self.programs.get(&event.pid).map_or(0, |began| {
            // The first line of a process may bear a later time than its first event.
            began.iter().filter(|began| **began <= event.t_ns).count().max(1)
        });
        let key = (event.pid, programs);
        let failed = (event.call.as_str(), event.status);
        let is_told = self.failed.get(&(event.pid, event.tid)) == Some(&failed);
        if event.status.is_some_and(|status| status != 0) {
            self.failed.insert((event.pid, event.tid), failed);
        } else {
            self.failed.remove(&(event.pid, event.tid));
        }
        match &event.what {
            What::Init { .. } | What::MaskRead { .. } | What::InitDone { .. } => self.init(key, index, event),
            What::Variable { name, value, .. } => self.variable(key, index, event, name, value.as_deref()),
            What::Context { change, primary, .. } => self.context(index, event, *change, *primary),
            What::HostMemory { bytes } => {
                let label = format!("page-locked host memory, {}", units::bytes(*bytes));
                self.push(Kind::HostMemory, label, index, event);
            }
            What::Limit { limit, value, after_launch } => {
                let (name, value) = place::limit(*limit, *value);
                let after = if *after_launch { ", after a launch" } else { "" };
                let label = match event.status.filter(|status| *status != 0) {
                    None => format!("{name} set to {value}{after}"),
                    Some(status) => format!("{name} not set to {value}{after}: {}", place::status(status)),
                };
                self.push(Kind::Limit, label, index, event);
            }
            What::Forked { parent, contexts } => {
                let contexts = match contexts {
                    0 => "no context".to_owned(),
                    many => counted(u64::from(*many), "context"),
                };
                let label = format!("forked after cuInit: the parent, pid {parent}, has {contexts}");
                self.push(Kind::Fork, label, index, event);
            }
            What::Peer => self.push(Kind::Sharing, format!("peer access: {}", place::short(&event.call)), index, event),
            What::Ipc => self.push(
                Kind::Sharing,
                format!("handle between processes: {}", place::short(&event.call)),
                index,
                event,
            ),
            What::Error if is_told && !self.wanted.contains(&index) => {}
            What::Error if event.status == Some(NOT_READY) => self.minor("call not ready", index, event),
            What::Error => {
                let status = event.status.map_or_else(|| "an error".to_owned(), place::status);
                self.push(Kind::Error, format!("{} returned {status}", place::short(&event.call)), index, event);
            }
            What::FirstUse { .. } => self.minor("first use of a GPU", index, event),
            What::Module => self.minor("module loaded", index, event),
        }
    }

    fn push(&mut self, kind: Kind, label: String, index: usize, event: &Event) {
        self.made.all.push(Entry::new(kind, label, index, event));
    }

    /// Counts an event that is of no importance by itself.
    fn minor(&mut self, sort: &'static str, index: usize, event: &Event) {
        if !self.wanted.contains(&index) {
            *self.made.summed.entry(sort).or_default() += 1;
            return;
        }
        let label = match event.what {
            What::FirstUse { usage } => {
                let usage = match usage {
                    Usage::Launch => "launch",
                    Usage::Copy => "copy",
                    Usage::Allocation => "allocation",
                };
                format!("first {usage} on {}", place::gpu(self.trace, event))
            }
            What::Variable { ref name, .. } => format!("{} written", place::short(name)),
            _ => place::short(&event.call),
        };
        self.push(Kind::Other, label, index, event);
    }

    /// What belongs to a `cuInit` is one entry: that it began, what it read, what it returned.
    fn init(&mut self, key: (u32, usize), index: usize, event: &'a Event) {
        let latch = self.latches.entry(key).or_default();
        // The return bears the time of the call, and the hook and the reading, which come in between, bear
        // later ones: a thread that is parked goes on later.
        let is_of_first = match &event.what {
            What::Init { witness: Witness::Injection, .. } => !latch.has_hook,
            What::MaskRead { .. } => latch.mask.is_none() && !latch.is_again,
            _ => false,
        };
        if latch.is_done && event.t_ns > latch.returned_ns && !is_of_first {
            latch.is_again |= matches!(event.what, What::Init { .. });
            // A second cuInit changes nothing.
            return match event.what {
                What::Init { .. } => self.minor("later cuInit", index, event),
                _ if self.wanted.contains(&index) => self.minor("", index, event),
                _ => {}
            };
        }
        let place = *latch.entry.get_or_insert_with(|| {
            latch.t_ns = event.t_ns;
            self.made.all.push(Entry::new(Kind::Init, "cuInit".to_owned(), index, event));
            self.made.all.len() - 1
        });
        let Some(entry) = self.made.all.get_mut(place) else { return };
        if entry.events.last() != Some(&index) {
            entry.events.push(index);
        }
        let has_stack = |index: usize| self.trace.events.get(index).is_some_and(|event| !event.stack.frames.is_empty());
        if !has_stack(entry.first) && has_stack(index) {
            entry.first = index;
        }
        match &event.what {
            What::Init { variables, witness } => {
                latch.has_hook |= *witness == Witness::Injection;
                latch.variables = Some(variables);
                if latch.mask.is_none() {
                    let mask = place::value(variables.get(MASK).map(String::as_str));
                    entry.label = format!("cuInit with {MASK} {mask}");
                }
                let matters = |name: &str| name != MASK && variable::is_of_cuda(name.as_bytes());
                let others = variables.iter().filter(|(name, _)| matters(name));
                let others: Vec<String> =
                    others.map(|(name, value)| format!("{}={}", place::short(name), place::short(value))).collect();
                if !others.is_empty() && !entry.details.iter().any(|detail| detail.starts_with("with ")) {
                    entry.details.push(format!("with {}", others.join(", ")));
                }
            }
            What::MaskRead { value, .. } => {
                // The last reading counts: a hook may change the variable between two.
                latch.mask = Some(value.as_deref());
                entry.label = format!("{MASK} was read as {}", place::value(value.as_deref()));
            }
            What::InitDone { visible, gpus } => {
                let mask = latch.mask.flatten().or_else(|| latch.variables?.get(MASK).map(String::as_str));
                match visible {
                    Some(visible) => {
                        latch.is_done = true;
                        latch.returned_ns = event.t_ns.saturating_add(event.elapsed_ns.unwrap_or(0));
                        let is_notable = mask.is_some() || *visible as usize != self.trace.start.gpus.len();
                        entry.details.extend(is_notable.then(|| seen(self.trace, *visible, gpus)));
                    }
                    None => {
                        let status = event.status.map_or_else(|| "an error".to_owned(), place::status);
                        entry.details.push(format!("cuInit returned {status}"));
                        // A later one reads the variables anew and has an entry of its own.
                        *latch = Latch::default();
                    }
                }
            }
            _ => {}
        }
    }

    fn variable(&mut self, key: (u32, usize), index: usize, event: &'a Event, name: &str, value: Option<&str>) {
        let latch = self.latches.get(&key).filter(|latch| latch.entry.is_some());
        let is_late = latch.is_some_and(|latch| latch.is_done && READ_BY_CUINIT.contains(&name));
        if let Some(latch) = latch.filter(|_| is_late) {
            if latch.has(name, value) {
                return self.minor("write of the value that cuInit had read", index, event);
            }
            let after_ns = event.t_ns.saturating_sub(latch.t_ns);
            if let Some(entry) = latch.entry.and_then(|place| self.made.all.get_mut(place)) {
                entry.events.push(index);
                return entry.late.push(Late { event: index, after_ns });
            }
        }
        let after = if latch.is_some() { ", after cuInit" } else { "" };
        self.push(Kind::Variable, format!("{}{after}", written(event)), index, event);
    }

    fn context(&mut self, index: usize, event: &'a Event, change: ContextChange, primary: bool) {
        let gpu = place::gpu(self.trace, event);
        let verb = match change {
            ContextChange::Made => return self.made(index, event, primary),
            ContextChange::Failed => {
                let status = event.status.map_or_else(|| "an error".to_owned(), place::status);
                return self.push(Kind::Context, format!("no context on {gpu}: {status}"), index, event);
            }
            change => ended(change),
        };
        if self.ends.contains(&std::ptr::from_ref(event)) && !self.wanted.contains(&index) {
            // Told with the context that it ends.
            return;
        }
        self.push(Kind::Context, format!("context on {gpu} {verb}"), index, event);
    }

    fn made(&mut self, index: usize, event: &'a Event, primary: bool) {
        let Some(life) = self.lives.get(&std::ptr::from_ref(event)) else { return };
        let label = if life.is_unused() { "context, never used afterwards" } else { "context" };
        let mut entry = Entry::new(Kind::Context, label.to_owned(), index, event);
        entry.gpu = Some(place::gpu(self.trace, event));
        entry.bytes = life.bytes;
        if !primary {
            entry.details.push("not the primary context of its GPU".to_owned());
        }
        if let Some((end, What::Context { change, .. })) = life.ended.map(|end| (end, &end.what)) {
            let at = place::place(self.trace, end).map(|place| format!(" by {}", shown(&place)));
            entry.details.push(format!("{}{}", ended(*change), at.unwrap_or_default()));
        }
        let own = self.trace.gpu_index(event.gpu.as_deref());
        let grown = own.and_then(|own| event.memory_bytes.get(own).copied().flatten());
        let grown = grown.map_or_else(String::new, |grown| format!(": {} in total", units::delta(grown)));
        match life.beside {
            Beside::Nobody => {}
            Beside::Context => {
                entry.details.push(format!("another context was created or destroyed there at the same time{grown}"));
            }
            Beside::Process => {
                entry.details.push(format!("another process changed the GPU's memory at the same time{grown}"));
            }
        }
        for (gpu, bytes) in event.memory_bytes.iter().enumerate().filter(|(gpu, _)| Some(*gpu) != own) {
            if let Some(bytes) = bytes.filter(|bytes| bytes.unsigned_abs() >= NOTABLE_BYTES) {
                entry.details.push(format!("at the same time GPU {gpu} {}", units::delta(bytes)));
            }
        }
        self.made.all.push(entry);
    }
}

/// `train.py:31`, with its path.
pub(super) fn shown(place: &place::Place) -> String {
    let file = place::short(&place.file);
    place.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"))
}

/// What a write of a variable did: `CUDA_VISIBLE_DEVICES set to 1`.
fn written(event: &Event) -> String {
    let What::Variable { name, before, value } = &event.what else { return String::new() };
    let was = before.as_deref().map(|before| format!(" (was {})", place::value(Some(before)))).unwrap_or_default();
    match value {
        Some(value) => format!("{} set to {}{was}", place::short(name), place::value(Some(value))),
        None => format!("{} removed{was}", place::short(name)),
    }
}

/// `train.py:31 sets CUDA_VISIBLE_DEVICES=1, 0.41 s too late: no effect`.
pub(super) fn late_write(trace: &Trace, late: &Late) -> String {
    let Some(event) = trace.events.get(late.event) else { return String::new() };
    let What::Variable { name, value, .. } = &event.what else { return String::new() };
    // As in chains, the file's name alone.
    let line = event.stack.users().and_then(crate::trace::Frame::line);
    let who = line.map_or_else(|| format!("pid {}", event.pid), |line| place::short(&line));
    let does = match value {
        Some(value) if value.is_empty() => format!("sets {} to nothing", place::short(name)),
        Some(value) => format!("sets {}={}", place::short(name), place::short(value)),
        None => format!("removes {}", place::short(name)),
    };
    format!("{who} {does}, {} too late: no effect", place::seconds(late.after_ns as f64 / 1e9))
}

fn ended(change: ContextChange) -> &'static str {
    match change {
        ContextChange::Reset => "reset",
        ContextChange::Destroyed => "destroyed",
        _ => "released",
    }
}

/// Which GPUs a process sees, in its own order.
fn seen(trace: &Trace, visible: u32, gpus: &[String]) -> String {
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

/// Equal entries as one. The first one's time and stack stand for all.
fn merged(trace: &Trace, all: Vec<Entry>) -> Vec<Entry> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<Entry> = Vec::new();
    for entry in all {
        let chain =
            |event: usize| trace.events.get(event).map(|event| place::chain(event).join("\n")).unwrap_or_default();
        let late: Vec<String> =
            entry.late.iter().map(|late| late_write(trace, &Late { event: late.event, after_ns: 0 })).collect();
        let key = [
            format!("{:?} {}", entry.kind, entry.label),
            entry.gpu.clone().unwrap_or_default(),
            chain(entry.first),
            entry.details.join("\n"),
            late.join("\n"),
        ];
        let known = places.get(&key.join("\0")).and_then(|place| merged.get_mut(*place));
        match known {
            Some(known) => {
                known.times += 1;
                known.bytes = known.bytes.zip(entry.bytes).map(|(a, b)| a.saturating_add(b));
                known.events.extend(entry.events);
                known.pids.extend(entry.pids);
            }
            None => {
                places.insert(key.join("\0"), merged.len());
                merged.push(entry);
            }
        }
    }
    for entry in &mut merged {
        entry.pids.sort_unstable();
        entry.pids.dedup();
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::trace::fixture;

    fn titles(trace: &Trace) -> Vec<String> {
        entries(trace, &[], &[]).all.iter().map(Entry::title).collect()
    }

    #[test]
    fn important_events_have_an_entry_and_the_others_are_counted() {
        let trace = fixture::trace();
        let expected = [
            "CUDA_VISIBLE_DEVICES was read as (unset)",
            "GPU 1  +527 MiB  context",
            "GPU 0  +524 MiB  context, never used afterwards",
            "forked after cuInit: the parent, pid 4711, has 2 contexts",
            "cuMemGetInfo_v2 returned CUDA_ERROR_NOT_INITIALIZED (3)",
            "CU_LIMIT_MALLOC_HEAP_SIZE not set to 64 MiB, after a launch: CUDA_ERROR_INVALID_VALUE (1)",
        ];
        assert_eq!(titles(&trace), expected);
        let made = entries(&trace, &[], &[]);
        assert_eq!(made.summed, BTreeMap::from([("first use of a GPU", 3), ("module loaded", 12)]));
    }

    #[test]
    fn a_late_write_belongs_to_the_reading_that_it_missed() {
        let trace = fixture::trace();
        let made = entries(&trace, &fixture::findings(&trace), &fixture::outcome(&trace).violations);
        let init = made.all.first().unwrap();
        let late: Vec<String> = init.late.iter().map(|late| late_write(&trace, late)).collect();
        assert_eq!(late, ["train.py:31 sets CUDA_VISIBLE_DEVICES=1, 0.41 s too late: no effect"]);
        assert_eq!((init.findings.as_slice(), made.all.get(2).map(|it| it.violations.len())), (&[0][..], Some(1)));
    }

    #[test]
    fn a_write_of_what_was_read_is_not_late_and_one_that_may_count_is_not_called_without_effect() {
        let mut trace = fixture::trace();
        let write = trace.events.iter_mut().find(|event| matches!(event.what, What::Variable { .. })).unwrap();
        let variable = |name: &str, value: Option<&str>| What::Variable {
            name: name.to_owned(),
            before: Some("0".to_owned()),
            value: value.map(str::to_owned),
        };
        write.what = variable("CUDA_LAUNCH_BLOCKING", Some("1"));
        assert!(titles(&trace).contains(&"CUDA_LAUNCH_BLOCKING set to 1 (was 0), after cuInit".to_owned()));
        let write = trace.events.iter_mut().find(|event| matches!(event.what, What::Variable { .. })).unwrap();
        write.what = variable(MASK, None);
        let made = entries(&trace, &[], &[]);
        assert!(made.all.iter().all(|entry| entry.late.is_empty()));
        assert_eq!(made.summed.get("write of the value that cuInit had read"), Some(&1));
    }

    /// A test of the rules holds their names against the survey that measured when each variable is read.
    #[test]
    fn what_cu_init_reads_is_what_the_rules_call_late() {
        let mut late: Vec<&str> = Vec::new();
        for rule in
            crate::diagnosis::rules().iter().filter(|rule| ["late-mask", "late-variable"].contains(&&*rule.name))
        {
            let asked = rule.when.iter().flat_map(|when| &when.is).filter(|(attribute, _)| *attribute == "name");
            late.extend(asked.flat_map(|(_, values)| values).filter_map(|value| match value {
                crate::diagnosis::clue::Value::Text(name) => Some(name.as_str()),
                _ => None,
            }));
        }
        late.sort_unstable();
        let mut read = READ_BY_CUINIT.to_vec();
        read.sort_unstable();
        assert_eq!(read, late);
    }

    #[test]
    fn what_a_call_of_cu_init_does_until_it_returns_is_one_entry() {
        let mut trace = fixture::trace();
        // What returned bears the time of the call, and comes first.
        let mut done = trace.events.remove(2);
        (done.t_ns, done.elapsed_ns) = (trace.events[0].t_ns - 1, Some(20_000_000));
        trace.events.insert(0, done);
        assert_eq!(titles(&trace)[0], "CUDA_VISIBLE_DEVICES was read as (unset)");
        assert_eq!(entries(&trace, &[], &[]).summed.get("later cuInit"), None);
        // Nor does it matter how long the thread was parked.
        trace.events[0].elapsed_ns = None;
        assert_eq!(titles(&trace)[0], "CUDA_VISIBLE_DEVICES was read as (unset)");
        let mut again = trace.events[1].clone();
        again.t_ns += 50_000_000;
        trace.events.insert(3, again);
        assert_eq!(entries(&trace, &[], &[]).summed.get("later cuInit"), Some(&1));
    }

    #[test]
    fn another_program_in_the_same_process_reads_its_variables_anew() {
        let mut trace = fixture::trace();
        let second: Vec<Event> = trace.events.iter().take(3).cloned().collect();
        let mut again = trace.processes.first().unwrap().clone();
        again.t_ns = trace.events.last().unwrap().t_ns + 1;
        for mut event in second {
            event.t_ns += 4_000_000_000;
            trace.events.push(event);
        }
        let count = |trace: &Trace| {
            entries(trace, &[], &[]).all.iter().map(|it| it.times * usize::from(it.kind == Kind::Init)).sum::<usize>()
        };
        assert_eq!(count(&trace), 1, "a second cuInit of the same program is no news");
        trace.processes.push(again);
        assert_eq!(count(&trace), 2);
    }

    #[test]
    fn equal_events_of_many_processes_are_one_entry() {
        let mut trace = fixture::trace();
        let stray = trace.events.iter().find(|event| event.device == Some(0)).unwrap().clone();
        for pid in 0..199 {
            let mut event = stray.clone();
            event.pid = 20_000 + pid;
            event.own_bytes = Some(524 << 20);
            trace.events.push(event);
        }
        let made = entries(&trace, &[], &[]);
        let group = made.all.iter().find(|entry| entry.times > 1).unwrap();
        assert_eq!((group.times, group.pids.len()), (199, 199), "the first is known to be unused, the others are not");
        assert_eq!(group.title(), "GPU 0  +102 GiB  199 contexts");
    }

    #[test]
    fn an_event_that_a_finding_names_has_an_entry_whatever_it_is() {
        let trace = fixture::trace();
        let module = trace.events.iter().position(|event| event.what == What::Module).unwrap();
        let mut finding = fixture::findings(&trace).remove(0);
        finding.events = vec![module];
        let mut lost = finding.clone();
        lost.events = vec![usize::MAX];
        let made = entries(&trace, &[finding, lost], &[]);
        let own = made.all.iter().find(|entry| entry.kind == Kind::Other).unwrap();
        assert_eq!((own.title().as_str(), own.findings.as_slice()), ("cuLibraryLoadData", &[0][..]));
        assert_eq!((made.findings, made.summed.get("module loaded")), (vec![1], Some(&11)));
    }
}
