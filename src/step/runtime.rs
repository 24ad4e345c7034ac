//! Calls of the runtime API, `libcudart` (`cuda_runtime_api.h`): versions, devices, limits, errors.

pub(super) mod array;
pub(super) mod capture;
pub(super) mod code;
pub(super) mod copy;
pub(super) mod device;
pub(super) mod event;
pub(super) mod execution;
pub(super) mod function;
pub(super) mod graph;
pub(super) mod memory;
pub(super) mod node;
pub(super) mod node_add;
pub(super) mod place;
pub(super) mod pool;
pub(super) mod pool_place;
pub(super) mod process;
pub(super) mod stream;
pub(super) mod stream_state;
pub(super) mod texture;

use super::constants::{CUDA_LIMIT, DEVICE_ATTRIBUTE, SCHEDULE};
use super::layout::CUDA_DEVICE_PROP;
use super::{Kind, Library, Output, StepKind, bytes, constant, fixed, int, or, out, param, text, uint};

const fn call(name: &'static str, summary: &'static str, params: &'static [super::Param]) -> StepKind {
    super::row(Library::Runtime, name, summary, params)
}

pub(super) static STEPS: &[StepKind] = &[
    call("cudaRuntimeGetVersion", "Reads the version of this libcudart.", &[out("version", Output::I32)]),
    call("cudaDriverGetVersion", "Reads the CUDA version the driver supports.", &[out("version", Output::I32)]),
    call("cudaGetDeviceCount", "Counts the GPUs this process can see.", &[out("count", Output::I32)]),
    call("cudaGetDevice", "Reads the thread's current device.", &[out("device", Output::I32)]),
    call("cudaSetDevice", "Makes a device current for the calling thread.", &[int("device")]),
    call(
        "cudaInitDevice",
        "Initialises a device without making it current (12.0 and later).",
        &[int("device"), or(uint("device_flags"), 0), or(uint("flags"), 0)],
    ),
    call("cudaDeviceSynchronize", "Waits for all work of the current device.", &[]),
    call("cudaDeviceReset", "Destroys the primary context of the current device.", &[]),
    call(
        "cudaDeviceGetAttribute",
        "Reads one attribute of a device.",
        &[out("value", Output::I32), constant("attribute", &DEVICE_ATTRIBUTE), int("device")],
    ),
    call(
        "cudaGetDeviceProperties",
        "Reads the properties of a device.",
        &[out("properties", Output::Struct(&CUDA_DEVICE_PROP)), int("device")],
    ),
    call(
        "cudaDeviceGetPCIBusId",
        "Reads the PCI address of a device.",
        &[out("pci_bus_id", Output::Text(32)), fixed("length", 32), int("device")],
    ),
    call(
        "cudaDeviceCanAccessPeer",
        "Asks whether one device can address the memory of another.",
        &[out("can_access", Output::I32), int("device"), int("peer")],
    ),
    call(
        "cudaDeviceGetDefaultMemPool",
        "Returns the default memory pool of a device.",
        &[out("pool", Output::Handle("pool")), int("device")],
    ),
    call("cudaGetDeviceFlags", "Reads the flags of the current device.", &[out("flags", Output::U32)]),
    call("cudaSetDeviceFlags", "Sets the flags of the current device.", &[constant("flags", &SCHEDULE)]),
    call(
        "cudaDeviceGetStreamPriorityRange",
        "Reads the stream priorities of the current device.",
        &[out("least", Output::I32), out("greatest", Output::I32)],
    ),
    call(
        "cudaDeviceGetLimit",
        "Reads a limit of the current device.",
        &[out("value", Output::U64), constant("limit", &CUDA_LIMIT)],
    ),
    call(
        "cudaDeviceSetLimit",
        "Sets a limit of the current device.",
        &[constant("limit", &CUDA_LIMIT), bytes("value")],
    ),
    call("cudaGetLastError", "Reads and clears the thread's last error.", &[]),
    call("cudaPeekAtLastError", "Reads the thread's last error.", &[]),
    call(
        "cudaChooseDevice",
        "Finds the device that best fits wanted properties (none are wanted).",
        &[out("device", Output::I32), param("properties", Kind::Out(Output::Struct(&CUDA_DEVICE_PROP)))],
    ),
    call(
        "cudaDeviceGetByPCIBusId",
        "Finds a device by its PCI address.",
        &[out("device", Output::I32), text("pci_bus_id")],
    ),
    call(
        "cudaDeviceEnablePeerAccess",
        "Lets the current device address another's memory.",
        &[int("peer"), fixed("flags", 0)],
    ),
    call("cudaDeviceDisablePeerAccess", "Undoes cudaDeviceEnablePeerAccess.", &[int("peer")]),
];
