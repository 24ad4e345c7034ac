//! The hook: the library that the driver calls inside `cuInit`, before it reads its variables, and
//! that stands before the C library's functions for changing variables and for starting programs.
//!
//! The driver opens it by `CUDA_INJECTION64_PATH`; the loader puts it before the C library by
//! `LD_PRELOAD`. It is the same file both times, so both share what they know.

#![deny(unsafe_op_in_unsafe_fn)]

mod c;
mod loader;
mod post;
mod variable;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use post::Message;
use variable::is_of_cuda;

/// Whether the driver has called [`InitializeInjection`] in this process.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// More writes than this of one process are not told.
const MOST_WRITES: u32 = 256;
static WRITES: AtomicU32 = AtomicU32::new(0);

/// An injection library that was there before the trace; see [`InitializeInjection`].
const EARLIER: &CStr = c"CUDA_PITFALLS_EARLIER_INJECTION64_PATH";

/// Called by the driver, once per process, on the thread that calls `cuInit` first and before it
/// reads `CUDA_VISIBLE_DEVICES` (measured with drivers 550.163.01 and 580.159.04).
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let errno = c::Errno::kept();
    WAS_CALLED.store(true, Ordering::SeqCst);
    let mut message = Message::event("init", "cuInit", post::number());
    message.word("witness", "injection").pairs("variables", &c::variables(is_of_cuda)).parked().send(None);
    drop(errno);
    // SAFETY: the name of a library that the user chose, and a function of the type that the driver
    // itself would call in it.
    unsafe {
        let path = real_getenv(EARLIER.as_ptr());
        if path.is_null() || *path == 0 {
            return 1;
        }
        let library = c::dlopen(path, c::RTLD_LAZY);
        if library.is_null() {
            return 1;
        }
        let function = c::dlsym(library, c"InitializeInjection".as_ptr());
        if function.is_null() {
            return 1;
        }
        std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(function)()
    }
}

/// The C library's own function of a name, looked up once.
fn next(slot: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends in NUL.
    let found = unsafe { c::dlsym(loader::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Relaxed);
    found
}

/// Tells of a change of a variable, after it was made.
fn tell(call: &str, name: &[u8], before: Option<Vec<u8>>, after: Option<&[u8]>, status: c_int) {
    let writes = WRITES.fetch_add(1, Ordering::Relaxed);
    if writes > MOST_WRITES {
        return;
    }
    let _errno = c::Errno::kept();
    if writes == MOST_WRITES {
        Message::of("silent", call, post::number()).send(None);
        return;
    }
    let mut message = Message::event("variable", call, post::number());
    message.bytes("name", Some(name)).bytes("before", before.as_deref()).bytes("value", after);
    message.number("status", i64::from(status)).parked().send(None);
}

/// The variable's value now.
fn value(name: &[u8]) -> Option<Vec<u8>> {
    c::variables(|known| known == name).pop().map(|(_, value)| value)
}

/// # Safety
/// As for the C function.
unsafe fn bytes_of<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller vouches for it.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setenv(name: *const c_char, text: *const c_char, overwrite: c_int) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    type Setenv = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
    // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, Setenv>(next(&REAL, c"setenv"));
        let key = bytes_of(name);
        if !is_of_cuda(key) {
            return real(name, text, overwrite);
        }
        let before = value(key);
        let status = real(name, text, overwrite);
        tell("setenv", key, before, value(key).as_deref(), status);
        status
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn putenv(entry: *mut c_char) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: as for `setenv`.
    unsafe {
        let real =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_char) -> c_int>(next(&REAL, c"putenv"));
        let key = bytes_of(entry).split(|byte| *byte == b'=').next().unwrap_or_default().to_vec();
        if !is_of_cuda(&key) {
            return real(entry);
        }
        let before = value(&key);
        let status = real(entry);
        tell("putenv", &key, before, value(&key).as_deref(), status);
        status
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: as for `setenv`.
    unsafe {
        let real =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(next(&REAL, c"unsetenv"));
        let key = bytes_of(name).to_vec();
        if !is_of_cuda(&key) {
            return real(name);
        }
        let before = value(&key);
        let status = real(name);
        if before.is_some() {
            tell("unsetenv", &key, before, value(&key).as_deref(), status);
        }
        status
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clearenv() -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: as for `setenv`.
    unsafe {
        let real = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(next(&REAL, c"clearenv"));
        let before = c::variables(is_of_cuda);
        let status = real();
        for (name, value) in before {
            tell("clearenv", &name, Some(value), None, status);
        }
        status
    }
}

/// Whether an environment keeps a new program in the trace.
///
/// # Safety
/// `all` is null or an array of C strings that ends in null.
unsafe fn is_kept(all: *const *const c_char) -> bool {
    let mut at = all;
    // SAFETY: the caller vouches for it.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            if CStr::from_ptr(*at).to_bytes().starts_with(b"CUDA_INJECTION64_PATH=") {
                return true;
            }
            at = at.add(1);
        }
    }
    false
}

/// Tells that a program is about to be started without the trace's variables.
///
/// # Safety
/// As for the functions of the C library that start programs.
unsafe fn tell_lost(call: &str, program: *const c_char, all: *const *const c_char) {
    // SAFETY: the caller vouches for it.
    unsafe {
        if program.is_null() || is_kept(all) || !post::is_heard() {
            return;
        }
        let _errno = c::Errno::kept();
        Message::of("lost", call, post::number()).bytes("program", Some(bytes_of(program))).send(None);
    }
}

type Texts = *const *const c_char;

macro_rules! starts {
    ($($name:ident $text:literal ($($argument:ident: $type:ty),*) $program:ident $environment:expr;)*) => {$(
        /// # Safety
        /// As for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            // SAFETY: as for `setenv`; `environ` is read as every reader of it does.
            unsafe {
                let real = next(&REAL, $text);
                tell_lost(stringify!($name), $program, $environment);
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(real)($($argument),*)
            }
        }
    )*};
}
starts! {
    execve c"execve" (program: *const c_char, arguments: Texts, variables: Texts) program variables;
    execvpe c"execvpe" (program: *const c_char, arguments: Texts, variables: Texts) program variables;
    execv c"execv" (program: *const c_char, arguments: Texts) program c::environ;
    execvp c"execvp" (program: *const c_char, arguments: Texts) program c::environ;
    posix_spawn c"posix_spawn" (
        pid: *mut c_int, program: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts,
        variables: Texts
    ) program variables;
    posix_spawnp c"posix_spawnp" (
        pid: *mut c_int, program: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts,
        variables: Texts
    ) program variables;
}

/// # Safety
/// As for `getenv`.
unsafe fn real_getenv(name: *const c_char) -> *mut c_char {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: as for `setenv`.
    unsafe {
        let real = next(&REAL, c"getenv");
        if real.is_null() {
            return std::ptr::null_mut();
        }
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut c_char>(real)(name)
    }
}

/// Only libcuda's own question for the mask is told: it proves in which order the hook and the mask
/// come, and which value the driver got.
///
/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: as for `setenv`.
    unsafe {
        let found = real_getenv(name);
        if bytes_of(name) == b"CUDA_VISIBLE_DEVICES" && post::is_heard() {
            let _errno = c::Errno::kept();
            if c::frames()
                .iter()
                .skip(1)
                .take(3)
                .any(|frame| loader::file_of(*frame).is_some_and(|file| is_libcuda(&file)))
            {
                let value = (!found.is_null()).then(|| bytes_of(found).to_vec());
                let mut message = Message::event("mask_read", "getenv", post::number());
                message.bytes("value", value.as_deref());
                message.flag("after_hook", WAS_CALLED.load(Ordering::SeqCst)).send(None);
            }
        }
        found
    }
}

/// Whether a file is a libcuda, the simulated one included.
fn is_libcuda(file: &[u8]) -> bool {
    let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or(file);
    name.starts_with(b"libcuda.so") || name.starts_with(b"libcuda_pitfalls_sim")
}
