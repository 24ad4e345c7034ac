//! A check: a fact that must hold at one step of an attempt, or of how the worker ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Matcher, When};

/// Facts that must all hold, at one step or at the end.
///
/// A key that is not known would be a fact that is not checked, so it is refused in reports too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The label of the step; empty for `exit`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// Names of statuses, any of which will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<String>,
    /// Output values by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub value: BTreeMap<String, Matcher>,
    /// The GPUs the process sees, in CUDA order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<GpuList>,
    /// The visible GPUs whose primary context is active, in any order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<GpuList>,
    /// The GPU of the calling thread's current context, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Whether the driver is initialised in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialised: Option<bool>,
    /// The class of the change in device memory, by GPU; `others` is every GPU not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, Vec<Class>>,
    /// The change in device memory since the baseline, in bytes, by GPU (NVML v2 `used`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_bytes: BTreeMap<String, Matcher>,
    /// The change in device memory since the step before, in bytes, by GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grown_bytes: BTreeMap<String, Matcher>,
    /// The largest change seen between the step before and this one, by GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peak_bytes: BTreeMap<String, Matcher>,
    /// What NVML says the worker itself uses, by GPU; needs PIDs that can be matched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process_bytes: BTreeMap<String, Matcher>,
    /// How the worker ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitCheck>,
    /// Where the check applies; everywhere if empty.
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// The reason, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// The committed report it stands on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The line of the file.
    pub line: u32,
}

/// A list of GPUs by plan name (`gpu0`), or a word for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GpuList {
    /// Every GPU of the machine, in NVML order.
    All,
    /// No GPU.
    None,
    /// These.
    Named(Vec<String>),
}

/// A change in device memory, in classes relative to what one context was measured to cost on the
/// same GPU in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Within the noise of the null control.
    None,
    /// More than noise, less than half a context.
    Touch,
    /// About one context.
    Context,
    /// More than one context explains.
    Allocation,
}

impl Class {
    /// The word in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::None => "none",
            Class::Touch => "touch",
            Class::Context => "context",
            Class::Allocation => "allocation",
        }
    }
}

/// How a worker must have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitCheck {
    /// With this exit code; 0 also means that every step was made.
    Code(i32),
    /// By this signal, by name (`SIGSEGV`), not sent by the harness.
    Signal(String),
    /// Not by itself: a step did not return before its deadline.
    Deadline,
}
