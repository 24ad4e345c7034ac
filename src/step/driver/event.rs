//! Events beyond their making, see [`super::stream`].

use super::call;
use crate::step::{Output, StepKind, handle, or, out, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuEventRecordWithFlags",
        "Records an event in a stream; flag 1 makes it external to a capture.",
        &[handle("event", "event"), or(handle("stream", "stream"), 0), or(uint("flags"), 0)],
    ),
    call(
        "cuEventElapsedTime",
        "Measures the time between two events.",
        &[out("milliseconds", Output::F32), handle("start", "event"), handle("end", "event")],
    ),
    call(
        "cuEventElapsedTime_v2",
        "Measures the time between two events (12.8 and later).",
        &[out("milliseconds", Output::F32), handle("start", "event"), handle("end", "event")],
    ),
    call(
        "cuIpcGetEventHandle",
        "Makes an event known to other processes.",
        &[out("ipc", Output::Blob("event ipc", 64)), handle("event", "event")],
    ),
];
