//! Streams and events of the driver.

use super::{call, call_on};
use crate::c::put;
use crate::model::status::{INVALID_HANDLE, INVALID_VALUE};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut u64, flags: u32) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
        unsafe { put(stream, process.create_stream(current)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    call_on(stream, INVALID_HANDLE, |process, thread| process.destroy_stream(stream, process.current(thread)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    call(|process, thread| {
        process.surface_of_stream(stream, thread);
        let owner = process.stream_owner(stream, process.current(thread))?;
        process.wait(owner)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut u64, _flags: u32) -> u32 {
    call(|process, thread| {
        let current = process.current(thread)?;
        // SAFETY: see above.
        unsafe { put(event, process.create_event(current)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    call_on(event, INVALID_HANDLE, |process, _| process.destroy_event(event))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    call(|process, thread| process.record(event, stream, process.current(thread)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: u64) -> u32 {
    call(|process, thread| {
        process.stream_owner(stream, process.current(thread))?;
        process.is_idle()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: u64, context: *mut u64) -> u32 {
    // SAFETY: see above.
    call(|process, thread| unsafe { put(context, process.stream_owner(stream, process.current(thread))?.context) })
}
