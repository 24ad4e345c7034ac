//! Initialisation, versions and error texts.

use crate::c::put;
use crate::model::entry::enter;
use crate::model::names::{self, DRIVER};
use crate::model::node::node;
use crate::model::process::no_node;
use crate::model::status::{INVALID_VALUE, code};
use crate::model::texts::sentence;
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> u32 {
    enter(|process, _| if flags == 0 { process.init() } else { Err(INVALID_VALUE) })
}

/// Needs no initialisation and does none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    // SAFETY: the caller passes a pointer to an int.
    code(node().map_err(no_node).and_then(|node| unsafe { put(version, node.machine.cuda_driver_version) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: u32, text: *mut *const c_char) -> u32 {
    // SAFETY: the caller passes a pointer to a text pointer; the texts are static.
    unsafe { put_static(names::name(DRIVER, error), text) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> u32 {
    // SAFETY: as above.
    unsafe { put_static(names::name(DRIVER, error).map(|name| sentence(error).unwrap_or(name)), text) }
}

/// # Safety
/// `text` is null or valid for a write.
unsafe fn put_static(found: Option<&'static std::ffi::CStr>, text: *mut *const c_char) -> u32 {
    let pointer = found.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: the caller vouches for the pointer.
    let stored = unsafe { put(text, pointer) };
    code(stored.and(found.map(|_| ()).ok_or(INVALID_VALUE)))
}
