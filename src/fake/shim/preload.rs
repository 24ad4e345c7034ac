//! The hook: the library that the driver calls inside `cuInit`, before it reads its variables. It also replaces the C
//! library's functions for changing variables and for starting programs.
//!
//! The driver opens it by `CUDA_INJECTION64_PATH`; the loader puts it before the C library by `LD_PRELOAD`. It is the
//! same file both times, so both share their state.

#![deny(unsafe_op_in_unsafe_fn)]
// C's `open` has `...` for the mode. On Linux it is in the register of a third argument on x86-64 and AArch64 alike, and
// Rust of the version that is promised cannot define functions with `...`. Newer compilers know the lint.
#![allow(unknown_lints, invalid_runtime_symbol_definitions)]

#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod c;
mod loader;
mod optional;
#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod post;
#[allow(dead_code, reason = "the other library of a trace needs the rest")]
mod shared;
mod variable;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use post::TracerMessage;
use variable::is_of_cuda;

/// `true` if the driver has called [`InitializeInjection`] in this process.
static WAS_CALLED: AtomicBool = AtomicBool::new(false);

/// Maximum number of writes that a process reports.
const MOST_WRITES: u32 = 256;
static WRITES: AtomicU32 = AtomicU32::new(0);

/// An injection library that was set before the trace; see [`InitializeInjection`].
const EARLIER: &CStr = c"CUDA_PITFALLS_EARLIER_INJECTION64_PATH";

/// Called by the driver, once per process, on the thread that calls `cuInit` first and before it reads
/// `CUDA_VISIBLE_DEVICES` (measured with drivers 550.163.01 and 580.159.04).
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    let is_first = !WAS_CALLED.swap(true, Ordering::SeqCst);
    if IS_PRELOADED.load(Ordering::Relaxed) {
        keep_variables();
    }
    TracerMessage::event("init", "cuInit", post::number())
        .word("witness", "injection")
        .pairs("variables", &c::variables(is_of_cuda))
        .parked()
        .send(None);
    // The earlier library may be this one.
    if !is_first {
        return 1;
    }
    // SAFETY: the name of a library that the user chose, and a function of the type that the driver
    // itself would call in it.
    unsafe {
        let path = real_getenv(EARLIER.as_ptr());
        if path.is_null() || *path == 0 {
            1
        } else {
            c::call_injection(path).unwrap_or(1)
        }
    }
}

/// Returns the C library's own function with a name, looked up once.
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

/// The variables after `cuInit` or after the last write that was seen, and the process that has them.
static KEPT: Mutex<(i32, Variables)> = Mutex::new((0, Vec::new()));
type Variables = Vec<(Vec<u8>, Vec<u8>)>;

fn keep_variables() {
    if let Ok(mut kept) = KEPT.try_lock() {
        // SAFETY: it has no precondition.
        *kept = (unsafe { c::getpid() }, c::variables(is_of_cuda));
    }
}

/// Reports variables that were written in a way that is not intercepted, as by the address of `setenv` in the C library.
/// A forked child does not: its copy may be locked by a thread that it does not have, and so may its memory.
fn tell_unseen_writes() {
    let Ok(kept) = KEPT.try_lock() else { return };
    // SAFETY: it has no precondition.
    if kept.0 != unsafe { c::getpid() } {
        return;
    }
    let now = c::variables(is_of_cuda);
    for (name, after) in &now {
        let mut earlier = kept.1.iter().filter(|(known, _)| known == name);
        let before = earlier.next().map(|(_, value)| value.clone());
        if before.as_ref() != Some(after) {
            tell("environ", name, before, Some(after), 0);
        }
    }
    for (name, before) in &kept.1 {
        if !now.iter().any(|(known, _)| known == name) {
            tell("environ", name, Some(before.clone()), None, 0);
        }
    }
}

/// Reports a change of a variable, after it was made.
fn tell(call: &str, name: &[u8], before: Option<Vec<u8>>, after: Option<&[u8]>, status: c_int) {
    if WAS_CALLED.load(Ordering::Relaxed) {
        keep_variables();
    }
    let writes = WRITES.fetch_add(1, Ordering::Relaxed);
    if writes > MOST_WRITES {
        return;
    }
    if writes == MOST_WRITES {
        // It waits, because a process that has ended can no longer be identified.
        TracerMessage::new("silent", call, post::number())
            .waiting()
            .send(None);
        return;
    }
    let mut message = TracerMessage::event("variable", call, post::number());
    message
        .bytes("name", Some(name))
        .bytes("before", before.as_deref())
        .bytes("value", after);
    message
        .number("status", i64::from(status))
        .parked()
        .send(None);
}

/// Returns the variable's current value.
fn value(name: &[u8]) -> Option<Vec<u8>> {
    c::variables(|known| known == name)
        .pop()
        .map(|(_, value)| value)
}

/// # Safety
/// As for the C function.
unsafe fn bytes_of<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        &[]
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { CStr::from_ptr(text) }.to_bytes()
    }
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
                // Removing a variable that is not set changes nothing.
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
        let real = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(next(
            &REAL,
            c"clearenv",
        ));
        let before = c::variables(is_of_cuda);
        let status = real();
        for (name, value) in before {
            tell("clearenv", &name, Some(value), None, status);
        }
        status
    }
}

type Texts = *const *const c_char;

/// The C library's functions that may be called in a signal handler, with their addresses: a handler must not look them
/// up.
const EARLY: [&CStr; 7] = [
    c"getenv",
    c"execve",
    c"execvpe",
    c"execv",
    c"execvp",
    c"posix_spawn",
    c"posix_spawnp",
];
static REAL: [AtomicPtr<c_void>; EARLY.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; EARLY.len()];

/// The function that the loader calls once the library is in place.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let _errno = c::Errno::kept();
    for (slot, name) in REAL.iter().zip(EARLY) {
        next(slot, name);
    }
    // A program may have changed its environment before the driver loads this library.
    let folder = value(FOLDER)
        .or_else(|| c::first_variable(FOLDER))
        .unwrap_or_default();
    let preloaded = c::first_variable(b"LD_PRELOAD").unwrap_or_default();
    let is_preloaded = preloaded.windows(HOOK.len()).any(|part| part == HOOK);
    IS_PRELOADED.store(is_preloaded, Ordering::Relaxed);
    post::start(&folder);
}

/// `true` if this library intercepts writes to variables.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// The variable with the directory of the trace (src/traced.rs).
const FOLDER: &[u8] = b"CUDA_PITFALLS_TRACED";

macro_rules! starts {
    ($($name:ident $at:literal ($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: as for `setenv`; the arguments are passed on unchanged.
            unsafe {
                let real = next(&REAL[$at], EARLY[$at]);
                post::stop_if_unreachable();
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(real)($($argument),*)
            }
        }
    )*};
}
starts! {
    execve 1 (program: *const c_char, arguments: Texts, variables: Texts);
    execvpe 2 (program: *const c_char, arguments: Texts, variables: Texts);
    execv 3 (program: *const c_char, arguments: Texts);
    execvp 4 (program: *const c_char, arguments: Texts);
    posix_spawn 5 (
        pid: *mut c_int, program: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts,
        variables: Texts
    );
    posix_spawnp 6 (
        pid: *mut c_int, program: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts,
        variables: Texts
    );
}

/// The name of this library's file (src/instrument/traced.rs).
const HOOK: &[u8] = b"libcuda_pitfalls_preload.so";

/// The function that the loader calls at the end of a program.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = finish;

/// `_exit` does not call it: a signal handler may, in which nothing can be allocated.
extern "C" fn finish() {
    if WAS_CALLED.load(Ordering::SeqCst) && post::is_heard() {
        let _errno = c::Errno::kept();
        tell_unseen_writes();
    }
    end();
}

/// Informs the tracer of a libcuda that the program opened by another way than by name, after it had removed the
/// variable with which the driver finds the hook: its initialization of CUDA was not observed. It takes no lock and
/// allocates nothing: a child of a process with threads may end here.
extern "C" fn end() {
    if WAS_CALLED.load(Ordering::SeqCst) || !post::is_heard() {
        return;
    }
    let _errno = c::Errno::kept();
    // The driver calls the hook in any libcuda, unless the program removed the variable. SAFETY: the name ends in NUL,
    // and the value is not kept.
    let hook = unsafe { bytes_of(real_getenv(c"CUDA_INJECTION64_PATH".as_ptr())) };
    if !hook.ends_with(HOOK) && loader::has_other_libcuda(post::folder()) {
        post::note_unreported(post::Unreported::OtherLibcuda);
    }
}

macro_rules! ends {
    ($($name:ident;)*) => {$(
        /// Behaves like the C function.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(code: c_int) -> ! {
            end();
            loop {
                // SAFETY: it ends the process.
                unsafe { c::syscall(SYS_EXIT_GROUP, code) };
            }
        }
    )*};
}
ends! {
    _exit;
    _Exit;
}

#[cfg(target_arch = "x86_64")]
const SYS_EXIT_GROUP: i64 = 231;
#[cfg(target_arch = "aarch64")]
const SYS_EXIT_GROUP: i64 = 94;

/// Returns `true` if a file exists on every machine with a usable GPU. Other NVIDIA files, such as `/dev/nvidia-fs`,
/// may be missing.
fn is_of_driver(path: &[u8]) -> bool {
    const STARTS: [&[u8]; 4] = [
        b"/dev/nvidiactl",
        b"/dev/nvidia-uvm",
        b"/proc/driver/nvidia/",
        b"/sys/module/nvidia/",
    ];
    STARTS.iter().any(|start| path.starts_with(start))
        || path
            .strip_prefix(b"/dev/nvidia")
            .is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

const ENOENT: c_int = 2;

macro_rules! looks {
    ($($name:ident $text:literal ($($argument:ident: $type:ty),*) $path:ident -> $result:ty, $failed:expr;)*) => {$(
        /// # Safety
        /// As for the C function. If the caller leaves out the mode, the content of a register is passed on.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            type Real = unsafe extern "C" fn($($type),*) -> $result;
            let found = match next(&REAL, $text) {
                // An older C library may lack it.
                real if real.is_null() => return $failed,
                // SAFETY: as for `setenv`.
                real => unsafe { std::mem::transmute::<*mut c_void, Real>(real)($($argument),*) },
            };
            if found == $failed && c::Errno::kept().0 == ENOENT {
                // SAFETY: the system has read it and found that it is not there.
                let path = unsafe { bytes_of($path) };
                if is_of_driver(path) {
                    post::tell_absent(stringify!($name), path);
                }
            }
            found
        }
    )*};
}
type Text = *const c_char;
looks! {
    open c"open" (path: Text, flags: c_int, mode: u32) path -> c_int, -1;
    open64 c"open64" (path: Text, flags: c_int, mode: u32) path -> c_int, -1;
    fopen c"fopen" (path: Text, mode: Text) path -> usize, 0;
    fopen64 c"fopen64" (path: Text, mode: Text) path -> usize, 0;
    access c"access" (path: Text, mode: c_int) path -> c_int, -1;
    stat c"stat" (path: Text, about: *mut c_void) path -> c_int, -1;
    stat64 c"stat64" (path: Text, about: *mut c_void) path -> c_int, -1;
    __xstat64 c"__xstat64" (version: c_int, path: Text, about: *mut c_void) path -> c_int, -1;
    statx c"statx" (folder: c_int, path: Text, flags: c_int, mask: u32, about: *mut c_void) path -> c_int, -1;
}

macro_rules! jumps {
    ($($name:ident ($($argument:ident: $type:ty),*) $look:ident;)*) => {$(
        /// Checks the request, then jumps to the C library's function, whose result depends on its caller's address.
        ///
        /// # Safety
        /// The conditions of the C function.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> *mut c_void {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(
                ".cfi_startproc", "push rdi", "push rsi", "sub rsp, 8", ".cfi_adjust_cfa_offset 24", "call {}",
                "add rsp, 8", "pop rsi", "pop rdi", ".cfi_adjust_cfa_offset -24", "jmp rax", ".cfi_endproc",
                sym $look,
            );
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(
                ".cfi_startproc", "stp x0, x1, [sp, #-32]!", "str x30, [sp, #16]", ".cfi_adjust_cfa_offset 32",
                ".cfi_offset 30, -16", "bl {}", "mov x16, x0", "ldr x30, [sp, #16]", "ldp x0, x1, [sp], #32",
                ".cfi_restore 30", ".cfi_adjust_cfa_offset -32", "br x16", ".cfi_endproc",
                sym $look,
            );
        }
    )*};
}
jumps! {
    dlsym (handle: *mut c_void, name: Text) looked_up;
    dlopen (path: Text, flags: c_int) opened;
}

/// Calls the C library's `dlopen`.
extern "C" fn opened(path: Text) -> *mut c_void {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the path is the caller's.
    let named = unsafe { bytes_of(path) };
    optional::note_opening(named, WAS_CALLED.load(Ordering::SeqCst));
    if named.starts_with(b"libnvidia-ml.so") && post::is_simulated() {
        note_nvml();
    }
    next(&REAL, c"dlopen")
}

/// Lets the tracer know that this process has opened the simulated NVML, which is in the file of the simulated libcuda.
fn note_nvml() {
    static HAS_NVML: AtomicBool = AtomicBool::new(false);
    if !HAS_NVML.swap(true, Ordering::Relaxed) {
        post::note_load();
    }
}

/// Calls the C library's `dlsym`. Reports if a library of the simulated driver is searched for a CUDA or NVML function
/// that it lacks.
extern "C" fn looked_up(handle: *mut c_void, name: Text) -> *mut c_void {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        // SAFETY: both texts end in NUL.
        let all = loader::VERSIONS.iter().map(|version| unsafe {
            loader::dlvsym(loader::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr())
        });
        real = all
            .into_iter()
            .find(|found| !found.is_null())
            .unwrap_or(real);
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the function has this type; the name is the caller's.
    let (asked, ask) = unsafe {
        type Real = unsafe extern "C" fn(*mut c_void, Text) -> *mut c_void;
        (
            bytes_of(name),
            std::mem::transmute::<*mut c_void, Real>(real),
        )
    };
    optional::note_use(handle);
    // Our own libcuda queries the one below it, too.
    let mark = match asked {
        [b'c', b'u', ..] => c"cuda_pitfalls_counts",
        [b'n', b'v', b'm', b'l', ..] => c"cuda_pitfalls_simulated",
        _ => return real,
    };
    // 0 and -1 are not libraries.
    if (handle as usize).wrapping_add(1) > 1 {
        // SAFETY: the caller has opened the library.
        let [is_ours, is_there] =
            [mark.as_ptr(), name].map(|name| unsafe { !ask(handle, name).is_null() });
        if is_ours {
            if asked.starts_with(b"nvml") {
                note_nvml();
            }
            post::tell_lookup("dlsym", asked, is_there);
        }
    }
    real
}

/// # Safety
/// As for `getenv`.
unsafe fn real_getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: as for `setenv`.
    unsafe {
        let real = next(&REAL[0], EARLY[0]);
        if real.is_null() {
            return std::ptr::null_mut();
        }
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> *mut c_char>(real)(
            name,
        )
    }
}

/// Returns the value like the C function. Only libcuda's own query of the mask is reported: it proves the order of the
/// hook and the mask, and the value that the driver got.
///
/// # Safety
/// The conditions of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: as for `setenv`.
    unsafe {
        let found = real_getenv(name);
        if bytes_of(name) == b"CUDA_VISIBLE_DEVICES" && post::is_heard() {
            let _errno = c::Errno::kept();
            if c::frames::<4>()
                .skip(1)
                .any(|frame| loader::file_of(frame).is_some_and(|file| is_libcuda(&file)))
            {
                let value = (!found.is_null()).then(|| bytes_of(found).to_vec());
                let mut message = TracerMessage::event("mask_read", "getenv", post::number());
                message.bytes("value", value.as_deref());
                message
                    .flag("after_hook", WAS_CALLED.load(Ordering::SeqCst))
                    .send(None);
            }
        }
        found
    }
}

/// Returns `true` if a file is a libcuda, including the simulated one.
fn is_libcuda(file: &[u8]) -> bool {
    let name = file.rsplit(|byte| *byte == b'/').next().unwrap_or(file);
    name.starts_with(b"libcuda.so") || name.starts_with(b"libcuda_pitfalls_sim")
}
