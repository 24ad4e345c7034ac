//! GPUs by what they can do: links, atomics, parts, and the calls that an attribute replaced.

use super::call;
use crate::step::constants::{GRAPH_MEM_ATTRIBUTE, P2P_ATTRIBUTE};
use crate::step::layout::opaque::{DEVPROP, FABRIC_UUID};
use crate::step::layout::{ATOMIC_OPERATION, WORD};
use crate::step::{Kind, Output, StepKind, constant, fixed, handle, int, out, param, text};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cuDeviceGetByPCIBusId", "Finds a GPU by its PCI address.", &[out("device", Output::I32), text("pci_bus_id")]),
    call(
        "cuDeviceComputeCapability",
        "Reads the compute capability of a GPU, by its old name.",
        &[out("major", Output::I32), out("minor", Output::I32), int("device")],
    ),
    call(
        "cuDeviceGetProperties",
        "Reads the properties of a GPU, by their old struct.",
        &[out("properties", Output::Struct(&DEVPROP)), int("device")],
    ),
    call(
        "cuDeviceGetLuid",
        "Reads the identifier that Windows gives a GPU.",
        &[out("luid", Output::Varying), out("node_mask", Output::U32), int("device")],
    ),
    call(
        "cuDeviceGetP2PAttribute",
        "Reads one attribute of the link between two GPUs.",
        &[out("value", Output::I32), constant("attribute", &P2P_ATTRIBUTE), int("device"), int("peer")],
    ),
    call(
        "cuDeviceGetHostAtomicCapabilities",
        "Asks which atomic operations a GPU can make on host memory (13.0 and later).",
        &[
            out("capabilities", Output::U32),
            param("operation", Kind::In(&ATOMIC_OPERATION)),
            fixed("count", 1),
            int("device"),
        ],
    ),
    call(
        "cuDeviceGetP2PAtomicCapabilities",
        "Asks which atomic operations a GPU can make on a peer's memory (13.0 and later).",
        &[
            out("capabilities", Output::U32),
            param("operation", Kind::In(&ATOMIC_OPERATION)),
            fixed("count", 1),
            int("device"),
            int("peer"),
        ],
    ),
    call(
        "cuDeviceGetTexture1DLinearMaxWidth",
        "Reads how wide a texture of linear memory may be, here one of floats.",
        &[out("width", Output::U64), fixed("format", 0x20), fixed("channels", 1), int("device")],
    ),
    call(
        "cuDeviceGetExecAffinitySupport",
        "Asks whether contexts can be bound to so many multiprocessors.",
        &[out("supported", Output::I32), fixed("type", 0), int("device")],
    ),
    call(
        "cuDeviceGetMemPool",
        "Returns the current memory pool of a GPU.",
        &[out("pool", Output::Handle("pool")), int("device")],
    ),
    call("cuDeviceSetMemPool", "Sets the current memory pool of a GPU.", &[int("device"), handle("pool", "pool")]),
    call(
        "cuDeviceGetGraphMemAttribute",
        "Reads how much memory graphs hold on a GPU.",
        &[int("device"), constant("attribute", &GRAPH_MEM_ATTRIBUTE), out("value", Output::Varying)],
    ),
    call(
        "cuDeviceSetGraphMemAttribute",
        "Sets a high-water mark of the memory that graphs hold on a GPU.",
        &[int("device"), constant("attribute", &GRAPH_MEM_ATTRIBUTE), param("value", Kind::In(&WORD))],
    ),
    call("cuDeviceGraphMemTrim", "Returns the idle memory of graphs to the system.", &[int("device")]),
    call(
        "cuDeviceGetCliqueCount",
        "Counts the cliques of a fabric that a GPU is in (13.4 and later).",
        &[out("count", Output::U64), int("device")],
    ),
    call(
        "cuDeviceGetCliqueInfo",
        "Counts the cliques of a fabric that a GPU is in, by the call that lists them (13.4 and later).",
        &[fixed("cliques", 0), out("count", Output::U64), int("device")],
    ),
    call(
        "cuDeviceGetFabricClusterUuid",
        "Reads the UUID of the fabric that a GPU is in (13.4 and later).",
        &[out("uuid", Output::Struct(&FABRIC_UUID)), int("device")],
    ),
    call(
        "cuFlushGPUDirectRDMAWrites",
        "Makes what other hardware wrote to the current GPU visible to it.",
        &[fixed("target", 0), fixed("scope", 100)],
    ),
];
