//! The trace: what an unmodified program did with CUDA, call by call, with stacks and with memory
//! as NVML showed it from outside.
//!
//! The document is one JSON value per line ([`TraceLine`]), written while the program runs: a day of
//! training does not grow the parent, and a trace whose writer was killed can be read up to there.
//! Integers are bytes and nanoseconds with the unit in the name. Stamps are `CLOCK_MONOTONIC`; GPUs
//! are named by UUID, and by their index in NVML order where a list has an entry for each.

#![cfg(target_os = "linux")]

pub mod diagnosis;
#[doc(hidden)]
pub mod fixture;
pub mod history;
pub mod ledger;
pub mod policy;
mod read;
mod redact;
mod stack;
mod status;
pub mod tracer;

pub use history::{ConcurrentChange, ContextLife, History};
pub use ledger::{Held, Holder, LedgerReading, LedgerReason, MemoryKind};
pub use read::{Trace, TraceError, is_trace, lines};
pub use redact::redact_line;
pub use stack::{
    CallSite, Frame, FrameLanguage, FrameOwner, MODULE, Stack, file_name, line_in_words,
};
pub use status::{NOT_READY, is_error, limit_name, status_name};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_core::report::{SchemaId, schema_of};
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_core::verdict::Provenance;

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-trace";
/// The file's name in the folder of a trace.
pub const FILE: &str = "trace.ndjson";

/// One line of the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
#[schemars(rename = "Line")]
pub enum TraceLine {
    /// The first line: what was traced, where, and how.
    Start(Box<TraceStart>),
    /// A process that made a CUDA call or changed a CUDA variable, before its first event; again
    /// after it has become another program.
    Process(TraceProcess),
    /// Something that a process did.
    Event(Box<TraceEvent>),
    /// The memory of one GPU, whenever it has changed.
    Memory(Memory),
    /// Who holds memory of a GPU (with `--memory`).
    Holder(Box<Holder>),
    /// What NVML charged to a process, and who held it (with `--memory`).
    Ledger(LedgerReading),
    /// What a program did altogether, once its process has ended.
    Counts(ProcessCounts),
    /// The last line. A document without it is incomplete.
    End(End),
}

/// What was traced, where, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStart {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether a real driver answered.
    pub provenance: Provenance,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The folder it was started in.
    pub folder: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// When the program was started: the zero of the times that are shown.
    pub t_ns: u64,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// The driver's version, such as `580.159.04`.
    pub driver_version: Option<String>,
    /// The GPUs in NVML order; empty where NVML could not be asked.
    pub gpus: Vec<Gpu>,
    /// The memory of each GPU before the program was started, in NVML order.
    pub used_bytes: Vec<Option<u64>>,
    /// The variables that CUDA reads, as the program got them.
    pub environment: BTreeMap<String, String>,
    /// The libcuda that was found, which the forwarding library stands before; none if there is
    /// none, and only the injection hook can see anything.
    pub libcuda: Option<String>,
    /// Whether writes of variables are seen (not with `--no-preload`).
    pub preload: bool,
    /// Whether questions were counted, too, that frameworks ask before each small operation, such as
    /// `cuCtxGetDevice` (with `--all-calls`). Where they were not, counts say nothing about them.
    pub all_calls: bool,
    /// Whether it was noted whose the memory is (with `--memory`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ledger: bool,
    /// What is known from the start not to be seen, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// A process of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Process")]
pub struct TraceProcess {
    /// When it was noticed.
    pub t_ns: u64,
    /// Its PID.
    pub pid: u32,
    /// Its parent's PID at that time.
    pub parent: u32,
    /// The PIDs of the processes above its parent, nearest first, up to that of cuda-pitfalls: the trace may have no line
    /// of them. Absent in traces of older versions, and where the parent is cuda-pitfalls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<u32>,
    /// The file that it runs.
    pub program: String,
    /// Its command line.
    pub arguments: Vec<String>,
    /// The version of Python that runs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Why its Python stacks cannot be read, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_python: Option<String>,
    /// `RANK` of the environment that it was started with; absent where that is no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// `LOCAL_RANK` of that environment, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u32>,
}

impl TraceProcess {
    /// The program, and the script or module that its Python runs: `python3.12 train.py`.
    pub fn name(&self) -> String {
        command_name(&self.program, &self.arguments, self.python.is_some())
    }
}

/// The name of a program, and of the script or module that its Python runs. Other arguments may be secret.
fn command_name(program: &str, arguments: &[String], is_python: bool) -> String {
    // The file is not known of a process that has gone already.
    let file = match arguments.first() {
        Some(first) if program.is_empty() => first,
        _ => program,
    };
    let name = match stack::file_name(file) {
        "" => "?",
        name => name,
    };
    if !is_python && !name.starts_with("python") {
        return name.to_owned();
    }
    match script_name(arguments) {
        Some(script) => format!("{name} {script}"),
        None => name.to_owned(),
    }
}

/// The script or module in the command line of an interpreter of Python, whose own options stand before it.
fn script_name(command: &[String]) -> Option<String> {
    let mut arguments = command.iter().skip(1);
    loop {
        match arguments.next()?.as_str() {
            "-m" => return Some(format!("-m {}", arguments.next()?)),
            "-c" => {
                let text = arguments.next();
                let role = text.and_then(|text| multiprocessing_role(text));
                return role.or_else(|| Some("-c".to_owned()));
            }
            "-X" | "-W" => drop(arguments.next()),
            option if option.starts_with('-') => {}
            path => return Some(stack::file_name(path).to_owned()),
        }
    }
}

/// What a process of multiprocessing is for, by the text that it was started with: `multiprocessing.forkserver, preloading
/// models`.
fn multiprocessing_role(text: &str) -> Option<String> {
    let module = text
        .strip_prefix("from multiprocessing.")?
        .split(' ')
        .next()?;
    let mut role = format!("multiprocessing.{module}");
    if let Some((_, rest)) = text.split_once("['")
        && let Some((names, _)) = rest.split_once("']")
        && names != "__main__"
    {
        role += &format!(", preloading {}", names.replace("', '", ", "));
    }
    Some(role)
}

/// Something that a process did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct TraceEvent {
    /// When the call was made.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What it did.
    #[serde(flatten)]
    pub what: EventKind,
    /// The C function, such as `cuDevicePrimaryCtxRetain`.
    pub call: String,
    /// What it returned, as the number of its library; absent for what has no status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// How long the call took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// The ordinal by which the process knows the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The UUID of that GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// How the memory of each GPU changed from before the call until after it, in NVML order; empty
    /// where it was not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_bytes: Vec<Option<i64>>,
    /// What was in use on each GPU after the call, in NVML order; empty where it was not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_bytes: Vec<Option<u64>>,
    /// How the memory changed that NVML accounts to this process on this event's GPU; absent where NVML does
    /// not list the process by the PID that the tracer knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<i64>,
    /// Of a call that found no current context in its thread: the thread that had selected one, this one if it had itself.
    /// Absent where no thread is known to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_by: Option<u32>,
    /// Where in the program.
    #[serde(default)]
    pub stack: Stack,
}

impl TraceEvent {
    /// How the memory of a GPU changed around the call. None if it was not read.
    pub fn memory_change(&self, gpu_index: usize) -> Option<i64> {
        *self.memory_bytes.get(gpu_index)?
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The driver is about to initialise: it reads its variables after this, and never again in
    /// this process if it succeeds.
    Init {
        /// Who saw it.
        witness: EventSource,
        /// The variables that CUDA reads, as they are at this moment.
        variables: BTreeMap<String, String>,
    },
    /// libcuda asked for `CUDA_VISIBLE_DEVICES`.
    MaskRead {
        /// What it got; null if the variable is not set.
        value: Option<String>,
        /// Whether the injection hook had been called before, as it is on the drivers we know.
        after_hook: bool,
    },
    /// `cuInit` returned.
    InitDone {
        /// How many GPUs the process can see; null where it failed.
        visible: Option<u32>,
        /// Their UUIDs in the process's own order.
        #[serde(default)]
        gpus: Vec<String>,
    },
    /// A variable that CUDA reads was written or removed.
    Variable {
        /// Its name.
        name: String,
        /// What it was before.
        before: Option<String>,
        /// What it is now; null if it was removed.
        value: Option<String>,
    },
    /// A context appeared or went away, or could not be made.
    Context {
        /// What happened to it.
        change: ContextChange,
        /// Whether it is the GPU's primary context.
        primary: bool,
        /// Its handle, as a number.
        handle: u64,
        /// Of a context that was made: whether the thread had a current context then, so that it had selected a device
        /// before. Absent where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<bool>,
    },
    /// A GPU was used for the first time in this way by this process.
    FirstUse {
        /// In which way.
        usage: GpuUse,
    },
    /// Page-locked host memory was asked for, for the first time in this process.
    HostMemory {
        /// How much.
        bytes: u64,
    },
    /// A limit was set, or was to be set.
    Limit {
        /// Which one, by its number in `CUlimit`.
        limit: i32,
        /// The value.
        value: u64,
        /// Whether this process had launched a kernel on this GPU before.
        after_launch: bool,
    },
    /// The process forked after `cuInit`: this is the child.
    Forked {
        /// The process that forked.
        parent: u32,
        /// How many contexts it had.
        contexts: u32,
    },
    /// Peer access was switched on or off, or memory of another process was opened.
    Peer,
    /// A handle for other processes was made or opened.
    Ipc,
    /// A module or library of code was loaded.
    Module,
    /// A driver call returned an error: the first of this call and this status in this process.
    Error,
}

/// Who saw an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// The driver called the injection hook.
    Injection,
    /// The call went through the forwarding library.
    Forwarding,
}

/// What happened to a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextChange {
    /// It was made.
    Made,
    /// It could not be made.
    Failed,
    /// The last reference to a primary context was released.
    Released,
    /// The primary context was reset, whoever held it.
    Reset,
    /// It was destroyed.
    Destroyed,
}

/// A way of using a GPU.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GpuUse {
    /// A kernel or a graph was launched.
    Launch,
    /// Memory was copied or set.
    Copy,
    /// Memory of the GPU was allocated.
    Allocation,
}

/// The memory of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// When it was read.
    pub t_ns: u64,
    /// The GPU, by its index in NVML order.
    pub index: usize,
    /// NVML v2 `used`: without the driver's reserve.
    pub used_bytes: u64,
}

/// What a program did altogether.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Counts")]
pub struct ProcessCounts {
    /// When its end was noticed, at most about a second after it; or the end of the trace.
    #[serde(default)]
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// Which of the programs that it ran these are the counts of: when that began, as its line says. Absent in traces of
    /// older versions, which counted all programs of a PID together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Calls of the forwarded functions that were made at least once.
    pub calls: BTreeMap<String, CallCount>,
    /// How often each GPU was used, by UUID. A GPU that had a context and did nothing has zeros.
    pub gpus: BTreeMap<String, Uses>,
}

/// How often a function was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCount {
    /// All calls.
    pub calls: u64,
    /// Those that returned an error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How often a GPU was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uses {
    /// Kernels and graphs launched.
    pub launches: u64,
    /// Copies and fills.
    pub copies: u64,
    /// Allocations of its memory.
    pub allocations: u64,
}

impl Uses {
    /// Whether it did nothing.
    pub fn is_none(&self) -> bool {
        *self == Uses::default()
    }
}

/// The end of the program, and of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// When the program ended.
    pub t_ns: u64,
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
    /// What the trace could not observe, as sentences. Empty means that every process of the program that NVML
    /// showed has events.
    pub not_seen: Vec<String>,
    /// How many events were left out because there were more than a document should hold.
    pub left_out: u64,
    /// The longest time for which the memory of each GPU was not read, in NVML order; null for one that was not read
    /// when the program had ended. Empty where this is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_gap_ns: Vec<Option<u64>>,
    /// The last lines of the stderr of a program that failed, at most 100 lines and 16 KiB; with stdout, where both are one
    /// file or pipe. Empty where they are not known: stderr was a terminal, a socket or a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

impl End {
    /// The signal or the exit code with which the program failed; `None` if it succeeded.
    pub fn failure_reason(&self) -> Option<String> {
        match self.code {
            _ if self.signal.is_some() => self.signal.clone(),
            None | Some(0) => None,
            Some(code) => Some(format!("exit code {code}")),
        }
    }
}

/// The JSON Schema of one line of the document.
pub fn schema() -> serde_json::Value {
    schema_of::<TraceLine>()
}

#[cfg(test)]
mod tests {
    use super::TraceProcess;

    #[test]
    fn a_python_process_is_named_by_its_script() {
        let named = |program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
            TraceProcess {
                program: program.into(),
                arguments,
                ..crate::fixture::process(0, 1, 0)
            }
            .name()
        };
        assert_eq!(
            named(
                "/usr/bin/python3.12",
                &["python", "-u", "/me/train.py", "-m"]
            ),
            "python3.12 train.py"
        );
        assert_eq!(
            named("/usr/bin/python3", &["python", "-X", "dev", "-m", "pytest"]),
            "python3 -m pytest"
        );
        assert_eq!(
            named("/usr/bin/python3", &["python", "-c", "import torch"]),
            "python3 -c"
        );
        let server = "from multiprocessing.forkserver import main; main(5, 6, ['models', 'data'], **{'sys_path': ['']})";
        let server = named("/usr/bin/python3", &["python", "-c", server]);
        assert_eq!(
            server,
            "python3 multiprocessing.forkserver, preloading models, data"
        );
        assert_eq!(named("/usr/bin/python3", &["python"]), "python3");
        assert_eq!(named("/me/a.out", &["a.out", "x"]), "a.out");
        assert_eq!(
            named("", &["/usr/bin/python3", "train.py"]),
            "python3 train.py"
        );
        assert_eq!(named("", &[]), "?");
    }
}
