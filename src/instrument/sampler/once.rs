//! Starting NVML once, call by call, for `doctor`.

use std::collections::BTreeMap;
use std::time::Duration;

use cuda_pitfalls_calls::CallLibrary;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::gpus::{self, GpuHandles};
use super::inventory;
use crate::speaker::Speaker;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::examination::{ExaminerMessage, GpuState};
use cuda_pitfalls_core::sample::{Process, Reading};

/// The name that programs use to open it.
const NVML: &str = "libnvidia-ml.so.1";

/// Starts NVML as a program does, and reports its information about each GPU. It samples the utilization by processes
/// for this long; with 0, it takes what NVML has kept.
pub(crate) fn start_once(speaker: &Speaker, watch_ms: u64) {
    let mut opened = None;
    let is_open = make_call(speaker, "nvmlInit_v2", || {
        opened = Some(Nvml::builder().lib_path(NVML.as_ref()).init()?);
        Ok(())
    });
    let (Some(nvml), true) = (opened, is_open) else {
        return;
    };
    // It stays mapped, so that the parent is told which library it was.
    let nvml = Box::leak(Box::new(nvml));
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
    let Ok(gpus) = GpuHandles::open(nvml) else {
        return;
    };
    let busy = watch_utilization(gpus.devices(), watch_ms);
    for (device, busy_percent) in gpus.devices().iter().zip(busy) {
        let (reading, is_unstable) = read_stable(|| gpus.read(device));
        let listed = reading.processes.as_deref().unwrap_or_default();
        let mut graphics = list_processes(device.running_graphics_processes());
        graphics.retain(|one| listed.iter().all(|other| other.pid != one.pid));
        let clients = list_processes(device.mps_running_compute_processes());
        let state = GpuState {
            gpu: inventory::gpu(device),
            reading,
            is_unstable,
            busy_percent,
            graphics,
            mps_clients: clients.iter().map(|client| client.pid).collect(),
        };
        speaker.send_message(&ExaminerMessage::Gpu(Box::new(state)));
    }
}

/// The most readings of a GPU while its memory keeps changing.
const MOST_READINGS: usize = 50;

/// Returns a reading that is equal to the one before it, or the last one and `true` if no two are equal. NVML's total
/// and its list of processes are two calls: while a process allocates or frees memory between them, their difference
/// would look like memory of no process.
fn read_stable(mut read: impl FnMut() -> Reading) -> (Reading, bool) {
    let mut last = read();
    for _ in 0..MOST_READINGS {
        let next = read();
        if next == last {
            return (last, false);
        }
        last = next;
    }
    (last, true)
}

/// Returns a list of processes; an empty one if NVML does not have it.
fn list_processes(listed: Result<Vec<ProcessInfo>, NvmlError>) -> Vec<Process> {
    let mut processes = Vec::new();
    for one in listed.unwrap_or_default() {
        processes.push(gpus::process(&one));
    }
    processes
}

/// The time between two samples. NVML keeps about ten seconds of them, and returns their mean.
const BETWEEN_SAMPLES: Duration = Duration::from_secs(5);

/// Samples the utilization by processes for this long; with 0, what NVML has kept.
fn watch_utilization(devices: &[Device], watch_ms: u64) -> Vec<Option<BTreeMap<u32, u32>>> {
    let mut busy = vec![Some(BTreeMap::new()); devices.len()];
    let mut left = Duration::from_millis(watch_ms);
    let mut since_us = if watch_ms > 0 { unix_us() } else { 0 };
    loop {
        let rest = left.min(BETWEEN_SAMPLES);
        std::thread::sleep(rest);
        left -= rest;
        let until_us = unix_us();
        for (device, most) in devices.iter().zip(&mut busy) {
            add_utilization(device, since_us, most);
        }
        since_us = until_us;
        if left.is_zero() {
            return busy;
        }
    }
}

fn unix_us() -> u64 {
    clock::unix_ms() * 1000
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

/// Adds the utilization of the GPU's multiprocessors by each process since a time, in percent; `None` from then on if NVML
/// does not report it. NVML returns an error for a GPU without any active process.
fn add_utilization(device: &Device, since_us: u64, busy: &mut Option<BTreeMap<u32, u32>>) {
    let Some(most) = busy else { return };
    match device.process_utilization_stats(since_us) {
        Ok(samples) => {
            for sample in samples {
                let busiest = most.entry(sample.pid).or_default();
                *busiest = (*busiest).max(sample.sm_util);
            }
        }
        Err(NvmlError::NotFound) => {}
        Err(_) => *busy = None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_repeated_until_two_agree() {
        for (changes, expected) in [(0, 0), (1, 1), (7, 7), (MOST_READINGS as u64, 50)] {
            let mut readings = 0;
            let (reading, is_unstable) = read_stable(|| {
                let used_bytes = Some(changes.min(readings));
                readings += 1;
                Reading {
                    used_bytes,
                    ..Reading::default()
                }
            });
            assert_eq!(reading.used_bytes, Some(expected));
            // The last change leaves no reading to compare with.
            assert_eq!(is_unstable, changes == MOST_READINGS as u64, "{changes}");
            assert!(readings <= 1 + MOST_READINGS as u64);
        }
    }
}
