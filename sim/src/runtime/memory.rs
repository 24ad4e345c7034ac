//! Memory calls of the runtime: each makes the context of the current device if need be, even a free.

use super::{call, call_in};
use crate::c::put;
use crate::model::memory::{HostKind, Place};
use crate::model::process::Process;
use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMalloc(address: *mut u64, bytes: usize) -> u32 {
    call_in("cudaMalloc", |process, _, context| {
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        let found = if bytes == 0 { 0 } else { process.allocate(context, bytes as u64)? };
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFree(address: u64) -> u32 {
    call_in("cudaFree", |process, _, _| {
        if address == 0 {
            return Ok(());
        }
        match process.free_host(address, HostKind::Managed) {
            Err(INVALID_VALUE) => process.free(address),
            outcome => outcome,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocManaged(address: *mut u64, bytes: usize, flags: u32) -> u32 {
    call_in("cudaMallocManaged", |process, _, context| {
        // 1 is attached to all streams, 2 to the host.
        if address.is_null() || !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(address, process.allocate_host(context, bytes, HostKind::Managed)?) }
    })
}

/// Since 13.0, with a place of eight bytes. Measured without memory to give advice about (context/failed-call-makes-one).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemAdvise(address: u64, _bytes: usize, _advice: u32, _place: u64) -> u32 {
    call_in("cudaMemAdvise", |_, _, _| Err(if address == 0 { INVALID_VALUE } else { SIM_NOT_MODELLED }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostAlloc(address: *mut u64, bytes: usize, _flags: u32) -> u32 {
    // SAFETY: see above.
    call_in("cudaHostAlloc", |process, _, context| unsafe { pinned(process, context, address, bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocHost(address: *mut u64, bytes: usize) -> u32 {
    // SAFETY: see above.
    call_in("cudaMallocHost", |process, _, context| unsafe { pinned(process, context, address, bytes) })
}

/// # Safety
/// `address` is null or valid for a write.
unsafe fn pinned(
    process: &mut Process,
    context: crate::model::context::Owner,
    address: *mut u64,
    bytes: usize,
) -> Outcome {
    if address.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the rest.
    unsafe { put(address, process.allocate_host(context, bytes, HostKind::Pinned)?) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeHost(address: u64) -> u32 {
    call_in(
        "cudaFreeHost",
        |process, _, _| {
            if address == 0 { Ok(()) } else { process.free_host(address, HostKind::Pinned) }
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostRegister(address: u64, bytes: usize, _flags: u32) -> u32 {
    call_in("cudaHostRegister", |process, _, context| process.register(context, address, bytes))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaHostUnregister(address: u64) -> u32 {
    call_in("cudaHostUnregister", |process, _, _| process.unregister(address))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> u32 {
    call_in("cudaMemGetInfo", |process, _, context| {
        let (free_bytes, total_bytes) = process.memory_info(context.device)?;
        // SAFETY: see above.
        unsafe {
            put(free, free_bytes as usize)?;
            put(total, total_bytes as usize)
        }
    })
}

/// `cudaPointerAttributes`, up to the fields that newer versions reserve.
#[repr(C)]
pub struct PointerAttributes {
    kind: u32,
    device: i32,
    device_pointer: u64,
    host_pointer: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, address: u64) -> u32 {
    call("cudaPointerGetAttributes", |process, _| {
        let (kind, device, device_pointer, host_pointer) = match process.place_of(address) {
            Place::Device(_) if process.is_imported(address) => return Err(SIM_NOT_MODELLED),
            Place::Device(device) => (2, device as i32, address, 0),
            Place::Host(HostKind::Managed, device) => (3, device as i32, address, address),
            Place::Host(HostKind::Pinned, device) => (1, device as i32, address, address),
            Place::Host(HostKind::Registered, _) => return Err(SIM_NOT_MODELLED),
            // Plain host memory: "unregistered", on the device number that means none.
            Place::Unknown => (0, -2, 0, address),
        };
        // SAFETY: see above.
        unsafe { put(attributes, PointerAttributes { kind, device, device_pointer, host_pointer }) }
    })
}
