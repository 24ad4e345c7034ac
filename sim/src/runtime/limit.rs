//! Limits of the runtime: they belong to the context of the current device, and asking for one makes it.

use super::call_in;
use crate::c::put;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceGetLimit(value: *mut usize, limit: u32) -> u32 {
    // SAFETY: the caller passes a pointer to a size, or null.
    call_in("cudaDeviceGetLimit", |process, _, context| unsafe { put(value, process.limit(context, limit)? as usize) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDeviceSetLimit(limit: u32, value: usize) -> u32 {
    call_in("cudaDeviceSetLimit", |process, _, context| process.set_limit(context, limit, value as u64))
}
