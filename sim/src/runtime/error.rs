//! Versions, the last error and error texts. Most of these initialise the driver when they come first.

use super::call;
use crate::c::put;
use crate::model::entry::enter;
use crate::model::names::{self, RUNTIME};
use crate::model::node::node;
use crate::model::process::no_node;
use crate::model::status::SUCCESS;
use crate::model::texts::sentence;
use std::ffi::{CStr, c_char};

const UNRECOGNISED: &CStr = c"unrecognized error code";

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut i32) -> u32 {
    call("cudaRuntimeGetVersion", |_, _| {
        let node = node().map_err(no_node)?;
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(version, node.machine.cuda_runtime_version) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDriverGetVersion(version: *mut i32) -> u32 {
    call("cudaDriverGetVersion", |_, _| {
        let node = node().map_err(no_node)?;
        // SAFETY: see above.
        unsafe { put(version, node.machine.cuda_driver_version) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetLastError() -> u32 {
    last_error("cudaGetLastError", true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaPeekAtLastError() -> u32 {
    last_error("cudaPeekAtLastError", false)
}

fn last_error(name: &str, clear: bool) -> u32 {
    enter(|process, thread| {
        super::before(name, process, thread)?;
        let error = thread.last_error;
        if clear {
            thread.last_error = SUCCESS;
        }
        if error == SUCCESS { Ok(()) } else { Err(error) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetErrorName(error: u32) -> *const c_char {
    call("cudaGetErrorName", |_, _| Ok(()));
    names::name(RUNTIME, error).unwrap_or(UNRECOGNISED).as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetErrorString(error: u32) -> *const c_char {
    call("cudaGetErrorString", |_, _| Ok(()));
    names::name(RUNTIME, error).map_or(UNRECOGNISED, |name| sentence(error).unwrap_or(name)).as_ptr()
}
