//! Memory by its place: rows, page-locked, managed ranges, what a pointer is.

use super::call;
use crate::step::constants::{HOST_ALLOC, MEM_ADVISE, MEM_RANGE_ATTRIBUTE};
use crate::step::layout::ORDINAL;
use crate::step::layout::opaque::LOCATIONS;
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuMemAllocPitch_v2",
        "Allocates memory in rows at aligned addresses, here one row.",
        &[
            out("pointer", Output::Handle("pointer")),
            out("pitch", Output::U64),
            bytes("width"),
            fixed("height", 1),
            fixed("element_bytes", 4),
        ],
    ),
    call(
        "cuMemHostAlloc",
        "Allocates page-locked host memory, with flags.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), constant("flags", &HOST_ALLOC)],
    ),
    call(
        "cuMemHostRegister_v2",
        "Page-locks host memory that malloc returned.",
        &[handle("pointer", "pointer"), bytes("bytes"), or(uint("flags"), 0)],
    ),
    call("cuMemHostUnregister", "Undoes cuMemHostRegister_v2.", &[handle("pointer", "pointer")]),
    call(
        "cuMemHostGetDevicePointer_v2",
        "Reads the GPU's address of page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), handle("host", "pointer"), fixed("flags", 0)],
    ),
    call(
        "cuMemHostGetFlags",
        "Reads the flags of page-locked host memory.",
        &[out("flags", Output::U32), handle("pointer", "pointer")],
    ),
    call(
        "cuMemGetAddressRange_v2",
        "Reads where an allocation begins and how long it is.",
        &[out("base", Output::Handle("pointer")), out("size", Output::U64), handle("pointer", "pointer")],
    ),
    call(
        "cuMemAdvise",
        "Says how managed memory will be used, by its first ABI.",
        &[handle("pointer", "pointer"), bytes("bytes"), constant("advice", &MEM_ADVISE), int("device")],
    ),
    call(
        "cuMemPrefetchAsync",
        "Moves managed memory to a GPU, by its first ABI.",
        &[handle("pointer", "pointer"), bytes("bytes"), int("device"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuMemPrefetchBatchAsync",
        "Moves several ranges of managed memory, here none (13.0 and later).",
        &[
            fixed("pointers", 0),
            fixed("sizes", 0),
            fixed("count", 0),
            fixed("locations", 0),
            fixed("location_indices", 0),
            fixed("location_count", 0),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemDiscardBatchAsync",
        "Gives up what several ranges hold, here none (13.0 and later).",
        &[
            fixed("pointers", 0),
            fixed("sizes", 0),
            fixed("count", 0),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemDiscardAndPrefetchBatchAsync",
        "Gives up what several ranges hold and moves them, here none (13.0 and later).",
        &[
            fixed("pointers", 0),
            fixed("sizes", 0),
            fixed("count", 0),
            fixed("locations", 0),
            fixed("location_indices", 0),
            fixed("location_count", 0),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cuMemGetLocationInfo",
        "Tells where 2 MiB of managed memory lie (13.4 and later).",
        &[
            handle("pointer", "pointer"),
            fixed("bytes", 2 << 20),
            fixed("summary_granularity", 2 << 20),
            fixed("sampling_granularity", 0),
            out("location", Output::Struct(&LOCATIONS)),
        ],
    ),
    call(
        "cuMemRangeGetAttribute",
        "Reads one attribute of a range of managed memory.",
        &[
            out("value", Output::I32),
            fixed("size", 4),
            constant("attribute", &MEM_RANGE_ATTRIBUTE),
            handle("pointer", "pointer"),
            bytes("bytes"),
        ],
    ),
    call(
        "cuMemRangeGetAttributes",
        "Reads several attributes of a range of managed memory, here none.",
        &[
            fixed("values", 0),
            fixed("sizes", 0),
            fixed("attributes", 0),
            fixed("count", 0),
            handle("pointer", "pointer"),
            bytes("bytes"),
        ],
    ),
    call(
        "cuPointerGetAttributes",
        "Reads several attributes of a pointer, here none.",
        &[fixed("count", 0), fixed("attributes", 0), fixed("values", 0), handle("pointer", "pointer")],
    ),
    call(
        "cuPointerSetAttribute",
        "Makes copies of a pointer's memory synchronous (1) or not.",
        &[param("value", Kind::In(&ORDINAL)), fixed("attribute", 6), handle("pointer", "pointer")],
    ),
];
