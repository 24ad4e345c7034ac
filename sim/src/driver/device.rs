//! Devices: pure queries, none of which makes a context.

use super::call;
use crate::c::{put, put_text};
use crate::model::attribute::attribute;
use crate::model::machine::Gpu;
use crate::model::process::Process;
use crate::model::status::{INVALID_VALUE, Outcome};
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call(|process, _| unsafe { put(count, process.devices.len() as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    call(|process, _| {
        process.ordinal(ordinal)?;
        // SAFETY: see above.
        unsafe { put(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: i32, device: i32) -> u32 {
    call(|process, _| {
        let gpu = gpu(process, device)?;
        let room = usize::try_from(room).ok().filter(|room| *room > 0 && !name.is_null()).ok_or(INVALID_VALUE)?;
        // A name that does not fit is cut, not refused.
        let cut = &gpu.name[..gpu.name.floor_char_boundary(room - 1)];
        // SAFETY: see above.
        unsafe { put_text(name, room, cut) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(uuid, gpu(process, device)?.uuid_bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(uuid, gpu(process, device)?.uuid_bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, number: i32, device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(value, attribute(gpu(process, device)?, number)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, room: i32, device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put_bus_id(process, text, room, device) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(bytes, gpu(process, device)?.cuda_total_bytes() as usize) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) -> u32 {
    call(|process, _| {
        let (device, peer) = (process.ordinal(device)?, process.ordinal(peer)?);
        // SAFETY: see above.
        unsafe { put(can, i32::from(process.can_access_peer(device, peer)?)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(pool, process.device(device)?.pool_handle) })
}

/// The GPU behind an ordinal.
pub fn gpu(process: &Process, device: i32) -> Outcome<&'static Gpu> {
    Ok(&process.node()?.machine.gpus[process.device(device)?.gpu])
}

/// Writes a PCI bus id as CUDA writes it, with a domain of four digits.
///
/// # Safety
/// `text` is null or valid for `room` bytes.
pub unsafe fn put_bus_id(process: &Process, text: *mut c_char, room: i32, device: i32) -> Outcome {
    let id = gpu(process, device)?.pci.text();
    let room = usize::try_from(room).ok().filter(|_| !text.is_null()).ok_or(INVALID_VALUE)?;
    // SAFETY: not null; the caller vouches for the room.
    if unsafe { put_text(text, room, &id) } { Ok(()) } else { Err(INVALID_VALUE) }
}
