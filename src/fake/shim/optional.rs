//! Libraries that a program opens only if they are installed, and that call the driver there: a clean trace without
//! them does not apply to a machine that has them.

use crate::{c, loader, post};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The case in which a missing library matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matters {
    Always,
    /// Programs that open it have usually initialized CUDA before, and most machines lack it.
    BeforeInit,
}

/// The libraries, each by the beginning of its file's name.
const OPTIONAL: [(&str, Matters); 7] = [
    // GPUDirect Storage: KvikIO and cuCIM open its driver, which creates a context on each GPU.
    ("libcufile.so", Matters::Always),
    // UCX's module.
    ("libuct_cuda.so", Matters::Always),
    ("libnvshmem_host.so", Matters::Always),
    // ONNX Runtime continues without a GPU if these cannot be loaded.
    ("libonnxruntime_providers_cuda.so", Matters::Always),
    ("libonnxruntime_providers_tensorrt.so", Matters::Always),
    // NCCL's plugins: net, tuner, profiler and env.
    ("libnccl-", Matters::BeforeInit),
    // FFmpeg opens it before it initializes CUDA.
    ("libnvcuvid.so", Matters::BeforeInit),
];

/// The number of the message about the search for each library, until it is found; 0 without a message.
static SOUGHT: [AtomicU64; OPTIONAL.len()] = [const { AtomicU64::new(0) }; OPTIONAL.len()];
/// Number of these that are not 0.
static MISSING: AtomicU32 = AtomicU32::new(0);
/// The libraries that were requested but not checked since, a bit for each.
static OPENING: AtomicU32 = AtomicU32::new(0);

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns the index of the library with this path in the list.
fn index_of(path: &[u8]) -> Option<usize> {
    OPTIONAL
        .iter()
        .position(|(start, _)| file_name(path).starts_with(start.as_bytes()))
}

/// Returns the libraries of the list that are loaded, a bit for each.
fn loaded() -> u32 {
    extern "C" fn add(info: *const loader::LoadedFile, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader hands over a description with a name, and our own number.
        unsafe {
            if !(*info).name.is_null() {
                let index = index_of(CStr::from_ptr((*info).name).to_bytes());
                *found.cast::<u32>() |= index.map_or(0, |index| 1 << index);
            }
        }
        0
    }
    let mut found = 0u32;
    // SAFETY: the function and the number have the types that it wants.
    unsafe { loader::dl_iterate_phdr(add, (&raw mut found).cast()) };
    found
}

/// Reports that a library was found after all.
fn tell_found(index: usize) {
    let number = SOUGHT[index].swap(0, Ordering::Relaxed);
    if number != 0 {
        MISSING.fetch_sub(1, Ordering::Relaxed);
        post::tell_plainly("opened", "dlopen", number);
    }
}

/// Checks whether the library that was requested last is loaded now: a program that tries again, by another name, may
/// find it.
extern "C" fn settle() {
    let opening = OPENING.swap(0, Ordering::Relaxed);
    if opening == 0 {
        return;
    }
    let _errno = c::Errno::kept();
    let found = opening & loaded();
    (0..OPTIONAL.len())
        .filter(|index| found & 1 << index != 0)
        .for_each(tell_found);
}

/// The function that the loader calls at the end of a program.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = settle;

/// Looks at a path that the program is about to open. Its success is known later: the loader must see its caller.
pub fn note_opening(path: &[u8], is_initialized: bool) {
    settle();
    let Some(index) = index_of(path) else { return };
    let is_late = OPTIONAL[index].1 == Matters::BeforeInit && is_initialized;
    if is_late || !post::is_heard() || loaded() & 1 << index != 0 {
        return;
    }
    OPENING.fetch_or(1 << index, Ordering::Relaxed);
    let number = post::number();
    if SOUGHT[index]
        .compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
    {
        MISSING.fetch_add(1, Ordering::Relaxed);
        let mut message = post::TracerMessage::new("opening", "dlopen", number);
        message
            .bytes("name", Some(file_name(path)))
            .parked()
            .send(None);
    }
}

/// Records that a library is present, because the program looks a function up in it.
pub fn note_use(handle: *mut c_void) {
    // 0 and -1 are not libraries.
    if MISSING.load(Ordering::Relaxed) == 0 || (handle as usize).wrapping_add(1) <= 1 {
        return;
    }
    let mut file: *const loader::LoadedFile = std::ptr::null();
    // SAFETY: the caller has opened the library; its description begins like that of a loaded file, and lives as long.
    let index = unsafe {
        if loader::dlinfo(handle, loader::RTLD_DI_LINKMAP, (&raw mut file).cast()) != 0
            || (*file).name.is_null()
        {
            return;
        }
        index_of(CStr::from_ptr((*file).name as *const c_char).to_bytes())
    };
    if let Some(index) = index {
        tell_found(index);
    }
}
