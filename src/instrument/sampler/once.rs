//! Starting NVML once, call by call, for `doctor`.

use std::collections::BTreeMap;
use std::time::Duration;

use cuda_pitfalls_calls::CallLibrary;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::gpus::GpuHandles;
use super::inventory;
use crate::speaker::Speaker;
use cuda_pitfalls_core::examination::{ExaminerMessage, GpuState};

/// The name that programs use to open it.
const NVML: &str = "libnvidia-ml.so.1";

/// Starts NVML as a program does, and reports its information about each GPU. It watches the utilization by processes
/// for this long.
pub(crate) fn start_once(speaker: &Speaker, watch_ms: u64) {
    let mut opened = None;
    let is_open = make_call(speaker, "nvmlInit_v2", || {
        opened = Some(Nvml::builder().lib_path(NVML.as_ref()).init()?);
        Ok(())
    });
    let (Some(nvml), true) = (opened, is_open) else {
        return;
    };
    let mut count = 0;
    if !make_call(speaker, "nvmlDeviceGetCount_v2", || {
        nvml.device_count().map(|found| count = found)
    }) {
        return;
    }
    let (mut devices, mut is_whole) = (Vec::new(), true);
    for index in 0..count {
        let is_there = make_call(
            speaker,
            &format!("nvmlDeviceGetHandleByIndex_v2 {index}"),
            || {
                devices.push(nvml.device_by_index(index)?);
                Ok(())
            },
        );
        is_whole &= is_there;
    }
    for device in &devices {
        if let Ok(uuid) = device.uuid() {
            speaker.send_message(&ExaminerMessage::Seen { uuid });
        }
    }
    if !is_whole {
        return;
    }
    let Ok(gpus) = GpuHandles::open(&nvml) else {
        return;
    };
    std::thread::sleep(Duration::from_millis(watch_ms));
    for device in gpus.devices() {
        let state = GpuState {
            gpu: inventory::gpu(device),
            reading: gpus.read(device),
            busy_percent: if watch_ms > 0 {
                process_utilization(device, watch_ms)
            } else {
                None
            },
        };
        speaker.send_message(&ExaminerMessage::Gpu(Box::new(state)));
    }
}

/// Makes an NVML call, and reports the result.
fn make_call(speaker: &Speaker, call: &str, make: impl FnOnce() -> Result<(), NvmlError>) -> bool {
    let mut missing = None;
    let is_made = speaker.call(CallLibrary::Nvml, call, || match make() {
        Ok(()) => 0,
        Err(NvmlError::LibloadingError(error)) => {
            missing = Some(error.to_string());
            i64::from(nvmlReturn_t::from(NvmlError::LibraryNotFound))
        }
        Err(error) => i64::from(nvmlReturn_t::from(error)),
    });
    if let Some(message) = missing {
        speaker.send_message(&ExaminerMessage::Missing { message });
    }
    is_made
}

/// Returns the maximum recent utilization of the GPU's multiprocessors by each process, in percent; `None` if NVML does
/// not report it. NVML returns an error for a GPU without any active process.
fn process_utilization(device: &Device, watch_ms: u64) -> Option<BTreeMap<u32, u32>> {
    let now_us = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?
        .as_micros() as u64;
    let samples = match device.process_utilization_stats(now_us.saturating_sub(watch_ms * 1000)) {
        Ok(samples) => samples,
        Err(NvmlError::NotFound) => Vec::new(),
        Err(_) => return None,
    };
    let mut busy: BTreeMap<u32, u32> = BTreeMap::new();
    for sample in samples {
        let most = busy.entry(sample.pid).or_default();
        *most = (*most).max(sample.sm_util);
    }
    Some(busy)
}
