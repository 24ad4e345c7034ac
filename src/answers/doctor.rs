//! Causes of a failed CUDA start in one place, from the starts that `doctor` tried there: causes proved by a start
//! without the suspect, causes measured to produce exactly this error, and merely unusual conditions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Exit;
use crate::known::NeedFacts;
use crate::survey::needs::NeedsProgram;
use crate::visibility::misspelled_names;
use cuda_pitfalls_core::examination::{
    Examination, FileTry, GpuState, KernelGpu, LibraryStart, StartCall, StartChange, StartEnd,
    Started,
};
use cuda_pitfalls_trace::history::MASK;

/// Diagnosis of an examination.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diagnosed {
    /// State of CUDA in the examined place.
    pub state: DoctorState,
    /// First failure of the driver and of NVML; empty if both work.
    pub failures: Vec<StartFailure>,
    /// Causes, the most certain first.
    pub causes: Vec<Reasoned>,
    /// GPUs of the kernel's driver that CUDA does not show here.
    pub hidden: Vec<HiddenGpu>,
    /// Variables that no known program reads, each with the known variable of the most similar spelling.
    pub misspelt: BTreeMap<String, String>,
}

/// State of CUDA in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoctorState {
    /// The driver and NVML work.
    Healthy,
    /// The driver or NVML does not work, and the cause is known.
    Found,
    /// The driver or NVML does not work, and the cause is unknown.
    Unknown,
    /// No GPU is present, so CUDA cannot start.
    NoGpu,
}

impl DoctorState {
    /// Returns the exit code of the command.
    pub const fn exit(self) -> Exit {
        match self {
            DoctorState::Healthy => Exit::Ok,
            DoctorState::Found => Exit::Unexpected,
            DoctorState::Unknown => Exit::Inconclusive,
            DoctorState::NoGpu => Exit::NothingMeasured,
        }
    }
}

/// First failure of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Failure")]
pub struct StartFailure {
    /// The library.
    pub library: Started,
    /// The call and its status; null if no call returned.
    pub call: Option<StartCall>,
    /// The loader's message, if the library could not be opened.
    pub missing: Option<String>,
    /// End of the process, unless it exited by itself.
    pub ended: Option<StartEnd>,
}

/// A cause, and its certainty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reasoned {
    /// The cause.
    #[serde(flatten)]
    pub cause: Trouble,
    /// Certainty of the cause.
    pub sureness: Sureness,
}

/// Certainty of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sureness {
    /// CUDA was started here without the condition, and got further.
    Proved,
    /// The condition exists here, and it was measured to cause exactly this error, or the error cannot occur otherwise.
    Measured,
    /// The condition exists here, and by itself it causes a different error: it would be the next one.
    Next,
    /// The condition exists here, and it is unknown whether it causes an error.
    Possible,
}

/// A condition that can keep CUDA from starting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trouble {
    /// A part of the environment, which was left out for another start.
    Environment {
        /// The part of the environment that was left out.
        change: StartChange,
        /// Value of the variable, if it is a variable.
        value: Option<String>,
    },
    /// No kernel driver is loaded, or it is not visible from here.
    NoModule,
    /// No GPU is on the PCI bus.
    NoGpu,
    /// A library cannot be opened.
    NoLibrary {
        /// The library.
        library: Started,
        /// The loader's message.
        message: String,
    },
    /// The version of a library differs from the version of the kernel driver.
    OtherVersion {
        /// The file.
        path: String,
        /// Version in the file name.
        version: String,
        /// Version of the kernel driver.
        module: String,
    },
    /// libcuda is the toolkit's stub for linking.
    Stub {
        /// The file.
        path: String,
    },
    /// A file cannot be opened.
    File {
        /// The file.
        path: String,
        /// The error.
        error: String,
        /// File mode, such as 0o666.
        mode: Option<u32>,
        /// Owner and group.
        owner: Option<(u32, u32)>,
    },
    /// A file exists, but it is not the NVIDIA device.
    NotTheDevice {
        /// The file.
        path: String,
        /// Device number of the file; null if the file is not a device.
        device: Option<(u32, u32)>,
    },
    /// A system call is denied.
    SystemCall {
        /// The name of the system call.
        call: String,
        /// The error or the signal.
        error: String,
    },
    /// The compute mode of a GPU allows no process, or no second one.
    Exclusive {
        /// The UUID of the GPU.
        gpu: String,
        /// NVML's name of the compute mode.
        mode: String,
        /// Processes that use the GPU.
        pids: Vec<u32>,
    },
    /// A GPU has too little memory left for a context.
    Full {
        /// The UUID of the GPU.
        gpu: String,
        /// Free memory, in bytes.
        free_bytes: u64,
        /// Processes that use the GPU.
        pids: Vec<u32>,
    },
    /// A GPU is divided by MIG, and CUDA does not see any of its instances.
    Mig {
        /// The UUID of the GPU.
        gpu: String,
    },
}

/// A GPU that is not visible to CUDA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HiddenGpu {
    /// Number of the GPU's device file.
    pub device_minor: u32,
    /// UUID; null if the kernel did not report it.
    pub uuid: Option<String>,
    /// Cause: a part of the environment (the GPU is visible without it), or the GPU's device file; null if unknown.
    pub by: Option<Trouble>,
}

impl Diagnosed {
    /// Returns the value of `CUDA_VISIBLE_DEVICES` if CUDA gets further here without that variable, or `None` if the
    /// mask is not the cause.
    pub fn mask_at_fault(&self) -> Option<&str> {
        for reasoned in &self.causes {
            if let Trouble::Environment {
                change: StartChange::Without { variable },
                value: Some(value),
            } = &reasoned.cause
                && variable == MASK
            {
                return Some(value);
            }
        }
        None
    }
}

impl Trouble {
    /// Returns the directory of the loader's path that the trouble is about.
    fn folder(&self) -> Option<&str> {
        match self {
            Trouble::Environment {
                change: StartChange::WithoutFolder { folder },
                ..
            } => Some(folder),
            _ => None,
        }
    }

    fn library(&self) -> Option<&str> {
        match self {
            Trouble::Stub { path } | Trouble::OtherVersion { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// Approximate memory cost of a context, in bytes.
const CONTEXT_BYTES: u64 = 600 << 20;

/// Determines why CUDA does not start.
pub fn diagnose_start(examination: &Examination, needs: &[NeedFacts]) -> Diagnosed {
    let [driver, nvml] = [Started::Driver, Started::Nvml].map(|library| {
        let mut starts = examination.starts.iter();
        starts.find(|start| start.library == library && start.changed.is_none())
    });
    let mut failures = Vec::new();
    for start in [driver, nvml].into_iter().flatten() {
        if !start.is_good() {
            failures.push(start_failure(start));
        }
    }
    let mut hidden = Vec::new();
    if let Some(driver) = driver {
        hidden = find_hidden_gpus(examination, driver);
    }
    let causes = find_causes(examination, needs, &failures, [driver, nvml]);
    let state = if failures.is_empty() {
        DoctorState::Healthy
    } else if causes.iter().any(|one| one.cause == Trouble::NoGpu) {
        DoctorState::NoGpu
    } else if causes.iter().any(|one| one.sureness < Sureness::Next) {
        DoctorState::Found
    } else {
        DoctorState::Unknown
    };
    let misspelt = misspelled_names(examination.place.environment.keys().map(String::as_str));
    Diagnosed {
        state,
        failures,
        causes,
        hidden,
        misspelt,
    }
}

/// Returns the causes of these failures, the most certain first.
fn find_causes(
    examination: &Examination,
    needs: &[NeedFacts],
    failures: &[StartFailure],
    [driver, nvml]: [Option<&LibraryStart>; 2],
) -> Vec<Reasoned> {
    let mut causes = Causes::default();
    if failures.is_empty() {
        return causes.all;
    }
    if let Some(driver) = driver {
        causes.add_proved_causes(examination, driver);
    }
    if !examination.starts.iter().any(LibraryStart::is_simulated) {
        causes.add_kernel_causes(examination, failures);
        causes.add_file_causes(examination, needs, failures);
        causes.add_call_causes(examination, needs, failures);
    }
    if let Some(nvml) = nvml {
        causes.add_gpu_causes(&nvml.gpus, failures);
    }
    causes.merge_folders();
    causes.all.sort_by_key(|reasoned| reasoned.sureness);
    causes.all
}

fn start_failure(start: &LibraryStart) -> StartFailure {
    StartFailure {
        library: start.library,
        call: start.first_failure().cloned(),
        missing: start.missing.clone(),
        ended: start.ended.clone(),
    }
}

#[derive(Default)]
struct Causes {
    all: Vec<Reasoned>,
}

impl Causes {
    fn add_cause(&mut self, sureness: Sureness, cause: Trouble) {
        match self.all.iter_mut().find(|known| known.cause == cause) {
            Some(known) => known.sureness = known.sureness.min(sureness),
            None => self.all.push(Reasoned { cause, sureness }),
        }
    }

    /// Adds a condition that exists here; `explains_error` is `true` if it is known to cause exactly this error.
    fn add_present_cause(&mut self, explains_error: bool, cause: Trouble) {
        if explains_error {
            self.add_cause(Sureness::Measured, cause);
        } else {
            self.add_cause(Sureness::Possible, cause);
        }
    }

    /// Adds the changes that let CUDA get further.
    fn add_proved_causes(&mut self, examination: &Examination, driver: &LibraryStart) {
        for start in &examination.starts {
            if let Some(change) = &start.changed
                && start.library == Started::Driver
                && start_progress(start) > start_progress(driver)
            {
                self.add_cause(Sureness::Proved, environment(examination, change));
            }
        }
    }

    /// Merges the causes about a directory of the loader's path that contains the wrong library, if the problem with
    /// the library is known.
    fn merge_folders(&mut self) {
        let causes = self.all.iter();
        let folders: Vec<String> = causes
            .filter_map(|one| Some(one.cause.folder()?.to_owned()))
            .collect();
        for folder in folders {
            let mut causes = self.all.iter_mut();
            if let Some(wrong) = causes.find(|one| {
                one.cause
                    .library()
                    .is_some_and(|path: &str| Path::new(path).starts_with(&folder))
            }) {
                wrong.sureness = Sureness::Proved;
                self.all.retain(|one| one.cause.folder() != Some(&folder));
            }
        }
    }

    fn add_kernel_causes(&mut self, examination: &Examination, failures: &[StartFailure]) {
        let place = &examination.place;
        let is_any_good = examination.starts.iter().any(LibraryStart::is_good);
        let mut files = examination.files.iter();
        let is_opened = files.any(|tried| tried.file == CONTROL && tried.error.is_none());
        // A sandbox may hide the kernel's information about its driver.
        if place.module_version.is_none() && !is_any_good && !is_opened {
            let cause = if place.pci_gpus == Some(0) {
                Trouble::NoGpu
            } else {
                Trouble::NoModule
            };
            self.add_cause(Sureness::Measured, cause);
        }
        for failure in failures {
            if let Some(message) = &failure.missing {
                let cause = Trouble::NoLibrary {
                    library: failure.library,
                    message: message.clone(),
                };
                self.add_cause(Sureness::Measured, cause);
            }
            let mut starts = examination.starts.iter();
            if let Some(start) = starts.find(|start| start.library == failure.library) {
                self.add_library_causes(start, failure, place.module_version.as_deref());
            }
        }
    }

    /// Adds libraries that are stubs for linking, or have another version than the kernel's driver.
    fn add_library_causes(
        &mut self,
        start: &LibraryStart,
        failure: &StartFailure,
        module: Option<&str>,
    ) {
        let status = failure.call.as_ref().map_or("", |call| &call.status);
        for library in &start.libraries {
            let path = library.path.clone();
            if status == "CUDA_ERROR_STUB_LIBRARY" || path.split('/').any(|part| part == "stubs") {
                self.add_cause(Sureness::Measured, Trouble::Stub { path });
            } else if let (Some(version), Some(module)) = (version_in(&path), module)
                && version != module
            {
                let module = module.to_owned();
                let cause = Trouble::OtherVersion {
                    path,
                    version,
                    module,
                };
                self.add_present_cause(MISMATCH.contains(&status), cause);
            }
        }
    }

    fn add_file_causes(
        &mut self,
        examination: &Examination,
        needs: &[NeedFacts],
        failures: &[StartFailure],
    ) {
        // Without a driver no device file is expected.
        let has_module = examination.place.module_version.is_some();
        for tried in &examination.files {
            if !has_module && tried.file.starts_with("/dev/") {
                continue;
            }
            if let Some(cause) = refused_file(tried) {
                let error = tried.error.as_deref();
                let sureness = refusal_sureness(needs, failures, &tried.file, error);
                self.add_cause(sureness, cause);
            } else if is_another_device(examination, tried) {
                let cause = Trouble::NotTheDevice {
                    path: tried.file.clone(),
                    device: tried.device,
                };
                // To CUDA such a file is the same as a missing one.
                self.add_cause(refusal_sureness(needs, failures, &tried.file, None), cause);
            }
        }
    }

    fn add_call_causes(
        &mut self,
        examination: &Examination,
        needs: &[NeedFacts],
        failures: &[StartFailure],
    ) {
        for tried in &examination.system_calls {
            let Some(error) = &tried.error else { continue };
            let cause = Trouble::SystemCall {
                call: tried.call.clone(),
                error: error.clone(),
            };
            self.add_cause(
                refusal_sureness(needs, failures, &tried.call, Some(error)),
                cause,
            );
        }
    }

    fn add_gpu_causes(&mut self, gpus: &[GpuState], failures: &[StartFailure]) {
        let mut failures = failures.iter();
        let driver = failures.find(|failure| failure.library == Started::Driver);
        let Some(call) = driver.and_then(|failure| failure.call.as_ref()) else {
            return;
        };
        for state in gpus {
            let gpu = state.gpu.uuid.clone();
            let processes = state.reading.processes.as_deref().unwrap_or_default();
            let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
            let mode = state.gpu.compute_mode.clone().unwrap_or_default();
            if mode == "Prohibited" || (mode.starts_with("Exclusive") && !pids.is_empty()) {
                let explains_error = matches!(
                    call.status.as_str(),
                    "CUDA_ERROR_DEVICE_UNAVAILABLE" | "CUDA_ERROR_INVALID_DEVICE"
                );
                let cause = Trouble::Exclusive {
                    gpu: gpu.clone(),
                    mode,
                    pids: pids.clone(),
                };
                self.add_present_cause(explains_error, cause);
            }
            if let Some(free_bytes) = free_bytes(state)
                && free_bytes < CONTEXT_BYTES
            {
                let explains_error = call.status == "CUDA_ERROR_OUT_OF_MEMORY"
                    && call.call.starts_with("cuDevicePrimaryCtx");
                let cause = Trouble::Full {
                    gpu: gpu.clone(),
                    free_bytes,
                    pids,
                };
                self.add_present_cause(explains_error, cause);
            }
            if state.gpu.mig == Some(true) && call.status == "CUDA_ERROR_NO_DEVICE" {
                self.add_cause(Sureness::Possible, Trouble::Mig { gpu });
            }
        }
    }
}

/// Returns the memory of a GPU that is neither used nor reserved.
fn free_bytes(state: &GpuState) -> Option<u64> {
    let reserved = state.gpu.reserved_bytes.unwrap_or(0);
    let used = state.reading.used_bytes?.saturating_add(reserved);
    Some(state.gpu.total_bytes?.saturating_sub(used))
}

/// The device file that every driver library opens first.
const CONTROL: &str = "/dev/nvidiactl";

/// Statuses of libraries that do not match the kernel driver.
const MISMATCH: [&str; 4] = [
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    "CUDA_ERROR_SYSTEM_NOT_READY",
];

/// Returns the progress of a start: greater values got further.
fn start_progress(start: &LibraryStart) -> (bool, usize, usize) {
    let made = start.calls.iter().filter(|call| call.code == 0).count();
    (start.is_good(), start.seen.len(), made)
}

/// Returns how certain it is that this denied file or system call causes one of these failures.
fn refusal_sureness(
    needs: &[NeedFacts],
    failures: &[StartFailure],
    refused: &str,
    error: Option<&str>,
) -> Sureness {
    let pattern = file_pattern(refused);
    let mut sureness = Sureness::Possible;
    for need in needs {
        let is_of_error = error.is_none_or(|error| need.errors.iter().any(|known| known == error));
        if need.refused != pattern || !is_of_error {
            continue;
        }
        for failure in failures {
            if failure.program() != need.program {
                continue;
            }
            if explains_failure(need, failure, pattern) {
                return Sureness::Measured;
            }
            sureness = Sureness::Next;
        }
    }
    sureness
}

/// Returns `true` if a missing need of the program is known to cause exactly this failure.
fn explains_failure(need: &NeedFacts, failure: &StartFailure, pattern: &str) -> bool {
    match (&failure.call, &failure.ended) {
        (Some(call), _) => {
            need.status == call.status && without_ordinal(&need.call) == without_ordinal(&call.call)
        }
        // If no process starts, this one was denied something that it needs.
        (None, Some(ended)) => ended.is_not_started(),
        // No call failed, and no GPU was counted: the survey still queries one.
        (None, None) => failure.missing.is_none() && pattern == FIRST_GPU,
    }
}

impl StartFailure {
    fn program(&self) -> NeedsProgram {
        match self.library {
            Started::Driver => NeedsProgram::Driver,
            Started::Nvml => NeedsProgram::Nvml,
        }
    }
}

/// Returns the call without the GPU that it is made for.
fn without_ordinal(call: &str) -> &str {
    call.split(' ').next().unwrap_or(call)
}

/// The device file whose results apply to those of all GPUs in the tables.
const FIRST_GPU: &str = "/dev/nvidia0";

/// Returns the name of a file in the tables. Results for the first GPU's device file apply to those of all GPUs.
fn file_pattern(file: &str) -> &str {
    let number = file.strip_prefix("/dev/nvidia").unwrap_or_default();
    let is_gpu = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_gpu { FIRST_GPU } else { file }
}

fn environment(examination: &Examination, change: &StartChange) -> Trouble {
    let value = match change {
        StartChange::Without { variable } => examination.place.environment.get(variable).cloned(),
        _ => None,
    };
    Trouble::Environment {
        change: change.clone(),
        value,
    }
}

/// Returns the trouble with a file, or `None` if it could be opened.
fn refused_file(tried: &FileTry) -> Option<Trouble> {
    let FileTry {
        file: path,
        error,
        mode,
        owner,
        ..
    } = tried;
    Some(Trouble::File {
        path: path.clone(),
        error: error.clone()?,
        mode: *mode,
        owner: *owner,
    })
}

/// Returns `true` if a device file does not belong to the NVIDIA driver.
fn is_another_device(examination: &Examination, tried: &FileTry) -> bool {
    let majors = &examination.place.majors;
    let name = tried.file.trim_start_matches("/dev/");
    if majors.is_empty() || !name.starts_with("nvidia") || name.contains('/') {
        return false;
    }
    let Some((device, _)) = tried.device else {
        return true;
    };
    let is_uvm = name.starts_with("nvidia-uvm");
    let mut majors = majors.iter();
    !majors.any(|(driver, major)| (driver == "nvidia-uvm") == is_uvm && *major == device)
}

/// Returns the version at the end of a library's file name: `libcuda.so.580.159.04`.
pub(crate) fn version_in(path: &str) -> Option<String> {
    let (_, version) = path.rsplit('/').next()?.split_once(".so.")?;
    let is_version = version.contains('.')
        && version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version.then(|| version.to_owned())
}

/// Returns the GPUs of the kernel driver, or those of NVML if the kernel driver does not report any, as on the
/// simulated machine.
fn physical_gpus(examination: &Examination) -> Vec<KernelGpu> {
    let mut gpus = examination.place.gpus.clone();
    if !gpus.is_empty() {
        return gpus;
    }
    for state in examination.starts.iter().flat_map(|start| &start.gpus) {
        if let Some(device_minor) = state.gpu.device_minor {
            let uuid = Some(state.gpu.uuid.clone());
            gpus.push(KernelGpu { device_minor, uuid });
        }
    }
    gpus
}

/// Returns the GPUs that the kernel has and CUDA does not show, each with the cause.
fn find_hidden_gpus(examination: &Examination, driver: &LibraryStart) -> Vec<HiddenGpu> {
    if driver.seen.is_empty() {
        return Vec::new();
    }
    let gpus = physical_gpus(examination);
    // A MIG instance has its own UUID, different from the UUID of its GPU.
    let has_instances = !driver
        .seen
        .iter()
        .all(|seen: &String| gpus.iter().any(|gpu| gpu.uuid.as_ref() == Some(seen)));
    let mut divided: BTreeSet<&String> = BTreeSet::new();
    for state in examination.starts.iter().flat_map(|start| &start.gpus) {
        if state.gpu.mig == Some(true) {
            divided.insert(&state.gpu.uuid);
        }
    }
    let mut hidden = Vec::new();
    for gpu in &gpus {
        let Some(uuid) = &gpu.uuid else { continue };
        let is_divided = divided.contains(uuid);
        if driver.seen.contains(uuid) || (has_instances && is_divided) {
            continue;
        }
        let mut by = what_hides(examination, uuid, gpu.device_minor);
        if by.is_none() && is_divided {
            by = Some(Trouble::Mig { gpu: uuid.clone() });
        }
        hidden.push(HiddenGpu {
            device_minor: gpu.device_minor,
            uuid: gpu.uuid.clone(),
            by,
        });
    }
    hidden
}

/// Returns the part of the environment that hides a GPU (the GPU is visible without it), or the GPU's device file if it
/// cannot be opened.
fn what_hides(examination: &Examination, uuid: &String, device_minor: u32) -> Option<Trouble> {
    for start in &examination.starts {
        if let Some(change) = &start.changed
            && start.library == Started::Driver
            && start.seen.contains(uuid)
        {
            return Some(environment(examination, change));
        }
    }
    let path = format!("/dev/nvidia{device_minor}");
    let mut files = examination.files.iter();
    refused_file(files.find(|tried| tried.file == path)?)
}
