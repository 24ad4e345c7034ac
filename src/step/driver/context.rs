//! Contexts beyond their making: settings, events, old and green ones.

use super::call;
use crate::step::constants::{DEV_RESOURCE_TYPE, FUNC_CACHE, SCHEDULE, SHARED_MEM_CONFIG};
use crate::step::layout::opaque::{DEV_RESOURCE, EXEC_AFFINITY};
use crate::step::{Output, StepKind, constant, fixed, handle, int, or, out, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuCtxCreate_v3",
        "Creates another context on a GPU and makes it current (CUDA 11.4 form).",
        &[
            out("context", Output::Handle("context")),
            fixed("affinities", 0),
            fixed("count", 0),
            fixed("flags", 0),
            int("device"),
        ],
    ),
    call(
        "cuCtxAttach",
        "Takes a reference to the current context, by its old name.",
        &[out("context", Output::Handle("context")), fixed("flags", 0)],
    ),
    call("cuCtxDetach", "Drops a reference to a context, by its old name.", &[handle("context", "context")]),
    call(
        "cuCtxGetDevice_v2",
        "Reads the GPU of a context (13.0 and later).",
        &[out("device", Output::I32), handle("context", "context")],
    ),
    call(
        "cuCtxGetId",
        "Reads the number of a context (12.0 and later).",
        &[handle("context", "context"), out("id", Output::Varying)],
    ),
    call("cuCtxSynchronize_v2", "Waits for all work of a context (13.0 and later).", &[handle("context", "context")]),
    call("cuCtxSetFlags", "Sets the flags of the current context (12.1 and later).", &[constant("flags", &SCHEDULE)]),
    call("cuCtxGetCacheConfig", "Reads how the current context would split the cache.", &[out("config", Output::I32)]),
    call(
        "cuCtxSetCacheConfig",
        "Says how the current context should split the cache.",
        &[constant("config", &FUNC_CACHE)],
    ),
    call("cuCtxGetSharedMemConfig", "Reads the width of shared memory banks.", &[out("config", Output::I32)]),
    call(
        "cuCtxSetSharedMemConfig",
        "Sets the width of shared memory banks.",
        &[constant("config", &SHARED_MEM_CONFIG)],
    ),
    call(
        "cuCtxGetExecAffinity",
        "Reads how many multiprocessors the current context is bound to.",
        &[out("affinity", Output::Struct(&EXEC_AFFINITY)), fixed("type", 0)],
    ),
    call("cuCtxResetPersistingL2Cache", "Makes persisting lines of the L2 cache ordinary ones.", &[]),
    call(
        "cuCtxRecordEvent",
        "Records an event in all streams of a context (12.5 and later).",
        &[handle("context", "context"), handle("event", "event")],
    ),
    call(
        "cuCtxWaitEvent",
        "Makes all streams of a context wait for an event (12.5 and later).",
        &[handle("context", "context"), handle("event", "event")],
    ),
    call(
        "cuCtxGetDevResource",
        "Reads what a context has of its GPU (12.4 and later).",
        &[
            handle("context", "context"),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            constant("type", &DEV_RESOURCE_TYPE),
        ],
    ),
    call(
        "cuDeviceGetDevResource",
        "Reads what a GPU has to share out (12.4 and later).",
        &[int("device"), out("resource", Output::Struct(&DEV_RESOURCE)), constant("type", &DEV_RESOURCE_TYPE)],
    ),
    call(
        "cuDevSmResourceSplitByCount",
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
        "cuDevSmResourceSplit",
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
        "cuDevResourceGenerateDesc",
        "Describes one resource, here all zero, for cuGreenCtxCreate.",
        &[
            out("resources", Output::Handle("resources")),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            fixed("count", 1),
        ],
    ),
    call(
        "cuGreenCtxCreate",
        "Creates a green context, on a part of a GPU (12.4 and later).",
        &[
            out("context", Output::Handle("green context")),
            handle("resources", "resources"),
            int("device"),
            or(uint("flags"), 1),
        ],
    ),
    call("cuGreenCtxDestroy", "Destroys a green context.", &[handle("context", "green context")]),
    call(
        "cuGreenCtxGetDevResource",
        "Reads what a green context has of its GPU.",
        &[
            handle("context", "green context"),
            out("resource", Output::Struct(&DEV_RESOURCE)),
            constant("type", &DEV_RESOURCE_TYPE),
        ],
    ),
    call(
        "cuGreenCtxGetId",
        "Reads the number of a green context (12.9 and later).",
        &[handle("context", "green context"), out("id", Output::Varying)],
    ),
    call(
        "cuGreenCtxRecordEvent",
        "Records an event in all streams of a green context.",
        &[handle("context", "green context"), handle("event", "event")],
    ),
    call(
        "cuGreenCtxWaitEvent",
        "Makes all streams of a green context wait for an event.",
        &[handle("context", "green context"), handle("event", "event")],
    ),
    call(
        "cuGreenCtxStreamCreate",
        "Creates a stream in a green context.",
        &[
            out("stream", Output::Handle("stream")),
            handle("context", "green context"),
            or(uint("flags"), 1),
            or(int("priority"), 0),
        ],
    ),
    call(
        "cuCtxFromGreenCtx",
        "Turns a green context into one that can be made current.",
        &[out("context", Output::Handle("context")), handle("green", "green context")],
    ),
];
