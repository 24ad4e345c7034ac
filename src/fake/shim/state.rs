//! The state of this process: whether the driver is initialized, the existing contexts, and the GPU that a thread uses.

use crate::c;
use crate::counts;
use crate::memory;
use crate::post::{self, TracerMessage};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

unsafe extern "C" {
    fn getppid() -> c_int;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// `CUDA_SUCCESS`.
pub const SUCCESS: u32 = 0;
/// `CUDA_ERROR_NOT_INITIALIZED`.
const NOT_INITIALIZED: u32 = 3;

/// `true` if `cuInit` has succeeded in this process.
static IS_READY: AtomicBool = AtomicBool::new(false);
/// Number of visible GPUs.
static VISIBLE: AtomicU32 = AtomicU32::new(0);
/// The active primary contexts, by the bit of their ordinal.
static ACTIVE: AtomicU64 = AtomicU64::new(0);
/// Contexts other than primary ones, with their device.
static OTHERS: Mutex<Vec<(usize, i32)>> = Mutex::new(Vec::new());
/// Changes whenever a context is destroyed, so that no thread mistakes a new one for an old one.
static GENERATION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The last known device of this thread, the number of further uses for which it is trusted, and the generation.
    static LAST: Cell<(i32, u32, u64)> = const { Cell::new((-1, 0, 0)) };
}

pub fn is_ready() -> bool {
    IS_READY.load(Ordering::Acquire)
}

pub fn set_ready(visible: u32) {
    note_owner();
    VISIBLE.store(visible, Ordering::Relaxed);
    IS_READY.store(true, Ordering::Release);
}

/// Returns `true` if all calls use the same GPU, because no other is visible.
#[inline]
pub fn has_one_device() -> bool {
    VISIBLE.load(Ordering::Relaxed) <= 1
}

/// The process that this state belongs to.
static OWNER: AtomicI32 = AtomicI32::new(0);

fn note_owner() {
    // SAFETY: it has no precondition.
    OWNER.store(unsafe { c::getpid() }, Ordering::Relaxed);
}

/// Makes a forked child report that it has inherited an initialized driver.
pub fn watch_forks() {
    // SAFETY: the handler is a function of this library, which stays loaded: libcuda is never
    // unloaded by its users, and if it is, glibc takes the handler away with it.
    unsafe { pthread_atfork(None, None, Some(report_fork)) };
}

/// Reports a fork that called no handlers, like `_Fork` or the system call, once a call shows that the driver is not
/// initialized in this process.
pub fn notice_fork(status: u32) {
    // SAFETY: it has no precondition.
    let pid = unsafe { c::getpid() };
    if status == NOT_INITIALIZED && is_ready() && OWNER.load(Ordering::Relaxed) != pid {
        report_fork();
    }
}

extern "C" fn report_fork() {
    counts::forget();
    memory::forget();
    note_owner();
    if is_ready() && post::is_heard() {
        let contexts = ACTIVE.load(Ordering::Relaxed).count_ones() as i64;
        // SAFETY: it has no precondition.
        let parent = unsafe { getppid() };
        let mut message = TracerMessage::event("forked", "fork", post::number());
        message
            .number("parent", i64::from(parent))
            .number("contexts", contexts)
            .parked()
            .send(None);
    }
}

/// A function of the real library with the type of the use.
macro_rules! real_function {
    ($name:literal, fn($($argument:ty),*)) => {{
        const INDEX: usize = $crate::wrapped::index($name);
        let address = $crate::original::function(INDEX);
        // SAFETY: the address belongs to the function with this name, which has this type.
        #[allow(unused_unsafe, reason = "some callers are in an unsafe block already")]
        (address != 0).then(|| unsafe {
            std::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> u32>(address)
        })
    }};
}
pub(crate) use real_function;

/// Returns the UUID of a visible GPU in hex, as the driver reports it; empty if it cannot be queried.
pub fn uuid(device: i32) -> String {
    let mut bytes = [0u8; 16];
    let asked = real_function!("cuDeviceGetUuid_v2", fn(*mut u8, i32))
        .or(real_function!("cuDeviceGetUuid", fn(*mut u8, i32)));
    // SAFETY: the function writes 16 bytes.
    match asked.map(|ask| unsafe { ask(bytes.as_mut_ptr(), device) }) {
        Some(SUCCESS) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => String::new(),
    }
}

/// Returns the number of GPUs that the process can see.
pub fn count() -> Option<u32> {
    let mut count = 0i32;
    // SAFETY: the function writes one int.
    let asked =
        real_function!("cuDeviceGetCount", fn(*mut i32)).map(|ask| unsafe { ask(&mut count) });
    (asked == Some(SUCCESS)).then_some(count.max(0) as u32)
}

/// Returns `true` if a GPU's primary context is active. The query does not create one (measured).
pub fn is_active(device: i32) -> bool {
    let (mut flags, mut active) = (0u32, 0i32);
    let asked = real_function!("cuDevicePrimaryCtxGetState", fn(i32, *mut u32, *mut i32))
        // SAFETY: the function writes two ints.
        .map(|ask| unsafe { ask(device, &mut flags, &mut active) });
    asked == Some(SUCCESS) && active != 0
}

/// Notes whether a primary context is active. True if that is a change.
pub fn note_primary(device: i32, active: bool) -> bool {
    if !(0..64).contains(&device) {
        return false;
    }
    let bit = 1u64 << device;
    let before = if active {
        ACTIVE.fetch_or(bit, Ordering::AcqRel)
    } else {
        ACTIVE.fetch_and(!bit, Ordering::AcqRel)
    };
    if !active {
        GENERATION.fetch_add(1, Ordering::AcqRel);
    }
    (before & bit != 0) != active
}

/// Notes a context that is not a primary one.
pub fn note_other(context: usize, device: i32) {
    OTHERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((context, device));
}

/// Returns `true` if a context is not a primary one.
pub fn is_other(context: usize) -> bool {
    OTHERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .any(|(known, _)| *known == context)
}

/// Returns the devices with a primary context that is known to be active.
pub fn with_primary() -> impl Iterator<Item = i32> {
    let active = ACTIVE.load(Ordering::Relaxed);
    (0..64).filter(move |device| active & 1 << device != 0)
}

/// Forgets a context that is not a primary one, and returns its device.
pub fn forget_other(context: usize) -> Option<i32> {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    let mut others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = others.iter().position(|(known, _)| *known == context)?;
    Some(others.swap_remove(at).1)
}

/// Number of uses after which the driver is queried again. The query takes longer than a launch should be delayed, and
/// a context may become current in a way that is not intercepted.
const USES: u32 = 256;

/// Returns the GPU of the thread's current context.
#[inline]
pub fn current_device() -> Option<i32> {
    let generation = GENERATION.load(Ordering::Relaxed);
    LAST.with(|last| {
        let (device, uses, of) = last.get();
        if uses > 0 && of == generation {
            last.set((device, uses - 1, of));
            return Some(device);
        }
        let mut device = -1i32;
        // SAFETY: the function writes one int.
        let status = unsafe { real_function!("cuCtxGetDevice", fn(*mut i32))?(&mut device) };
        if status != SUCCESS {
            return None;
        }
        last.set((device, USES, generation));
        Some(device)
    })
}

thread_local! {
    /// `true` if this thread had a current context after a call that selects one.
    static HAS_SELECTED: Cell<bool> = const { Cell::new(false) };
}
/// The thread that was the last to select its first context; 0 before that.
static SELECTOR: AtomicU32 = AtomicU32::new(0);

/// Records the thread that has selected a context. A thread is checked until it has one, and then never again.
#[inline]
pub fn note_selected() {
    if !HAS_SELECTED.get() && current_device().is_some() {
        HAS_SELECTED.set(true);
        SELECTOR.store(c::thread_id() as u32, Ordering::Relaxed);
    }
}

/// Returns the thread that had selected a context, if this one has no current context: this one itself if it had
/// selected one.
pub fn selector() -> Option<u32> {
    moved();
    if current_device().is_some() {
        return None;
    }
    let selector = if HAS_SELECTED.get() {
        c::thread_id() as u32
    } else {
        SELECTOR.load(Ordering::Relaxed)
    };
    (selector != 0).then_some(selector)
}

/// Notes that this thread may have another current context.
pub fn moved() {
    LAST.with(|last| last.set((-1, 0, 0)));
}

/// Returns primary contexts that a call created implicitly, as their devices.
pub fn appeared() -> Vec<i32> {
    let visible = VISIBLE.load(Ordering::Relaxed).min(64) as i32;
    (0..visible)
        .filter(|device| is_active(*device) && note_primary(*device, true))
        .collect()
}
