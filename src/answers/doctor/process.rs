//! What follows from a look at a running process.

use schemars::JsonSchema;
use serde::Serialize;

use super::version_in;
use crate::exit::Exit;
use crate::known::{ContextCost, Known};
use cuda_pitfalls_core::examination::{FileTry, ProcessExamination, ProcessLibrary};
use cuda_pitfalls_core::scenario::environment::MASK;

/// What a running process sees and holds, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessFindings {
    /// Whether it has started CUDA: null if its open files may not be read.
    pub is_started: Option<bool>,
    /// The GPUs that its CUDA took at its start, by their device files: exactly those of its mask, in no order. Null if
    /// that is not known.
    pub opened: Option<Vec<u32>>,
    /// The mask that it was started with, and the one that is set now.
    pub mask: Option<MaskState>,
    /// Whether the mask was changed after CUDA had read it: CUDA has more GPUs than the variable names now.
    pub is_mask_late: bool,
    /// The GPUs on which NVML lists it, with its memory there.
    pub contexts: Vec<HeldGpu>,
    /// Of these, those on which it did nothing while it was watched.
    pub idle: Vec<Stray>,
    /// Libraries of CUDA that it has mapped twice, in two versions or from two files.
    pub twice: Vec<ProcessLibrary>,
    /// Libraries that are not of the version of the kernel's driver.
    pub of_other_version: Vec<ProcessLibrary>,
    /// Device files that it could not open again.
    pub closed: Vec<FileTry>,
    /// The folder of MPS that it finds.
    pub mps: Option<String>,
}

/// The variable and what CUDA makes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MaskState {
    /// As the process was started; null if it was not set.
    pub at_start: Option<String>,
    /// As it is now; null if it is not set.
    pub now: Option<String>,
    /// Whether its value now was readable at all.
    pub is_now_known: bool,
}

impl MaskState {
    /// Whether it was changed after the process was started.
    pub fn is_changed(&self) -> bool {
        self.is_now_known && self.now != self.at_start
    }
}

/// A GPU that a process holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldGpu {
    /// NVML's index.
    pub index: usize,
    /// The number of its device file.
    pub device_minor: Option<u32>,
    /// Its UUID.
    pub uuid: String,
    /// The process's memory there, in bytes; null if NVML does not say.
    pub used_bytes: Option<u64>,
    /// What one context takes on this model; null if it was not measured.
    pub context: Option<ContextCost>,
    /// How busy it kept the GPU while it was watched, in percent; null if NVML does not say.
    pub busy_percent: Option<u32>,
}

/// A GPU that a process holds and does nothing on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stray {
    /// NVML's index.
    pub index: usize,
    /// Whether it is busy on another GPU meanwhile.
    pub is_busy_elsewhere: bool,
}

impl ProcessFindings {
    /// Whether something is wrong.
    pub fn is_wrong(&self) -> bool {
        let is_stray = self.idle.iter().any(|stray| stray.is_busy_elsewhere);
        is_stray
            || self.is_mask_late
            || !self.twice.is_empty()
            || !self.of_other_version.is_empty()
            || !self.closed.is_empty()
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match (self.is_wrong(), self.is_started) {
            (true, _) => Exit::Unexpected,
            (false, Some(_)) => Exit::Ok,
            (false, None) => Exit::Inconclusive,
        }
    }
}

/// What follows from a look at a process.
pub fn findings(seen: &ProcessExamination) -> ProcessFindings {
    let open = seen.open_files.as_ref();
    let is_started = open
        .map(|open| open.contains_key("/dev/nvidiactl") || open.contains_key("/dev/nvidia-uvm"));
    let opened: Option<Vec<u32>> = open.map(|open| {
        open.keys()
            .filter_map(|file| file.strip_prefix("/dev/nvidia")?.parse().ok())
            .collect()
    });
    let mask = mask(seen);
    let contexts = contexts(seen);
    let is_busy_elsewhere = contexts
        .iter()
        .any(|held| held.busy_percent.is_some_and(|busy| busy > 0));
    let idle = contexts.iter().filter(|held| held.busy_percent == Some(0));
    let idle = idle
        .map(|held| Stray {
            index: held.index,
            is_busy_elsewhere,
        })
        .collect();
    let libraries = seen.libraries.as_deref().unwrap_or_default();
    ProcessFindings {
        is_started,
        is_mask_late: is_mask_late(mask.as_ref(), opened.as_deref()),
        mask,
        opened,
        idle,
        twice: duplicate_libraries(libraries),
        of_other_version: other_versions(libraries, seen.module_version.as_deref()),
        // Without a driver no device file is expected.
        closed: seen
            .module_version
            .as_ref()
            .map(|_| seen.closed_files.clone())
            .unwrap_or_default(),
        mps: seen.mps_folder.clone(),
        contexts,
    }
}

/// Whether CUDA has more GPUs open than a mask names that was set after the process was started.
fn is_mask_late(mask: Option<&MaskState>, opened: Option<&[u32]>) -> bool {
    let (Some(mask), Some(opened)) = (mask.filter(|mask| mask.is_changed()), opened) else {
        return false;
    };
    let named = mask.now.as_deref().map(|now| {
        now.split(',')
            .filter(|entry| !entry.trim().is_empty())
            .count()
    });
    named.is_some_and(|named| opened.len() > named)
}

fn mask(seen: &ProcessExamination) -> Option<MaskState> {
    let started_with = seen.started_with.as_ref()?;
    let now = seen.now.as_ref();
    Some(MaskState {
        at_start: started_with.get(MASK).cloned(),
        now: now.and_then(|now| now.get(MASK).cloned()),
        is_now_known: now.is_some(),
    })
}

fn contexts(seen: &ProcessExamination) -> Vec<HeldGpu> {
    let gpus = seen
        .nvml
        .as_ref()
        .map(|nvml| nvml.gpus.as_slice())
        .unwrap_or_default();
    let held = gpus.iter().enumerate().filter_map(|(index, state)| {
        let listed = state
            .reading
            .processes
            .as_ref()?
            .iter()
            .find(|process| process.pid == seen.pid)?;
        let busy = state
            .busy_percent
            .as_ref()
            .map(|busy| busy.get(&seen.pid).copied().unwrap_or(0));
        Some(HeldGpu {
            index,
            device_minor: state.gpu.device_minor,
            uuid: state.gpu.uuid.clone(),
            used_bytes: listed.used_bytes,
            context: state
                .gpu
                .name
                .as_deref()
                .and_then(|name| Known::embedded().context_on(name))
                .cloned(),
            busy_percent: busy,
        })
    });
    held.collect()
}

/// Libraries of one name in several files. libcudart is often there twice, and harmless.
fn duplicate_libraries(libraries: &[ProcessLibrary]) -> Vec<ProcessLibrary> {
    let twice = driver_libraries(libraries).filter(|library| {
        libraries
            .iter()
            .filter(|of| of.library == library.library)
            .count()
            > 1
    });
    twice.cloned().collect()
}

fn driver_libraries(libraries: &[ProcessLibrary]) -> impl Iterator<Item = &ProcessLibrary> {
    libraries
        .iter()
        .filter(|library| library.library != "libcudart")
}

fn other_versions(libraries: &[ProcessLibrary], module: Option<&str>) -> Vec<ProcessLibrary> {
    driver_libraries(libraries)
        .filter(|library| {
            version_in(&library.path)
                .zip(module)
                .is_some_and(|(version, module)| version != module)
        })
        .cloned()
        .collect()
}
