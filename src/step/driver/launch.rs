//! Launches beyond that of [`super::code`], and modules and libraries from files.

use super::call;
use crate::step::layout::LAUNCH_CONFIG;
use crate::step::{Kind, Output, StepKind, fixed, handle, int, or, out, param, text, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuLaunchKernelEx",
        "Launches a kernel by a struct (11.6 and later).",
        &[
            param("grid", Kind::In(&LAUNCH_CONFIG)),
            handle("function", "function"),
            fixed("arguments", 0),
            fixed("extra", 0),
        ],
    ),
    call(
        "cuLaunchCooperativeKernel",
        "Launches a kernel whose blocks all run at once.",
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
            fixed("arguments", 0),
        ],
    ),
    call(
        "cuLaunchCooperativeKernelMultiDevice",
        "Launches a kernel on several GPUs, here none.",
        &[fixed("launches", 0), fixed("gpus", 0), or(uint("flags"), 0)],
    ),
    call("cuLaunch", "Launches one block of a function, by an old call.", &[handle("function", "function")]),
    call(
        "cuLaunchGrid",
        "Launches a function, by an old call.",
        &[handle("function", "function"), int("width"), int("height")],
    ),
    call(
        "cuLaunchGridAsync",
        "Launches a function in stream order, by an old call.",
        &[handle("function", "function"), int("width"), int("height"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuModuleGetFunctionCount",
        "Counts the kernels of a module (12.4 and later).",
        &[out("count", Output::U32), handle("module", "module")],
    ),
    call(
        "cuModuleEnumerateFunctions",
        "Finds the first kernel of a module (12.4 and later).",
        &[out("function", Output::Handle("function")), fixed("count", 1), handle("module", "module")],
    ),
    call(
        "cuModuleGetTexRef",
        "Finds a texture reference in a module.",
        &[out("texture", Output::Handle("texture reference")), handle("module", "module"), text("name")],
    ),
    call(
        "cuModuleGetSurfRef",
        "Finds a surface reference in a module.",
        &[out("surface", Output::Handle("surface reference")), handle("module", "module"), text("name")],
    ),
    call(
        "cuLibraryGetModule",
        "Reads the module of a library in the current context.",
        &[out("module", Output::Handle("module")), handle("library", "library")],
    ),
    call(
        "cuLibraryGetKernelCount",
        "Counts the kernels of a library (12.4 and later).",
        &[out("count", Output::U32), handle("library", "library")],
    ),
    call(
        "cuLibraryEnumerateKernels",
        "Finds the first kernel of a library (12.4 and later).",
        &[out("function", Output::Handle("function")), fixed("count", 1), handle("library", "library")],
    ),
    call(
        "cuLibraryGetManaged",
        "Finds a library's managed variable.",
        &[
            out("pointer", Output::Handle("pointer")),
            out("size", Output::U64),
            handle("library", "library"),
            text("name"),
        ],
    ),
    call(
        "cuLibraryGetUnifiedFunction",
        "Finds a function that host and device share in a library.",
        &[out("function", Output::Handle("address")), handle("library", "library"), text("symbol")],
    ),
];
