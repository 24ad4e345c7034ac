//! Events beyond their making, see [`super::stream`].

use super::call;
use crate::step::{Output, StepKind, handle, or, out, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaEventRecordWithFlags",
        "Records an event in a stream; flag 1 makes it external to a capture.",
        &[handle("event", "event"), or(handle("stream", "stream"), 0), or(uint("flags"), 0)],
    ),
    call(
        "cudaEventElapsedTime_v2",
        "Measures the time between two events (12.8 and 12.9).",
        &[out("milliseconds", Output::F32), handle("start", "event"), handle("end", "event")],
    ),
    call(
        "cudaIpcGetEventHandle",
        "Makes an event known to other processes.",
        &[out("ipc", Output::Blob("event ipc", 64)), handle("event", "event")],
    ),
];
