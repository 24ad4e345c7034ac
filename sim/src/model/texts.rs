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
        100 => c"no CUDA-capable device is detected",
        101 => c"invalid device ordinal",
        201 => c"invalid device context",
        215 => c"limit is not supported on this architecture",
        301 => c"file not found",
        400 => c"invalid resource handle",
        500 => c"named symbol not found",
        709 => c"context is destroyed",
        712 => c"part or all of the requested memory range is already mapped",
        713 => c"pointer does not correspond to a registered memory region",
        999 => c"unknown error",
        60000 => c"the simulated node of cuda-pitfalls does not model this call with these arguments in this state",
        _ => return None,
    })
}
