//! The symbols of libnvidia-ml. NVML sees every GPU, whatever the mask, and every process's memory; it does not
//! initialize the driver.

mod device;
mod memory;
mod opening;

/// NVML's own status codes.
pub mod status {
    pub const SUCCESS: u32 = 0;
    pub const UNINITIALIZED: u32 = 1;
    pub const INVALID_ARGUMENT: u32 = 2;
    pub const NOT_SUPPORTED: u32 = 3;
    pub const NOT_FOUND: u32 = 6;
    pub const INSUFFICIENT_SIZE: u32 = 7;
    pub const ARGUMENT_VERSION_MISMATCH: u32 = 25;
    pub const UNKNOWN: u32 = 999;
}

use crate::c;
use crate::machine::gpu::SimulatedGpu;
use crate::machine::{SimulatedMachine, machine};
use crate::model::needs;
use crate::pointer::Out;
use status::*;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of NVML initializations without a shutdown.
static OPENINGS: AtomicU32 = AtomicU32::new(0);

/// The process that initialized NVML. A forked child has to initialize it again (process/nvml-across-a-fork).
static OPENER: AtomicU32 = AtomicU32::new(0);

/// The GPUs that NVML counted when it was initialized, a bit for each: those with a device file that could be opened.
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn count(gpus: usize) {
    let bits = (0..gpus.min(64))
        .filter(|gpu| needs::may_open(*gpu))
        .map(|gpu| 1 << gpu);
    COUNTED.store(bits.fold(0, |all, bit| all | bit), Ordering::Release);
}

/// Returns the GPUs by NVML index.
fn counted() -> Vec<usize> {
    let bits = COUNTED.load(Ordering::Acquire);
    (0..64).filter(|gpu| bits & (1 << gpu) != 0).collect()
}

/// Returns `true` if this process initialized NVML.
fn is_open() -> bool {
    OPENINGS.load(Ordering::Acquire) != 0 && OPENER.load(Ordering::Acquire) == c::pid()
}

/// Device handles are numbers from here on, in index order.
const FIRST_HANDLE: u64 = 0x4e56_4d4c_0000;
const HANDLE_STEP: u64 = 0x100;

/// Runs a call that requires an initialized NVML.
fn call(work: impl FnOnce(&'static SimulatedMachine) -> Result<(), u32>) -> u32 {
    if is_open() {
        call_anyway(work)
    } else {
        UNINITIALIZED
    }
}

/// Runs a call that needs nothing.
fn call_anyway(work: impl FnOnce(&'static SimulatedMachine) -> Result<(), u32>) -> u32 {
    match machine().map_err(|_| NOT_FOUND).and_then(work) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

/// Runs a call on a device.
fn call_on(
    handle: u64,
    work: impl FnOnce(&'static SimulatedMachine, usize, &'static SimulatedGpu) -> Result<(), u32>,
) -> u32 {
    call(|machine| {
        let offset = handle
            .checked_sub(FIRST_HANDLE)
            .filter(|offset| offset % HANDLE_STEP == 0)
            .ok_or(INVALID_ARGUMENT)?;
        let index = (offset / HANDLE_STEP) as usize;
        let gpu = machine
            .description
            .gpus
            .get(index)
            .ok_or(INVALID_ARGUMENT)?;
        work(machine, index, gpu)
    })
}

/// Stores a result; a null pointer is an invalid argument.
fn put<T>(at: &Out<T>, value: T) -> Result<(), u32> {
    at.put(value).map_err(|_| INVALID_ARGUMENT)
}

/// Writes a text to an address of the caller.
///
/// # Safety
/// `at` is null or valid for `room` bytes.
unsafe fn put_text(at: &Out<c_char>, room: u32, text: &str) -> Result<(), u32> {
    at.given().map_err(|_| INVALID_ARGUMENT)?;
    // SAFETY: not null; the caller vouches for the room.
    if unsafe { at.put_text(room as usize, text) } {
        Ok(())
    } else {
        Err(INSUFFICIENT_SIZE)
    }
}
