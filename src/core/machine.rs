//! What this host is: facts read once per run, by processes other than the parent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::MappedLibrary;
use crate::sample::Gpu;
use crate::text::counts::tally;

/// The host as this run found it. No host name, user, address or serial number is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The driver's version, such as `580.159.04`.
    pub driver_version: Option<String>,
    /// The CUDA version the driver supports, as `13000` for 13.0.
    pub cuda_driver_version: Option<i32>,
    /// NVML's own version.
    pub nvml_version: Option<String>,
    /// The GPUs in NVML order.
    pub gpus: Vec<Gpu>,
    /// The libraries that workers are pointed at, as a process that loaded them saw them.
    pub libraries: Vec<MappedLibrary>,
    /// The libcudarts that scenarios ran on.
    pub libcudart: Vec<Runtime>,
    /// The kernel, such as `6.18.44`.
    pub kernel: Option<String>,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// What is known about containers and namespaces.
    pub isolation: Isolation,
    /// Environment variables about CUDA that were set where the run was started, by allow-list.
    pub environment: BTreeMap<String, String>,
    /// Whether an MPS control pipe is where clients look for one.
    pub mps: bool,
    /// How many GPUs of NVIDIA the PCI bus lists for the driver, whether or not it answers; absent where that cannot be
    /// said, as in a container (since 1.6 of reports).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_gpus: Option<u64>,
    /// The interpreter that runs Python lines; absent where none was needed or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Interpreter>,
    /// Why libraries, NVML or an interpreter could not be asked, by closed word; empty on a working machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
}

impl Machine {
    /// The GPUs and the driver in a few words: `2× NVIDIA H200, driver 580.159.04`.
    pub fn summary(&self) -> String {
        let models = tally(self.gpus.iter().map(|gpu| gpu.name.as_deref().unwrap_or("GPU of unknown name")));
        let mut words: Vec<String> = models.into_iter().map(|(name, count)| format!("{count}× {name}")).collect();
        if words.is_empty() {
            words.push("no GPU".to_owned());
        }
        words.extend(self.driver_version.as_ref().map(|version| format!("driver {version}")));
        words.join(", ")
    }
}

/// Something the machine does not have, found before any step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// A closed word: `no_nvml`, `no_driver`, `no_gpu`, `no_libcuda`, `no_libcudart`, `nvml_error`,
    /// `no_python`.
    pub reason: String,
    /// The loader's or the library's own words.
    pub detail: String,
}

/// A Python interpreter, and what it has of the packages that scenarios need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreter {
    /// Its file, as it was called.
    pub executable: String,
    /// Such as `cpython`.
    pub implementation: String,
    /// Such as `3.12.3`.
    pub version: String,
    /// Versions of packages by name; empty for a module that no distribution lists, null for what is not
    /// there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, Option<String>>,
}

/// One libcudart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Runtime {
    /// The file, with links resolved. Left out of a scenario of a compact report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its version, such as `13.0`; null if it would not say.
    pub version: Option<String>,
    /// The number `cudaRuntimeGetVersion` gave, such as 13000.
    pub number: Option<i32>,
}

/// What stands between the harness and the GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// Whether this process runs in a PID namespace of its own (its PID differs further out).
    pub pid_namespace: Option<bool>,
    /// What a marker file or the first process's cgroup says: `docker`, `podman`, `kubernetes`, …
    pub container: Option<String>,
    /// Whether the worker's own PID was found in NVML's process list during calibration.
    pub own_pid_listed: Option<bool>,
}
