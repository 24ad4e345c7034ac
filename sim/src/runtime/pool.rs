//! Stream-ordered memory and its pools.

use super::{call, call_in};
use crate::c::put;
use crate::driver::{Access, Wanted, device_of};
use crate::model::process::Process;
use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocAsync(address: *mut u64, bytes: usize, stream: u64) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    let work = |process: &mut Process, current| unsafe {
        let device = process.stream_owner(stream, current)?.device;
        let pool = process.devices[device].pool_handle;
        allocate(process, address, bytes, pool)
    };
    if Process::is_explicit(stream) {
        return call("cudaMallocAsync on an explicit stream", |process, _| work(process, Err(SIM_NOT_MODELLED)));
    }
    call_in("cudaMallocAsync", |process, _, context| work(process, Ok(context)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocFromPoolAsync(address: *mut u64, bytes: usize, pool: u64, stream: u64) -> u32 {
    call_in("cudaMallocFromPoolAsync", |process, _, context| {
        let device = process.stream_owner(stream, Ok(context))?.device;
        if process.pool(pool)?.device != device {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { allocate(process, address, bytes, pool) }
    })
}

/// # Safety
/// `address` is null or valid for a write.
unsafe fn allocate(process: &mut Process, address: *mut u64, bytes: usize, pool: u64) -> Outcome {
    if address.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the rest.
    unsafe { put(address, process.allocate_from(pool, bytes as u64)?) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeAsync(address: u64, stream: u64) -> u32 {
    call_in("cudaFreeAsync", |process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        process.free_async(address)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetDefaultMemPool(pool: *mut u64, device: i32) -> u32 {
    // SAFETY: see above.
    call("cudaDeviceGetDefaultMemPool", |process, _| unsafe { put(pool, process.device(device)?.pool_handle) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolSetAttribute(pool: u64, attribute: u32, value: *mut u64) -> u32 {
    call("cudaMemPoolSetAttribute", |process, _| {
        let pool = process.pool(pool)?;
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        if attribute != RELEASE_THRESHOLD {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: not null, and this attribute's value is eight bytes.
        pool.pool.release_threshold = unsafe { value.read_unaligned() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut u64) -> u32 {
    call("cudaMemPoolGetAttribute", |process, _| {
        let pool = &process.pool(pool)?.pool;
        let found = match attribute {
            RELEASE_THRESHOLD => pool.release_threshold,
            RESERVED_CURRENT => pool.reserved,
            RESERVED_HIGH => pool.reserved_high,
            USED_CURRENT => pool.used,
            USED_HIGH => pool.used_high,
            _ => return Err(SIM_NOT_MODELLED),
        };
        // SAFETY: see above.
        unsafe { put(value, found) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolTrimTo(pool: u64, keep: usize) -> u32 {
    call("cudaMemPoolTrimTo", |process, _| process.trim(pool, keep as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolCreate(pool: *mut u64, wanted: *const Wanted) -> u32 {
    call("cudaMemPoolCreate", |process, _| {
        // SAFETY: see above.
        let device = unsafe { device_of(process, wanted)? };
        // SAFETY: see above.
        unsafe { put(pool, process.create_pool(device)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolSetAccess(pool: u64, access: *const Access, count: usize) -> u32 {
    call("cudaMemPoolSetAccess", |process, _| {
        // SAFETY: see above.
        let device = unsafe { Access::device(process, access, count)? };
        process.open_pool(pool, device)
    })
}
