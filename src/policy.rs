//! What a traced program must not do: `--forbid`, `--max-bytes` and the file of `--expect`.

use serde::Serialize;

use crate::diagnosis::Finding;
use crate::trace::Trace;

/// What is forbidden.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {}

/// Something that a program did against the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// What was forbidden, as it was written: `cuinit`, `context:gpu0`, `max-bytes gpu1=2GiB`.
    pub forbidden: String,
    /// What happened, one sentence without a full stop.
    pub says: String,
    /// The event that shows it, by its index in the trace.
    pub event: Option<usize>,
}

impl Policy {
    /// What a program did against it.
    pub fn violations(&self, trace: &Trace, findings: &[Finding]) -> Vec<Violation> {
        let _ = (trace, findings);
        Vec::new()
    }
}
