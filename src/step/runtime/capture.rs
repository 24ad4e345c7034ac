//! Capturing a stream's work as a graph.

use super::call;
use crate::step::constants::STREAM_CAPTURE_MODE;
use crate::step::{Output, StepKind, constant, fixed, handle, or, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaStreamBeginCapture",
        "Starts to capture a stream.",
        &[or(handle("stream", "stream"), 0), constant("mode", &STREAM_CAPTURE_MODE)],
    ),
    call(
        "cudaStreamBeginCaptureToGraph",
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
        "cudaStreamEndCapture",
        "Ends a capture and returns its graph.",
        &[or(handle("stream", "stream"), 0), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cudaStreamIsCapturing",
        "Asks whether a stream is being captured.",
        &[or(handle("stream", "stream"), 0), out("status", Output::I32)],
    ),
    // The third and later outputs may be left out; what they are changed with 13.0.
    call(
        "cudaStreamGetCaptureInfo",
        "Reads the state and the number of a capture.",
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
        "cudaStreamGetCaptureInfo_v2",
        "Reads the state and the number of a capture, until 12.9.",
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
        "cudaStreamGetCaptureInfo_v3",
        "Reads the state and the number of a capture (12.3 to 12.9).",
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
    // Until 12.9 there is no list of edges, and so the count is the third parameter and the flags are the fourth.
    call(
        "cudaStreamUpdateCaptureDependencies",
        "Changes what the next captured node waits for; no node is given.",
        &[
            or(handle("stream", "stream"), 0),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            fixed("flags", 0),
        ],
    ),
    call(
        "cudaStreamUpdateCaptureDependencies_v2",
        "Changes what the next captured node waits for, with edges (12.3 to 12.9); no node is given.",
        &[
            or(handle("stream", "stream"), 0),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            fixed("flags", 0),
        ],
    ),
];
