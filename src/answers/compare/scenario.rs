//! Two measurements of one scenario.

use std::collections::BTreeSet;

use super::comparison::{EntryDifference, FactDifference, Relation, Share};
use super::differing::{Differing, find_differing_facts};
use super::excuse::Excuses;
use super::pair::ComparedEntry;
use crate::difference::side_by_side;
use cuda_pitfalls_core::fact::{Change, Fact};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::StepObservation;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind};

/// Returns the scenarios of a report. A scenario without an attempt that counts is unmeasured, whatever its verdict.
pub(super) fn entries<'v, 'r>(
    report: &'v ReportView<'r>,
) -> Vec<ComparedEntry<'v, ScenarioView<'r>>> {
    let mut entries = Vec::new();
    for scenario in &report.scenarios {
        let verdict = scenario.verdict;
        let shows = scenario.cases.iter().any(|case| !case.outcomes.is_empty());
        let is_measured = shows && !matches!(verdict.kind, Kind::Skipped | Kind::HarnessError);
        let unmeasured = match verdict.reason {
            _ if is_measured => None,
            Some(reason) => Some(reason.name()),
            None => Some(verdict.kind.name().to_owned()),
        };
        entries.push(ComparedEntry {
            name: scenario.name.to_string(),
            libcudart: scenario
                .libcudart
                .and_then(|runtime| runtime.version.clone()),
            unmeasured,
            item: scenario,
        });
    }
    entries
}

/// Differences between the cases of two measurements.
#[derive(Default)]
struct CaseDifferences {
    /// Differences in behavior, at most one fact of each case.
    changed: Vec<FactDifference>,
    /// Differences that the machines explain.
    explained: Vec<FactDifference>,
    notes: Vec<String>,
    /// `true` if a case was run differently, or differs because of the machines.
    has_other_question: bool,
}

/// Compares the verdicts, and the first fact of each case that differs.
pub(super) fn compare_scenarios(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> Relation {
    let [a, b] = both;
    let plans = a.plan.zip(b.plan);
    if plans.is_none() && a.asked() != b.asked() {
        let change = verdict_difference(both, false);
        let notes = vec!["it makes different calls or checks a different effect".to_string()];
        return Relation::Explained(EntryDifference::new(change.into_iter().collect(), notes));
    }
    let CaseDifferences {
        mut changed,
        mut explained,
        notes,
        has_other_question,
    } = compare_cases(both, machines);
    let is_same_expectation = plans.map_or(a.sha256 == b.sha256, |(a, b)| {
        a.expectations_json() == b.expectations_json()
    });
    if let Some(change) = verdict_difference(both, is_same_expectation) {
        // A difference in the verdict follows from a case that behaves differently.
        let asks_alike = plans.is_none_or(|(a, b)| a.question_json(None) == b.question_json(None));
        let counts = (!has_other_question && asks_alike) || !changed.is_empty();
        if counts { &mut changed } else { &mut explained }.insert(0, change);
    }
    if !changed.is_empty() {
        Relation::Changed(EntryDifference::new(changed, notes))
    } else if has_other_question || !explained.is_empty() {
        Relation::Explained(EntryDifference::new(explained, notes))
    } else {
        Relation::Same
    }
}

fn compare_cases(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> CaseDifferences {
    let [a, b] = both;
    let plans = a.plan.zip(b.plan);
    let mut found = CaseDifferences::default();
    if plans.is_some() && a.sha256 != b.sha256 {
        found
            .notes
            .push("the scenario was changed in between".to_string());
    }
    let mut has_other_cases = false;
    for pair in side_by_side(both.map(|scenario| &scenario.cases), |case| case.name) {
        let [Some(case), Some(counterpart)] = pair else {
            has_other_cases = plans.is_some();
            continue;
        };
        if plans.is_some_and(|(a, b)| {
            a.question_json(Some(case.name)) != b.question_json(Some(case.name))
        }) {
            found.has_other_question = true;
            found
                .notes
                .push(format!("{} makes different calls", case.name));
            continue;
        }
        match case_difference([case, counterpart], both, machines) {
            None => {}
            Some((change, None)) => found.changed.push(change),
            Some((change, Some(why))) => {
                found.has_other_question = true;
                found.notes.push(why);
                found.explained.push(change);
            }
        }
    }
    if has_other_cases {
        found.has_other_question = true;
        found.notes.push("it has different cases".to_string());
    }
    found
}

/// The difference between two verdicts. Whether an expectation is met counts only if both files expect the same.
fn verdict_difference(
    both: [&ScenarioView<'_>; 2],
    is_same_expectation: bool,
) -> Option<FactDifference> {
    let [a, b] = both.map(|scenario| {
        let verdict = scenario.verdict;
        let mut text = verdict.kind.name().to_owned();
        if let Some(reason) = verdict.reason {
            text.push_str(&format!(": {}", reason.name()));
        }
        if is_same_expectation && verdict.expectation == ExpectationMet::Unexpected {
            text.push_str(", unexpected");
        }
        text
    });
    if a == b {
        return None;
    }
    Some(FactDifference::new("verdict", a, b))
}

/// An outcome of A and one of B.
struct OutcomePair<'o> {
    /// The indices of the two.
    indices: [usize; 2],
    /// Differences between these outcomes, each with the explanation by the machines if there is one.
    found: Vec<(Differing<'o>, Option<String>)>,
}

impl<'o> OutcomePair<'o> {
    fn new(
        indices: [usize; 2],
        outcomes: [&'o [Change]; 2],
        cases: [&CaseView<'_>; 2],
        excuses: &Excuses<'_>,
    ) -> OutcomePair<'o> {
        let mut found = Vec::new();
        for difference in find_differing_facts(outcomes) {
            if !is_hidden(&difference, cases) {
                let why = excuses.why(&difference, outcomes);
                found.push((difference, why));
            }
        }
        OutcomePair { indices, found }
    }

    fn is_same(&self) -> bool {
        self.found.is_empty()
    }

    fn is_explained(&self) -> bool {
        self.found.iter().all(|(_, why)| why.is_some())
    }

    /// Returns the first difference that is not explained, or else the first one.
    fn main_difference(&self) -> Option<&(Differing<'o>, Option<String>)> {
        let unexplained = self.found.iter().find(|(_, why)| why.is_none());
        unexplained.or(self.found.first())
    }
}

/// The first difference between the outcomes of a case, and why the machines explain it; `None` if the sets are the
/// same.
fn case_difference(
    cases: [&CaseView<'_>; 2],
    both: [&ScenarioView<'_>; 2],
    machines: [&Machine; 2],
) -> Option<(FactDifference, Option<String>)> {
    let [a, b] = outcome_changes(cases);
    let excuses = Excuses::new(both, machines, cases[0].name);
    let mut pairs = Vec::new();
    for (index_a, a) in a.iter().enumerate() {
        for (index_b, b) in b.iter().enumerate() {
            let indices = [index_a, index_b];
            pairs.push(OutcomePair::new(indices, [a, b], cases, &excuses));
        }
    }
    let is_mixture = both[0].nondeterministic && both[1].nondeterministic;
    let mut pair = find_unmatched(&pairs, is_mixture, OutcomePair::is_same)?;
    // Outcomes without an explanation come first.
    if let Some(unexplained) = find_unmatched(&pairs, is_mixture, OutcomePair::is_explained) {
        pair = unexplained;
    } else if let Some(explained) = pairs
        .iter()
        .find(|pair| pair.is_explained() && !pair.is_same())
    {
        pair = explained;
    }
    let (difference, why) = pair.main_difference()?;
    let [index_a, index_b] = pair.indices;
    let seen = [
        outcome_share(cases[0], index_a)?,
        outcome_share(cases[1], index_b)?,
    ];
    let change = FactDifference {
        case: Some(cases[0].name.to_string()),
        seen: Some(seen),
        ..difference.words()
    };
    Some((change, why.clone()))
}

/// Returns the changes of each outcome of the cases.
fn outcome_changes(cases: [&CaseView<'_>; 2]) -> [Vec<Vec<Change>>; 2] {
    let are_whole = cases.iter().all(|case| {
        case.outcomes
            .iter()
            .all(|outcome: &OutcomeView<'_>| outcome.observation().is_some())
    });
    cases.map(|case| {
        let mut all = Vec::new();
        for outcome in &case.outcomes {
            let mut changes = outcome.changes().into_owned();
            // The number of steps of an attempt that ended with 0 is not a change, and compact reports do not contain
            // it.
            if let Some(seen) = outcome.observation()
                && are_whole
                && seen.end == "0"
            {
                let made = u32::try_from(seen.steps.len()).unwrap_or(u32::MAX);
                changes.push(Change::end(made, &seen.end));
            }
            all.push(changes);
        }
        all
    })
}

/// Returns `true` if other processes hide the fact in one of the measurements. Changes leave out hidden facts, so the
/// measurements may differ only because of that.
fn is_hidden(difference: &Differing<'_>, cases: [&CaseView<'_>; 2]) -> bool {
    let Some((_, label)) = difference.step else {
        return false;
    };
    let outcomes = cases.into_iter().flat_map(|case| &case.outcomes);
    let mut observations = outcomes.filter_map(OutcomeView::observation);
    observations.any(|seen| {
        seen.steps
            .iter()
            .any(|step: &StepObservation| match &difference.facts {
                _ if step.label != label => false,
                [Some(Fact::Memory(gpu, _)), _] => {
                    let memory = step.memory.get(gpu);
                    memory.is_some_and(|memory| memory.is_hidden())
                }
                [Some(Fact::Value(..)), None] | [None, Some(Fact::Value(..))] => {
                    step.shared.is_some()
                }
                _ => false,
            })
    })
}

/// Returns an outcome without a counterpart, paired with the first such outcome of the other set if it also has one;
/// `None` if every outcome has a counterpart. If the scenario is nondeterministic, one common outcome is enough,
/// because a few attempts show only some of them.
fn find_unmatched<'p, 'o>(
    pairs: &'p [OutcomePair<'o>],
    is_mixture: bool,
    is_alike: fn(&OutcomePair<'o>) -> bool,
) -> Option<&'p OutcomePair<'o>> {
    let mut matched = [BTreeSet::new(), BTreeSet::new()];
    for pair in pairs {
        if is_alike(pair) {
            matched[0].insert(pair.indices[0]);
            matched[1].insert(pair.indices[1]);
        }
    }
    if is_mixture && !matched[0].is_empty() {
        return None;
    }
    let alone = [0, 1].map(|side| {
        let mut indices = pairs.iter().map(|pair| pair.indices[side]);
        indices.find(|index| !matched[side].contains(index))
    });
    if alone == [None, None] {
        return None;
    }
    let indices = alone.map(|index| index.unwrap_or(0));
    pairs.iter().find(|pair| pair.indices == indices)
}

/// Returns the share of the attempts that count in which a case showed an outcome.
fn outcome_share(case: &CaseView<'_>, outcome: usize) -> Option<Share> {
    let count = case.outcomes.get(outcome)?.count.into();
    let of = case.outcomes.iter().map(|one| u64::from(one.count)).sum();
    Some(Share { count, of })
}
