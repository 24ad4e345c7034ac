//! What one attempt showed, in the file's own words: the facts that make up its outcome, and the
//! figures beside them. [`Observation::outcome`] keeps the facts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Status, Value};

/// More than `cuInit` takes on any GPU that was measured (3.25 MiB on an H200, charged to the first
/// client and given back with the last).
pub const MOST_INIT_BYTES: u64 = 8 << 20;

/// What one attempt showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// Step by step, as far as the attempt came.
    pub steps: Vec<StepObservation>,
    /// How it ended: `0`, `exit 3`, `SIGSEGV`, `deadline`.
    pub end: String,
}

/// What was seen after one step. GPUs bear the plan's names (`gpu0`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepObservation {
    /// The step's label.
    pub label: String,
    /// Whether the call returned.
    pub returned: bool,
    /// What it returned; null for actions without a result.
    pub status: Option<Status>,
    /// Outputs that are the same in every attempt; UUIDs as plan names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// Outputs that may differ from attempt to attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub varying: BTreeMap<String, Value>,
    /// Driver calls that the process of a Python line made in the step, by name; absent where they were
    /// not counted. The probes' own are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<BTreeMap<String, u64>>,
    /// How the values are about every process on a GPU, if others were on one before the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// How long the call took.
    pub elapsed_ns: u64,
    /// Whether the driver was initialised in the process; null if it was not asked.
    pub initialised: Option<bool>,
    /// The GPUs the process saw, in CUDA order; null where the driver would not say.
    pub visible: Option<Vec<String>>,
    /// The visible GPUs whose primary context was active.
    pub contexts: Option<Vec<String>>,
    /// The GPU of the thread's current context, or `none`; null where the driver would not say.
    pub current: Option<String>,
    /// Memory by GPU.
    pub memory: BTreeMap<String, MemoryObservation>,
}

impl StepObservation {
    /// Whether the driver is not initialised: such a process has no contexts, although they cannot be queried.
    pub(crate) fn is_idle(&self) -> bool {
        self.initialised == Some(false)
    }
}

/// One GPU's memory after a step, against the baseline of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryObservation {
    /// The class of `used_bytes`; null if it could not be read.
    pub class: Option<Class>,
    /// Change of NVML v2 `used`.
    pub used_bytes: Option<i64>,
    /// Change of NVML v1 `used`, only where it differs from v2's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1_used_bytes: Option<i64>,
    /// The largest change seen since the step before, where it was larger than at either end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<i64>,
    /// What NVML reports as used by the worker's processes; null where PIDs cannot be matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// What keeps these figures from being the worker's alone; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
}

/// How the values of a call are about every process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shared {
    /// Processes are listed: which entry is whose is not known.
    Listed,
    /// Memory of all is summed up: how two sums differ is the worker's doing all the same.
    Summed,
}

/// Why a change in memory is not, or not exactly, what the worker took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// No sound calibration of this GPU was there when the attempt was made: its memory is not judged.
    Uncalibrated,
    /// A co-tenant had paid the driver-initialisation footprint: `cuInit` adds nothing, so up to
    /// [`MOST_INIT_BYTES`] of what the worker would take on an idle GPU do not show.
    Prepaid,
    /// Attempts of one case differ by a driver-initialisation footprint, which a co-tenant that no
    /// list shows may have taken or given back: up to [`MOST_INIT_BYTES`] either way.
    Wavering,
}

impl Observation {
    /// The observation with everything that varies taken out: two attempts with equal outcomes
    /// showed the same thing.
    pub fn outcome(&self) -> Observation {
        let mut outcome = self.clone();
        for step in &mut outcome.steps {
            step.varying.clear();
            // How often a library asks may depend on what else runs; what came of it is in the facts.
            step.calls = None;
            step.elapsed_ns = 0;
            for memory in step.memory.values_mut() {
                *memory = MemoryObservation { class: memory.class, ..MemoryObservation::default() };
            }
        }
        outcome
    }

    /// For each GPU, the change of largest size seen after any step; null where none could be read.
    pub fn largest_change(&self) -> Vec<(String, Option<i64>)> {
        let mut largest: Vec<(String, Option<i64>)> = Vec::new();
        for (gpu, memory) in self.steps.iter().flat_map(|step| &step.memory) {
            match largest.iter_mut().find(|(known, _)| known == gpu) {
                Some((_, so_far)) => *so_far = larger(*so_far, memory.used_bytes),
                None => largest.push((gpu.clone(), memory.used_bytes)),
            }
        }
        largest.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        largest
    }

    /// A step by its label.
    pub fn step(&self, label: &str) -> Option<&StepObservation> {
        self.steps.iter().find(|step| step.label == label)
    }
}

/// The change of larger size, whatever its sign; one that was read before one that was not.
fn larger(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    if b.map(i64::unsigned_abs) > a.map(i64::unsigned_abs) { b } else { a }
}

/// A change in device memory, in classes relative to what one context was measured to cost on the
/// same GPU in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Within the noise of the null control.
    None,
    /// More than noise, less than half a context.
    Touch,
    /// About one context.
    Context,
    /// More than one context explains.
    Allocation,
}

impl Class {
    /// All of them, from the smallest.
    pub const ALL: [Class; 4] = [Class::None, Class::Touch, Class::Context, Class::Allocation];

    /// The word in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::None => "none",
            Class::Touch => "touch",
            Class::Context => "context",
            Class::Allocation => "allocation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_not_read_is_not_zero() {
        assert_eq!(larger(Some(-5), Some(3)), Some(-5));
        assert_eq!(larger(None, Some(0)), Some(0));
    }
}
