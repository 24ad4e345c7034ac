//! Diagnoses: rules, as data, that tie what a trace shows to a pitfall, the scenario that proves it,
//! and the workaround in the words of the framework on the stack.

use serde::Serialize;

use crate::trace::Trace;

/// A pitfall that a program met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule that found it, such as `late-mask`.
    pub rule: String,
    /// The rule's title, a few words.
    pub title: String,
    /// What happened in this trace, one sentence without a full stop.
    pub says: String,
    /// The scenario that proves the pitfall, such as `visibility/mask-after-cuinit`.
    pub scenario: String,
    /// What to write instead.
    pub workaround: String,
    /// The process.
    pub pid: u32,
    /// The events that show it, by their index in the trace; the first is where it went wrong.
    pub events: Vec<usize>,
    /// The UUID of the GPU that is concerned.
    pub gpu: Option<String>,
    /// The memory that it takes on that GPU.
    pub bytes: Option<i64>,
}

/// Every pitfall that a trace shows, in the order of time.
pub fn findings(trace: &Trace) -> Vec<Finding> {
    let _ = trace;
    Vec::new()
}
