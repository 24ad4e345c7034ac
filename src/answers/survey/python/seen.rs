//! From the trace of an attempt, and the messages of the row's program, to what the line did.

use std::collections::BTreeSet;

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
/// The first line of an exception's text is cut to this many bytes, and the others to that many.
const LONGEST_MESSAGE: usize = 400;
const LONGEST_MORE: usize = 2000;
/// The most functions in a stack: this many outermost ones, and this many innermost ones.
const MOST_FRAMES: (usize, usize) = (8, 16);

/// An exception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// The name of its type, such as `RuntimeError`.
    pub kind: String,
    /// The first line of its text.
    pub message: String,
    /// The other lines; absent if there are none, and in `survey python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<String>,
    /// Whether it says that this version does not have what the row's own code names.
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
    /// Its value, if it has one.
    value: Option<String>,
    /// The exception that ended it.
    raised: Option<Raised>,
    /// The first of its warnings, each with its category.
    #[serde(default)]
    warned: Vec<String>,
}

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
        for word in text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
        {
            match word {
                ProgramMessage::Ask { t_ns, pid } => said.ask = Some((t_ns, pid)),
                ProgramMessage::End(ProgramEnd {
                    t_ns,
                    value,
                    raised,
                    warned,
                }) => {
                    let value = value.map(|value| shorten_text(&value, LONGEST));
                    let warned = warned
                        .iter()
                        .map(|warning| shorten_text(warning, LONGEST_MESSAGE))
                        .collect();
                    said.end = Some(ProgramEnd {
                        t_ns,
                        value,
                        raised: raised.map(shorten_raised),
                        warned,
                    });
                }
                ProgramMessage::Setup { raised } => said.setup = Some(shorten_raised(raised)),
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
    let more = more
        .filter(|more| !more.is_empty())
        .map(|more| shorten_text(&more, LONGEST_MORE));
    Raised {
        kind: shorten_text(&kind, LONGEST),
        message: shorten_text(&message, LONGEST_MESSAGE),
        more,
        absent,
    }
}

/// The result of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PythonAttempt {
    /// What it showed.
    pub seen: PythonFacts,
    /// The first of its warnings, each with its category.
    pub warned: Vec<String>,
    /// Whether no other attempt ran at the same time.
    pub alone: bool,
    /// The command of the child process that called `cuInit`, if one did.
    pub child: Option<String>,
    /// The exception that ended the code before the code in question.
    pub setup: Option<Raised>,
    /// Why it does not count.
    pub invalid: Option<Invalidation>,
    /// The driver calls that its processes made.
    pub called: BTreeSet<String>,
    /// Whether the code before the code in question called `cuInit`, with or without success.
    pub called_before: Option<bool>,
}

impl PythonAttempt {
    /// An attempt of which only the reason is known why it does not count.
    pub fn failed(reason: Reason, detail: impl Into<String>) -> PythonAttempt {
        PythonAttempt {
            invalid: Some(Invalidation {
                reason,
                detail: detail.into(),
            }),
            ..PythonAttempt::default()
        }
    }

    /// What it showed, with the word for the reason why it does not count.
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

/// The result of an attempt. `folder` has the row's own files, `limit_ns` is its time limit, and `alone` is whether no
/// other attempt ran at the same time.
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
    made.called = trace
        .counts
        .iter()
        .flat_map(|counts| counts.calls.keys().cloned())
        .collect();
    made.setup = said.setup.clone();
    let seen = &mut made.seen;
    seen.left = left;
    if let Some(end) = &said.end {
        seen.value = end.value.clone();
        seen.raised = end.raised.clone();
        made.warned = end.warned.clone();
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
    own.contexts(&mut made.seen, alone);
    if alone {
        made.seen.device_used_bytes = own.used();
    }
    made
}

/// How a traced program called `cuInit` first: the innermost public function of a package and where it was, the
/// packages' functions outermost first, and the command of the process if it is a child. Nothing if it did not.
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
    let child = program.process.filter(|process| process.pid != pid);
    let way = stack
        .frames
        .iter()
        .filter(|frame| is_of_code(frame))
        .map(|frame| own.named(frame));
    let mut way: Vec<String> = way.collect();
    way.reverse();
    (
        own.at(stack),
        way,
        child.map(|process| own.command(process)),
    )
}

/// Whether a frame is Python code that is not of the system.
fn is_of_code(frame: &Frame) -> bool {
    frame.language == FrameLanguage::Python && frame.owner != FrameOwner::System
}

fn because(reason: Reason, detail: String) -> Option<Invalidation> {
    Some(Invalidation { reason, detail })
}

/// Why an attempt does not count.
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
            // Without libcuda, most lines of frameworks can do nothing.
            _ if !has_libcuda => Reason::NoLibcuda,
            _ => Reason::SetupRaised,
        };
        return because(reason, format!("{kind}: {message}"));
    }
    let took_ns = end.t_ns.saturating_sub(trace.start.t_ns);
    if said.end.is_none() {
        let begun = if said.ask.is_some() {
            "the asked line"
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
                format!("it left in {begun} ({})", left.unwrap_or("exit code 0")),
            ),
        };
    }
    if !has_libcuda {
        let detail = "libcuda was not found: what the line would do to it cannot be told";
        return because(Reason::NoLibcuda, detail.to_string());
    }
    (end.left_out > 0).then(|| Invalidation {
        reason: Reason::Unobservable,
        detail: "it did more than a trace holds".to_string(),
    })
}

/// When a call of a trace returned.
fn end_ns(event: &TraceEvent) -> u64 {
    event.t_ns.saturating_add(event.elapsed_ns.unwrap_or(0))
}

/// What the line did, in its own process and in children.
struct LineHistory<'a> {
    trace: &'a Trace,
    history: History<'a>,
    folder: &'a str,
    ask_ns: u64,
    pid: u32,
}

impl LineHistory<'_> {
    fn init(&self, made: &mut PythonAttempt) {
        let own = self
            .history
            .programs
            .iter()
            .filter(|program| program.pid == self.pid);
        let before: Vec<&Init> = own
            .flat_map(|program| &program.inits)
            .filter(|init| init.first.t_ns < self.ask_ns)
            .collect();
        made.called_before = Some(!before.is_empty());
        let was_ready = before.iter().any(|init| {
            init.has_succeeded()
                && init
                    .returned
                    .is_some_and(|(_, returned)| returned.t_ns < self.ask_ns)
        });
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
        seen.init_status = init
            .returned
            .and_then(|(_, returned)| returned.status)
            .map(status_name);
        let is_child = program.pid != self.pid;
        seen.in_child = Some(is_child);
        made.child = match program.process {
            Some(process) if is_child => Some(self.command(process)),
            _ => None,
        };
        let seen = &mut made.seen;
        seen.at = self.at(stack);
        seen.entry = stack.entry().map(|frame| self.named(frame));
        seen.through = outer_cuda_function(stack);
        seen.way = self.way(stack);
    }

    /// The first `cuInit` after the line began: its process, and its stack.
    fn first_init(&self) -> Option<(&ProgramHistory<'_>, &Init<'_>, &Stack)> {
        let inits = self
            .history
            .programs
            .iter()
            .flat_map(|program| program.inits.iter().map(move |init| (program, init)));
        let begun =
            inits.filter_map(|(program, init)| Some((program, init, init.begun.first()?.1)));
        let first = begun
            .filter(|(.., begun)| begun.t_ns >= self.ask_ns)
            .min_by_key(|(.., begun)| begun.t_ns);
        first.map(|(program, init, begun)| (program, init, &begun.stack))
    }

    /// The command of a process: its program, and its arguments without the folders of files.
    fn command(&self, process: &TraceProcess) -> String {
        let words = process
            .arguments
            .iter()
            .map(|word| match word.strip_prefix('/') {
                Some(path) if !path.contains(' ') => {
                    path.rsplit('/').next().unwrap_or(path).to_string()
                }
                _ => word.lines().next().unwrap_or_default().to_string(),
            });
        shorten_text(&words.collect::<Vec<_>>().join(" "), LONGEST)
    }

    fn contexts(&self, seen: &mut PythonFacts, alone: bool) {
        let lives = &self.history.contexts;
        let index = |life: &&ContextLife| {
            u32::try_from(self.trace.gpu_index(life.made.gpu.as_deref())?).ok()
        };
        let was_there = |life: &&ContextLife| {
            life.made.t_ns < self.ask_ns && life.ended.is_none_or(|ended| ended.t_ns >= self.ask_ns)
        };
        let is_own = |life: &&ContextLife| life.made.t_ns >= self.ask_ns;
        let on = |lives: &mut dyn Iterator<Item = &ContextLife>| {
            lives
                .map(|life| index(&life))
                .collect::<Option<BTreeSet<u32>>>()
                .map(|on| on.into_iter().collect())
        };
        seen.context_before = on(&mut lives.iter().filter(was_there));
        // A libcuda that was opened by its address only shows its hook, but no calls.
        let during = self
            .history
            .programs
            .iter()
            .filter(|program| program.last_seen_ns() >= self.ask_ns);
        let mut is_seen_by = during.map(|program| {
            [EventSource::Injection, EventSource::Forwarding]
                .map(|by| program.inits.iter().any(|init| init.is_seen_by(by)))
        });
        if is_seen_by.any(|seen| seen == [true, false]) {
            return;
        }
        seen.context_on = on(&mut lives.iter().filter(is_own));
        seen.context_at = lives
            .iter()
            .find(is_own)
            .and_then(|life| self.at(&life.made.stack));
        // Beside other attempts, a change of a GPU's memory may be theirs.
        let bytes = seen.context_on.as_ref().map(|on| {
            on.iter().map(|gpu| {
                let on_gpu = lives
                    .iter()
                    .filter(is_own)
                    .filter(|life| index(life) == Some(*gpu));
                on_gpu
                    .map(|life| {
                        if alone {
                            life.bytes
                        } else {
                            life.made.own_bytes
                        }
                    })
                    .sum::<Option<i64>>()
            })
        });
        seen.context_bytes = bytes.and_then(Iterator::collect);
    }

    /// The most by which the memory of each GPU grew, in bytes. `None` if it is not known of one of them.
    fn used(&self) -> Option<Vec<i64>> {
        let starts = self.trace.start.used_bytes.iter().enumerate();
        starts
            .map(|(index, start)| self.used_on_gpu(index, *start))
            .collect()
    }

    fn used_on_gpu(&self, index: usize, start: Option<u64>) -> Option<i64> {
        let mut baseline = start.map(|used| (0, used));
        let mut most = None;
        for (t_ns, used) in self.memory_readings(index) {
            if t_ns >= self.ask_ns {
                most = most.max(Some(used));
            } else if baseline.is_none_or(|(last_ns, _)| last_ns <= t_ns) {
                baseline = Some((t_ns, used));
            }
        }
        let (read_ns, before) = baseline?;
        // A busy machine may miss the reading after a context of the lines before. The context would count as this
        // line's.
        let is_outdated = self.history.contexts.iter().any(|life| {
            life.made.t_ns < self.ask_ns
                && end_ns(life.made) > read_ns
                && self.trace.gpu_index(life.made.gpu.as_deref()) == Some(index)
        });
        if is_outdated {
            return None;
        }
        i64::try_from(most.unwrap_or(before).saturating_sub(before)).ok()
    }

    /// What was read of a GPU's memory, each with its time.
    fn memory_readings(&self, index: usize) -> impl Iterator<Item = (u64, u64)> {
        let polled = self.trace.memory.iter();
        let polled = polled
            .filter(move |memory| memory.index == index)
            .map(|memory| (memory.t_ns, memory.used_bytes));
        let read = self.trace.events.iter().filter_map(move |event| {
            let used = event.used_bytes.get(index).copied().flatten()?;
            Some((end_ns(event), used))
        });
        polled.chain(read)
    }

    /// The innermost public function of a package in a stack, else any function of one, else the row's own line.
    fn at(&self, stack: &Stack) -> Option<String> {
        let mut of_packages = stack
            .frames
            .iter()
            .filter(|frame| frame.owner == FrameOwner::Package);
        let found = stack.frames.iter().find(|frame| frame.is_public());
        let found = found.or_else(|| {
            of_packages
                .clone()
                .find(|frame| frame.language == FrameLanguage::Python)
        });
        let found = found.or_else(|| of_packages.clone().find(|frame| !frame.function.is_empty()));
        let found = found.or_else(|| of_packages.next());
        found
            .or_else(|| stack.user_frame())
            .map(|frame| self.named(frame))
    }

    /// The functions in a stack that are not the row's own, outermost first.
    fn way(&self, stack: &Stack) -> Vec<String> {
        let shown = stack
            .frames
            .iter()
            .filter(|frame| is_of_code(frame) && !self.is_own(frame));
        let mut way: Vec<String> = shown.map(|frame| self.named(frame)).collect();
        way.reverse();
        let (outer, inner) = MOST_FRAMES;
        if way.len() > outer + inner {
            way.splice(outer..way.len() - inner, ["…".to_string()]);
        }
        way
    }

    /// Whether a frame belongs to the row's own code, or to code with which multiprocessing starts a child.
    fn is_own(&self, frame: &Frame) -> bool {
        let Some(file) = frame.file.as_deref() else {
            return false;
        };
        (!self.folder.is_empty() && file.starts_with(self.folder)) || file.starts_with('<')
    }

    /// A frame as text: `torch/cuda/__init__.py:180 is_available`; `ask.py:1` for the row's own code; for machine
    /// code the function, or the library if its functions have no names.
    fn named(&self, frame: &Frame) -> String {
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

/// The outermost function of CUDA's own libraries in the stack of a driver call.
fn outer_cuda_function(stack: &Stack) -> Option<String> {
    let below = stack
        .frames
        .iter()
        .take_while(|frame| matches!(frame.owner, FrameOwner::Cuda | FrameOwner::System));
    let calls = below
        .filter(|frame| frame.owner == FrameOwner::Cuda && frame.language == FrameLanguage::Native);
    let named = calls
        .map(Frame::name)
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    named
        .last()
        .filter(|name| name != "cuInit")
        .map(|name| shorten_text(&name, LONGEST))
}
