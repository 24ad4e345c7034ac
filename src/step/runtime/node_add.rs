//! Adding nodes to a graph.

use super::call;
use crate::step::layout::opaque::{COPY, NODE_PARAMS};
use crate::step::{Output, StepKind, bytes, fixed, handle, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cudaGraphAddEmptyNode",
        "Adds a node that does nothing.",
        &[out("node", Output::Handle("node")), handle("graph", "graph"), fixed("dependencies", 0), fixed("count", 0)],
    ),
    call(
        "cudaGraphAddChildGraphNode",
        "Adds a graph as a node.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("child", "graph"),
        ],
    ),
    call(
        "cudaGraphAddEventRecordNode",
        "Adds a node that records an event.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("event", "event"),
        ],
    ),
    call(
        "cudaGraphAddEventWaitNode",
        "Adds a node that waits for an event.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("event", "event"),
        ],
    ),
    call(
        "cudaGraphAddMemAllocNode",
        "Adds a node that allocates memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cudaGraphAddMemFreeNode",
        "Adds a node that frees memory.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("pointer", "pointer"),
        ],
    ),
    call(
        "cudaGraphAddMemsetNode",
        "Adds a node that fills memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cudaGraphAddKernelNode",
        "Adds a node that launches a kernel, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cudaGraphAddMemcpyNode",
        "Adds a node that copies memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("copy", Output::Struct(&COPY)),
        ],
    ),
    call(
        "cudaGraphAddMemcpyNodeToSymbol",
        "Adds a node that copies memory to a variable of the program's own kernels.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("symbol", "symbol"),
            handle("source", "pointer"),
            bytes("bytes"),
            fixed("offset", 0),
            fixed("kind", 4),
        ],
    ),
    call(
        "cudaGraphAddMemcpyNodeFromSymbol",
        "Adds a node that copies a variable of the program's own kernels to memory.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("destination", "pointer"),
            handle("symbol", "symbol"),
            bytes("bytes"),
            fixed("offset", 0),
            fixed("kind", 4),
        ],
    ),
    call(
        "cudaGraphAddMemcpyNode1D",
        "Adds a node that copies memory.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            handle("destination", "pointer"),
            handle("source", "pointer"),
            bytes("bytes"),
            fixed("kind", 4),
        ],
    ),
    call(
        "cudaGraphAddNode_v2",
        "Adds a node of any kind, by a struct that is all zero (12.3 to 12.9).",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
];
