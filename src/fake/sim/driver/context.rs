//! Contexts: primary ones, others, the thread's stack, limits.

use super::{call, call_in, call_on};
use crate::model::status::{INVALID_CONTEXT, INVALID_VALUE, Outcome, SIM_NOT_MODELLED};
use crate::model::thread::Thread;
use crate::pointer::Out;
use crate::process::SimulatedProcess;
use crate::symbols::symbols;
use std::ffi::c_void;

/// The flags a context may have: scheduling, host mapping, local memory and core dumps.
pub const CONTEXT_FLAGS: u32 = 0xff;

symbols! {
    fn cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) = call(|process, _| {
        let device = process.ordinal(device)?;
        context.put_with(|| process.retain_primary(device))
    });

    fn cuDevicePrimaryCtxRelease_v2(device: i32) = call(|process, _| process.release_primary(process.ordinal(device)?));

    fn cuDevicePrimaryCtxReset_v2(device: i32) = call(|process, _| {
        process.reset_primary(process.ordinal(device)?);
        Ok(())
    });

    /// Does not create a context: programs use this call to check if one exists.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) = call(|process, _| {
        let primary = &process.device(device)?.primary;
        flags.put(primary.flags)?;
        active.put(i32::from(primary.active))
    });

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) = call(|process, _| {
        let device = process.ordinal(device)?;
        if flags & !CONTEXT_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        process.devices[device].primary.flags = flags;
        Ok(())
    });

    fn cuCtxCreate_v2(context: Out<u64>, flags: u32, device: i32) =
        call(|process, thread| create(process, thread, &context, flags, device));

    fn cuCtxCreate_v4(context: Out<u64>, params: *const c_void, flags: u32, device: i32) = call(|process, thread| {
        if params.is_null() { create(process, thread, &context, flags, device) } else { Err(SIM_NOT_MODELLED) }
    });

    fn cuCtxDestroy_v2(context: u64) =
        call_on(context, INVALID_VALUE, |process, thread| process.destroy_context(context, thread));

    fn cuCtxPushCurrent_v2(context: u64) = call(|process, thread| {
        thread.stack.push(process.selectable(context)?);
        Ok(())
    });

    fn cuCtxPopCurrent_v2(context: Out<u64>) = call(|_, thread| {
        let handle = thread.stack.pop().ok_or(INVALID_CONTEXT)?;
        if context.given().is_ok() { context.put(handle) } else { Ok(()) }
    });

    /// Replaces the top of the stack; null removes it.
    fn cuCtxSetCurrent(context: u64) = call(|process, thread| {
        thread.set_current(if context == 0 { None } else { Some(process.selectable(context)?) });
        Ok(())
    });

    fn cuCtxGetCurrent(context: Out<u64>) = call(|_, thread| context.put(thread.current().unwrap_or(0)));

    fn cuCtxGetDevice(device: Out<i32>) = call(|process, thread| device.put(process.current_device(thread)? as i32));

    /// The device of a context, or of the current one for null.
    fn cuCtxGetDevice_v2(device: Out<i32>, context: u64) = call(|process, thread| {
        let found = match context {
            0 => process.current_device(thread)?,
            context => process.contexts.get(context)?.device,
        };
        device.put(found as i32)
    });

    fn cuCtxSynchronize_v2(context: u64) = call(|process, thread| {
        if context == 0 || thread.current() == Some(context) {
            process.wait_for_current(thread)
        } else {
            Err(SIM_NOT_MODELLED)
        }
    });

    fn cuCtxSynchronize() = call(|process, thread| process.wait_for_current(thread));

    fn cuCtxGetLimit(value: Out<usize>, limit: u32) =
        call_in(|process, _, current| value.put(process.limit(current, limit)? as usize));

    fn cuCtxSetLimit(limit: u32, value: usize) =
        call_in(|process, _, current| process.set_limit(current, limit, value as u64));
}

fn create(
    process: &mut SimulatedProcess,
    thread: &mut Thread,
    context: &Out<u64>,
    flags: u32,
    device: i32,
) -> Outcome {
    let device = process.ordinal(device)?;
    context.given()?;
    if flags & !CONTEXT_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let handle = process.create_context(device)?;
    thread.stack.push(handle);
    context.put(handle)
}
