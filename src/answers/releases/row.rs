//! One line in one environment: what each witness showed, and what follows.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::survey::Unmeasured;
use crate::survey::python::{PythonAttempt, PythonLine, Raised};

const INIT: &str = "cuInit";

/// Who answers: which driver the line finds, and whether it finds an NVML.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "Witness")]
#[serde(rename_all = "snake_case")]
pub enum DriverWitness {
    /// The libcuda of this machine, with its NVML or without one, as it is.
    Libcuda,
    /// The fake driver, whose `cuInit` returns `CUDA_ERROR_NO_DEVICE`, beside an NVML that has GPUs.
    FakeWithNvml,
    /// The fake driver without an NVML.
    Fake,
    /// The libcuda of this machine, beside an NVML that has GPUs.
    LibcudaWithNvml,
}

/// What became of `cuInit` in one line of one environment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    /// It calls `cuInit`.
    Yes,
    /// It does not.
    No,
    /// The lines before it had called `cuInit`, so it cannot be the first to do so.
    Initialised,
    /// It chose the CPU, because there is no GPU.
    Undecided,
    /// It does where there is no NVML, and not where there is one.
    WithoutNvml,
    /// It does where there is an NVML, and not where there is none.
    WithNvml,
    /// It does not where there is an NVML. Where there is none, the lines before it had called `cuInit`, so nothing is known.
    NoWithNvml,
    /// This version does not have what the line names.
    Absent,
    /// It, or a line before it, raised an exception or failed, and did not come to `cuInit`: what it would do otherwise
    /// is not known.
    Stopped,
    /// The lines before it need a GPU.
    NeedsGpu,
    /// Two drivers gave two answers.
    Disagree,
    /// It hung, crashed or could not be asked, or the document does not tell whether the lines before it had called
    /// `cuInit`.
    Unknown,
}

impl LineState {
    /// Whether it is known if the line calls `cuInit`.
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

    /// Whether nothing says that the line does something else in one of the two states.
    pub fn agrees_with(self, other: LineState) -> bool {
        match (self, other) {
            (LineState::NoWithNvml, LineState::No | LineState::WithoutNvml)
            | (LineState::No | LineState::WithoutNvml, LineState::NoWithNvml) => true,
            _ => self == other,
        }
    }

    /// Whether the line calls `cuInit` somewhere.
    pub fn calls(self) -> bool {
        matches!(
            self,
            LineState::Yes | LineState::WithoutNvml | LineState::WithNvml
        )
    }
}

/// One line in one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseRow {
    /// The name of the line.
    pub id: String,
    /// Its group, such as `torch`.
    pub framework: String,
    /// The code that ran before it in the same process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The code that was asked about.
    pub ask: String,
    /// Variables that were set before the interpreter started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What each witness showed.
    pub seen: Vec<WitnessSeen>,
}

/// What one witness showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessSeen {
    /// Who.
    pub witness: DriverWitness,
    /// Whether the line calls `cuInit`; null if the code before it had done so with success, or if that is not known.
    pub calls_cuinit: Option<bool>,
    /// What `cuInit` returned, by its C name; null if it was not called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_status: Option<String>,
    /// The command of the child process that called it; absent if the line's own process did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The innermost public function of a package in the stack of `cuInit`, and where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The call of libcudart or of another CUDA library that called `cuInit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// The packages' functions in that stack, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub way: Vec<String>,
    /// Whether its process asked for the driver's version, which a runtime does right before `cuInit`, and the line did
    /// not call `cuInit`: the code before the line may have. Only in documents without `called_before`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_version: bool,
    /// Whether the code before it called `cuInit`, with or without success; absent in documents that do not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_before: Option<bool>,
    /// Whether the code before it called `cuInit` and then raised an exception: it needs a GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_gpu: bool,
    /// NVML indices of the GPUs on which it makes a context; null where `cuInit` cannot succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_on: Option<Vec<u32>>,
    /// The exception that it raised, or that the code before it raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Raised>,
    /// Its value, as in `survey python`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// How its process ended, unless with exit code 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// How long it took.
    pub elapsed_ns: Option<u64>,
    /// Why nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmeasured: Option<Unmeasured>,
}

impl WitnessSeen {
    /// The same with paths as they are below the folder of the environment, which is gone afterwards.
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

    /// What an attempt showed. `can_succeed` is whether this driver's `cuInit` can.
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
            calls_cuinit: match invalid {
                None => seen.calls_cuinit,
                Some(_) => None,
            },
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

    /// Whether this version does not have what the code names.
    pub fn is_absent(&self) -> bool {
        self.raised.as_ref().is_some_and(|raised| raised.absent)
    }
}

impl ReleaseRow {
    /// A line, and what witnesses showed of it.
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

    /// Whether another witness has to settle what differs between those that were asked.
    pub fn is_open(&self) -> bool {
        let mut all = self.seen.iter().map(|seen| seen.calls_cuinit);
        let first = all.next().flatten();
        !self.seen.iter().any(WitnessSeen::is_absent) && all.any(|other| other != first)
    }

    pub(super) fn by(&self, witness: DriverWitness) -> Option<&WitnessSeen> {
        self.seen.iter().find(|seen| seen.witness == witness)
    }

    /// The attempt that shows how `cuInit` was called: the first in which it was.
    pub fn call(&self) -> Option<&WitnessSeen> {
        self.seen
            .iter()
            .find(|seen| seen.calls_cuinit == Some(true))
    }
}
