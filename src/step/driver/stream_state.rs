//! What a stream is: its number, context, flags, priority and attributes; what it writes to memory.

use super::call;
use crate::step::constants::DEV_RESOURCE_TYPE;
use crate::step::layout::ATTRIBUTE_VALUE_OF;
use crate::step::layout::opaque::{ATTRIBUTE_VALUE, DEV_RESOURCE, GREEN_CONTEXT};
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuStreamCreateWithPriority",
        "Creates a stream with a priority; flag 1 keeps it apart from the NULL stream.",
        &[out("stream", Output::Handle("stream")), or(uint("flags"), 1), or(int("priority"), 0)],
    ),
    call(
        "cuStreamGetFlags",
        "Reads the flags of a stream.",
        &[or(handle("stream", "stream"), 0), out("flags", Output::U32)],
    ),
    call(
        "cuStreamGetId",
        "Reads the number of a stream (12.0 and later).",
        &[or(handle("stream", "stream"), 0), out("id", Output::Varying)],
    ),
    call(
        "cuStreamGetPriority",
        "Reads the priority of a stream.",
        &[or(handle("stream", "stream"), 0), out("priority", Output::I32)],
    ),
    call(
        "cuStreamGetDevice",
        "Reads the GPU of a stream (12.8 and later).",
        &[or(handle("stream", "stream"), 0), out("device", Output::I32)],
    ),
    call(
        "cuStreamGetCtx_v2",
        "Reads the context of a stream, green ones too (12.5 and later).",
        &[
            or(handle("stream", "stream"), 0),
            out("context", Output::Handle("context")),
            out("green", Output::Struct(&GREEN_CONTEXT)),
        ],
    ),
    call(
        "cuStreamGetGreenCtx",
        "Reads the green context of a stream (12.4 and later).",
        &[or(handle("stream", "stream"), 0), out("context", Output::Handle("green context"))],
    ),
    call(
        "cuStreamGetDevResource",
        "Reads what a stream has of its GPU (13.1 and later).",
        &[
            or(handle("stream", "stream"), 0),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            constant("type", &DEV_RESOURCE_TYPE),
        ],
    ),
    call(
        "cuStreamGetAttribute",
        "Reads how the host waits for a stream.",
        &[or(handle("stream", "stream"), 0), fixed("attribute", 3), out("value", Output::Struct(&ATTRIBUTE_VALUE))],
    ),
    call(
        "cuStreamSetAttribute",
        "Sets how the host waits for a stream (1 as the context does).",
        &[or(handle("stream", "stream"), 0), fixed("attribute", 3), param("policy", Kind::In(&ATTRIBUTE_VALUE_OF))],
    ),
    call(
        "cuStreamCopyAttributes",
        "Copies the attributes of one stream to another.",
        &[or(handle("destination", "stream"), 0), or(handle("source", "stream"), 0)],
    ),
    call(
        "cuStreamAttachMemAsync",
        "Gives managed memory to a stream.",
        &[or(handle("stream", "stream"), 0), handle("pointer", "pointer"), bytes("bytes"), or(uint("flags"), 4)],
    ),
    call(
        "cuStreamWriteValue32",
        "Writes four bytes to memory in stream order, by its first ABI.",
        &[or(handle("stream", "stream"), 0), handle("pointer", "pointer"), uint("value"), or(uint("flags"), 0)],
    ),
    call(
        "cuStreamWriteValue32_v2",
        "Writes four bytes to memory in stream order (11.7 and later).",
        &[or(handle("stream", "stream"), 0), handle("pointer", "pointer"), uint("value"), or(uint("flags"), 0)],
    ),
    call(
        "cuStreamWriteValue64",
        "Writes eight bytes to memory in stream order, by its first ABI.",
        &[
            or(handle("stream", "stream"), 0),
            handle("pointer", "pointer"),
            param("value", Kind::U64),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cuStreamWriteValue64_v2",
        "Writes eight bytes to memory in stream order (11.7 and later).",
        &[
            or(handle("stream", "stream"), 0),
            handle("pointer", "pointer"),
            param("value", Kind::U64),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cuStreamBatchMemOp",
        "Waits for and writes to memory in one go, here nothing, by its first ABI.",
        &[or(handle("stream", "stream"), 0), fixed("count", 0), fixed("operations", 0), or(uint("flags"), 0)],
    ),
    call(
        "cuStreamBatchMemOp_v2",
        "Waits for and writes to memory in one go, here nothing (11.7 and later).",
        &[or(handle("stream", "stream"), 0), fixed("count", 0), fixed("operations", 0), or(uint("flags"), 0)],
    ),
];
