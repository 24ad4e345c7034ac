//! Pools, and what they share.

use super::call;
use crate::step::constants::MEM_POOL_ATTRIBUTE;
use crate::step::layout::opaque::{POOL_POINTER, SHAREABLE_HANDLE};
use crate::step::layout::{ACCESS_DESC, LOCATION, POOL_PROPS, WORD};
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, or, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemAllocFromPoolAsync",
        "Allocates from a pool, in stream order.",
        &[
            out("pointer", Output::Handle("pointer")),
            bytes("bytes"),
            handle("pool", "pool"),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemPoolCreate",
        "Creates a pool on a device.",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&POOL_PROPS))],
    ),
    call("cuMemPoolDestroy", "Destroys a pool.", &[handle("pool", "pool")]),
    call(
        "cuMemPoolTrimTo",
        "Returns a pool's idle memory to the system.",
        &[handle("pool", "pool"), bytes("keep_bytes")],
    ),
    call(
        "cuMemPoolGetAttribute",
        "Reads a 64-bit attribute of a pool.",
        &[handle("pool", "pool"), constant("attribute", &MEM_POOL_ATTRIBUTE), out("value", Output::U64)],
    ),
    call(
        "cuMemPoolSetAttribute",
        "Sets a 64-bit attribute of a pool.",
        &[handle("pool", "pool"), constant("attribute", &MEM_POOL_ATTRIBUTE), param("value", Kind::In(&WORD))],
    ),
    call(
        "cuMemPoolGetAccess",
        "Reads whether a device may use a pool's memory.",
        &[out("access", Output::I32), handle("pool", "pool"), param("device", Kind::In(&LOCATION))],
    ),
    call(
        "cuMemPoolSetAccess",
        "Lets a device read and write a pool's memory.",
        &[handle("pool", "pool"), param("device", Kind::In(&ACCESS_DESC)), fixed("count", 1)],
    ),
    call(
        "cuMemGetDefaultMemPool",
        "Returns the default pool of a place, here a device (13.0 and later).",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&LOCATION)), fixed("type", 1)],
    ),
    call(
        "cuMemGetMemPool",
        "Returns the current pool of a place, here a device (13.0 and later).",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&LOCATION)), fixed("type", 1)],
    ),
    call(
        "cuMemSetMemPool",
        "Sets the current pool of a place, here a device (13.0 and later).",
        &[param("device", Kind::In(&LOCATION)), fixed("type", 1), handle("pool", "pool")],
    ),
    call(
        "cuMemPoolExportToShareableHandle",
        "Makes a pool known to other processes, as a file.",
        &[
            out("handle", Output::Struct(&SHAREABLE_HANDLE)),
            handle("pool", "pool"),
            fixed("type", 1),
            fixed("flags", 0),
        ],
    ),
    call(
        "cuMemPoolExportPointer",
        "Makes memory of a pool known to other processes.",
        &[out("data", Output::Struct(&POOL_POINTER)), handle("pointer", "pointer")],
    ),
];
