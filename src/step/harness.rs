//! Actions of the worker itself: threads, processes, direct writes to `environ`, waiting, and the
//! ways of going wrong that the harness tests itself with.
//!
//! They bear the name of the C function that does the work. Each has an arm in
//! [`crate::worker`]'s `action` module; a test holds the two lists against each other.

use super::constants::{LIBRARY_FILES, SIGNALS};
use super::{Kind, Library, Output, StepKind, bytes, constant, handle, int, or, out, param, text, uint};

const fn action(name: &'static str, summary: &'static str, params: &'static [super::Param]) -> StepKind {
    super::row(Library::Harness, name, summary, params)
}

/// The type of name that `as` binds for an action.
pub(super) fn binds(name: &str) -> Option<&'static str> {
    match name {
        "fork" | "vfork" | "posix_spawn" | "pthread_create" | "atexit" => Some(super::ACTOR),
        "dlopen" => Some(super::LIBRARY_COPY),
        _ => None,
    }
}

pub(super) static STEPS: &[StepKind] = &[
    action("mark", "Makes no call; a moment at which everything is read.", &[]),
    action("environ", "Writes an entry of environ[] directly, behind setenv's back.", &[text("name"), text("value")]),
    action("getenv", "Reads an environment variable as libcuda would.", &[text("name"), out("value", Output::Text(0))]),
    action("getpid", "Reads the process ID.", &[out("pid", Output::Varying)]),
    action("nanosleep", "Waits.", &[uint("milliseconds")]),
    action("pthread_create", "Starts a thread; later steps run on it with `on`.", &[]),
    action("pthread_join", "Ends a thread and waits for it.", &[param("actor", Kind::Actor)]),
    action("fork", "Forks; later steps run in the child with `on`.", &[]),
    action(
        "waitpid",
        "Tells a forked child to leave by _exit(0) and waits for it.",
        &[param("actor", Kind::Actor), out("code", Output::I32), out("signal", Output::I32)],
    ),
    action(
        "posix_spawn",
        "Starts a fresh process with the environment of the calling one; later steps run in it with `on`.",
        &[out("pid", Output::Varying)],
    ),
    action("vfork", "The same by vfork and execve.", &[out("pid", Output::Varying)]),
    action("execve", "Replaces a forked process by a fresh one, with the environment it has.", &[]),
    action("kill", "Sends a signal to a process.", &[param("actor", Kind::Actor), constant("signal", &SIGNALS)]),
    action("atexit", "Registers an exit handler; later steps run inside it with `on`, after `exit`.", &[]),
    action("exit", "Ends the process the normal way: exit handlers run.", &[or(int("code"), 0)]),
    action("_exit", "Ends the process at once.", &[or(int("code"), 0)]),
    action("abort", "Ends the process by SIGABRT.", &[]),
    action("raise", "Sends a signal to the calling thread.", &[constant("signal", &SIGNALS)]),
    action("pause", "Waits for ever.", &[]),
    action("signal", "Ignores a signal from now on.", &[constant("signal", &SIGNALS)]),
    action("store_null", "Writes to address 0.", &[]),
    action("write", "Writes bytes of noise to stdout.", &[bytes("bytes")]),
    action(
        "memset",
        "The processor fills host or managed memory with a byte.",
        &[handle("pointer", "pointer"), or(int("value"), 1), bytes("bytes")],
    ),
    action(
        "dlopen",
        "Opens a library; with `as` a private copy, an instance of its own.",
        &[constant("file", &LIBRARY_FILES)],
    ),
    action("dl_iterate_phdr", "Lists the NVIDIA libraries that are mapped.", &[out("libraries", Output::Text(0))]),
    action(
        "readdir",
        "Counts the GPU device files this process holds open.",
        &[out("gpus", Output::I32), out("control", Output::I32), out("uvm", Output::I32)],
    ),
    action("getrusage", "Reads the most host memory this process ever had.", &[out("max_rss_bytes", Output::Varying)]),
    action("freopen", "Sends stdout to a file in memory from now on.", &[]),
    action(
        "fread",
        "Reads that file: how many lines, and the first and the last of them.",
        &[
            out("lines", Output::Varying),
            out("bytes", Output::Varying),
            out("first", Output::Text(0)),
            out("last", Output::Text(0)),
        ],
    ),
    action("setsid", "Leaves a grandchild behind in a session of its own, for this long.", &[uint("milliseconds")]),
];
