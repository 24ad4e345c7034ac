//! Memory: device, page-locked, managed, mapped by hand, and what a pointer is.

use super::call;
use crate::step::constants::{MEM_ADVISE, MEM_ATTACH, POINTER_ATTRIBUTE};
use crate::step::layout::{ACCESS_DESC, ALLOCATION_PROP};
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemGetInfo_v2",
        "Reads free and total memory of the current context's GPU.",
        &[out("free", Output::Varying), out("total", Output::Varying)],
    ),
    call(
        "cuMemAlloc_v2",
        "Allocates memory in the current context.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call("cuMemFree_v2", "Frees memory of cuMemAlloc_v2.", &[handle("pointer", "pointer")]),
    call(
        "cuMemAllocHost_v2",
        "Allocates page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call("cuMemFreeHost", "Frees memory of cuMemAllocHost_v2.", &[handle("pointer", "pointer")]),
    call(
        "cuMemsetD8_v2",
        "Fills device memory with a byte.",
        &[handle("pointer", "pointer"), or(int("value"), 0), bytes("bytes")],
    ),
    call(
        "cuMemcpyDtoH_v2",
        "Copies the first 8 bytes of device memory to the host and shows them; with `as` they are an address.",
        &[out("value", Output::Word("pointer")), handle("pointer", "pointer"), fixed("bytes", 8)],
    ),
    call(
        "cuMemcpyDtoD_v2",
        "Copies device memory.",
        &[handle("destination", "pointer"), handle("source", "pointer"), bytes("bytes")],
    ),
    call(
        "cuMemcpyPeer",
        "Copies device memory from one context to another.",
        &[
            handle("destination", "pointer"),
            handle("destination_context", "context"),
            handle("source", "pointer"),
            handle("source_context", "context"),
            bytes("bytes"),
        ],
    ),
    call(
        "cuMemAllocAsync",
        "Allocates from the current pool, in stream order.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemFreeAsync",
        "Frees in stream order.",
        &[handle("pointer", "pointer"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemAllocManaged",
        "Allocates managed memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(constant("flags", &MEM_ATTACH), 1)],
    ),
    call(
        "cuMemPrefetchAsync_v2",
        "Moves managed memory to a device or to the host.",
        &[
            handle("pointer", "pointer"),
            bytes("bytes"),
            param("location", Kind::Location),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemAdvise_v2",
        "Says how managed memory will be used.",
        &[
            handle("pointer", "pointer"),
            bytes("bytes"),
            constant("advice", &MEM_ADVISE),
            param("location", Kind::Location),
        ],
    ),
    call(
        "cuMemGetAllocationGranularity",
        "Reads the granularity of cuMemCreate on a device.",
        &[out("granularity", Output::U64), param("device", Kind::In(&ALLOCATION_PROP)), fixed("option", 0)],
    ),
    call(
        "cuMemCreate",
        "Allocates device memory without an address.",
        &[
            out("allocation", Output::Handle("allocation")),
            bytes("bytes"),
            param("device", Kind::In(&ALLOCATION_PROP)),
            fixed("flags", 0),
        ],
    ),
    call("cuMemRelease", "Drops an allocation of cuMemCreate.", &[handle("allocation", "allocation")]),
    call(
        "cuMemAddressReserve",
        "Reserves a range of addresses.",
        &[
            out("pointer", Output::Handle("pointer")),
            bytes("bytes"),
            fixed("alignment", 0),
            fixed("address", 0),
            fixed("flags", 0),
        ],
    ),
    call("cuMemAddressFree", "Frees a range of addresses.", &[handle("pointer", "pointer"), bytes("bytes")]),
    call(
        "cuMemMap",
        "Maps an allocation into a reserved range.",
        &[
            handle("pointer", "pointer"),
            bytes("bytes"),
            fixed("offset", 0),
            handle("allocation", "allocation"),
            fixed("flags", 0),
        ],
    ),
    call("cuMemUnmap", "Unmaps a range.", &[handle("pointer", "pointer"), bytes("bytes")]),
    call(
        "cuMemSetAccess",
        "Lets a device read and write a mapped range.",
        &[handle("pointer", "pointer"), bytes("bytes"), param("device", Kind::In(&ACCESS_DESC)), fixed("count", 1)],
    ),
    call(
        "cuPointerGetAttribute",
        "Reads one attribute of a pointer.",
        &[out("value", Output::Varying), constant("attribute", &POINTER_ATTRIBUTE), handle("pointer", "pointer")],
    ),
];
