//! Statuses that the forwarding libcuda returns by itself, without passing the call on: the results of a failing
//! driver. An ordinary trace has none.

use crate::wrapped::{COUNT, LACKING, NAMES, OURS};
use crate::{c, original, shared};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// The results of calls, as `cuInit=999 cuMemAlloc_v2=2 *=3`, where `*` is every call that the driver lacks; empty if
/// every call is passed on. The tracer writes it into its copy of the library, behind the mark that locates it.
#[used]
#[unsafe(link_section = ".data")]
static RETURNED: [u8; RETURNED_BYTES] = shared::room(b"cuda-pitfalls:returns:");
const RETURNED_BYTES: usize = 2048;
const MARK_BYTES: usize = 22;

/// The result of each call; 0 for a call that is passed on.
static STATUSES: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// The result of a call that the driver lacks; 0 if the library replaces no such call.
static FOR_LACKING: AtomicU32 = AtomicU32::new(0);

/// Reads which calls are not passed on. The driver's functions were resolved before.
pub fn start() {
    // SAFETY: the array was written before the library was loaded; see `start` in cuda.rs.
    let bytes = unsafe { std::ptr::read_volatile(&raw const RETURNED) };
    let text = bytes
        .get(MARK_BYTES..)
        .unwrap_or_default()
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    for one in text.split(|byte| *byte == b' ') {
        let Some(at) = one.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (name, number) = (&one[..at], &one[at + 1..]);
        let number = number.iter().fold(0u32, |all, digit| {
            all.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
        });
        if name == b"*" {
            FOR_LACKING.store(number, Ordering::Relaxed);
            for (_, status) in STATUSES
                .iter()
                .enumerate()
                .filter(|(index, _)| original::function(*index) == 0)
            {
                let _ = status.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        if let Some(index) = NAMES
            .iter()
            .position(|known| known.trim_end_matches('\0').as_bytes() == name)
        {
            STATUSES[index].store(number, Ordering::Relaxed);
        }
    }
}

/// Returns the result of a call that is not passed on.
#[inline]
pub fn status(index: usize) -> Option<u32> {
    match STATUSES[index].load(Ordering::Relaxed) {
        0 => None,
        status => Some(status),
    }
}

/// Calls the injection hook, as a driver does in the first `cuInit` of a process before it looks for a GPU (measured
/// with 580.159.04 where the GPUs are hidden, and with 535.261.03 without a GPU).
pub fn call_hook() {
    static CALLED_IN: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if CALLED_IN.swap(process, Ordering::SeqCst) == process {
        return;
    }
    if let Some((_, mut path)) = c::variables(|name| name == b"CUDA_INJECTION64_PATH").pop() {
        path.push(0);
        // SAFETY: it ends in NUL; the driver would call the same library.
        unsafe { c::call_injection(path.as_ptr().cast()) };
    }
}

/// Returns the result of a function that is neither wrapped nor the driver's.
pub fn lacking() -> u32 {
    FOR_LACKING.load(Ordering::Relaxed)
}

/// Returns our function for a name that the driver lacks, with or without its version.
pub fn ours_for(name: &[u8]) -> Option<*mut c_void> {
    if lacking() == 0 {
        return None;
    }
    // A form of the function that the driver does have takes other arguments than the requested one.
    let mut wrapped = NAMES.iter().zip(OURS.0.iter()).enumerate();
    let wrapped = wrapped
        .find(|(index, (known, _))| original::function(*index) == 0 && is_named(known, name));
    let wrapped = wrapped.map(|(_, (_, ours))| *ours as *mut c_void);
    wrapped.or_else(|| {
        LACKING
            .iter()
            .find(|(known, _)| is_named(known, name))
            .map(|(_, ours)| *ours as *mut c_void)
    })
}

fn is_named(known: &str, name: &[u8]) -> bool {
    let rest = known.trim_end_matches('\0').as_bytes().strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"_v"))
}
