//! Labels by which machines differ: a rack, an image of a driver.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::document::{Fleet, LabelShare};
use super::names::NAMES;

/// With fewer machines a label tells no more than a name.
const FEWEST: usize = 2;
/// A label is told if its machines differ so many times as often as the others.
const TIMES: usize = 2;

/// The labels of which the machines differ far more often than the others do, the clearest first.
pub fn labels(fleet: &Fleet) -> Vec<LabelShare> {
    let differences = fleet.differences.iter().filter(|it| !it.is_split());
    let differing: HashSet<usize> = differences.flat_map(|it| it.machines.iter().copied()).collect();
    let all = fleet.machines.len();
    let known = differing.iter().filter(|machine| **machine < all).count();
    let shares = by_label(fleet, 0..all).into_iter().map(|(label, with)| {
        let inside = with.iter().filter(|machine| differing.contains(machine)).count();
        let (machines, others) = (with.len(), all - with.len());
        LabelShare { label, machines, differing: inside, others, others_differing: known - inside }
    });
    let mut shares: Vec<LabelShare> = shares.filter(is_clear).collect();
    shares.sort_by(|a, b| b.differing.cmp(&a.differing).then(a.machines.cmp(&b.machines)));
    shares
}

fn is_clear(share: &LabelShare) -> bool {
    // As products, because either number of machines may be 0.
    let with = share.differing.saturating_mul(share.others);
    let without = share.others_differing.saturating_mul(share.machines);
    share.differing >= FEWEST && share.others > 0 && with >= without.saturating_mul(TIMES)
}

/// The labels that all of these machines have, and no other machine of these groups.
pub(super) fn only_of(fleet: &Fleet, machines: &[usize], groups: &BTreeSet<usize>) -> Vec<String> {
    if machines.len() < FEWEST {
        return Vec::new();
    }
    let these: HashSet<usize> = machines.iter().copied().collect();
    let members: HashSet<usize> =
        groups.iter().filter_map(|at| fleet.groups.get(*at)).flat_map(|group| group.machines.iter().copied()).collect();
    let labels = by_label(fleet, members.into_iter()).into_iter();
    let labels = labels.filter(|(_, with)| with.len() == these.len() && with.iter().all(|it| these.contains(it)));
    labels.map(|(label, _)| label).collect()
}

/// Machines by label, without the labels that name a machine.
fn by_label(fleet: &Fleet, machines: impl Iterator<Item = usize>) -> BTreeMap<String, Vec<usize>> {
    let mut all: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for place in machines {
        let labels = fleet.machines.get(place).into_iter().flat_map(|machine| &machine.labels);
        for (name, value) in labels.filter(|(name, _)| !NAMES.contains(&name.as_str())) {
            all.entry(format!("{name}={value}")).or_default().push(place);
        }
    }
    all
}
