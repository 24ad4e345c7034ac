//! What crosses contexts and processes: peer access, IPC, checkpoints.

use super::call;
use crate::step::{Kind, Output, StepKind, fixed, handle, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuCtxEnablePeerAccess",
        "Lets the current context address another's memory.",
        &[handle("context", "context"), fixed("flags", 0)],
    ),
    call("cuCtxDisablePeerAccess", "Undoes cuCtxEnablePeerAccess.", &[handle("context", "context")]),
    call(
        "cuIpcGetMemHandle",
        "Makes device memory known to other processes.",
        &[out("ipc", Output::Blob("ipc", 64)), handle("pointer", "pointer")],
    ),
    call(
        "cuIpcOpenMemHandle_v2",
        "Maps another process's memory.",
        &[out("pointer", Output::Handle("pointer")), param("ipc", Kind::Block("ipc", 64)), or(uint("flags"), 1)],
    ),
    call("cuIpcCloseMemHandle", "Unmaps another process's memory.", &[handle("pointer", "pointer")]),
    call(
        "cuCheckpointProcessGetState",
        "Reads the checkpoint state of a process (0 running, 1 locked, 2 checkpointed, 3 failed).",
        &[param("actor", Kind::Pid), out("state", Output::I32)],
    ),
    call(
        "cuCheckpointProcessLock",
        "Keeps a process from making further CUDA calls.",
        &[param("actor", Kind::Pid), fixed("arguments", 0)],
    ),
    call(
        "cuCheckpointProcessCheckpoint",
        "Moves a locked process's device memory to the host and gives up its GPUs.",
        &[param("actor", Kind::Pid), fixed("arguments", 0)],
    ),
    call(
        "cuCheckpointProcessRestore",
        "Undoes cuCheckpointProcessCheckpoint.",
        &[param("actor", Kind::Pid), fixed("arguments", 0)],
    ),
    call(
        "cuCheckpointProcessUnlock",
        "Undoes cuCheckpointProcessLock.",
        &[param("actor", Kind::Pid), fixed("arguments", 0)],
    ),
];
