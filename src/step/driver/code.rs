//! Modules, libraries, kernels and their launch.

use super::call;
use crate::step::{Kind, Output, StepKind, fixed, handle, or, out, param, text, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuModuleLoadData",
        "Loads PTX into the current context.",
        &[out("module", Output::Handle("module")), param("ptx", Kind::Ptx)],
    ),
    call(
        "cuModuleGetFunction",
        "Finds a kernel in a module.",
        &[out("function", Output::Handle("function")), handle("module", "module"), text("kernel")],
    ),
    call("cuModuleUnload", "Unloads a module.", &[handle("module", "module")]),
    call(
        "cuModuleGetLoadingMode",
        "Tells whether modules load lazily (2) or eagerly (1).",
        &[out("mode", Output::I32)],
    ),
    call(
        "cuLaunchKernel",
        "Launches a kernel.",
        &[
            handle("function", "function"),
            or(uint("grid"), 1),
            fixed("grid_y", 1),
            fixed("grid_z", 1),
            or(uint("block"), 1),
            fixed("block_y", 1),
            fixed("block_z", 1),
            or(uint("shared_bytes"), 0),
            or(handle("stream", "stream"), 0),
            or(param("arguments", Kind::Arguments), 0),
            fixed("extra", 0),
        ],
    ),
    call(
        "cuModuleGetGlobal_v2",
        "Finds a variable in a module.",
        &[
            out("pointer", Output::Handle("pointer")),
            out("size", Output::U64),
            handle("module", "module"),
            text("name"),
        ],
    ),
    call(
        "cuLibraryLoadData",
        "Loads PTX for every context (12.0 and later).",
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
    call("cuLibraryUnload", "Unloads a library.", &[handle("library", "library")]),
    // A CUkernel is accepted wherever a CUfunction is, so both are bound as functions.
    call(
        "cuLibraryGetKernel",
        "Finds a kernel in a library, of no context in particular.",
        &[out("function", Output::Handle("function")), handle("library", "library"), text("kernel")],
    ),
    call(
        "cuKernelGetFunction",
        "Reads a kernel's function in the current context.",
        &[out("function", Output::Handle("function")), handle("kernel", "function")],
    ),
    call(
        "cuLibraryGetGlobal",
        "Finds a library's variable in the current context.",
        &[
            out("pointer", Output::Handle("pointer")),
            out("size", Output::U64),
            handle("library", "library"),
            text("name"),
        ],
    ),
];
