//! A view of a report. Every format and every comparison reads a view, so that it need not distinguish full from
//! compact reports.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    Attempt, CaseReport, CompactCase, CompactOutcome, CompactReport, CompactScenario, Outcome,
    Report, Required, Requirement, Run, ScenarioReport,
};
use crate::fact::Change;
use crate::fact::changes::changes;
use crate::machine::{Machine, Runtime};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::scenario::Scalar;
use crate::text::counts::tally_items;
use crate::verdict::{ChangedVerdict, Provenance, Reason, Verdict};

/// A view of a report, full or compact.
#[derive(Clone, Debug)]
pub struct ReportView<'r> {
    /// Real driver or simulated machine.
    pub provenance: Provenance,
    /// The run.
    pub run: &'r Run,
    /// The host.
    pub machine: &'r Machine,
    /// The results by scenario instance and libcudart, in the order they ran.
    pub scenarios: Vec<ScenarioView<'r>>,
    /// `true` if the run finished.
    pub complete: bool,
    /// `true` if plans, steps, attempts and samples are left out.
    pub is_compact: bool,
    /// The stored verdicts that differ from these, if the report was judged again.
    pub changed: &'r [ChangedVerdict],
}

/// An instance of a scenario, run with one libcudart.
#[derive(Clone, Debug)]
pub struct ScenarioView<'r> {
    /// The instance's name.
    pub name: &'r str,
    /// The scenario's name.
    pub scenario: &'r str,
    /// The question; empty if a compact report leaves it out.
    pub question: &'r str,
    /// The order or call that works; empty if no workaround is known.
    pub workaround: &'r str,
    /// Words to select by; empty for a compact report.
    pub tags: &'r [String],
    /// Values of parameters.
    pub parameters: &'r BTreeMap<String, Scalar>,
    /// SHA-256 of the scenario file.
    pub sha256: &'r str,
    /// `true` if the scenario was selected by its exact name.
    pub asked_by_name: bool,
    /// Requirements of the scenario that the machine does not meet.
    pub lacks: Option<&'r str>,
    /// The libcudart it ran on.
    pub libcudart: Option<&'r Runtime>,
    /// The plan; `None` if the machine does not meet the requirements, and in compact reports.
    pub plan: Option<&'r Plan>,
    /// `true` if a mixture of outcomes is an answer.
    pub nondeterministic: bool,
    /// The answer.
    pub verdict: &'r Verdict,
    /// The results, case by case.
    pub cases: Vec<CaseView<'r>>,
    /// The hash of the question in a compact report.
    asked: Option<&'r str>,
}

/// The results of one case.
#[derive(Clone, Debug)]
pub struct CaseView<'r> {
    /// `trap`, `control`, …
    pub name: &'r str,
    /// Distinct outcomes, most frequent first.
    pub outcomes: Vec<OutcomeView<'r>>,
    /// Every attempt, in the order in which they were made; empty for a compact report.
    pub attempts: &'r [Attempt],
    /// Number of attempts that do not count, by their first reason.
    pub not_counted: Vec<(Reason, usize)>,
    /// Number of attempts that were made.
    pub made: usize,
}

/// A distinct outcome.
#[derive(Clone, Copy, Debug)]
pub struct OutcomeView<'r> {
    /// The number of valid attempts with this outcome.
    pub count: u32,
    /// The observation of these attempts.
    pub seen: OutcomeRecord<'r>,
}

/// The part of an outcome that the report keeps.
#[derive(Clone, Copy, Debug)]
pub enum OutcomeRecord<'r> {
    /// The complete observation. Figures that vary come from the first attempt with this outcome.
    Whole(&'r Observation),
    /// The summary of a compact report.
    Compact(&'r CompactOutcome),
}

impl Report {
    /// Returns the view of this report.
    pub fn view(&self) -> ReportView<'_> {
        let Report {
            schema: _,
            must_understand: _,
            provenance,
            run,
            machine,
            scenarios,
            complete,
        } = self;
        let scenarios = scenarios.iter().map(ScenarioReport::view).collect();
        let (complete, is_compact, changed) = (*complete, false, &[]);
        ReportView {
            provenance: *provenance,
            run,
            machine,
            scenarios,
            complete,
            is_compact,
            changed,
        }
    }
}

impl CompactReport {
    /// Returns the view of this report.
    pub fn view(&self) -> ReportView<'_> {
        let CompactReport {
            schema: _,
            must_understand: _,
            provenance,
            run,
            machine,
            scenarios,
            complete,
        } = self;
        let scenarios = scenarios.iter().map(ScenarioView::from_compact).collect();
        let (complete, is_compact, changed) = (*complete, true, &[]);
        ReportView {
            provenance: *provenance,
            run,
            machine,
            scenarios,
            complete,
            is_compact,
            changed,
        }
    }
}

impl ReportView<'_> {
    /// Returns the requirements, with the answers counted as in this report. The number of usable GPUs stays as it was
    /// at the beginning of the run.
    pub fn requirements(&self) -> Vec<Requirement> {
        let answers = self
            .scenarios
            .iter()
            .filter(|scenario| scenario.verdict.kind.is_conclusive())
            .count() as u64;
        let mut requirements = self.run.require.clone();
        for requirement in &mut requirements {
            if requirement.what == Required::Answers {
                *requirement = requirement.with(answers);
            }
        }
        requirements
    }
}

impl ScenarioReport {
    /// Returns the view of this scenario.
    pub fn view(&self) -> ScenarioView<'_> {
        ScenarioView {
            name: &self.name,
            scenario: &self.scenario,
            question: &self.question,
            workaround: &self.workaround,
            tags: &self.tags,
            parameters: &self.parameters,
            sha256: &self.sha256,
            asked_by_name: self.asked_by_name,
            lacks: self.lacks.as_deref(),
            libcudart: self.libcudart.as_ref(),
            plan: self.plan.as_ref(),
            nondeterministic: self.plan.as_ref().is_some_and(|plan| plan.nondeterministic),
            verdict: &self.verdict,
            cases: self.cases.iter().map(CaseReport::view).collect(),
            asked: None,
        }
    }
}

impl<'r> ScenarioView<'r> {
    fn from_compact(kept: &'r CompactScenario) -> ScenarioView<'r> {
        ScenarioView {
            name: &kept.name,
            scenario: kept.scenario(),
            question: &kept.question,
            workaround: kept.workaround.as_deref().unwrap_or_default(),
            tags: &[],
            parameters: &kept.parameters,
            sha256: &kept.sha256,
            asked_by_name: kept.asked_by_name,
            lacks: kept.lacks.as_deref(),
            libcudart: kept.libcudart.as_ref(),
            plan: None,
            nondeterministic: kept.nondeterministic,
            verdict: &kept.verdict,
            cases: kept.cases.iter().map(CaseView::from_compact).collect(),
            asked: kept.asked.as_deref(),
        }
    }

    /// Returns `true` if the machine cannot answer this scenario, and it was not selected by its exact name. Such a
    /// scenario is listed, and does not count.
    pub fn is_not_applicable(&self) -> bool {
        self.verdict.lacks_a_need() && !self.asked_by_name
    }

    /// Returns a case by its name.
    pub fn case(&self, name: &str) -> Option<&CaseView<'r>> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Returns the hash of the scenario without the parts that differ from machine to machine; `None` if it is not
    /// known.
    pub fn asked(&self) -> Option<Cow<'r, str>> {
        self.asked
            .map(Cow::Borrowed)
            .or_else(|| self.plan.map(|plan| Cow::Owned(plan.asked())))
    }
}

impl CaseReport {
    /// Returns the view of this case.
    pub fn view(&self) -> CaseView<'_> {
        let CaseReport {
            name,
            outcomes,
            attempts,
        } = self;
        let first = attempts
            .iter()
            .filter_map(|attempt| attempt.judged.invalid.first());
        CaseView {
            name,
            outcomes: outcomes.iter().map(OutcomeView::whole).collect(),
            attempts,
            not_counted: tally_items(first.map(|first| first.reason)),
            made: attempts.len(),
        }
    }
}

impl<'r> CaseView<'r> {
    fn from_compact(kept: &'r CompactCase) -> CaseView<'r> {
        let CompactCase {
            name,
            outcomes,
            not_counted,
        } = kept;
        let counts = outcomes
            .iter()
            .map(|outcome| outcome.count)
            .chain(not_counted.values().copied());
        CaseView {
            name,
            made: counts.fold(0, |sum: usize, count| sum.saturating_add(count as usize)),
            outcomes: outcomes.iter().map(OutcomeView::from_compact).collect(),
            attempts: &[],
            not_counted: not_counted
                .iter()
                .map(|(reason, count)| (*reason, *count as usize))
                .collect(),
        }
    }
}

impl<'r> OutcomeView<'r> {
    fn whole(whole: &'r Outcome) -> OutcomeView<'r> {
        OutcomeView {
            count: whole.count,
            seen: OutcomeRecord::Whole(&whole.observation),
        }
    }

    fn from_compact(kept: &'r CompactOutcome) -> OutcomeView<'r> {
        OutcomeView {
            count: kept.count,
            seen: OutcomeRecord::Compact(kept),
        }
    }

    /// Returns the complete observation; `None` if the report keeps only a summary.
    pub fn observation(&self) -> Option<&'r Observation> {
        match self.seen {
            OutcomeRecord::Whole(observation) => Some(observation),
            OutcomeRecord::Compact(_) => None,
        }
    }

    /// Returns the changes from step to step.
    pub fn changes(&self) -> Cow<'r, [Change]> {
        match self.seen {
            OutcomeRecord::Whole(observation) => Cow::Owned(changes(observation)),
            OutcomeRecord::Compact(kept) => Cow::Borrowed(&kept.facts),
        }
    }

    /// Returns the change of the largest absolute size after any step for each GPU, in bytes; `None` if no change could
    /// be read. A compact report has only the GPUs with changed memory.
    pub fn largest_change(&self) -> Vec<(String, Option<i64>)> {
        match self.seen {
            OutcomeRecord::Whole(observation) => observation.largest_change(),
            OutcomeRecord::Compact(kept) => {
                let mut all: Vec<_> = kept
                    .used_bytes
                    .iter()
                    .map(|(gpu, bytes)| (gpu.clone(), *bytes))
                    .collect();
                all.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
                all
            }
        }
    }
}
