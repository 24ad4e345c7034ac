//! Calls of the C library.

use super::{Library, Output, StepKind, bytes, fixed, out, text};

const fn call(name: &'static str, summary: &'static str, params: &'static [super::Param]) -> StepKind {
    super::row(Library::Libc, name, summary, params)
}

pub(super) static STEPS: &[StepKind] = &[
    call(
        "setenv",
        "Sets an environment variable in this process.",
        &[text("name"), text("value"), fixed("overwrite", 1)],
    ),
    call("unsetenv", "Removes an environment variable from this process.", &[text("name")]),
    call("clearenv", "Removes every environment variable from this process.", &[]),
    call(
        "posix_memalign",
        "Allocates pageable host memory.",
        &[out("pointer", Output::Handle("pointer")), fixed("alignment", 4096), bytes("bytes")],
    ),
    call("sched_yield", "Gives up the processor once; a step that touches nothing.", &[]),
];
