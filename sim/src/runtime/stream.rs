//! Streams and events of the runtime. Even a query of a stream makes a context on a thread that has none; one of an event does not.

use super::{call, call_in};
use crate::c::put;
use crate::model::status::{CONTEXT_IS_DESTROYED, INVALID_VALUE};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreate(stream: *mut u64) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call_in("cudaStreamCreate", |process, _, context| unsafe { put(stream, process.create_stream(context)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamDestroy(stream: u64) -> u32 {
    call_in("cudaStreamDestroy", |process, _, context| process.destroy_stream(stream, context))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamSynchronize(stream: u64) -> u32 {
    call_in("cudaStreamSynchronize", |process, _, context| {
        // Measured for this call alone: a stream whose context was reset is known to be lost.
        if process.is_lost_stream(stream) {
            return Err(CONTEXT_IS_DESTROYED);
        }
        let device = process.stream_owner(stream, context)?.device;
        process.synchronise(device);
        Ok(())
    })
}

/// There is never work left, so the answer is always "done".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamQuery(stream: u64) -> u32 {
    call_in("cudaStreamQuery", |process, _, context| process.stream_owner(stream, context).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamWaitEvent(stream: u64, event: u64, flags: u32) -> u32 {
    call_in("cudaStreamWaitEvent", |process, _, context| {
        process.stream_owner(stream, context)?;
        // The event may be of another device; the flags have no use but the external one.
        process.event(event)?;
        if flags <= 1 { Ok(()) } else { Err(INVALID_VALUE) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventCreate(event: *mut u64) -> u32 {
    // SAFETY: see above.
    call_in("cudaEventCreate", |process, _, context| unsafe { put(event, process.create_event(context)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventDestroy(event: u64) -> u32 {
    call_in("cudaEventDestroy", |process, _, _| process.destroy_event(event))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventRecord(event: u64, stream: u64) -> u32 {
    call_in("cudaEventRecord", |process, _, context| process.record(event, stream, context))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventQuery(event: u64) -> u32 {
    call("cudaEventQuery", |process, _| process.event(event).map(drop))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventSynchronize(event: u64) -> u32 {
    call_in("cudaEventSynchronize", |process, _, _| {
        let device = process.event(event)?.owner.device;
        process.synchronise(device);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime(ms: *mut f32, start: u64, end: u64) -> u32 {
    // SAFETY: see above.
    call_in("cudaEventElapsedTime", |process, _, _| unsafe { put(ms, process.elapsed_ms(start, end)?) })
}
