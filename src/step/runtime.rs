//! Calls of the runtime API, `libcudart` (`cuda_runtime_api.h`).

use super::constants::{CUDA_LIMIT, DEVICE_ATTRIBUTE, HOST_ALLOC, MEM_ATTACH, MEM_POOL_ATTRIBUTE, SCHEDULE};
use super::layout::{CUDA_DEVICE_PROP, CUDA_POINTER_ATTRIBUTES};
use super::{Kind, Library, Output, StepKind, bytes, constant, handle, int, or, out, param, uint};

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
        &[out("pci_bus_id", Output::Text(32)), super::fixed("length", 32), int("device")],
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
    call(
        "cudaMemGetInfo",
        "Reads free and total memory of the current device.",
        &[out("free", Output::Varying), out("total", Output::Varying)],
    ),
    call(
        "cudaMalloc",
        "Allocates memory on the current device.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes")],
    ),
    call("cudaFree", "Frees memory of cudaMalloc; with NULL it only initialises.", &[handle("pointer", "pointer")]),
    call(
        "cudaMallocManaged",
        "Allocates managed memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(constant("flags", &MEM_ATTACH), 1)],
    ),
    call(
        "cudaHostAlloc",
        "Allocates page-locked host memory.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(constant("flags", &HOST_ALLOC), 0)],
    ),
    call("cudaFreeHost", "Frees memory of cudaHostAlloc.", &[handle("pointer", "pointer")]),
    call(
        "cudaHostRegister",
        "Page-locks host memory that malloc returned.",
        &[handle("pointer", "pointer"), bytes("bytes"), or(uint("flags"), 0)],
    ),
    call("cudaHostUnregister", "Undoes cudaHostRegister.", &[handle("pointer", "pointer")]),
    call(
        "cudaMemset",
        "Fills device memory with a byte.",
        &[handle("pointer", "pointer"), or(int("value"), 0), bytes("bytes")],
    ),
    call(
        "cudaPointerGetAttributes",
        "Tells where a pointer lives.",
        &[out("attributes", Output::Struct(&CUDA_POINTER_ATTRIBUTES)), handle("pointer", "pointer")],
    ),
    call(
        "cudaMallocAsync",
        "Allocates from the current pool, in stream order.",
        &[out("pointer", Output::Handle("pointer")), bytes("bytes"), or(handle("stream", "stream"), 0)],
    ),
    call("cudaFreeAsync", "Frees in stream order.", &[handle("pointer", "pointer"), or(handle("stream", "stream"), 0)]),
    call(
        "cudaMemPoolTrimTo",
        "Returns a pool's idle memory to the system.",
        &[handle("pool", "pool"), bytes("keep_bytes")],
    ),
    call(
        "cudaMemPoolGetAttribute",
        "Reads a 64-bit attribute of a pool.",
        &[handle("pool", "pool"), constant("attribute", &MEM_POOL_ATTRIBUTE), out("value", Output::U64)],
    ),
    call("cudaStreamCreate", "Creates a stream on the current device.", &[out("stream", Output::Handle("stream"))]),
    call("cudaStreamDestroy", "Destroys a stream.", &[handle("stream", "stream")]),
    call("cudaStreamSynchronize", "Waits for a stream.", &[or(handle("stream", "stream"), 0)]),
    call("cudaStreamQuery", "Asks whether a stream is idle.", &[or(handle("stream", "stream"), 0)]),
    call(
        "cudaStreamWaitEvent",
        "Makes a stream wait for an event.",
        &[or(handle("stream", "stream"), 0), handle("event", "event"), or(uint("flags"), 0)],
    ),
    call("cudaEventCreate", "Creates an event on the current device.", &[out("event", Output::Handle("event"))]),
    call("cudaEventDestroy", "Destroys an event.", &[handle("event", "event")]),
    call(
        "cudaEventRecord",
        "Records an event in a stream.",
        &[handle("event", "event"), or(handle("stream", "stream"), 0)],
    ),
    call("cudaEventQuery", "Asks whether an event has completed.", &[handle("event", "event")]),
    call("cudaEventSynchronize", "Waits for an event.", &[handle("event", "event")]),
    call(
        "cudaEventElapsedTime",
        "Measures the time between two events.",
        &[out("milliseconds", Output::F32), handle("start", "event"), handle("end", "event")],
    ),
    call("cudaGetLastError", "Reads and clears the thread's last error.", &[]),
    call("cudaPeekAtLastError", "Reads the thread's last error.", &[]),
    call(
        "cudaChooseDevice",
        "Finds the device that best fits wanted properties (none are wanted).",
        &[out("device", Output::I32), param("properties", Kind::Out(Output::Struct(&CUDA_DEVICE_PROP)))],
    ),
];
