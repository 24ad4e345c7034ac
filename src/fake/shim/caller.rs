//! A number for the calling location, which is the same for every call from there.
//!
//! The return addresses of a location are found by unwinding, which takes a microsecond or more, as long as an
//! allocation itself. So the raw stack is checked first: the words in its upper part that may be addresses of code are
//! the same for the same location. A location with known words is not unwound again. Two locations that differ only
//! further down are considered equal.

use crate::c::{self, PAGE};
use crate::python;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of return addresses that distinguish one location from another, in addition to the Python lines.
const CALLERS: usize = 16;
/// Number of stack words that are checked.
const WORDS: usize = 256;
/// Number of locations that a thread remembers.
const REMEMBERED: usize = 256;
/// Code lies in blocks of this size.
const BLOCK_BITS: u32 = 21;
const BLOCKS: usize = 1 << 13;

/// The numbers of the blocks that hold code; 0 for an unused entry. If two blocks share an entry, the later one counts.
static CODE: [AtomicU32; BLOCKS] = [const { AtomicU32::new(0) }; BLOCKS];

thread_local! {
    /// Locations by the words on the stack, each with its number.
    static KNOWN: [Cell<(u64, u64)>; REMEMBERED] = const { [const { Cell::new((0, 0)) }; REMEMBERED] };
    /// The page above the one that this thread used last, which could be read.
    static ABOVE: Cell<usize> = const { Cell::new(0) };
}

/// Returns the hash extended by one word.
pub fn mix(hash: u64, word: usize) -> u64 {
    (hash.rotate_left(23) ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a number for the location that calls a wrapper. `top` is an aligned address in the wrapper's frame. The
/// words below it do not identify the location: the driver has just run there, and has left something else each time.
#[inline(never)]
pub fn fingerprint(top: usize) -> u64 {
    let seen = python::fingerprint(on_stack(top));
    KNOWN.with(|known| {
        let entry = &known[(seen >> 48) as usize % REMEMBERED];
        let (of, place) = entry.get();
        if of == seen {
            return place;
        }
        learn_code();
        let place = python::fingerprint(c::frames::<CALLERS>().fold(0, mix));
        // Which words are code may be known only now.
        entry.set((python::fingerprint(on_stack(top)), place));
        place
    })
}

/// Returns a hash over the words on the stack that may be addresses of code, and over their positions. It begins at an
/// aligned address in the stack and goes upwards.
fn on_stack(top: usize) -> u64 {
    let on_page = (PAGE - top % PAGE) / size_of::<usize>();
    let mut count = on_page.min(WORDS);
    // The page above exists as long as the thread does, except for the last one.
    let above = top / PAGE + 1;
    if count < WORDS && (ABOVE.get() == above || c::is_readable(above * PAGE)) {
        ABOVE.set(above);
        count = WORDS;
    }
    // SAFETY: these words lie on the page on which this thread's stack is now, and on the next one, which can be read.
    let words = unsafe { std::slice::from_raw_parts(top as *const usize, count) };
    words
        .iter()
        .enumerate()
        .fold(top as u64, |hash, (at, word)| {
            let block = word >> BLOCK_BITS;
            let is_code =
                block != 0 && CODE[block % BLOCKS].load(Ordering::Relaxed) as usize == block;
            if is_code {
                mix(hash, word ^ at << 52)
            } else {
                hash
            }
        })
}

/// The first fields of `struct dl_phdr_info`.
#[repr(C)]
struct LoadedObject {
    base: usize,
    _name: *const c_void,
    headers: *const Segment,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    _offset: usize,
    address: usize,
    _physical: usize,
    _file_bytes: usize,
    bytes: usize,
    _alignment: usize,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        each: extern "C" fn(*const LoadedObject, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// `PT_LOAD` and `PF_X`.
const LOADED: u32 = 1;
const EXECUTABLE: u32 = 1;

/// Records the addresses of this process's code.
fn learn_code() {
    extern "C" fn note(object: *const LoadedObject, _size: usize, _data: *mut c_void) -> c_int {
        // SAFETY: the loader passes an object that exists while this runs, with this number of headers.
        let (base, segments) = unsafe {
            let object = &*object;
            (
                object.base,
                std::slice::from_raw_parts(object.headers, object.count.into()),
            )
        };
        for segment in segments
            .iter()
            .filter(|header| header.kind == LOADED && header.flags & EXECUTABLE != 0)
        {
            let start = base.wrapping_add(segment.address);
            for block in start >> BLOCK_BITS..=start.wrapping_add(segment.bytes) >> BLOCK_BITS {
                CODE[block % BLOCKS].store(block as u32, Ordering::Relaxed);
            }
        }
        0
    }
    // SAFETY: the function has the type that is wanted, and uses no data.
    unsafe { dl_iterate_phdr(note, std::ptr::null_mut()) };
}
