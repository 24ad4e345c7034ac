//! The environment variables that CUDA and frameworks read: the table `scenarios/variables.toml`. It defines which of
//! them a scenario may read, set and remove, and which name a misspelled variable resembles.

use std::sync::LazyLock;

use serde::Deserialize;

use super::framework;
use crate::source::diagnostic::nearest_within;

/// The variable that selects the GPUs that a process sees.
pub const MASK: &str = "CUDA_VISIBLE_DEVICES";
/// The variable that sets the order of GPU numbers.
pub const ORDER: &str = "CUDA_DEVICE_ORDER";
/// The variable with the path of a library that libcuda loads during its initialization.
pub const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// The name of the injection library. It is in the folder of links that a worker searches first, so the loader finds it
/// by name, and no scenario needs a path of the machine.
pub const INJECTION_LIBRARY: &str = "libcuda_pitfalls_hook.so";

/// An environment variable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownVariable {
    name: String,
    read_by: VariableReader,
    /// `true` if a scenario may read, set and remove the variable.
    #[serde(default)]
    in_scenarios: bool,
    /// The values that a scenario may set it to; `None` if it may set any value.
    values: Option<Vec<String>>,
    /// `true` if a report records the variable's value.
    #[serde(default)]
    in_reports: bool,
    /// `true` if schedulers and runtimes assign some of a machine's GPUs with this variable.
    #[serde(default)]
    lends_gpus: bool,
}

/// The component that reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VariableReader {
    /// `cuInit`; nothing reads it afterwards.
    #[serde(rename = "cuInit")]
    CuInit,
    Libcuda,
    Mps,
    Library,
    Framework,
    Container,
    /// The injection library of scenarios.
    Hook,
    Scheduler,
    Launcher,
}

impl VariableReader {
    const fn in_words(self) -> &'static str {
        match self {
            VariableReader::CuInit => "cuInit",
            VariableReader::Libcuda => "libcuda",
            VariableReader::Mps => "the MPS daemon and its clients",
            VariableReader::Library => "a library above CUDA",
            VariableReader::Framework => "a framework",
            VariableReader::Container => "container runtimes",
            VariableReader::Hook => "the injection library of cuda-pitfalls",
            VariableReader::Scheduler => "programs of a scheduler's job",
            VariableReader::Launcher => "the processes of a launcher",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableFile {
    libraries: Vec<String>,
    others: Vec<String>,
    variable: Vec<KnownVariable>,
}

/// Empty if the file is not valid; a test excludes that.
static FILE: LazyLock<VariableFile> =
    LazyLock::new(|| toml::from_str(cuda_pitfalls_scenarios::VARIABLES).unwrap_or_default());

fn names(which: impl Fn(&KnownVariable) -> bool) -> impl Iterator<Item = &'static str> {
    FILE.variable
        .iter()
        .filter(move |variable| which(variable))
        .map(|variable| variable.name.as_str())
}

/// Returns every variable, with the component that reads it as text.
pub fn variable_readers() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILE.variable
        .iter()
        .map(|variable| (variable.name.as_str(), variable.read_by.in_words()))
}

fn known(name: &str) -> Option<&'static KnownVariable> {
    FILE.variable.iter().find(|variable| variable.name == name)
}

/// Returns the variables that only `cuInit` reads, so that a later write has no effect. A test compares the table with
/// the survey that measured when each variable is read (docs/surveys/env.md).
pub fn read_by_cuinit() -> impl Iterator<Item = &'static str> {
    names(|variable| variable.read_by == VariableReader::CuInit)
}

/// Returns `true` if only `cuInit` reads a variable.
pub fn is_read_by_cuinit(name: &str) -> bool {
    read_by_cuinit().any(|known| known == name)
}

/// Returns the variables that a scenario may read, set and remove.
pub fn in_scenarios() -> impl Iterator<Item = &'static str> {
    names(|variable| variable.in_scenarios)
}

/// Returns the variables whose values a report records.
pub fn in_reports() -> impl Iterator<Item = &'static str> {
    names(|variable| variable.in_reports)
}

/// Returns the variables with which schedulers and runtimes assign some of a machine's GPUs.
pub fn lending_gpus() -> impl Iterator<Item = &'static str> {
    names(|variable| variable.lends_gpus)
}

/// Returns the variables with which launchers assign each of several processes its part.
pub fn launcher_variables() -> impl Iterator<Item = &'static str> {
    names(|variable| variable.read_by == VariableReader::Launcher)
}

/// Returns the prefixes of the variables that frameworks and their libraries read. Variables that decide which code an
/// interpreter runs (`PYTHONPATH`, `LD_LIBRARY_PATH`) do not have any of these prefixes.
pub fn framework_prefixes() -> impl Iterator<Item = &'static str> {
    framework::frameworks()
        .iter()
        .flat_map(|framework| &framework.variables)
        .chain(&FILE.libraries)
        .map(String::as_str)
}

/// Returns the variable that a misspelled name refers to: one misspelling in ten characters, the same words, or another
/// ending of `CUDA_VISIBLE_DEVICES`. `None` for a name that is read itself, and for one without a similar name.
pub fn meant_by(name: &str) -> Option<&'static str> {
    if known(name).is_some() || FILE.others.iter().any(|other| other == name) {
        return None;
    }
    // Users write CUDA_VISIBLE=0 and CUDA_VISIBLE_GPUS=0, and keep the mask in CUDA_VISIBLE_DEVICES_OLD.
    let is_cut = name.starts_with("CUDA_VISIBLE") && !name.starts_with(MASK);
    let own = words(name);
    let near = READ_NAMES.iter().find(|(known, words)| {
        *words == own || nearest_within(name, known.len() / 10, [*known]).is_some()
    });
    near.map(|(known, _)| *known).or(is_cut.then_some(MASK))
}

static READ_NAMES: LazyLock<Vec<(&str, Vec<String>)>> = LazyLock::new(|| {
    use VariableReader::{Launcher, Scheduler};
    let read = names(|variable| !matches!(variable.read_by, Scheduler | Launcher));
    read.map(|name| (name, words(name))).collect()
});

/// Words that users confuse in the names of variables.
const ALIKE: [(&str, &[&str]); 2] = [
    (
        "VISIBLE",
        &["AVAILABLE", "USABLE", "ENABLED", "ACTIVE", "ALLOWED"],
    ),
    ("DEVICE", &["GPU"]),
];

/// Returns the words of a name, sorted, each without its ending and with synonyms unified.
fn words(name: &str) -> Vec<String> {
    let name = name.to_ascii_uppercase();
    let mut words = Vec::new();
    for part in name.split(['_', '-']) {
        let mut word = word_stem(part);
        for (known, others) in ALIKE {
            if others.iter().any(|other| word_stem(other) == word) {
                word = word_stem(known);
            }
        }
        words.push(word.to_owned());
    }
    words.sort_unstable();
    words
}

/// Returns the stem of a word: `DEVIC` of `DEVICES`, `BLOCK` of `BLOCKING` and of `BLOCKED`.
fn word_stem(word: &str) -> &str {
    let word = word.strip_suffix('S').unwrap_or(word);
    let word = word
        .strip_suffix("ING")
        .or_else(|| word.strip_suffix("ED"))
        .unwrap_or(word);
    word.strip_suffix('E').unwrap_or(word)
}

/// Returns `true` if a case of Python lines may use this variable in addition to those of [`in_scenarios`].
pub fn is_of_a_framework(name: &str) -> bool {
    let in_form = name
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    in_form
        && (launcher_variables().any(|known| known == name)
            || framework_prefixes()
                .any(|prefix| name.len() > prefix.len() && name.starts_with(prefix)))
}

/// Returns the only values that a scenario may give to a variable, if it names a file; `None` for other variables.
pub fn values(name: &str) -> Option<&'static [String]> {
    known(name)?.values.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_has_the_variables_of_the_survey() {
        let file: VariableFile = toml::from_str(cuda_pitfalls_scenarios::VARIABLES).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for variable in &file.variable {
            assert!(names.insert(&variable.name), "{}", variable.name);
        }
        let surveyed: toml::Table = toml::from_str(cuda_pitfalls_scenarios::survey("env")).unwrap();
        let rows = ["variable", "left_out"]
            .into_iter()
            .flat_map(|key| surveyed[key].as_array().unwrap());
        rows.map(|row| row["name"].as_str().unwrap())
            .for_each(|name| assert!(known(name).is_some(), "{name}"));
    }

    #[test]
    fn a_variable_that_names_a_file_has_listed_values() {
        let files = ["_FILE", "_PATH", "_PIPE", "_DIRECTORY"];
        for name in in_scenarios().filter(|name| files.iter().any(|end| name.ends_with(end))) {
            assert!(values(name).is_some(), "{name}");
        }
        assert!(
            values(INJECTION)
                .unwrap()
                .iter()
                .any(|value| value == INJECTION_LIBRARY)
        );
        assert_eq!(values("CUDA_CACHE_DISABLE"), None);
    }

    #[test]
    fn a_misspelt_variable_is_known_and_none_that_is_read_or_ones_own() {
        let cases = [
            (
                "CUDA_VISIBLE_DEVICES",
                "CUDA_VISIBLE_DEVICE CUDA_VISIBLE CUDA_VISIBLE_GPUS CUDA_VISBLE_DEVICES",
            ),
            (
                "CUDA_VISIBLE_DEVICES",
                "cuda_visible_devices CUDAVISIBLE_DEVICES CUDA-VISIBLE-DEVICES",
            ),
            (
                "CUDA_VISIBLE_DEVICES",
                "CUDA_AVAILABLE_DEVICES VISIBLE_CUDA_DEVICES CUDA_DEVICES_VISIBLE CUDA_ENABLED_GPUS",
            ),
            (
                "CUDA_VISIBLE_DEVICES",
                "available_cuda_gpus DEVICE_VISIBLE_CUDA",
            ),
            (
                "CUDA_DEVICE_ORDER",
                "CUDA_DEVICES_ORDER CUDA_ORDER_DEVICES CUDA_GPU_ORDER",
            ),
            (
                "CUDA_LAUNCH_BLOCKING",
                "CUDA_LAUNCH_BLOCK1NG CUDA_LAUCH_BLOCKING CUDA_BLOCKING_LAUNCHES CUDA_LAUNCH_BLOCKED",
            ),
            ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MAX_DEVICE_CONNECTIONS"),
            ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CUDA_CONF"),
            (
                "PYTORCH_CUDA_ALLOC_CONF",
                "PYTORCH_CUDA_ALOC_CONF PYTORCH_CUDA_ALLOC_CONFIG",
            ),
        ];
        for (meant, names) in cases {
            names
                .split(' ')
                .for_each(|name| assert_eq!(meant_by(name), Some(meant), "{name}"));
        }
        let own = "CUDA_HOME CUDA_PATH CUDA_ROOT CUDA_VERSION CUDA_PATH_V12_1 CUDA_BIN_PATH CUDA_CACHE_DIR CUDA_DEVICE \
                   CUDA_DEVICES CUDA_ARCH NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES \
                   ASCEND_RT_VISIBLE_DEVICES ZE_AFFINITY_MASK GPU_DEVICE_ORDINAL GPU_VISIBLE_DEVICES VISIBLE_DEVICES \
                   MUSA_VISIBLE_DEVICES CUDA_DEVICE_COUNT AVAILABLE_GPUS PYTORCH_ALLOC_CONF CUDA_CACHE_SIZE \
                   NCCL_IB_DISABLE NCCL_NET_DISABLE_INTRA NCCL_CUMEM_HOST_ENABLE TORCH_NCCL_BLOCKING_WAIT \
                   CUDA_VISIBLE_DEVICES_OLD ORIG_CUDA_VISIBLE_DEVICES PYTORCH_HIP_ALLOC_CONF NCCL_PXN_DISABLE \
                   CUDA_COREDUMP_PIPE CUDA_ENABLE_COREDUMP_ON_EXCEPTION NCCL_DEBUG_FILE XLA_FLAGS CUDA_FORCE_PTX_JIT";
        own.split_whitespace()
            .for_each(|name| assert_eq!(meant_by(name), None, "{name}"));
    }

    #[test]
    fn no_variable_of_a_framework_decides_what_an_interpreter_runs() {
        for name in ["PYTORCH_NVML_BASED_CUDA_CHECK", "XLA_FLAGS", "LOCAL_RANK"] {
            assert!(is_of_a_framework(name), "{name}");
        }
        for name in [
            "PYTHONPATH",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "PATH",
            "HOME",
            "XLA_",
            "torch_x",
            "RANKS",
        ] {
            assert!(!is_of_a_framework(name), "{name}");
        }
    }
}
