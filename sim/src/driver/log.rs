//! The log of errors of the driver, which can be asked before `cuInit` (the survey of calls).

use crate::c::put;
use crate::model::entry::enter;
use crate::model::status::{INVALID_VALUE, Outcome};
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLogsCurrent(iterator: *mut u32, _flags: u32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    enter(|process, _| unsafe { put(iterator, process.log_end()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLogsDumpToMemory(
    _iterator: *mut u32,
    text: *mut c_char,
    bytes: *mut usize,
    _flags: u32,
) -> u32 {
    // SAFETY: see above.
    enter(|process, _| unsafe { put_log(process.log_end()?, text, bytes) })
}

/// Writes the log up to `end`, which is an empty text: a log with something in it is not modelled.
///
/// # Safety
/// The pointers are null or valid for a write.
pub unsafe fn put_log(end: u32, text: *mut c_char, bytes: *mut usize) -> Outcome {
    if text.is_null() || bytes.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the pointers.
    unsafe { put(text, 0).and_then(|()| put(bytes, end as usize)) }
}
