//! Devices of the runtime: choosing one, asking about one.

use super::{call, call_in};
use crate::c::{put, put_text};
use crate::driver::{CONTEXT_FLAGS, can_access_peer, gpu, put_bus_id};
use crate::model::attribute::attribute;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};
use std::ffi::c_char;

/// `cudaDeviceMapHost`, which the runtime reports whether or not anybody set it.
const MAP_HOST: u32 = 8;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetDeviceCount(count: *mut i32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call("cudaGetDeviceCount", |process, _| unsafe { put(count, process.devices.len() as i32) })
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
    call_in("cudaDeviceSynchronize", |process, _, context| {
        process.synchronise(context.device);
        Ok(())
    })
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
    // SAFETY: see above.
    call("cudaDeviceCanAccessPeer", |process, _| unsafe { put(can, can_access_peer(process, device, peer)?) })
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
