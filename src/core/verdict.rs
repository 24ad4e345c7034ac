//! Verdicts, the reasons for a missing verdict, and the reasons why an attempt does not count.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to a scenario's question on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The answer.
    pub kind: Kind,
    /// The reason why no conclusion is possible; null for a conclusive verdict.
    pub reason: Option<Reason>,
    /// The reason as text, with numbers, or the results of the attempts. Left out of a compact report if the numbers of
    /// its cases imply the same.
    #[serde(default)]
    pub detail: String,
    /// The verdict compared with the file's expectation for this machine. `no_expectation` for an inconclusive verdict.
    pub expectation: ExpectationMet,
    /// The expectations that failed, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unexpected: Vec<String>,
    /// Facts that could not be judged because of other processes on the GPUs, as text. They are neither met nor failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unobservable: Vec<String>,
    /// The share of the trap's attempts that show the effect, if the question is probabilistic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Real driver or simulated machine. Left out of a compact report, which has it once.
    #[serde(default)]
    pub provenance: Provenance,
}

/// A stored verdict that differs from the result of the recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedVerdict {
    /// The instance's name.
    pub scenario: String,
    /// The verdict that was stored.
    pub stored: Verdict,
}

/// A share of attempts, as two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// Attempts that show the effect.
    pub shown: usize,
    /// Attempts that count.
    pub of: usize,
}

impl Verdict {
    /// Returns `true` if the scenario was skipped because the machine does not meet its requirements.
    pub fn lacks_a_need(&self) -> bool {
        self.kind == Kind::Skipped && self.reason.is_some_and(Reason::is_need)
    }
}

/// The kind of answer.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Every trap shows the effect and no control does.
    Reproduced,
    /// No attempt shows the effect, although the instrument would have detected it.
    NotReproduced,
    /// The scenario ran, but no conclusion is possible.
    #[default]
    Inconclusive,
    /// The scenario did not run.
    Skipped,
    /// The harness failed.
    HarnessError,
}

impl Kind {
    /// Returns the word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Reproduced => "reproduced",
            Kind::NotReproduced => "not_reproduced",
            Kind::Inconclusive => "inconclusive",
            Kind::Skipped => "skipped",
            Kind::HarnessError => "harness_error",
        }
    }

    /// Returns `true` if the question was answered.
    pub fn is_conclusive(self) -> bool {
        matches!(self, Kind::Reproduced | Kind::NotReproduced)
    }
}

/// The reason for a missing answer: a closed list.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    // Inconclusive: it ran.
    /// The simulated machine does not model this call, argument or state.
    NotModelled,
    /// Some attempts show the effect and others do not.
    Intermittent,
    /// The control shows the effect too.
    ControlShowsEffect,
    /// Another process's memory changed during the attempt.
    Contaminated,
    /// Memory did not settle.
    Unsettled,
    /// Memory was not freed after the worker's end.
    Residue,
    /// The API's result contradicts NVML's.
    Contradiction,
    /// A check tests a fact that could not be read.
    Unobservable,
    /// A step did not return before its deadline.
    Hang,
    /// The harness ended the worker before it was done, for another reason than a deadline.
    Signalled,
    /// The kernel killed the worker because host memory ran out.
    OomKilled,
    /// The worker died of a signal that the harness did not send.
    Crashed,
    /// The worker exited before it had made its steps.
    ExitedEarly,
    /// Processes were left behind.
    LeakedChildren,
    /// The worker could not be killed.
    Unkillable,
    /// The sampler did not answer, or readings are missing.
    SamplerLost,
    /// A library was injected into the worker.
    Injected,
    /// The instrument's own controls failed on this machine.
    Uncalibrated,
    /// The run was interrupted.
    Interrupted,
    /// Too few attempts count.
    TooFewAttempts,
    /// A Python line before the one in question raised an exception.
    SetupRaised,
    // Skipped: it did not run. The needs come first, up to `HazardNotAllowed`. The first four of them apply to any
    // scenario.
    /// NVML is not installed.
    NoNvml,
    /// The driver is not loaded.
    NoDriver,
    /// No GPU was found.
    NoGpu,
    /// libcuda is missing.
    NoLibcuda,
    /// libcudart is missing.
    NoLibcudart,
    /// Fewer GPUs than the question needs.
    TooFewGpus,
    /// The driver version is outside the required range.
    DriverVersion,
    /// The libcudart version is outside the required range.
    LibcudartVersion,
    /// The GPU's compute capability is outside the required range.
    ComputeCapability,
    /// The GPUs cannot address each other's memory.
    NoPeerAccess,
    /// The question needs a worker without a mask, and the GPUs to use are restricted.
    Restricted,
    /// No Python interpreter can run the lines.
    NoPython,
    /// A package that the lines need is not installed, or its version is outside the required range.
    NoPackage,
    /// A symbol that a step needs is missing.
    MissingSymbol,
    /// Root is needed.
    NotRoot,
    /// The hazard was not allowed.
    HazardNotAllowed,
    /// The GPU is in use by another process.
    Busy,
    /// An earlier scenario left the host in an unsafe state.
    HostUnsafe,
    // Harness error.
    /// The worker could not be started or sent an invalid message.
    Protocol,
    /// A system call that the harness needs failed.
    System,
}

/// A reason why an attempt does not count, and the observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Invalidation {
    /// The reason, as a closed word.
    pub reason: Reason,
    /// The observation.
    pub detail: String,
}

impl Reason {
    /// Returns `true` if this reason means that the scenario needs something that the machine, its software or the
    /// allowed hazards lack. Such a scenario is not applicable here. That is not a failure, and does not change the
    /// exit code unless the scenario was selected by its exact name.
    pub fn is_need(self) -> bool {
        (Reason::NoNvml..=Reason::HazardNotAllowed).contains(&self)
    }

    /// Returns `true` if this reason means that the machine has no usable GPU at all, so that no scenario can run here.
    pub const fn is_no_gpu(self) -> bool {
        matches!(
            self,
            Reason::NoNvml | Reason::NoDriver | Reason::NoGpu | Reason::NoLibcuda
        )
    }

    /// Returns the word in reports.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }
}

/// A verdict compared with a file's expectation.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ExpectationMet {
    /// The verdict matches the expectation of the file.
    AsExpected,
    /// The verdict differs from the expectation of the file.
    Unexpected,
    /// The file expects nothing on this machine, or the verdict is not conclusive.
    #[default]
    NoExpectation,
}

impl ExpectationMet {
    /// Returns the word in reports.
    pub fn name(self) -> &'static str {
        match self {
            ExpectationMet::AsExpected => "as_expected",
            ExpectationMet::Unexpected => "unexpected",
            ExpectationMet::NoExpectation => "no_expectation",
        }
    }
}

/// Real driver or simulated machine. Simulated results say nothing about real hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// A real driver.
    Measured,
    /// The built-in simulated machine. A document without this information counts as simulated.
    #[default]
    Simulated,
}

impl Provenance {
    /// Returns the provenance of a library's results.
    pub const fn from_simulated(simulated: bool) -> Provenance {
        if simulated {
            Provenance::Simulated
        } else {
            Provenance::Measured
        }
    }

    /// Returns the reason why a document with this provenance contradicts itself, as text: it claims a measurement, but
    /// another part shows that the simulated machine answered. `on` is the machine of its run; `simulated_library` is
    /// `true` if it lists a library of the simulated machine. Every reader of a document checks this.
    pub fn find_contradiction(self, on: &str, simulated_library: bool) -> Option<String> {
        let is_simulated_run = on == "sim" || on.starts_with("sim:");
        match self {
            Provenance::Measured if is_simulated_run => {
                Some(format!("it contradicts itself: `provenance` is `measured`, and `on` is `{on}`"))
            }
            Provenance::Measured if simulated_library => Some(
                "it contradicts itself: `provenance` is `measured`, and one of its libraries or GPUs is the simulated machine's"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
