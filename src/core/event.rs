//! The protocol between parent and worker: versioned JSON lines on a separate socket.
//!
//! The parent drives: it sends [`Command`]s, one step at a time, and reads everything in between. The worker answers
//! with [`Event`]s. After a hang or a crash the last line identifies the call. Every timestamp is `CLOCK_MONOTONIC` in
//! nanoseconds, which parent, worker and sampler share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cuda_pitfalls_calls::CallLibrary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::Step;

/// The version of the protocol between parent, worker and sampler. The parent names it on the command line of every
/// process it starts. A process with another version exits: the program's file may be replaced during a run.
pub const PROTOCOL: u32 = 5;

/// A message from the parent to a process of the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// The first message: the libraries and functions that the worker must load before its first step.
    Prepare {
        /// The C names of all calls that steps make: their libraries and symbols are resolved now.
        calls: Vec<String>,
        /// Sockets set aside for processes that steps create, by actor name.
        channels: BTreeMap<String, SetAside>,
        /// `true` to probe the process's state after each step.
        probes: bool,
        /// The name of a process that a step started; none for the first one.
        process: Option<String>,
        /// `true` if the filter of a `seccomp` step is set before any library is loaded.
        #[serde(default)]
        filtered: bool,
    },
    /// Make this call.
    Run {
        /// The number of the step, which events refer to.
        step: usize,
        /// The call and its arguments, with every template filled in.
        call: Step,
        /// Bytes that earlier steps of any process bound and that this step uses, by name, in hex.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        bytes: BTreeMap<String, String>,
    },
    /// No more steps: exit with `exit(0)`.
    Finish,
}

/// A socket that a process inherits for one of its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The descriptor.
    pub fd: i32,
    /// The actor that forks the child; none for the worker's first thread, and for a child that is a fresh process.
    pub forked_by: Option<String>,
}

/// A message from a process of the worker to the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Libraries and symbols are resolved, and the worker waits.
    Ready {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The PID as the process itself sees it.
        pid: u32,
        /// The libraries it mapped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        libraries: Vec<MappedLibrary>,
        /// Libraries or symbols that steps need and that were not found.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<String>,
        /// Libraries injected into the process from outside.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        injected: Vec<String>,
    },
    /// The call of a step is about to be made.
    Begin {
        /// The step.
        step: usize,
        /// The time, in nanoseconds.
        t_ns: u64,
    },
    /// The call of a step has returned.
    End {
        /// The step.
        step: usize,
        /// The time, in nanoseconds.
        t_ns: u64,
        /// Duration of the call.
        elapsed_ns: u64,
        /// The result of the call; null for actions without a result.
        status: Option<Status>,
        /// The outputs of the call by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        values: BTreeMap<String, Value>,
        /// Bytes that other processes of the attempt may need (an IPC handle), in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
        /// Driver calls that the process made since the step began, by name; absent if they are not counted. The calls
        /// of probes are left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<BTreeMap<String, u64>>,
        /// Processes that the step's process and its descendants have started and that still run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        processes: Vec<u32>,
        /// Names of values that may differ from attempt to attempt, in addition to those marked in the tables of calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        varying: Vec<String>,
    },
    /// The state of the process after a step.
    Probe {
        /// The step.
        step: usize,
        /// Duration of the probe.
        elapsed_ns: u64,
        /// The state.
        probe: Probe,
    },
    /// The process has a filter on its system calls. The descriptor that comes with the message answers it.
    Filtered,
    /// The worker itself failed, so the attempt gives no information about CUDA.
    Broken {
        /// The failure.
        message: String,
    },
    /// All steps are done, and the process is about to leave.
    Bye {
        /// The libraries that the process has mapped, if [`Event::Ready`] comes too early to know them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        libraries: Vec<MappedLibrary>,
    },
}

/// A library that the worker has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappedLibrary {
    /// `libcuda`, `libcudart` or `libnvidia-ml`.
    #[serde(rename = "library")]
    pub name: String,
    /// The file, with links resolved.
    pub path: String,
    /// `true` if the library carries the simulated machine's marker.
    pub simulated: bool,
}

impl MappedLibrary {
    /// Returns `true` if this is the library, or the simulated machine, which replaces all NVIDIA libraries.
    pub fn serves(&self, library: CallLibrary) -> bool {
        self.simulated || self.name == library.name()
    }
}

impl MappedLibrary {
    /// Adds the libraries that are not in a list yet.
    pub fn add_missing(
        into: &mut Vec<MappedLibrary>,
        more: impl IntoIterator<Item = MappedLibrary>,
    ) {
        for library in more {
            if !into.contains(&library) {
                into.push(library);
            }
        }
    }
}

/// The reason why it is not known whether a real driver answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// A library that is neither known to be real nor simulated.
    #[error("{0} is mapped, but it is unknown whether it is simulated")]
    Unknown(String),
    /// Some libraries are real, and some are simulated.
    #[error("real and simulated libraries are mixed")]
    Mixed,
}

/// The versions of the libraries, as a separate process found them that does nothing else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Versions {
    /// The libraries that the process mapped.
    pub libraries: Vec<MappedLibrary>,
    /// `cuDriverGetVersion`, such as 13000; null if libcuda is missing.
    pub cuda_driver: Option<i32>,
    /// `cudaRuntimeGetVersion`, such as 13000; null if libcudart is missing.
    pub runtime: Option<i32>,
    /// The loader's messages about missing libraries.
    pub missing: Vec<String>,
    /// The mapped libraries that could not be classified as real or simulated.
    #[serde(default)]
    pub unknown: Vec<String>,
}

impl Versions {
    /// Returns the path of the libcuda that was mapped.
    pub fn libcuda(&self) -> Option<PathBuf> {
        let libcuda = self
            .libraries
            .iter()
            .find(|library| library.serves(CallLibrary::Driver));
        libcuda.map(|library| PathBuf::from(&library.path))
    }

    /// Returns `true` if the libraries are simulated. The loaded libraries decide, not the command line. `nvml` is the
    /// sampler's result for its own library.
    ///
    /// # Errors
    /// Returns an error if some libraries are real and some simulated, or if some could not be classified.
    pub fn is_simulated(&self, nvml: Option<bool>) -> Result<bool, LibraryError> {
        if let Some(path) = self.unknown.first() {
            return Err(LibraryError::Unknown(path.clone()));
        }
        let seen: Vec<bool> = self
            .libraries
            .iter()
            .map(|library| library.simulated)
            .chain(nvml)
            .collect();
        if seen.contains(&true) && seen.contains(&false) {
            return Err(LibraryError::Mixed);
        }
        Ok(seen.contains(&true))
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The status code.
    pub code: i64,
    /// The C name, from our own table; null for a number that the table does not know.
    pub name: Option<String>,
}

impl Event {
    /// The last event of a process whose libraries are already known.
    pub const BYE: Event = Event::Bye {
        libraries: Vec::new(),
    };
}

impl Status {
    /// Returns a status code of this library, with its name.
    pub fn named(library: CallLibrary, code: i64) -> Status {
        Status {
            code,
            name: cuda_pitfalls_calls::status::name(library, code).map(str::to_string),
        }
    }
}

/// An output of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A number with a fraction; never part of an outcome.
    Float(f64),
    /// Text; `bound` or `NULL` for handles.
    Text(String),
}

/// The CUDA state of a process, queried from inside it. The probe makes no call that could change the state. Before
/// `cuInit` it calls only `cuDeviceGetCount`, which returns 3 and initializes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The status of `cuDeviceGetCount`, which shows whether the driver is initialized.
    pub status: Option<Status>,
    /// UUIDs of the visible GPUs in CUDA order; null if the driver did not report them.
    pub visible: Option<Vec<String>>,
    /// For each visible GPU, in CUDA order: `true` if its primary context is active.
    pub active: Option<Vec<bool>>,
    /// The CUDA ordinal of the GPU of the calling thread's current context; null without a current context.
    pub current: Option<i32>,
    /// The status of `cuCtxGetDevice`, if a context is current but its GPU could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_status: Option<Status>,
}
