//! Findings about a running process.

use schemars::JsonSchema;
use serde::Serialize;

use super::kind::INITIALIZED_FILES;
use crate::doctor::version_in;
use crate::exit::Exit;
use crate::known::{ContextCost, Known};
use cuda_pitfalls_core::examination::FileTry;
use cuda_pitfalls_core::holding::{HolderScan, ProcessExamination, ProcessLibrary};
pub(super) use cuda_pitfalls_core::scenario::environment::MASK;

/// GPUs that a running process sees and holds, and problems with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessFindings {
    /// `true` if the process has started CUDA; null if its open files cannot be read.
    pub is_started: Option<bool>,
    /// GPUs that its CUDA opened at its start, by their device files: exactly those of its mask, in no order. Null if
    /// unknown.
    pub opened: Option<Vec<u32>>,
    /// The mask that the process was started with, and the one that is set now.
    pub mask: Option<MaskState>,
    /// `true` if the mask was changed after CUDA had read it: CUDA has more GPUs open than the variable selects now.
    pub is_mask_late: bool,
    /// GPUs where NVML lists the process, with its memory there.
    pub contexts: Vec<HeldGpu>,
    /// GPUs among `contexts` where the process did nothing while it was watched.
    pub idle: Vec<Stray>,
    /// CUDA libraries that the process has mapped twice, in two versions or from two files.
    pub twice: Vec<ProcessLibrary>,
    /// Libraries whose version differs from the version of the kernel driver.
    pub of_other_version: Vec<ProcessLibrary>,
    /// Device files that the process could not open again.
    pub closed: Vec<FileTry>,
    /// MPS directory that the process finds.
    pub mps: Option<String>,
}

/// The variable `CUDA_VISIBLE_DEVICES` of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MaskState {
    /// Value when the process was started; null if the variable was not set.
    pub at_start: Option<String>,
    /// Current value; null if the variable is not set.
    pub now: Option<String>,
    /// `true` if the current value could be read.
    pub is_now_known: bool,
}

impl MaskState {
    /// Returns `true` if it was changed after the process was started.
    pub fn is_changed(&self) -> bool {
        self.is_now_known && self.now != self.at_start
    }
}

/// A GPU that a process uses memory on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldGpu {
    /// NVML's index.
    pub index: usize,
    /// The number of the GPU's device file.
    pub device_minor: Option<u32>,
    /// The UUID of the GPU.
    pub uuid: String,
    /// Memory of the process there, in bytes; null if NVML does not report it.
    pub used_bytes: Option<u64>,
    /// Memory cost of one context on this GPU model; null if it was not measured.
    pub context: Option<ContextCost>,
    /// GPU utilization by the process while it was watched, in percent; null if NVML does not report it.
    pub busy_percent: Option<u32>,
}

/// A GPU that a process holds without using it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stray {
    /// NVML's index.
    pub index: usize,
    /// `true` if the process is busy on another GPU at the same time.
    pub is_busy_elsewhere: bool,
}

impl ProcessFindings {
    /// Returns `true` if there is a problem.
    pub fn is_wrong(&self) -> bool {
        let is_stray = self.idle.iter().any(|stray| stray.is_busy_elsewhere);
        is_stray
            || self.is_mask_late
            || !self.twice.is_empty()
            || !self.of_other_version.is_empty()
            || !self.closed.is_empty()
    }

    /// Returns the exit code of the command.
    pub fn exit(&self) -> Exit {
        match (self.is_wrong(), self.is_started) {
            (true, _) => Exit::Unexpected,
            (false, Some(_)) => Exit::Ok,
            (false, None) => Exit::Inconclusive,
        }
    }
}

/// Returns the findings of an examination of a process.
pub fn findings(scan: &HolderScan, seen: &ProcessExamination) -> ProcessFindings {
    let (mut is_started, mut opened) = (None, None);
    if let Some(open) = &seen.open_files {
        let mut gpus = Vec::new();
        for (file, count) in open {
            let minor = file.strip_prefix("/dev/nvidia").unwrap_or_default();
            // NVML opens the file of each GPU once.
            if *count >= INITIALIZED_FILES
                && let Ok(minor) = minor.parse::<u32>()
            {
                gpus.push(minor);
            }
        }
        is_started = Some(!gpus.is_empty());
        opened = Some(gpus);
    }
    let mask = mask(seen);
    let contexts = contexts(scan, seen);
    let is_busy_elsewhere = contexts.iter().any(|held| held.busy_percent > Some(0));
    let mut idle = Vec::new();
    for held in &contexts {
        if held.busy_percent == Some(0) {
            let index = held.index;
            idle.push(Stray {
                index,
                is_busy_elsewhere,
            });
        }
    }
    let libraries = seen.libraries.as_deref().unwrap_or_default();
    ProcessFindings {
        is_started,
        is_mask_late: is_mask_late(mask.as_ref(), opened.as_deref()),
        mask,
        opened,
        idle,
        twice: duplicate_libraries(libraries),
        of_other_version: other_versions(libraries, scan.module_version.as_deref()),
        // Without a driver no device file is expected.
        closed: match scan.module_version {
            Some(_) => seen.closed_files.clone(),
            None => Vec::new(),
        },
        mps: seen.mps_folder.clone(),
        contexts,
    }
}

/// Returns `true` if CUDA has more GPUs open than are selected by a mask that was set after the process was started.
fn is_mask_late(mask: Option<&MaskState>, opened: Option<&[u32]>) -> bool {
    let (Some(mask), Some(opened)) = (mask, opened) else {
        return false;
    };
    let Some(now) = &mask.now else { return false };
    let entries = now.split(',').filter(|entry| !entry.trim().is_empty());
    mask.is_changed() && opened.len() > entries.count()
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

fn contexts(scan: &HolderScan, seen: &ProcessExamination) -> Vec<HeldGpu> {
    let mut held = Vec::new();
    for (index, state) in scan.nvml.gpus.iter().enumerate() {
        let processes = state.reading.processes.as_deref().unwrap_or_default();
        let Some(listed) = processes.iter().find(|process| process.pid == seen.pid) else {
            continue;
        };
        let context = match &state.gpu.name {
            Some(name) => Known::embedded().context_on(name).cloned(),
            None => None,
        };
        let busy = state.busy_percent.as_ref();
        held.push(HeldGpu {
            index,
            device_minor: state.gpu.device_minor,
            uuid: state.gpu.uuid.clone(),
            used_bytes: listed.used_bytes,
            context,
            busy_percent: busy.map(|busy| busy.get(&seen.pid).copied().unwrap_or(0)),
        });
    }
    held
}

/// Returns libraries with the same name in several files. libcudart is left out, because two copies of it are common
/// and harmless.
fn duplicate_libraries(libraries: &[ProcessLibrary]) -> Vec<ProcessLibrary> {
    let mut twice = Vec::new();
    for library in driver_libraries(libraries) {
        // A trace and a simulated machine put one library in front of another on purpose.
        if is_of_this_program(library) {
            return Vec::new();
        }
        let same = libraries
            .iter()
            .filter(|one| one.library == library.library);
        if same.count() > 1 {
            twice.push(library.clone());
        }
    }
    twice
}

fn is_of_this_program(library: &ProcessLibrary) -> bool {
    let mut folders = library.path.split('/');
    folders.any(|folder| folder.starts_with("cuda-pitfalls-"))
}

fn driver_libraries(libraries: &[ProcessLibrary]) -> impl Iterator<Item = &ProcessLibrary> {
    libraries
        .iter()
        .filter(|library| library.library != "libcudart")
}

fn other_versions(libraries: &[ProcessLibrary], module: Option<&str>) -> Vec<ProcessLibrary> {
    let mut others = Vec::new();
    for library in driver_libraries(libraries) {
        if let (Some(version), Some(module)) = (version_in(&library.path), module)
            && version != module
        {
            others.push(library.clone());
        }
    }
    others
}
