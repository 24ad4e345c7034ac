//! Versions, the last error, error texts and the log of errors. Most of these initialize the driver if they come first.

use super::{before, call, enter_by};
use crate::machine::machine;
use crate::model::names::{self, MESSAGES, RUNTIME};
use crate::model::status::{SUCCESS, no_machine};
use crate::pointer::Out;
use crate::symbols::runtime_symbols;
use std::ffi::{CStr, c_char};

const UNRECOGNISED: &CStr = c"unrecognized error code";

runtime_symbols! {
    fn cudaRuntimeGetVersion(version: Out<i32>) =
        call(|_, _| version.put(machine().map_err(no_machine)?.description.cuda_runtime_version));

    fn cudaDriverGetVersion(version: Out<i32>) =
        call(|_, _| version.put(machine().map_err(no_machine)?.description.cuda_driver_version));

    fn cudaGetLastError() = last_error(true);

    fn cudaPeekAtLastError() = last_error(false);
}

fn last_error(name: &str, clear: bool) -> u32 {
    enter_by(name, |effect, process, thread| {
        before(effect, process, thread)?;
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
    names::name(RUNTIME, error)
        .map_or(UNRECOGNISED, |name| {
            names::name(MESSAGES, error).unwrap_or(name)
        })
        .as_ptr()
}
