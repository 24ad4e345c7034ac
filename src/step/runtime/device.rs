//! Devices by what they can do: caches, peers, atomics, and the calls that 13.0 took away.

use super::call;
use crate::step::constants::{CUDA_LIMIT, FUNC_CACHE, GRAPH_MEM_ATTRIBUTE, P2P_ATTRIBUTE, SHARED_MEM_CONFIG};
use crate::step::layout::{ATOMIC_OPERATION, CHANNEL_FORMAT_OF, CUDA_DEVICE_PROP, ORDINAL, WORD};
use crate::step::{Kind, Output, StepKind, bytes, constant, fixed, int, out, param};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaGetDeviceProperties_v2",
        "Reads the properties of a device, by its exported name of 12.x.",
        &[out("properties", Output::Struct(&CUDA_DEVICE_PROP)), int("device")],
    ),
    call(
        "cudaSetValidDevices",
        "Says which devices a thread that chooses none may get; one is listed.",
        &[param("device", Kind::In(&ORDINAL)), fixed("length", 1)],
    ),
    call(
        "cudaDeviceGetCacheConfig",
        "Reads how the current device would split its cache.",
        &[out("config", Output::I32)],
    ),
    call(
        "cudaDeviceSetCacheConfig",
        "Says how the current device should split its cache.",
        &[constant("config", &FUNC_CACHE)],
    ),
    call("cudaDeviceGetSharedMemConfig", "Reads the width of shared memory banks.", &[out("config", Output::I32)]),
    call(
        "cudaDeviceSetSharedMemConfig",
        "Sets the width of shared memory banks.",
        &[constant("config", &SHARED_MEM_CONFIG)],
    ),
    call(
        "cudaDeviceGetP2PAttribute",
        "Reads one attribute of the link between two devices.",
        &[out("value", Output::I32), constant("attribute", &P2P_ATTRIBUTE), int("device"), int("peer")],
    ),
    call(
        "cudaDeviceGetHostAtomicCapabilities",
        "Asks which atomic operations a device can make on host memory (13.0 and later).",
        &[
            out("capabilities", Output::U32),
            param("operation", Kind::In(&ATOMIC_OPERATION)),
            fixed("count", 1),
            int("device"),
        ],
    ),
    call(
        "cudaDeviceGetP2PAtomicCapabilities",
        "Asks which atomic operations a device can make on a peer's memory (13.0 and later).",
        &[
            out("capabilities", Output::U32),
            param("operation", Kind::In(&ATOMIC_OPERATION)),
            fixed("count", 1),
            int("device"),
            int("peer"),
        ],
    ),
    call(
        "cudaDeviceGetTexture1DLinearMaxWidth",
        "Reads how wide a texture of linear memory may be, by the bits of an element.",
        &[out("width", Output::U64), param("bits", Kind::In(&CHANNEL_FORMAT_OF)), int("device")],
    ),
    call(
        "cudaDeviceFlushGPUDirectRDMAWrites",
        "Makes what other hardware wrote to the current device visible to it.",
        &[fixed("target", 0), fixed("scope", 100)],
    ),
    call("cudaCtxResetPersistingL2Cache", "Makes persisting lines of the L2 cache ordinary ones.", &[]),
    call(
        "cudaDeviceGetGraphMemAttribute",
        "Reads how much memory graphs hold on a device.",
        &[int("device"), constant("attribute", &GRAPH_MEM_ATTRIBUTE), out("value", Output::Varying)],
    ),
    call(
        "cudaDeviceSetGraphMemAttribute",
        "Sets a high-water mark of the memory that graphs hold on a device.",
        &[int("device"), constant("attribute", &GRAPH_MEM_ATTRIBUTE), param("value", Kind::In(&WORD))],
    ),
    call("cudaDeviceGraphMemTrim", "Returns the idle memory of graphs to the system.", &[int("device")]),
    call("cudaThreadExit", "The old name of cudaDeviceReset, until 12.9.", &[]),
    call("cudaThreadSynchronize", "The old name of cudaDeviceSynchronize, until 12.9.", &[]),
    call(
        "cudaThreadGetLimit",
        "The old name of cudaDeviceGetLimit, until 12.9.",
        &[out("value", Output::U64), constant("limit", &CUDA_LIMIT)],
    ),
    call(
        "cudaThreadSetLimit",
        "The old name of cudaDeviceSetLimit, until 12.9.",
        &[constant("limit", &CUDA_LIMIT), bytes("value")],
    ),
    call(
        "cudaThreadGetCacheConfig",
        "The old name of cudaDeviceGetCacheConfig, until 12.9.",
        &[out("config", Output::I32)],
    ),
    call(
        "cudaThreadSetCacheConfig",
        "The old name of cudaDeviceSetCacheConfig, until 12.9.",
        &[constant("config", &FUNC_CACHE)],
    ),
];
