//! Pools by place, and what they share.

use super::call;
use crate::step::layout::LOCATION;
use crate::step::layout::opaque::{POOL_POINTER, SHAREABLE_HANDLE};
use crate::step::{Kind, Output, StepKind, fixed, handle, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaMemGetDefaultMemPool",
        "Returns the default pool of a place, here a device (13.0 and later).",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&LOCATION)), fixed("type", 1)],
    ),
    call(
        "cudaMemGetMemPool",
        "Returns the current pool of a place, here a device (13.0 and later).",
        &[out("pool", Output::Handle("pool")), param("device", Kind::In(&LOCATION)), fixed("type", 1)],
    ),
    call(
        "cudaMemSetMemPool",
        "Sets the current pool of a place, here a device (13.0 and later).",
        &[param("device", Kind::In(&LOCATION)), fixed("type", 1), handle("pool", "pool")],
    ),
    call(
        "cudaMemPoolGetAccess",
        "Reads whether a device may use a pool's memory.",
        &[out("access", Output::I32), handle("pool", "pool"), param("device", Kind::In(&LOCATION))],
    ),
    call(
        "cudaMemPoolExportToShareableHandle",
        "Makes a pool known to other processes, as a file.",
        &[
            out("handle", Output::Struct(&SHAREABLE_HANDLE)),
            handle("pool", "pool"),
            fixed("type", 1),
            fixed("flags", 0),
        ],
    ),
    call(
        "cudaMemPoolExportPointer",
        "Makes memory of a pool known to other processes.",
        &[out("data", Output::Struct(&POOL_POINTER)), handle("pointer", "pointer")],
    ),
];
