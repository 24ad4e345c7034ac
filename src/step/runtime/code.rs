//! Libraries and kernels without a compiler (12.8 and later).

use super::call;
use crate::step::{Kind, Output, StepKind, fixed, handle, or, out, param, text, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaLibraryLoadData",
        "Loads PTX for every device.",
        &[
            out("library", Output::Handle("library")),
            param("ptx", Kind::Ptx),
            fixed("jit_options", 0),
            fixed("jit_values", 0),
            fixed("jit_count", 0),
            fixed("options", 0),
            fixed("values", 0),
            fixed("count", 0),
        ],
    ),
    call("cudaLibraryUnload", "Unloads a library.", &[handle("library", "library")]),
    call(
        "cudaLibraryGetKernel",
        "Finds a kernel in a library, of no device in particular.",
        &[out("function", Output::Handle("function")), handle("library", "library"), text("kernel")],
    ),
    // A dim3 is passed by value: x and y fill one register, z the next.
    call(
        "cudaLaunchKernel",
        "Launches a kernel of cudaLibraryGetKernel.",
        &[
            handle("function", "function"),
            or(param("grid", Kind::Dim3), 1),
            fixed("grid_z", 1),
            or(param("block", Kind::Dim3), 1),
            fixed("block_z", 1),
            or(param("arguments", Kind::Arguments), 0),
            or(uint("shared_bytes"), 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
];
