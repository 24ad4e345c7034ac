//! Graphs, and what they become when they are made ready to launch.

use super::call;
use crate::step::layout::opaque::{INSTANTIATE_PARAMS, UPDATE_RESULT};
use crate::step::{Kind, Output, StepKind, fixed, handle, or, out, param, uint};

pub(in crate::step) static STEPS: &[StepKind] = &[
    call("cuGraphCreate", "Creates an empty graph.", &[out("graph", Output::Handle("graph")), fixed("flags", 0)]),
    call("cuGraphDestroy", "Destroys a graph.", &[handle("graph", "graph")]),
    call("cuGraphClone", "Copies a graph.", &[out("clone", Output::Handle("graph")), handle("graph", "graph")]),
    call(
        "cuGraphGetId",
        "Reads the number of a graph (13.1 and later).",
        &[handle("graph", "graph"), out("id", Output::U32)],
    ),
    call(
        "cuGraphGetNodes",
        "Counts the nodes of a graph.",
        &[handle("graph", "graph"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphGetRootNodes",
        "Counts the nodes of a graph that wait for none.",
        &[handle("graph", "graph"), fixed("nodes", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphGetEdges",
        "Counts the edges of a graph, by its first ABI.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphGetEdges_v2",
        "Counts the edges of a graph (12.3 and later).",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), out("count", Output::U64)],
    ),
    call(
        "cuGraphAddDependencies",
        "Makes nodes of a graph wait for others, by its first ABI; none are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("count", 0)],
    ),
    call(
        "cuGraphAddDependencies_v2",
        "Makes nodes of a graph wait for others (12.3 and later); none are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), fixed("count", 0)],
    ),
    call(
        "cuGraphRemoveDependencies",
        "Undoes cuGraphAddDependencies; no nodes are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("count", 0)],
    ),
    call(
        "cuGraphRemoveDependencies_v2",
        "Undoes cuGraphAddDependencies_v2; no nodes are given.",
        &[handle("graph", "graph"), fixed("from", 0), fixed("to", 0), fixed("edges", 0), fixed("count", 0)],
    ),
    call(
        "cuGraphConditionalHandleCreate",
        "Makes a condition for a graph (12.3 and later).",
        &[
            out("condition", Output::Handle("condition")),
            handle("graph", "graph"),
            handle("context", "context"),
            or(uint("value"), 0),
            or(uint("flags"), 0),
        ],
    ),
    call(
        "cuGraphInstantiate_v2",
        "Makes a graph ready to launch (11.0 form).",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            fixed("error", 0),
            fixed("log", 0),
            fixed("log_size", 0),
        ],
    ),
    call(
        "cuGraphInstantiateWithFlags",
        "Makes a graph ready to launch, with flags.",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            or(param("flags", Kind::U64), 0),
        ],
    ),
    call(
        "cuGraphInstantiateWithParams",
        "Makes a graph ready to launch by a struct, here all zero (12.0 and later).",
        &[
            out("executable", Output::Handle("executable graph")),
            handle("graph", "graph"),
            out("params", Output::Struct(&INSTANTIATE_PARAMS)),
        ],
    ),
    call(
        "cuGraphExecUpdate",
        "Replaces what an executable graph does, by its first ABI.",
        &[
            handle("executable", "executable graph"),
            handle("graph", "graph"),
            out("error", Output::Handle("node")),
            out("result", Output::I32),
        ],
    ),
    call(
        "cuGraphExecUpdate_v2",
        "Replaces what an executable graph does (12.0 and later).",
        &[
            handle("executable", "executable graph"),
            handle("graph", "graph"),
            out("result", Output::Struct(&UPDATE_RESULT)),
        ],
    ),
    call("cuGraphExecDestroy", "Destroys an executable graph.", &[handle("executable", "executable graph")]),
    call(
        "cuGraphExecGetFlags",
        "Reads the flags of an executable graph (12.0 and later).",
        &[handle("executable", "executable graph"), out("flags", Output::U64)],
    ),
    call(
        "cuGraphExecGetId",
        "Reads the number of an executable graph (13.1 and later).",
        &[handle("executable", "executable graph"), out("id", Output::U32)],
    ),
    call(
        "cuGraphLaunch",
        "Launches an executable graph.",
        &[handle("executable", "executable graph"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuGraphUpload",
        "Puts an executable graph on its GPU without launching it.",
        &[handle("executable", "executable graph"), or(handle("stream", "stream"), 0)],
    ),
    call(
        "cuGraphRetainUserObject",
        "Gives a graph references to a user object.",
        &[handle("graph", "graph"), handle("object", "user object"), or(uint("count"), 1), or(uint("flags"), 0)],
    ),
    call(
        "cuGraphReleaseUserObject",
        "Takes references to a user object from a graph.",
        &[handle("graph", "graph"), handle("object", "user object"), or(uint("count"), 1)],
    ),
    call(
        "cuUserObjectRetain",
        "Takes references to a user object.",
        &[handle("object", "user object"), or(uint("count"), 1)],
    ),
    call(
        "cuUserObjectRelease",
        "Drops references to a user object.",
        &[handle("object", "user object"), or(uint("count"), 1)],
    ),
];
