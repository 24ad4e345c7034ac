//! Streams and events.

use super::call;
use crate::step::layout::CAPTURE_MODE;
use crate::step::{Kind, Output, StepKind, handle, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cudaStreamCreate", "Creates a stream on the current device.", &[out("stream", Output::Handle("stream"))]),
    call("cudaStreamDestroy", "Destroys a stream.", &[handle("stream", "stream")]),
    call("cudaStreamSynchronize", "Waits for a stream.", &[or(handle("stream", "stream"), 0)]),
    call("cudaStreamQuery", "Asks whether a stream is idle.", &[or(handle("stream", "stream"), 0)]),
    call(
        "cudaStreamWaitEvent",
        "Makes a stream wait for an event.",
        &[or(handle("stream", "stream"), 0), handle("event", "event"), or(uint("flags"), 0)],
    ),
    call("cudaEventCreate", "Creates an event on the current device.", &[out("event", Output::Handle("event"))]),
    call("cudaEventDestroy", "Destroys an event.", &[handle("event", "event")]),
    call(
        "cudaEventRecord",
        "Records an event in a stream.",
        &[handle("event", "event"), or(handle("stream", "stream"), 0)],
    ),
    call("cudaEventQuery", "Asks whether an event has completed.", &[handle("event", "event")]),
    call("cudaEventSynchronize", "Waits for an event.", &[handle("event", "event")]),
    call(
        "cudaEventElapsedTime",
        "Measures the time between two events.",
        &[out("milliseconds", Output::F32), handle("start", "event"), handle("end", "event")],
    ),
    call(
        "cudaStreamCreateWithFlags",
        "Creates a stream on the current device; flag 1 keeps it apart from the NULL stream.",
        &[out("stream", Output::Handle("stream")), or(uint("flags"), 1)],
    ),
    call(
        "cudaStreamGetDevice",
        "Reads the device of a stream (12.8 and later).",
        &[or(handle("stream", "stream"), 0), out("device", Output::I32)],
    ),
    call(
        "cudaEventCreateWithFlags",
        "Creates an event on the current device; flag 2 leaves out timing.",
        &[out("event", Output::Handle("event")), or(uint("flags"), 2)],
    ),
    call(
        "cudaThreadExchangeStreamCaptureMode",
        "Sets the thread's capture mode to relaxed and reads what it was.",
        &[param("mode", Kind::Out(Output::Struct(&CAPTURE_MODE)))],
    ),
];
