//! What belongs to the process and to no device: entry points of the driver, tables, the log.

use super::call;
use crate::step::layout::opaque::LOG_TEXT;
use crate::step::layout::{EXPORT_TABLE_ID, LOG_SIZE};
use crate::step::{Kind, Output, StepKind, fixed, int, out, param, returning_text, text, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    returning_text(call("cudaGetErrorName", "Returns the name of an error.", &[int("error")])),
    returning_text(call("cudaGetErrorString", "Returns the description of an error.", &[int("error")])),
    call("cudaProfilerStart", "Starts the collection of a profiler that watches the process.", &[]),
    call("cudaProfilerStop", "Stops the collection of a profiler that watches the process.", &[]),
    call(
        "cudaGetDriverEntryPoint",
        "Finds a function of libcuda by its name, as this libcudart's version has it.",
        &[text("symbol"), out("function", Output::Handle("address")), fixed("flags", 0), out("found", Output::I32)],
    ),
    call(
        "cudaGetDriverEntryPointByVersion",
        "Finds a function of libcuda by its name and a CUDA version (12.5 and later).",
        &[
            text("symbol"),
            out("function", Output::Handle("address")),
            uint("version"),
            fixed("flags", 0),
            out("found", Output::I32),
        ],
    ),
    call(
        "cudaGetExportTable",
        "Finds a table of internal functions by the first half of its UUID.",
        &[out("table", Output::Handle("table")), param("id", Kind::In(&EXPORT_TABLE_ID))],
    ),
    call(
        "cudaSetDoubleForDevice",
        "Converts a double for a device that has none, until 12.9.",
        &[out("value", Output::Varying)],
    ),
    call("cudaSetDoubleForHost", "Undoes cudaSetDoubleForDevice, until 12.9.", &[out("value", Output::Varying)]),
    call(
        "cudaLogsCurrent",
        "Reads where the log of errors ends (13.0 and later).",
        &[out("iterator", Output::U32), fixed("flags", 0)],
    ),
    call(
        "cudaLogsDumpToMemory",
        "Reads the log of errors (13.0 and later).",
        &[
            fixed("iterator", 0),
            out("log", Output::Struct(&LOG_TEXT)),
            out("size", Output::Struct(&LOG_SIZE)),
            fixed("flags", 0),
        ],
    ),
];
