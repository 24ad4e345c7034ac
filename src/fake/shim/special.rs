//! The work around a call that is passed on.

use crate::counts::{self, GpuWork};
use crate::memory::Around;
use crate::post::{self, TracerMessage};
use crate::state::{self, SUCCESS, real_function};
use crate::wrapped::{NAMES, index};
use crate::{c, memory, original, returned, variable};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// `CUDA_ERROR_NOT_INITIALIZED`, for a missing function, which cannot be called.
const MISSING: u32 = 3;

/// `CUDA_ERROR_DEINITIALIZED`.
const DEINITIALIZED: u32 = 4;

/// `CUDA_ERROR_INVALID_CONTEXT`.
const INVALID_CONTEXT: u32 = 201;

/// Maximum number of reported events of the same kind in one process; more are only counted.
const MOST: u32 = 64;

/// The number of events of a kind that may still be reported.
struct Allowance(AtomicU32);

impl Allowance {
    const fn new() -> Allowance {
        Allowance(AtomicU32::new(0))
    }

    fn take(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) < MOST && post::is_heard()
    }
}

static ERRORS: Allowance = Allowance::new();
static LIMITS: Allowance = Allowance::new();
static MODULES: Allowance = Allowance::new();
static IPC: Allowance = Allowance::new();
static PEERS: Allowance = Allowance::new();
static HOST: AtomicU32 = AtomicU32::new(0);

pub fn name(index: usize) -> &'static str {
    NAMES[index].trim_end_matches('\0')
}

/// Called after a call that is only counted.
#[inline]
pub fn after(index: usize, status: u32, is_noisy: bool) {
    let lane = counts::lane();
    let is_first = lane.called(index);
    if status != SUCCESS {
        if lane.failed(index) && !is_noisy {
            tell_error(index, status, None);
        }
    } else if is_first {
        post::tell_lookup(name(index), b"", true);
        tell_appeared(index);
    }
}

/// Counts a call. True if it is the function's first that failed.
fn count(index: usize, status: u32) -> bool {
    let lane = counts::lane();
    lane.called(index);
    status != SUCCESS && lane.failed(index)
}

/// Called after a call that may have changed the current context of the thread.
#[inline]
pub fn after_switch(index: usize, status: u32) {
    after(index, status, false);
    state::moved();
    if status == SUCCESS {
        state::note_selected();
    }
}

/// Called after a call that uses the GPU of the current context.
#[inline]
pub fn after_use(index: usize, status: u32, usage: GpuWork) {
    after(index, status, false);
    if status == SUCCESS
        && let Some(device) = state::current_device()
        && counts::lane().used(device, usage)
    {
        tell_use(index, device, usage);
    }
}

#[cold]
fn tell_use(index: usize, device: i32, usage: GpuWork) {
    let mut message = TracerMessage::event("first_use", name(index), post::number());
    add_device(&mut message, Some(device))
        .word("usage", usage.word())
        .parked()
        .send(None);
}

#[cold]
fn tell_error(index: usize, status: u32, device: Option<i32>) {
    state::notice_fork(status);
    // At exit the driver is gone before the libraries that use it to clean up.
    if status == DEINITIALIZED || !ERRORS.take() {
        return;
    }
    let mut message = TracerMessage::event("error", name(index), post::number());
    add_device(message.number("status", i64::from(status)), device);
    if status == INVALID_CONTEXT
        && let Some(thread) = state::selector()
    {
        message.number("selected_by", i64::from(thread));
    }
    message.parked().send(None);
}

/// Reports primary contexts that exist since this call and that it did not create explicitly.
#[cold]
fn tell_appeared(index: usize) {
    if !state::is_ready() || !post::is_heard() {
        return;
    }
    for device in state::appeared() {
        tell_context(name(index), "made", true, 0, device);
    }
}

/// Reports a change of a context that follows no reported call.
#[cold]
fn tell_context(call: &str, change: &str, is_primary: bool, handle: usize, device: i32) {
    let mut message = TracerMessage::event("context", call, post::number());
    message
        .word("change", change)
        .flag("primary", is_primary)
        .number("handle", handle as i64)
        .number("status", 0);
    add_device(&mut message, Some(device)).parked().send(None);
}

/// Adds the GPU to a message, if it is known.
pub fn add_device(message: &mut TracerMessage, device: Option<i32>) -> &mut TracerMessage {
    match device {
        // A program may request any number, and the tracer takes no message about more devices.
        Some(device) if (-1..64).contains(&device) => message
            .number("device", i64::from(device))
            .word("uuid", &state::uuid(device)),
        _ => message,
    }
}

/// Calls the real function of a name and type; returns an error if it is missing.
macro_rules! call {
    ($name:literal, fn($($argument:ty),*), $($value:expr),*) => {
        match (returned::status(index($name)), real_function!($name, fn($($argument),*))) {
            (Some(status), _) => status,
            // SAFETY: the arguments are the caller's.
            (None, Some(function)) => unsafe { function($($value),*) },
            (None, None) => MISSING,
        }
    };
}

/// # Safety
/// As for the function of the driver; so everywhere below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> u32 {
    let number = post::number();
    let was_ready = state::is_ready();
    let is_told = !was_ready && post::is_heard();
    if is_told {
        TracerMessage::event("init", "cuInit", number)
            .word("witness", "forwarding")
            .pairs("variables", &c::variables(variable::is_of_cuda))
            .parked()
            .send(None);
    }
    if returned::status(index("cuInit")).is_some() {
        returned::call_hook();
    }
    let began = c::now_ns();
    let status = call!("cuInit", fn(u32), flags);
    let elapsed = c::now_ns() - began;
    let is_first_failure = count(index("cuInit"), status);
    let _errno = c::Errno::kept();
    if status == SUCCESS && !was_ready {
        let count = state::count().unwrap_or(0);
        state::set_ready(count);
        let uuids = (0..count.min(64)).map(|device| state::uuid(device as i32));
        let mut message = TracerMessage::event("init_done", "cuInit", number);
        message
            .number("visible", i64::from(count))
            .list("gpus", uuids);
        message
            .number("status", 0)
            .number("elapsed_ns", elapsed as i64)
            .waiting()
            .send(None);
        memory::begin();
    } else if is_told || is_first_failure {
        let mut message = TracerMessage::event("init_done", "cuInit", number);
        message
            .number("status", i64::from(status))
            .number("elapsed_ns", elapsed as i64);
        // In a child of a process that was ready, nothing was reported before.
        let message = if was_ready {
            message.parked()
        } else {
            message.waiting()
        };
        message.send(None);
    }
    status
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    const CALL: &str = "cuDeviceGet";
    let status = call!("cuDeviceGet", fn(*mut i32, i32), device, ordinal);
    if status == SUCCESS {
        after(index(CALL), status, false);
    } else if count(index(CALL), status) {
        tell_error(index(CALL), status, Some(ordinal));
    }
    status
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    const CALL: &str = "cuDriverGetVersion";
    let status = match (
        returned::status(index(CALL)),
        real_function!("cuDriverGetVersion", fn(*mut i32)),
    ) {
        // Here it is the version that a driver would report.
        (Some(number), _) if !version.is_null() => {
            // SAFETY: the caller wants it written.
            unsafe { *version = number as i32 };
            SUCCESS
        }
        // SAFETY: the argument is the caller's.
        (_, Some(function)) => unsafe { function(version) },
        (_, None) => MISSING,
    };
    after(index(CALL), status, false);
    status
}

macro_rules! lookup {
    ($($call:ident $text:literal ($($result:ident: $type:ty)?)),*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $call(
            name: *const c_char, function: *mut *mut c_void, version: i32, flags: u64 $(, $result: $type)?
        ) -> u32 {
            let status = call!(
                $text, fn(*const c_char, *mut *mut c_void, i32, u64 $(, $type)?), name, function, version, flags $(, $result)?
            );
            // SAFETY: a call that succeeded has written the pointer.
            unsafe { answered(index($text), status, name, function) }
        }
    )*};
}
lookup! { cuGetProcAddress "cuGetProcAddress" (), cuGetProcAddress_v2 "cuGetProcAddress_v2" (result: *mut i32) }

/// Puts our function in the place of the real one.
///
/// # Safety
/// If the status is success, `name` can be read, and `function` read and written.
unsafe fn answered(
    index: usize,
    status: u32,
    name: *const c_char,
    function: *mut *mut c_void,
) -> u32 {
    after(index, status, true);
    let mut found = std::ptr::null_mut();
    if status == SUCCESS && !function.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe {
            found = match *function {
                none if none.is_null() => {
                    returned::ours_for(CStr::from_ptr(name).to_bytes()).unwrap_or(none)
                }
                real => original::ours_for(real),
            };
            *function = found;
        }
    }
    if !name.is_null() && !state::is_ready() {
        // SAFETY: the driver has read it.
        post::tell_lookup(
            self::name(index),
            unsafe { CStr::from_ptr(name) }.to_bytes(),
            !found.is_null(),
        );
    }
    status
}

/// Reports that a context is about to be created, and has memory read before.
fn before_context(call: &str, device: i32) -> u64 {
    let number = post::number();
    let mut message = TracerMessage::new("before", call, number);
    add_device(&mut message, Some(device)).parked().send(None);
    number
}

/// Reports the result of the call. For a primary context, this includes whether the thread had a current context before
/// the call.
fn after_context(
    call: &str,
    number: u64,
    device: i32,
    current: Option<bool>,
    handle: usize,
    status: u32,
    ns: u64,
) {
    let mut message = TracerMessage::event("context", call, number);
    message
        .word("change", if status == SUCCESS { "made" } else { "failed" })
        .flag("primary", current.is_some());
    if let Some(had_current) = current {
        message.flag("current", had_current);
    }
    message
        .number("handle", handle as i64)
        .number("status", i64::from(status))
        .number("elapsed_ns", ns as i64);
    add_device(&mut message, Some(device)).waiting().send(None);
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> u32 {
    const CALL: &str = "cuDevicePrimaryCtxRetain";
    let is_news = state::is_ready() && post::is_heard() && !state::is_active(device);
    // The CUDA 13 runtime makes a primary context current before it retains it. That selects nothing.
    let before = if is_news {
        memory::current_context()
    } else {
        0
    };
    let number = if is_news {
        before_context(CALL, device)
    } else {
        0
    };
    let began = c::now_ns();
    let status = call!(
        "cuDevicePrimaryCtxRetain",
        fn(*mut usize, i32),
        context,
        device
    );
    let elapsed = c::now_ns() - began;
    count(index(CALL), status);
    let handle = if status == SUCCESS && !context.is_null() {
        // SAFETY: a call that succeeded has written the handle.
        unsafe { *context }
    } else {
        0
    };
    let is_made = status == SUCCESS && state::note_primary(device, true);
    if is_news && (status != SUCCESS || is_made) {
        state::moved();
        after_context(
            CALL,
            number,
            device,
            Some(before != 0 && before != handle),
            handle,
            status,
            elapsed,
        );
    } else if is_made && state::is_ready() && post::is_heard() {
        // It was active although nothing had reported it, so it was created in a way that is not observed.
        tell_context(CALL, "made", true, handle, device);
    }
    if is_news && status == SUCCESS && !is_made {
        // Another thread has created it in the meantime, and reported that. A reported beginning has an end in any
        // case.
        memory::after_on(index(CALL), number, Some(device));
    }
    status
}

/// Called after a primary context may have been destroyed.
fn after_primary(
    call: &'static str,
    index: usize,
    change: &str,
    device: i32,
    was_active: bool,
    status: u32,
) -> u32 {
    after(index, status, false);
    if status == SUCCESS && was_active && !state::is_active(device) {
        state::note_primary(device, false);
        memory::context_gone(Some(device), 0);
        if post::is_heard() {
            tell_context(call, change, true, 0, device);
        }
    }
    status
}

macro_rules! primary {
    ($($name:ident $text:literal $change:literal),*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(device: i32) -> u32 {
            let was_active = state::is_ready() && state::is_active(device);
            memory::context_goes();
            let around = if was_active { memory::before(index($text), Around::Every) } else { 0 };
            let status = call!($text, fn(i32), device);
            let status = after_primary($text, index($text), $change, device, was_active, status);
            memory::after_on(index($text), around, Some(device));
            status
        }
    )*};
}
primary! {
    cuDevicePrimaryCtxRelease "cuDevicePrimaryCtxRelease" "released",
    cuDevicePrimaryCtxRelease_v2 "cuDevicePrimaryCtxRelease_v2" "released",
    cuDevicePrimaryCtxReset "cuDevicePrimaryCtxReset" "reset",
    cuDevicePrimaryCtxReset_v2 "cuDevicePrimaryCtxReset_v2" "reset"
}

/// Wraps a call that creates another context on a device.
fn create(
    call: &'static str,
    index: usize,
    context: *mut usize,
    device: i32,
    real: impl FnOnce() -> u32,
) -> u32 {
    let is_told = state::is_ready() && post::is_heard();
    let number = if is_told {
        before_context(call, device)
    } else {
        0
    };
    let began = c::now_ns();
    let status = real();
    let elapsed = c::now_ns() - began;
    count(index, status);
    let handle = if status == SUCCESS && !context.is_null() {
        // SAFETY: a call that succeeded has written the handle.
        unsafe { *context }
    } else {
        0
    };
    if handle != 0 {
        state::note_other(handle, device);
        state::moved();
        state::note_selected();
    }
    if is_told {
        after_context(call, number, device, None, handle, status, elapsed);
    }
    status
}

macro_rules! create {
    ($($name:ident $text:literal ($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(context: *mut usize, $($argument: $type,)* device: i32) -> u32 {
            create($text, index($text), context, device, || {
                call!($text, fn(*mut usize, $($type,)* i32), context, $($argument,)* device)
            })
        }
    )*};
}
create! {
    cuCtxCreate "cuCtxCreate" (flags: u32);
    cuCtxCreate_v2 "cuCtxCreate_v2" (flags: u32);
    cuCtxCreate_v3 "cuCtxCreate_v3" (affinities: usize, count: i32, flags: u32);
    cuCtxCreate_v4 "cuCtxCreate_v4" (parameters: usize, flags: u32);
}

macro_rules! destroy {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(context: usize) -> u32 {
            memory::context_goes();
            let around = memory::before(index($text), Around::Every);
            let status = call!($text, fn(usize), context);
            after(index($text), status, false);
            let device = if status == SUCCESS { state::forget_other(context) } else { None };
            if let Some(device) = device {
                memory::context_gone(None, context);
                if post::is_heard() {
                    tell_context($text, "destroyed", false, context, device);
                }
            }
            memory::after_on(index($text), around, device);
            status
        }
    )*};
}
destroy! { cuCtxDestroy "cuCtxDestroy", cuCtxDestroy_v2 "cuCtxDestroy_v2" }

/// # Safety
/// As above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetLimit(limit: i32, value: usize) -> u32 {
    let device = state::current_device();
    let after_launch = device.is_some_and(counts::has_launched);
    let around = memory::before(index("cuCtxSetLimit"), Around::Every);
    let status = call!("cuCtxSetLimit", fn(i32, usize), limit, value);
    memory::after(index("cuCtxSetLimit"), around);
    count(index("cuCtxSetLimit"), status);
    if LIMITS.take() {
        let mut message = TracerMessage::event("limit", "cuCtxSetLimit", post::number());
        message
            .number("limit", i64::from(limit))
            .number("value", value as i64)
            .flag("after_launch", after_launch);
        add_device(&mut message, device)
            .number("status", i64::from(status))
            .parked()
            .send(None);
    }
    status
}

/// Called after a call that pins host memory.
fn after_host(call: &'static str, index: usize, bytes: usize, status: u32) -> u32 {
    after(index, status, false);
    if status == SUCCESS && HOST.fetch_add(1, Ordering::Relaxed) == 0 && post::is_heard() {
        let mut message = TracerMessage::event("host_memory", call, post::number());
        add_device(&mut message, state::current_device());
        message
            .number("bytes", bytes as i64)
            .number("status", 0)
            .parked()
            .send(None);
    }
    status
}

macro_rules! host {
    ($($name:ident $text:literal $($flags:ident)?),*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(pointer: usize, bytes: usize $(, $flags: u32)?) -> u32 {
            let status = call!($text, fn(usize, usize $(, host!(@type $flags))?), pointer, bytes $(, $flags)?);
            after_host($text, index($text), bytes, status)
        }
    )*};
    (@type $flags:ident) => { u32 };
}
host! {
    cuMemAllocHost "cuMemAllocHost", cuMemAllocHost_v2 "cuMemAllocHost_v2",
    cuMemHostAlloc "cuMemHostAlloc" flags,
    cuMemHostRegister "cuMemHostRegister" flags, cuMemHostRegister_v2 "cuMemHostRegister_v2" flags
}

/// `CUipcMemHandle`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u8; 64]);

macro_rules! ipc_open {
    ($($name:ident $text:literal),*) => {$(
        /// # Safety
        /// As above.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(pointer: usize, handle: IpcHandle, flags: u32) -> u32 {
            let around = memory::before(index($text), Around::Every);
            let status = call!($text, fn(usize, IpcHandle, u32), pointer, handle, flags);
            if memory::is_taken(status) {
                // SAFETY: the call succeeded.
                unsafe { memory::opened(index($text), &[pointer]) };
            }
            memory::after(index($text), around);
            after_opened($text, index($text), status)
        }
    )*};
}
ipc_open! { cuIpcOpenMemHandle "cuIpcOpenMemHandle", cuIpcOpenMemHandle_v2 "cuIpcOpenMemHandle_v2" }

fn after_opened(call: &'static str, index: usize, status: u32) -> u32 {
    after(index, status, false);
    // Each may belong to another GPU, and create a context there.
    tell_appeared(index);
    if IPC.take() {
        TracerMessage::event("ipc", call, post::number())
            .number("status", i64::from(status))
            .parked()
            .send(None);
    }
    status
}

/// Called before a call that is reported by its kind. Code allocates memory when it is loaded, so memory is read
/// before. Returns the number of the message; 0 if no more messages of this kind are sent.
pub fn before_told(index: usize, kind: &str) -> u64 {
    let allowance = match kind {
        "peer" => &PEERS,
        "ipc" => &IPC,
        _ => &MODULES,
    };
    if !allowance.take() {
        return 0;
    }
    let number = post::number();
    if kind == "module" {
        TracerMessage::new("before", name(index), number)
            .parked()
            .send(None);
    }
    number
}

/// Called after a call that is counted and reported by its kind: peer access, handles for other processes, or loaded
/// code.
pub fn after_told(index: usize, status: u32, kind: &'static str, number: u64) {
    after(index, status, true);
    if kind == "peer" {
        tell_appeared(index);
    }
    if number == 0 {
        return;
    }
    let mut message = TracerMessage::event(kind, name(index), number);
    let message =
        add_device(&mut message, state::current_device()).number("status", i64::from(status));
    // The stack of a load was read before it.
    let message = if kind == "module" {
        message.waiting()
    } else {
        message.parked()
    };
    message.send(None);
}
