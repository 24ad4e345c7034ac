//! The forwarding NVML: `survey errors` loads it into a process before the real one is looked for, so that some calls
//! return a status, or another number of GPUs, instead of being passed on.
//!
//! The real library is this one's only dependency by name, so the loader finds in it every symbol that is not here.

#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_snake_case, reason = "the functions have the names of C")]

#[allow(
    dead_code,
    reason = "it needs little of what the libraries of a trace share"
)]
mod c;
#[allow(dead_code, reason = "as above")]
mod loader;
#[allow(dead_code, reason = "as above")]
mod shared;

use std::ffi::{CStr, c_char};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

const RTLD_NOLOAD: i32 = 4;

/// The path of the real library, ended by NUL, written into a copy of this one behind the mark.
#[used]
#[unsafe(link_section = ".data")]
static REAL: [u8; 1280] = shared::room(b"cuda-pitfalls:libnvml:");
/// What is not passed on, as `nvmlInit_v2=999 nvmlDeviceGetCount_v2#16`: a status, or a number of GPUs.
#[used]
#[unsafe(link_section = ".data")]
static RETURNED: [u8; 2048] = shared::room(b"cuda-pitfalls:returns:");
const MARK_BYTES: usize = 22;

/// `NVML_ERROR_FUNCTION_NOT_FOUND`.
const NOT_FOUND: u32 = 13;

/// What a call does instead of being passed on.
#[derive(Clone, Copy)]
enum Instead {
    Returns(u32),
    Counts(u32),
}

/// The text behind a mark.
fn text(bytes: &[u8]) -> &[u8] {
    bytes
        .get(MARK_BYTES..)
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
}

fn instead(name: &CStr) -> Option<Instead> {
    // SAFETY: the array was written before the library was loaded.
    let bytes = unsafe { std::ptr::read_volatile(&raw const RETURNED) };
    let instead = text(&bytes).split(|byte| *byte == b' ').find_map(|one| {
        let rest = one.strip_prefix(name.to_bytes())?;
        let (sign, digits) = rest.split_first()?;
        let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
        match sign {
            b'=' => Some(Instead::Returns(number)),
            b'#' => Some(Instead::Counts(number)),
            _ => None,
        }
    })?;
    tell(name);
    Some(instead)
}

/// Writes down that a call came to its place, in a file beside this library.
fn tell(name: &CStr) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let _errno = c::Errno::kept();
    let Some(path) = loader::file_of(tell as *const () as usize) else {
        return;
    };
    let path = std::ffi::OsString::from_vec([path.as_slice(), b".called"].concat());
    // The program may let others write to its own files.
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    if let Ok(mut file) = file {
        let _ = file.write_all(&[name.to_bytes(), b"\n"].concat());
    }
}

/// The address of a function in the real library; 0 if it has none of this name.
fn real(name: &CStr) -> usize {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    let library = *LIBRARY.get_or_init(|| {
        // SAFETY: as above.
        let bytes = unsafe { std::ptr::read_volatile(&raw const REAL) };
        let path = bytes
            .get(MARK_BYTES..)
            .and_then(|path| CStr::from_bytes_until_nul(path).ok());
        // SAFETY: the loader has loaded this file as our dependency; it is only asked for.
        path.map_or(
            0,
            |path| unsafe { c::dlopen(path.as_ptr(), c::RTLD_LAZY | RTLD_NOLOAD) } as usize,
        )
    });
    if library == 0 {
        return 0;
    }
    // SAFETY: the handle is that of an open library.
    unsafe { c::dlsym(library as *mut _, name.as_ptr().cast::<c_char>()) as usize }
}

/// Functions of NVML, by their names, each with its parameters.
macro_rules! functions {
    ($($name:ident($($parameter:ident: $kind:ty),*))*) => {$(
        /// # Safety
        /// That of the function of NVML of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $kind),*) -> u32 {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            let instead = instead(NAME);
            if let Some(Instead::Returns(status)) = instead {
                return status;
            }
            let address = real(NAME);
            if address == 0 {
                return NOT_FOUND;
            }
            // SAFETY: the real function of this name has this type.
            let status = unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> u32>(address)($($parameter),*)
            };
            if let (Some(Instead::Counts(gpus)), 0) = (instead, status) {
                // SAFETY: where a number of GPUs is told, the only parameter is the pointer to it.
                unsafe { count([$($parameter as usize),*].as_slice(), gpus) };
            }
            status
        }
    )*};
}

/// Writes a number of GPUs where a call is to write it.
///
/// # Safety
/// The only parameter is a pointer to an unsigned number.
unsafe fn count(parameters: &[usize], gpus: u32) {
    if let [pointer] = parameters
        && *pointer != 0
    {
        // SAFETY: the caller says so.
        unsafe { *(*pointer as *mut u32) = gpus };
    }
}

functions! {
    nvmlInit()
    nvmlInit_v2()
    nvmlInitWithFlags(flags: u32)
    nvmlDeviceGetCount(count: *mut u32)
    nvmlDeviceGetCount_v2(count: *mut u32)
    nvmlDeviceGetHandleByIndex(index: u32, device: *mut usize)
    nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut usize)
    nvmlDeviceGetUUID(device: usize, uuid: *mut c_char, length: u32)
}
