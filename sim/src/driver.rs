//! The symbols of libcuda. Every call but `cuInit`, `cuDriverGetVersion` and the error texts needs an initialised driver.

mod context;
mod device;
mod init;
mod memory;
mod module;
mod stream;

pub use context::CONTEXT_FLAGS;
pub use device::{can_access_peer, gpu, put_bus_id};

use crate::model::process::{Process, enter};
use crate::model::status::Outcome;
use crate::model::thread::Thread;

/// Runs a call that needs an initialised driver.
fn call(work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    enter(|process, thread| {
        process.node()?;
        work(process, thread)
    })
}
