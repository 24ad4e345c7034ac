//! The program's own kernels, and kernels of a library: attributes, occupancy, launches.

use super::call;
use crate::step::constants::{FUNC_ATTRIBUTE, FUNC_CACHE, SHARED_MEM_CONFIG};
use crate::step::layout::LAUNCH_CONFIG;
use crate::step::layout::opaque::FUNC_ATTRIBUTES;
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, handle, int, or, out, param, text, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaFuncGetAttributes",
        "Reads the attributes of a kernel, which loads it.",
        &[out("attributes", Output::Struct(&FUNC_ATTRIBUTES)), handle("function", "function")],
    ),
    call(
        "cudaFuncGetName",
        "Reads the name of a kernel (12.3 and later).",
        &[out("name", Output::Handle("text")), handle("function", "function")],
    ),
    call(
        "cudaFuncGetParamCount",
        "Counts the parameters of a kernel (13.2 and later).",
        &[handle("function", "function"), out("count", Output::U64)],
    ),
    call(
        "cudaFuncGetParamInfo",
        "Reads where a parameter of a kernel lies (12.4 and later).",
        &[handle("function", "function"), fixed("index", 0), out("offset", Output::U64), out("size", Output::U64)],
    ),
    call(
        "cudaFuncSetAttribute",
        "Sets one attribute of a kernel.",
        &[handle("function", "function"), constant("attribute", &FUNC_ATTRIBUTE), int("value")],
    ),
    call(
        "cudaFuncSetCacheConfig",
        "Says how the cache should be split for a kernel.",
        &[handle("function", "function"), constant("config", &FUNC_CACHE)],
    ),
    call(
        "cudaFuncSetSharedMemConfig",
        "Sets the width of shared memory banks for a kernel.",
        &[handle("function", "function"), constant("config", &SHARED_MEM_CONFIG)],
    ),
    call(
        "cudaGetFuncBySymbol",
        "Finds the driver's function of one of the program's own kernels.",
        &[out("function", Output::Handle("function")), handle("symbol", "symbol")],
    ),
    call(
        "cudaGetKernel",
        "Finds the driver's kernel of one of the program's own kernels (12.1 and later).",
        &[out("function", Output::Handle("function")), handle("symbol", "symbol")],
    ),
    call(
        "cudaKernelSetAttributeForDevice",
        "Sets one attribute of a kernel on a device (12.8 and later).",
        &[handle("kernel", "function"), constant("attribute", &FUNC_ATTRIBUTE), int("value"), int("device")],
    ),
    call(
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        "Counts the blocks of a kernel that fit a multiprocessor.",
        &[out("blocks", Output::I32), handle("function", "function"), int("block"), or(bytes("shared_bytes"), 0)],
    ),
    call(
        "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        "Counts the blocks of a kernel that fit a multiprocessor, with flags.",
        &[
            out("blocks", Output::I32),
            handle("function", "function"),
            int("block"),
            or(bytes("shared_bytes"), 0),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cudaOccupancyAvailableDynamicSMemPerBlock",
        "Reads the shared memory that is left for each block of a kernel.",
        &[out("bytes", Output::U64), handle("function", "function"), int("blocks"), int("block")],
    ),
    call(
        "cudaOccupancyMaxActiveClusters",
        "Counts the clusters of a kernel that fit the device (11.8 and later).",
        &[out("clusters", Output::I32), handle("function", "function"), param("grid", Kind::In(&LAUNCH_CONFIG))],
    ),
    call(
        "cudaOccupancyMaxPotentialClusterSize",
        "Reads the largest cluster that a kernel can have (11.8 and later).",
        &[out("size", Output::I32), handle("function", "function"), param("grid", Kind::In(&LAUNCH_CONFIG))],
    ),
    call(
        "cudaLaunchKernelExC",
        "Launches a kernel by a struct (11.8 and later).",
        &[param("grid", Kind::In(&LAUNCH_CONFIG)), handle("function", "function"), fixed("arguments", 0)],
    ),
    call(
        "cudaLaunchCooperativeKernel",
        "Launches a kernel whose blocks all run at once.",
        &[
            handle("function", "function"),
            or(param("grid", Kind::Dim3), 1),
            fixed("grid_z", 1),
            or(param("block", Kind::Dim3), 1),
            fixed("block_z", 1),
            fixed("arguments", 0),
            fixed("shared_bytes", 0),
            or(handle("stream", "stream"), 0),
        ],
    ),
    call(
        "cudaLaunchCooperativeKernelMultiDevice",
        "Launches a kernel on several devices, here none, until 12.9.",
        &[fixed("launches", 0), fixed("devices", 0), or(uint("flags"), 0)],
    ),
    call(
        "cudaLibraryGetKernelCount",
        "Counts the kernels of a library (12.8 and later).",
        &[out("count", Output::U32), handle("library", "library")],
    ),
    call(
        "cudaLibraryEnumerateKernels",
        "Finds the first kernel of a library (12.8 and later).",
        &[out("function", Output::Handle("function")), fixed("count", 1), handle("library", "library")],
    ),
    call(
        "cudaLibraryGetGlobal",
        "Finds a library's variable on the current device (12.8 and later).",
        &[
            out("pointer", Output::Handle("pointer")),
            out("size", Output::U64),
            handle("library", "library"),
            text("name"),
        ],
    ),
    call(
        "cudaLibraryGetManaged",
        "Finds a library's managed variable (12.8 and later).",
        &[
            out("pointer", Output::Handle("pointer")),
            out("size", Output::U64),
            handle("library", "library"),
            text("name"),
        ],
    ),
    call(
        "cudaLibraryGetUnifiedFunction",
        "Finds a function that host and device share in a library (12.8 and later).",
        &[out("function", Output::Handle("address")), handle("library", "library"), text("symbol")],
    ),
];
