//! How often each function was called and each GPU was used, in memory that the tracer can read even
//! after the process was killed.

use crate::post::{self, Message};
use crate::wrapped::{COUNT, NAMES};
use crate::{c, shared};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// More devices than a process can see.
pub const DEVICES: usize = 64;

/// What there is for every process. The tracer reads it as an array of 64-bit words in this order.
#[repr(C)]
pub struct Page {
    /// Calls of each function.
    calls: [AtomicU64; COUNT],
    /// Of these, calls that returned an error.
    errors: [AtomicU64; COUNT],
    /// Launches, copies and allocations on each device.
    uses: [[AtomicU64; 3]; DEVICES],
}

/// Counts go here as long as there is no other page, and where none can be had.
static PRIVATE: Page = Page {
    calls: [const { AtomicU64::new(0) }; COUNT],
    errors: [const { AtomicU64::new(0) }; COUNT],
    uses: [const { [const { AtomicU64::new(0) }; 3] }; DEVICES],
};

static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::null_mut());

/// A way of using a GPU, as it is counted.
#[derive(Clone, Copy)]
pub enum Usage {
    Launch,
    Copy,
    Allocation,
}

impl Usage {
    pub const fn word(self) -> &'static str {
        match self {
            Usage::Launch => "launch",
            Usage::Copy => "copy",
            Usage::Allocation => "allocation",
        }
    }
}

/// The page of this process; the first call makes it and tells the tracer.
#[inline]
pub fn page() -> &'static Page {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return make();
    }
    // SAFETY: the pointer is that of a mapping that is never taken back, or of the static page.
    unsafe { &*page }
}

#[cold]
fn make() -> &'static Page {
    let _errno = c::Errno::kept();
    let made = shared::memory(c"cuda-pitfalls-counts", size_of::<Page>());
    let page = made.map_or(&raw const PRIVATE as *mut Page, |(page, _)| page.cast());
    let is_first = PAGE.compare_exchange(std::ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire).is_ok();
    if let Some((_, descriptor)) = made {
        if is_first {
            let mut hello = Message::of("hello", "", post::number());
            hello.number("devices", DEVICES as i64);
            let names = NAMES.iter().map(|name| name.trim_end_matches('\0').to_owned());
            hello.list("names", names).send(Some(descriptor));
        }
        shared::close_descriptor(descriptor);
    }
    // SAFETY: as above; a page that lost the race stays mapped and unused.
    unsafe { &*PAGE.load(Ordering::Acquire) }
}

/// A forked child has counts of its own.
pub fn forget() {
    PAGE.store(std::ptr::null_mut(), Ordering::Release);
}

impl Page {
    /// Counts a call.
    #[inline]
    pub fn called(&self, index: usize) {
        self.calls[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error. How many there were before.
    pub fn failed(&self, index: usize) -> u64 {
        self.errors[index].fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a use. True for the first of this device in this way.
    #[inline]
    pub fn used(&self, device: i32, usage: Usage) -> bool {
        let device = (device.max(0) as usize).min(DEVICES - 1);
        self.uses[device][usage as usize].fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Whether a kernel was launched on a device.
    pub fn has_launched(&self, device: i32) -> bool {
        let device = (device.max(0) as usize).min(DEVICES - 1);
        self.uses[device][Usage::Launch as usize].load(Ordering::Relaxed) > 0
    }

    /// How often a function was called.
    pub fn calls(&self, index: usize) -> u64 {
        self.calls[index].load(Ordering::Relaxed)
    }
}
