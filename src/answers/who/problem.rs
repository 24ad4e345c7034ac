//! Problems of a process that are visible from outside.

use schemars::JsonSchema;
use serde::Serialize;

use super::HolderMemory;
use super::kind::{is_gpu_file, is_mask_changed};
use crate::doctor::version_in;
use cuda_pitfalls_core::holding::{HolderScan, ProcessExamination, ProcessLibrary};
use cuda_pitfalls_core::scenario::environment::MASK;
use cuda_pitfalls_core::text::counts::counted;

/// A problem of a process, without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessProblem {
    /// The mask was changed after CUDA had read it: CUDA has more GPUs open than the variable selects now.
    #[error(
        "CUDA_VISIBLE_DEVICES became \"{now}\" too late: CUDA has {} open. Set it before the first call that reads \
         it; `cuda-pitfalls trace -- COMMAND` shows that line",
        counted(*opened, "GPU")
    )]
    MaskLate {
        /// The current value.
        now: String,
        /// Number of GPUs that CUDA has open.
        opened: usize,
    },
    /// The process did nothing on a GPU where it has a context, while it worked on another GPU.
    #[error(
        "It has a context on GPU {gpu} but did nothing there in {} s, while it worked on another GPU. \
         `cuda-pitfalls trace -- COMMAND` shows the line that created it",
        watched_ms / 1000
    )]
    Stray {
        /// NVML's index.
        gpu: usize,
        /// Time for which this was watched, in milliseconds.
        watched_ms: u64,
    },
    /// A CUDA library is mapped twice, in two versions or from two files.
    #[error(
        "The same library is loaded twice: {}. Each copy has its own state and mask",
        paths.join(" and ")
    )]
    LoadedTwice {
        /// The files.
        paths: Vec<String>,
    },
    /// The version of a library differs from the version of the kernel driver.
    #[error("{path} does not match the kernel driver, which is {module}")]
    OtherVersion {
        /// The file.
        path: String,
        /// The version of the kernel driver.
        module: String,
    },
    /// The process cannot open a device file again.
    #[error(
        "It cannot open {file} ({error}): {}",
        if *is_started { "existing contexts keep working, new ones fail" } else { "CUDA cannot start in it" }
    )]
    Closed {
        /// The device file.
        file: String,
        /// The error.
        error: String,
        /// `true` if the process has initialized CUDA.
        is_started: bool,
    },
}

/// Returns the problems of a process that has this memory.
pub(super) fn list_problems(
    scan: &HolderScan,
    seen: &ProcessExamination,
    memory: &[HolderMemory],
) -> Vec<ProcessProblem> {
    let mut problems = Vec::new();
    let opened = count_opened(seen).unwrap_or(0);
    if let Some(now) = seen.now.as_ref().and_then(|now| now.get(MASK))
        && is_mask_changed(seen)
    {
        let entries = now.split(',').filter(|entry| !entry.trim().is_empty());
        if opened > entries.count() {
            let now = now.clone();
            problems.push(ProcessProblem::MaskLate { now, opened });
        }
    }
    let is_busy = memory.iter().any(|memory| memory.busy_percent > Some(0));
    for memory in memory {
        if is_busy && memory.busy_percent == Some(0) {
            problems.push(ProcessProblem::Stray {
                gpu: memory.gpu,
                watched_ms: scan.watched_ms(),
            });
        }
    }
    let mut libraries = seen.libraries.clone().unwrap_or_default();
    // Two copies of libcudart are common and harmless.
    libraries.retain(|library| library.library != "libcudart");
    problems.extend(list_duplicates(&libraries));
    // Without a driver neither a version nor a device file is expected.
    let Some(module) = &scan.module_version else {
        return problems;
    };
    for library in libraries {
        if version_in(&library.path).is_some_and(|version| version != *module) {
            let (path, module) = (library.path, module.clone());
            problems.push(ProcessProblem::OtherVersion { path, module });
        }
    }
    for file in &seen.closed_files {
        problems.push(ProcessProblem::Closed {
            file: file.file.clone(),
            error: file.error.clone().unwrap_or_default(),
            is_started: opened > 0,
        });
    }
    problems
}

/// Returns the number of GPUs that CUDA opened at its start: exactly those of its mask. `None` if the open files of the
/// process cannot be read.
fn count_opened(seen: &ProcessExamination) -> Option<usize> {
    let files = seen.open_files.as_ref()?.iter();
    Some(files.filter(is_opened_by_cuda).count())
}

/// Returns `true` for a GPU's device file that is open as many times as CUDA opens it. NVML opens it once.
pub fn is_opened_by_cuda((file, count): &(&String, &u64)) -> bool {
    is_gpu_file(file) && **count >= super::kind::INITIALIZED_FILES
}

/// Returns libraries with the same name in several files.
fn list_duplicates(libraries: &[ProcessLibrary]) -> Option<ProcessProblem> {
    let mut paths = Vec::new();
    for library in libraries {
        // A trace and a simulated machine put one library in front of another on purpose.
        let mut folders = library.path.split('/');
        if folders.any(|folder| folder.starts_with("cuda-pitfalls-")) {
            return None;
        }
        let mut others = libraries.iter().filter(|other| *other != library);
        if others.any(|other| other.library == library.library) {
            paths.push(library.path.clone());
        }
    }
    (!paths.is_empty()).then_some(ProcessProblem::LoadedTwice { paths })
}
