//! Binaries that are made while the program runs.

use super::call;
use crate::step::{Kind, Output, StepKind, bytes, fixed, handle, out, param};

/// `CU_JIT_INPUT_PTX`.
const PTX: u64 = 1;

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuLinkCreate_v2",
        "Begins to link a binary for the current context's GPU.",
        &[fixed("count", 0), fixed("options", 0), fixed("values", 0), out("linker", Output::Handle("linker"))],
    ),
    call(
        "cuLinkAddData_v2",
        "Compiles PTX, with its last zero as many bytes long as said, for the binary that is linked.",
        &[
            handle("linker", "linker"),
            fixed("type", PTX),
            param("ptx", Kind::Ptx),
            bytes("bytes"),
            fixed("name", 0),
            fixed("count", 0),
            fixed("options", 0),
            fixed("values", 0),
        ],
    ),
    call(
        "cuLinkComplete",
        "Links the binary, which lives as long as the linker.",
        &[handle("linker", "linker"), out("image", Output::Handle("image")), out("size", Output::Varying)],
    ),
    call(
        "cuModuleLoadFatBinary",
        "Loads a linked binary, in a container as nvcc makes them, into the current context.",
        &[out("module", Output::Handle("module")), param("image", Kind::FatBinary("image"))],
    ),
    call("cuLinkDestroy", "Ends a linker and its binary.", &[handle("linker", "linker")]),
    call(
        "cuModuleLoadDataEx",
        "Loads a binary into the current context.",
        &[
            out("module", Output::Handle("module")),
            handle("image", "image"),
            fixed("count", 0),
            fixed("options", 0),
            fixed("values", 0),
        ],
    ),
];
