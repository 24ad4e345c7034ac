//! Libraries and launches of the runtime.

use super::{call, call_in};
use crate::c::{put, text};
use crate::driver::{Text, arguments, ptx};
use crate::model::launch::{Launch, Shape};
use crate::model::status::{INVALID_DEVICE_FUNCTION, INVALID_VALUE, SIM_NOT_MODELLED};
use std::ffi::c_void;

/// `dim3`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    fn sides(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// Makes no context (context/library-load-makes-one).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryLoadData(
    library: *mut u64,
    image: Text,
    _jit_options: *mut c_void,
    _jit_values: *mut c_void,
    jit_count: u32,
    _options: *mut c_void,
    _values: *mut c_void,
    count: u32,
) -> u32 {
    call("cudaLibraryLoadData", |process, thread| {
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
pub unsafe extern "C" fn cudaLibraryUnload(library: u64) -> u32 {
    call("cudaLibraryUnload", |process, _| process.unload_library(library))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryGetKernel(kernel: *mut u64, library: u64, name: Text) -> u32 {
    call("cudaLibraryGetKernel", |process, _| {
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        // SAFETY: see above.
        unsafe { put(kernel, process.kernel_of_library(library, name.to_str().map_err(|_| INVALID_VALUE)?)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLaunchKernel(
    kernel: u64,
    grid: Dim3,
    block: Dim3,
    params: *mut *mut c_void,
    _shared_bytes: usize,
    stream: u64,
) -> u32 {
    call_in("cudaLaunchKernel", |process, _, context| {
        // What is launched is a function of the host, and the null one was never registered.
        if kernel == 0 {
            return Err(INVALID_DEVICE_FUNCTION);
        }
        // SAFETY: see above.
        let arguments = unsafe { arguments(process, kernel, params)? };
        let shape = Shape { grid: grid.sides(), block: block.sides() };
        process.launch(kernel, Launch { shape, stream, arguments: &arguments }, Ok(context))
    })
}
