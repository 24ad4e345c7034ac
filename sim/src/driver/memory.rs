//! Memory calls of the driver.

use super::call;
use crate::c::put;
use crate::model::memory::HostKind;
use crate::model::status::INVALID_VALUE;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if bytes == 0 || address.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(address, process.allocate(current, bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call(|process, thread| process.driver_free(address, thread))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    call(|process, thread| {
        let (free_bytes, total_bytes) = process.memory_info(process.current(thread)?.device)?;
        // SAFETY: see above.
        unsafe {
            put(free, free_bytes as usize)?;
            put(total, total_bytes as usize)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(address: *mut u64, bytes: usize) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(address, process.allocate_host(current, bytes, HostKind::Pinned)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: u64) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        process.free_host(address, HostKind::Pinned)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: u64) -> u32 {
    call(|process, thread| {
        let device = process.stream_owner(stream, process.current(thread))?.device;
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(address, process.allocate_async(device, bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> u32 {
    call(|process, thread| {
        process.stream_owner(stream, process.current(thread))?;
        process.free_async(address)
    })
}

/// The memory is on no GPU until something touches it there, which no call here does (memory/managed-comes-with-the-touch).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        // 1 is attached to all streams, 2 to the host.
        if address.is_null() || !matches!(flags, 1 | 2) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(address, process.allocate_host(current, bytes, HostKind::Managed)?) }
    })
}
