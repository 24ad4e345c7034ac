//! The programs that `survey startup` times, and the earlier actions of another process.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::word;
use cuda_pitfalls_core::experiment::Step;

/// A program of a few calls.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StartProgram {
    /// The driver: `cuInit`, a context, memory of each kind, a launch.
    Driver,
    /// The runtime: a device count, allocations.
    Runtime,
    /// NVML: its start, a GPU's handle, and its memory.
    Nvml,
}

/// Earlier actions of another process, which exists all the time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StartBeside {
    /// No action.
    Alone,
    /// `cuInit`, with the same mask.
    Initialised,
    /// `cuInit`, and a context on the first visible GPU.
    Context,
}

impl StartProgram {
    pub(super) const ALL: [StartProgram; 3] = [
        StartProgram::Driver,
        StartProgram::Runtime,
        StartProgram::Nvml,
    ];

    /// Returns the word for it in keys and selectors.
    pub fn name(self) -> String {
        word(self)
    }

    /// Returns the numbers of GPUs visible to its processes on a machine with this many: each number up to eight, then
    /// every power of two, and all. NVML is not tested with masks, which it does not read.
    pub(super) fn visible(self, gpus: usize) -> Vec<u32> {
        let all = u32::try_from(gpus).unwrap_or(u32::MAX);
        if self == StartProgram::Nvml {
            return vec![all];
        }
        let mut visible: Vec<u32> = (1..=all.min(8)).collect();
        visible.extend(
            (4..)
                .map(|power| 1u32 << power)
                .take_while(|visible| *visible <= all),
        );
        if !visible.contains(&all) {
            visible.push(all);
        }
        visible
    }

    /// Returns its calls in a process that sees this many GPUs, each with a separate label.
    fn calls(self, visible_gpus: u32) -> Vec<Step> {
        match self {
            StartProgram::Driver => driver_calls(visible_gpus as usize, PAGE_LOCKED),
            StartProgram::Runtime => vec![
                call("cudaGetDeviceCount"),
                call("cudaMalloc").with("bytes", MIB).bound_to("memory"),
                repeated_call("cudaMalloc", "again")
                    .with("bytes", MIB)
                    .bound_to("more"),
                call("cudaMallocHost")
                    .with("bytes", PAGE_LOCKED)
                    .bound_to("host"),
            ],
            StartProgram::Nvml => vec![
                call("nvmlInit_v2"),
                call("nvmlDeviceGetCount_v2"),
                call("nvmlDeviceGetHandleByIndex_v2")
                    .with("index", 0)
                    .bound_to("gpu"),
                call("nvmlDeviceGetMemoryInfo").with("gpu", "gpu"),
                repeated_call("nvmlDeviceGetMemoryInfo", "again").with("gpu", "gpu"),
            ],
        }
    }

    /// Returns every step: the actions of the first process, and the calls in the process that it starts, each with a
    /// reading of host memory.
    pub(super) fn steps(self, beside: StartBeside, visible_gpus: u32) -> Vec<Step> {
        let mut steps = vec![Step::call("mark", MARK)];
        if beside != StartBeside::Alone {
            steps.push(Step::call("cuInit", &other("cuInit")));
        }
        if beside == StartBeside::Context {
            let retain = Step::call(
                "cuDevicePrimaryCtxRetain",
                &other("cuDevicePrimaryCtxRetain"),
            );
            steps.push(retain.with("device", 0).bound_to("other"));
        }
        steps.extend([
            Step::call("posix_spawn", START).bound_to(FRESH),
            memory_after(BEFORE),
        ]);
        for call in self.calls(visible_gpus) {
            let memory = memory_after(&call.label);
            steps.extend([in_fresh_process(call), memory]);
        }
        steps.push(Step::call("waitpid", WAIT).with("actor", FRESH));
        steps
    }
}

/// Returns a call with its name as its label.
pub(in crate::survey) fn call(name: &str) -> Step {
    Step::call(name, name)
}

/// Returns a call that a program makes several times. `which` distinguishes it from the others.
pub(in crate::survey) fn repeated_call(name: &str, which: impl Display) -> Step {
    Step::call(name, &format!("{name} {which}"))
}

fn in_fresh_process(step: Step) -> Step {
    Step {
        on: Some(FRESH.to_string()),
        ..step
    }
}

fn memory_after(call: &str) -> Step {
    in_fresh_process(Step::call("proc_pid_status", &format!("{READ}{call}")))
}

/// Returns the calls of the driver's program in a process that sees this many GPUs, each with a separate label.
pub(in crate::survey) fn driver_calls(gpus: usize, page_locked: i64) -> Vec<Step> {
    let mut calls = vec![
        call("cuInit"),
        call("cuDeviceGetCount"),
        call("cuDevicePrimaryCtxRetain")
            .with("device", 0)
            .bound_to("context"),
        call("cuCtxSetCurrent").with("context", "context"),
        call("cuMemAlloc_v2").with("bytes", MIB).bound_to("memory"),
        call("cuModuleLoadData")
            .with("ptx", "nothing")
            .bound_to("module"),
        call("cuModuleGetFunction")
            .with("module", "module")
            .with("kernel", "nothing")
            .bound_to("kernel"),
        call("cuLaunchKernel").with("function", "kernel"),
        call("cuCtxSynchronize"),
        repeated_call("cuLaunchKernel", "again").with("function", "kernel"),
        repeated_call("cuCtxSynchronize", "again"),
        call("cuMemAllocManaged")
            .with("bytes", MIB)
            .bound_to("managed"),
        call("cuMemHostAlloc")
            .with("bytes", page_locked)
            .with("flags", 0)
            .bound_to("host"),
    ];
    if gpus > 1 {
        let second = repeated_call("cuDevicePrimaryCtxRetain", "of the second GPU");
        calls.push(second.with("device", 1).bound_to("second"));
    }
    calls
}

impl StartBeside {
    pub(super) const ALL: [StartBeside; 3] = [
        StartBeside::Alone,
        StartBeside::Initialised,
        StartBeside::Context,
    ];

    /// Returns the name in documents.
    pub fn name(self) -> String {
        word(self)
    }

    /// Returns the earlier actions of the other process.
    pub fn does(self) -> &'static str {
        match self {
            StartBeside::Alone => "no other CUDA process of ours",
            StartBeside::Initialised => "while another process has called cuInit",
            StartBeside::Context => "while another process has a context on the first GPU",
        }
    }
}

/// Returns `true` if a step with this label is a call of a program.
pub(super) fn is_call(label: &str) -> bool {
    ![MARK, START, WAIT].contains(&label) && !label.starts_with(OTHER) && !label.starts_with(READ)
}

/// Returns the call after which a step with this label reads the host memory, or [`BEFORE`].
pub(super) fn read_after(label: &str) -> Option<&str> {
    label.strip_prefix(READ)
}

fn other(call: &str) -> String {
    format!("{OTHER}{call}")
}

/// Label of the time before the first call.
pub(super) const BEFORE: &str = "the first call";
const MARK: &str = "begin";
const START: &str = "start";
const WAIT: &str = "wait";
const READ: &str = "memory after ";
const OTHER: &str = "the other: ";
/// The actor that makes the calls.
const FRESH: &str = "fresh";

const MIB: i64 = 1 << 20;
/// Page-locked allocation, in bytes: large enough to distinguish it from the memory that the driver uses itself.
const PAGE_LOCKED: i64 = 64 << 20;
