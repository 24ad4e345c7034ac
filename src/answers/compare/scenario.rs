//! Two measurements of one scenario.

use std::collections::BTreeSet;

use super::comparison::{EntryDifference, FactDifference, Relation, Share};
use super::differing::{Differing, differing};
use super::excuse::Excuses;
use super::pair::ComparedEntry;
use cuda_pitfalls_core::fact::{Change, Fact};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{CaseView, OutcomeView, ReportView, ScenarioView};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Verdict};

/// The scenarios of a report. A scenario without an attempt that counts is unmeasured, whatever its verdict.
pub(super) fn entries<'v, 'r>(
    report: &'v ReportView<'r>,
) -> Vec<ComparedEntry<'v, ScenarioView<'r>>> {
    let entries = report.scenarios.iter().map(|scenario| {
        let verdict = scenario.verdict;
        let shows = scenario.cases.iter().any(|case| !case.outcomes.is_empty());
        let is_measured = shows && !matches!(verdict.kind, Kind::Skipped | Kind::HarnessError);
        ComparedEntry {
            name: scenario.name.to_string(),
            libcudart: scenario
                .libcudart
                .and_then(|runtime| runtime.version.clone()),
            unmeasured: (!is_measured)
                .then(|| reason(verdict).unwrap_or_else(|| verdict.kind.name().to_string())),
            item: scenario,
        }
    });
    entries.collect()
}

fn reason(verdict: &Verdict) -> Option<String> {
    verdict.reason.map(|reason| reason.name())
}

/// Compares the verdicts, and the first fact of each case that differs.
pub(super) fn compare(both: [&ScenarioView<'_>; 2], machines: [&Machine; 2]) -> Relation {
    let [a, b] = both;
    let plans = a.plan.zip(b.plan);
    if plans.is_none() && a.asked() != b.asked() {
        let change = verdict_difference(both, false);
        let notes = vec!["it makes other calls, or asks for another effect".to_string()];
        return Relation::Explained(EntryDifference::new(change.into_iter().collect(), notes));
    }
    let (mut changed, mut explained, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    if plans.is_some() && a.sha256 != b.sha256 {
        notes.push("the scenario was changed in between".to_string());
    }
    let mut is_same_question = true;
    for (case, counterpart) in a
        .cases
        .iter()
        .filter_map(|case| Some((case, b.case(case.name)?)))
    {
        if plans.is_some_and(|(a, b)| a.asks(Some(case.name)) != b.asks(Some(case.name))) {
            is_same_question = false;
            notes.push(format!("{} makes other calls", case.name));
            continue;
        }
        match case_difference([case, counterpart], both, machines) {
            None => {}
            Some((change, None)) => changed.push(change),
            Some((change, Some(why))) => {
                is_same_question = false;
                notes.push(why);
                explained.push(change);
            }
        }
    }
    if plans.is_some() && case_names(a) != case_names(b) {
        is_same_question = false;
        notes.push("it has other cases".to_string());
    }
    let is_same_expectation =
        plans.map_or(a.sha256 == b.sha256, |(a, b)| a.expects() == b.expects());
    if let Some(change) = verdict_difference(both, is_same_expectation) {
        // A verdict beside a case that behaves differently follows from it.
        let asks_alike = plans.is_none_or(|(a, b)| a.asks(None) == b.asks(None));
        let counts = (is_same_question && asks_alike) || !changed.is_empty();
        if counts { &mut changed } else { &mut explained }.insert(0, change);
    }
    match (changed.is_empty(), is_same_question && explained.is_empty()) {
        (false, _) => Relation::Changed(EntryDifference::new(changed, notes)),
        (true, false) => Relation::Explained(EntryDifference::new(explained, notes)),
        (true, true) => Relation::Same,
    }
}

fn case_names<'r>(scenario: &ScenarioView<'r>) -> BTreeSet<&'r str> {
    scenario.cases.iter().map(|case| case.name).collect()
}

/// The difference between two verdicts. Whether an expectation is met counts only if both files expect the same.
fn verdict_difference(
    both: [&ScenarioView<'_>; 2],
    is_same_expectation: bool,
) -> Option<FactDifference> {
    let [a, b] = both.map(|scenario| {
        let is_unexpected =
            is_same_expectation && scenario.verdict.expectation == ExpectationMet::Unexpected;
        let reason = reason(scenario.verdict)
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        let unexpected = if is_unexpected { ", unexpected" } else { "" };
        format!("{}{reason}{unexpected}", scenario.verdict.kind.name())
    });
    (a != b).then(|| FactDifference::new("verdict", a, b))
}

struct OutcomePair<'o> {
    /// The index of the outcome in A and in B.
    at: [usize; 2],
    /// What differs between them, and why the machines explain it.
    found: Vec<(Differing<'o>, Option<String>)>,
}

impl OutcomePair<'_> {
    fn is_same(&self) -> bool {
        self.found.is_empty()
    }

    fn is_explained(&self) -> bool {
        self.found.iter().all(|(_, why)| why.is_some())
    }
}

/// The first difference between the outcomes of a case, and why the machines explain it; `None` if the sets are the
/// same.
fn case_difference(
    cases: [&CaseView<'_>; 2],
    both: [&ScenarioView<'_>; 2],
    machines: [&Machine; 2],
) -> Option<(FactDifference, Option<String>)> {
    // How far an attempt came that ended with 0 is no change, and compact reports do not keep it.
    let are_whole = cases.iter().all(|case| {
        case.outcomes
            .iter()
            .all(|outcome| outcome.observation().is_some())
    });
    let [a, b] = cases.map(|case| {
        case.outcomes
            .iter()
            .map(|outcome| changes(outcome, are_whole))
            .collect::<Vec<_>>()
    });
    let excuses = Excuses::new(both, machines, cases[0].name);
    let mut pairs = Vec::new();
    for (at_a, a) in a.iter().enumerate() {
        for (at_b, b) in b.iter().enumerate() {
            let outcomes: [&[Change]; 2] = [a, b];
            let found = differing(outcomes)
                .into_iter()
                .filter(|difference| !is_hidden(difference, cases));
            let found = found.map(|difference| {
                let why = excuses.why(&difference, outcomes);
                (difference, why)
            });
            pairs.push(OutcomePair {
                at: [at_a, at_b],
                found: found.collect(),
            });
        }
    }
    let is_mixture = both.iter().all(|scenario| scenario.nondeterministic);
    unmatched(&pairs, is_mixture, OutcomePair::is_same)?;
    // Outcomes that nothing explains come first.
    let OutcomePair { at, found } = unmatched(&pairs, is_mixture, OutcomePair::is_explained)
        .or_else(|| {
            pairs
                .iter()
                .find(|pair| !pair.is_same() && pair.is_explained())
        })?;
    let (difference, why) = found
        .iter()
        .find(|(_, why)| why.is_none())
        .or(found.first())?;
    let [of_a, of_b] = cases;
    let seen = Some([share(of_a, at[0])?, share(of_b, at[1])?]);
    Some((
        FactDifference {
            case: Some(of_a.name.to_string()),
            seen,
            ..difference.words()
        },
        why.clone(),
    ))
}

fn changes(outcome: &OutcomeView<'_>, with_end: bool) -> Vec<Change> {
    let mut changes = outcome.changes().into_owned();
    let well = outcome
        .observation()
        .filter(|seen| with_end && seen.end == "0");
    changes.extend(well.map(|seen| {
        Change::end(
            u32::try_from(seen.steps.len()).unwrap_or(u32::MAX),
            &seen.end,
        )
    }));
    changes
}

/// Whether other processes hide the fact in one of the measurements. Changes leave out what is hidden, so that the two may
/// differ in it by that alone.
fn is_hidden(difference: &Differing<'_>, cases: [&CaseView<'_>; 2]) -> bool {
    let outcomes = cases
        .into_iter()
        .flat_map(|case| &case.outcomes)
        .filter_map(OutcomeView::observation);
    let label = difference.step.map(|(_, label)| label);
    let mut steps = outcomes
        .flat_map(|outcome| &outcome.steps)
        .filter(|step| Some(step.label.as_str()) == label);
    match &difference.facts {
        [Some(Fact::Memory(gpu, _)), _] => {
            steps.any(|step| step.memory.get(gpu).is_some_and(|it| it.is_hidden()))
        }
        [Some(Fact::Value(..)), None] | [None, Some(Fact::Value(..))] => {
            steps.any(|step| step.shared.is_some())
        }
        _ => false,
    }
}

/// An outcome without a counterpart, beside the first outcome of the other set if that has none too; `None` if every
/// outcome has one. If the scenario is nondeterministic, one common outcome is enough, because a few attempts show only
/// some of them.
fn unmatched<'p, 'o>(
    pairs: &'p [OutcomePair<'o>],
    is_mixture: bool,
    is_alike: fn(&OutcomePair<'o>) -> bool,
) -> Option<&'p OutcomePair<'o>> {
    let alone = [0, 1].map(|side| {
        let matched: BTreeSet<usize> = pairs
            .iter()
            .filter(|pair| is_alike(pair))
            .map(|pair| pair.at[side])
            .collect();
        pairs
            .iter()
            .map(|pair| pair.at[side])
            .find(|at| !matched.contains(at))
    });
    let is_shared = is_mixture && pairs.iter().any(is_alike);
    let at = alone.map(|at| at.unwrap_or(0));
    pairs
        .iter()
        .find(|pair| pair.at == at)
        .filter(|_| alone != [None, None] && !is_shared)
}

/// In how many of the attempts that count a case showed an outcome.
fn share(case: &CaseView<'_>, outcome: usize) -> Option<Share> {
    let of = case
        .outcomes
        .iter()
        .map(|outcome| u64::from(outcome.count))
        .sum();
    Some(Share {
        count: case.outcomes.get(outcome)?.count.into(),
        of,
    })
}
