//! Devices: handles and properties.

use super::status::*;
use super::{FIRST_HANDLE, HANDLE_STEP, call, call_on, counted, put, put_text};
use crate::model::needs;
use crate::pointer::{InText, Out};
use crate::symbols::symbols;
use std::ffi::c_char;

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    legacy_bus_id: [c_char; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    bus_id: [c_char; 32],
}

fn gpus(count: &Out<u32>) -> u32 {
    call(|_| put(count, counted().len() as u32))
}

fn handle(index: u32, device: &Out<u64>) -> u32 {
    call(|_| {
        let gpu = *counted().get(index as usize).ok_or(INVALID_ARGUMENT)?;
        needs::nvml::check_handle(gpu)?;
        put(device, FIRST_HANDLE + gpu as u64 * HANDLE_STEP)
    })
}

symbols! {
    fn nvmlDeviceGetCount_v2(count: Out<u32>) = gpus(&count);

    fn nvmlDeviceGetCount(count: Out<u32>) = gpus(&count);

    fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Out<u64>) = handle(index, &device);

    fn nvmlDeviceGetHandleByIndex(index: u32, device: Out<u64>) = handle(index, &device);

    /// Accepts only the complete UUID: the abbreviations that the mask allows are not valid here.
    fn nvmlDeviceGetHandleByUUID(uuid: InText, device: Out<u64>) = call(|machine| {
        let uuid = uuid.bytes().map_err(|_| INVALID_ARGUMENT)?;
        let index = machine.description.gpus.iter().position(|gpu| gpu.uuid.as_bytes() == uuid);
        let index = index.filter(|gpu| counted().contains(gpu)).ok_or(NOT_FOUND)?;
        put(&device, FIRST_HANDLE + index as u64 * HANDLE_STEP)
    });

    fn nvmlDeviceGetUUID(device: u64, text: Out<c_char>, room: u32) =
        // SAFETY: here and below the caller passes an array of this length, or null.
        call_on(device, |_, _, gpu| unsafe { put_text(&text, room, &gpu.uuid) });

    fn nvmlDeviceGetName(device: u64, text: Out<c_char>, room: u32) =
        // SAFETY: see above.
        call_on(device, |_, _, gpu| unsafe { put_text(&text, room, &gpu.name) });

    fn nvmlDeviceGetIndex(device: u64, index: Out<u32>) = call_on(device, |_, found, _| put(&index, found as u32));

    fn nvmlDeviceGetMinorNumber(device: u64, minor: Out<u32>) =
        call_on(device, |_, found, _| put(&minor, found as u32));

    fn nvmlDeviceGetPciInfo_v3(device: u64, info: Out<PciInfo>) = call_on(device, |_, _, gpu| {
        let pci = gpu.pci;
        let in_domain = format!("{:02X}:{:02X}.0", pci.bus, pci.device);
        put(&info, PciInfo {
            legacy_bus_id: padded(&format!("{:04X}:{in_domain}", pci.domain)),
            domain: pci.domain,
            bus: pci.bus,
            device: pci.device,
            device_id: gpu.pci_device_id,
            subsystem_id: 0,
            bus_id: padded(&format!("{:08X}:{in_domain}", pci.domain)),
        })
    });

    /// 0 is the default mode: any number of processes.
    fn nvmlDeviceGetComputeMode(device: u64, mode: Out<u32>) = call_on(device, |_, _, _| put(&mode, 0));

    fn nvmlDeviceGetPersistenceMode(device: u64, mode: Out<u32>) =
        call_on(device, |_, _, gpu| put(&mode, u32::from(gpu.persistence_mode)));

    fn nvmlDeviceGetMigMode(device: u64, current: Out<u32>, pending: Out<u32>) = call_on(device, |_, _, gpu| {
        if !gpu.mig_capable {
            return Err(NOT_SUPPORTED);
        }
        put(&current, u32::from(gpu.mig_enabled))?;
        put(&pending, u32::from(gpu.mig_enabled))
    });

    fn nvmlDeviceIsMigDeviceHandle(device: u64, answer: Out<u32>) = call_on(device, |_, _, _| put(&answer, 0));

    /// No kernel runs, and nothing is copied by a GPU. With MIG it is not supported (NVML API Reference).
    fn nvmlDeviceGetUtilizationRates(device: u64, percent: Out<[u32; 2]>) =
        call_on(device, |_, _, gpu| if gpu.mig_enabled { Err(NOT_SUPPORTED) } else { put(&percent, [0, 0]) });

    fn nvmlDeviceGetEncoderUtilization(device: u64, percent: Out<u32>, period_us: Out<u32>) =
        idle(device, &percent, &period_us);

    fn nvmlDeviceGetDecoderUtilization(device: u64, percent: Out<u32>, period_us: Out<u32>) =
        idle(device, &percent, &period_us);

    fn nvmlDeviceGetCudaComputeCapability(device: u64, major: Out<i32>, minor: Out<i32>) = call_on(device, |_, _, gpu| {
        put(&major, gpu.capability.0)?;
        put(&minor, gpu.capability.1)
    });

    fn nvmlDeviceGetArchitecture(device: u64, architecture: Out<u32>) =
        call_on(device, |_, _, gpu| put(&architecture, architecture_of(gpu.capability)));
}

/// Writes the utilization of an idle engine, and the sampling period in microseconds.
fn idle(device: u64, percent: &Out<u32>, period_us: &Out<u32>) -> u32 {
    call_on(device, |_, _, _| {
        put(percent, 0).and_then(|()| put(period_us, 0))
    })
}

/// Defines the functions that a simulated GPU does not support: it has no sensors, clocks or links, draws no power,
/// corrects no errors, and is near no CPU.
macro_rules! unsupported {
    ($($name:ident)*) => { symbols! { $(fn $name(device: u64) = call_on(device, |_, _, _| Err(NOT_SUPPORTED));)* } };
}

unsupported! {
    nvmlDeviceGetTemperature nvmlDeviceGetTemperatureV nvmlDeviceGetFanSpeed nvmlDeviceGetPowerUsage
    nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetPowerManagementLimit nvmlDeviceGetPerformanceState
    nvmlDeviceGetTotalEccErrors nvmlDeviceGetDriverModel nvmlDeviceGetDriverModel_v2
    nvmlDeviceGetConfComputeMemSizeInfo nvmlDeviceGetCpuAffinity nvmlDeviceGetRunningProcessDetailList
    nvmlDeviceGetDisplayActive nvmlDeviceGetDisplayMode nvmlDeviceGetClockInfo nvmlDeviceGetMaxClockInfo
    nvmlDeviceGetPcieThroughput
}

/// `nvmlDeviceArchitecture_t` of a compute capability.
fn architecture_of(capability: (i32, i32)) -> u32 {
    match capability {
        (3, _) => 2,
        (5, _) => 3,
        (6, _) => 4,
        (7, 0 | 2) => 5,
        (7, _) => 6,
        (8, 9) => 8,
        (8, _) => 7,
        (9, _) => 9,
        (10..=12, _) => 10,
        _ => u32::MAX,
    }
}

/// Returns a text in a longer array, padded with NULs.
fn padded<const ROOM: usize>(text: &str) -> [c_char; ROOM] {
    let mut bytes = text.bytes();
    std::array::from_fn(|_| bytes.next().unwrap_or(0) as c_char)
}
