//! The report: one JSON document per run, the only thing that outlives it.
//!
//! What was recorded is stored apart from what was judged: [`crate::judge`] computes verdicts from
//! recordings again at any time. Integers are bytes and
//! nanoseconds with the unit in the name; a value that could not be read is null.

mod asked;
mod compact;
mod elsewhere;
mod instrument;
#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "it writes the document"))]
mod store;
mod validity;
mod view;

pub use asked::{Required, Requirement};
pub use compact::{CompactCase, CompactOutcome, CompactReport, CompactScenario};
pub use elsewhere::{Elsewhere, Whole};
pub use instrument::{Calibrated, CoTenancy};
pub use store::{Head, REPORT, Store, StoreError, Stored, StoredReport, read};
pub use validity::Contradiction;
pub use view::{CaseView, OutcomeView, ReportView, ScenarioView, Seen};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::machine::{Machine, Runtime};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::recording::Recording;
use crate::scenario::Scalar;
use crate::verdict::{Invalidation, Provenance, Reason, Verdict};

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-report";
/// Readers refuse another major.
pub const MAJOR: u32 = 1;
/// Readers accept a newer minor and keep what they know.
pub const MINOR: u32 = 8;
/// What a reader of a compact report must know: without attempts there is nothing to judge anew.
pub const COMPACT: &str = "compact";
/// What else it must know since 1.7: what was seen is told as facts, and not in sentences.
pub const FACTS: &str = "facts";
/// Everything that this version understands of what a document may ask for.
pub const UNDERSTOOD: [&str; 2] = [COMPACT, FACTS];

/// The whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Document")]
#[schemars(!try_from)]
pub struct Report {
    /// Which document this is.
    pub schema: SchemaId,
    /// What a reader must know, or else refuse the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_understand: Vec<String>,
    /// Whether a real driver answered.
    pub provenance: Provenance,
    /// The run.
    pub run: Run,
    /// The host.
    pub machine: Machine,
    /// One per scenario instance and libcudart, in the order they ran.
    pub scenarios: Vec<ScenarioReport>,
    /// Whether the run finished. A report without this is partial and never a success.
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
    /// What the caller says of this run, by `--label` and `--label-host`: `node` is `gpu-17`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
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
    pub calibration: Vec<Calibrated>,
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

impl Run {
    /// The figures of every calibration, in the order of time.
    pub fn calibrations(&self) -> Vec<Calibration> {
        self.calibration.iter().map(|calibrated| calibrated.figures.clone()).collect()
    }
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

impl CaseReport {
    /// A case of which nothing was judged yet.
    pub fn new(name: impl Into<String>, attempts: Vec<Attempt>) -> CaseReport {
        CaseReport { name: name.into(), outcomes: Vec::new(), attempts }
    }
}

/// One distinct outcome and how often it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Valid attempts that ended so.
    pub count: u32,
    /// What was seen; figures that vary are those of the first such attempt.
    pub observation: Observation,
}

impl Outcome {
    /// An outcome that so many attempts showed.
    pub fn new(count: u32, observation: Observation) -> Outcome {
        Outcome { count, observation }
    }
}

/// One run of one case in one fresh process: what happened, and beside it what was judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StoredAttempt")]
#[schemars(!from)]
pub struct Attempt {
    /// Place in the order in which this scenario's attempts were made.
    pub order: u32,
    /// What happened.
    #[serde(flatten)]
    pub recording: Recording,
    /// Whether it counts, and what for.
    #[serde(flatten)]
    pub judged: Judged,
    /// Where the rest of it is, if it is not in memory. A document has all of it.
    #[serde(skip)]
    pub elsewhere: Option<Elsewhere>,
}

/// What the judge makes of one attempt. It is computed anew whenever a report is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Reasons for which this attempt does not count, by closed word; empty for a valid one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<Invalidation>,
    /// Place of its outcome in `outcomes`; null if it does not count.
    pub outcome: Option<usize>,
}

/// An attempt as documents have it.
#[derive(Deserialize)]
struct StoredAttempt {
    order: u32,
    /// Absent up to version 1.1, which kept incidents among the reasons for which an attempt does not
    /// count.
    incidents: Option<Vec<Invalidation>>,
    #[serde(flatten)]
    recording: Recording,
    #[serde(flatten)]
    judged: Judged,
}

impl From<StoredAttempt> for Attempt {
    fn from(StoredAttempt { order, incidents, mut recording, judged }: StoredAttempt) -> Attempt {
        recording.incidents = incidents.unwrap_or_else(|| {
            let between_steps = |reason| reason == Reason::Hang && recording.exit.deadline_at.is_none();
            let is_incident = |invalid: &&Invalidation| !invalid.reason.is_computed() || between_steps(invalid.reason);
            judged.invalid.iter().filter(is_incident).cloned().collect()
        });
        Attempt { order, recording, judged, elsewhere: None }
    }
}

impl Attempt {
    /// An attempt that was not judged yet.
    pub fn new(order: u32, recording: Recording) -> Attempt {
        Attempt { order, recording, ..Attempt::default() }
    }

    /// Whether it counts.
    pub fn is_valid(&self) -> bool {
        self.judged.invalid.is_empty()
    }
}

/// A report as it is read, and not yet believed.
#[derive(Deserialize)]
struct Document {
    schema: SchemaId,
    #[serde(default)]
    must_understand: Vec<String>,
    provenance: Provenance,
    run: Run,
    machine: Machine,
    scenarios: Vec<ScenarioReport>,
    complete: bool,
}

impl TryFrom<Document> for Report {
    type Error = Contradiction;

    fn try_from(document: Document) -> Result<Report, Contradiction> {
        let Document { schema, must_understand, provenance, run, machine, scenarios, complete } = document;
        let report = Report { schema, must_understand, provenance, run, machine, scenarios, complete };
        validity::check(&report).map(|()| report)
    }
}

/// The JSON Schema of both documents, generated from these types.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(StoredReport)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to version 1.1 a document has no `incidents`: those that only the supervisor can know stand
    /// among the reasons, and a deadline without a step is one of them.
    #[test]
    fn incidents_of_older_documents_are_found_among_the_reasons() {
        let of = |reasons: &[&str], deadline_at: Option<u32>| {
            let mut written = serde_json::to_value(Attempt::new(0, Recording::default())).unwrap();
            written.as_object_mut().unwrap().remove("incidents");
            written["exit"]["deadline_at"] = deadline_at.into();
            let reasons = reasons.iter().map(|reason| serde_json::json!({ "reason": reason, "detail": "" }));
            written["invalid"] = reasons.collect();
            let read: Attempt = serde_json::from_value(written).unwrap();
            read.recording.incidents.iter().map(|incident| incident.reason.name()).collect::<Vec<_>>()
        };
        assert_eq!(of(&["unsettled", "contaminated", "hang"], Some(1)), ["unsettled"]);
        assert_eq!(of(&["hang"], None), ["hang"]);
    }

    #[test]
    fn what_was_recorded_and_what_was_judged_are_read_as_they_were_written() {
        let unsettled = Invalidation { reason: Reason::Unsettled, detail: "late".into() };
        let contradiction = Invalidation { reason: Reason::Protocol, detail: "computed".into() };
        let mut attempt = Attempt::new(3, Recording { incidents: vec![unsettled.clone()], ..Recording::default() });
        attempt.judged.invalid = vec![unsettled, contradiction];
        let written = serde_json::to_string(&attempt).unwrap();
        assert_eq!(serde_json::from_str::<Attempt>(&written).unwrap(), attempt);
    }
}
