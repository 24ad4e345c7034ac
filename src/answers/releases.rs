//! `survey python --with`: the behavior of Python lines in a series of releases.
//!
//! Each environment (packages of certain versions) has its own document. Together they are a [`Matrix`] of lines and
//! environments. Even without a GPU it can be observed whether a line calls `cuInit`, the call that reads the mask and
//! breaks forked children: `cuInit` fails there, but it is called. Each line runs twice: with a distribution's libcuda
//! and no NVML, and with the fake driver and an NVML that has two GPUs. If the two differ, a third attempt decides.

mod imports;
mod list;
mod matrix;
mod reading;
mod row;
#[cfg(test)]
mod tests;
mod versions;

pub use imports::{
    IMPORTS_FILE, ImportFacts, ImportList, ImportRow, ImportedPackage, built_in_imports,
    inputs_hash, keep_newest, minor_version, read_imports, read_rows,
};
pub use list::{EnvironmentRequest, RequestError, bare_name, built_in, normalize_name, read};
pub use matrix::{Column, Matrix, MatrixCell, MatrixChange, MatrixLine};
pub use row::{DriverWitness, LineState, ReleaseRow, WitnessSeen};
pub use versions::{LineReleases, ReleaseSpan, line_releases};

use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_core::report::SchemaId;

/// The name of the schema of an environment's document.
pub const SCHEMA: &str = "cuda-pitfalls-environment";

/// Prefix and suffix of the file name of an environment.
const FILE: (&str, &str) = ("environment-", ".json");

/// Behavior of Python lines in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentDocument {
    /// Schema of this document.
    pub schema: SchemaId,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that cuda-pitfalls was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The environment.
    pub environment: ReleaseEnvironment,
    /// The drivers that the lines ran with, in the order of the attempts.
    pub witnesses: Vec<WitnessAsked>,
    /// The lines, in the order of the list.
    pub rows: Vec<ReleaseRow>,
    /// `true` if every line has its row. Otherwise the survey can be resumed.
    pub complete: bool,
}

/// Packages of certain versions, installed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Environment")]
pub struct ReleaseEnvironment {
    /// The name of the environment, such as `torch 2.9.1`.
    pub name: String,
    /// Package that the environment is about.
    pub package: String,
    /// The version of that package.
    pub version: String,
    /// Requirements passed to the installer.
    pub requirements: Vec<String>,
    /// `true` if the package's version was forced, whatever other packages require.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Latest publication date of packages; null for no limit.
    pub newest: Option<String>,
    /// Python version; null if the environment could not be created.
    pub python: Option<String>,
    /// Every installed package. Even an installed package that is not imported can change the effect of importing
    /// another one.
    pub packages: BTreeMap<String, String>,
    /// Time of the measurement: RFC 3339, UTC.
    pub asked_at: String,
    /// Duration of the installation, in nanoseconds.
    pub install_ns: Option<u64>,
    /// Disk usage of the environment, in bytes.
    pub disk_bytes: Option<u64>,
    /// Total duration of the lines, in nanoseconds.
    pub lines_ns: Option<u64>,
    /// Reason why no line was run: the environment cannot be installed, or a control failed.
    pub failed: Option<String>,
}

/// The driver and NVML of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessAsked {
    /// The driver and NVML that the lines ran with.
    pub witness: DriverWitness,
    /// Version in the file name of its libcuda; null if the name has no version, and for the fake driver.
    pub libcuda: Option<String>,
    /// CUDA version that the driver was set to report, if any: a runtime that is newer than its driver gives up before
    /// it calls `cuInit`.
    pub told_version: Option<u32>,
    /// Number of GPUs that NVML reports; null without an NVML.
    pub nvml_gpus: Option<u32>,
    /// Number of GPUs that `cuInit` finds; 0 if it fails.
    pub cuda_gpus: u32,
}

impl EnvironmentDocument {
    /// Returns the name of its file.
    pub fn file(&self) -> String {
        file_name(&self.environment.name)
    }
}

/// Returns the name of the file of an environment with this name.
pub fn file_name(name: &str) -> String {
    let plain = name.replace(
        |c: char| !(c.is_ascii_alphanumeric() || "._+".contains(c)),
        "-",
    );
    format!("{}{plain}{}", FILE.0, FILE.1)
}

/// Returns `true` if a file of this name contains the document of an environment.
pub fn is_file_name(name: &str) -> bool {
    name.starts_with(FILE.0) && name.ends_with(FILE.1)
}

/// Returns `true` if a version is a pre-release by PEP 440.
pub fn is_prerelease(version: &str) -> bool {
    Version::from_str(version).is_ok_and(|version| version.any_prerelease())
}

/// Compares two versions by PEP 440. Texts that are not versions come first, sorted by their characters.
pub fn version_order(a: &str, b: &str) -> std::cmp::Ordering {
    match (Version::from_str(a), Version::from_str(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => std::cmp::Ordering::Greater,
        (Err(_), Ok(_)) => std::cmp::Ordering::Less,
        (Err(_), Err(_)) => a.cmp(b),
    }
}
