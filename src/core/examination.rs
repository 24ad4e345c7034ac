//! The results of `doctor`: how CUDA and NVML start in its environment, what is denied there, and what a running
//! process holds. This module has facts only; `answers` draws the conclusions.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::MappedLibrary;
use crate::holding::{AbsentProcess, ProcessExamination, PythonStack, UnreadProcess};
use crate::sample::{Gpu, Process, Reading};

/// The reasons why CUDA does or does not start in an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    /// The user that runs `doctor`, and the information from the kernel.
    pub place: HostState,
    /// The starts of libraries, each in a fresh process; the first start of each library is without a change.
    pub starts: Vec<LibraryStart>,
    /// Files that CUDA and NVML need, each opened in a fresh process; none on the simulated machine.
    pub files: Vec<FileTry>,
    /// System calls that they need, each made in a fresh process; none on the simulated machine.
    pub system_calls: Vec<CallTry>,
}

/// The environment in which CUDA has to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Place")]
pub struct HostState {
    /// The user that runs `doctor`.
    pub uid: u32,
    /// The groups of the user.
    pub groups: Vec<u32>,
    /// The container, such as `docker`; null if no mark of a container was found.
    pub container: Option<String>,
    /// `true` if a filter of system calls (seccomp) applies to it; null if the kernel does not report it.
    pub is_filtered: Option<bool>,
    /// The version of the kernel's driver; null if no driver is loaded, or if it cannot be seen.
    pub module_version: Option<String>,
    /// The GPUs that the kernel's driver has.
    pub gpus: Vec<KernelGpu>,
    /// Number of NVIDIA GPUs on the PCI bus; null if the bus cannot be read, as in a container.
    pub pci_gpus: Option<u64>,
    /// The major numbers of NVIDIA's device files, by the name of the driver.
    pub majors: BTreeMap<String, u32>,
    /// Variables that can change how CUDA starts.
    pub environment: BTreeMap<String, String>,
    /// Limits of the process that are below their hard limit, by name.
    pub limits: BTreeMap<String, u64>,
}

/// A GPU of the kernel's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelGpu {
    /// The number of its device file: `/dev/nvidia0` for 0.
    pub device_minor: u32,
    /// The UUID of the GPU; null if the kernel did not report it.
    pub uuid: Option<String>,
}

/// A library that `doctor` starts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Started {
    /// libcuda: `cuInit`, and on each GPU a context and some memory.
    Driver,
    /// NVML.
    Nvml,
}

/// The start of a library in a fresh process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Start")]
pub struct LibraryStart {
    /// The library.
    pub library: Started,
    /// The difference from the environment of `doctor`; null if there was no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<StartChange>,
    /// The result of each call, up to the first that failed for all GPUs.
    pub calls: Vec<StartCall>,
    /// The UUIDs of the GPUs that were seen, in the order of their ordinals.
    pub seen: Vec<String>,
    /// NVML's information about each GPU and its memory; empty for the driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuState>,
    /// The libraries that the process mapped; those before its first call if the process did not exit by itself.
    pub libraries: Vec<MappedLibrary>,
    /// The loader's message, if the library could not be opened.
    pub missing: Option<String>,
    /// The end of the process, if it did not exit by itself.
    pub ended: Option<StartEnd>,
}

impl LibraryStart {
    /// Returns the first call that failed.
    pub fn first_failure(&self) -> Option<&StartCall> {
        self.calls.iter().find(|call| call.code != 0)
    }

    /// Returns `true` if everything that was tried worked, and at least one GPU was seen.
    pub fn is_good(&self) -> bool {
        self.missing.is_none()
            && self.ended.is_none()
            && self.first_failure().is_none()
            && !self.seen.is_empty()
    }

    /// Returns `true` if one of its libraries is the simulated machine's.
    pub fn is_simulated(&self) -> bool {
        self.libraries.iter().any(|library| library.simulated)
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CallStatus")]
pub struct StartCall {
    /// The call, with the ordinal of the GPU if it is made for several.
    pub call: String,
    /// The status as a number.
    pub code: i64,
    /// The C name of the status, or its number if no table lists it.
    pub status: String,
}

/// The end of a process that did not exit by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartEnd {
    /// A signal by its name, `hang`, `exit` and a code, or `not started` and why.
    pub by: String,
    /// The call that was under way; null if none was.
    pub at: Option<String>,
}

impl StartEnd {
    const NOT_STARTED: &str = "not started: ";

    /// Returns the end of a process that could not be started.
    pub fn not_started(why: &str) -> StartEnd {
        StartEnd {
            by: format!("{}{why}", StartEnd::NOT_STARTED),
            at: None,
        }
    }

    /// Returns `true` if the process could not be started.
    pub fn is_not_started(&self) -> bool {
        self.by.starts_with(StartEnd::NOT_STARTED)
    }
}

/// NVML's facts about a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuState {
    /// The GPU.
    #[serde(flatten)]
    pub gpu: Gpu,
    /// The memory and the processes of the GPU.
    pub reading: Reading,
    /// `true` if the memory changed in every reading.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unstable: bool,
    /// Part of the last seconds that each process kept the GPU's multiprocessors busy, in percent, by PID; null if NVML
    /// does not report it. A process that did nothing is missing.
    pub busy_percent: Option<BTreeMap<u32, u32>>,
    /// Processes with graphics alone; they are not in `reading`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphics: Vec<Process>,
    /// PIDs of the clients of an MPS server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mps_clients: Vec<u32>,
}

/// The difference between a start and the environment of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Change")]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StartChange {
    /// A variable is not set.
    Without {
        /// The name of the variable.
        variable: String,
    },
    /// The folder for MPS is an empty one.
    WithoutMps {
        /// The directory that the start uses instead.
        folder: String,
    },
    /// `LD_LIBRARY_PATH` lacks a folder that has a libcuda.
    WithoutFolder {
        /// The folder.
        folder: String,
    },
    /// A limit is raised to its hard limit.
    Raised {
        /// The name of the limit, such as `RLIMIT_NOFILE`.
        limit: String,
        /// The current limit, in its own unit.
        was: u64,
    },
    /// All the variables that were removed one by one are unset together.
    Bare,
}

/// The result of an attempt to open a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileTry {
    /// The file in the form of the tables, with `*` for parts that differ between processes.
    pub file: String,
    /// The error; null if it was opened.
    pub error: Option<String>,
    /// The mode of the file, such as 0o666; null if it could not be read.
    pub mode: Option<u32>,
    /// The owner and the group of the file.
    pub owner: Option<(u32, u32)>,
    /// The device number, major and minor; null if the file is not a device.
    pub device: Option<(u32, u32)>,
}

/// The result of an attempt to make a system call, with arguments that have no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTry {
    /// The name of the system call.
    pub call: String,
    /// The unexpected error or signal; null if the call was not denied.
    pub error: Option<String>,
}

/// The task of the fresh process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// Start a library.
    Start {
        /// Which.
        library: Started,
        /// `true` to use the driver on each GPU that it shows, instead of only listing them.
        uses_gpus: bool,
        /// Time that NVML watches the utilization by processes, in milliseconds.
        watch_ms: u64,
    },
    /// Open files and make system calls.
    Try {
        /// The files, each with `true` if it is also written.
        files: Vec<(String, bool)>,
        /// System calls.
        calls: Vec<String>,
    },
    /// Read the processes that have to do with NVIDIA's driver.
    Scan {
        /// Only this one, whatever it has to do with the driver; null for all.
        only: Option<u32>,
        /// Processes that NVML lists.
        listed: BTreeSet<u32>,
        /// Processes that are left out: those of this program, and those at which an earlier reader hung.
        skipped: BTreeSet<u32>,
        /// The directory of the device files: `/dev/`, or that of a simulated machine.
        devices: String,
    },
    /// Read the Python stack of a process, which continues.
    Stack {
        /// The process.
        pid: u32,
        /// Its start, in milliseconds since 1970; another process may have its PID now.
        started_unix_ms: Option<u64>,
    },
}

/// A message of that process. It is not internally tagged, because maps with numeric keys could not be parsed then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExaminerMessage {
    /// The library could not be opened.
    Missing {
        /// The loader's message.
        message: String,
    },
    /// The library is open, and nothing has been called yet.
    Open {
        /// The libraries that are mapped.
        libraries: Vec<MappedLibrary>,
    },
    /// A call begins.
    Begin {
        /// The call.
        call: String,
    },
    /// A call has ended.
    End(StartCall),
    /// A GPU is seen.
    Seen {
        /// The UUID of the GPU.
        uuid: String,
    },
    /// NVML's information about a GPU.
    Gpu(Box<GpuState>),
    /// The result of an attempt to open a file.
    File(FileTry),
    /// The result of an attempt to make a system call.
    Call(CallTry),
    /// The resources that a process holds.
    Process(Box<ProcessExamination>),
    /// A process that could not be read.
    Unread(UnreadProcess),
    /// A process that NVML lists and `/proc` does not.
    Absent(AbsentProcess),
    /// A Python stack; null if the process has no Python.
    Stack(Option<PythonStack>),
    /// The last event.
    Done {
        /// The libraries that are mapped.
        libraries: Vec<MappedLibrary>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_of_a_busy_gpu_is_read() {
        let gpu = serde_json::json!({"uuid": "GPU-a", "name": null, "pci_bus_id": null, "compute_capability": null,
            "total_bytes": 1, "reserved_bytes": 0, "compute_mode": null, "persistence": null, "mig": null});
        let state = GpuState {
            gpu: serde_json::from_value(gpu).expect("a GPU"),
            reading: Reading::default(),
            is_unstable: false,
            busy_percent: Some([(4711, 99)].into()),
            graphics: Vec::new(),
            mps_clients: Vec::new(),
        };
        let said = ExaminerMessage::Gpu(Box::new(state));
        let line = serde_json::to_string(&said).expect("JSON");
        assert_eq!(
            serde_json::from_str::<ExaminerMessage>(&line).expect("it is read again"),
            said
        );
    }
}
