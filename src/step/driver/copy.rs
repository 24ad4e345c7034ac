//! Copies beyond those of [`super::memory`]: in stream order, of arrays, described by a struct.

use super::call;
use crate::step::layout::opaque::{COPY, COPY_ATTRIBUTES};
use crate::step::{Output, StepKind, bytes, fixed, handle, or, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemcpy",
        "Copies memory; the pointers tell the direction.",
        &[handle("destination", "pointer"), handle("source", "pointer"), bytes("bytes")],
    ),
    call(
        "cuMemcpyAsync",
        "Copies memory in stream order; the pointers tell the direction.",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyHtoD_v2",
        "Copies host memory to a GPU.",
        &[handle("destination", "pointer"), handle("source", "pointer"), bytes("bytes")],
    ),
    call(
        "cuMemcpyHtoDAsync_v2",
        "Copies host memory to a GPU in stream order.",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyDtoHAsync_v2",
        "Copies device memory to the host in stream order.",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyDtoDAsync_v2",
        "Copies device memory in stream order.",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyPeerAsync",
        "Copies device memory from one context to another in stream order.",
        &[
            handle("destination", "pointer"),
            handle("destination_context", "context"),
            handle("source", "pointer"),
            handle("source_context", "context"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyDtoA_v2",
        "Copies device memory to an array.",
        &[handle("array", "array"), or(bytes("x"), 0), handle("source", "pointer"), bytes("bytes")],
    ),
    call(
        "cuMemcpyAtoD_v2",
        "Copies an array to device memory.",
        &[handle("destination", "pointer"), handle("array", "array"), or(bytes("x"), 0), bytes("bytes")],
    ),
    call(
        "cuMemcpyHtoA_v2",
        "Copies host memory to an array.",
        &[handle("array", "array"), or(bytes("x"), 0), handle("source", "pointer"), bytes("bytes")],
    ),
    call(
        "cuMemcpyHtoAAsync_v2",
        "Copies host memory to an array in stream order.",
        &[
            handle("array", "array"),
            or(bytes("x"), 0),
            handle("source", "pointer"),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyAtoH_v2",
        "Copies an array to host memory.",
        &[handle("destination", "pointer"), handle("array", "array"), or(bytes("x"), 0), bytes("bytes")],
    ),
    call(
        "cuMemcpyAtoHAsync_v2",
        "Copies an array to host memory in stream order.",
        &[
            handle("destination", "pointer"),
            handle("array", "array"),
            or(bytes("x"), 0),
            bytes("bytes"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyAtoA_v2",
        "Copies an array to another.",
        &[
            handle("destination", "array"),
            or(bytes("destination_x"), 0),
            handle("source", "array"),
            or(bytes("source_x"), 0),
            bytes("bytes"),
        ],
    ),
    call("cuMemcpy2D_v2", "Copies rows that a struct describes, here all zero.", &[out("copy", Output::Struct(&COPY))]),
    call(
        "cuMemcpy2DUnaligned_v2",
        "Copies rows that a struct describes, here all zero, at any address.",
        &[out("copy", Output::Struct(&COPY))],
    ),
    call(
        "cuMemcpy2DAsync_v2",
        "Copies rows that a struct describes, here all zero, in stream order.",
        &[out("copy", Output::Struct(&COPY)), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemcpy3D_v2",
        "Copies a block that a struct describes, here all zero.",
        &[out("copy", Output::Struct(&COPY))],
    ),
    call(
        "cuMemcpy3DAsync_v2",
        "Copies a block that a struct describes, here all zero, in stream order.",
        &[out("copy", Output::Struct(&COPY)), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemcpy3DPeer",
        "Copies a block from one context to another, here all zero.",
        &[out("copy", Output::Struct(&COPY))],
    ),
    call(
        "cuMemcpy3DPeerAsync",
        "Copies a block from one context to another, here all zero, in stream order.",
        &[out("copy", Output::Struct(&COPY)), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemcpyBatchAsync",
        "Makes several copies, here none, by its ABI of 12.8.",
        &[
            fixed("destinations", 0),
            fixed("sources", 0),
            fixed("sizes", 0),
            fixed("count", 0),
            fixed("attributes", 0),
            fixed("attribute_indices", 0),
            fixed("attribute_count", 0),
            out("failed", Output::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpyBatchAsync_v2",
        "Makes several copies, here none (13.0 and later).",
        &[
            fixed("destinations", 0),
            fixed("sources", 0),
            fixed("sizes", 0),
            fixed("count", 0),
            fixed("attributes", 0),
            fixed("attribute_indices", 0),
            fixed("attribute_count", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpy3DBatchAsync",
        "Copies several blocks, here none, by its ABI of 12.8.",
        &[
            fixed("count", 0),
            fixed("operations", 0),
            out("failed", Output::U64),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpy3DBatchAsync_v2",
        "Copies several blocks, here none (13.0 and later).",
        &[fixed("count", 0), fixed("operations", 0), fixed("flags", 0), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemcpyWithAttributesAsync",
        "Copies memory with hints, here all zero (13.2 and later).",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            out("attributes", Output::Struct(&COPY_ATTRIBUTES)),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemcpy3DWithAttributesAsync",
        "Copies a block with hints, here all zero (13.2 and later).",
        &[out("operation", Output::Struct(&COPY)), fixed("flags", 0), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemBatchDecompressAsync",
        "Decompresses several ranges, here none (12.6 and later).",
        &[
            fixed("params", 0),
            fixed("count", 0),
            fixed("flags", 0),
            out("failed", Output::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
];
