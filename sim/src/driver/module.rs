//! Modules, kernels and launches.

use super::call;
use crate::c::{put, text};
use crate::model::module::Shape;
use crate::model::status::{INVALID_VALUE, SIM_NOT_MODELLED};
use std::ffi::{c_char, c_void};

/// A binary image holds NUL bytes and would not end at the first one, so only what starts like text is read as text.
fn is_text(first: u8) -> bool {
    first.is_ascii_graphic() || first.is_ascii_whitespace()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_char) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if module.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an image has at least one byte; here and below pointers are what the C prototypes say, or null.
        let starts_as_text = !image.is_null() && is_text(unsafe { image.read() } as u8);
        // SAFETY: PTX text ends in NUL.
        let image = unsafe { text(image) }.ok_or(INVALID_VALUE)?;
        if !starts_as_text {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: see above.
        unsafe { put(module, process.load(current, image.as_bytes())?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        let name = name.to_str().map_err(|_| INVALID_VALUE)?;
        // SAFETY: see above.
        unsafe { put(function, process.function(module, name, current)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: u64) -> u32 {
    call(|process, thread| process.unload(module, process.current(thread)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetLoadingMode(mode: *mut i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(mode, process.loading_mode()?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryLoadData() -> u32 {
    call(|_, _| Err(SIM_NOT_MODELLED))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLibraryGetKernel() -> u32 {
    call(|_, _| Err(SIM_NOT_MODELLED))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    _shared_bytes: u32,
    stream: u64,
    _params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> u32 {
    let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] };
    call(|process, thread| process.launch(function, shape, stream, process.current(thread)?))
}
