//! Memory: device, managed, page-locked, shared with other processes.

use super::call;
use crate::step::constants::{HOST_ALLOC, MEM_ATTACH};
use crate::step::layout::CUDA_POINTER_ATTRIBUTES;
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param, uint};

/// `cudaMemcpyDefault`.
const MEMCPY_DEFAULT: u64 = 4;

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaMemGetInfo",
        "Reads free and total memory of the current device.",
        &[out("free", Output::Varying), out("total", Output::Varying)],
    ),
    call(
        "cudaMalloc",
        "Allocates memory on the current device.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call("cudaFree", "Frees memory of cudaMalloc; with NULL it only initialises.", &[handle("pointer", "pointer")]),
    call(
        "cudaMallocManaged",
        "Allocates managed memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(constant("flags", &MEM_ATTACH), 1)],
    ),
    call(
        "cudaHostAlloc",
        "Allocates page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(constant("flags", &HOST_ALLOC), 0)],
    ),
    call("cudaFreeHost", "Frees memory of cudaHostAlloc.", &[handle("pointer", "pointer")]),
    call(
        "cudaHostRegister",
        "Page-locks host memory that malloc returned.",
        &[handle("pointer", "pointer"), bytes("bytes"), or(uint("flags"), 0)],
    ),
    call("cudaHostUnregister", "Undoes cudaHostRegister.", &[handle("pointer", "pointer")]),
    call(
        "cudaMemset",
        "Fills device memory with a byte.",
        &[handle("pointer", "pointer"), or(int("value"), 0), bytes("bytes")],
    ),
    call(
        "cudaPointerGetAttributes",
        "Tells where a pointer lives.",
        &[out("attributes", Output::Struct(&CUDA_POINTER_ATTRIBUTES)), handle("pointer", "pointer")],
    ),
    call(
        "cudaMallocHost",
        "Allocates page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call(
        "cudaHostGetDevicePointer",
        "Reads the device's address of page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), handle("host", "pointer"), fixed("flags", 0)],
    ),
    call(
        "cudaMemsetAsync",
        "Fills device memory with a byte, in stream order.",
        &[handle("pointer", "pointer"), or(int("value"), 0), bytes("bytes"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cudaMemcpy",
        "Copies memory; the pointers tell the direction.",
        &[handle("destination", "pointer"), handle("source", "pointer"), bytes("bytes"), fixed("kind", MEMCPY_DEFAULT)],
    ),
    call(
        "cudaMemcpyAsync",
        "Copies memory in stream order; the pointers tell the direction.",
        &[
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            fixed("kind", MEMCPY_DEFAULT),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cudaMemcpyPeer",
        "Copies device memory from one device to another.",
        &[
            handle("destination", "pointer"),
            int("destination_device"),
            handle("source", "pointer"),
            int("source_device"),
            bytes("bytes"),
        ],
    ),
    call(
        "cudaIpcGetMemHandle",
        "Makes device memory known to other processes.",
        &[out("ipc", Output::Blob("ipc", 64)), handle("pointer", "pointer")],
    ),
    call(
        "cudaIpcOpenMemHandle",
        "Maps another process's memory; flag 1 enables peer access where it is needed.",
        &[out("pointer", Output::Handle("pointer")), param("ipc", Kind::Block("ipc", 64)), or(uint("flags"), 1)],
    ),
    call("cudaIpcCloseMemHandle", "Unmaps another process's memory.", &[handle("pointer", "pointer")]),
];
