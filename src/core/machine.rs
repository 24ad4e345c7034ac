//! Facts about this host, read once per run by processes other than the parent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::MappedLibrary;
use crate::sample::Gpu;
use crate::text::counts::tally_items;
use cuda_pitfalls_calls::CallLibrary;

/// The host as this run found it. No host name, user, address or serial number is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The driver's version, such as `580.159.04`; null if NVML did not report it.
    pub driver_version: Option<String>,
    /// The CUDA version the driver supports, as `13000` for 13.0.
    pub cuda_driver_version: Option<i32>,
    /// NVML's own version.
    pub nvml_version: Option<String>,
    /// The GPUs in NVML order.
    pub gpus: Vec<Gpu>,
    /// The libraries that workers use, as a process that loaded them saw them.
    pub libraries: Vec<MappedLibrary>,
    /// SHA-256 of the libcuda that the command line gives; absent if the loader chose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libcuda_sha256: Option<String>,
    /// The libcudarts that scenarios ran on.
    pub libcudart: Vec<Runtime>,
    /// The kernel, such as `6.18.44`.
    pub kernel: Option<String>,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// Containers and namespaces, as far as known.
    pub isolation: Isolation,
    /// Environment variables about CUDA that were set when the run was started, by allow-list.
    pub environment: BTreeMap<String, String>,
    /// `true` if an MPS control pipe is at the path where clients look for it.
    pub mps: bool,
    /// Number of NVIDIA GPUs on the PCI bus, whether or not the driver answers; absent if the bus cannot be read, as in
    /// a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_gpus: Option<u64>,
    /// The interpreter that runs Python lines; absent if none was needed or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Interpreter>,
    /// The reasons why libraries, NVML or an interpreter could not be queried, as fixed words; empty on a working
    /// machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
}

impl Machine {
    /// Returns `true` if a library or a GPU belongs to the simulated machine.
    pub fn is_simulated(&self) -> bool {
        let mut libraries = self.libraries.iter();
        libraries.any(|library| library.simulated || is_simulated_library(&library.path))
            || self
                .libcudart
                .iter()
                .any(|runtime| is_simulated_library(&runtime.path))
            || self.gpus.iter().any(|gpu| is_simulated_gpu(&gpu.uuid))
    }

    /// Returns the GPUs and the driver in a few words, in the format of [`summary`], and the libcuda if it belongs to
    /// another driver.
    pub fn summary(&self) -> String {
        let words = summarize_gpus(&self.gpus, self.driver_version.as_deref());
        match self.other_libcuda() {
            Some(version) => format!("{words}, libcuda {version}"),
            None => words,
        }
    }

    /// Returns the version in the file name of libcuda, if it differs from the driver's version, as with a
    /// compatibility package. Returns `None` if the versions agree or the name has no version: on WSL and Jetson the
    /// file is libcuda.so.1.1.
    pub fn other_libcuda(&self) -> Option<&str> {
        let driver = self.driver_version.as_deref()?;
        let path = self
            .libraries
            .iter()
            .find(|library| library.name == CallLibrary::Driver.name())?;
        let (_, version) = path.path.rsplit('/').next()?.split_once(".so.")?;
        let (release, _) = version.split_once('.')?;
        let is_release = release.len() >= 3 && release.bytes().all(|byte| byte.is_ascii_digit());
        (version != driver && is_release).then_some(version)
    }
}

/// Returns `true` if a UUID belongs to a GPU of a simulated machine: `GPU-000000c1-0000-4000-8000-0000000000c1`.
pub fn is_simulated_gpu(uuid: &str) -> bool {
    let parts = uuid
        .strip_prefix("GPU-000000")
        .and_then(|rest| rest.split_once("-0000-4000-8000-0000000000"));
    parts.is_some_and(|(first, last)| first == last && first.len() == 2 && first != "00")
}

/// Returns `true` if a file has the name of the simulated machine's library.
pub fn is_simulated_library(path: &str) -> bool {
    path.contains("libcuda_pitfalls_sim")
}

/// Describes GPUs and a driver in a few words: `2× NVIDIA H200, driver 580.159.04`.
pub fn summarize_gpus(gpus: &[Gpu], driver_version: Option<&str>) -> String {
    let models = tally_items(
        gpus.iter()
            .map(|gpu| gpu.name.as_deref().unwrap_or("GPU of unknown name")),
    );
    let mut words: Vec<String> = models
        .into_iter()
        .map(|(name, count)| format!("{count}× {name}"))
        .collect();
    if words.is_empty() {
        words.push("no GPU".to_owned());
    }
    words.extend(driver_version.map(|version| format!("driver {version}")));
    words.join(", ")
}

/// Something that the machine lacks, found before the first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// A closed word: `no_nvml`, `no_driver`, `no_gpu`, `no_libcuda`, `no_libcudart`, `nvml_error`,
    /// `no_python`.
    pub reason: String,
    /// The message of the loader or the library.
    pub detail: String,
}

/// A Python interpreter, and its versions of the packages that scenarios need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreter {
    /// The path that was used to start it.
    pub executable: String,
    /// The implementation, such as `cpython`.
    pub implementation: String,
    /// The version, such as `3.12.3`.
    pub version: String,
    /// Versions of packages by name: empty for a module that belongs to no distribution, null for a missing package.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, Option<String>>,
}

/// One libcudart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Runtime {
    /// The file, with links resolved. Left out of a scenario of a compact report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The version, such as `13.0`; null if the library did not report it.
    pub version: Option<String>,
    /// The number that `cudaRuntimeGetVersion` returned, such as 13000.
    pub number: Option<i32>,
}

/// Containers and namespaces between the harness and the GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    /// `true` if this process runs in its own PID namespace, so that its PID differs outside.
    pub pid_namespace: Option<bool>,
    /// The kind of container according to a marker file or the first process's cgroup: `docker`, `podman`,
    /// `kubernetes`, …
    pub container: Option<String>,
    /// `true` if the worker's own PID was found in NVML's process list during calibration.
    pub own_pid_listed: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_libcuda(path: &str) -> Machine {
        let library = MappedLibrary {
            name: "libcuda".to_string(),
            path: path.to_string(),
            simulated: false,
        };
        let machine = serde_json::json!({
            "driver_version": "580.159.04", "cuda_driver_version": 13000, "nvml_version": null, "gpus": [],
            "libraries": [library], "libcudart": [], "kernel": null, "architecture": "x86_64",
            "isolation": {"pid_namespace": null, "container": null, "own_pid_listed": null}, "environment": {},
            "mps": false});
        serde_json::from_value(machine).expect("a machine")
    }

    #[test]
    fn only_a_libcuda_of_another_release_is_named() {
        assert_eq!(
            with_libcuda("/opt/compat/libcuda.so.595.99.02").other_libcuda(),
            Some("595.99.02")
        );
        for own in [
            "/usr/lib/libcuda.so.580.159.04",
            "/usr/lib/wsl/lib/libcuda.so.1.1",
            "/x/libcuda.so.1",
            "/x/y",
        ] {
            assert_eq!(with_libcuda(own).other_libcuda(), None, "{own}");
        }
        assert!(
            with_libcuda("/tmp/libcuda_pitfalls_sim.so").is_simulated()
                && !with_libcuda("/x/y").is_simulated()
        );
        assert!(is_simulated_gpu("GPU-000000c1-0000-4000-8000-0000000000c1"));
        for real in [
            "GPU-000000c1-0000-4000-8000-0000000000c2",
            "GPU-00000000-0000-4000-8000-000000000000",
            "GPU-0",
        ] {
            assert!(!is_simulated_gpu(real), "{real}");
        }
        assert_eq!(
            with_libcuda("/x/libcuda.so.595.99.02").summary(),
            "no GPU, driver 580.159.04, libcuda 595.99.02"
        );
    }
}
