//! Allocation in stream order, and the pools behind it.

use super::call;
use crate::step::constants::MEM_POOL_ATTRIBUTE;
use crate::step::layout::{ACCESS_DESC, POOL_PROPS, WORD};
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaMallocAsync",
        "Allocates from the current pool, in stream order.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(handle("stream", "stream"), 0)],
    ),
    call("cudaFreeAsync", "Frees in stream order.", &[handle("pointer", "pointer"), or(handle("stream", "stream"), 0)]),
    call(
        "cudaMemPoolTrimTo",
        "Returns a pool's idle memory to the system.",
        &[handle("pool", "pool"), bytes("keep_bytes")],
    ),
    call(
        "cudaMemPoolGetAttribute",
        "Reads a 64-bit attribute of a pool.",
        &[handle("pool", "pool"), constant("attribute", &MEM_POOL_ATTRIBUTE), out("value", Output::U64)],
    ),
    call(
        "cudaMemPoolSetAttribute",
        "Sets a 64-bit attribute of a pool.",
        &[handle("pool", "pool"), constant("attribute", &MEM_POOL_ATTRIBUTE), param("value", Kind::In(&WORD))],
    ),
    call(
        "cudaMemPoolCreate",
        "Creates a pool on a device.",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&POOL_PROPS))],
    ),
    call("cudaMemPoolDestroy", "Destroys a pool.", &[handle("pool", "pool")]),
    call(
        "cudaMemPoolSetAccess",
        "Lets a device read and write a pool's memory.",
        &[handle("pool", "pool"), param("device", Kind::In(&ACCESS_DESC)), fixed("count", 1)],
    ),
    call(
        "cudaDeviceGetMemPool",
        "Returns the current pool of a device.",
        &[out("pool", Output::Handle("pool")), int("device")],
    ),
    call("cudaDeviceSetMemPool", "Sets the current pool of a device.", &[int("device"), handle("pool", "pool")]),
    call(
        "cudaMallocFromPoolAsync",
        "Allocates from a pool, in stream order.",
        &[
            out("pointer", Output::Handle("pointer")),
            bytes("bytes"),
            handle("pool", "pool"),
            or(handle("stream", "stream"), 0),
        ],
    ),
];
