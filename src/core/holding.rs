//! The observations of `who`: NVML's lists, and the files of every process that has to do with NVIDIA's driver. This
//! module has facts only; `answers` draws the conclusions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::examination::{FileTry, LibraryStart, StartEnd};

/// A reading of all holders of the GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HolderScan {
    /// The user that read.
    pub uid: u32,
    /// `true` in the first PID namespace of the host, where no process is outside of it; null if unknown.
    pub is_first_namespace: Option<bool>,
    /// `true` if `/proc` hides processes of other users (`hidepid`) from this user.
    pub hides_others: bool,
    /// The version of the kernel's driver.
    pub module_version: Option<String>,
    /// The results of NVML.
    pub nvml: LibraryStart,
    /// Wall-clock time after NVML was read, in milliseconds since 1970.
    pub nvml_unix_ms: u64,
    /// Time that NVML sampled the utilization by processes, in milliseconds.
    pub sampled_ms: u64,
    /// Processes with a file of the driver open, with one of its threads, or on NVML's list.
    pub processes: Vec<ProcessExamination>,
    /// Processes whose open files may not be read.
    pub unread: Vec<UnreadProcess>,
    /// PIDs on NVML's list that have no directory in `/proc`.
    pub absent: Vec<AbsentProcess>,
    /// Users by their number.
    pub users: BTreeMap<u32, String>,
    /// The end of the reading process, if it did not read everything.
    pub ended: Option<StartEnd>,
}

/// Time that NVML keeps samples of the utilization, in milliseconds: after more than ten seconds without work it
/// reported 0 %.
const KEPT_SAMPLES_MS: u64 = 10_000;

impl HolderScan {
    /// Returns the time for which the utilization is known, in milliseconds.
    pub fn watched_ms(&self) -> u64 {
        match self.sampled_ms {
            0 => KEPT_SAMPLES_MS,
            sampled => sampled,
        }
    }
}

/// A process that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadProcess {
    /// The process.
    pub pid: u32,
    /// Its user; null if unknown.
    pub uid: Option<u32>,
    /// The error, such as `EACCES`, or `hang`.
    pub error: String,
}

/// A PID on NVML's list without a directory in `/proc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AbsentProcess {
    /// The process, as NVML numbers it.
    pub pid: u32,
    /// `true` if the kernel knows a process with this PID here; null if the kernel did not answer.
    pub is_alive: Option<bool>,
}

/// Variables with which batch systems name a job. A process can change its own.
pub const JOB_VARIABLES: [&str; 3] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"];

/// The resources that a running process holds, seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessExamination {
    /// The process.
    pub pid: u32,
    /// The path of its program, or its name if the path may not be read.
    pub program: String,
    /// `true` if the file of the program belongs to root.
    pub is_program_of_root: bool,
    /// Its command line, shortened. The process can change it.
    pub command: String,
    /// The user of the process; null if the kernel did not report it.
    pub uid: Option<u32>,
    /// Its state, as in `ps`: `R`, `S`, `D`, `T`, `Z`; null if it could not be read.
    pub state: Option<char>,
    /// Its parent.
    pub parent: Option<ParentProcess>,
    /// Its session, as the PID of the first process of it.
    pub session: Option<u32>,
    /// Its PID in its own PID namespace, if that is not the reader's.
    pub inner_pid: Option<u32>,
    /// Its control groups, as the kernel names them.
    pub control_groups: Vec<String>,
    /// Its start, in milliseconds since 1970, with a resolution of 10 ms.
    pub started_unix_ms: Option<u64>,
    /// The number of its threads.
    pub threads: Option<u64>,
    /// Threads of the driver in it, the oldest first.
    pub driver_threads: Vec<DriverThread>,
    /// `true` if a filter of system calls (seccomp) applies to the process; null if the kernel does not report it.
    pub is_filtered: Option<bool>,
    /// The CUDA variables at the start of the process, and those of its job; null if they may not be read.
    pub started_with: Option<BTreeMap<String, String>>,
    /// The same variables as they are in its C library now; null if its memory may not be read.
    pub now: Option<BTreeMap<String, String>>,
    /// The mapped CUDA libraries; null if they may not be read.
    pub libraries: Option<Vec<ProcessLibrary>>,
    /// Number of times that it has each NVIDIA device file open; null if that may not be read.
    pub open_files: Option<BTreeMap<String, u64>>,
    /// Number of mappings of each NVIDIA device file; null if they may not be read.
    pub mapped_files: Option<BTreeMap<String, u64>>,
    /// NVIDIA's device files as its user meets them in its own file system: those that it cannot open.
    pub closed_files: Vec<FileTry>,
    /// The directory in which the process looks for MPS, if it has a control pipe.
    pub mps_folder: Option<String>,
    /// Its Python stack; null if it was not read, or if there is no Python.
    pub stack: Option<PythonStack>,
}

/// The parent of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentProcess {
    /// The parent.
    pub pid: u32,
    /// Its session; null if it could not be read.
    pub session: Option<u32>,
    /// `true` if it adopts orphans: the first process of a PID namespace, or the service manager of a user.
    pub is_reaper: bool,
}

/// A thread that the driver started in a process.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct DriverThread {
    /// The start of the thread, in milliseconds since 1970, with a resolution of 10 ms.
    pub since_unix_ms: u64,
    /// The reason for the thread.
    pub kind: DriverThreadKind,
}

/// The reason for a thread of the driver. Measured on H100 and H200 with driver 580.159.04 (docs/who.md).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DriverThreadKind {
    /// `cuda` and a hexadecimal number: `cuInit` starts it, and so does NVML in a process without CUDA.
    Driver,
    /// `cuda-EvtHandlr`: each context has one, from its creation to its end.
    Context,
}

/// A library that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ProcessLibrary {
    /// `libcuda`, `libcudart` or `libnvidia-ml`.
    pub library: String,
    /// The file, as the kernel names it.
    pub path: String,
    /// `true` if the file has been deleted since.
    pub is_deleted: bool,
}

/// The Python stack of the main thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PythonStack {
    /// The innermost line that belongs neither to a package nor to Python; null if no frame is such a line.
    pub user_line: Option<String>,
    /// All frames, innermost first: `file:line in function`.
    pub frames: Vec<String>,
    /// The reason why the stack could not be read.
    pub error: Option<String>,
}
