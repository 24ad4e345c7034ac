//! Calls by their unversioned names, which libcuda still exports: the first ABI, from before the
//! header added `_v2` to them.

use super::call;
use crate::step::constants::SCHEDULE;
use crate::step::{Output, StepKind, bytes, constant, int, or, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemGetInfo",
        "Reads free and total memory by its first, 32-bit ABI.",
        &[out("free", Output::Varying), out("total", Output::Varying)],
    ),
    call(
        "cuMemAlloc",
        "Allocates memory by its first, 32-bit ABI.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call(
        "cuDeviceTotalMem",
        "Reads the memory size of a visible GPU by its first, 32-bit ABI.",
        &[out("total", Output::Varying), int("device")],
    ),
    call(
        "cuCtxCreate",
        "Creates another context by its first ABI.",
        &[out("context", Output::Handle("context")), or(constant("flags", &SCHEDULE), 0), int("device")],
    ),
];
