//! The report: one JSON document per run. Nothing else remains of a run.
//!
//! Recordings are stored apart from judgments, so that [`crate::judge`] can compute verdicts again at any time.
//! Integers are bytes and nanoseconds, with the unit in the name; a value that could not be read is null.

mod asked;
mod compact;
mod elsewhere;
mod instrument;
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "it writes the document")
)]
mod store;
mod validity;
mod view;

pub use asked::{Required, Requirement};
pub use compact::{CompactCase, CompactOutcome, CompactReport, CompactScenario};
pub use elsewhere::Elsewhere;
pub use instrument::{Calibrated, CoTenancy};
pub use store::{Head, REPORT, Store, StoreError, Stored, StoredReport, read};
pub use validity::Contradiction;
pub use view::{CaseView, OutcomeRecord, OutcomeView, ReportView, ScenarioView};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::machine::{Machine, Runtime};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::recording::Recording;
use crate::scenario::{Scalar, sha256_hex};
use crate::verdict::{Invalidation, Provenance, Verdict};

/// The name of the schema.
pub const SCHEMA: &str = "cuda-pitfalls-report";
/// A reader of a compact report must know this word: without attempts, verdicts cannot be judged again.
pub const COMPACT: &str = "compact";

/// The complete document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Document<ScenarioReport>")]
#[schemars(!try_from)]
pub struct Report {
    /// The type of the document.
    pub schema: SchemaId,
    /// Words that a reader must know; a reader that does not know one must reject the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_understand: Vec<String>,
    /// Real driver or simulated machine.
    pub provenance: Provenance,
    /// The run.
    pub run: Run,
    /// The host.
    pub machine: Machine,
    /// The results by scenario instance and libcudart, in the order they ran.
    pub scenarios: Vec<ScenarioReport>,
    /// `true` if the run finished. The report of a run that did not finish is partial, and never a success.
    pub complete: bool,
}

/// The name and version of the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemaId {
    /// [`SCHEMA`].
    pub name: String,
    /// Readers reject documents of another major version.
    pub major: u32,
    /// Readers accept documents of a newer minor version and ignore unknown parts.
    pub minor: u32,
}

impl SchemaId {
    /// The major version of all documents.
    pub const MAJOR: u32 = 1;
    /// The newest minor version of all documents.
    pub const MINOR: u32 = 0;

    /// Returns the version of a schema that this program writes.
    pub fn current(name: &str) -> SchemaId {
        SchemaId {
            name: name.to_owned(),
            major: SchemaId::MAJOR,
            minor: SchemaId::MINOR,
        }
    }
}

/// Facts about the run itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The start time and a few random characters; also the name of the folder.
    pub id: String,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` if files had changed; left out if it was not built
    /// from a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC; null during the run.
    pub finished_at: Option<String>,
    /// `CLOCK_MONOTONIC` at the start. All timestamps of this report are on the same clock.
    pub started_ns: u64,
    /// Wall time of the entire run.
    pub elapsed_ns: u64,
    /// The selectors of the command line; excluded ones begin with `!`.
    pub selectors: Vec<String>,
    /// Labels of the run, by `--label`: `node` is `gpu-17`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The part of the selected instances that this run covers, such as `1/4`; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The requirements of `--require`, compared with the actual numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Requirement>,
    /// The reason why skipped scenarios do not count as failures, as given by `--allow-skip`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_skip: Option<String>,
    /// The instance whose unexpected verdict ended the run early, by `--fail-fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Instances that were selected but not run, because the run was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_run: Vec<String>,
    /// `cuda` or `sim:<machine>`.
    pub on: String,
    /// The seed of the order of attempts. `nonce` is mixed with it.
    pub seed: u64,
    /// The text of `--nonce`. It lets the requester verify that the report was made for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// Hazards that were allowed.
    pub allowed: Vec<String>,
    /// The signal that ended the run early.
    pub interrupted: Option<String>,
    /// The exit code and its name; null while the run is in progress.
    pub exit: Option<ExitCode>,
    /// The calibration of each GPU before the first scenario, and later ones.
    pub calibration: Vec<Calibrated>,
    /// Other processes on the GPUs before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub co_tenants: Vec<CoTenancy>,
    /// Reasons to doubt the entire measurement, as text.
    pub warnings: Vec<String>,
    /// The reason why further use of the host is unsafe: the state of a GPU or a worker after the run.
    pub host_unsafe: Option<String>,
    /// The largest resident set of the parent.
    pub parent_peak_rss_bytes: Option<u64>,
}

impl Run {
    /// Returns the seed for the order in which the cases of each scenario take turns: `seed`, mixed with the nonce.
    pub fn order_seed(&self) -> u64 {
        let Some(nonce) = &self.nonce else {
            return self.seed;
        };
        let digits = sha256_hex(format!("{} {nonce}", self.seed));
        digits.bytes().take(16).fold(0, |mixed, digit| {
            mixed << 4 | u64::from(char::from(digit).to_digit(16).unwrap_or(0))
        })
    }

    /// Returns `true` if a time on its clock lies within the run.
    pub fn has_time(&self, t_ns: u64) -> bool {
        (self.started_ns..=self.started_ns.saturating_add(self.elapsed_ns)).contains(&t_ns)
    }

    /// Returns the figures of all calibrations, in the order of time.
    pub fn calibrations(&self) -> Vec<Calibration> {
        self.calibration
            .iter()
            .map(|calibrated| calibrated.figures.clone())
            .collect()
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

/// An instance of a scenario, run with one libcudart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScenarioReport {
    /// The instance's name.
    pub name: String,
    /// The scenario's name.
    pub scenario: String,
    /// The question.
    pub question: String,
    /// The order or call that works; empty if no workaround is known.
    pub workaround: String,
    /// Words to select by.
    pub tags: Vec<String>,
    /// Values of parameters.
    pub parameters: BTreeMap<String, Scalar>,
    /// SHA-256 of the scenario file.
    pub sha256: String,
    /// `true` if it was selected by its exact name, rather than by a directory, glob, tag or set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_by_name: bool,
    /// Requirements of the scenario that the machine does not meet, in a few words such as `2 GPUs`; absent if it meets
    /// them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// The libcudart it ran on; null if none was needed or found.
    pub libcudart: Option<Runtime>,
    /// The plan; null if the machine does not meet the requirements.
    pub plan: Option<Plan>,
    /// The answer.
    pub verdict: Verdict,
    /// The results, case by case.
    pub cases: Vec<CaseReport>,
}

impl ScenarioReport {
    /// Returns a case by its name.
    pub fn case(&self, name: &str) -> Option<&CaseReport> {
        self.cases.iter().find(|case| case.name == name)
    }
}

/// The results of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// `trap`, `control`, …
    pub name: String,
    /// Distinct outcomes, most frequent first.
    pub outcomes: Vec<Outcome>,
    /// Every attempt, in the order in which they were made.
    #[serde(serialize_with = "elsewhere::serialize")]
    #[schemars(with = "Vec<Attempt>")]
    pub attempts: Vec<Attempt>,
}

impl CaseReport {
    /// Returns a case that was not judged yet.
    pub fn new(name: impl Into<String>, attempts: Vec<Attempt>) -> CaseReport {
        CaseReport {
            name: name.into(),
            outcomes: Vec::new(),
            attempts,
        }
    }
}

/// A distinct outcome, and how often it was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The number of valid attempts with this outcome.
    pub count: u32,
    /// The observation. Figures that vary come from the first attempt with this outcome.
    pub observation: Observation,
}

impl Outcome {
    /// Returns an outcome of this many attempts.
    pub fn new(count: u32, observation: Observation) -> Outcome {
        Outcome { count, observation }
    }
}

/// A run of one case in a fresh process: the recording, and the judgment on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// The index of the attempt in the order of all attempts of this scenario.
    pub order: u32,
    /// The recording.
    #[serde(flatten)]
    pub recording: Recording,
    /// Validity of the attempt, and its outcome.
    #[serde(flatten)]
    pub judged: Judged,
    /// The location of its full text, if that is not in memory. A document always has the full text.
    #[serde(skip)]
    pub elsewhere: Option<Elsewhere>,
}

/// The judgment on one attempt. It is computed again whenever a report is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The reasons why this attempt does not count; empty for a valid attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<Invalidation>,
    /// The index of its outcome in `outcomes`; null if it does not count.
    pub outcome: Option<usize>,
}

impl Attempt {
    /// Returns an attempt that was not judged yet.
    pub fn new(order: u32, recording: Recording) -> Attempt {
        Attempt {
            order,
            recording,
            ..Attempt::default()
        }
    }

    /// Returns `true` if the attempt counts.
    pub fn is_valid(&self) -> bool {
        self.judged.invalid.is_empty()
    }
}

/// A report, full or compact, that was parsed but not checked.
#[derive(Deserialize)]
struct Document<S> {
    schema: SchemaId,
    #[serde(default)]
    must_understand: Vec<String>,
    provenance: Provenance,
    run: Run,
    machine: Machine,
    scenarios: Vec<S>,
    complete: bool,
}

impl TryFrom<Document<ScenarioReport>> for Report {
    type Error = Contradiction;

    fn try_from(document: Document<ScenarioReport>) -> Result<Report, Contradiction> {
        let Document {
            schema,
            must_understand,
            provenance,
            run,
            machine,
            scenarios,
            complete,
        } = document;
        let report = Report {
            schema,
            must_understand,
            provenance,
            run,
            machine,
            scenarios,
            complete,
        };
        validity::check(&report.view()).map(|()| report)
    }
}

/// Returns the JSON Schema of a document, generated from its type.
pub fn schema_of<T: JsonSchema>() -> serde_json::Value {
    schemars::schema_for!(T).to_value()
}

/// Returns the JSON Schema of both documents.
pub fn schema() -> serde_json::Value {
    schema_of::<StoredReport>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Reason;

    #[test]
    fn what_was_recorded_and_what_was_judged_are_read_as_they_were_written() {
        let unsettled = Invalidation {
            reason: Reason::Unsettled,
            detail: "late".into(),
        };
        let contradiction = Invalidation {
            reason: Reason::Protocol,
            detail: "computed".into(),
        };
        let mut attempt = Attempt::new(
            3,
            Recording {
                incidents: vec![unsettled.clone()],
                ..Recording::default()
            },
        );
        attempt.judged.invalid = vec![unsettled, contradiction];
        let written = serde_json::to_string(&attempt).unwrap();
        assert_eq!(serde_json::from_str::<Attempt>(&written).unwrap(), attempt);
    }
}
