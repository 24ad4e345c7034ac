//! Functions and kernels: attributes, parameters, occupancy.

use super::call;
use crate::step::constants::{FUNC_ATTRIBUTE, FUNC_CACHE, SHARED_MEM_CONFIG};
use crate::step::layout::LAUNCH_CONFIG;
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuFuncGetAttribute",
        "Reads one attribute of a function.",
        &[out("value", Output::I32), constant("attribute", &FUNC_ATTRIBUTE), handle("function", "function")],
    ),
    call(
        "cuFuncSetAttribute",
        "Sets one attribute of a function.",
        &[handle("function", "function"), constant("attribute", &FUNC_ATTRIBUTE), int("value")],
    ),
    call(
        "cuFuncGetModule",
        "Reads the module of a function.",
        &[out("module", Output::Handle("module")), handle("function", "function")],
    ),
    call(
        "cuFuncGetName",
        "Reads the name of a function (12.3 and later).",
        &[out("name", Output::Handle("text")), handle("function", "function")],
    ),
    call(
        "cuFuncGetParamCount",
        "Counts the parameters of a function (13.2 and later).",
        &[handle("function", "function"), out("count", Output::U64)],
    ),
    call(
        "cuFuncGetParamInfo",
        "Reads where a parameter of a function lies (12.4 and later).",
        &[handle("function", "function"), fixed("index", 0), out("offset", Output::U64), out("size", Output::U64)],
    ),
    call(
        "cuFuncIsLoaded",
        "Asks whether a function is loaded (12.4 and later).",
        &[out("state", Output::I32), handle("function", "function")],
    ),
    call("cuFuncLoad", "Loads a function (12.4 and later).", &[handle("function", "function")]),
    call(
        "cuFuncSetCacheConfig",
        "Says how the cache should be split for a function.",
        &[handle("function", "function"), constant("config", &FUNC_CACHE)],
    ),
    call(
        "cuFuncSetSharedMemConfig",
        "Sets the width of shared memory banks for a function.",
        &[handle("function", "function"), constant("config", &SHARED_MEM_CONFIG)],
    ),
    call(
        "cuFuncSetBlockShape",
        "Sets the blocks of a function, by an old call.",
        &[handle("function", "function"), int("x"), int("y"), int("z")],
    ),
    call(
        "cuFuncSetSharedSize",
        "Sets the shared memory of a function, by an old call.",
        &[handle("function", "function"), bytes("bytes")],
    ),
    call(
        "cuParamSetSize",
        "Sets the size of a function's parameters, by an old call.",
        &[handle("function", "function"), bytes("bytes")],
    ),
    call(
        "cuParamSeti",
        "Sets a parameter of a function, by an old call.",
        &[handle("function", "function"), fixed("offset", 0), uint("value")],
    ),
    call(
        "cuKernelGetAttribute",
        "Reads one attribute of a kernel on a GPU (12.0 and later).",
        &[
            out("value", Output::I32),
            constant("attribute", &FUNC_ATTRIBUTE),
            handle("kernel", "function"),
            int("device"),
        ],
    ),
    call(
        "cuKernelSetAttribute",
        "Sets one attribute of a kernel on a GPU (12.0 and later).",
        &[constant("attribute", &FUNC_ATTRIBUTE), int("value"), handle("kernel", "function"), int("device")],
    ),
    call(
        "cuKernelSetCacheConfig",
        "Says how the cache should be split for a kernel on a GPU (12.0 and later).",
        &[handle("kernel", "function"), constant("config", &FUNC_CACHE), int("device")],
    ),
    call(
        "cuKernelGetLibrary",
        "Reads the library of a kernel (12.5 and later).",
        &[out("library", Output::Handle("library")), handle("kernel", "function")],
    ),
    call(
        "cuKernelGetName",
        "Reads the name of a kernel (12.3 and later).",
        &[out("name", Output::Handle("text")), handle("kernel", "function")],
    ),
    call(
        "cuKernelGetParamCount",
        "Counts the parameters of a kernel (13.2 and later).",
        &[handle("kernel", "function"), out("count", Output::U64)],
    ),
    call(
        "cuKernelGetParamInfo",
        "Reads where a parameter of a kernel lies (12.4 and later).",
        &[handle("kernel", "function"), fixed("index", 0), out("offset", Output::U64), out("size", Output::U64)],
    ),
    call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "Counts the blocks of a function that fit a multiprocessor.",
        &[out("blocks", Output::I32), handle("function", "function"), int("block"), or(bytes("shared_bytes"), 0)],
    ),
    call(
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "Counts the blocks of a function that fit a multiprocessor, with flags.",
        &[
            out("blocks", Output::I32),
            handle("function", "function"),
            int("block"),
            or(bytes("shared_bytes"), 0),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cuOccupancyMaxPotentialBlockSize",
        "Finds the block size of a function that fills a GPU best.",
        &[
            out("grid", Output::I32),
            out("block", Output::I32),
            handle("function", "function"),
            fixed("shared_bytes_of", 0),
            or(bytes("shared_bytes"), 0),
            or(int("limit"), 0),
        ],
    ),
    call(
        "cuOccupancyMaxPotentialBlockSizeWithFlags",
        "Finds the block size of a function that fills a GPU best, with flags.",
        &[
            out("grid", Output::I32),
            out("block", Output::I32),
            handle("function", "function"),
            fixed("shared_bytes_of", 0),
            or(bytes("shared_bytes"), 0),
            or(int("limit"), 0),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cuOccupancyAvailableDynamicSMemPerBlock",
        "Reads the shared memory that is left for each block of a function.",
        &[out("bytes", Output::U64), handle("function", "function"), int("blocks"), int("block")],
    ),
    call(
        "cuOccupancyMaxActiveClusters",
        "Counts the clusters of a function that fit the GPU (11.7 and later).",
        &[out("clusters", Output::I32), handle("function", "function"), param("grid", Kind::In(&LAUNCH_CONFIG))],
    ),
    call(
        "cuOccupancyMaxPotentialClusterSize",
        "Reads the largest cluster that a function can have (11.7 and later).",
        &[out("size", Output::I32), handle("function", "function"), param("grid", Kind::In(&LAUNCH_CONFIG))],
    ),
];
