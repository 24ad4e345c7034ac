//! The observations of one attempt, in the terms of the scenario file: facts, and figures that vary between attempts.
//! [`Observation::outcome`] keeps only the facts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Status, Value};

/// Upper limit of the memory that `cuInit` allocates on any GPU that was measured. On an H200 it is 3.25 MiB. NVML
/// reports it for the first client, and it is freed with the last one.
pub const MOST_INIT_BYTES: u64 = 8 << 20;

/// The observations of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// The steps that the attempt reached, one entry each.
    pub steps: Vec<StepObservation>,
    /// The end of the attempt: `0`, `exit 3`, `SIGSEGV`, `deadline`.
    pub end: String,
}

/// The observations after one step. GPUs have the plan's names (`gpu0`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepObservation {
    /// The step's label.
    pub label: String,
    /// `true` if the call returned.
    pub returned: bool,
    /// The result of the call; null for actions without a result.
    pub status: Option<Status>,
    /// Outputs that are the same in every attempt. UUIDs are replaced by plan names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// Outputs that may differ from attempt to attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub varying: BTreeMap<String, Value>,
    /// Driver calls that the process of a Python line made in the step, by name; absent if they were not counted. The
    /// calls of probes are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<BTreeMap<String, u64>>,
    /// The reason why the values include other processes, if any was on a GPU before the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<Shared>,
    /// Duration of the call.
    pub elapsed_ns: u64,
    /// `true` if the driver was initialized in the process; null if it was not queried.
    pub initialised: Option<bool>,
    /// The GPUs that the process saw, in CUDA order; null if the driver did not report them.
    pub visible: Option<Vec<String>>,
    /// The visible GPUs whose primary context was active.
    pub contexts: Option<Vec<String>>,
    /// The GPU of the thread's current context, or `none`; null if the driver did not report it.
    pub current: Option<String>,
    /// Memory by GPU.
    pub memory: BTreeMap<String, MemoryObservation>,
}

impl StepObservation {
    /// Returns `true` if the driver is not initialized. Such a process has no contexts, although they cannot be
    /// queried.
    pub(crate) fn is_idle(&self) -> bool {
        self.initialised == Some(false)
    }
}

/// The memory of one GPU after a step, compared with the baseline of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryObservation {
    /// The class of `used_bytes`; null if it could not be read.
    pub class: Option<Class>,
    /// The change in NVML v2 `used`.
    pub used_bytes: Option<i64>,
    /// The change in NVML v1 `used`, if it differs from that of v2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1_used_bytes: Option<i64>,
    /// The largest change since the step before, if it was larger than at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<i64>,
    /// Memory that NVML reports for the worker's processes; null if PIDs cannot be matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// The reason why these figures may include other processes; absent if they are the worker's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
}

/// The way in which the values of a call include every process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shared {
    /// The call lists processes, and it is not known which entry belongs to the worker.
    Listed,
    /// The call adds up the memory of all processes. The difference between two sums is still the worker's.
    Summed,
}

/// The reason why a change in memory may differ from the worker's own allocation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Hidden {
    /// The GPU had no sound calibration when the attempt was made, so its memory is not judged.
    Uncalibrated,
    /// A co-tenant already held the driver-initialization footprint, so `cuInit` adds nothing. Up to
    /// [`MOST_INIT_BYTES`] that the worker would allocate on an idle GPU are not visible.
    Prepaid,
    /// Attempts of one case differ by a driver-initialization footprint. A co-tenant that is in no list may have
    /// allocated or freed it: up to [`MOST_INIT_BYTES`] in either direction.
    Wavering,
}

impl MemoryObservation {
    /// Returns `true` if other processes hide the worker's own memory: any amount, or one as small as this.
    pub fn is_hidden(&self) -> bool {
        let is_small = self.class.is_some_and(|class| class <= Class::Init);
        self.hidden
            .is_some_and(|hidden| is_small || hidden == Hidden::Uncalibrated)
    }
}

impl Observation {
    /// Returns the observation without the figures that vary. Two attempts with equal outcomes showed the same.
    pub fn outcome(&self) -> Observation {
        let mut outcome = self.clone();
        for step in &mut outcome.steps {
            step.varying.clear();
            // How often a library makes a call may depend on other processes; the effect of the calls is in the facts.
            step.calls = None;
            step.elapsed_ns = 0;
            for memory in step.memory.values_mut() {
                *memory = MemoryObservation {
                    class: memory.class,
                    ..MemoryObservation::default()
                };
            }
        }
        outcome
    }

    /// Returns the change of the largest absolute size after any step for each calibrated GPU, in bytes; `None` if no
    /// change could be read. The memory of other GPUs, as of those that another run has, may not be the worker's.
    pub fn largest_change(&self) -> Vec<(String, Option<i64>)> {
        let mut largest: Vec<(String, Option<i64>)> = Vec::new();
        for (gpu, memory) in self.steps.iter().flat_map(|step| &step.memory) {
            if memory.hidden == Some(Hidden::Uncalibrated) {
                continue;
            }
            match largest.iter_mut().find(|(known, _)| known == gpu) {
                Some((_, so_far)) => *so_far = larger_change(*so_far, memory.used_bytes),
                None => largest.push((gpu.clone(), memory.used_bytes)),
            }
        }
        largest.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        largest
    }

    /// Returns a step by its label.
    pub fn step(&self, label: &str) -> Option<&StepObservation> {
        self.steps.iter().find(|step| step.label == label)
    }
}

/// Returns the change of the larger absolute size. Prefers a change that was read to one that was not.
fn larger_change(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    if b.map(i64::unsigned_abs) > a.map(i64::unsigned_abs) {
        b
    } else {
        a
    }
}

/// The size of a change in device memory, relative to the cost of one context on the same GPU in the same run.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Within the noise of the null control.
    None,
    /// More than noise, less than half a context.
    Init,
    /// About one context.
    Context,
    /// More than one context can account for.
    Allocation,
}

impl Class {
    /// All classes, from the smallest.
    pub const ALL: [Class; 4] = [Class::None, Class::Init, Class::Context, Class::Allocation];

    /// Returns the word in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::None => "none",
            Class::Init => "init",
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
        assert_eq!(larger_change(Some(-5), Some(3)), Some(-5));
        assert_eq!(larger_change(None, Some(0)), Some(0));
    }
}
