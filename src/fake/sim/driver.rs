//! The symbols of libcuda. Every call except `cuInit`, `cuDriverGetVersion`, the error texts and the log requires an
//! initialized driver.

pub mod context;
mod copy;
pub mod device;
mod entry_point;
pub mod init;
mod library;
pub mod mapping;
mod memory;
pub mod module;
mod stream;

use crate::entry::enter;
use crate::model::context::ContextOwner;
use crate::model::status::Outcome;
use crate::model::thread::Thread;
use crate::process::SimulatedProcess;

/// Runs a call that requires an initialized driver.
fn call(work: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome) -> u32 {
    enter(|process, thread| {
        process.machine()?;
        work(process, thread)
    })
}

/// Runs a call that needs a current context.
fn call_in(work: impl FnOnce(&mut SimulatedProcess, &mut Thread, ContextOwner) -> Outcome) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        work(process, thread, current)
    })
}

/// Runs a call that checks its handle first: a null handle is rejected even if the driver is not initialized (the
/// survey of calls).
fn call_on(
    handle: u64,
    refusal: u32,
    work: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome,
) -> u32 {
    if handle == 0 {
        enter(|_, _| Err(refusal))
    } else {
        call(work)
    }
}
