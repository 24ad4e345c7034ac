//! Calls of the driver API, `libcuda.so.1` (`cuda.h`): initialisation, devices and contexts.

pub(super) mod array;
pub(super) mod capture;
pub(super) mod code;
pub(super) mod context;
pub(super) mod copy;
pub(super) mod coredump;
pub(super) mod device;
pub(super) mod event;
pub(super) mod fill;
pub(super) mod first_abi;
pub(super) mod function;
pub(super) mod graph;
pub(super) mod image;
pub(super) mod launch;
pub(super) mod mapped;
pub(super) mod memory;
pub(super) mod node;
pub(super) mod node_add;
pub(super) mod place;
pub(super) mod pool;
pub(super) mod process;
pub(super) mod sharing;
pub(super) mod stream;
pub(super) mod stream_state;
pub(super) mod texture;

use super::constants::{CU_LIMIT, DEVICE_ATTRIBUTE, SCHEDULE};
use super::{Library, Output, StepKind, bytes, constant, fixed, handle, int, or, out, uint};

const fn call(name: &'static str, summary: &'static str, params: &'static [super::Param]) -> StepKind {
    super::row(Library::Driver, name, summary, params)
}

pub(super) static STEPS: &[StepKind] = &[
    call("cuInit", "Initialises the driver in this process.", &[or(uint("flags"), 0)]),
    call("cuDriverGetVersion", "Reads the CUDA version the driver supports.", &[out("version", Output::I32)]),
    call("cuDeviceGetCount", "Counts the GPUs this process can see.", &[out("count", Output::I32)]),
    call("cuDeviceGet", "Turns an ordinal into a CUdevice.", &[out("handle", Output::I32), int("device")]),
    call(
        "cuDeviceGetName",
        "Reads the name of a visible GPU.",
        &[out("name", Output::Text(128)), fixed("length", 128), int("device")],
    ),
    call(
        "cuDeviceGetUuid",
        "Reads the UUID of a visible GPU (of its parent, for a MIG instance).",
        &[out("uuid", Output::Uuid), int("device")],
    ),
    call("cuDeviceGetUuid_v2", "Reads the UUID of a visible GPU.", &[out("uuid", Output::Uuid), int("device")]),
    call(
        "cuDeviceGetPCIBusId",
        "Reads the PCI address of a visible GPU.",
        &[out("pci_bus_id", Output::Text(32)), fixed("length", 32), int("device")],
    ),
    call(
        "cuDeviceTotalMem_v2",
        "Reads the memory size of a visible GPU.",
        &[out("total", Output::Varying), int("device")],
    ),
    call(
        "cuDeviceGetAttribute",
        "Reads one attribute of a visible GPU.",
        &[out("value", Output::I32), constant("attribute", &DEVICE_ATTRIBUTE), int("device")],
    ),
    call(
        "cuDeviceCanAccessPeer",
        "Asks whether one GPU can address the memory of another.",
        &[out("can_access", Output::I32), int("device"), int("peer")],
    ),
    call(
        "cuDeviceGetDefaultMemPool",
        "Returns the default memory pool of a GPU.",
        &[out("pool", Output::Handle("pool")), int("device")],
    ),
    call(
        "cuDevicePrimaryCtxGetState",
        "Tells whether a GPU's primary context is active, and its flags.",
        &[int("device"), out("flags", Output::U32), out("active", Output::I32)],
    ),
    call(
        "cuDevicePrimaryCtxRetain",
        "Takes a reference to a GPU's primary context, creating it if needed.",
        &[out("context", Output::Handle("context")), int("device")],
    ),
    call("cuDevicePrimaryCtxRelease_v2", "Drops a reference to a GPU's primary context.", &[int("device")]),
    call("cuDevicePrimaryCtxReset_v2", "Destroys a GPU's primary context whoever holds it.", &[int("device")]),
    call(
        "cuDevicePrimaryCtxSetFlags_v2",
        "Sets the flags of a GPU's primary context.",
        &[int("device"), constant("flags", &SCHEDULE)],
    ),
    call(
        "cuCtxCreate_v2",
        "Creates another context on a GPU and makes it current.",
        &[out("context", Output::Handle("context")), or(constant("flags", &SCHEDULE), 0), int("device")],
    ),
    call(
        "cuCtxCreate_v4",
        "Creates another context on a GPU and makes it current (CUDA 13 form).",
        &[
            out("context", Output::Handle("context")),
            fixed("params", 0),
            or(constant("flags", &SCHEDULE), 0),
            int("device"),
        ],
    ),
    call("cuCtxDestroy_v2", "Destroys a context made by cuCtxCreate.", &[handle("context", "context")]),
    call("cuCtxPushCurrent_v2", "Pushes a context on the thread's stack.", &[handle("context", "context")]),
    call("cuCtxPopCurrent_v2", "Pops the thread's current context.", &[out("context", Output::Handle("context"))]),
    call("cuCtxSetCurrent", "Replaces the thread's current context.", &[handle("context", "context")]),
    call("cuCtxGetCurrent", "Reads the thread's current context.", &[out("context", Output::Handle("context"))]),
    call("cuCtxGetDevice", "Reads the GPU of the thread's current context.", &[out("device", Output::I32)]),
    call("cuCtxSynchronize", "Waits for all work of the current context.", &[]),
    call(
        "cuCtxGetLimit",
        "Reads a limit of the current context.",
        &[out("value", Output::U64), constant("limit", &CU_LIMIT)],
    ),
    call("cuCtxSetLimit", "Sets a limit of the current context.", &[constant("limit", &CU_LIMIT), bytes("value")]),
    call("cuCtxGetFlags", "Reads the flags of the current context.", &[out("flags", Output::U32)]),
    call(
        "cuCtxGetApiVersion",
        "Reads the API version a context was made with.",
        &[handle("context", "context"), out("version", Output::U32)],
    ),
    call(
        "cuCtxGetStreamPriorityRange",
        "Reads the stream priorities of the current context.",
        &[out("least", Output::I32), out("greatest", Output::I32)],
    ),
];
