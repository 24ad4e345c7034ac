//! Information from the loader.

use crate::c;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `RTLD_NEXT`: the next definition after the calling library's.
pub const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

/// `Dl_info`: the name of the file, the base address of the file, the name of the symbol, and its address.
type DlInfo = [*const c_char; 4];

/// The first fields of `dl_phdr_info` and `link_map`.
#[repr(C)]
pub struct LoadedFile {
    begins: usize,
    pub name: *const c_char,
}

/// The request of [`dlinfo`] for the `link_map` of a library.
pub const RTLD_DI_LINKMAP: c_int = 2;

/// The versions that `dlsym` has in the C library, by architecture and age.
pub const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

unsafe extern "C" {
    pub fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    pub fn dl_iterate_phdr(
        look: extern "C" fn(*const LoadedFile, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub fn dlinfo(handle: *mut c_void, request: c_int, into: *mut c_void) -> c_int;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// Returns the file that holds the code at an address, as the loader knows it.
pub fn file_of(address: usize) -> Option<Vec<u8>> {
    let mut info = [std::ptr::null(); 4];
    // SAFETY: `info` is writable; the name lives as long as the library is loaded, and is copied.
    unsafe {
        (dladdr(address as *const c_void, &mut info) != 0 && !info[0].is_null())
            .then(|| CStr::from_ptr(info[0]).to_bytes().to_vec())
    }
}

/// Returns `true` if this process has mapped a libcuda other than the one below the trace's directory. Only the first
/// bytes of longer lines in the kernel's list are checked.
pub fn has_other_libcuda(folder: &[u8]) -> bool {
    let Some(maps) = c::Descriptor::open(c"/proc/thread-self/maps", false) else {
        return false;
    };
    let (mut room, mut line, mut length) = ([0; 4096], [0; 1024], 0);
    let (mut has_other, mut has_ours) = (false, false);
    loop {
        let part = maps.read(&mut room);
        if part.is_empty() {
            return has_other && !has_ours;
        }
        for byte in part {
            if *byte != b'\n' {
                if let Some(room) = line.get_mut(length) {
                    (*room, length) = (*byte, length + 1);
                }
                continue;
            }
            let text = line.get(..length).unwrap_or_default();
            length = 0;
            if text.windows(11).any(|name| name == b"/libcuda.so") {
                let is_ours =
                    !folder.is_empty() && text.windows(folder.len()).any(|part| part == folder);
                (has_other, has_ours) = (has_other | !is_ours, has_ours | is_ours);
            }
        }
    }
}
