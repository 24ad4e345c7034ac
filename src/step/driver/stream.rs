//! Streams and events.

use super::call;
use crate::step::{Output, StepKind, fixed, handle, or, out, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuStreamCreate",
        "Creates a stream in the current context.",
        &[out("stream", Output::Handle("stream")), or(uint("flags"), 0)],
    ),
    call("cuStreamDestroy_v2", "Destroys a stream.", &[handle("stream", "stream")]),
    call("cuStreamSynchronize", "Waits for a stream.", &[handle("stream", "stream")]),
    call("cuStreamQuery", "Asks whether a stream is idle.", &[or(handle("stream", "stream"), 0)]),
    call(
        "cuStreamWaitEvent",
        "Makes a stream wait for an event.",
        &[or(handle("stream", "stream"), 0), handle("event", "event"), fixed("flags", 0)],
    ),
    call(
        "cuStreamGetCtx",
        "Reads the context of a stream.",
        &[or(handle("stream", "stream"), 0), out("context", Output::Handle("context"))],
    ),
    call(
        "cuEventCreate",
        "Creates an event in the current context.",
        &[out("event", Output::Handle("event")), or(uint("flags"), 0)],
    ),
    call("cuEventDestroy_v2", "Destroys an event.", &[handle("event", "event")]),
    call(
        "cuEventRecord",
        "Records an event in a stream.",
        &[handle("event", "event"), or(handle("stream", "stream"), 0)],
    ),
    call("cuEventQuery", "Asks whether an event has completed.", &[handle("event", "event")]),
    call("cuEventSynchronize", "Waits for an event.", &[handle("event", "event")]),
];
