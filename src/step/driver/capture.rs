//! Capturing a stream's work as a graph.

use super::call;
use crate::step::constants::STREAM_CAPTURE_MODE;
use crate::step::layout::CAPTURE_MODE;
use crate::step::{Output, StepKind, constant, fixed, handle, or, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuThreadExchangeStreamCaptureMode",
        "Sets the thread's capture mode to relaxed and reads what it was.",
        &[out("mode", Output::Struct(&CAPTURE_MODE))],
    ),
    call(
        "cuStreamBeginCapture_v2",
        "Starts to capture a stream.",
        &[or(handle("stream", "stream"), 0), constant("mode", &STREAM_CAPTURE_MODE)],
    ),
    call(
        "cuStreamBeginCaptureToGraph",
        "Starts to capture a stream into a graph that exists (12.3 and later).",
        &[
            or(handle("stream", "stream"), 0),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            constant("mode", &STREAM_CAPTURE_MODE),
        ],
    ),
    call(
        "cuStreamEndCapture",
        "Ends a capture and returns its graph.",
        &[or(handle("stream", "stream"), 0), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cuStreamIsCapturing",
        "Asks whether a stream is being captured.",
        &[or(handle("stream", "stream"), 0), out("status", Output::I32)],
    ),
    call(
        "cuStreamGetCaptureInfo",
        "Reads the state and the number of a capture, by its first ABI.",
        &[or(handle("stream", "stream"), 0), out("status", Output::I32), out("id", Output::Varying)],
    ),
    call(
        "cuStreamGetCaptureInfo_v2",
        "Reads the state and the number of a capture (11.3 form).",
        &[
            or(handle("stream", "stream"), 0),
            out("status", Output::I32),
            out("id", Output::Varying),
            fixed("graph", 0),
            fixed("dependencies", 0),
            fixed("count", 0),
        ],
    ),
    call(
        "cuStreamGetCaptureInfo_v3",
        "Reads the state and the number of a capture (12.3 form).",
        &[
            or(handle("stream", "stream"), 0),
            out("status", Output::I32),
            out("id", Output::Varying),
            fixed("graph", 0),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
        ],
    ),
    call(
        "cuStreamUpdateCaptureDependencies",
        "Changes what the next captured node waits for; no node is given.",
        &[or(handle("stream", "stream"), 0), fixed("dependencies", 0), fixed("count", 0), fixed("flags", 0)],
    ),
    call(
        "cuStreamUpdateCaptureDependencies_v2",
        "Changes what the next captured node waits for, with edges; no node is given.",
        &[
            or(handle("stream", "stream"), 0),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            fixed("flags", 0),
        ],
    ),
];
