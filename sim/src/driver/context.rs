//! Contexts: primary ones, others, the thread's stack, limits.

use super::{call, call_on};
use crate::c::put;
use crate::model::process::Process;
use crate::model::status::{INVALID_CONTEXT, INVALID_VALUE, Outcome, SIM_NOT_MODELLED};
use crate::model::thread::Thread;
use std::ffi::c_void;

/// The flags a context may have: scheduling, host mapping, local memory and core dumps.
pub const CONTEXT_FLAGS: u32 = 0xff;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut u64, device: i32) -> u32 {
    call(|process, _| {
        let device = process.ordinal(device)?;
        if context.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(context, process.retain_primary(device)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    call(|process, _| {
        let device = process.ordinal(device)?;
        process.release_primary(device)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> u32 {
    call(|process, _| {
        let device = process.ordinal(device)?;
        process.reset_primary(device);
        Ok(())
    })
}

/// Makes no context: it is how one asks whether there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32) -> u32 {
    call(|process, _| {
        let primary = &process.device(device)?.primary;
        // SAFETY: see above.
        unsafe {
            put(flags, primary.flags)?;
            put(active, i32::from(primary.active))
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) -> u32 {
    call(|process, _| {
        let device = process.ordinal(device)?;
        if flags & !CONTEXT_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        process.devices[device].primary.flags = flags;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut u64, flags: u32, device: i32) -> u32 {
    // SAFETY: see above.
    call(|process, thread| unsafe { create(process, thread, context, flags, device) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(context: *mut u64, params: *const c_void, flags: u32, device: i32) -> u32 {
    call(|process, thread| {
        if !params.is_null() {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { create(process, thread, context, flags, device) }
    })
}

/// # Safety
/// `context` is null or valid for a write.
unsafe fn create(process: &mut Process, thread: &mut Thread, context: *mut u64, flags: u32, device: i32) -> Outcome {
    let device = process.ordinal(device)?;
    if context.is_null() || flags & !CONTEXT_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let handle = process.create_context(device)?;
    thread.stack.push(handle);
    // SAFETY: not null; the caller vouches for the rest.
    unsafe { put(context, handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: u64) -> u32 {
    call_on(context, INVALID_VALUE, |process, thread| process.destroy_context(context, thread))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPushCurrent_v2(context: u64) -> u32 {
    call(|process, thread| {
        thread.stack.push(process.selectable(context)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut u64) -> u32 {
    call(|_, thread| {
        let handle = thread.stack.pop().ok_or(INVALID_CONTEXT)?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: see above.
        unsafe { put(context, handle) }
    })
}

/// Replaces the top of the stack; null takes it off.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    call(|process, thread| {
        let next = if context == 0 { None } else { Some(process.selectable(context)?) };
        thread.set_current(next);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut u64) -> u32 {
    // SAFETY: see above.
    call(|_, thread| unsafe { put(context, thread.current().unwrap_or(0)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut i32) -> u32 {
    // SAFETY: see above.
    call(|process, thread| unsafe { put(device, process.current_device(thread)? as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> u32 {
    call(|process, thread| process.wait_for_current(thread))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetLimit(value: *mut usize, limit: u32) -> u32 {
    // SAFETY: see above.
    call(|process, thread| unsafe { put(value, process.limit(process.current(thread)?, limit)? as usize) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> u32 {
    call(|process, thread| process.set_limit(process.current(thread)?, limit, value as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: u64, flags: u32) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if flags == 0 { process.enable_peer(current, peer) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDisablePeerAccess(peer: u64) -> u32 {
    call(|process, thread| process.disable_peer(process.current(thread)?, peer))
}
