//! The functions of the real libcuda.

use crate::wrapped::{COUNT, NAMES, OURS, QUESTIONS};
use crate::{c, shared};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const RTLD_NOLOAD: i32 = 4;

/// The path of the real library. [`ALL_CALLS`] follows if queries are counted too, and [`MEMORY`] if the owners of
/// memory are recorded; each is ended by NUL. The tracer writes it into its copy of this library, behind the mark that
/// locates it.
#[used]
#[unsafe(link_section = ".data")]
static REAL: [u8; 1280] = shared::room(b"cuda-pitfalls:libcuda:");
const MARK_BYTES: usize = 22;
const ALL_CALLS: &[u8] = b"all calls";
const MEMORY: &[u8] = b"memory";

static NOTES_MEMORY: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the owners of memory are recorded.
pub fn notes_memory() -> bool {
    NOTES_MEMORY.load(Ordering::Relaxed)
}

/// The addresses of the real functions; 0 for a function that this driver does not have.
static FUNCTIONS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

/// The real functions' addresses in order, each with the wrapper's index.
static BY_ADDRESS: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

/// Looks up every function.
pub fn find() {
    // SAFETY: the array was written before the library was loaded; see `start` in cuda.rs.
    let bytes = unsafe { std::ptr::read_volatile(&raw const REAL) };
    let path = bytes.get(MARK_BYTES..).unwrap_or_default();
    let Ok(path) = CStr::from_bytes_until_nul(path) else {
        return;
    };
    // SAFETY: the loader has loaded this file as our dependency; this only queries it.
    let library = unsafe { c::dlopen(path.as_ptr(), c::RTLD_LAZY | RTLD_NOLOAD) };
    if library.is_null() {
        return;
    }
    let mut words = bytes
        .get(MARK_BYTES + path.count_bytes() + 1..)
        .unwrap_or_default()
        .split(|byte| *byte == 0);
    let counts_all = words.clone().any(|word| word == ALL_CALLS);
    NOTES_MEMORY.store(words.any(|word| word == MEMORY), Ordering::Relaxed);
    let mut by_address = Vec::with_capacity(COUNT);
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY: the names end in NUL.
        let found = unsafe { c::dlsym(library, name.as_ptr().cast::<c_char>()) } as usize;
        FUNCTIONS[index].store(found, Ordering::Relaxed);
        if found != 0 && (counts_all || !QUESTIONS[index]) {
            by_address.push((found, index));
        }
    }
    by_address.sort_unstable();
    let _ = BY_ADDRESS.set(by_address);
}

/// Returns the address of a real function.
pub fn function(index: usize) -> usize {
    FUNCTIONS[index].load(Ordering::Relaxed)
}

/// Returns the function that a program calls in place of a real one: ours if it exists.
pub fn ours_for(address: *mut c_void) -> *mut c_void {
    let Some(all) = BY_ADDRESS.get() else {
        return address;
    };
    match all.binary_search_by_key(&(address as usize), |(address, _)| *address) {
        Ok(at) => OURS.0[all[at].1] as *mut c_void,
        Err(_) => address,
    }
}
