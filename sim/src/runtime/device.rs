//! Devices of the runtime: choosing one, asking about one.

use super::{call, call_in, wait_in};
use crate::c::{put, put_text, text};
use crate::driver::{CONTEXT_FLAGS, gpu, put_bus_id};
use crate::model::attribute::attribute;
use crate::model::entry::{inherited_count, late_count};
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED, code};
use std::ffi::c_char;

/// `cudaDeviceMapHost`, which the runtime reports whether or not anybody set it.
const MAP_HOST: u32 = 8;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(count: *mut i32) -> u32 {
    if let Some(known) = late_count().or_else(inherited_count) {
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        return code(unsafe { put(count, known) });
    }
    call("cudaGetDeviceCount", |process, _| {
        let counted = process.devices.len() as i32;
        process.counted = Some(counted);
        // SAFETY: see above.
        unsafe { put(count, counted) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDevice(device: *mut i32) -> u32 {
    // SAFETY: see above.
    call("cudaGetDevice", |process, thread| unsafe { put(device, process.runtime_device(thread) as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetDevice(device: i32) -> u32 {
    call("cudaSetDevice", |process, thread| process.set_device(process.ordinal(device)?, thread))
}

/// Makes the context, but neither makes it current nor selects the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaInitDevice(device: i32, device_flags: u32, flags: u32) -> u32 {
    call("cudaInitDevice", |process, _| {
        let device = process.ordinal(device)?;
        if device_flags != 0 || flags != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        process.runtime_primary(device).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceReset() -> u32 {
    call("cudaDeviceReset", |process, thread| {
        let device = process.runtime_device(thread);
        let primary = process.devices[device].primary_handle;
        if thread.current().is_some_and(|current| current != primary) {
            return Err(SIM_NOT_MODELLED);
        }
        process.reset_primary(device);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceSynchronize() -> u32 {
    wait_in("cudaDeviceSynchronize", 0, |process, _, context| process.wait(context))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetAttribute(value: *mut i32, number: i32, device: i32) -> u32 {
    // SAFETY: see above.
    call("cudaDeviceGetAttribute", |process, _| unsafe { put(value, attribute(gpu(process, device)?, number)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetPCIBusId(text: *mut c_char, room: i32, device: i32) -> u32 {
    // SAFETY: see above.
    call("cudaDeviceGetPCIBusId", |process, _| unsafe { put_bus_id(process, text, room, device) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) -> u32 {
    call("cudaDeviceCanAccessPeer", |process, _| {
        let (device, peer) = (process.ordinal(device)?, process.ordinal(peer)?);
        // SAFETY: see above.
        unsafe { put(can, i32::from(process.can_access_peer(device, peer)?)) }
    })
}

/// Makes the peer's context, too (context/peer-access-makes-one-on-the-peer).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceEnablePeerAccess(peer: i32, flags: u32) -> u32 {
    call_in("cudaDeviceEnablePeerAccess", |process, _, context| {
        let peer = process.ordinal(peer)?;
        if flags != 0 || peer == context.device || !process.can_access_peer(context.device, peer)? {
            return Err(SIM_NOT_MODELLED);
        }
        let peer = process.runtime_primary(peer)?;
        process.enable_peer(context, peer)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceDisablePeerAccess(peer: i32) -> u32 {
    call_in("cudaDeviceDisablePeerAccess", |process, _, context| {
        let peer = process.ordinal(peer)?;
        process.disable_peer(context, process.devices[peer].primary_handle)
    })
}

/// Takes what `cudaDeviceGetPCIBusId` writes; shorter forms are beyond the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetByPCIBusId(device: *mut i32, id: *const c_char) -> u32 {
    call("cudaDeviceGetByPCIBusId", |process, _| {
        // SAFETY: see above.
        let wanted = unsafe { text(id) }.ok_or(INVALID_VALUE)?;
        let known = |ordinal: &usize| {
            gpu(process, *ordinal as i32)
                .is_ok_and(|gpu| gpu.pci.text().as_bytes().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        let found = (0..process.devices.len()).find(known).ok_or(SIM_NOT_MODELLED)?;
        // SAFETY: see above.
        unsafe { put(device, found as i32) }
    })
}

/// With nothing wanted, the first device is the best one. How wanted properties are weighed is not modelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaChooseDevice(device: *mut i32, wanted: *const DevicePropertiesStart) -> u32 {
    call("cudaChooseDevice", |_, _| {
        if device.is_null() || wanted.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: every version of the structure is longer than its common start, which any bytes are valid for.
        let wanted = unsafe { wanted.read_unaligned() };
        if wanted.name[0] != 0 || wanted.total_bytes != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { put(device, 0) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceFlags(flags: *mut u32) -> u32 {
    call("cudaGetDeviceFlags", |process, thread| {
        let device = process.runtime_device(thread);
        // SAFETY: see above.
        unsafe { put(flags, process.devices[device].primary.flags | MAP_HOST) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaSetDeviceFlags(flags: u32) -> u32 {
    call("cudaSetDeviceFlags", |process, thread| {
        if flags & !CONTEXT_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        let device = process.runtime_device(thread);
        process.devices[device].primary.flags = flags;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> u32 {
    call("cudaDeviceGetStreamPriorityRange", |_, _| {
        // SAFETY: see above; either may be null.
        unsafe {
            let _ = put(least, 0);
            let _ = put(greatest, -5);
        }
        Ok(())
    })
}

/// The structure differs between versions; only the fields at its start, which do not, are written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceProperties(properties: *mut DevicePropertiesStart, device: i32) -> u32 {
    call("cudaGetDeviceProperties", |process, _| {
        let gpu = gpu(process, device)?;
        if properties.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: every version of the structure is longer than its common start.
        unsafe {
            put_text((&raw mut (*properties).name).cast(), 256, &gpu.name);
            put(&raw mut (*properties).uuid, gpu.uuid_bytes)?;
            put(&raw mut (*properties).total_bytes, gpu.cuda_total_bytes() as usize)
        }
    })
}

/// The start of `cudaDeviceProp` that all versions share.
#[repr(C)]
pub struct DevicePropertiesStart {
    name: [c_char; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luid_mask: u32,
    total_bytes: usize,
}
