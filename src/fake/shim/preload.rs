//! The hook: the library that the driver calls inside `cuInit`, before it reads its variables, and
//! that stands before the C library's functions for changing variables and for starting programs.
//!
//! The driver opens it by `CUDA_INJECTION64_PATH`; the loader puts it before the C library by
//! `LD_PRELOAD`. It is the same file both times, so both share what they know.

#![deny(unsafe_op_in_unsafe_fn)]

mod c;
mod loader;
mod post;
mod shared;
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
    let is_first = !WAS_CALLED.swap(true, Ordering::SeqCst);
    let mut message = Message::event("init", "cuInit", post::number());
    message.word("witness", "injection").pairs("variables", &c::variables(is_of_cuda)).parked().send(None);
    drop(errno);
    // The earlier one may be this one.
    if !is_first {
        return 1;
    }
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
        // It waits: who has ended cannot be recognised any more.
        Message::of("silent", call, post::number()).waiting().send(None);
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

macro_rules! writes {
    ($($name:ident $text:literal ($($argument:ident: $type:ty),*) $key:expr;)*) => {$(
        /// # Safety
        /// As for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            type Real = unsafe extern "C" fn($($type),*) -> c_int;
            // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
            unsafe {
                let real = std::mem::transmute::<*mut c_void, Real>(next(&REAL, $text));
                let key = $key.to_vec();
                if !is_of_cuda(&key) {
                    return real($($argument),*);
                }
                let before = value(&key);
                let status = real($($argument),*);
                let after = value(&key);
                // The removal of what there is not changes nothing.
                if before.is_some() || stringify!($name) != "unsetenv" {
                    tell(stringify!($name), &key, before, after.as_deref(), status);
                }
                status
            }
        }
    )*};
}
writes! {
    setenv c"setenv" (name: *const c_char, text: *const c_char, overwrite: c_int) bytes_of(name);
    putenv c"putenv" (entry: *mut c_char) bytes_of(entry).split(|byte| *byte == b'=').next().unwrap_or_default();
    unsetenv c"unsetenv" (name: *const c_char) bytes_of(name);
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

/// What keeps a new program in the trace.
const KEEPING: [&[u8]; 2] = [b"CUDA_INJECTION64_PATH=", b"CUDA_PITFALLS_TRACED="];

/// More variables are not looked at.
const MOST_VARIABLES: usize = 1 << 16;

/// What an environment makes of a new program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It stays in the trace.
    Here,
    /// It is in another trace.
    Elsewhere,
    /// It is in none.
    Nowhere,
}

/// What an environment makes of a new program; none if it cannot be read, as the system will find.
fn kept(all: Texts) -> Option<Kept> {
    let mut found = [false; KEEPING.len()];
    let mut is_own = true;
    let mut pointers = c::Bytes::from(all);
    for _ in 0..MOST_VARIABLES {
        // Linux takes none for an empty environment.
        let variable = if all.is_null() { std::ptr::null() } else { pointers.pointer()? };
        if variable.is_null() {
            return Some(Kept::Nowhere);
        }
        for (name, found) in KEEPING.iter().zip(&mut found) {
            let mut text = c::Bytes::from(variable);
            let mut is_same = true;
            for byte in *name {
                is_same = is_same && text.next()? == *byte;
            }
            if is_same && name.ends_with(b"TRACED=") {
                for byte in post::folder().iter().chain(b"\0") {
                    is_own = is_own && text.next()? == *byte;
                }
            }
            *found |= is_same;
        }
        if found.iter().all(|found| *found) {
            return Some(if is_own { Kept::Here } else { Kept::Elsewhere });
        }
    }
    None
}

/// A message in memory of the caller's own. What does not fit is left out.
struct Line {
    bytes: [u8; Line::ROOM],
    length: usize,
}

impl Line {
    const ROOM: usize = 768;
    /// How much is kept free for what comes after a text.
    const REST: usize = 32;

    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(room) = self.bytes.get_mut(self.length) {
                *room = *byte;
                self.length += 1;
            }
        }
    }

    fn number(&mut self, key: &str, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(key.as_bytes());
        self.push(&digits[at..]);
    }
}

/// Tells that a program is about to be started without the trace's variables, or with those of another. It may run in a signal handler, and in the
/// child of `vfork`: it allocates nothing, takes no lock of this process, and looks at no pointer that cannot be read.
fn tell_lost(call: &str, program: *const c_char, all: Texts) {
    if program.is_null() || !post::is_heard() {
        return;
    }
    let _errno = c::Errno::kept();
    let kind: &[u8] = match kept(all) {
        Some(Kept::Nowhere) => b"lost",
        Some(Kept::Elsewhere) => b"nested",
        Some(Kept::Here) | None => return,
    };
    let mut line = Line { bytes: [0; Line::ROOM], length: 0 };
    line.push(b"{\"kind\":\"");
    line.push(kind);
    line.push(b"\",\"call\":\"");
    line.push(call.as_bytes());
    line.number("\",\"number\":", post::number());
    line.number(",\"t_ns\":", c::now_ns());
    line.number(",\"tid\":", c::thread_id() as u64);
    line.number(",\"pthread\":", c::pthread_id() as u64);
    line.push(b",\"program\":\"");
    let mut text = c::Bytes::from(program);
    while line.length < Line::ROOM - Line::REST {
        match text.next() {
            // The system will find that it cannot be read.
            None => return,
            Some(0) => break,
            Some(byte @ (b' '..=b'!' | b'#'..=b'[' | b']'..=b'~')) => line.push(&[byte]),
            // This is for people, and it need not be exact.
            Some(_) => line.push(b"?"),
        }
    }
    line.push(b"\",\"parked\":false}\n");
    // It waits until it is heard: the tracer does not believe a process that has ended, and this one may be about to.
    post::send(line.bytes.get(..line.length).unwrap_or_default(), None, true);
}

type Texts = *const *const c_char;

/// Where the C library's functions are that may be called in a signal handler, which must not look them up.
#[allow(non_upper_case_globals, reason = "they have the names of C")]
mod real {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicPtr;

    pub static getenv: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static execve: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static execvpe: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static execv: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static execvp: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static posix_spawn: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    pub static posix_spawnp: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
}

/// What the loader calls once the library is in place.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let _errno = c::Errno::kept();
    for (slot, name) in [
        (&real::getenv, c"getenv"),
        (&real::execve, c"execve"),
        (&real::execvpe, c"execvpe"),
        (&real::execv, c"execv"),
        (&real::execvp, c"execvp"),
        (&real::posix_spawn, c"posix_spawn"),
        (&real::posix_spawnp, c"posix_spawnp"),
    ] {
        next(slot, name);
    }
    // A program may have changed its environment before the driver loads this library.
    let folder = value(FOLDER).or_else(|| c::first_variable(FOLDER)).unwrap_or_default();
    post::start(&folder);
}

/// The variable that names the folder of the trace (src/traced.rs).
const FOLDER: &[u8] = b"CUDA_PITFALLS_TRACED";

macro_rules! starts {
    ($($name:ident $text:literal ($($argument:ident: $type:ty),*) $program:ident $environment:expr;)*) => {$(
        /// # Safety
        /// As for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: as for `setenv`; the arguments are handed on as they came.
            unsafe {
                let real = next(&real::$name, $text);
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
    // SAFETY: as for `setenv`.
    unsafe {
        let real = next(&real::getenv, c"getenv");
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
