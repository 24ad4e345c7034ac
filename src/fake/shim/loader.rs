//! What the loader knows.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `RTLD_NEXT`: the next definition after the calling library's.
pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

/// The versions that `dlsym` has in the C library, by architecture and age.
pub const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

unsafe extern "C" {
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The file that holds the code at an address, as the loader knows it.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    let mut info = DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: `info` is writable; the name lives as long as the library is loaded, and is copied.
    unsafe {
        (dladdr(address as *const c_void, &mut info) != 0 && !info.file.is_null())
            .then(|| CStr::from_ptr(info.file).to_bytes().to_vec())
    }
}
