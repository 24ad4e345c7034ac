//! A report without plans, steps, attempts and samples: what machines are compared by, and what was judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{CaseReport, MINOR, Outcome, Report, Run, ScenarioReport, SchemaId, UNDERSTOOD};
use crate::fact::changes::changes;
use crate::machine::{Machine, Runtime};
use crate::verdict::{ExpectationMet, Provenance, Reason, Verdict};

/// The same report, compact. Verdicts stay as they are. The words of a question are left out where
/// `has_words` says that readers have them: those of files that come with the program.
///
/// A compact report is its own compact form.
pub fn compact(report: &Report, has_words: impl Fn(&ScenarioReport) -> bool) -> Report {
    let schema = SchemaId { minor: report.schema.minor.max(MINOR), ..report.schema.clone() };
    let must_understand = UNDERSTOOD.map(str::to_owned).to_vec();
    if report.run.compact {
        return Report { schema, must_understand, ..report.clone() };
    }
    let mut run = report.run.clone();
    run.compact = true;
    for calibrated in &mut run.calibration {
        calibrated.attempts.clear();
    }
    Report {
        schema,
        must_understand,
        provenance: report.provenance,
        run,
        machine: report.machine.clone(),
        scenarios: report.scenarios.iter().map(|one| scenario(one, has_words(one))).collect(),
        complete: report.complete,
    }
}

fn scenario(full: &ScenarioReport, has_words: bool) -> ScenarioReport {
    let plan = full.plan.as_ref();
    ScenarioReport {
        name: full.name.clone(),
        scenario: full.scenario.clone(),
        question: if has_words { String::new() } else { full.question.clone() },
        remedy: full.remedy.clone().filter(|_| !has_words),
        tags: Vec::new(),
        parameters: full.parameters.clone(),
        sha256: full.sha256.clone(),
        asked_by_name: full.asked_by_name,
        lacks: full.lacks.clone(),
        asked: plan.map(super::Plan::asked),
        nondeterministic: plan.is_some_and(|plan| plan.nondeterministic),
        // Its file stands once, among the libraries of the machine.
        libcudart: full.libcudart.clone().map(|it| Runtime { path: String::new(), number: None, ..it }),
        plan: None,
        verdict: verdict(&full.verdict),
        cases: full.cases.iter().map(case).collect(),
    }
}

/// The verdict; of one that is as it should be the numbers are in the cases.
fn verdict(full: &Verdict) -> Verdict {
    let is_plain = full.kind.is_conclusive() && full.expectation != ExpectationMet::Unexpected;
    let detail = if is_plain || full.lacks_a_need() { String::new() } else { full.detail.clone() };
    Verdict { detail, ..full.clone() }
}

fn case(full: &CaseReport) -> CaseReport {
    let mut not_counted = BTreeMap::new();
    for attempt in &full.attempts {
        // A worker that could not be killed makes the host unsafe, whatever else was wrong.
        let unkillable = attempt.recording.exit.unkillable.then_some(Reason::Unkillable);
        let first = attempt.judged.invalid.first().map(|invalid| invalid.reason);
        let is_counted = attempt.judged.outcome.is_some_and(|place| place < full.outcomes.len());
        let reason = match first {
            Some(first) => unkillable.unwrap_or(first),
            None if is_counted => continue,
            // One that nobody came to judge any more.
            None => Reason::Interrupted,
        };
        *not_counted.entry(reason).or_insert(0) += 1;
    }
    let outcomes = full.outcomes.iter().map(outcome).collect();
    CaseReport { name: full.name.clone(), outcomes, attempts: Vec::new(), not_counted }
}

fn outcome(full: &Outcome) -> Outcome {
    let largest = full.observation.largest_change().into_iter();
    Outcome {
        count: full.count,
        observation: Default::default(),
        facts: changes(&full.observation),
        used_bytes: largest.filter(|(_, bytes)| *bytes != Some(0)).collect(),
    }
}

/// A compact report as it is written: without what is empty, and without what stands elsewhere in it.
pub fn document(compact: &Report) -> impl Serialize {
    #[derive(Serialize)]
    struct Written<'a> {
        schema: &'a SchemaId,
        must_understand: &'a [String],
        provenance: Provenance,
        run: &'a Run,
        machine: &'a Machine,
        scenarios: Vec<Json>,
        complete: bool,
    }
    let scenario = |one: &ScenarioReport| {
        let mut written = serde_json::to_value(one).unwrap_or_default();
        if let Some(parts) = written.as_object_mut() {
            if one.scenario == one.name {
                parts.remove("scenario");
            }
            if let Some(verdict) = parts.get_mut("verdict").and_then(Json::as_object_mut)
                && one.verdict.provenance == compact.provenance
            {
                verdict.remove("provenance");
            }
            // An empty text says that no workaround is needed, and nothing that none is known.
            let remedy = parts.remove("remedy");
            prune(&mut written);
            if let (Some(parts), Some(remedy)) = (written.as_object_mut(), remedy) {
                parts.insert("remedy".to_owned(), remedy);
            }
        }
        written
    };
    Written {
        schema: &compact.schema,
        must_understand: &compact.must_understand,
        provenance: compact.provenance,
        run: &compact.run,
        machine: &compact.machine,
        scenarios: compact.scenarios.iter().map(scenario).collect(),
        complete: compact.complete,
    }
}

/// Takes out what is null or empty, but for figures and facts that could not be read.
fn prune(value: &mut Json) {
    match value {
        Json::Object(parts) => {
            for (name, part) in parts.iter_mut() {
                if !matches!(name.as_str(), "used_bytes" | "facts") {
                    prune(part);
                }
            }
            parts.retain(|_, part| match part {
                Json::Null => false,
                Json::String(text) => !text.is_empty(),
                Json::Array(parts) => !parts.is_empty(),
                Json::Object(parts) => !parts.is_empty(),
                _ => true,
            });
        }
        Json::Array(parts) => parts.iter_mut().for_each(prune),
        _ => {}
    }
}

/// A report as documents have it: a compact one leaves out what stands elsewhere in it.
#[derive(Deserialize)]
pub(super) struct StoredReport {
    schema: SchemaId,
    #[serde(default)]
    must_understand: Vec<String>,
    provenance: Provenance,
    run: Run,
    machine: Machine,
    scenarios: Vec<ScenarioReport>,
    complete: bool,
}

impl TryFrom<StoredReport> for Report {
    type Error = String;

    fn try_from(stored: StoredReport) -> Result<Report, String> {
        let StoredReport { schema, must_understand, provenance, run, machine, mut scenarios, complete } = stored;
        if run.compact {
            for one in &mut scenarios {
                if one.scenario.is_empty() {
                    one.scenario.clone_from(&one.name);
                }
                one.verdict.provenance = provenance;
            }
        }
        let report = Report { schema, must_understand, provenance, run, machine, scenarios, complete };
        super::validity::check(&report).map(|()| report)
    }
}
