//! The programs that `survey needs` runs, and the moments when something is denied to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::startup::{call, driver_calls, repeated_call};
use crate::survey::word;
use cuda_pitfalls_core::experiment::Step;
use cuda_pitfalls_core::python::{LINE, LINE_TEXT, Python};
use cuda_pitfalls_core::refusal;

/// A program of a few calls.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NeedsProgram {
    /// The driver: `cuInit`, a context, a launch, and memory of each kind.
    #[default]
    Driver,
    /// The runtime: a device count and an allocation.
    Runtime,
    /// NVML: its start, every GPU's handle, and its memory.
    Nvml,
    /// PyTorch: its import, a tensor, a product, and page-locked memory.
    Torch,
    /// CuPy: its import, an array, a sum, and page-locked memory.
    Cupy,
    /// JAX: its import, an array and a sum.
    Jax,
}

/// First moment when something is denied.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NeedsMoment {
    /// Before the first call, with the libraries loaded.
    #[default]
    Init,
    /// After `cuInit` and before the first context.
    Context,
    /// After the first launch; in NVML, after `nvmlInit_v2`.
    Use,
    /// Before the process forks, and the child makes the calls.
    Forked,
    /// Before the process starts a fresh one, which loads the libraries and makes the calls.
    Spawned,
}

impl NeedsProgram {
    /// All programs.
    pub const ALL: [NeedsProgram; 6] = [
        NeedsProgram::Driver,
        NeedsProgram::Runtime,
        NeedsProgram::Nvml,
        NeedsProgram::Torch,
        NeedsProgram::Cupy,
        NeedsProgram::Jax,
    ];

    /// Returns `true` if it consists of Python lines. Those take seconds each, so they run only if selected by name,
    /// and only for files and system calls that the driver's program does not use.
    pub fn is_framework(self) -> bool {
        self.lines().is_some()
    }

    /// Returns `true` if selectors select it.
    pub fn is_chosen(self, selectors: &[String]) -> bool {
        let name = self.name();
        !self.is_framework()
            || selectors
                .iter()
                .any(|selector| selector.split(' ').next() == Some(&name))
    }

    /// Returns the package and the lines of a program that consists of Python lines.
    fn lines(self) -> Option<(&'static str, &'static [&'static str])> {
        Some(match self {
            NeedsProgram::Driver | NeedsProgram::Runtime | NeedsProgram::Nvml => return None,
            NeedsProgram::Torch => (
                "torch >= 2.0",
                &[
                    "import torch",
                    "x = torch.ones(512, 512, device='cuda')",
                    "(x @ x).sum().item()",
                    "torch.ones(1024).pin_memory()",
                ],
            ),
            NeedsProgram::Cupy => (
                "cupy",
                &[
                    "import cupy",
                    "x = cupy.ones((512, 512))",
                    "(x @ x).sum().item()",
                    "cupy.cuda.alloc_pinned_memory(1024)",
                ],
            ),
            NeedsProgram::Jax => (
                "jax",
                &[
                    "import jax",
                    "x = jax.numpy.ones((512, 512)) + 1",
                    "assert x.devices().pop().platform == 'gpu'",
                    "(x @ x).sum().block_until_ready()",
                ],
            ),
        })
    }

    /// Returns the needs of its cases from the interpreter, if they have Python lines.
    pub(super) fn python(self) -> Option<Python> {
        self.lines().map(|(needs, _)| Python {
            needs: vec![needs.to_string()],
        })
    }

    pub(super) fn environment(self) -> BTreeMap<String, String> {
        // Otherwise JAX allocates three quarters of the GPU.
        let set = (self == NeedsProgram::Jax).then_some(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"));
        set.into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    /// Returns the name in keys and selectors.
    pub fn name(self) -> String {
        word(self)
    }

    /// Returns the moments when something is denied to it.
    pub(super) fn refusal_moments(self) -> &'static [NeedsMoment] {
        use NeedsMoment::{Context, Forked, Init, Spawned, Use};
        match self {
            NeedsProgram::Driver => &[Init, Context, Use, Forked, Spawned],
            NeedsProgram::Runtime
            | NeedsProgram::Torch
            | NeedsProgram::Cupy
            | NeedsProgram::Jax => &[Init],
            NeedsProgram::Nvml => &[Init, Use],
        }
    }

    /// Returns its calls on a machine with this many GPUs, each with a separate label.
    pub(super) fn calls(self, gpus: usize) -> Vec<Step> {
        let ordinals = || (0..gpus.min(MOST_GPUS)).filter_map(|gpu| i64::try_from(gpu).ok());
        let mut calls = Vec::new();
        match self {
            NeedsProgram::Torch | NeedsProgram::Cupy | NeedsProgram::Jax => {
                let lines = self.lines().map(|(_, lines)| lines).unwrap_or_default();
                calls.extend(
                    lines
                        .iter()
                        .map(|line| Step::call(LINE, line).with(LINE_TEXT, *line)),
                );
            }
            NeedsProgram::Driver => {
                calls = driver_calls(gpus, MIB);
                let again = calls
                    .iter()
                    .position(|call| call.label == "cuLaunchKernel again")
                    .unwrap_or(calls.len());
                let more = Step::call("cuMemAlloc_v2", "cuMemAlloc_v2 again")
                    .with("bytes", MIB)
                    .bound_to("more");
                calls.insert(again, more);
                // After `cuInit` and the count.
                calls.splice(
                    2..2,
                    ordinals()
                        .map(|gpu| repeated_call("cuDeviceGetUuid_v2", gpu).with("device", gpu)),
                );
            }
            NeedsProgram::Runtime => {
                calls.push(call("cudaGetDeviceCount"));
                calls
                    .extend(ordinals().map(|gpu| {
                        repeated_call("cudaDeviceGetPCIBusId", gpu).with("device", gpu)
                    }));
                calls.push(call("cudaMalloc").with("bytes", MIB).bound_to("memory"));
            }
            NeedsProgram::Nvml => {
                calls.extend([call("nvmlInit_v2"), call("nvmlDeviceGetCount_v2")]);
                for gpu in ordinals() {
                    let handle = format!("gpu{gpu}");
                    calls.extend([
                        repeated_call("nvmlDeviceGetHandleByIndex_v2", gpu)
                            .with("index", gpu)
                            .bound_to(&handle),
                        repeated_call("nvmlDeviceGetUUID", gpu).with("gpu", handle.as_str()),
                        repeated_call("nvmlDeviceGetMemoryInfo", gpu).with("gpu", handle.as_str()),
                    ]);
                }
            }
        }
        calls
    }

    /// Returns the label of the first call after a denial that is set at this moment.
    fn before(self, moment: NeedsMoment) -> &'static str {
        match (self, moment) {
            (NeedsProgram::Driver, NeedsMoment::Context) => "cuDevicePrimaryCtxRetain",
            (NeedsProgram::Driver, NeedsMoment::Use) => "cuMemAlloc_v2 again",
            (NeedsProgram::Nvml, NeedsMoment::Use) => "nvmlDeviceGetCount_v2",
            (NeedsProgram::Driver, _) => "cuInit",
            (NeedsProgram::Runtime, _) => "cudaGetDeviceCount",
            (NeedsProgram::Nvml, _) => "nvmlInit_v2",
            (NeedsProgram::Torch | NeedsProgram::Cupy | NeedsProgram::Jax, _) => self
                .lines()
                .and_then(|(_, lines)| lines.first().copied())
                .unwrap_or_default(),
        }
    }

    /// Returns every step at a moment: the calls, and the denials. `refuses` are the steps that deny something; empty
    /// for no filter.
    pub(super) fn steps(self, moment: NeedsMoment, gpus: usize, refuses: Vec<Step>) -> Vec<Step> {
        let calls = self.calls(gpus);
        // Before the libraries are loaded, the needs of the loader would be denied too.
        let mut steps = vec![Step::call("mark", MARK)];
        match moment {
            NeedsMoment::Init | NeedsMoment::Context | NeedsMoment::Use => {
                let first = calls
                    .iter()
                    .position(|call| call.label == self.before(moment))
                    .unwrap_or(0);
                let (before, after) = calls.split_at(first);
                steps.extend(
                    before
                        .iter()
                        .cloned()
                        .chain(refuses)
                        .chain(after.iter().cloned()),
                );
            }
            NeedsMoment::Forked | NeedsMoment::Spawned => {
                let start = if moment == NeedsMoment::Forked {
                    "fork"
                } else {
                    "posix_spawn"
                };
                steps.extend(refuses);
                steps.push(Step::call(start, START).bound_to(CHILD));
                steps.extend(calls.into_iter().map(|call| Step {
                    on: Some(CHILD.to_string()),
                    ..call
                }));
                steps.push(Step::call("waitpid", WAIT).with("actor", CHILD));
            }
        }
        steps
    }

    /// Returns `true` if files and system calls that are used during this call may be denied at a moment.
    pub(super) fn is_after(self, moment: NeedsMoment, gpus: usize, during: &str) -> bool {
        let mut from_first = self.calls(gpus);
        if let Some(first) = from_first
            .iter()
            .position(|call| call.label == self.before(moment))
        {
            from_first.drain(..first);
        }
        from_first.iter().any(|call| call.label == during)
    }
}

impl NeedsMoment {
    /// Returns the name in keys and selectors.
    pub fn name(self) -> String {
        word(self)
    }
}

/// Returns the steps that deny these targets, each with its error.
pub(super) fn refusal_steps<'a>(
    all: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
) -> Vec<Step> {
    let steps = all
        .into_iter()
        .enumerate()
        .map(|(index, (refused, error))| {
            let label = if index == 0 {
                REFUSE.to_string()
            } else {
                format!("{REFUSE} {index}")
            };
            Step::call(refusal::STEP, &label)
                .with(refusal::WHAT, refused)
                .with(refusal::ERROR, error.unwrap_or("0"))
        });
    steps.collect()
}

/// Returns `true` if a step with this label is a call of a program, not a step of the harness.
pub(super) fn is_call(label: &str) -> bool {
    !HARNESS.contains(&label) && !label.starts_with(REFUSE)
}

/// Labels of the steps that are not calls of a program.
const HARNESS: [&str; 3] = [MARK, START, WAIT];
const MARK: &str = "begin";
const REFUSE: &str = "refuse";
/// The step that starts a child.
pub(super) const START: &str = "start";
const WAIT: &str = "wait";
const CHILD: &str = "child";

/// Size of every allocation, in bytes.
const MIB: i64 = 1 << 20;

/// Maximum number of GPUs that a program uses.
const MOST_GPUS: usize = 8;
