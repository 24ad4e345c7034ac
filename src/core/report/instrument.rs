//! Calibrations of the GPUs, and other processes on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CaseReport;
use crate::calibration::Calibration;
use crate::sample::Process;

/// A calibration, and the attempts that it was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// The figures.
    #[serde(flatten)]
    pub figures: Calibration,
    /// The attempts it was computed from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<CaseReport>,
}

/// Other processes on a GPU before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoTenancy {
    /// The GPU.
    pub uuid: String,
    /// NVML v2 `used` before the first worker: the memory of all co-tenants together.
    pub used_bytes: Option<u64>,
    /// The processes that NVML lists. A process that has only called `cuInit` is not listed.
    pub processes: Option<Vec<Process>>,
}
