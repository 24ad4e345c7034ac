//! What is usual for one question in one group, and who differs from it.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Same, SharedAnswer, UNREAD};
use super::change::differing as differing_facts;
use super::document::{ByteSpread, Difference, GroupOutcome, Key, Usual, What};
use super::spread::noise;

/// One document's answer to the question that is being looked at.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) machine: usize,
    pub(super) answer: &'a SharedAnswer,
    pub(super) figures: &'a [i64],
}

pub(super) struct GroupQuestion<'a> {
    pub(super) given: Vec<Given<'a>>,
    /// The index of the group.
    pub(super) group: usize,
    pub(super) members: &'a BTreeSet<usize>,
    pub(super) key: &'a Key,
    pub(super) question: usize,
}

/// One machine's value of a figure. In this order, outliers with similar values are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FigureReading {
    bytes: i64,
    machine: usize,
}

/// A figure over the machines with one outcome.
struct Metric {
    /// The range of all machines but the outliers.
    usual: ByteSpread,
    /// Outliers with similar values form a cluster: one cause is one difference.
    clusters: Vec<Cluster>,
}

/// Outliers on one side of the median, within the noise of one another.
struct Cluster {
    machines: Vec<usize>,
    spread: ByteSpread,
}

impl Given<'_> {
    /// The value of a figure; `None` if it could not be read. A figure that the report does not list is 0, because memory
    /// that did not change is not listed.
    fn reading(&self, figure: &str) -> Option<FigureReading> {
        let index = self.answer.figures.iter().position(|known| known == figure);
        let bytes = index.map_or(Some(0), |index| self.figures.get(index).copied())?;
        (bytes != UNREAD).then_some(FigureReading {
            bytes,
            machine: self.machine,
        })
    }
}

impl Metric {
    fn new(figure: &str, given: &[&Given], is_shared: bool) -> Option<Metric> {
        let readings: Vec<FigureReading> = given
            .iter()
            .filter_map(|given| given.reading(figure))
            .collect();
        let all = ByteSpread::new(readings.iter().map(|reading| reading.bytes))?;
        let (mut outliers, usual): (Vec<_>, Vec<_>) = readings
            .into_iter()
            .partition(|reading| all.is_outlier(reading.bytes, is_shared));
        outliers.sort_unstable();
        let (median, noise) = (all.median_bytes, noise(all.median_bytes, is_shared));
        let clusters = outliers.chunk_by(|a, b| {
            (a.bytes > median) == (b.bytes > median) && b.bytes.abs_diff(a.bytes) <= noise
        });
        let usual = ByteSpread::new(usual.iter().map(|reading| reading.bytes)).unwrap_or(all);
        Some(Metric {
            usual,
            clusters: clusters.filter_map(Cluster::new).collect(),
        })
    }
}

impl Cluster {
    fn new(readings: &[FigureReading]) -> Option<Cluster> {
        let mut machines: Vec<usize> = readings.iter().map(|reading| reading.machine).collect();
        machines.sort_unstable();
        Some(Cluster {
            machines,
            spread: ByteSpread::new(readings.iter().map(|reading| reading.bytes))?,
        })
    }
}

impl GroupQuestion<'_> {
    /// What is usual, and every difference from it.
    pub(super) fn result(&self) -> (Usual, Vec<Difference>) {
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
        let shown = outcomes.iter().map(|(same, given)| GroupOutcome {
            kind: same.kind,
            facts: same.facts.clone(),
            machines: given.len(),
        });
        let mut usual = Usual {
            question: self.question,
            outcomes: shown.collect(),
            no_answer,
            not_asked: self.members.difference(&there).copied().collect(),
            unexpected: self
                .given
                .iter()
                .filter(|it| it.answer.is_unexpected)
                .map(|it| it.machine)
                .collect(),
            ..Usual::default()
        };
        let Some(((first, of_first), others)) = outcomes.split_first() else {
            return (usual, Vec::new());
        };
        let answered = self.given.len() - usual.no_answer.len();
        let is_split = of_first.len() * 2 <= answered;
        let mut differences = Vec::new();
        for (outcome, (same, given)) in (1..).zip(others) {
            let (verdict_differs, facts) = (
                same.kind != first.kind,
                differing_facts(&first.facts, &same.facts),
            );
            let machines = given.iter().map(|given| given.machine).collect();
            let what = What::Outcome {
                outcome,
                verdict_differs,
                facts,
            };
            differences.push(Difference {
                is_split,
                ..self.difference(machines, of_first.len(), what)
            });
        }
        if !usual.no_answer.is_empty() {
            let is_split = usual.no_answer.len() >= answered;
            let silent = self.difference(
                usual.no_answer.clone(),
                answered,
                What::NoAnswer { reasons },
            );
            differences.push(Difference { is_split, ..silent });
        }
        if !is_split {
            for figure in of_first
                .iter()
                .flat_map(|given| &given.answer.figures)
                .collect::<BTreeSet<_>>()
            {
                let Some(metric) = Metric::new(figure, of_first, self.key.shared) else {
                    continue;
                };
                for Cluster { machines, spread } in metric.clusters {
                    let what = What::Bytes {
                        figure: figure.clone(),
                        usual: metric.usual,
                        these: spread,
                    };
                    differences.push(self.difference(machines, metric.usual.count, what));
                }
                usual.used_bytes.insert(figure.clone(), metric.usual);
            }
        }
        (usual, differences)
    }

    fn difference(&self, machines: Vec<usize>, usual_machines: usize, what: What) -> Difference {
        let (group, question) = (self.group, self.question);
        Difference {
            group,
            question,
            machines,
            usual_machines,
            is_split: false,
            what,
        }
    }
}
