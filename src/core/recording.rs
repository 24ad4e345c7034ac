//! Everything that happened in one attempt, as the supervisor saw it. Nothing is judged here, and nothing changes once
//! the attempt is over.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Event, MappedLibrary};
use crate::sample::{Polling, Snapshot};
use crate::verdict::Invalidation;

/// The reports and actions of one fresh process, and NVML's readings during that time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// Start time of the worker.
    pub started_ns: u64,
    /// The time from the worker's start to its end.
    pub wall_ns: u64,
    /// The part of the duration without a call in progress: step barriers, reading, process start.
    pub overhead_ns: u64,
    /// The worker's PID.
    pub pid: u32,
    /// All events of the worker's processes, in order. Libraries are in the machine's part.
    pub events: Vec<ProcessEvent>,
    /// Every GPU at every step barrier. A snapshot that equals the one before is left out.
    pub snapshots: Vec<BarrierSnapshot>,
    /// The background polling between the step barriers.
    pub polling: Option<Polling>,
    /// The end of the worker.
    pub exit: ProcessExit,
    /// Faults of the measurement that can be known only while it is made: memory that did not stabilize, a lost
    /// sampler, an interruption.
    pub incidents: Vec<Invalidation>,
    /// The last bytes of the worker's stdout, if it wrote any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout_tail: String,
    /// Number of bytes that the worker wrote to stdout.
    #[serde(default)]
    pub stdout_bytes: u64,
    /// The last bytes of the worker's stderr, if it wrote any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// The system calls that were made under the filter of a `seccomp` step, by step; empty without such a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system_calls: Vec<StepSystemCalls>,
    /// The libraries that the worker's processes mapped. A report lists them once for all attempts.
    #[serde(skip)]
    pub libraries: Vec<MappedLibrary>,
}

/// The system calls that all processes under a filter made from the beginning of one step to the beginning of the next.
/// Those of the worker's own channel are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepSystemCalls {
    /// The step; null before the first, while the libraries are loaded.
    pub step: Option<usize>,
    /// Number of times that each system call was made.
    pub calls: BTreeMap<String, u64>,
    /// The paths in these calls, in the form of [`crate::refusal::normalize_path`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paths: BTreeMap<String, PathUse>,
    /// System calls and files that failed because a step denies them, such as `openat /dev/nvidia0: EPERM`, with the
    /// number of times.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// Calls that got an error because they would have changed the machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protected: BTreeMap<String, u64>,
}

/// The program's use of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathUse {
    /// The system calls that named the path.
    pub calls: BTreeSet<String>,
    /// `true` if the path existed when it was first used.
    pub exists: bool,
    /// `true` if the path was opened for writing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub written: bool,
}

/// An event, and the process that sent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessEvent {
    /// The actor of the process; absent for the worker's first process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Every GPU at one step barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BarrierSnapshot {
    /// The step before the reading; null for the baseline before the first step.
    pub step: Option<usize>,
    /// `true` if the snapshot was taken after the worker had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_exit: bool,
    /// The readings.
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// The end of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Exit")]
pub struct ProcessExit {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the worker, by name.
    pub signal: Option<String>,
    /// Signals that the harness sent, in order. An attempt with a signal concludes nothing, unless the scenario tests
    /// whether a step returns at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// The step that was under way when a deadline passed.
    pub deadline_at: Option<usize>,
    /// The step that was under way when the worker died.
    pub died_at: Option<usize>,
    /// `true` if the process announced its end before it exited.
    pub said_bye: bool,
    /// Processes that were left behind, and were killed.
    pub leaked_children: u32,
    /// `true` if the worker could not be killed.
    pub unkillable: bool,
    /// `true` if the kernel's out-of-memory killer is known to have ended the worker.
    pub oom_killed: bool,
}

impl Recording {
    /// Returns the time at which its worker had ended.
    pub fn ended_ns(&self) -> u64 {
        self.started_ns.saturating_add(self.wall_ns)
    }

    /// Returns the recording without its largest parts: events, readings and samples.
    pub fn to_summary(&self) -> Recording {
        Recording {
            exit: self.exit.clone(),
            incidents: self.incidents.clone(),
            stdout_tail: self.stdout_tail.clone(),
            stderr_tail: self.stderr_tail.clone(),
            events: Vec::new(),
            snapshots: Vec::new(),
            polling: None,
            system_calls: Vec::new(),
            libraries: Vec::new(),
            ..*self
        }
    }
}
