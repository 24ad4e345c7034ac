//! Fills beyond that of a byte at a time.

use super::call;
use crate::step::{Kind, StepKind, bytes, handle, int, or, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemsetD8Async",
        "Fills device memory with a byte in stream order.",
        &[handle("pointer", "pointer"), or(int("value"), 0), bytes("bytes"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemsetD16_v2",
        "Fills device memory with two bytes.",
        &[handle("pointer", "pointer"), or(int("value"), 0), param("count", Kind::U64)],
    ),
    call(
        "cuMemsetD16Async",
        "Fills device memory with two bytes in stream order.",
        &[
            handle("pointer", "pointer"),
            or(int("value"), 0),
            param("count", Kind::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemsetD32_v2",
        "Fills device memory with four bytes.",
        &[handle("pointer", "pointer"), or(int("value"), 0), param("count", Kind::U64)],
    ),
    call(
        "cuMemsetD32Async",
        "Fills device memory with four bytes in stream order.",
        &[
            handle("pointer", "pointer"),
            or(int("value"), 0),
            param("count", Kind::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemsetD2D8_v2",
        "Fills rows of device memory with a byte.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
        ],
    ),
    call(
        "cuMemsetD2D8Async",
        "Fills rows of device memory with a byte in stream order.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemsetD2D16_v2",
        "Fills rows of device memory with two bytes.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
        ],
    ),
    call(
        "cuMemsetD2D16Async",
        "Fills rows of device memory with two bytes in stream order.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemsetD2D32_v2",
        "Fills rows of device memory with four bytes.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
        ],
    ),
    call(
        "cuMemsetD2D32Async",
        "Fills rows of device memory with four bytes in stream order.",
        &[
            handle("pointer", "pointer"),
            or(bytes("pitch"), 0),
            or(int("value"), 0),
            param("width", Kind::U64),
            param("height", Kind::U64),
            or(handle("stream", "stream"), 0),
        ],
    ),
];
