//! The symbols of libcudart, on top of the same state as libcuda. What a call does before its own work stands in
//! `model::behaviour::effect_of`.

mod copy;
mod device;
mod error;
mod ipc;
mod library;
mod limit;
mod log;
mod memory;
mod pool;
mod stream;

use crate::model::behaviour::{Effect, effect_of};
use crate::model::context::Owner;
use crate::model::entry::enter;
use crate::model::node::node;
use crate::model::process::Process;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::model::thread::Thread;

/// Runs a call that needs no context, and notes its error for `cudaGetLastError`.
fn call(name: &str, work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    enter(|process, thread| {
        let outcome = before(name, process, thread).and_then(|_| work(process, thread));
        note(thread, outcome)
    })
}

/// Runs a call in a context, which is made if need be.
fn call_in(name: &str, work: impl FnOnce(&mut Process, &mut Thread, Owner) -> Outcome) -> u32 {
    enter(|process, thread| {
        let context = before(name, process, thread).and_then(|context| context.ok_or(SIM_NOT_MODELLED));
        let outcome = context.and_then(|context| work(process, thread, context));
        note(thread, outcome)
    })
}

/// Runs a call that waits for an event, on whatever thread.
fn wait(name: &str, work: impl FnOnce(&mut Process, &mut Thread) -> Outcome) -> u32 {
    enter(|process, thread| {
        process.surface_of_stream(0, thread);
        let outcome = before(name, process, thread).and_then(|_| work(process, thread));
        note(thread, outcome)
    })
}

/// Runs a call that waits for a stream; a fault of a kernel comes to light in it.
fn wait_in(name: &str, stream: u64, work: impl FnOnce(&mut Process, &mut Thread, Owner) -> Outcome) -> u32 {
    enter(|process, thread| {
        process.surface_of_stream(stream, thread);
        let context = before(name, process, thread).and_then(|context| context.ok_or(SIM_NOT_MODELLED));
        let outcome = context.and_then(|context| work(process, thread, context));
        note(thread, outcome)
    })
}

fn before(name: &str, process: &mut Process, thread: &mut Thread) -> Outcome<Option<Owner>> {
    // Without a node there is no version either, and the call fails for want of the node.
    let runtime = node().map_or(0, |node| node.machine.cuda_runtime_version);
    match effect_of(name, runtime) {
        Effect::Nothing => Ok(None),
        Effect::InitQuietly => {
            // What came of it shows in the next call that reports it.
            let _ = process.runtime_init();
            Ok(None)
        }
        Effect::Init => process.runtime_init().map(|()| None),
        Effect::Context => {
            process.runtime_init()?;
            process.runtime_context(thread).map(Some)
        }
        Effect::Unknown => Err(SIM_NOT_MODELLED),
    }
}

/// "Not modelled" is said to the caller alone: it is no CUDA error that a later call could report.
fn note(thread: &mut Thread, outcome: Outcome) -> Outcome {
    outcome.inspect_err(|code| {
        if *code != SIM_NOT_MODELLED {
            thread.last_error = *code;
        }
    })
}
