//! Stream-ordered memory and the default pools.

use super::{call, call_in};
use crate::c::put;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};

const RELEASE_THRESHOLD: u32 = 4;
const RESERVED_CURRENT: u32 = 5;
const RESERVED_HIGH: u32 = 6;
const USED_CURRENT: u32 = 7;
const USED_HIGH: u32 = 8;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMallocAsync(address: *mut u64, bytes: usize, stream: u64) -> u32 {
    call_in("cudaMallocAsync", |process, _, context| {
        let device = process.stream_owner(stream, context)?.device;
        if address.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(address, process.allocate_async(device, bytes as u64)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaFreeAsync(address: u64, stream: u64) -> u32 {
    call_in("cudaFreeAsync", |process, _, context| {
        process.stream_owner(stream, context)?;
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
        let device = process.pool_device(pool)?;
        if value.is_null() {
            return Err(INVALID_VALUE);
        }
        if attribute != RELEASE_THRESHOLD {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: not null, and this attribute's value is eight bytes.
        process.devices[device].pool.release_threshold = unsafe { value.read_unaligned() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut u64) -> u32 {
    call("cudaMemPoolGetAttribute", |process, _| {
        let pool = &process.devices[process.pool_device(pool)?].pool;
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
    call("cudaMemPoolTrimTo", |process, _| process.trim(process.pool_device(pool)?, keep as u64))
}
