//! Nodes of a graph: reading them and changing what they do.

use super::call;
use crate::step::layout::ATTRIBUTE_VALUE_OF;
use crate::step::layout::opaque::{ATTRIBUTE_VALUE, EDGES_OR_COUNT, NODE_PARAMS};
use crate::step::{Kind, Output, StepKind, fixed, handle, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cudaGraphDestroyNode", "Takes a node from its graph.", &[handle("node", "node")]),
    call(
        "cudaGraphNodeFindInClone",
        "Finds a node's copy in a copied graph.",
        &[out("copy", Output::Handle("node")), handle("node", "node"), handle("clone", "graph")],
    ),
    call("cudaGraphNodeGetType", "Reads what kind of node it is.", &[handle("node", "node"), out("type", Output::I32)]),
    call(
        "cudaGraphNodeGetContainingGraph",
        "Reads the graph of a node (13.1 and later).",
        &[handle("node", "node"), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cudaGraphNodeGetLocalId",
        "Reads the number of a node in its graph (13.1 and later).",
        &[handle("node", "node"), out("id", Output::U32)],
    ),
    call(
        "cudaGraphNodeGetToolsId",
        "Reads the number that tools know a node by (13.1 and later).",
        &[handle("node", "node"), out("id", Output::Varying)],
    ),
    call(
        "cudaGraphNodeGetParams",
        "Reads what a node does (13.2 and later).",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    // The count is the third parameter until 12.9 and the fourth since 13.0; both are written.
    call(
        "cudaGraphNodeGetDependencies",
        "Counts the nodes that a node waits for.",
        &[
            handle("node", "node"),
            fixed("nodes", 0),
            out("edges_or_count", Output::Struct(&EDGES_OR_COUNT)),
            out("count", Output::U64),
        ],
    ),
    call(
        "cudaGraphNodeGetDependencies_v2",
        "Counts the nodes that a node waits for, with edges (12.3 to 12.9).",
        &[handle("node", "node"), fixed("nodes", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    call(
        "cudaGraphNodeGetDependentNodes",
        "Counts the nodes that wait for a node.",
        &[
            handle("node", "node"),
            fixed("nodes", 0),
            out("edges_or_count", Output::Struct(&EDGES_OR_COUNT)),
            out("count", Output::U64),
        ],
    ),
    call(
        "cudaGraphNodeGetDependentNodes_v2",
        "Counts the nodes that wait for a node, with edges (12.3 to 12.9).",
        &[handle("node", "node"), fixed("nodes", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    call(
        "cudaGraphNodeGetEnabled",
        "Asks whether a node of an executable graph runs.",
        &[handle("executable", "executable graph"), handle("node", "node"), out("enabled", Output::U32)],
    ),
    call(
        "cudaGraphNodeSetEnabled",
        "Says whether a node of an executable graph runs.",
        &[handle("executable", "executable graph"), handle("node", "node"), uint("enabled")],
    ),
    call(
        "cudaGraphChildGraphNodeGetGraph",
        "Reads the graph that a node is.",
        &[handle("node", "node"), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cudaGraphEventRecordNodeGetEvent",
        "Reads the event that a node records.",
        &[handle("node", "node"), out("event", Output::Handle("event"))],
    ),
    call(
        "cudaGraphEventRecordNodeSetEvent",
        "Sets the event that a node records.",
        &[handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cudaGraphEventWaitNodeGetEvent",
        "Reads the event that a node waits for.",
        &[handle("node", "node"), out("event", Output::Handle("event"))],
    ),
    call(
        "cudaGraphEventWaitNodeSetEvent",
        "Sets the event that a node waits for.",
        &[handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cudaGraphHostNodeGetParams",
        "Reads what a node calls on the host.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphKernelNodeGetParams",
        "Reads what a node launches.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphKernelNodeGetAttribute",
        "Reads an attribute of a node that launches a kernel.",
        &[handle("node", "node"), fixed("attribute", 2), out("value", Output::Struct(&ATTRIBUTE_VALUE))],
    ),
    call(
        "cudaGraphKernelNodeCopyAttributes",
        "Copies the attributes of one node to another.",
        &[handle("first", "node"), handle("second", "node")],
    ),
    call(
        "cudaGraphMemAllocNodeGetParams",
        "Reads what a node allocates.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphMemFreeNodeGetParams",
        "Reads what a node frees.",
        &[handle("node", "node"), out("pointer", Output::Handle("pointer"))],
    ),
    call(
        "cudaGraphMemcpyNodeGetParams",
        "Reads what a node copies.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphMemsetNodeGetParams",
        "Reads what a node fills.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphExternalSemaphoresSignalNodeGetParams",
        "Reads what semaphores a node signals.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphExternalSemaphoresWaitNodeGetParams",
        "Reads what semaphores a node waits for.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cudaGraphKernelNodeSetAttribute",
        "Sets an attribute of a node that launches a kernel: whether its blocks all run at once.",
        &[handle("node", "node"), fixed("attribute", 2), param("value", Kind::In(&ATTRIBUTE_VALUE_OF))],
    ),
    call(
        "cudaGraphExecChildGraphNodeSetParams",
        "Replaces the graph that a node of an executable graph is.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("child", "graph")],
    ),
    call(
        "cudaGraphExecEventRecordNodeSetEvent",
        "Sets the event that a node of an executable graph records.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cudaGraphExecEventWaitNodeSetEvent",
        "Sets the event that a node of an executable graph waits for.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("event", "event")],
    ),
];
