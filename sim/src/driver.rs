//! The symbols of libcuda. Every call but `cuInit`, `cuDriverGetVersion` and the error texts needs an initialised driver.

mod context;
mod copy;
mod device;
mod init;
mod library;
mod log;
mod mapping;
mod memory;
mod module;
mod stream;

pub use context::CONTEXT_FLAGS;
pub use device::{gpu, put_bus_id};
pub use log::put_log;
pub use mapping::{Access, Wanted, device_of};
pub use module::{Text, arguments, ptx};

use crate::model::entry::enter;
use crate::model::process::Process;
use crate::model::status::Outcome;
use crate::model::thread::Thread;

/// Runs a call that looks at its handle first: a null one is refused even where the driver is not initialised (the survey of calls).
fn call_on(handle: u64, refusal: u32, work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    call_unless((handle == 0).then_some(refusal), work)
}

/// Runs a call that needs an initialised driver.
fn call(work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    call_unless(None, work)
}

fn call_unless(refusal: Option<u32>, work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    enter(|process, thread| {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        process.node()?;
        work(process, thread)
    })
}
