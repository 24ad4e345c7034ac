//! The few C functions that the library needs, declared by hand so that it builds with only std.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::path::PathBuf;

pub const PROT_READ_WRITE: c_int = 1 | 2;
pub const MAP_SHARED: c_int = 1;
pub const MAP_PRIVATE: c_int = 2;
/// Private, anonymous and without reserve: a large host allocation uses no memory until it is accessed.
pub const MAP_HOST: c_int = 0x02 | 0x20 | 0x4000;

/// `Dl_info`: the name of the file, the base address of the file, the name of the symbol, and its address.
type DlInfo = [*const c_char; 4];

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn getpid() -> c_int;
    fn atexit(handler: extern "C" fn()) -> c_int;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    pub fn mmap(
        at: *mut c_void,
        bytes: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    pub fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
}

/// `sigset_t`.
type SignalSet = [u64; 16];

/// Returns the process ID, queried from the kernel each time: it is how a forked child notices that the state is not
/// its own.
pub fn pid() -> u32 {
    // SAFETY: getpid has no precondition.
    unsafe { getpid() as u32 }
}

/// Registers an exit handler. If libc has no space for another one, the process ends without calling it.
pub fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler is a function of this library, which is not unloaded while a process uses it.
    unsafe {
        atexit(handler);
    }
}

/// Returns the variable as the C runtime sees it, which is what a driver sees. It uses the symbol `getenv`, which a
/// preloaded library may define. Rust's own view would be the same, but behind a lock that a forked child must not
/// touch.
pub fn env(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: the name ends in NUL; the value is copied before anything else can change the environment on this thread.
    unsafe {
        let value = getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes().to_vec())
    }
}

/// Returns the error that prevents a file from being opened for reading; 0 if it can be opened.
pub fn open_error(path: &CStr) -> i32 {
    const O_CLOEXEC: c_int = 0o2_000_000;
    // SAFETY: the path ends in NUL, and the descriptor is closed at once.
    let opened = unsafe { open(path.as_ptr(), O_CLOEXEC) };
    if opened < 0 {
        return last_error();
    }
    // SAFETY: see above.
    unsafe { close(opened) };
    0
}

/// Returns the error of a system call with the argument -1 everywhere, which is not a valid address, descriptor or
/// size; 0 if the call takes no such argument.
pub fn bad_call(number: i64) -> i32 {
    const NONE: c_long = -1;
    // SAFETY: the kernel rejects the arguments or does not read them.
    let made = unsafe { syscall(number as c_long, NONE, NONE, NONE, NONE, NONE, NONE) };
    if made < 0 { last_error() } else { 0 }
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Returns a function of a library that the loader finds by this path or name; `None` if it does not find the library,
/// or the function in it. The library stays loaded.
pub fn function(file: &[u8], name: &CStr) -> Option<unsafe extern "C" fn() -> c_int> {
    const RTLD_LAZY: c_int = 1;
    let file = CString::new(file).ok()?;
    // SAFETY: both texts end in NUL. Loading runs the library's constructors, which is the purpose of an injected
    // library.
    let found = unsafe {
        let library = dlopen(file.as_ptr(), RTLD_LAZY);
        if library.is_null() {
            library
        } else {
            dlsym(library, name.as_ptr())
        }
    };
    // SAFETY: a symbol's address, as a function; calling it is unsafe, because only its name indicates its type.
    (!found.is_null()).then(|| unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(found)
    })
}

/// Calls a function while no signal is delivered to this thread. A thread that is started meanwhile gets none.
pub fn without_signals<T>(call: impl FnOnce() -> T) -> T {
    const SIG_SETMASK: c_int = 2;
    let (mut all, mut old) = ([0; 16], [0; 16]);
    // SAFETY: both sets are as large as the type of the C library.
    unsafe {
        sigfillset(&raw mut all);
        pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut old);
    }
    let result = call();
    // SAFETY: as above.
    unsafe {
        pthread_sigmask(SIG_SETMASK, &raw const old, std::ptr::null_mut());
    }
    result
}

/// Keeps this library loaded until the process ends.
pub fn stay_loaded() {
    use std::os::unix::ffi::OsStringExt;
    const LAZY_NOLOAD_NODELETE: c_int = 1 | 4 | 0x1000;
    let path = own_path().and_then(|path| CString::new(path.into_os_string().into_vec()).ok());
    if let Some(path) = path {
        // SAFETY: the text ends in NUL, and the library is loaded already, so that nothing of it runs.
        unsafe { dlopen(path.as_ptr(), LAZY_NOLOAD_NODELETE) };
    }
}

/// Returns a symbol of this library, which a library loaded before it may also have.
pub fn own_symbol(name: &CStr) -> Option<*mut c_void> {
    use std::os::unix::ffi::OsStrExt;
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    let path = CString::new(own_path()?.as_os_str().as_bytes()).ok()?;
    // SAFETY: both texts end in NUL; the library is loaded already, and it stays so without the reference that is kept
    // here.
    let found = unsafe {
        let own = dlopen(path.as_ptr(), RTLD_LAZY | RTLD_NOLOAD);
        if own.is_null() {
            own
        } else {
            dlsym(own, name.as_ptr())
        }
    };
    (!found.is_null()).then_some(found)
}

/// Returns the path that this library was loaded from, as the loader knows it (the link's name, not the file behind
/// it).
pub fn own_path() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut info = [std::ptr::null(); 4];
    // SAFETY: the address is one of our own functions, `info` is writable, and the name lives as long as the library is
    // loaded.
    unsafe {
        if dladdr(own_path as *const c_void, &mut info) == 0 || info[0].is_null() {
            return None;
        }
        let bytes = CStr::from_ptr(info[0]).to_bytes().to_vec();
        Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }
}

/// Maps fresh host memory; `None` if the kernel denies it.
pub fn map_host(bytes: usize) -> Option<u64> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe {
        mmap(
            std::ptr::null_mut(),
            bytes,
            PROT_READ_WRITE,
            MAP_HOST,
            -1,
            0,
        )
    };
    (at as isize != -1).then_some(at as u64)
}

/// Unmaps memory from [`map_host`].
pub fn unmap_host(at: u64, bytes: usize) {
    // SAFETY: callers pass a pair that `map_host` returned and that they have just forgotten.
    unsafe {
        munmap(at as *mut c_void, bytes);
    }
}
