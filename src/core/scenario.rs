//! A scenario: one question, its cases, and the expected results with reasons.
//!
//! [`load`] turns the text of a file into a [`Scenario`], or into all errors of the file, each with its location.
//! Nothing here uses a clock, a file, the environment or a GPU.

mod check;
pub mod environment;
mod file;
pub mod framework;
mod load;
pub mod python;
pub mod schema;
mod sentences;
pub mod subject;
pub mod symptom;
mod version;

pub use check::Check;
pub use file::{CheckFile, GpusFile};
pub use load::Excerpts;
pub use load::{load_scenario, sha256_hex};

pub use crate::experiment::{Scalar, Step};
pub use crate::fact::{ExitCheck, GpuList, Matcher, Operand};
pub use crate::observation::Class;
pub use crate::python::Python;
pub use crate::source::Diagnostic;
pub use crate::source::diagnostic::nearest_name;
use crate::verdict::Kind;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scenario file, which answers one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// `<subject>/<what-happens>`, from the file's path.
    pub name: String,
    /// The question, ending in a question mark.
    pub question: String,
    /// The motivation: the comment at the top of the file.
    pub why: String,
    /// The common belief that the scenario tests.
    pub belief: String,
    /// The measured answer, in a sentence or two; empty until it was measured.
    pub answer: String,
    /// The order or call that works; empty if no workaround is known.
    pub workaround: String,
    /// The reason why a control is impossible; empty if the scenario has a control.
    pub no_control: String,
    /// The scenario for the same question that uses only CUDA calls, if it exists.
    pub twin: Option<String>,
    /// Words to select by, including catalog numbers.
    pub tags: Vec<String>,
    /// The symptoms that users see, by id of [`symptom`].
    pub symptoms: Vec<String>,
    /// Messages and phrasings that users paste and that no other text of the file contains.
    pub says: Vec<String>,
    /// The sources of the question.
    pub sources: Vec<String>,
    /// The requirements for the machine.
    pub needs: Needs,
    /// Hazards for other users of the machine. A run skips the scenario unless they are allowed by name.
    pub hazards: Vec<Hazard>,
    /// Attempts of each case, unless set on the command line.
    pub repeat: u32,
    /// Maximum duration of one step.
    pub step_timeout_ms: u64,
    /// Maximum duration of one attempt.
    pub timeout_ms: u64,
    /// `true` if a mixture of outcomes is an answer (with its rate) rather than inconclusive.
    pub nondeterministic: bool,
    /// Parameter names and values, in file order; usually empty.
    pub parameters: Vec<(String, Vec<Scalar>)>,
    /// The instances, one per combination of parameter values; exactly one without parameters.
    pub instances: Vec<Instance>,
    /// SHA-256 of the file's bytes, in hex.
    pub sha256: String,
}

impl Scenario {
    /// Returns `true` if a case has Python lines.
    pub fn has_python_lines(&self) -> bool {
        self.instances
            .iter()
            .flat_map(|instance| &instance.cases)
            .any(|case| case.python.is_some())
    }
}

/// A scenario with one combination of parameter values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// The scenario's name, followed by `[parameter=value,…]` if it has parameters.
    pub name: String,
    /// The values.
    pub values: BTreeMap<String, Scalar>,
    /// The cases in file order; `trap` and `control` among them.
    pub cases: Vec<Case>,
    /// The pitfall: it occurs in an attempt if all of these hold.
    pub effect: Vec<Check>,
    /// The expected verdicts. The first whose `when` matches applies.
    pub expect: Vec<Expectation>,
}

/// An ordered list of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// `trap`, `control`, or another name.
    pub name: String,
    /// The special feature of this order, in a few words.
    pub does: String,
    /// The GPUs that the worker is started with.
    pub gpus: Gpus,
    /// Environment variables at exec, in addition to those of every worker.
    pub env: BTreeMap<String, String>,
    /// `true` if the worker runs probes after each step.
    pub probes: bool,
    /// The requirements for the interpreter; `None` if the case makes C calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    /// The calls.
    pub steps: Vec<Step>,
    /// Facts that every attempt of this case must show.
    pub expect: Vec<Check>,
}

/// The GPUs that a worker is started with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gpus {
    /// No mask at all: the question is about visibility.
    #[default]
    All,
    /// A mask of this many GPUs, by UUID.
    Masked(u32),
}

/// Returns `true` if a `workaround` describes an action.
pub fn is_workaround(workaround: &str) -> bool {
    !workaround.is_empty() && !needs_nothing(workaround)
}

/// Returns `true` if a `workaround` means that no action is needed: it begins with `None needed`. These two words are
/// part of the file format.
pub fn needs_nothing(workaround: &str) -> bool {
    workaround.starts_with("None needed")
}

/// The requirements for the machine before any step is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Needs {
    /// Minimum number of GPUs.
    pub gpus: u32,
    /// A range for the driver's version, such as `>= 525`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Range>,
    /// A range for libcudart's version, such as `>= 12.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libcudart: Option<Range>,
    /// A range for the compute capability of the GPUs used, such as `>= 9.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<Range>,
    /// `true` if the worker must be root.
    #[serde(default)]
    pub root: bool,
    /// `true` if the GPUs must be able to address each other's memory.
    #[serde(default)]
    pub peer_access: bool,
}

/// A comparison with a dotted version: one of `>= > <= < =` and numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Range(
    #[serde(deserialize_with = "version::read_range")]
    #[schemars(regex(pattern = r"^\s*(>=|<=|>|<|=)\s*[0-9]+(\.[0-9]+)*\s*$"))]
    pub String,
);

/// A risk of a scenario for other users of the machine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Hazard {
    /// Raises a GPU fault (an Xid in the kernel log).
    Fault,
    /// Requests more managed memory than the GPU has.
    Oversubscribe,
    /// Allocates most of a GPU's memory.
    Bigmem,
    /// Needs root.
    Root,
    /// Changes a setting of the machine.
    Settings,
    /// Starts an MPS daemon with separate directories.
    Mps,
    /// Runs Python lines that are not built in. Files do not list this hazard: it follows from the path of the file.
    Code,
}

impl Hazard {
    /// All hazards, for messages and help.
    pub const ALL: [Hazard; 7] = [
        Hazard::Fault,
        Hazard::Oversubscribe,
        Hazard::Bigmem,
        Hazard::Root,
        Hazard::Settings,
        Hazard::Mps,
        Hazard::Code,
    ];

    /// The hazards that files list.
    pub const LISTED: [Hazard; 6] = [
        Hazard::Fault,
        Hazard::Oversubscribe,
        Hazard::Bigmem,
        Hazard::Root,
        Hazard::Settings,
        Hazard::Mps,
    ];

    /// Returns the word in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Hazard::Fault => "fault",
            Hazard::Oversubscribe => "oversubscribe",
            Hazard::Bigmem => "bigmem",
            Hazard::Root => "root",
            Hazard::Settings => "settings",
            Hazard::Mps => "mps",
            Hazard::Code => "code",
        }
    }
}

/// The expected verdict, the machines that it holds for, and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// `reproduced` or `not_reproduced`.
    pub verdict: Expected,
    /// The machines that the expectation applies to; all machines if empty.
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// The reason, in a sentence.
    #[schemars(length(min = 1))]
    pub because: String,
    /// The committed report that supports the expectation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
}

/// The verdicts that can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// The pitfall occurs in every trap and in no control.
    Reproduced,
    /// The pitfall shows nowhere.
    NotReproduced,
}

impl Expected {
    /// Returns the verdict.
    pub const fn kind(self) -> Kind {
        match self {
            Expected::Reproduced => Kind::Reproduced,
            Expected::NotReproduced => Kind::NotReproduced,
        }
    }
}

/// Conditions on the machine; all that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// A range for the driver's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Range>,
    /// A range for libcudart's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libcudart: Option<Range>,
    /// A range for the compute capability of `gpu0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_capability: Option<Range>,
    /// A range for the number of GPUs in the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Range>,
    /// Values of the scenario's own parameters: the instance's value must be among these.
    #[serde(
        default,
        deserialize_with = "file::read_each",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "BTreeMap<String, file::OneOrMore<crate::fact::Token>>")]
    pub parameters: BTreeMap<String, Vec<Scalar>>,
    /// Python packages with their version ranges, as in a case's `needs`: `torch >= 2.11`.
    #[serde(
        default,
        deserialize_with = "python::read_requirements",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(inner(regex(pattern = "^[a-zA-Z0-9]")))]
    pub packages: Vec<String>,
}

impl When {
    /// Returns `true` without any condition.
    pub fn is_empty(&self) -> bool {
        *self == When::default()
    }

    /// Returns `true` if no parameter of the instance has a value other than the selected ones.
    pub fn may_hold_for(&self, instance: &Instance) -> bool {
        let mut parameters = self.parameters.iter();
        parameters.all(|(name, values)| {
            instance
                .values
                .get(name)
                .is_none_or(|value| values.contains(value))
        })
    }

    /// Adds the conditions of `all` on facts that have no condition here.
    pub fn inherit_conditions(&mut self, all: &When) {
        self.driver = self.driver.take().or_else(|| all.driver.clone());
        self.libcudart = self.libcudart.take().or_else(|| all.libcudart.clone());
        self.compute_capability = self
            .compute_capability
            .take()
            .or_else(|| all.compute_capability.clone());
        self.gpus = self.gpus.take().or_else(|| all.gpus.clone());
        for (name, values) in &all.parameters {
            self.parameters
                .entry(name.clone())
                .or_insert_with(|| values.clone());
        }
        if self.packages.is_empty() {
            self.packages.clone_from(&all.packages);
        }
    }
}
