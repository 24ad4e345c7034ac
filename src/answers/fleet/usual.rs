//! Usual result of a group for a question, and the machines that differ from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::answer::{Same, SharedAnswer, Shown, UNREAD};
use super::change::facts_that_differ as differing_facts;
use super::document::{ByteSpread, Difference, GroupOutcome, Key, Usual, What};
use super::spread::noise_limit;

/// A document's answer to the current question.
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
    /// Machines that are compared, in ascending order.
    pub(super) members: &'a [usize],
    pub(super) key: &'a Key,
    pub(super) question: usize,
}

/// A machine's value of a figure. In this order, outliers with similar values are neighbors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FigureReading {
    bytes: i64,
    machine: usize,
}

/// A figure over the machines with one outcome.
struct Metric {
    /// Range of all machines except the outliers.
    usual: ByteSpread,
    /// Clusters of outliers with similar values, because a single cause is a single difference.
    clusters: Vec<Cluster>,
}

/// Outliers on one side of the median whose distances are within the noise.
struct Cluster {
    machines: Vec<usize>,
    spread: ByteSpread,
}

/// Machines with the same answer. An answer is compared once, not once for each machine.
pub(super) struct AnswerGroup<'a> {
    pub(super) answer: &'a SharedAnswer,
    pub(super) given: Vec<Given<'a>>,
}

impl<'a> AnswerGroup<'a> {
    /// Returns the groups in the order of their first machines.
    pub(super) fn split(given: impl IntoIterator<Item = Given<'a>>) -> Vec<AnswerGroup<'a>> {
        let mut groups: Vec<AnswerGroup> = Vec::new();
        let mut places: HashMap<*const SharedAnswer, usize> = HashMap::new();
        for one in given {
            let place = *places.entry(one.answer).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.given.push(one),
                None => groups.push(AnswerGroup {
                    answer: one.answer,
                    given: vec![one],
                }),
            }
        }
        groups
    }

    /// Returns the values of a figure that could be read. A figure that the answer does not list is 0, because
    /// unchanged memory is not listed.
    fn readings(&self, figure: &str) -> impl Iterator<Item = FigureReading> {
        let index = self.answer.figures.iter().position(|known| known == figure);
        self.given.iter().filter_map(move |one| {
            let bytes = index.map_or(Some(0), |index| one.figures.get(index).copied())?;
            let machine = one.machine;
            (bytes != UNREAD).then_some(FigureReading { bytes, machine })
        })
    }
}

fn count_machines(groups: &[&AnswerGroup<'_>]) -> usize {
    groups.iter().map(|group| group.given.len()).sum()
}

/// Returns the machines of all groups, in ascending order.
fn list_machines(groups: &[&AnswerGroup<'_>]) -> Vec<usize> {
    let given = groups.iter().flat_map(|group| &group.given);
    let mut machines: Vec<usize> = given.map(|one| one.machine).collect();
    machines.sort_unstable();
    machines
}

impl Metric {
    fn new(figure: &str, groups: &[&AnswerGroup<'_>], is_shared: bool) -> Option<Metric> {
        let groups = groups.iter();
        let readings: Vec<FigureReading> =
            groups.flat_map(|group| group.readings(figure)).collect();
        let all = ByteSpread::new(readings.iter().map(|reading| reading.bytes))?;
        let (mut outliers, mut usual) = (Vec::new(), Vec::new());
        for reading in readings {
            if all.is_outlier(reading.bytes, is_shared) {
                outliers.push(reading);
            } else {
                usual.push(reading);
            }
        }
        outliers.sort_unstable();
        let (median, noise) = (all.median_bytes, noise_limit(all.median_bytes, is_shared));
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
    /// Returns the usual result, and every difference from it.
    pub(super) fn usual_and_differences(&self) -> (Usual, Vec<Difference>) {
        let groups = AnswerGroup::split(self.given.iter().copied());
        let mut by_outcome: BTreeMap<&Same, Vec<&AnswerGroup>> = BTreeMap::new();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut silent = Vec::new();
        for group in &groups {
            match &group.answer.shown {
                Shown::Outcome(same) => by_outcome.entry(same).or_default().push(group),
                Shown::Nothing(reason) => {
                    *reasons.entry(reason.clone()).or_default() += group.given.len();
                    silent.push(group);
                }
            }
        }
        let mut outcomes: Vec<(&Same, Vec<&AnswerGroup>)> = by_outcome.into_iter().collect();
        // A stable sort: outcomes with the same number of machines stay in the order of their facts.
        outcomes.sort_by_key(|(_, groups)| std::cmp::Reverse(count_machines(groups)));
        let mut usual = self.usual(&groups, &outcomes, list_machines(&silent));
        let Some(((first, of_first), others)) = outcomes.split_first() else {
            return (usual, Vec::new());
        };
        let showed_first = count_machines(of_first);
        let answered = self.given.len() - usual.no_answer.len();
        let is_split = showed_first * 2 <= answered;
        let mut differences = Vec::new();
        for (outcome, (same, groups)) in (1..).zip(others) {
            let what = What::Outcome {
                outcome,
                verdict_differs: same.kind != first.kind,
                facts: differing_facts(&first.facts, &same.facts),
            };
            let other = self.difference(list_machines(groups), showed_first, what);
            differences.push(Difference { is_split, ..other });
        }
        if !usual.no_answer.is_empty() {
            let is_split = usual.no_answer.len() >= answered;
            let machines = usual.no_answer.clone();
            let silent = self.difference(machines, answered, What::NoAnswer { reasons });
            differences.push(Difference { is_split, ..silent });
        }
        if !is_split {
            self.compare_figures(of_first, &mut usual, &mut differences);
        }
        (usual, differences)
    }

    fn usual(
        &self,
        groups: &[AnswerGroup<'_>],
        outcomes: &[(&Same, Vec<&AnswerGroup<'_>>)],
        no_answer: Vec<usize>,
    ) -> Usual {
        let shown = outcomes.iter().map(|(same, groups)| GroupOutcome {
            kind: same.kind,
            facts: same.facts.clone(),
            machines: count_machines(groups),
        });
        let mut unexpected: Vec<&AnswerGroup> = groups.iter().collect();
        unexpected.retain(|group| group.answer.is_unexpected);
        let there: HashSet<usize> = self.given.iter().map(|given| given.machine).collect();
        let mut not_asked = Vec::new();
        if there.len() < self.members.len() {
            not_asked.extend(self.members);
            not_asked.retain(|machine| !there.contains(machine));
        }
        Usual {
            question: self.question,
            outcomes: shown.collect(),
            no_answer,
            not_asked,
            unexpected: list_machines(&unexpected),
            ..Usual::default()
        }
    }

    /// Compares the figures of the machines with the usual outcome.
    fn compare_figures(
        &self,
        groups: &[&AnswerGroup<'_>],
        usual: &mut Usual,
        differences: &mut Vec<Difference>,
    ) {
        let figures: BTreeSet<&String> = groups
            .iter()
            .flat_map(|group| &group.answer.figures)
            .collect();
        for figure in figures {
            let Some(metric) = Metric::new(figure, groups, self.key.shared) else {
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
