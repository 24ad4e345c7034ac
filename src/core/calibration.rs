//! Measurements of the instrument on a GPU before the first attempt: the cost of a context, the cost of `cuInit` alone,
//! and the noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of one GPU, measured with three workers while its co-tenants kept running. One worker makes no CUDA
/// call, one calls only `cuInit`, and one creates a context and an allocation of known size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The GPU.
    pub uuid: String,
    /// Time of the measurement, in nanoseconds. The figures hold for later attempts, until this GPU is calibrated
    /// again.
    #[serde(default)]
    pub at_ns: u64,
    /// NVML v2 `used` before these workers: the memory of co-tenants. Null in reports of version 1.0.
    #[serde(default)]
    pub baseline_bytes: Option<u64>,
    /// Memory change caused by `cuInit` alone, in bytes: the driver-initialization footprint, or 0 if a co-tenant
    /// already held it. Null in reports of version 1.0.
    #[serde(default)]
    pub init_bytes: Option<u64>,
    /// The largest change on this GPU while a worker made no CUDA call.
    pub null_bytes: u64,
    /// The change caused by `cuInit` and one primary context together. Also 0 if memory could not be read; then the
    /// calibration is not sound.
    pub context_bytes: u64,
    /// The additional change caused by the allocation.
    pub allocation_bytes: u64,
    /// The size of the allocation.
    pub allocated_bytes: u64,
    /// Changes of at most this size are noise.
    pub epsilon_bytes: u64,
    /// `true` if the worker's PID was in NVML's list for this GPU.
    pub pid_listed: bool,
    /// `true` if the three workers gave the expected figures, twice alike, while no other process was active. Otherwise
    /// nothing is concluded from the memory of this GPU.
    pub sound: bool,
    /// The reason why the calibration is not sound, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unsound: Option<String>,
}

impl Calibration {
    /// Returns `true` if NVML lists the worker by its PID. `None` if no worker created a context, because the GPU was
    /// disturbed before.
    pub fn lists_pids(&self) -> Option<bool> {
        (self.pid_listed || self.context_bytes > 0).then_some(self.pid_listed)
    }
}
