//! What the instrument was found to measure on a GPU: what a context costs there, what `cuInit` alone
//! takes, and how much is noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The instrument measured on one GPU, beside whichever processes were there: a worker that does
/// nothing, one that only calls `cuInit`, and one that makes a context and a known allocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// The GPU.
    pub uuid: String,
    /// When it was taken. It holds for attempts that began later, until the next one of this GPU.
    #[serde(default)]
    pub at_ns: u64,
    /// NVML v2 `used` before its workers: what co-tenants held. Null in reports of version 1.0.
    #[serde(default)]
    pub baseline_bytes: Option<u64>,
    /// The change that `cuInit` alone made: the driver-initialisation footprint, or nothing where a
    /// co-tenant had paid it. Null in reports of version 1.0.
    #[serde(default)]
    pub init_bytes: Option<u64>,
    /// The largest change seen on it while a worker made no CUDA call.
    pub null_bytes: u64,
    /// The change that `cuInit` and one primary context made.
    pub context_bytes: u64,
    /// The further change that the known allocation made.
    pub allocation_bytes: u64,
    /// How much was allocated.
    pub allocated_bytes: u64,
    /// Changes at most this large are noise.
    pub epsilon_bytes: u64,
    /// Whether the worker's PID was in NVML's list for this GPU.
    pub pid_listed: bool,
    /// Whether the controls behaved, twice alike, and no other process was at work meanwhile. Without
    /// this nothing is concluded from the memory of this GPU.
    pub sound: bool,
    /// Why it is not sound, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unsound: Option<String>,
}
