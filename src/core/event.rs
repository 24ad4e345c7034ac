//! The wire between parent and worker: JSON lines on a socket of their own, versioned.
//!
//! The parent drives: it sends [`Command`]s, one step at a time, and reads everything in between.
//! The worker answers with [`Event`]s. After a hang or a crash the last line names the call.
//! Every stamp is `CLOCK_MONOTONIC` in nanoseconds, which parent, worker and sampler share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cuda_pitfalls_calls::CallLibrary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::Step;

/// The version of what parent, worker and sampler say to each other. The parent names it on the
/// command line of every process it starts, and a process that speaks another leaves at once: the
/// program's file may be replaced while a run is under way.
pub const PROTOCOL: u32 = 3;

/// What the parent says to a process of the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// The first line: what the worker must have before its first step.
    Prepare {
        /// The C names of all calls that steps make: their libraries and symbols are resolved now.
        calls: Vec<String>,
        /// Sockets set aside for processes that steps create, by actor name.
        channels: BTreeMap<String, SetAside>,
        /// Whether to probe the process's own state after each step.
        probes: bool,
        /// The name of a process that a step started; none for the first one.
        process: Option<String>,
    },
    /// Make this call.
    Run {
        /// The parent's number for it, by which events name it.
        step: usize,
        /// The call and its arguments, with nothing left to fill in.
        call: Step,
        /// Bytes that steps of any process bound and this one takes, by name, in hex.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        bytes: BTreeMap<String, String>,
    },
    /// Nothing more to do: leave by the normal way out, `exit(0)`.
    Finish,
}

/// A socket that a process inherits for a child of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The descriptor.
    pub fd: i32,
    /// The actor that forks the child; none for the worker's first thread, and for a child that is a
    /// fresh process.
    pub forked_by: Option<String>,
}

/// What a process of the worker says to the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Libraries and symbols are resolved; the worker waits.
    Ready {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The process as it sees itself.
        pid: u32,
        /// The libraries it mapped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        libraries: Vec<MappedLibrary>,
        /// Libraries or symbols that steps need and that are not there.
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
        /// When.
        t_ns: u64,
    },
    /// The call of a step has returned.
    End {
        /// The step.
        step: usize,
        /// When.
        t_ns: u64,
        /// How long the call took.
        elapsed_ns: u64,
        /// What it returned; null for actions without a result.
        status: Option<Status>,
        /// Its outputs by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        values: BTreeMap<String, Value>,
        /// Bytes that other processes of the attempt may need (an IPC handle), in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
        /// Driver calls that the process made since the step began, by name; absent where they are not
        /// counted. Those that read its state are left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<BTreeMap<String, u64>>,
        /// Processes that the step's process has started and that still run, and theirs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        processes: Vec<u32>,
        /// Names of values that may differ from attempt to attempt, beside those that the tables of calls
        /// know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        varying: Vec<String>,
    },
    /// What the process saw when it looked around after a step.
    Probe {
        /// The step.
        step: usize,
        /// How long looking took.
        elapsed_ns: u64,
        /// What it saw.
        probe: Probe,
    },
    /// Something in the worker itself failed; the attempt says nothing about CUDA.
    Broken {
        /// What.
        message: String,
    },
    /// All is done and the process is about to leave.
    Bye {
        /// The libraries that it has mapped, where [`Event::Ready`] comes too early to know.
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
    /// Whether it carries the simulated machine's marker.
    pub simulated: bool,
}

impl MappedLibrary {
    /// Adds the libraries that are not in a list yet.
    pub fn merge(into: &mut Vec<MappedLibrary>, more: impl IntoIterator<Item = MappedLibrary>) {
        for library in more {
            if !into.contains(&library) {
                into.push(library);
            }
        }
    }
}

/// What a process of its own found that only asks the libraries for their versions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Versions {
    /// What was mapped.
    pub libraries: Vec<MappedLibrary>,
    /// `cuDriverGetVersion`, such as 13000; null if libcuda is missing.
    pub cuda_driver: Option<i32>,
    /// `cudaRuntimeGetVersion`, such as 13000; null if libcudart is missing.
    pub runtime: Option<i32>,
    /// The loader's words for what is missing.
    pub missing: Vec<String>,
    /// What is mapped, if it is unknown whether it is real or simulated.
    #[serde(default)]
    pub unknown: Vec<String>,
}

/// Why results could be taken for what they are not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvenanceError {
    /// Nobody knows whether this library is real.
    #[error("{0} is mapped, and it is unknown whether it is simulated")]
    Unknown(String),
    /// Some libraries are real, and some simulated.
    #[error("real and simulated libraries are mixed")]
    Mixed,
}

impl Versions {
    /// The libcuda that was mapped.
    pub fn libcuda(&self) -> Option<PathBuf> {
        let is_libcuda = |library: &&MappedLibrary| library.simulated || library.name == CallLibrary::Driver.name();
        self.libraries.iter().find(is_libcuda).map(|library| PathBuf::from(&library.path))
    }

    /// Whether the libraries are the simulated machine's. What was loaded decides, not what was asked
    /// for; `nvml` is what the sampler says of its own library.
    ///
    /// # Errors
    /// Why results could be taken for what they are not: real and simulated libraries, or unknown ones.
    pub fn is_simulated(&self, nvml: Option<bool>) -> Result<bool, ProvenanceError> {
        if let Some(path) = self.unknown.first() {
            return Err(ProvenanceError::Unknown(path.clone()));
        }
        let seen: Vec<bool> = self.libraries.iter().map(|library| library.simulated).chain(nvml).collect();
        match seen.contains(&true) && seen.contains(&false) {
            true => Err(ProvenanceError::Mixed),
            false => Ok(seen.contains(&true)),
        }
    }
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The number.
    pub code: i64,
    /// The C name, from our own table; null for a number that the table does not know.
    pub name: Option<String>,
}

impl Event {
    /// The last word of a process whose libraries are known.
    pub const BYE: Event = Event::Bye { libraries: Vec::new() };
}

impl Status {
    /// A code with its name in the library that returned it.
    pub fn named(library: CallLibrary, code: i64) -> Status {
        Status { code, name: cuda_pitfalls_calls::status::name(library, code).map(str::to_string) }
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

/// What a process saw of itself. Calls that could change anything are not made: before `cuInit`
/// only `cuDeviceGetCount`, which answers 3 and initialises nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Whether the driver is initialised: what `cuDeviceGetCount` returned.
    pub status: Option<Status>,
    /// UUIDs of the visible GPUs in CUDA order; null where the driver would not say.
    pub visible: Option<Vec<String>>,
    /// Whether each visible GPU's primary context is active, in CUDA order.
    pub active: Option<Vec<bool>>,
    /// The CUDA ordinal of the GPU of the calling thread's current context; null for none.
    pub current: Option<i32>,
    /// The status of `cuCtxGetDevice`, where a context is current but its GPU could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_status: Option<Status>,
}
