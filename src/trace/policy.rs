//! Policies: what a traced program must not do, from `--forbid` and `--max-bytes`.
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

/// A list of forbidden actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The forbidden actions.
    pub forbid: Vec<PolicyWord>,
    /// The maximum growth of each GPU's memory, in bytes.
    pub max_bytes: BTreeMap<GpuWord, u64>,
}

/// A violation of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Violation {
    /// The rule that was violated, as written by the user: `cuinit`, `context:gpu0`, `max-bytes gpu1=2 GiB`.
    pub forbidden: String,
    /// A sentence without a full stop that describes the violation. It contains text of the traced program.
    pub says: String,
    /// The event that shows the violation, by its index in the trace.
    pub event: Option<usize>,
}

/// The result of comparing a policy with a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PolicyOutcome {
    /// The violations, in the order of the policy.
    pub violations: Vec<Violation>,
    /// The reasons why a part of the policy cannot be decided, one sentence without a full stop each.
    pub undecided: Vec<String>,
}

impl PolicyOutcome {
    /// Returns `true` if the program is known to have violated nothing.
    pub fn is_kept(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

impl Policy {
    /// Parses the words of `--forbid` and the values of `--max-bytes`, such as `gpu1=2GiB`.
    ///
    /// # Errors
    /// Returns an error for an unknown word, with the known ones, and for a value that is not a GPU with a size.
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

    /// Returns `true` if it forbids nothing.
    pub fn is_empty(&self) -> bool {
        *self == Policy::default()
    }

    /// Compares the policy with a program's actions. `findings` must come from the same trace.
    pub fn check(&self, trace: &Trace, findings: &[Finding]) -> PolicyOutcome {
        check::outcome(self, &History::new(trace), findings)
    }

    /// Returns the violations alone, without the undecided parts: see [`Policy::check`].
    pub fn find_violations(&self, history: &History, findings: &[Finding]) -> Vec<Violation> {
        check::outcome(self, history, findings).violations
    }
}
