//! Modules, kernels and launches.

use super::call;
use crate::c::{put, text};
use crate::model::launch::{Launch, Shape};
use crate::model::process::Process;
use crate::model::status::{INVALID_VALUE, Outcome, SIM_NOT_MODELLED};
use std::ffi::{CString, c_char, c_void};

/// A text of the caller.
pub type Text = *const c_char;

/// A binary image holds NUL bytes and would not end at the first one, so only what starts like text is read as text.
fn is_text(first: u8) -> bool {
    first.is_ascii_graphic() || first.is_ascii_whitespace()
}

/// The text of an image that is PTX.
///
/// # Safety
/// `image` is null, or an image: PTX text that ends in NUL, or something with at least one byte.
pub unsafe fn ptx(image: Text) -> Outcome<CString> {
    // SAFETY: an image has at least one byte.
    if !image.is_null() && !is_text(unsafe { image.read() } as u8) {
        return Err(SIM_NOT_MODELLED);
    }
    // SAFETY: PTX text ends in NUL.
    unsafe { text(image) }.ok_or(INVALID_VALUE)
}

/// The arguments of a launch, each of which is taken to have eight bytes.
///
/// # Safety
/// `params` is null or has an entry for each parameter of the kernel, which points to its argument.
pub unsafe fn arguments(process: &Process, function: u64, params: *mut *mut c_void) -> Outcome<Vec<u64>> {
    let count = process.parameters(function)?;
    if count > 0 && params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the entries and what they point to.
    Ok((0..count).map(|at| unsafe { (*params.add(at)).cast::<u64>().read_unaligned() }).collect())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: Text) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if module.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: here and below pointers are what the C prototypes say, or null.
        unsafe { put(module, process.load(current, ptx(image)?.as_bytes())?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut u64, module: u64, name: Text) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        let name = name.to_str().map_err(|_| INVALID_VALUE)?;
        // SAFETY: see above.
        unsafe { put(function, process.function(module, name)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: u64, name: Text) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        // SAFETY: see above.
        let name = unsafe { text(name) }.ok_or(INVALID_VALUE)?;
        let (found, size) = process.variable(module, name.to_str().map_err(|_| INVALID_VALUE)?)?;
        // SAFETY: see above.
        unsafe {
            put(address, found)?;
            put(bytes, size as usize)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: u64) -> u32 {
    call(|process, thread| {
        process.current(thread)?;
        process.unload(module)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetLoadingMode(mode: *mut i32) -> u32 {
    // SAFETY: see above.
    call(|process, _| unsafe { put(mode, process.loading_mode()?) })
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
    params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> u32 {
    let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] };
    call(|process, thread| {
        let current = process.current(thread);
        // SAFETY: see above.
        let arguments = unsafe { arguments(process, function, params)? };
        process.launch(function, Launch { shape, stream, arguments: &arguments }, current)
    })
}
