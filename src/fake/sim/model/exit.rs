//! The driver's own exit handler. Its behavior at the process's exit was measured in
//! process/calls-from-an-exit-handler.

use crate::c;
use std::sync::atomic::{AtomicBool, Ordering};

/// `true` if the process leaves by `exit`, and the handler has run.
static HAS_RUN: AtomicBool = AtomicBool::new(false);

/// Handlers that are registered later run before this one and find everything in place; those registered earlier run
/// after it and find nothing. The memory stays until the process is gone.
extern "C" fn handler() {
    HAS_RUN.store(true, Ordering::Release);
}

/// Registers the handler, as `cuInit` does.
pub fn register() {
    c::at_exit(handler);
}

/// Returns `true` if the handler has run.
pub fn has_run() -> bool {
    HAS_RUN.load(Ordering::Acquire)
}
