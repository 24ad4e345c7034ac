//! Graphs, and what they become when they are made ready to launch.

use super::call;
use crate::step::layout::opaque::{EDGES_OR_COUNT, INSTANTIATE_PARAMS, UPDATE_RESULT};
use crate::step::{Kind, Output, StepKind, fixed, handle, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cudaGraphCreate", "Creates an empty graph.", &[out("graph", Output::Handle("graph")), fixed("flags", 0)]),
    call("cudaGraphDestroy", "Destroys a graph.", &[handle("graph", "graph")]),
    call("cudaGraphClone", "Copies a graph.", &[out("clone", Output::Handle("graph")), handle("graph", "graph")]),
    call(
        "cudaGraphGetId",
        "Reads the number of a graph (13.1 and later).",
        &[handle("graph", "graph"), out("id", Output::U32)],
    ),
    call(
        "cudaGraphGetNodes",
        "Counts the nodes of a graph.",
        &[handle("graph", "graph"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    call(
        "cudaGraphGetRootNodes",
        "Counts the nodes of a graph that wait for none.",
        &[handle("graph", "graph"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    // The count is the fourth parameter until 12.9 and the fifth since 13.0; both are written.
    call(
        "cudaGraphGetEdges",
        "Counts the edges of a graph.",
        &[
            handle("graph", "graph"),
            fixed("from", 0),
            fixed("to", 0),
            out("edges_or_count", Output::Struct(&EDGES_OR_COUNT)),
            out("count", Output::U64),
        ],
    ),
    call(
        "cudaGraphGetEdges_v2",
        "Counts the edges of a graph, with what they say (12.3 to 12.9).",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    // The third parameter is a list of edges since 13.0; none are given.
    call(
        "cudaGraphAddDependencies",
        "Makes nodes of a graph wait for others; none are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges_or_count", 0), fixed("count", 0)],
    ),
    call(
        "cudaGraphAddDependencies_v2",
        "Makes nodes of a graph wait for others, with edges (12.3 to 12.9); none are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), fixed("count", 0)],
    ),
    call(
        "cudaGraphRemoveDependencies",
        "Undoes cudaGraphAddDependencies; no nodes are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges_or_count", 0), fixed("count", 0)],
    ),
    call(
        "cudaGraphRemoveDependencies_v2",
        "Undoes cudaGraphAddDependencies_v2 (12.3 to 12.9); no nodes are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), fixed("count", 0)],
    ),
    call(
        "cudaGraphConditionalHandleCreate",
        "Makes a condition for a graph (12.3 and later).",
        &[
            out("condition", Output::Handle("condition")),
            handle("graph", "graph"),
            or(uint("value"), 0),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cudaGraphConditionalHandleCreate_v2",
        "Makes a condition for a graph in an execution context (13.1 and later).",
        &[
            out("condition", Output::Handle("condition")),
            handle("graph", "graph"),
            handle("context", "execution context"),
            or(uint("value"), 0),
            or(uint("flags"), 0),
        ],
    ),
    // The third parameter is a place for a node until 11.8 and the flags since 12.0.
    call(
        "cudaGraphInstantiate",
        "Makes a graph ready to launch.",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            fixed("flags", 0),
            fixed("log", 0),
            fixed("log_size", 0),
        ],
    ),
    call(
        "cudaGraphInstantiateWithFlags",
        "Makes a graph ready to launch, with flags.",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            or(param("flags", Kind::U64), 0),
        ],
    ),
    call(
        "cudaGraphInstantiateWithParams",
        "Makes a graph ready to launch by a struct, here all zero (12.0 and later).",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            out("params", Output::Struct(&INSTANTIATE_PARAMS)),
        ],
    ),
    // The third parameter is a place for a node until 11.8 and for a struct since 12.0.
    call(
        "cudaGraphExecUpdate",
        "Replaces what an executable graph does.",
        &[
            handle("executable", "executable graph"),
            handle("graph", "graph"),
            out("error", Output::Struct(&UPDATE_RESULT)),
            out("result", Output::I32),
        ],
    ),
    call("cudaGraphExecDestroy", "Destroys an executable graph.", &[handle("executable", "executable graph")]),
    call(
        "cudaGraphExecGetFlags",
        "Reads the flags of an executable graph (12.0 and later).",
        &[handle("executable", "executable graph"), out("flags", Output::U64)],
    ),
    call(
        "cudaGraphExecGetId",
        "Reads the number of an executable graph (13.1 and later).",
        &[handle("executable", "executable graph"), out("id", Output::U32)],
    ),
    call(
        "cudaGraphLaunch",
        "Launches an executable graph.",
        &[handle("executable", "executable graph"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cudaGraphUpload",
        "Puts an executable graph on its device without launching it.",
        &[handle("executable", "executable graph"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cudaGraphRetainUserObject",
        "Gives a graph references to a user object.",
        &[handle("graph", "graph"), handle("object", "user object"), or(uint("count"), 1), or(uint("flags"), 0)],
    ),
    call(
        "cudaGraphReleaseUserObject",
        "Takes references to a user object from a graph.",
        &[handle("graph", "graph"), handle("object", "user object"), or(uint("count"), 1)],
    ),
    call(
        "cudaUserObjectRetain",
        "Takes references to a user object.",
        &[handle("object", "user object"), or(uint("count"), 1)],
    ),
    call(
        "cudaUserObjectRelease",
        "Drops references to a user object.",
        &[handle("object", "user object"), or(uint("count"), 1)],
    ),
];
