//! Probes: reading the driver's state between steps without changing it.
//!
//! Before the driver is initialized, only `cuDeviceGetCount` is called, which returns 3 and initializes nothing
//! (`instrument/probes-change-nothing` compares with a worker without probes). Afterwards `cuDevicePrimaryCtxGetState`
//! and `cuCtxGetCurrent` read the state without creating a context. The runtime is never called, because its queries
//! initialize it.

use cuda_pitfalls_calls::CallLibrary;

use super::symbols::Symbols;
use cuda_pitfalls_core::event::{Probe, Status};

/// The largest number of GPUs that is accepted.
const MOST_GPUS: i32 = 64;

/// Returns the state of this process and this thread.
pub(super) fn look(symbols: &Symbols) -> Probe {
    let mut probe = Probe::default();
    let mut count = 0i32;
    let Some(result) = call(symbols, "cuDeviceGetCount", [(&raw mut count).addr()]) else {
        return probe;
    };
    probe.status = Some(Status::named(CallLibrary::Driver, result));
    if result != 0 || !(0..=MOST_GPUS).contains(&count) {
        return probe;
    }
    probe.visible = (0..count).map(|device| uuid(symbols, device)).collect();
    probe.active = (0..count)
        .map(|device| is_context_active(symbols, device))
        .collect();
    let (current, current_status) = current(symbols);
    probe.current = current;
    probe.current_status = current_status;
    probe
}

fn uuid(symbols: &Symbols, device: i32) -> Option<String> {
    let mut bytes = [0u8; 16];
    let result = call(
        symbols,
        "cuDeviceGetUuid_v2",
        [(&raw mut bytes).addr(), device as usize],
    )?;
    (result == 0).then(|| super::call::uuid_text(&bytes))
}

fn is_context_active(symbols: &Symbols, device: i32) -> Option<bool> {
    let (mut flags, mut active) = (0u32, 0i32);
    let state = [
        device as usize,
        (&raw mut flags).addr(),
        (&raw mut active).addr(),
    ];
    let result = call(symbols, "cuDevicePrimaryCtxGetState", state)?;
    (result == 0).then_some(active != 0)
}

/// Returns the ordinal of the current context's GPU, or the status if it could not be read.
fn current(symbols: &Symbols) -> (Option<i32>, Option<Status>) {
    let mut context = 0usize;
    match call(symbols, "cuCtxGetCurrent", [(&raw mut context).addr()]) {
        Some(0) if context != 0 => {}
        Some(0) | None => return (None, None),
        Some(code) => return (None, Some(Status::named(CallLibrary::Driver, code))),
    }
    let mut device = 0i32;
    match call(symbols, "cuCtxGetDevice", [(&raw mut device).addr()]) {
        Some(0) => (Some(device), None),
        Some(code) => (None, Some(Status::named(CallLibrary::Driver, code))),
        None => (None, None),
    }
}

/// Returns the status of a function that was called with these arguments; `None` if the function is missing.
fn call<const N: usize>(symbols: &Symbols, name: &str, arguments: [usize; N]) -> Option<i64> {
    // SAFETY: the callers pass the arguments that `cuda.h` declares for the function.
    let status = unsafe {
        super::call::call_raw(
            symbols.address(name)?,
            &arguments.map(|argument| argument as u64),
        )
    };
    Some(i64::from(status as u32))
}
