//! Traces: what an unmodified program did with CUDA, call by call, with stacks and with memory as NVML showed it from
//! outside.
//!
//! The document is one JSON value per line ([`TraceLine`]), written while the program runs. So the tracer does not grow
//! during a day of training, and a trace whose writer was killed can be read up to that point. Integers are bytes and
//! nanoseconds, with the unit in the name. Timestamps are `CLOCK_MONOTONIC`. A GPU is identified by its UUID, or by its
//! index in NVML order in a list with one entry per GPU.

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
pub use read::{Trace, TraceError, is_trace, lines, trace_file};
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

/// A line of the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
#[schemars(rename = "Line")]
pub enum TraceLine {
    /// The first line: the program, the machine, and the options of the trace.
    Start(Box<TraceStart>),
    /// A process that made a CUDA call or changed a CUDA variable, written before its first event, and again after it
    /// has become another program.
    Process(TraceProcess),
    /// An event: something that a process did.
    Event(Box<TraceEvent>),
    /// The memory of one GPU, whenever it has changed.
    Memory(Memory),
    /// A holder of GPU memory (with `--memory`).
    Holder(Box<Holder>),
    /// The memory that NVML reported for a process, and its holders (with `--memory`).
    Ledger(LedgerReading),
    /// The totals of a program, once its process has ended.
    Counts(ProcessCounts),
    /// The last line. A document without it is truncated.
    End(End),
}

/// The traced program, the machine, and the options of the trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStart {
    /// The schema of this document.
    pub schema: SchemaId,
    /// The origin of the results: a real driver or a simulated one.
    pub provenance: Provenance,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that cuda-pitfalls was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The folder that the program was started in.
    pub folder: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The start of the program, from which displayed times are counted.
    pub t_ns: u64,
    /// The machine: `cuda` or `sim:<machine>`.
    pub on: String,
    /// The driver's version, such as `580.159.04`.
    pub driver_version: Option<String>,
    /// The GPUs in NVML order; empty where NVML could not be queried.
    pub gpus: Vec<Gpu>,
    /// The memory of each GPU before the program was started, in NVML order.
    pub used_bytes: Vec<Option<u64>>,
    /// The variables that CUDA reads, as the program got them.
    pub environment: BTreeMap<String, String>,
    /// The libcuda that was found; the forwarding library precedes it. Absent if none was found; then only the
    /// injection hook can see anything.
    pub libcuda: Option<String>,
    /// `true` if writes of variables are seen (not with `--no-preload`).
    pub preload: bool,
    /// `true` if the counts include queries that frameworks make before each small operation, such as `cuCtxGetDevice`
    /// (with `--all-calls`). Otherwise the counts do not cover these queries.
    pub all_calls: bool,
    /// `true` if the trace has memory by owner (with `--memory`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ledger: bool,
    /// Sentences that describe what this trace cannot see, known from the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// A process of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Process")]
pub struct TraceProcess {
    /// The time when the process was noticed.
    pub t_ns: u64,
    /// The PID of the process.
    pub pid: u32,
    /// The parent's PID at that time.
    pub parent: u32,
    /// The PIDs of the processes above its parent, nearest first, up to that of cuda-pitfalls; the trace may have no
    /// line for them. Absent in traces of older versions, and where the parent is cuda-pitfalls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<u32>,
    /// The file that the process runs.
    pub program: String,
    /// The command line of the process.
    pub arguments: Vec<String>,
    /// The Python version that runs in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// A sentence that explains why the Python stacks cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_python: Option<String>,
    /// `RANK` in the environment that it was started with; absent unless it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// `LOCAL_RANK` in that environment, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_rank: Option<u32>,
}

impl TraceProcess {
    /// Returns the program, and the script or module that its Python runs: `python3.12 train.py`.
    pub fn name(&self) -> String {
        command_name(&self.program, &self.arguments, self.python.is_some())
    }
}

/// Returns the name of a program, and of the script or module that its Python runs. Other arguments may be secret.
fn command_name(program: &str, arguments: &[String], is_python: bool) -> String {
    // The file is unknown for a process that has already ended.
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

/// Returns the script or module in the command line of a Python interpreter. The interpreter's own options precede it.
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

/// Returns the role of a multiprocessing process, from the code that it was started with: `multiprocessing.forkserver,
/// preloading models`.
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

/// An event: something that a process did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct TraceEvent {
    /// The start of the call.
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The type of event, with its details.
    #[serde(flatten)]
    pub what: EventKind,
    /// The C function, such as `cuDevicePrimaryCtxRetain`.
    pub call: String,
    /// The status that the call returned, as a number of its library; absent for events without a status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// The duration of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// The ordinal of the GPU in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// The UUID of that GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// The change of the memory in use on each GPU from before the call until after it, in NVML order; empty where it
    /// was not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_bytes: Vec<Option<i64>>,
    /// The memory in use on each GPU after the call, in NVML order; empty where it was not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used_bytes: Vec<Option<u64>>,
    /// The change of the memory that NVML reports for this process on this event's GPU; absent where NVML does not list
    /// the process by the PID that the tracer knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<i64>,
    /// The thread that had selected a context, for a call that found no current context in its own thread; may be the
    /// calling thread itself. Absent where no thread is known to have selected one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_by: Option<u32>,
    /// The stack of the call.
    #[serde(default)]
    pub stack: Stack,
}

impl TraceEvent {
    /// Returns the change of a GPU's memory around the call. None if it was not read.
    pub fn memory_change(&self, gpu_index: usize) -> Option<i64> {
        *self.memory_bytes.get(gpu_index)?
    }
}

/// The type of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The driver is about to initialize. It reads its variables after this, and never again in this process if it
    /// succeeds.
    Init {
        /// The witness of the event.
        witness: EventSource,
        /// The variables that CUDA reads, as they are at this moment.
        variables: BTreeMap<String, String>,
    },
    /// libcuda queried `CUDA_VISIBLE_DEVICES`.
    MaskRead {
        /// The value that libcuda got; null if the variable is not set.
        value: Option<String>,
        /// `true` if the injection hook had been called before, as on the known drivers.
        after_hook: bool,
    },
    /// `cuInit` returned.
    InitDone {
        /// The number of GPUs that the process can see; null where `cuInit` failed.
        visible: Option<u32>,
        /// The UUIDs of these GPUs in the process's own order.
        #[serde(default)]
        gpus: Vec<String>,
    },
    /// A variable that CUDA reads was written or removed.
    Variable {
        /// The name of the variable.
        name: String,
        /// The value before; null if the variable was not set.
        before: Option<String>,
        /// The new value; null if it was removed.
        value: Option<String>,
    },
    /// A context was created or ended, or could not be created.
    Context {
        /// The change of the context.
        change: ContextChange,
        /// `true` if the context is the GPU's primary context.
        primary: bool,
        /// The handle of the context, as a number.
        handle: u64,
        /// `true` if the thread that created the context already had a current one, so that it had selected a device
        /// before. Absent for other changes, and where this is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<bool>,
    },
    /// The process used a GPU in this way for the first time.
    FirstUse {
        /// The way of using it.
        usage: GpuUse,
    },
    /// The first request for page-locked host memory in this process.
    HostMemory {
        /// The requested size.
        bytes: u64,
    },
    /// The program set a limit, or tried to.
    Limit {
        /// The limit, by its number in `CUlimit`.
        limit: i32,
        /// The value.
        value: u64,
        /// `true` if this process had launched a kernel on this GPU before.
        after_launch: bool,
    },
    /// The process was forked after `cuInit`; the event comes from the child.
    Forked {
        /// The process that forked.
        parent: u32,
        /// The number of contexts that the parent had.
        contexts: u32,
    },
    /// Peer access was enabled or disabled, or another process's memory was opened.
    Peer,
    /// A handle for other processes was created or opened.
    Ipc,
    /// A module or library of GPU code was loaded.
    Module,
    /// A driver call returned an error: the first of this call and this status in this process.
    Error,
}

/// The witness of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventSource {
    /// The driver called the injection hook.
    Injection,
    /// The call went through the forwarding library.
    Forwarding,
}

/// A change of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextChange {
    /// The context was created.
    Made,
    /// The context could not be created.
    Failed,
    /// The last reference to a primary context was released.
    Released,
    /// The primary context was reset, regardless of its holders.
    Reset,
    /// The context was destroyed.
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
    /// The time of the reading.
    pub t_ns: u64,
    /// The GPU, by its index in NVML order.
    pub index: usize,
    /// NVML v2 `used`, which excludes the driver's reserve.
    pub used_bytes: u64,
}

/// The totals of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Counts")]
pub struct ProcessCounts {
    /// The time when its end was noticed, at most about a second after it; or the end of the trace.
    #[serde(default)]
    pub t_ns: u64,
    /// The process.
    pub pid: u32,
    /// The start of the counted program, as in its line: a process can run several programs. Absent in traces of older
    /// versions, which counted all programs of a PID together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Calls of the forwarded functions that were made at least once.
    pub calls: BTreeMap<String, CallCount>,
    /// The uses of each GPU, by UUID. A GPU that had a context and did nothing has zeros.
    pub gpus: BTreeMap<String, Uses>,
}

/// The number of calls of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCount {
    /// All calls.
    pub calls: u64,
    /// Calls that returned an error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errors: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The number of times that a GPU was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uses {
    /// Kernels and graphs launched.
    pub launches: u64,
    /// Copies and fills.
    pub copies: u64,
    /// Allocations of the GPU's memory.
    pub allocations: u64,
}

impl Uses {
    /// Returns `true` if the GPU did nothing.
    pub fn is_none(&self) -> bool {
        *self == Uses::default()
    }
}

/// The end of the program, and of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// The end of the program.
    pub t_ns: u64,
    /// The program's exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the program, by name.
    pub signal: Option<String>,
    /// Sentences that describe what the trace could not observe. If empty, every process of the program that NVML
    /// listed has events.
    pub not_seen: Vec<String>,
    /// The number of events that were left out because the document would have become too large.
    pub left_out: u64,
    /// The longest time during which the memory of each GPU was not read, in NVML order; null for a GPU without a
    /// reading after the program's end. Empty where this is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory_gap_ns: Vec<Option<u64>>,
    /// The last lines of the stderr of a program that failed, at most 100 lines and 16 KiB. Includes stdout if both are
    /// one file or pipe. Empty where they are not known, because stderr was a terminal, a socket or a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

impl End {
    /// Returns the signal or the exit code of a program that failed; `None` if it succeeded.
    pub fn failure_reason(&self) -> Option<String> {
        match self.code {
            _ if self.signal.is_some() => self.signal.clone(),
            None | Some(0) => None,
            Some(code) => Some(format!("exit code {code}")),
        }
    }
}

/// Returns the JSON Schema of one line of the document.
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
