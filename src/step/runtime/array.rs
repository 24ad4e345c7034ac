//! Arrays and their mipmaps.

use super::call;
use crate::step::layout::CHANNEL_FORMAT_OF;
use crate::step::layout::opaque::{ARRAY_MEMORY_REQUIREMENTS, ARRAY_SPARSE_PROPERTIES, CHANNEL_FORMAT, EXTENT};
use crate::step::{Kind, Output, StepKind, fixed, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaMallocArray",
        "Allocates an array of one dimension, by the bits of an element.",
        &[
            out("array", Output::Handle("array")),
            param("bits", Kind::In(&CHANNEL_FORMAT_OF)),
            param("width", Kind::U64),
            fixed("height", 0),
            fixed("flags", 0),
        ],
    ),
    call("cudaFreeArray", "Frees an array; with NULL it only initialises.", &[handle("array", "array")]),
    call(
        "cudaFreeMipmappedArray",
        "Frees an array with mipmaps; with NULL it only initialises.",
        &[handle("array", "mipmapped array")],
    ),
    call(
        "cudaArrayGetInfo",
        "Reads the element, the size and the flags of an array.",
        &[
            out("format", Output::Struct(&CHANNEL_FORMAT)),
            out("extent", Output::Struct(&EXTENT)),
            out("flags", Output::U32),
            handle("array", "array"),
        ],
    ),
    call(
        "cudaGetChannelDesc",
        "Reads the element of an array.",
        &[out("format", Output::Struct(&CHANNEL_FORMAT)), handle("array", "array")],
    ),
    call(
        "cudaArrayGetMemoryRequirements",
        "Reads what memory an array would need.",
        &[out("requirements", Output::Struct(&ARRAY_MEMORY_REQUIREMENTS)), handle("array", "array"), int("device")],
    ),
    call(
        "cudaArrayGetSparseProperties",
        "Reads how a sparse array is tiled.",
        &[out("properties", Output::Struct(&ARRAY_SPARSE_PROPERTIES)), handle("array", "array")],
    ),
    call(
        "cudaArrayGetPlane",
        "Reads a plane of an array.",
        &[out("plane", Output::Handle("array")), handle("array", "array"), or(uint("index"), 0)],
    ),
    call(
        "cudaGetMipmappedArrayLevel",
        "Reads a level of an array with mipmaps.",
        &[out("level", Output::Handle("array")), handle("array", "mipmapped array"), or(uint("index"), 0)],
    ),
    call(
        "cudaMipmappedArrayGetMemoryRequirements",
        "Reads what memory an array with mipmaps would need.",
        &[
            out("requirements", Output::Struct(&ARRAY_MEMORY_REQUIREMENTS)),
            handle("array", "mipmapped array"),
            int("device"),
        ],
    ),
    call(
        "cudaMipmappedArrayGetSparseProperties",
        "Reads how a sparse array with mipmaps is tiled.",
        &[out("properties", Output::Struct(&ARRAY_SPARSE_PROPERTIES)), handle("array", "mipmapped array")],
    ),
];
