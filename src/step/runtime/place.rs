//! Memory by its place: rows, managed ranges, symbols.

use super::call;
use crate::step::constants::{MEM_ADVISE, MEM_RANGE_ATTRIBUTE};
use crate::step::layout::opaque::LOCATIONS;
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaMallocPitch",
        "Allocates memory in rows at aligned addresses, here one row.",
        &[out("pointer", Output::Handle("pointer")), out("pitch", Output::U64), bytes("width"), fixed("height", 1)],
    ),
    call(
        "cudaHostGetFlags",
        "Reads the flags of page-locked host memory.",
        &[out("flags", Output::U32), handle("pointer", "pointer")],
    ),
    // The last parameter is a device's ordinal until 12.9 and a cudaMemLocation since 13.0.
    call(
        "cudaMemAdvise",
        "Says how managed memory will be used; place 0 is device 0 until 12.9 and nowhere since.",
        &[handle("pointer", "pointer"), bytes("bytes"), constant("advice", &MEM_ADVISE), int("place")],
    ),
    call(
        "cudaMemAdvise_v2",
        "Says how managed memory will be used (12.2 to 12.9).",
        &[
            handle("pointer", "pointer"),
            bytes("bytes"),
            constant("advice", &MEM_ADVISE),
            param("location", Kind::Location),
        ],
    ),
    // Until 12.9 the fourth parameter is the stream, and there is no fifth.
    call(
        "cudaMemPrefetchAsync",
        "Moves managed memory; place 0 is device 0 until 12.9 and nowhere since.",
        &[handle("pointer", "pointer"), bytes("bytes"), int("place"), fixed("flags", 0), fixed("stream", 0)],
    ),
    call(
        "cudaMemPrefetchAsync_v2",
        "Moves managed memory to a device or to the host (12.2 to 12.9).",
        &[
            handle("pointer", "pointer"),
            bytes("bytes"),
            param("location", Kind::Location),
            fixed("flags", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cudaMemRangeGetAttribute",
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
        "cudaMemRangeGetAttributes",
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
        "cudaMemPrefetchBatchAsync",
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
        "cudaMemDiscardBatchAsync",
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
        "cudaMemDiscardAndPrefetchBatchAsync",
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
        "cudaMemGetLocationInfo",
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
        "cudaGetSymbolAddress",
        "Finds a variable of the program's own kernels.",
        &[out("pointer", Output::Handle("pointer")), handle("symbol", "symbol")],
    ),
    call(
        "cudaGetSymbolSize",
        "Reads the size of a variable of the program's own kernels.",
        &[out("size", Output::U64), handle("symbol", "symbol")],
    ),
];
