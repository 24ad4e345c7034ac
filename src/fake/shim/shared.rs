//! Memory that another process can read.

use crate::c;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

const MFD_CLOEXEC: u32 = 1;
const MFD_ALLOW_SEALING: u32 = 2;
const F_ADD_SEALS: c_int = 1033;
/// F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW: the length stays.
const SEALS: c_int = 1 | 2 | 4;
const RLIMIT_FSIZE: c_int = 1;
const PROT_READ: c_int = 1;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
const MADV_WIPEONFORK: c_int = 18;

#[cfg(target_arch = "x86_64")]
const SYS_MEMFD_CREATE: i64 = 319;
#[cfg(target_arch = "aarch64")]
const SYS_MEMFD_CREATE: i64 = 279;

unsafe extern "C" {
    fn ftruncate(fd: c_int, length: i64) -> c_int;
    fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// Returns space for a value that the tracer writes into its copy of this library, behind the mark that locates it.
pub const fn room<const BYTES: usize>(mark: &[u8]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let mut at = 0;
    while at < mark.len() {
        bytes[at] = mark[at];
        at += 1;
    }
    bytes
}

/// Returns zeroed memory that another process can read through the descriptor, which the caller closes. Its length is
/// sealed, because a tracer accepts no other memory.
pub fn memory(name: &CStr, bytes: usize) -> Option<(*mut c_void, c_int)> {
    let mut limits = [u64::MAX; 2];
    // SAFETY: the descriptor is ours; the mapping is of a file that has this length and that only
    // we can shorten.
    unsafe {
        // A process that makes a file longer than its limit is killed.
        if getrlimit(RLIMIT_FSIZE, &mut limits) == 0 && limits[0] < bytes as u64 {
            return None;
        }
        let fd = c::syscall(
            SYS_MEMFD_CREATE,
            name.as_ptr(),
            MFD_CLOEXEC | MFD_ALLOW_SEALING,
        ) as c_int;
        if fd < 0 {
            return None;
        }
        let mapped = match ftruncate(fd, bytes as i64) | fcntl(fd, F_ADD_SEALS, SEALS) {
            0 => mmap(
                std::ptr::null_mut(),
                bytes,
                PROT_READ_WRITE,
                MAP_SHARED,
                fd,
                0,
            ),
            _ => -1isize as *mut c_void,
        };
        if mapped as isize == -1 {
            c::close(fd);
            return None;
        }
        Some((mapped, fd))
    }
}

/// Returns a word that is 1 in this process and 0 in each child, however it was forked; null if the kernel does not
/// support that.
pub fn wiped_in_children() -> *mut AtomicU32 {
    // SAFETY: nothing is mapped over, and the word lies at the beginning of the mapping.
    unsafe {
        let page = mmap(
            std::ptr::null_mut(),
            c::PAGE,
            PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS,
            -1,
            0,
        );
        if page as isize == -1 || madvise(page, c::PAGE, MADV_WIPEONFORK) != 0 {
            return std::ptr::null_mut();
        }
        (*page.cast::<AtomicU32>()).store(1, Ordering::Relaxed);
        page.cast()
    }
}

/// Maps the beginning of a file that another process has too, for reading and, if wanted, for writing.
pub fn file(path: &CStr, bytes: usize, writes: bool) -> Option<*mut c_void> {
    let file = c::Descriptor::open(path, writes)?;
    let protection = if writes { PROT_READ_WRITE } else { PROT_READ };
    // SAFETY: nothing is mapped over; the file outlives its descriptor.
    let mapped = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            MAP_SHARED,
            file.0,
            0,
        )
    };
    (mapped as isize != -1).then_some(mapped)
}

/// Closes a descriptor of [`memory`].
pub fn close_descriptor(fd: c_int) {
    // SAFETY: the caller owns it.
    unsafe { c::close(fd) };
}
