//! Reading memory and processes of every GPU.

use cuda_pitfalls_calls::{CallLibrary, status};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    nvmlMemory_t, nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND, nvmlReturn_t,
};

use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::sample::{Process, Reading, SamplerEvent, Snapshot};

/// Returns the reason why NVML cannot be used, with NVML's message.
pub(super) fn unavailable_event(error: &NvmlError) -> SamplerEvent {
    let reason = match error {
        NvmlError::LibloadingError(_)
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::LibraryNotFound => "no_nvml",
        NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch => "no_driver",
        NvmlError::NotFound => "no_gpu",
        _ => "nvml_error",
    };
    SamplerEvent::Unavailable {
        reason: reason.to_string(),
        detail: match error {
            NvmlError::LibloadingError(loader) => loader.to_string(),
            error => error.to_string(),
        },
    }
}

pub(super) struct GpuHandles<'nvml> {
    nvml: &'nvml Nvml,
    devices: Vec<Device<'nvml>>,
}

impl<'nvml> GpuHandles<'nvml> {
    pub(super) fn open(nvml: &'nvml Nvml) -> Result<GpuHandles<'nvml>, SamplerEvent> {
        let count = nvml
            .device_count()
            .map_err(|error| unavailable_event(&error))?;
        if count == 0 {
            return Err(SamplerEvent::Unavailable {
                reason: "no_gpu".to_string(),
                detail: "NVML counts 0 GPUs".to_string(),
            });
        }
        let devices: Result<Vec<_>, _> = (0..count)
            .map(|index| nvml.device_by_index(index))
            .collect();
        let devices = devices.map_err(|error| unavailable_event(&error))?;
        Ok(GpuHandles { nvml, devices })
    }

    pub(super) fn len(&self) -> usize {
        self.devices.len()
    }

    pub(super) fn devices(&self) -> &[Device<'nvml>] {
        &self.devices
    }

    /// Returns NVML v2 `used` of one GPU. This is the fastest reading.
    pub(super) fn used_bytes(&self, gpu: usize) -> Option<u64> {
        self.devices
            .get(gpu)?
            .memory_info()
            .ok()
            .map(|memory| memory.used)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let t_ns = clock::now_ns();
        let gpus = self
            .devices
            .iter()
            .map(|device| self.read(device))
            .collect();
        Snapshot {
            t_ns,
            elapsed_ns: clock::now_ns() - t_ns,
            gpus,
        }
    }

    pub(super) fn read(&self, device: &Device) -> Reading {
        let mut reading = Reading::default();
        match device.memory_info() {
            Ok(memory) => {
                reading.used_bytes = Some(memory.used);
                reading.reserved_bytes = Some(memory.reserved);
            }
            Err(error) => reading
                .errors
                .push(format!("nvmlDeviceGetMemoryInfo_v2: {}", name(error))),
        }
        match self.memory_v1(device) {
            Ok(used) => reading.v1_used_bytes = Some(used),
            Err(code) => reading
                .errors
                .push(format!("nvmlDeviceGetMemoryInfo: {}", name_of(code))),
        }
        match processes(device) {
            Ok(processes) => reading.processes = Some(processes),
            Err(error) => reading.errors.push(format!(
                "nvmlDeviceGetComputeRunningProcesses: {}",
                name(error)
            )),
        }
        reading
    }

    /// NVML v1 `used`, which includes the driver's reserve; the wrapper has only v2.
    fn memory_v1(&self, device: &Device) -> Result<u64, nvmlReturn_t> {
        let function = self
            .nvml
            .lib()
            .nvmlDeviceGetMemoryInfo
            .as_ref()
            .map_err(|_| FUNCTION_NOT_FOUND)?;
        let mut memory = nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: the handle lives as long as the session, and the struct is v1.
        match unsafe { function(device.handle(), &raw mut memory) } {
            0 => Ok(memory.used),
            code => Err(code),
        }
    }
}

/// NVML's status for a missing function. The wrapper notices a missing function before calling NVML.
const FUNCTION_NOT_FOUND: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND;

/// Returns the wrapper's error by the name in NVML's header, which users search for.
fn name(error: NvmlError) -> String {
    match error {
        NvmlError::FailedToLoadSymbol(_) => name_of(FUNCTION_NOT_FOUND),
        error => name_of(nvmlReturn_t::from(error)),
    }
}

fn name_of(code: nvmlReturn_t) -> String {
    status::name(CallLibrary::Nvml, i64::from(code))
        .map_or_else(|| format!("code {code}"), str::to_string)
}

/// Returns the compute processes, sorted by PID. If the list grew between NVML's two calls, it is read again.
fn processes(device: &Device) -> Result<Vec<Process>, NvmlError> {
    let mut tries = 0;
    let listed = loop {
        match device.running_compute_processes() {
            Err(NvmlError::InsufficientSize(_)) if tries < 3 => tries += 1,
            other => break other?,
        }
    };
    let mut processes: Vec<_> = listed.iter().map(process).collect();
    processes.sort_unstable();
    Ok(processes)
}

/// Returns a process of one of NVML's lists.
pub(super) fn process(listed: &ProcessInfo) -> Process {
    Process {
        pid: listed.pid,
        used_bytes: match listed.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_bear_the_names_of_the_header() {
        for (error, expected) in [
            (NvmlError::GpuLost, "NVML_ERROR_GPU_IS_LOST"),
            (NvmlError::ResetRequired, "NVML_ERROR_RESET_REQUIRED"),
            (NvmlError::NotSupported, "NVML_ERROR_NOT_SUPPORTED"),
            (
                NvmlError::FailedToLoadSymbol("no symbol".to_string()),
                "NVML_ERROR_FUNCTION_NOT_FOUND",
            ),
            (NvmlError::UnexpectedVariant(28), "NVML_ERROR_GPU_NOT_FOUND"),
            (NvmlError::UnexpectedVariant(4242), "code 4242"),
        ] {
            assert_eq!(name(error), expected);
        }
    }
}
