//! What the loader knows.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `RTLD_NEXT`: the next definition after the calling library's.
pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

/// `Dl_info`: the name of the file, where the file begins, the name of the symbol, and where the symbol is.
type DlInfo = [*const c_char; 4];

/// The versions that `dlsym` has in the C library, by architecture and age.
pub const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

unsafe extern "C" {
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The file that holds the code at an address, as the loader knows it.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    let mut info = [std::ptr::null(); 4];
    // SAFETY: `info` is writable; the name lives as long as the library is loaded, and is copied.
    unsafe {
        (dladdr(address as *const c_void, &mut info) != 0 && !info[0].is_null())
            .then(|| CStr::from_ptr(info[0]).to_bytes().to_vec())
    }
}
