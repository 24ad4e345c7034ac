//! What the instrument was found to measure on each GPU, and which other processes were there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CaseReport;
use crate::calibration::Calibration;
use crate::sample::Process;

/// A calibration and the attempts it was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// What was found.
    #[serde(flatten)]
    pub figures: Calibration,
    /// The attempts it was computed from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<CaseReport>,
}

/// Who was on a GPU before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoTenancy {
    /// The GPU.
    pub uuid: String,
    /// NVML v2 `used` before the first worker: what all co-tenants held together.
    pub used_bytes: Option<u64>,
    /// The processes that NVML lists. One that has only called `cuInit` is in no list.
    pub processes: Option<Vec<Process>>,
}
