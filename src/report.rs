//! The report: one JSON document per run, the only thing that outlives it.
//!
//! Observation is stored apart from judgement: [`Attempt`]s hold what was seen, and
//! [`crate::judge`] computes verdicts from them again at any time. Integers are bytes and
//! nanoseconds with the unit in the name; a value that could not be read is null.

mod asked;
mod elsewhere;
mod instrument;
mod store;

pub use asked::{Required, Requirement};
pub use elsewhere::{Elsewhere, Whole};
pub use instrument::{Calibration, CoTenancy};
pub use store::{Store, StoreError, Stored, read};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Event, MappedLibrary};
use crate::machine::{Machine, Runtime};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::sample::{FreeRun, Sweep};
use crate::scenario::Scalar;
use crate::verdict::Verdict;

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-report";
/// Readers refuse another major.
pub const MAJOR: u32 = 1;
/// Readers accept a newer minor and keep what they know.
pub const MINOR: u32 = 1;

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether a real driver answered.
    pub provenance: Provenance,
    /// The run.
    pub run: Run,
    /// The host.
    pub machine: Machine,
    /// One per scenario instance and libcudart, in the order they ran.
    pub scenarios: Vec<ScenarioReport>,
    /// Whether the run came to its end. A report without this is partial and never a success.
    pub complete: bool,
}

/// The identity of the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemaId {
    /// [`SCHEMA`].
    pub name: String,
    /// [`MAJOR`].
    pub major: u32,
    /// [`MINOR`].
    pub minor: u32,
}

/// Who answered the calls. Simulated results are never evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// A real driver.
    Measured,
    /// The built-in simulated node.
    Simulated,
}

/// Facts about the run itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Start time and a few random letters; also the folder's name.
    pub id: String,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that it was built from, `-dirty` behind it where files had changed; left out where
    /// it was not built from a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; null while it runs.
    pub finished_at: Option<String>,
    /// `CLOCK_MONOTONIC` at the start, the zero of the stamps in this report.
    pub started_ns: u64,
    /// Wall time of the whole run.
    pub elapsed_ns: u64,
    /// What was selected on the command line, with a `!` before what was left out; empty in
    /// reports of older versions, for everything.
    pub selectors: Vec<String>,
    /// The part of the selected instances that this run asked, such as `1/4`; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// What the run had to have, by `--require`, and what there was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
    /// Why skipped scenarios are no failure, by `--allow-skip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_skip: Option<String>,
    /// The instance whose unexpected verdict ended the run early, by `--fail-fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Instances that were selected and not asked, because the run was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// The seed of the order of attempts.
    pub seed: u64,
    /// Hazards that were allowed.
    pub allowed: Vec<String>,
    /// The signal that ended the run early.
    pub interrupted: Option<String>,
    /// The exit code and its name; null while it runs.
    pub exit: Option<ExitCode>,
    /// What the instrument was found to measure before the first scenario.
    pub calibration: Vec<Calibration>,
    /// Who was on the GPUs before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub co_tenants: Vec<CoTenancy>,
    /// Doubts about the measurement as a whole, in words.
    pub warnings: Vec<String>,
    /// Whether a GPU or a worker was left in a state that is unsafe to go on with.
    pub host_unsafe: Option<String>,
    /// The largest resident set of the parent, in bytes.
    pub parent_peak_rss_bytes: Option<u64>,
}

/// An exit code with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitCode {
    /// The number.
    pub code: i32,
    /// The name, such as `unexpected`.
    pub name: String,
}

/// One instance of a scenario on one libcudart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioReport {
    /// The instance's name.
    pub name: String,
    /// The scenario's name.
    pub scenario: String,
    /// The question.
    pub question: String,
    /// The order or call that works, empty where there is none. Null in reports from before questions
    /// were worded so that `reproduced` is a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Words to select by.
    pub tags: Vec<String>,
    /// Values of parameters.
    pub parameters: BTreeMap<String, Scalar>,
    /// SHA-256 of the scenario file.
    pub sha256: String,
    /// Whether it was selected by its exact name, and not by a folder, glob, tag or set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_by_name: bool,
    /// What the machine lacks that the question needs, in a few words such as `2 GPUs`; absent
    /// where nothing is lacking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// The libcudart it ran on; null if none was needed or found.
    pub libcudart: Option<Runtime>,
    /// What was going to be run; null where the machine lacks what the question needs.
    pub plan: Option<Plan>,
    /// The answer.
    pub verdict: Verdict,
    /// What happened, case by case.
    pub cases: Vec<CaseReport>,
}

impl ScenarioReport {
    /// A case by its name.
    pub fn case(&self, name: &str) -> Option<&CaseReport> {
        self.cases.iter().find(|case| case.name == name)
    }
}

/// What happened in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// `trap`, `control`, …
    pub name: String,
    /// Distinct outcomes, most frequent first.
    pub outcomes: Vec<Outcome>,
    /// Every attempt, in the order it was made.
    #[serde(serialize_with = "elsewhere::serialize")]
    #[schemars(with = "Vec<Attempt>")]
    pub attempts: Vec<Attempt>,
}

/// One distinct outcome and how often it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Valid attempts that ended so.
    pub count: u32,
    /// What was seen; figures that vary are those of the first such attempt.
    pub observation: Observation,
}

/// One run of one case in one fresh process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Place in the order in which this scenario's attempts were made.
    pub order: u32,
    /// When the worker was started.
    pub started_ns: u64,
    /// From start to the worker's end.
    pub wall_ns: u64,
    /// Of that, time in which no call of a step was under way: rendezvous, reading, process start.
    pub overhead_ns: u64,
    /// The worker's PID.
    pub pid: u32,
    /// Everything the worker's processes said, in order. Libraries are in the machine's part.
    pub events: Vec<AttemptEvent>,
    /// Every GPU at every rendezvous, as changes: a sweep equal to the one before is left out.
    pub sweeps: Vec<AttemptSweep>,
    /// The reading in between.
    pub free_run: Option<FreeRun>,
    /// How the worker ended.
    pub exit: Exit,
    /// Reasons for which this attempt does not count, by closed word; empty for a valid one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<Doubt>,
    /// The last bytes of the worker's stdout, if it wrote any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout_tail: String,
    /// How many bytes it wrote to stdout.
    #[serde(default)]
    pub stdout_bytes: u64,
    /// The last bytes of the worker's stderr, if it wrote any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Place of its outcome in `outcomes`; null if it does not count.
    pub outcome: Option<usize>,
    /// Where the rest of it is, if it is not in memory. A document has all of it.
    #[serde(skip)]
    pub elsewhere: Option<Elsewhere>,
}

/// A reason for which an attempt does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// A word of [`crate::verdict::Reason`].
    pub reason: crate::verdict::Reason,
    /// What was seen.
    pub detail: String,
}

/// Something a process of the worker said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptEvent {
    /// The actor whose process said it; absent for the worker's first process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// What it said.
    #[serde(flatten)]
    pub event: Event,
}

/// Every GPU at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptSweep {
    /// The step after which it was taken; null for the baseline before the first.
    pub step: Option<usize>,
    /// Whether it was taken after the worker had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_exit: bool,
    /// What was read.
    #[serde(flatten)]
    pub sweep: Sweep,
}

/// How a worker ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
    /// Signals that the harness sent, in order. An attempt that was signalled concludes nothing,
    /// unless the scenario asks whether a step returns at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// The step that was under way when a deadline passed.
    pub deadline_at: Option<usize>,
    /// The step that was under way when the worker died.
    pub died_at: Option<usize>,
    /// Whether the process said that it was done before it left.
    pub said_bye: bool,
    /// Processes that were left behind, and killed.
    pub leaked_children: u32,
    /// Whether the worker could not be killed.
    pub unkillable: bool,
    /// Whether the kernel's out-of-memory killer is known to have ended it.
    pub oom_killed: bool,
}

/// The JSON Schema of the report, generated from these types.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(Report)).unwrap_or_default()
}

/// The libraries that matter to a reader, without repeats.
pub fn unique_libraries(all: impl IntoIterator<Item = MappedLibrary>) -> Vec<MappedLibrary> {
    let mut kept: Vec<MappedLibrary> = Vec::new();
    for library in all {
        if !kept.contains(&library) {
            kept.push(library);
        }
    }
    kept
}
