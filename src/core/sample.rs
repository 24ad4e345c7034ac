//! The readings of the sampler: memory and processes of every physical GPU.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message from the parent to the sampler.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum SamplerCommand {
    /// Read every GPU once.
    Snapshot,
    /// Read memory repeatedly until the next command.
    Polling {
        /// Pause after each reading of all GPUs.
        rest_us: u64,
    },
    /// Stop reading, and send the changes.
    Stop,
}

/// A message from the sampler to the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum SamplerEvent {
    /// NVML is initialized.
    Ready(Box<Inventory>),
    /// NVML cannot be used.
    Unavailable {
        /// The reason, as a closed word: `no_nvml`, `no_driver`, `no_gpu`, `nvml_error`.
        reason: String,
        /// The error message.
        detail: String,
    },
    /// The answer to [`SamplerCommand::Snapshot`].
    Snapshot(Snapshot),
    /// The answer to [`SamplerCommand::Stop`].
    Polling(Polling),
}

/// The machine as NVML knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// The driver's version, such as `580.159.04`.
    pub driver_version: Option<String>,
    /// The CUDA version the driver supports, as `13000` for 13.0.
    pub cuda_driver_version: Option<i32>,
    /// NVML's own version.
    pub nvml_version: Option<String>,
    /// The GPUs in NVML order.
    pub gpus: Vec<Gpu>,
    /// `true` if that library is the simulated machine's.
    pub simulated: bool,
    /// Duration of `nvmlInit`.
    pub init_ns: u64,
}

/// A physical GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// The UUID, which identifies the GPU in reports.
    pub uuid: String,
    /// The product name.
    pub name: Option<String>,
    /// The PCI address.
    pub pci_bus_id: Option<String>,
    /// The compute capability, such as `9.0`.
    pub compute_capability: Option<String>,
    /// Total memory, as NVML v2 counts it.
    pub total_bytes: Option<u64>,
    /// Memory that the driver reserves for itself.
    pub reserved_bytes: Option<u64>,
    /// `Default`, `ExclusiveProcess`, …
    pub compute_mode: Option<String>,
    /// The number of its device file, `/dev/nvidia0` for 0; absent if NVML did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_minor: Option<u32>,
    /// `true` if the driver stays loaded without clients.
    pub persistence: Option<bool>,
    /// `true` if MIG is enabled; null if the GPU does not support MIG.
    pub mig: Option<bool>,
    /// Facts that could not be read, with the names of the errors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
}

/// A reading of every GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Start of the reading.
    pub t_ns: u64,
    /// Duration of the reading.
    pub elapsed_ns: u64,
    /// The GPUs in NVML order.
    pub gpus: Vec<Reading>,
}

/// A reading of one GPU. A value that could not be read is null, and `errors` has the name of the error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// NVML v2 `used`: without the driver's reserve.
    pub used_bytes: Option<u64>,
    /// NVML v2 `reserved`.
    pub reserved_bytes: Option<u64>,
    /// NVML v1 `used`: with the driver's reserve.
    pub v1_used_bytes: Option<u64>,
    /// Compute processes with a context on this GPU; null if the list could not be read.
    pub processes: Option<Vec<Process>>,
    /// Names of the errors of values that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// A process that NVML lists on a GPU.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Process {
    /// The PID as the driver sees it.
    pub pid: u32,
    /// The memory of the process on this GPU; null if NVML does not report it.
    pub used_bytes: Option<u64>,
}

/// The readings of background polling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Polling {
    /// Start of the polling.
    pub t_ns: u64,
    /// Duration of the polling.
    pub elapsed_ns: u64,
    /// Number of times that each GPU was read.
    pub reads: u64,
    /// The longest time between two reads of the same GPU.
    pub longest_gap_ns: u64,
    /// Periods longer than [`STALL_NS`] in which NVML did not answer.
    pub stalls: Vec<Stall>,
    /// Memory of a GPU, stored only if it changed by [`STEP_BYTES`] since the last stored reading. In JSON these are
    /// columns of equal length, which keeps reports small.
    #[serde(with = "columns")]
    #[schemars(with = "columns::Columns")]
    pub changes: Vec<MemoryChange>,
    /// `true` if changes were dropped because there were more than a report may hold.
    pub truncated: bool,
}

/// Pause of the sampler after each reading of all GPUs, in microseconds. Without it, NVML answers tens of thousands of
/// times a second and slows the worker down, because both need the driver's locks (docs/overhead.md has the numbers).
pub const REST_US: u64 = 2_000;

/// Changes smaller than this are not stored: during the creation of a context, NVML shows dozens of steps of 64 KiB.
pub const STEP_BYTES: u64 = 2 << 20;

/// An NVML call that takes longer than this is reported as a stall.
pub const STALL_NS: u64 = 20_000_000;

/// An NVML call that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Time of the call.
    pub t_ns: u64,
    /// Duration of the call.
    pub elapsed_ns: u64,
}

/// Device memory after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryChange {
    /// Time of the reading.
    pub t_ns: u64,
    /// The GPU, as an index in NVML order.
    pub gpu: usize,
    /// NVML v2 `used`.
    pub used_bytes: u64,
}

/// Serialization of changes as columns.
mod columns {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::MemoryChange;

    /// Changes of device memory: the n-th entries of all columns belong together.
    #[derive(Deserialize, JsonSchema, Serialize)]
    #[schemars(rename = "Changes")]
    pub(super) struct Columns {
        /// Times of the readings.
        t_ns: Vec<u64>,
        /// The GPU, as an index in NVML order.
        gpu: Vec<usize>,
        /// NVML v2 `used`.
        used_bytes: Vec<u64>,
    }

    pub(super) fn serialize<S: Serializer>(
        changes: &[MemoryChange],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Columns {
            t_ns: changes.iter().map(|change| change.t_ns).collect(),
            gpu: changes.iter().map(|change| change.gpu).collect(),
            used_bytes: changes.iter().map(|change| change.used_bytes).collect(),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<MemoryChange>, D::Error> {
        let Columns {
            t_ns,
            gpu,
            used_bytes,
        } = Columns::deserialize(deserializer)?;
        if t_ns.len() != gpu.len() || t_ns.len() != used_bytes.len() {
            return Err(de::Error::custom(
                "the columns of `changes` are of different lengths",
            ));
        }
        let rows = t_ns.into_iter().zip(gpu).zip(used_bytes);
        Ok(rows
            .map(|((t_ns, gpu), used_bytes)| MemoryChange {
                t_ns,
                gpu,
                used_bytes,
            })
            .collect())
    }
}
