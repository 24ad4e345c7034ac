//! Initialisation, versions, error texts.

use super::status::*;
use super::{OPENER, OPENINGS, call, call_anyway, is_open, put, put_text};
use crate::c;
use crate::model::node::{NoNode, node};
use crate::model::status::SIM_NOT_MODELLED;
use std::ffi::c_char;
use std::sync::atomic::Ordering;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInit_v2() -> u32 {
    match node() {
        Ok(_) => {
            if !is_open() {
                OPENINGS.store(0, Ordering::Release);
                OPENER.store(c::pid(), Ordering::Release);
            }
            OPENINGS.fetch_add(1, Ordering::AcqRel);
            SUCCESS
        }
        Err(NoNode::Missing) => NOT_FOUND,
        Err(NoNode::Malformed) => UNKNOWN,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInitWithFlags(flags: u32) -> u32 {
    // 1 is "no GPUs is fine", 2 "do not attach"; both change nothing here.
    if flags > 3 {
        return SIM_NOT_MODELLED;
    }
    // SAFETY: the call has no arguments and no precondition.
    unsafe { nvmlInit_v2() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlShutdown() -> u32 {
    if !is_open() {
        return UNINITIALIZED;
    }
    let less = OPENINGS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
    if less.is_ok() { SUCCESS } else { UNINITIALIZED }
}

/// There are no events and hence no sets; callers resolve the symbol all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(_set: u64) -> u32 {
    call(|_| Err(SIM_NOT_MODELLED))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    match code {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        ARGUMENT_VERSION_MISMATCH => c"Argument Version Mismatch",
        UNKNOWN => c"Unknown Error",
        SIM_NOT_MODELLED => c"Not modelled by the simulated node of cuda-pitfalls",
        _ => c"Unrecognized error code",
    }
    .as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, room: u32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call(|node| unsafe { put_text(text, room, &node.machine.driver_version) })
}

/// Answers before `nvmlInit` too (the survey of calls).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(text: *mut c_char, room: u32) -> u32 {
    call_anyway(|node| {
        let version = format!("{}.{}", node.machine.cuda_driver_version / 1000, node.machine.driver_version);
        // SAFETY: see above.
        unsafe { put_text(text, room, &version) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut i32) -> u32 {
    // SAFETY: see above.
    call(|node| unsafe { put(version, node.machine.cuda_driver_version) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) -> u32 {
    // SAFETY: see above.
    call(|node| unsafe { put(version, node.machine.cuda_driver_version) })
}
