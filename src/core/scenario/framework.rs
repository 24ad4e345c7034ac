//! The frameworks that use CUDA: the table `scenarios/frameworks.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// A framework.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Framework {
    /// The name of the framework in the rules of `trace`, for workarounds.
    pub name: String,
    /// The tag of the scenarios about the framework; `None` without scenarios.
    pub tag: Option<String>,
    /// Python packages of the framework through whose lines programs reach CUDA.
    pub packages: Vec<String>,
    /// Python packages of the framework that call CUDA as a project does.
    pub users: Vec<String>,
    /// Common names of the framework, in lower case; empty if `explain` does not know it.
    pub words: Vec<String>,
    /// The usual import alias of the package.
    pub alias: Option<String>,
    /// Time that an interpreter takes to import the framework, in milliseconds.
    pub import_ms: Option<f64>,
    /// The prefixes of the environment variables that the framework reads.
    pub variables: Vec<String>,
    /// The variables that contain the framework's cache folders.
    pub caches: Vec<String>,
    /// The distribution with the version that is reported for environments of other packages.
    pub told: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameworkFile {
    other_import_ms: f64,
    framework: Vec<Framework>,
}

/// Empty if the file is not valid; a test excludes that.
static FILE: LazyLock<FrameworkFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::FRAMEWORKS).unwrap_or_default());

/// Returns all frameworks.
pub fn frameworks() -> &'static [Framework] {
    &FILE.framework
}

/// Returns the time that an interpreter takes to import a framework without its own entry, in milliseconds.
pub fn other_import_ms() -> f64 {
    FILE.other_import_ms
}

/// Returns the framework of a Python package.
pub fn with_package(package: &str) -> Option<&'static Framework> {
    FILE.framework.iter().find(|framework| {
        framework
            .packages
            .iter()
            .chain(&framework.users)
            .any(|own| own == package)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_has_each_package_once() {
        let file: FrameworkFile = toml::from_str(cuda_pitfalls_scenarios::FRAMEWORKS).unwrap();
        let mut packages: Vec<&String> = file
            .framework
            .iter()
            .flat_map(|framework| framework.packages.iter().chain(&framework.users))
            .collect();
        packages.sort();
        assert!(packages.is_sorted_by(|a, b| a < b), "{packages:?}");
    }
}
