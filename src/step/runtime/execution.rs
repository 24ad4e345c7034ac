//! Execution contexts, and the parts of a device they are made of (13.1 and later).

use super::call;
use crate::step::constants::DEV_RESOURCE_TYPE;
use crate::step::layout::opaque::DEV_RESOURCE;
use crate::step::{Output, StepKind, constant, fixed, handle, int, or, out, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaDeviceGetExecutionCtx",
        "Returns the execution context that is a device's primary context.",
        &[out("context", Output::Handle("execution context")), int("device")],
    ),
    call(
        "cudaDeviceGetDevResource",
        "Reads what a device has to share out.",
        &[int("device"), out("resource", Output::Struct(&DEV_RESOURCE)), constant("type", &DEV_RESOURCE_TYPE)],
    ),
    call(
        "cudaDevSmResourceSplitByCount",
        "Splits the multiprocessors of a resource, here all zero, into equal groups.",
        &[
            fixed("result", 0),
            out("groups", Output::U32),
            out("input", Output::Struct(&DEV_RESOURCE)),
            fixed("remaining", 0),
            fixed("flags", 0),
            uint("at_least"),
        ],
    ),
    call(
        "cudaDevSmResourceSplit",
        "Splits the multiprocessors of a resource, here all zero, into no groups.",
        &[
            fixed("result", 0),
            fixed("groups", 0),
            out("input", Output::Struct(&DEV_RESOURCE)),
            fixed("remainder", 0),
            fixed("flags", 0),
            fixed("group_params", 0),
        ],
    ),
    call(
        "cudaDevResourceGenerateDesc",
        "Describes one resource, here all zero, for cudaGreenCtxCreate.",
        &[
            out("resources", Output::Handle("resources")),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            fixed("count", 1),
        ],
    ),
    call(
        "cudaGreenCtxCreate",
        "Creates a context on a part of a device.",
        &[
            out("context", Output::Handle("execution context")),
            handle("resources", "resources"),
            int("device"),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cudaExecutionCtxDestroy",
        "Destroys a context of cudaGreenCtxCreate.",
        &[handle("context", "execution context")],
    ),
    call(
        "cudaExecutionCtxGetDevice",
        "Reads the device of an execution context.",
        &[out("device", Output::I32), handle("context", "execution context")],
    ),
    call(
        "cudaExecutionCtxGetDevResource",
        "Reads what an execution context has of its device.",
        &[
            handle("context", "execution context"),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            constant("type", &DEV_RESOURCE_TYPE),
        ],
    ),
    call(
        "cudaExecutionCtxGetId",
        "Reads the number of an execution context.",
        &[handle("context", "execution context"), out("id", Output::Varying)],
    ),
    call(
        "cudaExecutionCtxStreamCreate",
        "Creates a stream in an execution context.",
        &[
            out("stream", Output::Handle("stream")),
            handle("context", "execution context"),
            or(uint("flags"), 1),
            or(int("priority"), 0),
        ],
    ),
    call(
        "cudaExecutionCtxSynchronize",
        "Waits for all work of an execution context.",
        &[handle("context", "execution context")],
    ),
    call(
        "cudaExecutionCtxRecordEvent",
        "Records an event in all streams of an execution context.",
        &[handle("context", "execution context"), handle("event", "event")],
    ),
    call(
        "cudaExecutionCtxWaitEvent",
        "Makes all streams of an execution context wait for an event.",
        &[handle("context", "execution context"), handle("event", "event")],
    ),
    call(
        "cudaStreamGetDevResource",
        "Reads what a stream has of its device.",
        &[
            or(handle("stream", "stream"), 0),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            constant("type", &DEV_RESOURCE_TYPE),
        ],
    ),
];
