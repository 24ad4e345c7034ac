//! Differences that look like one: of the same machines, of one kind, and alike.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::document::{Alike, Difference, Fleet, SharedCause, What};
use super::label;
use super::spread::noise;

/// Of each set of machines, split or not, the indices of its causes, each with its first difference.
type KnownCauses<'f> = HashMap<(&'f [usize], bool), Vec<(usize, &'f Difference)>>;

/// What differs by cause, in the order of the first differences.
pub fn causes(fleet: &Fleet) -> Vec<SharedCause> {
    let mut causes: Vec<SharedCause> = Vec::new();
    let mut known = KnownCauses::new();
    for (index, difference) in fleet.differences.iter().enumerate() {
        let same = known.entry((&difference.machines, difference.is_split())).or_default();
        let found = same.iter().find(|(_, first)| has_same_cause(fleet, first, difference));
        if let Some(cause) = found.and_then(|(cause, _)| causes.get_mut(*cause)) {
            cause.differences.push(index);
            if !cause.questions.contains(&difference.question) {
                cause.questions.push(difference.question);
            }
        } else {
            same.push((causes.len(), difference));
            causes.push(SharedCause {
                alike: alike(fleet, difference),
                machines: difference.machines.clone(),
                questions: vec![difference.question],
                differences: vec![index],
                labels: Vec::new(),
            });
        }
    }
    for cause in &mut causes {
        let differences = cause.differences.iter().filter_map(|at| fleet.differences.get(*at));
        let groups: BTreeSet<usize> = differences.map(|it| it.group).collect();
        cause.labels = label::only_of(fleet, &cause.machines, &groups);
    }
    causes
}

/// Whether two differences of the same machines are alike. Another verdict with the usual facts is like nothing else.
fn has_same_cause(fleet: &Fleet, one: &Difference, other: &Difference) -> bool {
    match (&one.what, &other.what) {
        (What::Outcome { verdict_differs: a, facts, .. }, What::Outcome { verdict_differs: b, facts: others, .. }) => {
            a == b && facts.first().zip(others.first()).is_some_and(|(fact, other)| fact.says_the_same(other))
        }
        (What::NoAnswer { reasons }, What::NoAnswer { reasons: others }) => reasons.keys().eq(others.keys()),
        _ => match (amount(fleet, one), amount(fleet, other)) {
            (Some((a, noise_a)), Some((b, noise_b))) => is_same(a, b, noise_a.min(noise_b)),
            _ => false,
        },
    }
}

fn alike(fleet: &Fleet, difference: &Difference) -> Alike {
    match &difference.what {
        What::Outcome { verdict_differs, facts, .. } => {
            Alike::Outcome { verdict_differs: *verdict_differs, fact: facts.first().cloned() }
        }
        What::NoAnswer { reasons } => Alike::NoAnswer { reasons: reasons.keys().cloned().collect() },
        What::Bytes { .. } => {
            let (more_bytes, noise) = amount(fleet, difference).unwrap_or_default();
            let is_context = context(fleet, difference).is_some_and(|more| is_same(more, more_bytes, noise));
            Alike::Bytes { more_bytes, is_context }
        }
    }
}

fn is_same(a: i64, b: i64, noise: u64) -> bool {
    a.signum() == b.signum() && a.abs_diff(b) <= noise
}

/// How much more the machines use than usual, and what is noise there.
fn amount(fleet: &Fleet, difference: &Difference) -> Option<(i64, u64)> {
    let What::Bytes { usual, these, .. } = &difference.what else { return None };
    let is_shared = fleet.groups.get(difference.group).is_some_and(|group| group.key.shared);
    let more = these.median_bytes.saturating_sub(usual.median_bytes);
    Some((more, noise(usual.median_bytes, is_shared)))
}

/// How much more a context takes on these machines than on the others of the group: by the calibrations, in the middle.
fn context(fleet: &Fleet, difference: &Difference) -> Option<i64> {
    let members = &fleet.groups.get(difference.group)?.machines;
    let differs: HashSet<&usize> = difference.machines.iter().collect();
    let (these, others): (Vec<usize>, Vec<usize>) = members.iter().partition(|machine| differs.contains(machine));
    Some(middle_context(fleet, &these)?.saturating_sub(middle_context(fleet, &others)?))
}

fn middle_context(fleet: &Fleet, machines: &[usize]) -> Option<i64> {
    let contexts = machines.iter().filter_map(|machine| fleet.machines.get(*machine)?.context_bytes);
    let mut contexts: Vec<u64> = contexts.collect();
    contexts.sort_unstable();
    contexts.get(contexts.len() / 2).and_then(|bytes| i64::try_from(*bytes).ok())
}
