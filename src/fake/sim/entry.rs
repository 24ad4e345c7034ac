//! Access to the state for a call: the calling process, the state of the driver, and the only lock.

use crate::c;
use crate::model::status::{DEINITIALIZED, Outcome, code};
use crate::model::thread::{self, Thread};
use crate::model::{exit, injection};
use crate::process::{Phase, SimulatedProcess};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state of one process, and the identity of that process.
struct MachineHolder {
    pid: u32,
    /// A copy of the phase that is read without the lock, which another thread may have held at the moment of a fork.
    phase: AtomicU32,
    /// A copy of the runtime's state.
    runtime_found_none: AtomicBool,
    /// A copy of how many devices the runtime has counted; [`UNCOUNTED`] until it has.
    counted: AtomicI32,
    process: Mutex<SimulatedProcess>,
}

const UNCOUNTED: i32 = -1;

static HOLDER: AtomicPtr<MachineHolder> = AtomicPtr::new(std::ptr::null_mut());

/// Returns this process's holder. A forked child finds its parent's and replaces it with its own, never touching the
/// parent's lock.
fn holder() -> &'static MachineHolder {
    let pid = c::pid();
    loop {
        let found = HOLDER.load(Ordering::Acquire);
        // SAFETY: the pointer is null or comes from Box::into_raw below, and no holder is ever freed.
        let (phase, found_none, counted) = match unsafe { found.as_ref() } {
            Some(holder) if holder.pid == pid => return holder,
            Some(parent) => (
                Phase::in_a_child(parent.phase.load(Ordering::Acquire)),
                parent.runtime_found_none.load(Ordering::Acquire),
                parent.counted.load(Ordering::Acquire),
            ),
            None => (Phase::Fresh, false, UNCOUNTED),
        };
        let mut process = SimulatedProcess::new(phase);
        process.runtime_found_none = found_none;
        process.counted = (counted != UNCOUNTED).then_some(counted);
        let own = MachineHolder {
            pid,
            phase: AtomicU32::new(phase as u32),
            runtime_found_none: AtomicBool::new(found_none),
            counted: AtomicI32::new(counted),
            process: Mutex::new(process),
        };
        let own = Box::into_raw(Box::new(own));
        if HOLDER
            .compare_exchange(found, own, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: the exchange failed, so no other thread has seen this pointer.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

/// Runs one call on the state of this process and of this thread.
pub fn enter(call: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome) -> u32 {
    if exit::has_run() {
        return DEINITIALIZED;
    }
    let holder = holder();
    let outcome = thread::with(|thread| {
        let mut process = holder
            .process
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let outcome = call(&mut process, thread);
        holder.phase.store(process.phase as u32, Ordering::Release);
        holder
            .runtime_found_none
            .store(process.runtime_found_none, Ordering::Release);
        holder
            .counted
            .store(process.counted.unwrap_or(UNCOUNTED), Ordering::Release);
        outcome
    });
    code(outcome.unwrap_or(Err(DEINITIALIZED)))
}

/// The caller of `cuInit`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Initialiser {
    Program,
    Runtime,
}

/// Runs one call that begins with `cuInit`, and with it the hook of an injected library.
pub fn enter_initialising(
    initialiser: Initialiser,
    call: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome,
) -> u32 {
    let calls_hook = !exit::has_run() && initialises(initialiser);
    // The hook comes before the driver reads its variables: a mask that it sets decides what is visible. Measured on
    // 2x H200, and with 550.163.01 by the order in which it calls `getenv`.
    if calls_hook {
        injection::call();
    }
    enter(call)
}

/// Returns `true` if `cuInit` would do more than repeat an earlier answer. Takes no lock.
fn initialises(initialiser: Initialiser) -> bool {
    let holder = holder();
    let phase = holder.phase.load(Ordering::Acquire);
    let found_none =
        initialiser == Initialiser::Runtime && holder.runtime_found_none.load(Ordering::Acquire);
    phase != Phase::Ready as u32 && phase != Phase::Forked as u32 && !found_none
}

/// Returns the number of devices, once the driver's exit handler has run: the runtime remembers it, and every other
/// call fails.
pub fn late_count() -> Option<i32> {
    if !exit::has_run() {
        return None;
    }
    let process = holder()
        .process
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    (process.phase == Phase::Ready).then_some(process.devices.len() as i32)
}

/// Returns the number of devices for a forked child: the runtime remembers what its parent counted, while every other
/// call reports that the driver is not initialized. Measured for a parent that had only counted.
pub fn inherited_count() -> Option<i32> {
    if exit::has_run() {
        return None;
    }
    let process = holder()
        .process
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    match process.phase {
        Phase::Forked => process.counted,
        _ => None,
    }
}
