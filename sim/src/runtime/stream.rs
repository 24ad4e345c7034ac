//! Streams and events of the runtime. Even a query of a stream makes a context on a thread that has none; one of an event does not.

use super::{call, call_in, wait, wait_in};
use crate::c::put;
use crate::model::status::{CONTEXT_IS_DESTROYED, INVALID_VALUE, SIM_NOT_MODELLED};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreate(stream: *mut u64) -> u32 {
    // SAFETY: here and below the caller passes pointers to what the C prototypes say, or null.
    call_in("cudaStreamCreate", |process, _, context| unsafe { put(stream, process.create_stream(context)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamCreateWithFlags(stream: *mut u64, flags: u32) -> u32 {
    call_in("cudaStreamCreateWithFlags", |process, _, context| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: see above.
        unsafe { put(stream, process.create_stream(context)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamDestroy(stream: u64) -> u32 {
    call_in("cudaStreamDestroy", |process, _, context| process.destroy_stream(stream, context))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamSynchronize(stream: u64) -> u32 {
    wait_in("cudaStreamSynchronize", stream, |process, _, context| {
        // Measured for this call alone: a stream whose context was reset is known to be lost.
        if process.is_lost_stream(stream) {
            return Err(CONTEXT_IS_DESTROYED);
        }
        let owner = process.stream_owner(stream, Ok(context))?;
        process.wait(owner)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamQuery(stream: u64) -> u32 {
    call_in("cudaStreamQuery", |process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        process.is_idle()
    })
}

/// The per-thread default stream is a stream like others and comes with the first use (device/null-stream-follows-the-thread).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetDevice(stream: u64, device: *mut i32) -> u32 {
    call_in("cudaStreamGetDevice", |process, thread, context| {
        let owner = process.stream_owner(stream, Ok(context))?;
        let own = (owner.context, owner.life);
        if stream == PER_THREAD && !thread.own_streams.contains(&own) {
            process.charge_stream(owner)?;
            thread.own_streams.push(own);
        }
        // SAFETY: see above.
        unsafe { put(device, owner.device as i32) }
    })
}

/// `cudaStreamPerThread`.
const PER_THREAD: u64 = 2;

/// Makes a context although it is of the thread alone (context/capture-mode-makes-one).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: *mut i32) -> u32 {
    call_in("cudaThreadExchangeStreamCaptureMode", |_, thread, _| {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null; the caller passes a mode.
        let wanted = unsafe { mode.read_unaligned() };
        if !(0..=2).contains(&wanted) {
            return Err(SIM_NOT_MODELLED);
        }
        // SAFETY: as above.
        unsafe { put(mode, std::mem::replace(&mut thread.capture_mode, wanted)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamWaitEvent(stream: u64, event: u64, flags: u32) -> u32 {
    call_in("cudaStreamWaitEvent", |process, _, context| {
        process.stream_owner(stream, Ok(context))?;
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
pub unsafe extern "C" fn cudaEventCreateWithFlags(event: *mut u64, _flags: u32) -> u32 {
    call_in("cudaEventCreateWithFlags", |process, _, context| {
        // SAFETY: see above.
        unsafe { put(event, process.create_event(context)) }
    })
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
    call("cudaEventQuery", |process, _| {
        process.event(event)?;
        process.is_idle()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventSynchronize(event: u64) -> u32 {
    wait("cudaEventSynchronize", |process, _| {
        let owner = process.event(event)?.owner;
        process.wait(owner)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaEventElapsedTime(ms: *mut f32, start: u64, end: u64) -> u32 {
    // SAFETY: see above.
    call("cudaEventElapsedTime", |process, _| unsafe { put(ms, process.elapsed_ms(start, end)?) })
}
