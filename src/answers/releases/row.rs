//! Results of a line in an environment: the observations with each witness, and the conclusion.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::Unmeasured;
use crate::survey::python::{PythonAttempt, PythonLine, Raised};

const INIT: &str = "cuInit";

/// Witness: the driver that the line finds, and whether it finds an NVML.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "Witness")]
#[serde(rename_all = "snake_case")]
pub enum DriverWitness {
    /// The libcuda of this machine, and its NVML if it has one.
    Libcuda,
    /// The fake driver, whose `cuInit` returns `CUDA_ERROR_NO_DEVICE`, with an NVML that has GPUs.
    FakeWithNvml,
    /// The fake driver without an NVML.
    Fake,
    /// The libcuda of this machine, with an NVML that has GPUs.
    LibcudaWithNvml,
}

/// A line's use of `cuInit` in an environment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// Calls `cuInit`.
    Yes,
    /// Does not call `cuInit`.
    No,
    /// The lines before it had called `cuInit`, so it cannot be the first to do so.
    Initialised,
    /// The line chose the CPU, because no GPU exists.
    Undecided,
    /// Calls `cuInit` without an NVML, but not with one.
    WithoutNvml,
    /// Calls `cuInit` with an NVML, but not without one.
    WithNvml,
    /// Does not call `cuInit` with an NVML. Without an NVML, the lines before it had called `cuInit`, so the answer is
    /// unknown.
    NoWithNvml,
    /// Something that the line names does not exist in this version.
    Absent,
    /// The line, or a line before it, raised an exception or failed, and did not reach `cuInit`: its behavior otherwise
    /// is unknown.
    Stopped,
    /// The lines before it need a GPU.
    NeedsGpu,
    /// The two drivers gave different answers.
    Disagree,
    /// Unknown: the line hung, crashed or could not be run, or the document does not record whether the lines before it
    /// had called `cuInit`.
    Unknown,
}

impl LineState {
    /// Returns `true` if it is known whether the line calls `cuInit`.
    pub fn is_known(self) -> bool {
        matches!(
            self,
            LineState::Yes
                | LineState::No
                | LineState::WithoutNvml
                | LineState::WithNvml
                | LineState::NoWithNvml
        )
    }

    /// Returns `true` if the two states do not contradict each other.
    pub fn agrees_with(self, other: LineState) -> bool {
        match (self, other) {
            (LineState::NoWithNvml, LineState::No | LineState::WithoutNvml)
            | (LineState::No | LineState::WithoutNvml, LineState::NoWithNvml) => true,
            _ => self == other,
        }
    }

    /// Returns `true` if the line calls `cuInit` in at least one case.
    pub fn calls(self) -> bool {
        matches!(
            self,
            LineState::Yes | LineState::WithoutNvml | LineState::WithNvml
        )
    }
}

/// Results of a line in an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseRow {
    /// The name of the line.
    pub id: String,
    /// The group of the line, such as `torch`.
    pub framework: String,
    /// The code that ran before the line in the same process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The tested code.
    pub ask: String,
    /// Variables that were set before the interpreter started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Observations with each witness.
    pub seen: Vec<WitnessSeen>,
}

/// Observations with a witness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessSeen {
    /// The witness.
    pub witness: DriverWitness,
    /// `true` if the line calls `cuInit`; null if the code before it had called it successfully, or if that is unknown.
    pub calls_cuinit: Option<bool>,
    /// Status that `cuInit` returned, by its C name; null if `cuInit` was not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_status: Option<String>,
    /// The command of the child process that called it; absent if the line's own process did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The innermost public function of a package in the stack of `cuInit`, and where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The libcudart call, or call of another CUDA library, that called `cuInit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The packages' functions in that stack, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub way: Vec<String>,
    /// `true` if its process called `cuDriverGetVersion`, which a runtime does right before `cuInit`, and the line did
    /// not call `cuInit`: the code before the line may have called it. Only in documents without `called_before`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_version: bool,
    /// `true` if the code before it called `cuInit`, with or without success; absent in documents that do not record
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_before: Option<bool>,
    /// `true` if the code before it called `cuInit` and then raised an exception: it needs a GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_gpu: bool,
    /// NVML indices of the GPUs where it creates a context; null if `cuInit` cannot succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_on: Option<Vec<u32>>,
    /// The exception that the line raised, or that the code before it raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Raised>,
    /// The value of the line, as in `survey python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// End of the process, unless it exited with code 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// Duration, in nanoseconds.
    pub elapsed_ns: Option<u64>,
    /// Reason why there are no observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<Unmeasured>,
}

impl WitnessSeen {
    /// Returns the observations with paths relative to the directory of the environment, which is deleted afterwards.
    pub fn below(mut self, folder: &Path) -> WitnessSeen {
        let prefix = format!("{}/", folder.display());
        let shorten = |text: &mut String| *text = text.replace(&prefix, "");
        if let Some(raised) = &mut self.raised {
            raised.more.iter_mut().for_each(shorten);
            shorten(&mut raised.message);
        }
        if let Some(unmeasured) = &mut self.unmeasured {
            shorten(&mut unmeasured.detail);
        }
        self
    }

    /// Returns the observations of an attempt. `can_succeed` is `true` if this driver's `cuInit` can succeed.
    pub fn new(witness: DriverWitness, attempt: PythonAttempt, can_succeed: bool) -> WitnessSeen {
        let PythonAttempt {
            seen,
            child,
            setup,
            invalid,
            called,
            called_before,
            ..
        } = attempt;
        let needs_gpu = !can_succeed && setup.is_some() && called.contains(INIT);
        let raised = setup.or(seen.raised).map(|raised| Raised {
            more: None,
            ..raised
        });
        WitnessSeen {
            witness,
            only_version: false,
            called_before,
            needs_gpu,
            // A line that crashed or hung after the call has called it.
            calls_cuinit: seen
                .calls_cuinit
                .filter(|calls| *calls || invalid.is_none()),
            init_status: seen.init_status,
            child,
            at: seen.at,
            through: seen.through,
            way: seen.way,
            context_on: if can_succeed { seen.context_on } else { None },
            raised,
            value: seen.value,
            left: seen.left,
            elapsed_ns: seen.elapsed_ns,
            unmeasured: invalid.map(|invalid| Unmeasured {
                reason: invalid.reason,
                detail: invalid.detail,
            }),
        }
    }

    /// Returns `true` if something that the code names does not exist in this version.
    pub fn is_absent(&self) -> bool {
        self.raised.as_ref().is_some_and(|raised| raised.absent)
    }
}

impl ReleaseRow {
    /// Returns the row of a line, with the observations of the witnesses.
    pub fn new(line: &PythonLine, seen: Vec<WitnessSeen>) -> ReleaseRow {
        let PythonLine {
            id,
            framework,
            before,
            ask,
            env,
            ..
        } = line.clone();
        ReleaseRow {
            id,
            framework,
            before,
            ask,
            env,
            seen,
        }
    }

    /// Returns `true` if the witnesses so far disagree, so that another one must decide.
    pub fn is_open(&self) -> bool {
        let mut all = self.seen.iter().map(|seen| seen.calls_cuinit);
        let first = all.next().flatten();
        !self.seen.iter().any(WitnessSeen::is_absent) && all.any(|other| other != first)
    }

    pub(super) fn by(&self, witness: DriverWitness) -> Option<&WitnessSeen> {
        self.seen.iter().find(|seen| seen.witness == witness)
    }

    /// Returns the first attempt where the line called `cuInit`.
    pub fn call(&self) -> Option<&WitnessSeen> {
        self.seen
            .iter()
            .find(|seen| seen.calls_cuinit == Some(true))
    }
}
