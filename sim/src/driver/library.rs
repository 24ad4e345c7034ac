//! Libraries, which are of no context.

use super::module::{Text, ptx};
use super::{call, call_on};
use crate::c::{put, text};
use crate::model::status::{INVALID_HANDLE, INVALID_VALUE, SIM_NOT_MODELLED};
use std::ffi::c_void;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadData(
    library: *mut u64,
    image: Text,
    _jit_options: *mut c_void,
    _jit_values: *mut c_void,
    jit_count: u32,
    _options: *mut c_void,
    _values: *mut c_void,
    count: u32,
) -> u32 {
    call(|process, thread| {
        if library.is_null() {
            return Err(INVALID_VALUE);
        }
        if jit_count != 0 || count != 0 {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: here and below pointers are what the C prototypes say, or null.
        unsafe { put(library, process.load_library(ptx(image)?.as_bytes(), process.current(thread).ok())?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryUnload(library: u64) -> u32 {
    call_on(library, INVALID_HANDLE, |process, _| process.unload_library(library))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernel(kernel: *mut u64, library: u64, name: Text) -> u32 {
    call_on(library, INVALID_HANDLE, |process, _| {
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        // SAFETY: see above.
        unsafe { put(kernel, process.kernel_of_library(library, name.to_str().map_err(|_| INVALID_VALUE)?)?) }
    })
}

/// Needs a current context (context/library-load-makes-one).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuKernelGetFunction(function: *mut u64, kernel: u64) -> u32 {
    call_on(kernel, INVALID_HANDLE, |process, thread| {
        let current = process.current(thread)?;
        // SAFETY: see above.
        unsafe { put(function, process.function_in(kernel, current)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetGlobal(address: *mut u64, bytes: *mut usize, library: u64, name: Text) -> u32 {
    call_on(library, INVALID_HANDLE, |process, thread| {
        let current = process.current(thread)?;
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        let module = process.module_of_library(library, current)?;
        let (found, size) = process.variable(module, name.to_str().map_err(|_| INVALID_VALUE)?)?;
        // SAFETY: see above.
        unsafe {
            put(address, found)?;
            put(bytes, size as usize)
        }
    })
}
