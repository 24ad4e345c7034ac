//! What a traced program must not do: `--forbid` and `--max-bytes`.
//!
//! A policy is kept, violated, or undecided: what a trace could not see never counts as kept.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod check;
#[cfg(test)]
mod tests;
mod word;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::word::{GpuWord, PolicyWord, WordError, words};
use crate::diagnosis::Finding;
use crate::{History, Trace};

/// What is forbidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What must not happen.
    pub forbid: Vec<PolicyWord>,
    /// The most that the memory of a GPU may grow, in bytes.
    pub max_bytes: BTreeMap<GpuWord, u64>,
}

/// Something that a program did against the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Violation {
    /// What was forbidden, as it is written: `cuinit`, `context:gpu0`, `max-bytes gpu1=2 GiB`.
    pub forbidden: String,
    /// What happened, one sentence without a full stop. It holds text of the program.
    pub says: String,
    /// The event that shows it, by its index in the trace.
    pub event: Option<usize>,
}

/// A policy compared with a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyOutcome {
    /// What the program did against it, in the order of the policy.
    pub violations: Vec<Violation>,
    /// Why a part of the policy cannot be decided, one sentence without a full stop each.
    pub undecided: Vec<String>,
}

impl PolicyOutcome {
    /// Whether the program is known to have done nothing against the policy.
    pub fn is_kept(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

impl Policy {
    /// A policy from the words of `--forbid` and the values of `--max-bytes`, such as `gpu1=2GiB`.
    ///
    /// # Errors
    /// A word that is not known, with those that are; a value that is no GPU and size.
    pub fn parse(forbid: &[String], max_bytes: &[String]) -> Result<Policy, WordError> {
        let mut policy = Policy::default();
        for word in forbid.iter().flat_map(|words| words.split(',')) {
            policy.forbid.push(PolicyWord::parse(word.trim())?);
        }
        for bound in max_bytes {
            let (gpu, bytes) = word::parse_bound(bound)?;
            policy.max_bytes.insert(gpu, bytes);
        }
        Ok(policy)
    }

    /// Whether it forbids nothing.
    pub fn is_empty(&self) -> bool {
        *self == Policy::default()
    }

    /// Compares it with what a program did. `findings` are those of the same trace.
    pub fn check(&self, trace: &Trace, findings: &[Finding]) -> PolicyOutcome {
        check::outcome(self, &History::new(trace), findings)
    }

    /// What a program did against it, without the undecided parts: see [`Policy::check`].
    pub fn find_violations(&self, history: &History, findings: &[Finding]) -> Vec<Violation> {
        check::outcome(self, history, findings).violations
    }
}
