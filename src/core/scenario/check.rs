//! A check: facts that must hold at one step of an attempt, or how the worker must end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::When;
use crate::fact::FactSet;

/// Facts that must all hold, at one step or at the end.
///
/// An unknown key would be a fact that is never checked, so it is rejected, in reports too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The label of the step; empty for `exit`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// The facts that must hold.
    #[serde(flatten)]
    pub facts: FactSet,
    /// The machines that the check applies to; all machines if empty.
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// The reason, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// The committed report that supports the check.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The line of the file.
    pub line: u32,
}
