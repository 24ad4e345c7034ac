//! Initialization, versions, error texts.

use super::status::*;
use super::{OPENER, OPENINGS, call, call_anyway, count, is_open, put, put_text};
use crate::c;
use crate::machine::description::MachineConf;
use crate::machine::{NoMachine, machine};
use crate::model::needs;
use crate::model::status::SIM_NOT_MODELLED;
use crate::pointer::Out;
use crate::symbols::symbols;
use std::ffi::c_char;
use std::sync::atomic::Ordering;

symbols! {
    fn nvmlInit_v2() = init();

    /// PyTorch calls it by its first name.
    fn nvmlInit() = init();

    /// 1 is "no GPUs is fine", 2 "do not attach"; both change nothing here.
    fn nvmlInitWithFlags(flags: u32) = if flags > 3 { SIM_NOT_MODELLED } else { init() };

    fn nvmlShutdown() = {
        let is_less = is_open()
            && OPENINGS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1)).is_ok();
        if is_less { SUCCESS } else { UNINITIALIZED }
    };

    /// Events are not supported, so no sets exist; callers resolve the symbol anyway.
    fn nvmlEventSetFree(_set: u64) = call(|_| Err(SIM_NOT_MODELLED));

    fn nvmlSystemGetDriverVersion(text: Out<c_char>, room: u32) =
        // SAFETY: here and below the caller passes an array of this length, or null.
        call(|machine| unsafe { put_text(&text, room, &machine.description.driver_version) });

    /// Answers before `nvmlInit` too (the survey of calls).
    fn nvmlSystemGetNVMLVersion(text: Out<c_char>, room: u32) = call_anyway(|machine| {
        let MachineConf { cuda_driver_version, driver_version, .. } = &machine.description;
        // SAFETY: see above.
        unsafe { put_text(&text, room, &format!("{}.{driver_version}", cuda_driver_version / 1000)) }
    });

    fn nvmlSystemGetCudaDriverVersion(version: Out<i32>) =
        call(|machine| put(&version, machine.description.cuda_driver_version));

    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<i32>) =
        call(|machine| put(&version, machine.description.cuda_driver_version));
}

fn init() -> u32 {
    if let Err(code) = needs::nvml::check_init() {
        return code;
    }
    match machine() {
        Ok(found) => {
            if !is_open() {
                count(found.description.gpus.len());
                OPENINGS.store(0, Ordering::Release);
                OPENER.store(c::pid(), Ordering::Release);
            }
            OPENINGS.fetch_add(1, Ordering::AcqRel);
            SUCCESS
        }
        Err(NoMachine::Missing) => NOT_FOUND,
        Err(NoMachine::Malformed) => UNKNOWN,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    match code {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        ARGUMENT_VERSION_MISMATCH => c"Argument Version Mismatch",
        UNKNOWN => c"Unknown Error",
        SIM_NOT_MODELLED => c"Not modelled by the simulated driver of cuda-pitfalls",
        _ => c"Unrecognized error code",
    }
    .as_ptr()
}
