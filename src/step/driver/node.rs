//! Nodes of a graph: reading them and changing what they do.

use super::call;
use crate::step::layout::ATTRIBUTE_VALUE_OF;
use crate::step::layout::opaque::{ATTRIBUTE_VALUE, NODE_PARAMS};
use crate::step::{Kind, Output, StepKind, fixed, handle, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cuGraphDestroyNode", "Takes a node from its graph.", &[handle("node", "node")]),
    call(
        "cuGraphNodeFindInClone",
        "Finds a node's copy in a copied graph.",
        &[out("copy", Output::Handle("node")), handle("node", "node"), handle("clone", "graph")],
    ),
    call("cuGraphNodeGetType", "Reads what kind of node it is.", &[handle("node", "node"), out("type", Output::I32)]),
    call(
        "cuGraphNodeGetContainingGraph",
        "Reads the graph of a node (13.1 and later).",
        &[handle("node", "node"), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cuGraphNodeGetLocalId",
        "Reads the number of a node in its graph (13.1 and later).",
        &[handle("node", "node"), out("id", Output::U32)],
    ),
    call(
        "cuGraphNodeGetToolsId",
        "Reads the number that tools know a node by (13.1 and later).",
        &[handle("node", "node"), out("id", Output::Varying)],
    ),
    call(
        "cuGraphNodeGetParams",
        "Reads what a node does (13.2 and later).",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphNodeGetDependencies",
        "Counts the nodes that a node waits for, by its first ABI.",
        &[handle("node", "node"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphNodeGetDependencies_v2",
        "Counts the nodes that a node waits for (12.3 and later).",
        &[handle("node", "node"), fixed("nodes", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphNodeGetDependentNodes",
        "Counts the nodes that wait for a node, by its first ABI.",
        &[handle("node", "node"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphNodeGetDependentNodes_v2",
        "Counts the nodes that wait for a node (12.3 and later).",
        &[handle("node", "node"), fixed("nodes", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphNodeGetEnabled",
        "Asks whether a node of an executable graph runs.",
        &[handle("executable", "executable graph"), handle("node", "node"), out("enabled", Output::U32)],
    ),
    call(
        "cuGraphNodeSetEnabled",
        "Says whether a node of an executable graph runs.",
        &[handle("executable", "executable graph"), handle("node", "node"), uint("enabled")],
    ),
    call(
        "cuGraphChildGraphNodeGetGraph",
        "Reads the graph that a node is.",
        &[handle("node", "node"), out("graph", Output::Handle("graph"))],
    ),
    call(
        "cuGraphEventRecordNodeGetEvent",
        "Reads the event that a node records.",
        &[handle("node", "node"), out("event", Output::Handle("event"))],
    ),
    call(
        "cuGraphEventRecordNodeSetEvent",
        "Sets the event that a node records.",
        &[handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cuGraphEventWaitNodeGetEvent",
        "Reads the event that a node waits for.",
        &[handle("node", "node"), out("event", Output::Handle("event"))],
    ),
    call(
        "cuGraphEventWaitNodeSetEvent",
        "Sets the event that a node waits for.",
        &[handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cuGraphHostNodeGetParams",
        "Reads what a node calls on the host.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphKernelNodeGetParams",
        "Reads what a node launches, by its first ABI.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphKernelNodeGetParams_v2",
        "Reads what a node launches (12.0 and later).",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphKernelNodeGetAttribute",
        "Reads an attribute of a node that launches a kernel.",
        &[handle("node", "node"), fixed("attribute", 2), out("value", Output::Struct(&ATTRIBUTE_VALUE))],
    ),
    call(
        "cuGraphKernelNodeCopyAttributes",
        "Copies the attributes of one node to another.",
        &[handle("destination", "node"), handle("source", "node")],
    ),
    call(
        "cuGraphMemAllocNodeGetParams",
        "Reads what a node allocates.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphMemFreeNodeGetParams",
        "Reads what a node frees.",
        &[handle("node", "node"), out("pointer", Output::Handle("pointer"))],
    ),
    call(
        "cuGraphMemcpyNodeGetParams",
        "Reads what a node copies.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphMemsetNodeGetParams",
        "Reads what a node fills.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphBatchMemOpNodeGetParams",
        "Reads what a node waits for and writes to.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphExternalSemaphoresSignalNodeGetParams",
        "Reads what semaphores a node signals.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphExternalSemaphoresWaitNodeGetParams",
        "Reads what semaphores a node waits for.",
        &[handle("node", "node"), out("params", Output::Struct(&NODE_PARAMS))],
    ),
    call(
        "cuGraphKernelNodeSetAttribute",
        "Sets an attribute of a node that launches a kernel: whether its blocks all run at once.",
        &[handle("node", "node"), fixed("attribute", 2), param("value", Kind::In(&ATTRIBUTE_VALUE_OF))],
    ),
    call(
        "cuGraphExecChildGraphNodeSetParams",
        "Replaces the graph that a node of an executable graph is.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("child", "graph")],
    ),
    call(
        "cuGraphExecEventRecordNodeSetEvent",
        "Sets the event that a node of an executable graph records.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("event", "event")],
    ),
    call(
        "cuGraphExecEventWaitNodeSetEvent",
        "Sets the event that a node of an executable graph waits for.",
        &[handle("executable", "executable graph"), handle("node", "node"), handle("event", "event")],
    ),
];
