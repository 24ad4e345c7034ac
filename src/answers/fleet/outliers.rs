//! Machines that differ, grouped by the set of their differences, and the labels that only they have.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::{Difference, Fleet, Outliers, What};
use super::names::NAMES;

/// Minimum number of machines for which labels are compared. A label of a single machine contains no more information
/// than its name.
const FEWEST: usize = 2;

/// Subject of a difference, regardless of the machine's result: the question with the case, the step or the figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect<'f> {
    NoCuda,
    Verdict(usize),
    Fact(usize, &'f str, &'f str),
    NoAnswer(usize),
    Bytes {
        question: usize,
        figure: &'f str,
        is_more: bool,
    },
}

/// Returns the machines that differ from a majority. Machines where CUDA does not start come first; the others are
/// ordered by their first difference.
pub fn outliers(fleet: &Fleet) -> Vec<Outliers> {
    let mut known: BTreeMap<usize, (BTreeSet<Aspect<'_>>, Vec<usize>)> = BTreeMap::new();
    for (index, machine) in fleet.machines.iter().enumerate() {
        if machine.no_cuda.is_some() {
            known.entry(index).or_default().0.insert(Aspect::NoCuda);
        }
    }
    for (index, difference) in fleet.differences.iter().enumerate() {
        if difference.is_split {
            continue;
        }
        let aspects = difference_aspects(difference);
        for machine in &difference.machines {
            if *machine >= fleet.machines.len() {
                continue;
            }
            let (all, differences) = known.entry(*machine).or_default();
            all.extend(aspects.iter().cloned());
            differences.push(index);
        }
    }
    let mut sets: BTreeMap<BTreeSet<Aspect<'_>>, Outliers> = BTreeMap::new();
    for (machine, (aspects, differences)) in known {
        let no_cuda = aspects.contains(&Aspect::NoCuda);
        let outliers = sets.entry(aspects).or_insert_with(|| Outliers {
            no_cuda,
            ..Outliers::default()
        });
        outliers.machines.push(machine);
        outliers.differences.extend(differences);
    }
    let holders = count_labels(fleet);
    let mut all: Vec<Outliers> = sets.into_values().collect();
    for outliers in &mut all {
        outliers.differences.sort_unstable();
        outliers.differences.dedup();
        outliers.labels = shared_labels(fleet, &outliers.machines, &holders);
    }
    all.sort_by(|a, b| {
        b.no_cuda
            .cmp(&a.no_cuda)
            .then_with(|| a.differences.cmp(&b.differences))
    });
    all
}

fn difference_aspects(difference: &Difference) -> Vec<Aspect<'_>> {
    let question = difference.question;
    match &difference.what {
        What::Outcome {
            verdict_differs,
            facts,
            ..
        } => {
            let mut aspects = Vec::new();
            if *verdict_differs {
                aspects.push(Aspect::Verdict(question));
            }
            for fact in facts {
                if let Some(change) = fact.usual.as_ref().or(fact.these.as_ref()) {
                    aspects.push(Aspect::Fact(question, &fact.case, &change.label));
                }
            }
            aspects
        }
        What::NoAnswer { .. } => vec![Aspect::NoAnswer(question)],
        What::Bytes {
            figure,
            usual,
            these,
        } => {
            vec![Aspect::Bytes {
                question,
                figure,
                is_more: these.median_bytes > usual.median_bytes,
            }]
        }
    }
}

/// Returns the number of machines of the fleet with each label.
fn count_labels(fleet: &Fleet) -> HashMap<(&str, &str), usize> {
    let mut holders = HashMap::new();
    for (name, value) in fleet.machines.iter().flat_map(|machine| &machine.labels) {
        *holders.entry((name.as_str(), value.as_str())).or_default() += 1;
    }
    holders
}

/// Returns the labels that all of these machines have and no other machine has, except labels with the name of a
/// machine.
fn shared_labels(
    fleet: &Fleet,
    these: &[usize],
    holders: &HashMap<(&str, &str), usize>,
) -> Vec<String> {
    let mut machines = these
        .iter()
        .filter_map(|machine| fleet.machines.get(*machine));
    let Some(first) = machines.next() else {
        return Vec::new();
    };
    if these.len() < FEWEST {
        return Vec::new();
    }
    let others: Vec<_> = machines.collect();
    let mut shared = Vec::new();
    for (name, value) in &first.labels {
        let is_shared = others
            .iter()
            .all(|machine| machine.labels.get(name) == Some(value));
        if is_shared
            && holders.get(&(name.as_str(), value.as_str())) == Some(&these.len())
            && !NAMES.contains(&name.as_str())
        {
            shared.push(format!("{name}={value}"));
        }
    }
    shared
}
