//! Number of calls of each function and of uses of each GPU, in memory that the tracer can read even after the process
//! was killed.

use crate::post::{self, TracerMessage};
use crate::wrapped::{COUNT, NAMES};
use crate::{c, shared};
use std::cell::Cell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

include!("counted.rs");

/// The counts of one thread.
#[repr(C)]
struct Counts {
    /// Calls of each function.
    calls: [AtomicU64; COUNT],
    /// Calls that returned an error.
    errors: [AtomicU64; COUNT],
    /// Launches, copies and allocations on each device.
    uses: [[AtomicU64; 3]; DEVICES],
}

/// The counters of every process. The tracer reads it as arrays of 64-bit words in this order, one for each lane, and
/// adds them up.
type Page = [Counts; LANES];

/// The counters of a process that cannot share memory.
static PRIVATE: Page = [const {
    Counts {
        calls: [const { AtomicU64::new(0) }; COUNT],
        errors: [const { AtomicU64::new(0) }; COUNT],
        uses: [const { [const { AtomicU64::new(0) }; 3] }; DEVICES],
    }
}; LANES];

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());
/// Number of per-thread counter slots in use.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Events that occurred in this process at least once.
static CALLED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
static FAILED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
static USED: [[AtomicBool; 3]; DEVICES] =
    [const { [const { AtomicBool::new(false) }; 3] }; DEVICES];

/// The counters of a thread.
#[derive(Clone, Copy)]
pub struct Lane {
    counts: Option<&'static Counts>,
    is_shared: bool,
}

thread_local! {
    static LANE: Cell<Lane> = const { Cell::new(Lane { counts: None, is_shared: false }) };
}

/// Counted work of a GPU.
#[derive(Clone, Copy)]
pub enum GpuWork {
    Launch,
    Copy,
    Allocation,
}

impl GpuWork {
    pub const fn word(self) -> &'static str {
        match self {
            GpuWork::Launch => "launch",
            GpuWork::Copy => "copy",
            GpuWork::Allocation => "allocation",
        }
    }
}

/// Returns the counter slot of this thread; the first call reserves one.
#[inline]
pub fn lane() -> Lane {
    let lane = LANE.get();
    if lane.counts.is_none() { take() } else { lane }
}

#[cold]
fn take() -> Lane {
    let page = page();
    let number = TAKEN.fetch_add(1, Ordering::Relaxed).min(LANES - 1);
    let lane = Lane {
        counts: page.get(number),
        is_shared: number == LANES - 1,
    };
    LANE.set(lane);
    lane
}

/// Returns the page of this process; the first call creates it and informs the tracer.
fn page() -> &'static Page {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return make();
    }
    // SAFETY: the pointer belongs to a mapping that is never unmapped, or to the static page.
    unsafe { &*page }
}

fn make() -> &'static Page {
    let _errno = c::Errno::kept();
    let made = shared::memory(c"cuda-pitfalls-counts", size_of::<Page>());
    let page = made.map_or(&raw const PRIVATE as *mut Page, |(page, _)| page.cast());
    let is_first = PAGE
        .compare_exchange(
            std::ptr::null_mut(),
            page,
            Ordering::AcqRel,
            Ordering::Acquire,
        )
        .is_ok();
    if let Some((_, descriptor)) = made {
        if is_first {
            // It waits, because a process that has ended can no longer be identified.
            TracerMessage::new("hello", "", post::number())
                .waiting()
                .send(Some(descriptor));
        }
        shared::close_descriptor(descriptor);
    }
    // SAFETY: as above; a page that lost the race stays mapped and unused.
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

/// Writes the number of calls of each function in this process, for the process itself: a worker reports its lines with
/// the calls that they made. Writes the first `room` counts, in the order of [`cuda_pitfalls_count_name`], and returns
/// the total number of functions. A slot is read while its thread may be counting, so a call that has not returned may
/// be missing.
///
/// # Safety
/// `out` must have room for `room` counts, or be null with a `room` of 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_pitfalls_counts(out: *mut u64, room: usize) -> usize {
    let page = PAGE.load(Ordering::Acquire);
    if !out.is_null() {
        // SAFETY: the caller vouches for the room.
        let out = unsafe { std::slice::from_raw_parts_mut(out, room.min(COUNT)) };
        for (index, sum) in out.iter_mut().enumerate() {
            // SAFETY: as in `page`; a process that counted nothing does not have a page.
            let lanes = unsafe { page.as_ref() }.into_iter().flatten();
            *sum = lanes
                .map(|lane| lane.calls[index].load(Ordering::Relaxed))
                .sum();
        }
    }
    COUNT
}

/// Returns the name of a function that is counted, ended by NUL; null past the last.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_pitfalls_count_name(index: usize) -> *const c_char {
    NAMES
        .get(index)
        .map_or(std::ptr::null(), |name| name.as_ptr().cast())
}

/// Resets the counts in a forked child, which has its own.
pub fn forget() {
    PAGE.store(std::ptr::null_mut(), Ordering::Release);
    TAKEN.store(0, Ordering::Relaxed);
    LANE.set(Lane {
        counts: None,
        is_shared: false,
    });
    let all = CALLED.iter().chain(&FAILED).chain(USED.as_flattened());
    all.for_each(|happened| happened.store(false, Ordering::Relaxed));
}

impl Lane {
    /// Counts one more. True if it is the first of this process.
    #[inline]
    fn count(
        self,
        of: impl Fn(&'static Counts) -> &'static AtomicU64,
        happened: &AtomicBool,
    ) -> bool {
        let Some(counts) = self.counts else {
            return false;
        };
        let number = of(counts);
        let before = if self.is_shared {
            number.fetch_add(1, Ordering::Relaxed)
        } else {
            let before = number.load(Ordering::Relaxed);
            number.store(before + 1, Ordering::Relaxed);
            before
        };
        before == 0 && !happened.swap(true, Ordering::Relaxed)
    }

    /// Counts a call. True for the first of this function.
    #[inline]
    pub fn called(self, index: usize) -> bool {
        self.count(|counts| &counts.calls[index], &CALLED[index])
    }

    /// Counts an error. True for the first of this function.
    pub fn failed(self, index: usize) -> bool {
        self.count(|counts| &counts.errors[index], &FAILED[index])
    }

    /// Counts a use. True for the first of this device in this way.
    #[inline]
    pub fn used(self, device: i32, usage: GpuWork) -> bool {
        let (device, usage) = (device_index(device), usage as usize);
        self.count(|counts| &counts.uses[device][usage], &USED[device][usage])
    }
}

/// Returns `true` if a kernel was launched on a device.
pub fn has_launched(device: i32) -> bool {
    USED[device_index(device)][GpuWork::Launch as usize].load(Ordering::Relaxed)
}

fn device_index(device: i32) -> usize {
    (device.max(0) as usize).min(DEVICES - 1)
}
