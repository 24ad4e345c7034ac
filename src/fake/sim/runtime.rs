//! The symbols of libcudart, on top of the same state as libcuda. `model::behaviour::effect_of` defines what a call
//! does before its own work.

mod copy;
mod device;
mod error;
mod memory;
mod pool;
mod stream;

use crate::entry::{Initialiser, enter, enter_initialising};
use crate::machine::machine;
use crate::model::behaviour::{CallEffect, effect_of};
use crate::model::context::ContextOwner;
use crate::model::status::{Outcome, SIM_NOT_MODELLED};
use crate::model::thread::Thread;
use crate::process::SimulatedProcess;

/// Runs a call that needs no context, and notes its error for `cudaGetLastError`.
fn call(name: &str, work: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome) -> u32 {
    run(name, None, |process, thread, _| work(process, thread))
}

/// Runs a call in a context, which is created if necessary.
fn call_in(
    name: &str,
    work: impl FnOnce(&mut SimulatedProcess, &mut Thread, ContextOwner) -> Outcome,
) -> u32 {
    run(name, None, |process, thread, context| {
        work(process, thread, context.ok_or(SIM_NOT_MODELLED)?)
    })
}

/// Runs a call that waits for an event, on whatever thread.
fn wait(name: &str, work: impl FnOnce(&mut SimulatedProcess, &mut Thread) -> Outcome) -> u32 {
    run(name, Some(0), |process, thread, _| work(process, thread))
}

/// Runs a call that waits for a stream. The call reports a kernel's fault.
fn wait_in(
    name: &str,
    stream: u64,
    work: impl FnOnce(&mut SimulatedProcess, &mut Thread, ContextOwner) -> Outcome,
) -> u32 {
    run(name, Some(stream), |process, thread, context| {
        work(process, thread, context.ok_or(SIM_NOT_MODELLED)?)
    })
}

/// Runs a call, which may wait for a stream. "Not modeled" is returned only to the caller: it is not a CUDA error that
/// a later call could report.
fn run(
    name: &str,
    waits_for: Option<u64>,
    work: impl FnOnce(&mut SimulatedProcess, &mut Thread, Option<ContextOwner>) -> Outcome,
) -> u32 {
    enter_by(name, |effect, process, thread| {
        if let Some(stream) = waits_for {
            process.surface_of_stream(stream, thread);
        }
        let outcome =
            before(effect, process, thread).and_then(|context| work(process, thread, context));
        outcome.inspect_err(|code| {
            if *code != SIM_NOT_MODELLED {
                thread.last_error = *code;
            }
        })
    })
}

/// Enters the runtime for the call of this name, which selects the effect before the call's own work.
fn enter_by(
    name: &str,
    call: impl FnOnce(CallEffect, &mut SimulatedProcess, &mut Thread) -> Outcome,
) -> u32 {
    // Without a machine there is no version either, and the call fails because the machine is missing.
    let runtime = machine().map_or(0, |machine| machine.description.cuda_runtime_version);
    let effect = effect_of(name, runtime);
    match effect {
        CallEffect::Nothing | CallEffect::Unknown => {
            enter(|process, thread| call(effect, process, thread))
        }
        CallEffect::InitQuietly | CallEffect::Init | CallEffect::Context => {
            enter_initialising(Initialiser::Runtime, |process, thread| {
                call(effect, process, thread)
            })
        }
    }
}

/// Applies the effect of a call before its own work, and returns its context if it needs one.
fn before(
    effect: CallEffect,
    process: &mut SimulatedProcess,
    thread: &mut Thread,
) -> Outcome<Option<ContextOwner>> {
    match effect {
        CallEffect::Nothing => Ok(None),
        CallEffect::InitQuietly => {
            // Whether it failed shows in the next call that reports it.
            let _ = process.runtime_init();
            Ok(None)
        }
        CallEffect::Init => process.runtime_init().map(|()| None),
        CallEffect::Context => {
            process.runtime_init()?;
            process.runtime_context(thread).map(Some)
        }
        CallEffect::Unknown => Err(SIM_NOT_MODELLED),
    }
}
