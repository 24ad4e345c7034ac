//! Devices: handles and what they are.

use super::status::*;
use super::{FIRST_HANDLE, HANDLE_STEP, call, call_on, put, put_text};
use crate::c::text;
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut u32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call(|node| unsafe { put(count, node.machine.gpus.len() as u32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut u64) -> u32 {
    call(|node| {
        if index as usize >= node.machine.gpus.len() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: see above.
        unsafe { put(device, FIRST_HANDLE + u64::from(index) * HANDLE_STEP) }
    })
}

/// Takes the whole UUID only: the abbreviations that the mask allows name nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut u64) -> u32 {
    call(|node| {
        // SAFETY: see above.
        let uuid = unsafe { text(uuid) }.ok_or(INVALID_ARGUMENT)?;
        let index = node.machine.gpus.iter().position(|gpu| gpu.uuid.as_bytes() == uuid.as_bytes()).ok_or(NOT_FOUND)?;
        // SAFETY: see above.
        unsafe { put(device, FIRST_HANDLE + index as u64 * HANDLE_STEP) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: u64, text: *mut c_char, room: u32) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, _, gpu| unsafe { put_text(text, room, &gpu.uuid) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: u64, text: *mut c_char, room: u32) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, _, gpu| unsafe { put_text(text, room, &gpu.name) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetIndex(device: u64, index: *mut u32) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, found, _| unsafe { put(index, found as u32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: u64, minor: *mut u32) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, found, _| unsafe { put(minor, found as u32) })
}

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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: u64, info: *mut PciInfo) -> u32 {
    call_on(device, |_, _, gpu| {
        let pci = gpu.pci;
        let mut found = PciInfo {
            legacy_bus_id: [0; 16],
            domain: pci.domain,
            bus: pci.bus,
            device: pci.device,
            device_id: gpu.pci_device_id,
            subsystem_id: 0,
            bus_id: [0; 32],
        };
        let place = format!("{:02X}:{:02X}.0", pci.bus, pci.device);
        // SAFETY: both texts go into arrays of ours that are longer than they are.
        unsafe {
            put_text(found.legacy_bus_id.as_mut_ptr(), 16, &format!("{:04X}:{place}", pci.domain))?;
            put_text(found.bus_id.as_mut_ptr(), 32, &format!("{:08X}:{place}", pci.domain))?;
        }
        // SAFETY: see above.
        unsafe { put(info, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeMode(device: u64, mode: *mut u32) -> u32 {
    // SAFETY: see above. 0 is the default mode: any number of processes.
    call_on(device, |_, _, _| unsafe { put(mode, 0) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPersistenceMode(device: u64, mode: *mut u32) -> u32 {
    // SAFETY: see above.
    call_on(device, |_, _, gpu| unsafe { put(mode, u32::from(gpu.persistence_mode)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(device: u64, current: *mut u32, pending: *mut u32) -> u32 {
    call_on(device, |_, _, gpu| {
        if !gpu.mig_capable {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: see above.
        unsafe {
            put(current, 0)?;
            put(pending, 0)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(device: u64, major: *mut i32, minor: *mut i32) -> u32 {
    call_on(device, |_, _, gpu| {
        // SAFETY: see above.
        unsafe {
            put(major, gpu.capability.0)?;
            put(minor, gpu.capability.1)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetArchitecture(device: u64, architecture: *mut u32) -> u32 {
    call_on(device, |_, _, gpu| {
        let found = match gpu.capability {
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
        };
        // SAFETY: see above.
        unsafe { put(architecture, found) }
    })
}
