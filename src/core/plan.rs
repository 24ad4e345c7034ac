//! Builds a plan from a scenario and a machine: the exact calls, GPUs and environment.
//!
//! The module is pure: the machine is a value, and a plan can be printed and saved before anything runs.

mod asked;
pub mod estimate;
mod fill;
#[doc(hidden)]
pub mod fixture;
mod needs;
mod options;
mod order;
mod resolve;

pub use options::{Options, Unmet};
pub use order::{FEWEST, order};
pub use resolve::{again, resolve_plan};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Program, Scalar, Step, Timeouts};
use crate::fact::gpu_name;
use crate::scenario::{Check, Expectation, Hazard, Needs, Python};

/// An instance of a scenario, with every choice made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Attempts of each case.
    pub repeat: u32,
    /// Attempts of each case that were planned, if the run ended before all of them were made. `repeat` is then the
    /// number that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u32>,
    /// Maximum duration of one step.
    pub step_timeout_ms: u64,
    /// Maximum duration of one attempt.
    pub timeout_ms: u64,
    /// UUIDs of the GPUs that the file calls `gpu0`, `gpu1`, …: first the GPUs used, then the others in NVML order.
    pub gpus: Vec<String>,
    /// Number of GPUs in `gpus` that the scenario uses; the others are watched too.
    pub used_gpus: usize,
    /// The needs of the scenario. The machine meets them all.
    pub needs: Needs,
    /// The hazards of the scenario for other users of the machine.
    pub hazards: Vec<Hazard>,
    /// Values of the scenario's parameters.
    pub parameters: BTreeMap<String, Scalar>,
    /// `true` if a mixture of outcomes is an answer.
    pub nondeterministic: bool,
    /// The effect, with names filled in.
    pub effect: Vec<Check>,
    /// The expected verdicts, in the order of the file.
    pub expect: Vec<Expectation>,
    /// The cases in the order of the file.
    pub cases: Vec<CasePlan>,
}

/// A case, with every choice made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CasePlan {
    /// `trap`, `control`, …
    pub name: String,
    /// The special feature of this order.
    pub does: String,
    /// `CUDA_VISIBLE_DEVICES` at exec, as UUIDs; null if the worker starts without a mask.
    pub mask: Option<Vec<String>>,
    /// Additional environment variables of the case.
    pub env: BTreeMap<String, String>,
    /// `true` if the worker runs probes after each step.
    pub probes: bool,
    /// Requirements for the interpreter of its Python lines; `None` if the case makes C calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// The steps, with names filled in.
    pub steps: Vec<Step>,
    /// Facts that every attempt must show, with names filled in.
    pub expect: Vec<Check>,
}

impl Plan {
    /// Returns the deadlines of its attempts.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts {
            step_ms: self.step_timeout_ms,
            attempt_ms: self.timeout_ms,
        }
    }

    /// Returns the file's name (`gpu0`, …) of a GPU.
    pub fn gpu_name(&self, uuid: &str) -> Option<String> {
        gpu_name(&self.gpus, uuid)
    }

    /// Returns a case by name.
    pub fn case(&self, name: &str) -> Option<&CasePlan> {
        self.cases.iter().find(|case| case.name == name)
    }
}

impl CasePlan {
    /// Returns the experiment of one attempt of the case.
    pub fn experiment(&self, timeouts: Timeouts) -> Experiment {
        Experiment {
            program: self.python.clone().map_or(Program::Worker, Program::Python),
            environment: self.env.clone(),
            gpus: self.mask.clone(),
            steps: self.steps.clone(),
            probes: self.probes,
            timeouts,
        }
    }
}
