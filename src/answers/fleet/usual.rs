//! What is usual for one question in one group, and who differs from it.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, Same, UNREAD};
use super::change::differing as differing_facts;
use super::spread::{differs, noise, spread};
use super::{Difference, Key, Outcome, Spread, Usual, What};

/// One document's answer to the question that is being looked at.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) machine: usize,
    pub(super) answer: &'a Answer,
    pub(super) figures: &'a [i64],
}

/// One question in one group.
pub(super) struct Asked<'a> {
    pub(super) given: Vec<Given<'a>>,
    pub(super) members: &'a BTreeSet<usize>,
    pub(super) key: &'a Key,
}

impl Asked<'_> {
    /// What is usual, and every difference from it. The question's place is filled in by the caller.
    pub(super) fn result(&self, group: usize) -> (Usual, Vec<Difference>) {
        let mut outcomes: BTreeMap<&Same, Vec<&Given>> = BTreeMap::new();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut no_answer = Vec::new();
        for given in &self.given {
            match &given.answer.shown {
                Ok(same) => outcomes.entry(same).or_default().push(given),
                Err(reason) => {
                    *reasons.entry(reason.clone()).or_default() += 1;
                    no_answer.push(given.machine);
                }
            }
        }
        let mut outcomes: Vec<(&Same, Vec<&Given>)> = outcomes.into_iter().collect();
        // A stable sort: of outcomes with equally many machines, the order of their facts stays.
        outcomes.sort_by_key(|(_, given)| std::cmp::Reverse(given.len()));
        let there: BTreeSet<usize> = self.given.iter().map(|given| given.machine).collect();
        let mut usual = Usual {
            outcomes: outcomes
                .iter()
                .map(|(Same { kind, facts }, given)| Outcome {
                    kind: *kind,
                    facts: facts.clone(),
                    machines: given.len(),
                })
                .collect(),
            no_answer,
            not_asked: self.members.difference(&there).copied().collect(),
            unexpected: self.given.iter().filter(|it| it.answer.is_unexpected).map(|it| it.machine).collect(),
            ..Usual::default()
        };
        let mut differences = Vec::new();
        let mut differs_in = |machines: Vec<usize>, usual_machines, what| {
            differences.push(Difference { group, question: 0, machines, usual_machines, what });
        };
        let Some((first, of_first)) = outcomes.first() else { return (usual, differences) };
        for (place, (same, given)) in outcomes.iter().enumerate().skip(1) {
            let what = What::Outcome {
                outcome: place,
                verdict_differs: same.kind != first.kind,
                facts: differing_facts(&first.facts, &same.facts),
            };
            differs_in(given.iter().map(|given| given.machine).collect(), of_first.len(), what);
        }
        if !usual.no_answer.is_empty() {
            let answered = outcomes.iter().map(|(_, given)| given.len()).sum();
            differs_in(usual.no_answer.clone(), answered, What::NoAnswer { reasons });
        }
        let is_tie = outcomes.get(1).is_some_and(|(_, given)| given.len() == of_first.len());
        if !is_tie {
            for (figure, spread, away) in figures(of_first, self.key.shared) {
                for (machines, these) in away {
                    let what = What::Bytes { figure: figure.clone(), usual: spread, these };
                    differs_in(machines, spread.count, what);
                }
                usual.used_bytes.insert(figure, spread);
            }
        }
        (usual, differences)
    }
}

/// Machines that are as far from the median as one another, and their figures.
type Away = (Vec<usize>, Spread);

/// Each figure of machines that showed the same, and those that differ in it. What is usual does not count those.
fn figures(given: &[&Given], is_shared: bool) -> Vec<(String, Spread, Vec<Away>)> {
    let about: BTreeSet<&String> = given.iter().flat_map(|given| &given.answer.figures).collect();
    let mut found = Vec::new();
    for figure in about {
        let value = |given: &&Given| {
            let place = given.answer.figures.iter().position(|known| known == figure);
            // A report has no figure for memory that did not change.
            let bytes = place.map_or(Some(0), |place| given.figures.get(place).copied())?;
            (bytes != UNREAD).then_some((given.machine, bytes))
        };
        let values: Vec<(usize, i64)> = given.iter().filter_map(value).collect();
        let mut bytes: Vec<i64> = values.iter().map(|(_, bytes)| *bytes).collect();
        let Some(all) = spread(&mut bytes) else { continue };
        let is_away = |(_, bytes): &(usize, i64)| differs(*bytes, &all, is_shared);
        let (away, usual): (Vec<_>, Vec<_>) = values.into_iter().partition(is_away);
        let mut bytes: Vec<i64> = usual.iter().map(|(_, bytes)| *bytes).collect();
        let usual = spread(&mut bytes).unwrap_or(all);
        found.push((figure.clone(), usual, clusters(away, all.median_bytes, is_shared)));
    }
    found
}

/// Figures that are away from a median, together where they are within the noise of one another: machines with one cause
/// are one difference, also beside a machine with another.
fn clusters(mut away: Vec<(usize, i64)>, median: i64, is_shared: bool) -> Vec<Away> {
    away.sort_by_key(|(machine, bytes)| (*bytes, *machine));
    let noise = noise(median, is_shared);
    let is_of_one = |a: &(usize, i64), b: &(usize, i64)| (a.1 > median) == (b.1 > median) && b.1.abs_diff(a.1) <= noise;
    let clusters = away.chunk_by(is_of_one).map(|cluster| {
        let (mut machines, mut bytes): (Vec<usize>, Vec<i64>) = cluster.iter().copied().unzip();
        machines.sort_unstable();
        spread(&mut bytes).map(|these| (machines, these))
    });
    clusters.flatten().collect()
}
