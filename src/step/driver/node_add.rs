//! Adding nodes to a graph.

use super::call;
use crate::step::layout::opaque::{COPY, NODE_PARAMS};
use crate::step::{Output, StepKind, fixed, handle, out};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call(
        "cuGraphAddEmptyNode",
        "Adds a node that does nothing.",
        &[out("node", Output::Handle("node")), handle("graph", "graph"), fixed("dependencies", 0), fixed("count", 0)],
    ),
    call(
        "cuGraphAddChildGraphNode",
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
        "cuGraphAddEventRecordNode",
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
        "cuGraphAddEventWaitNode",
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
        "cuGraphAddMemAllocNode",
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
        "cuGraphAddMemFreeNode",
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
        "cuGraphAddMemsetNode",
        "Adds a node that fills memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
            handle("context", "context"),
        ],
    ),
    call(
        "cuGraphAddMemcpyNode",
        "Adds a node that copies memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("copy", Output::Struct(&COPY)),
            handle("context", "context"),
        ],
    ),
    call(
        "cuGraphAddKernelNode",
        "Adds a node that launches a kernel, by a struct that is all zero, by its first ABI.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cuGraphAddKernelNode_v2",
        "Adds a node that launches a kernel, by a struct that is all zero (12.0 and later).",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cuGraphAddBatchMemOpNode",
        "Adds a node that waits for and writes to memory, by a struct that is all zero.",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cuGraphAddNode",
        "Adds a node of any kind, by a struct that is all zero (12.2 form).",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cuGraphAddNode_v2",
        "Adds a node of any kind, by a struct that is all zero (12.3 and later).",
        &[
            out("node", Output::Handle("node")),
            handle("graph", "graph"),
            fixed("dependencies", 0),
            fixed("edges", 0),
            fixed("count", 0),
            out("params", Output::Struct(&NODE_PARAMS)),
        ],
    ),
    call(
        "cuGraphAddNode_v3",
        "Adds a node of any kind, by a struct that is all zero (13.4 form).",
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
