//! The log of errors of the runtime, which is that of the driver; asking for it makes a context (context/log-query-makes-one).

use super::call_in;
use crate::c::put;
use crate::driver::put_log;
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLogsCurrent(iterator: *mut u32, _flags: u32) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call_in("cudaLogsCurrent", |process, _, _| unsafe { put(iterator, process.log_end()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLogsDumpToMemory(
    _iterator: *mut u32,
    text: *mut c_char,
    bytes: *mut usize,
    _flags: u32,
) -> u32 {
    // SAFETY: see above.
    call_in("cudaLogsDumpToMemory", |process, _, _| unsafe { put_log(process.log_end()?, text, bytes) })
}
