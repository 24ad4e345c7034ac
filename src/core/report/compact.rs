//! A report without plans, steps, attempts and samples. It keeps verdicts, and the facts that machines are compared by.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::{self, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::validity::{self, Contradiction};
use super::{
    COMPACT, CaseReport, Document, Outcome, Plan, Report, Run, SCHEMA, ScenarioReport, SchemaId,
};
use crate::fact::Change;
use crate::fact::changes::changes;
use crate::machine::{Machine, Runtime};
use crate::observation::Hidden;
use crate::scenario::Scalar;
use crate::verdict::{ExpectationMet, Provenance, Reason, Verdict};

/// The compact document. It has the verdicts of the full report, but they cannot be judged again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Document<CompactScenario>")]
#[schemars(!try_from)]
pub struct CompactReport {
    /// The type of the document.
    pub schema: SchemaId,
    /// Words that a reader must know, or else reject the document: `compact`.
    pub must_understand: Vec<String>,
    /// Real driver or simulated machine.
    pub provenance: Provenance,
    /// The run.
    pub run: Run,
    /// The host.
    pub machine: Machine,
    /// The results by scenario instance and libcudart, in the order they ran.
    pub scenarios: Vec<CompactScenario>,
    /// `true` if the run finished. The report of a run that did not finish is partial, and never a success.
    pub complete: bool,
}

/// An instance of a scenario, run with one libcudart. Everything empty is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactScenario {
    /// The instance's name.
    pub name: String,
    /// The scenario's name; left out if it equals the instance's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// The question; left out if the file is built in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The order or call that works, empty if no workaround is known; left out together with the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workaround: Option<String>,
    /// Values of parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Scalar>,
    /// SHA-256 of the scenario file.
    pub sha256: String,
    /// `true` if it was selected by its exact name, rather than by a directory, glob, tag or set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked_by_name: bool,
    /// Requirements of the scenario that the machine does not meet, in a few words such as `2 GPUs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
    /// A hash of the scenario without the parts that differ from machine to machine: the beginning of a SHA-256 of
    /// calls, environments and effect. Reports with different hashes do not answer the same question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// `true` if a mixture of outcomes is an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nondeterministic: bool,
    /// The libcudart it ran on, without its path, which is among the libraries of the machine.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "without_empty"
    )]
    pub libcudart: Option<Runtime>,
    /// The verdict, without the `provenance`, which the report has.
    #[serde(serialize_with = "unrepeated")]
    pub verdict: Verdict,
    /// The results, case by case.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "without_recordings"
    )]
    pub cases: Vec<CompactCase>,
}

/// The results of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactCase {
    /// `trap`, `control`, …
    pub name: String,
    /// Distinct outcomes, most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<CompactOutcome>,
    /// Number of attempts that do not count, by the word of their first reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_counted: BTreeMap<Reason, u32>,
}

/// A distinct outcome, and how often it was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactOutcome {
    /// The number of valid attempts with this outcome.
    #[serde(default)]
    pub count: u32,
    /// The changes from step to step, for each step with a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Change>,
    /// The change of the largest absolute size in the memory of each GPU, in bytes; null if it could not be read, or
    /// without a sound calibration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_bytes: BTreeMap<String, Option<i64>>,
}

impl CompactReport {
    /// Returns the compact form of a report. Verdicts stay as they are. The texts of a scenario are left out if
    /// `has_words` returns `true`, because readers have them, as with built-in files.
    pub fn new(whole: &Report, has_words: impl Fn(&ScenarioReport) -> bool) -> CompactReport {
        let mut run = whole.run.clone();
        for calibrated in &mut run.calibration {
            calibrated.attempts.clear();
        }
        CompactReport {
            schema: SchemaId::current(SCHEMA),
            must_understand: vec![COMPACT.to_owned()],
            provenance: whole.provenance,
            run,
            machine: whole.machine.clone(),
            scenarios: whole
                .scenarios
                .iter()
                .map(|scenario| CompactScenario::new(scenario, has_words(scenario)))
                .collect(),
            complete: whole.complete,
        }
    }
}

impl CompactScenario {
    fn new(whole: &ScenarioReport, has_words: bool) -> CompactScenario {
        let plan = whole.plan.as_ref();
        CompactScenario {
            name: whole.name.clone(),
            scenario: Some(whole.scenario.clone()).filter(|scenario| *scenario != whole.name),
            question: if has_words {
                String::new()
            } else {
                whole.question.clone()
            },
            workaround: (!has_words).then(|| whole.workaround.clone()),
            parameters: whole.parameters.clone(),
            sha256: whole.sha256.clone(),
            asked_by_name: whole.asked_by_name,
            lacks: whole.lacks.clone(),
            asked: plan.map(Plan::asked),
            nondeterministic: plan.is_some_and(|plan| plan.nondeterministic),
            libcudart: whole.libcudart.clone().map(|runtime| Runtime {
                path: String::new(),
                number: None,
                ..runtime
            }),
            verdict: verdict(&whole.verdict),
            cases: whole.cases.iter().map(CompactCase::new).collect(),
        }
    }

    /// Returns the scenario's name.
    pub fn scenario(&self) -> &str {
        self.scenario.as_deref().unwrap_or(&self.name)
    }
}

/// Returns the verdict without its detail if other parts of the report imply the same: the cases of a conclusive
/// verdict that is not unexpected, or `lacks` for a missing need.
fn verdict(whole: &Verdict) -> Verdict {
    let is_plain = whole.kind.is_conclusive() && whole.expectation != ExpectationMet::Unexpected;
    let detail = if is_plain || whole.lacks_a_need() {
        String::new()
    } else {
        whole.detail.clone()
    };
    Verdict {
        detail,
        ..whole.clone()
    }
}

impl CompactCase {
    fn new(whole: &CaseReport) -> CompactCase {
        let mut not_counted = BTreeMap::new();
        for attempt in &whole.attempts {
            // A worker that could not be killed makes the host unsafe, so it precedes any other reason.
            let unkillable = attempt
                .recording
                .exit
                .unkillable
                .then_some(Reason::Unkillable);
            let first = attempt.judged.invalid.first().map(|invalid| invalid.reason);
            let is_counted = attempt
                .judged
                .outcome
                .is_some_and(|place| place < whole.outcomes.len());
            let reason = match first {
                Some(first) => unkillable.unwrap_or(first),
                None if is_counted => continue,
                // The run ended before the attempt was judged.
                None => Reason::Interrupted,
            };
            *not_counted.entry(reason).or_insert(0) += 1;
        }
        CompactCase {
            name: whole.name.clone(),
            outcomes: whole.outcomes.iter().map(CompactOutcome::new).collect(),
            not_counted,
        }
    }
}

impl CompactOutcome {
    fn new(whole: &Outcome) -> CompactOutcome {
        let largest = whole.observation.largest_change().into_iter();
        let mut used_bytes: BTreeMap<_, _> =
            largest.filter(|(_, bytes)| *bytes != Some(0)).collect();
        // A GPU that is missing did not change.
        for (gpu, memory) in whole.observation.steps.iter().flat_map(|step| &step.memory) {
            if memory.hidden == Some(Hidden::Uncalibrated) {
                used_bytes.insert(gpu.clone(), None);
            }
        }
        CompactOutcome {
            count: whole.count,
            facts: changes(&whole.observation),
            used_bytes,
        }
    }
}

/// Rejects attempts in the cases: verdicts of a report that has them are judged again, not trusted.
fn without_recordings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<CompactCase>, D::Error> {
    #[derive(Deserialize)]
    struct CaseDocument {
        name: String,
        #[serde(default)]
        outcomes: Vec<CompactOutcome>,
        #[serde(default)]
        not_counted: BTreeMap<Reason, u32>,
        attempts: Option<IgnoredAny>,
    }
    let cases = Vec::<CaseDocument>::deserialize(deserializer)?;
    if let Some(CaseDocument { name, .. }) = cases.iter().find(|case| case.attempts.is_some()) {
        let (scenario, fault) = (
            name.clone(),
            "the report is compact, but the case has attempts",
        );
        return Err(de::Error::custom(Contradiction::Scenario {
            scenario,
            fault,
        }));
    }
    let kept = cases.into_iter().map(
        |CaseDocument {
             name,
             outcomes,
             not_counted,
             ..
         }| CompactCase {
            name,
            outcomes,
            not_counted,
        },
    );
    Ok(kept.collect())
}

/// Serializes a value without its null and empty parts.
fn without_empty<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(value).map_err(ser::Error::custom)?;
    if let Some(parts) = value.as_object_mut() {
        parts.retain(|_, part| {
            !part.is_null() && *part != "" && part.as_array().is_none_or(|all| !all.is_empty())
        });
    }
    value.serialize(serializer)
}

/// Serializes a verdict without the parts that the report already has.
fn unrepeated<S: Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(verdict).map_err(ser::Error::custom)?;
    value
        .as_object_mut()
        .map(|parts| parts.remove("provenance"));
    without_empty(&value, serializer)
}

impl TryFrom<Document<CompactScenario>> for CompactReport {
    type Error = Contradiction;

    fn try_from(document: Document<CompactScenario>) -> Result<CompactReport, Contradiction> {
        let Document {
            schema,
            must_understand,
            provenance,
            run,
            machine,
            mut scenarios,
            complete,
        } = document;
        scenarios
            .iter_mut()
            .for_each(|scenario| scenario.verdict.provenance = provenance);
        let report = CompactReport {
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
