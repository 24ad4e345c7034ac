//! Arrays and their mipmaps.

use super::call;
use crate::step::layout::opaque::{ARRAY_DESCRIPTOR, ARRAY_MEMORY_REQUIREMENTS, ARRAY_SPARSE_PROPERTIES};
use crate::step::layout::{ARRAY_OF, ARRAY3D_OF};
use crate::step::{Kind, Output, StepKind, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuArrayCreate_v2",
        "Allocates an array of floats of one dimension.",
        &[out("array", Output::Handle("array")), param("width", Kind::In(&ARRAY_OF))],
    ),
    call(
        "cuArray3DCreate_v2",
        "Allocates an array of floats of one dimension, by the struct of three.",
        &[out("array", Output::Handle("array")), param("width", Kind::In(&ARRAY3D_OF))],
    ),
    call("cuArrayDestroy", "Frees an array.", &[handle("array", "array")]),
    call(
        "cuArrayGetDescriptor_v2",
        "Reads the element and the size of an array.",
        &[out("descriptor", Output::Struct(&ARRAY_DESCRIPTOR)), handle("array", "array")],
    ),
    call(
        "cuArray3DGetDescriptor_v2",
        "Reads the element and the size of an array of three dimensions.",
        &[out("descriptor", Output::Struct(&ARRAY_DESCRIPTOR)), handle("array", "array")],
    ),
    call(
        "cuArrayGetMemoryRequirements",
        "Reads what memory an array would need.",
        &[out("requirements", Output::Struct(&ARRAY_MEMORY_REQUIREMENTS)), handle("array", "array"), int("device")],
    ),
    call(
        "cuArrayGetSparseProperties",
        "Reads how a sparse array is tiled.",
        &[out("properties", Output::Struct(&ARRAY_SPARSE_PROPERTIES)), handle("array", "array")],
    ),
    call(
        "cuArrayGetPlane",
        "Reads a plane of an array.",
        &[out("plane", Output::Handle("array")), handle("array", "array"), or(uint("index"), 0)],
    ),
    call(
        "cuMipmappedArrayCreate",
        "Allocates an array of floats with mipmaps.",
        &[out("array", Output::Handle("mipmapped array")), param("width", Kind::In(&ARRAY3D_OF)), uint("levels")],
    ),
    call("cuMipmappedArrayDestroy", "Frees an array with mipmaps.", &[handle("array", "mipmapped array")]),
    call(
        "cuMipmappedArrayGetLevel",
        "Reads a level of an array with mipmaps.",
        &[out("level", Output::Handle("array")), handle("array", "mipmapped array"), or(uint("index"), 0)],
    ),
    call(
        "cuMipmappedArrayGetMemoryRequirements",
        "Reads what memory an array with mipmaps would need.",
        &[
            out("requirements", Output::Struct(&ARRAY_MEMORY_REQUIREMENTS)),
            handle("array", "mipmapped array"),
            int("device"),
        ],
    ),
    call(
        "cuMipmappedArrayGetSparseProperties",
        "Reads how a sparse array with mipmaps is tiled.",
        &[out("properties", Output::Struct(&ARRAY_SPARSE_PROPERTIES)), handle("array", "mipmapped array")],
    ),
];
