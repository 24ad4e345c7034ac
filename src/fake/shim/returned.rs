//! Statuses that the forwarding libcuda returns by itself, without passing the call on: what a driver would return that
//! fails there. None in an ordinary trace.

use crate::shared;
use crate::wrapped::{COUNT, NAMES};
use std::sync::atomic::{AtomicU32, Ordering};

/// Which calls return what, as `cuInit=999 cuMemAlloc_v2=2`; empty where every call is passed on. The tracer writes it
/// into its copy of the library, behind the mark by which it finds the place.
#[used]
#[unsafe(link_section = ".data")]
static RETURNED: [u8; RETURNED_BYTES] = shared::room(b"cuda-pitfalls:returns:");
const RETURNED_BYTES: usize = 2048;
const MARK_BYTES: usize = 22;

/// What each call returns; 0 for one that is passed on.
static STATUSES: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// Reads which calls are not passed on.
pub fn start() {
    // SAFETY: the array was written before the library was loaded; see `start` in cuda.rs.
    let bytes = unsafe { std::ptr::read_volatile(&raw const RETURNED) };
    let text = bytes.get(MARK_BYTES..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
    for one in text.split(|byte| *byte == b' ') {
        let Some(at) = one.iter().position(|byte| *byte == b'=') else { continue };
        let (name, number) = (&one[..at], &one[at + 1..]);
        let number = number.iter().fold(0u32, |all, digit| all.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
        if let Some(index) = NAMES.iter().position(|known| known.trim_end_matches('\0').as_bytes() == name) {
            STATUSES[index].store(number, Ordering::Relaxed);
        }
    }
}

/// What a call returns instead of being passed on.
#[inline]
pub fn status(index: usize) -> Option<u32> {
    match STATUSES[index].load(Ordering::Relaxed) {
        0 => None,
        status => Some(status),
    }
}
