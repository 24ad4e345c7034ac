//! `survey python --with`: what lines of Python do in one release after another.
//!
//! Each environment (packages of certain versions) has a document of its own. Together they are a [`Matrix`] of lines
//! and environments. Without a GPU it is known whether a line calls `cuInit`, which is what reads the mask and breaks
//! forked children: `cuInit` fails there, but it is called. Each line is asked twice, with a distribution's libcuda
//! and no NVML, and with the fake driver and an NVML that has two GPUs; a third attempt settles what differs.

mod list;
mod matrix;
mod reading;
mod row;
#[cfg(test)]
mod tests;
mod versions;

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

/// What the names of an environment's file begin and end with.
const FILE: (&str, &str) = ("environment-", ".json");

/// What lines of Python do in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvironmentDocument {
    /// Which document this is.
    pub schema: SchemaId,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The environment.
    pub environment: ReleaseEnvironment,
    /// Who answered, in the order in which each line was asked.
    pub witnesses: Vec<WitnessAsked>,
    /// The lines, in the order of the list.
    pub rows: Vec<ReleaseRow>,
    /// Whether every line has its row. Otherwise the survey can be resumed.
    pub complete: bool,
}

/// Packages of certain versions, installed together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Environment")]
pub struct ReleaseEnvironment {
    /// Its name, such as `torch 2.9.1`.
    pub name: String,
    /// The package that it is about.
    pub package: String,
    /// The version of that package.
    pub version: String,
    /// What was to be installed.
    pub requirements: Vec<String>,
    /// Whether the package's version held, whatever other packages ask for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// The day after which no package may have been published; null for none.
    pub newest: Option<String>,
    /// The version of Python; null where no environment could be made.
    pub python: Option<String>,
    /// Every package that was installed. One that is only installed can change what importing another one does.
    pub packages: BTreeMap<String, String>,
    /// When it was asked: RFC 3339, UTC.
    pub asked_at: String,
    /// How long installing took.
    pub install_ns: Option<u64>,
    /// What the environment took on disk.
    pub disk_bytes: Option<u64>,
    /// How long the lines took, all together.
    pub lines_ns: Option<u64>,
    /// Why nothing was asked: it cannot be installed, or a control did not hold.
    pub failed: Option<String>,
}

/// Who answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessAsked {
    /// Which of them.
    pub witness: DriverWitness,
    /// The version in the file name of its libcuda; null if the name has none, and for the fake driver.
    pub libcuda: Option<String>,
    /// The version of CUDA that the driver said it supports, where it was told so: a runtime that is newer than its
    /// driver gives up before it calls `cuInit`.
    pub told_version: Option<u32>,
    /// How many GPUs NVML says there are; null without an NVML.
    pub nvml_gpus: Option<u32>,
    /// How many GPUs `cuInit` finds; 0 where it fails.
    pub cuda_gpus: u32,
}

impl EnvironmentDocument {
    /// The name of its file.
    pub fn file(&self) -> String {
        file_name(&self.environment.name)
    }
}

/// The name of the file of an environment with this name.
pub fn file_name(name: &str) -> String {
    let plain = name.replace(
        |c: char| !(c.is_ascii_alphanumeric() || "._+".contains(c)),
        "-",
    );
    format!("{}{plain}{}", FILE.0, FILE.1)
}

/// Whether a file of this name holds an environment's document.
pub fn is_file_name(name: &str) -> bool {
    name.starts_with(FILE.0) && name.ends_with(FILE.1)
}

/// Whether a version is a pre-release by PEP 440.
pub fn is_prerelease(version: &str) -> bool {
    Version::from_str(version).is_ok_and(|version| version.any_prerelease())
}

/// The order of two versions by PEP 440; texts that are no versions come first, by their letters.
pub fn version_order(a: &str, b: &str) -> std::cmp::Ordering {
    match (Version::from_str(a), Version::from_str(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => std::cmp::Ordering::Greater,
        (Err(_), Ok(_)) => std::cmp::Ordering::Less,
        (Err(_), Err(_)) => a.cmp(b),
    }
}
