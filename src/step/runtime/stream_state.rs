//! What a stream is: its number, flags, priority and attributes.

use super::call;
use crate::step::layout::ATTRIBUTE_VALUE_OF;
use crate::step::layout::opaque::ATTRIBUTE_VALUE;
use crate::step::{Kind, Output, StepKind, bytes, fixed, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaStreamCreateWithPriority",
        "Creates a stream with a priority; flag 1 keeps it apart from the NULL stream.",
        &[out("stream", Output::Handle("stream")), or(uint("flags"), 1), or(int("priority"), 0)],
    ),
    call(
        "cudaStreamGetFlags",
        "Reads the flags of a stream.",
        &[or(handle("stream", "stream"), 0), out("flags", Output::U32)],
    ),
    call(
        "cudaStreamGetId",
        "Reads the number of a stream (12.0 and later).",
        &[or(handle("stream", "stream"), 0), out("id", Output::Varying)],
    ),
    call(
        "cudaStreamGetPriority",
        "Reads the priority of a stream.",
        &[or(handle("stream", "stream"), 0), out("priority", Output::I32)],
    ),
    call(
        "cudaStreamGetAttribute",
        "Reads how the host waits for a stream.",
        &[or(handle("stream", "stream"), 0), fixed("attribute", 3), out("value", Output::Struct(&ATTRIBUTE_VALUE))],
    ),
    call(
        "cudaStreamSetAttribute",
        "Sets how the host waits for a stream (1 as the device does).",
        &[or(handle("stream", "stream"), 0), fixed("attribute", 3), param("policy", Kind::In(&ATTRIBUTE_VALUE_OF))],
    ),
    call(
        "cudaStreamCopyAttributes",
        "Copies the attributes of one stream to another.",
        &[or(handle("destination", "stream"), 0), or(handle("source", "stream"), 0)],
    ),
    call(
        "cudaStreamAttachMemAsync",
        "Gives managed memory to a stream.",
        &[or(handle("stream", "stream"), 0), handle("pointer", "pointer"), bytes("bytes"), or(uint("flags"), 4)],
    ),
];
