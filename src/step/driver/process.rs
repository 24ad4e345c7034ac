//! What belongs to the process and to no GPU: errors, entry points, tables, the log.

use super::call;
use crate::step::layout::opaque::LOG_TEXT;
use crate::step::layout::{EXPORT_TABLE_ID, LOG_SIZE};
use crate::step::{Kind, Output, StepKind, fixed, int, out, param, text};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cuProfilerStart", "Starts the collection of a profiler that watches the process.", &[]),
    call("cuProfilerStop", "Stops the collection of a profiler that watches the process.", &[]),
    call("cuGetErrorName", "Finds the name of a result.", &[int("error"), out("name", Output::Handle("text"))]),
    call(
        "cuGetErrorString",
        "Finds the description of a result.",
        &[int("error"), out("description", Output::Handle("text"))],
    ),
    call(
        "cuGetProcAddress",
        "Finds a function of libcuda by its name, by the ABI of 11.3.",
        &[text("symbol"), out("function", Output::Handle("address")), int("version"), fixed("flags", 0)],
    ),
    call(
        "cuGetProcAddress_v2",
        "Finds a function of libcuda by its name (12.0 and later).",
        &[
            text("symbol"),
            out("function", Output::Handle("address")),
            int("version"),
            fixed("flags", 0),
            out("found", Output::I32),
        ],
    ),
    call(
        "cuGetExportTable",
        "Finds a table of internal functions by the first half of its UUID.",
        &[out("table", Output::Handle("table")), param("id", Kind::In(&EXPORT_TABLE_ID))],
    ),
    call(
        "cuLogsCurrent",
        "Reads where the log of errors ends (12.9 and later).",
        &[out("iterator", Output::U32), fixed("flags", 0)],
    ),
    call(
        "cuLogsDumpToMemory",
        "Reads the log of errors (12.9 and later).",
        &[
            fixed("iterator", 0),
            out("log", Output::Struct(&LOG_TEXT)),
            out("size", Output::Struct(&LOG_SIZE)),
            fixed("flags", 0),
        ],
    ),
];
