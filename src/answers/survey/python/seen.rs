//! Derives the actions of a line from the trace of an attempt and the messages of the row's program.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PythonFacts, PythonSeen};
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_core::verdict::{Invalidation, Reason};
use cuda_pitfalls_trace::history::{Init, MASK, ProgramHistory};
use cuda_pitfalls_trace::{
    ContextLife, End, EventSource, Frame, FrameLanguage, FrameOwner, History, Stack, Trace,
    TraceEvent, TraceProcess, status_name,
};

/// Names of functions and files, and the texts of exceptions and values, are cut to this many bytes.
const LONGEST: usize = 200;
/// Maximum length of the first line of an exception's text, in bytes; [`LONGEST_MORE`] applies to the others.
const LONGEST_MESSAGE: usize = 400;
const LONGEST_MORE: usize = 2000;
/// Maximum numbers of outermost and of innermost functions in a stack.
const MOST_FRAMES: (usize, usize) = (8, 16);

/// An exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// The name of the exception's type, such as `RuntimeError`.
    pub kind: String,
    /// The first line of the exception's text.
    pub message: String,
    /// Further lines; absent if the text has only one line, and in `survey python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// `true` if it shows that something named in the row's own code does not exist in this version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// A message of a row's program, one per line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
enum ProgramMessage {
    /// The code in question begins.
    Ask {
        /// The time, by `CLOCK_MONOTONIC`.
        t_ns: u64,
        pid: u32,
    },
    /// The code in question has ended.
    End(ProgramEnd),
    /// An exception ended the code before the code in question.
    Setup { raised: Raised },
}

/// The end of the code in question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct ProgramEnd {
    /// The time, by `CLOCK_MONOTONIC`.
    t_ns: u64,
    /// The value of the code, if it has one.
    value: Option<String>,
    /// The exception that ended the code.
    raised: Option<Raised>,
    /// The first of its warnings, each with its category.
    #[serde(default)]
    warned: Vec<String>,
    /// What it did in addition to its own work.
    #[serde(default)]
    effects: SideEffects,
}

/// Actions of a line in addition to `cuInit`. Variables and names are as the program wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SideEffects {
    /// `true` if its Python code looks `CUDA_VISIBLE_DEVICES` up in `os.environ`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub looks: bool,
    /// `true` if NVML was loaded when it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nvml: bool,
    /// Variables about CUDA that it set and left set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// Number of threads that it left running.
    #[serde(skip_serializing_if = "is_zero")]
    pub threads: u32,
    /// Programs of the processes that it started, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// Optional libraries that it looked for in vain, which call the driver where they are installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// First words of the variables that [`SideEffects::sets`] contains.
const ABOUT_CUDA: [&str; 11] = [
    "CUDA", "CUPY", "JAX", "NCCL", "NUMBA", "NVIDIA", "PYTORCH", "TF", "TORCH", "TRITON", "XLA",
];
/// Maximum number of names in each list of [`SideEffects`].
const MOST_NAMES: usize = 8;

/// All messages of a row's program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramMessages {
    ask: Option<(u64, u32)>,
    end: Option<ProgramEnd>,
    setup: Option<Raised>,
}

impl ProgramMessages {
    /// Parses the messages: one JSON object per line. Other lines are ignored.
    pub fn read(text: &str) -> ProgramMessages {
        let mut said = ProgramMessages::default();
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(ProgramMessage::Ask { t_ns, pid }) => said.ask = Some((t_ns, pid)),
                Ok(ProgramMessage::End(mut end)) => {
                    end.value = end.value.map(|value| shorten_text(&value, LONGEST));
                    end.raised = end.raised.map(shorten_raised);
                    for warning in &mut end.warned {
                        *warning = shorten_text(warning, LONGEST_MESSAGE);
                    }
                    said.end = Some(end);
                }
                Ok(ProgramMessage::Setup { raised }) => said.setup = Some(shorten_raised(raised)),
                Err(_) => {}
            }
        }
        said
    }
}

fn shorten_raised(
    Raised {
        kind,
        message,
        more,
        absent,
    }: Raised,
) -> Raised {
    Raised {
        kind: shorten_text(&kind, LONGEST),
        message: shorten_text(&message, LONGEST_MESSAGE),
        more: match more {
            Some(more) if !more.is_empty() => Some(shorten_text(&more, LONGEST_MORE)),
            _ => None,
        },
        absent,
    }
}

/// The result of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PythonAttempt {
    /// Observed facts.
    pub seen: PythonFacts,
    /// The first of its warnings, each with its category.
    pub warned: Vec<String>,
    /// `true` if no other attempt ran at the same time.
    pub alone: bool,
    /// The command of the child process that called `cuInit`, if one did.
    pub child: Option<String>,
    /// The exception that ended the code before the code in question.
    pub setup: Option<Raised>,
    /// Reason why the attempt does not count.
    pub invalid: Option<Invalidation>,
    /// The driver calls that the attempt's processes made.
    pub called: BTreeSet<String>,
    /// `true` if the code before the code in question called `cuInit`, with or without success.
    pub called_before: Option<bool>,
    /// What the line did in addition to calling `cuInit`.
    pub side_effects: SideEffects,
}

impl PythonAttempt {
    /// Returns an attempt without observations that does not count, with the reason.
    pub fn failed(reason: Reason, detail: impl Into<String>) -> PythonAttempt {
        PythonAttempt {
            invalid: Some(Invalidation {
                reason,
                detail: detail.into(),
            }),
            ..PythonAttempt::default()
        }
    }

    /// Returns its observations, with the word for the reason why it does not count.
    pub fn into_seen(self) -> PythonSeen {
        let PythonAttempt {
            seen,
            warned,
            alone,
            invalid,
            ..
        } = self;
        let facts = PythonFacts {
            way: Vec::new(),
            ..seen
        };
        PythonSeen {
            facts,
            invalid: invalid.map(|invalid| invalid.reason.name()),
            warned,
            alone,
        }
    }
}

/// Returns the result of an attempt. `folder` contains the row's own files, `limit_ns` is the time limit, and `alone`
/// is `true` if no other attempt ran at the same time.
pub fn made(
    trace: &Trace,
    said: &ProgramMessages,
    folder: &str,
    limit_ns: u64,
    alone: bool,
) -> PythonAttempt {
    let left = trace.end.as_ref().and_then(End::failure_reason);
    let invalid = invalid(trace, said, left.as_deref(), limit_ns);
    let mut made = PythonAttempt {
        invalid,
        alone,
        ..PythonAttempt::default()
    };
    for counts in &trace.counts {
        made.called.extend(counts.calls.keys().cloned());
    }
    made.setup = said.setup.clone();
    let seen = &mut made.seen;
    seen.left = left;
    if let Some(end) = &said.end {
        seen.value = end.value.clone();
        seen.raised = end.raised.clone();
        made.warned = end.warned.clone();
        made.side_effects = end.effects.clone();
        seen.elapsed_ns = said.ask.map(|(ask_ns, _)| end.t_ns.saturating_sub(ask_ns));
    }
    let Some((ask_ns, pid)) = said.ask else {
        return made;
    };
    if trace.start.libcuda.is_none() {
        return made;
    }
    let own = LineHistory {
        trace,
        history: History::new(trace),
        folder,
        ask_ns,
        pid,
    };
    own.init(&mut made);
    own.side_effects(&mut made.side_effects);
    own.contexts(&mut made.seen, alone);
    if alone {
        made.seen.device_used_bytes = own.memory_growth();
    }
    made
}

/// Returns the first `cuInit` call of a traced program: the innermost public function of a package with its place, the
/// packages' functions outermost first, and the command of the process if it is a child. The parts are empty if it was
/// not called.
pub fn stack_of_init(trace: &Trace) -> (Option<String>, Vec<String>, Option<String>) {
    let pid = trace.processes.first().map_or(0, |process| process.pid);
    let own = LineHistory {
        trace,
        history: History::new(trace),
        folder: "",
        ask_ns: 0,
        pid,
    };
    let Some((program, _, stack)) = own.first_init() else {
        return Default::default();
    };
    let mut way = Vec::new();
    for frame in stack.frames.iter().rev() {
        if is_of_code(frame) {
            way.push(own.frame_text(frame));
        }
    }
    let child = match program.process {
        Some(process) if process.pid != pid => Some(own.command(process)),
        _ => None,
    };
    (own.at(stack), way, child)
}

/// Returns `true` if a frame is Python code that does not belong to the system.
fn is_of_code(frame: &Frame) -> bool {
    frame.language == FrameLanguage::Python && frame.owner != FrameOwner::System
}

fn push_new(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}

fn because(reason: Reason, detail: String) -> Option<Invalidation> {
    Some(Invalidation { reason, detail })
}

/// Returns the reason why an attempt does not count.
fn invalid(
    trace: &Trace,
    said: &ProgramMessages,
    left: Option<&str>,
    limit_ns: u64,
) -> Option<Invalidation> {
    let Some(end) = &trace.end else {
        return because(Reason::System, "its trace was cut short".to_string());
    };
    let has_libcuda = trace.start.libcuda.is_some();
    if let Some(Raised { kind, message, .. }) = &said.setup {
        let reason = match kind.as_str() {
            "ModuleNotFoundError" => Reason::NoPackage,
            // Most lines of frameworks do nothing useful without libcuda.
            _ if !has_libcuda => Reason::NoLibcuda,
            _ => Reason::SetupRaised,
        };
        return because(reason, format!("{kind}: {message}"));
    }
    let took_ns = end.t_ns.saturating_sub(trace.start.t_ns);
    if said.end.is_none() {
        let begun = if said.ask.is_some() {
            "the measured line"
        } else {
            "the lines before it"
        };
        return match left {
            Some("SIGKILL") if took_ns >= limit_ns => {
                let seconds = limit_ns / 1_000_000_000;
                because(
                    Reason::Hang,
                    format!("{begun} did not end within {seconds} s, and it was killed"),
                )
            }
            Some(left) if end.signal.is_some() => {
                because(Reason::Crashed, format!("{left} ended it in {begun}"))
            }
            left => because(
                Reason::ExitedEarly,
                format!("it exited in {begun} ({})", left.unwrap_or("exit code 0")),
            ),
        };
    }
    if !has_libcuda {
        let detail = "libcuda was not found: the effect of the line on it is unknown";
        return because(Reason::NoLibcuda, detail.to_string());
    }
    (end.left_out > 0).then(|| Invalidation {
        reason: Reason::Unobservable,
        detail: "it caused more events than a trace can hold".to_string(),
    })
}

/// Returns the time when a call of a trace returned.
fn end_ns(event: &TraceEvent) -> u64 {
    event.t_ns.saturating_add(event.elapsed_ns.unwrap_or(0))
}

/// Actions of the line, in its own process and in children.
struct LineHistory<'a> {
    trace: &'a Trace,
    history: History<'a>,
    folder: &'a str,
    ask_ns: u64,
    pid: u32,
}

impl LineHistory<'_> {
    fn init(&self, made: &mut PythonAttempt) {
        let (mut was_called, mut was_ready) = (false, false);
        for program in &self.history.programs {
            if program.pid != self.pid {
                continue;
            }
            for init in &program.inits {
                was_called |= init.first.t_ns < self.ask_ns;
                if let Some((_, returned)) = init.returned {
                    was_ready |= init.has_succeeded() && returned.t_ns < self.ask_ns;
                }
            }
        }
        made.called_before = Some(was_called);
        let seen = &mut made.seen;
        seen.initialised_before = Some(was_ready);
        let Some((program, init, stack)) = self.first_init() else {
            seen.calls_cuinit = (!was_ready).then_some(false);
            seen.reads_mask = seen.calls_cuinit;
            return;
        };
        seen.calls_cuinit = Some(true);
        if init.has_read_mask() || init.has_succeeded() {
            seen.reads_mask = Some(true);
            seen.mask = init.value(MASK).flatten().map(str::to_owned);
        } else {
            (seen.reads_mask, seen.mask) = (None, None);
        }
        let status = init.returned.and_then(|(_, returned)| returned.status);
        seen.init_status = status.map(status_name);
        let is_child = program.pid != self.pid;
        seen.in_child = Some(is_child);
        made.child = match program.process {
            Some(process) if is_child => Some(self.command(process)),
            _ => None,
        };
        let seen = &mut made.seen;
        seen.at = self.at(stack);
        seen.entry = stack.entry().map(|frame| self.frame_text(frame));
        seen.through = outer_cuda_function(stack);
        seen.way = self.way(stack);
    }

    /// Adds what the trace shows, and keeps the variables that are about CUDA.
    fn side_effects(&self, effects: &mut SideEffects) {
        effects.sets.retain(|name| {
            let first = name.split('_').next().unwrap_or_default();
            ABOUT_CUDA.contains(&first)
        });
        for process in &self.trace.processes {
            let name = shorten_text(
                process.program.rsplit('/').next().unwrap_or_default(),
                LONGEST,
            );
            if process.pid != self.pid && process.t_ns >= self.ask_ns {
                push_new(&mut effects.children, name);
            }
        }
        let sentences = self.trace.end.iter().flat_map(|end| &end.not_seen);
        for sentence in sentences {
            if let Some((_, sought)) = sentence.split_once(" looked for ")
                && let Some(name) = sought.split_whitespace().next()
            {
                push_new(&mut effects.lacks, shorten_text(name, LONGEST));
            }
        }
        for names in [&mut effects.sets, &mut effects.children, &mut effects.lacks] {
            names.truncate(MOST_NAMES);
        }
    }

    /// Returns the first `cuInit` after the line began: its process, and its stack.
    fn first_init(&self) -> Option<(&ProgramHistory<'_>, &Init<'_>, &Stack)> {
        let mut first: Option<(&ProgramHistory, &Init, &TraceEvent)> = None;
        for program in &self.history.programs {
            for init in &program.inits {
                let Some((_, begun)) = init.begun.first() else {
                    continue;
                };
                if begun.t_ns >= self.ask_ns
                    && first.is_none_or(|(.., known)| begun.t_ns < known.t_ns)
                {
                    first = Some((program, init, begun));
                }
            }
        }
        let (program, init, begun) = first?;
        Some((program, init, &begun.stack))
    }

    /// Returns the command of a process: its program, and its arguments without directories.
    fn command(&self, process: &TraceProcess) -> String {
        let mut words = Vec::new();
        for word in &process.arguments {
            words.push(match word.strip_prefix('/') {
                Some(path) if !path.contains(' ') => path.rsplit('/').next().unwrap_or(path),
                _ => word.lines().next().unwrap_or_default(),
            });
        }
        shorten_text(&words.join(" "), LONGEST)
    }

    fn contexts(&self, seen: &mut PythonFacts, alone: bool) {
        let (mut before, mut own) = (Vec::new(), Vec::new());
        for life in &self.history.contexts {
            if life.created.t_ns >= self.ask_ns {
                own.push(life);
            } else if life.ended.is_none_or(|ended| ended.t_ns >= self.ask_ns) {
                before.push(life);
            }
        }
        if let Some(bytes) = self.context_bytes(&before, alone) {
            seen.context_before = Some(bytes.into_keys().collect());
        }
        // If a libcuda was opened by its address, only its hook is visible, but no calls.
        for program in &self.history.programs {
            let is_seen_by = |by| program.inits.iter().any(|init| init.is_seen_by(by));
            if program.last_seen_ns() >= self.ask_ns
                && is_seen_by(EventSource::Injection)
                && !is_seen_by(EventSource::Forwarding)
            {
                return;
            }
        }
        if let Some(first) = own.first() {
            seen.context_at = self.at(&first.created.stack);
        }
        if let Some(bytes) = self.context_bytes(&own, alone) {
            seen.context_on = Some(bytes.keys().copied().collect());
            seen.context_bytes = bytes.into_values().collect();
        }
    }

    /// Returns the memory cost of contexts on each GPU that has one, if it is known; `None` if a context's GPU is
    /// unknown.
    fn context_bytes(
        &self,
        lives: &[&ContextLife],
        alone: bool,
    ) -> Option<BTreeMap<u32, Option<i64>>> {
        let mut by_gpu = BTreeMap::new();
        for life in lives {
            let gpu = self.trace.gpu_index(life.created.gpu.as_deref())?;
            // If other attempts run, a change of a GPU's memory may belong to them.
            let bytes = if alone {
                life.bytes
            } else {
                life.created.own_bytes
            };
            let sum = by_gpu.entry(u32::try_from(gpu).ok()?).or_insert(Some(0));
            *sum = match (*sum, bytes) {
                (Some(sum), Some(bytes)) => Some(sum + bytes),
                _ => None,
            };
        }
        Some(by_gpu)
    }

    /// Returns the maximum memory growth of each GPU, in bytes; `None` if it is unknown for one of them.
    fn memory_growth(&self) -> Option<Vec<i64>> {
        let mut used = Vec::new();
        for (index, start) in self.trace.start.used_bytes.iter().enumerate() {
            used.push(self.used_on_gpu(index, *start)?);
        }
        Some(used)
    }

    fn used_on_gpu(&self, index: usize, start: Option<u64>) -> Option<i64> {
        let mut baseline = start.map(|used| (0, used));
        let mut most = None;
        let mut readings = Vec::new();
        for memory in &self.trace.memory {
            if memory.index == index {
                readings.push((memory.t_ns, memory.used_bytes));
            }
        }
        for event in &self.trace.events {
            if let Some(Some(used)) = event.used_bytes.get(index) {
                readings.push((end_ns(event), *used));
            }
        }
        for (t_ns, used) in readings.iter().copied() {
            if t_ns >= self.ask_ns {
                most = most.max(Some(used));
            } else if baseline.is_none_or(|(last_ns, _)| last_ns <= t_ns) {
                baseline = Some((t_ns, used));
            }
        }
        let (read_ns, before) = baseline?;
        // On a busy machine the reading after a context of the earlier lines may be missing, or its timestamp may be
        // too late. The context would then be attributed to this line.
        for life in &self.history.contexts {
            let made = life.created;
            if made.t_ns >= self.ask_ns || self.trace.gpu_index(made.gpu.as_deref()) != Some(index)
            {
                continue;
            }
            let earlier = readings.iter().filter(|(t_ns, _)| *t_ns <= made.t_ns);
            let without_it = match earlier.max_by_key(|(t_ns, _)| *t_ns) {
                Some((_, used)) => Some(*used),
                None => start,
            };
            if end_ns(made) > read_ns || without_it.is_some_and(|used| before <= used) {
                return None;
            }
        }
        i64::try_from(most.unwrap_or(before).saturating_sub(before)).ok()
    }

    /// Returns the innermost public function of a package in a stack, or else any function of a package, or else the
    /// row's own line.
    fn at(&self, stack: &Stack) -> Option<String> {
        let package = |is_it: fn(&Frame) -> bool| {
            let mut frames = stack.frames.iter();
            frames.find(|frame| frame.owner == FrameOwner::Package && is_it(frame))
        };
        let found = stack.frames.iter().find(|frame| frame.is_public());
        let found = found
            .or_else(|| package(|frame| frame.language == FrameLanguage::Python))
            .or_else(|| package(|frame| !frame.function.is_empty()))
            .or_else(|| package(|_| true))
            .or_else(|| stack.user_frame())?;
        Some(self.frame_text(found))
    }

    /// Returns the functions in a stack, except the row's own, outermost first.
    fn way(&self, stack: &Stack) -> Vec<String> {
        let mut way = Vec::new();
        for frame in stack.frames.iter().rev() {
            if is_of_code(frame) && !self.is_own(frame) {
                way.push(self.frame_text(frame));
            }
        }
        let (outer, inner) = MOST_FRAMES;
        if way.len() > outer + inner {
            way.splice(outer..way.len() - inner, ["…".to_string()]);
        }
        way
    }

    /// Returns `true` if a frame belongs to the row's own code, or to code that multiprocessing starts a child with.
    fn is_own(&self, frame: &Frame) -> bool {
        let Some(file) = frame.file.as_deref() else {
            return false;
        };
        (!self.folder.is_empty() && file.starts_with(self.folder)) || file.starts_with('<')
    }

    /// Returns a frame as text: `torch/cuda/__init__.py:180 is_available`; `ask.py:1` for the row's own code; for
    /// machine code the function, or the library if its functions do not have names.
    fn frame_text(&self, frame: &Frame) -> String {
        let name = match (frame.package_file(), frame.line, frame.language) {
            (Some(file), Some(line), FrameLanguage::Python) => {
                format!("{file}:{line} {}", frame.function)
            }
            _ if self.is_own(frame) => frame.line().unwrap_or_default(),
            (_, _, FrameLanguage::Python) => {
                format!("{} {}", frame.line().unwrap_or_default(), frame.function)
            }
            (Some(file), ..) if frame.function.is_empty() => file.to_string(),
            _ => frame.name(),
        };
        shorten_text(&name, LONGEST)
    }
}

/// Returns the outermost function of a CUDA library in the stack of a driver call.
fn outer_cuda_function(stack: &Stack) -> Option<String> {
    let mut outer = None;
    for frame in &stack.frames {
        let name = match (frame.owner, frame.language) {
            (FrameOwner::Cuda, FrameLanguage::Native) => frame.name(),
            (FrameOwner::Cuda | FrameOwner::System, _) => continue,
            _ => break,
        };
        if name.starts_with(|first: char| first.is_ascii_lowercase()) {
            outer = Some(name);
        }
    }
    match outer {
        Some(name) if name != "cuInit" => Some(shorten_text(&name, LONGEST)),
        _ => None,
    }
}
