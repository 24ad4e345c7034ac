//! Streams and events of the driver.

use super::{call, call_in, call_on};
use crate::model::status::{INVALID_HANDLE, INVALID_VALUE};
use crate::pointer::Out;
use crate::symbols::symbols;

symbols! {
    fn cuStreamCreate(stream: Out<u64>, flags: u32) = call_in(|process, _, current| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        stream.put(process.create_stream(current)?)
    });

    fn cuStreamDestroy_v2(stream: u64) = call_on(stream, INVALID_HANDLE, |process, thread| {
        process.destroy_stream(stream, process.current(thread)?)
    });

    fn cuStreamSynchronize(stream: u64) = call(|process, thread| {
        process.surface_of_stream(stream, thread);
        process.wait(process.stream_owner(stream, process.current(thread))?)
    });

    fn cuStreamQuery(stream: u64) = call(|process, thread| {
        process.stream_owner(stream, process.current(thread))?;
        process.is_idle()
    });

    fn cuStreamGetCtx(stream: u64, context: Out<u64>) =
        call(|process, thread| context.put(process.stream_owner(stream, process.current(thread))?.context));
}
