//! The sentences behind the status codes the model itself answers with.

use std::ffi::CStr;

/// The sentence for a code. A code the model never answers with has none, and the caller falls back on its name.
pub fn sentence(code: u32) -> Option<&'static CStr> {
    Some(match code {
        0 => c"no error",
        1 => c"invalid argument",
        2 => c"out of memory",
        3 => c"initialization error",
        4 => c"driver shutting down",
        46 => c"CUDA-capable device(s) is/are busy or unavailable",
        100 => c"no CUDA-capable device is detected",
        101 => c"invalid device ordinal",
        201 => c"invalid device context",
        215 => c"limit is not supported on this architecture",
        217 => c"peer access is not supported between these two devices",
        223 => c"PTX JIT compilation was disabled",
        301 => c"file not found",
        400 => c"invalid resource handle",
        500 => c"named symbol not found",
        600 => c"device not ready",
        700 => c"an illegal memory access was encountered",
        701 => c"too many resources requested for launch",
        704 => c"peer access is already enabled",
        709 => c"context is destroyed",
        710 => c"device-side assert triggered",
        712 => c"part or all of the requested memory range is already mapped",
        713 => c"pointer does not correspond to a registered memory region",
        719 => c"unspecified launch failure",
        999 => c"unknown error",
        60000 => c"the simulated driver of cuda-pitfalls does not model this call with these arguments in this state",
        _ => return None,
    })
}
