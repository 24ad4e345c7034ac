//! Streams and events of the runtime. On a thread without a context, even a query of a stream creates a context; a
//! query of an event does not.

use super::{call, call_in, wait, wait_in};
use crate::model::status::{CONTEXT_IS_DESTROYED, INVALID_VALUE, SIM_NOT_MODELLED};
use crate::pointer::Out;
use crate::symbols::runtime_symbols;

runtime_symbols! {
    fn cudaStreamCreate(stream: Out<u64>) = call_in(|process, _, context| stream.put(process.create_stream(context)?));

    fn cudaStreamCreateWithFlags(stream: Out<u64>, flags: u32) = call_in(|process, _, context| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        stream.put(process.create_stream(context)?)
    });

    fn cudaStreamDestroy(stream: u64) = call_in(|process, _, context| process.destroy_stream(stream, context));

    fn cudaStreamSynchronize(stream: u64) = wait_in(stream, |process, _, context| {
        // Measured for this call alone: a stream whose context was reset is known to be lost.
        if process.is_lost_stream(stream) {
            return Err(CONTEXT_IS_DESTROYED);
        }
        process.wait(process.stream_owner(stream, Ok(context))?)
    });

    fn cudaStreamQuery(stream: u64) = call_in(|process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        process.is_idle()
    });

    /// Creates a context although the mode belongs only to the thread (context/capture-mode-makes-one).
    fn cudaThreadExchangeStreamCaptureMode(mode: Out<i32>) = call_in(|_, thread, _| {
        let wanted = mode.read()?;
        if !(0..=2).contains(&wanted) {
            return Err(SIM_NOT_MODELLED);
        }
        mode.put(std::mem::replace(&mut thread.capture_mode, wanted))
    });

    fn cudaStreamWaitEvent(stream: u64, event: u64, flags: u32) = call_in(|process, _, context| {
        process.stream_owner(stream, Ok(context))?;
        // The event may belong to another device; the flags have no use but the external one.
        process.event(event)?;
        if flags <= 1 { Ok(()) } else { Err(INVALID_VALUE) }
    });

    fn cudaEventCreate(event: Out<u64>) = call_in(|process, _, context| event.put(process.create_event(context)));

    fn cudaEventCreateWithFlags(event: Out<u64>, _flags: u32) =
        call_in(|process, _, context| event.put(process.create_event(context)));

    fn cudaEventDestroy(event: u64) = call_in(|process, _, _| process.destroy_event(event));

    fn cudaEventRecord(event: u64, stream: u64) =
        call_in(|process, _, context| process.record(event, stream, context));

    fn cudaEventQuery(event: u64) = call(|process, _| {
        process.event(event)?;
        process.is_idle()
    });

    fn cudaEventSynchronize(event: u64) = wait(|process, _| process.wait(process.event(event)?.owner));

    fn cudaEventElapsedTime(ms: Out<f32>, start: u64, end: u64) =
        call(|process, _| ms.put(process.elapsed_ms(start, end)?));
}
