//! From what many documents answer to one document: groups, what is usual in them, and who differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::names::{Names, Owner};
use super::pool::{Answers, Kept, Pool};
use super::usual::{Asked, Given};
use super::{Bucket, Difference, Expected, Fleet, Group, Key, Machine, NotMerged, Question, SCHEMA, Usual};
use cuda_pitfalls_core::report::SchemaId;

/// What the program knows of a scenario that a report only names.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The question.
    pub question: String,
    /// The page of the pitfall.
    pub page: Option<String>,
}

/// Merges what was read. `expected` are the names of those that should have reported, `words` what the program
/// knows of a scenario.
pub fn merge(pool: Pool, expected: Option<&[String]>, words: impl Fn(&str) -> Option<Words>) -> Fleet {
    let (rule, answers, kept, mut input) = pool.into_parts();
    let names = Names::of(&kept);
    // Each machine's documents stand together, the latest first; one that is dated in the future comes last.
    let mut owned: Vec<(Owner, Kept)> = names.owners(&kept).into_iter().zip(kept).collect();
    owned.sort_by(|(owner, one), (other_owner, other)| {
        let owners = owner.cmp(other_owner).then(one.is_of_the_future.cmp(&other.is_of_the_future));
        owners.then(other.digest.started_at.cmp(&one.digest.started_at)).then(one.path.cmp(&other.path))
    });
    let (owners, kept): (Vec<Owner>, Vec<Kept>) = owned.into_iter().unzip();

    let members = Members::of(&answers, &kept, &owners);
    for (one, is_used) in kept.iter().zip(&members.used) {
        if !is_used {
            let from = if one.digest.is_partial { Bucket::Partial } else { Bucket::Merged };
            let (bucket, why) = if one.is_of_the_future {
                let why = "which is in the future; another report of this machine answers the same questions";
                (Bucket::Future, format!("its run began at {}, {why}", one.digest.started_at))
            } else {
                (Bucket::Duplicate, "a later report of this machine answers the same questions".to_owned())
            };
            input.recount(from, NotMerged { path: one.path.clone(), bucket, why });
        }
    }
    input.shorten();
    let used = || kept.iter().zip(&members.used).filter(|(_, is_used)| **is_used).map(|(one, _)| one);
    let times = || used().filter(|one| !one.is_of_the_future).map(|one| &one.digest.started_at);
    input.from = times().min().cloned();
    input.to = times().max().cloned();

    let mut machines = machines(&kept, &owners, &members);
    warn_of_clashes(&mut machines);
    let expected = expected.map(|names| {
        let all: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let called = |machine: &'_ Machine| machine.shared_name.clone().unwrap_or_else(|| machine.name.clone());
        let there: BTreeSet<String> = machines.iter().map(called).collect();
        let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
        let only = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| a.difference(b).map(|name| (*name).to_owned()).collect();
        Expected { machines: all.len(), missing: only(&all, &there), unexpected: only(&there, &all) }
    });
    let mut fleet = Fleet {
        schema: SchemaId::current(SCHEMA),
        provenance: rule.provenance,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        input,
        expected,
        machines,
        questions: Vec::new(),
        groups: members.groups.iter().map(|(key, machines)| group(key, machines)).collect(),
        differences: Vec::new(),
        causes: Vec::new(),
        labels: Vec::new(),
    };
    Questions { answers: &answers, kept: &kept, members: &members, words: &words }.ask(&mut fleet);
    fleet.ranked()
}

fn group(key: &Key, machines: &BTreeSet<usize>) -> Group {
    Group { key: key.clone(), machines: machines.iter().copied().collect(), usual: Vec::new() }
}

/// Which machine answered what in which group, without the answers.
struct Members {
    /// The groups in the order of the document, each with its machines.
    groups: Vec<(Key, BTreeSet<usize>)>,
    /// The groups of each document by libcudart.
    places: Vec<HashMap<String, usize>>,
    /// The machine of each document.
    machines: Vec<usize>,
    /// Whether anything of a document is compared.
    used: Vec<bool>,
}

impl Members {
    fn of(answers: &Answers, kept: &[Kept], owners: &[Owner]) -> Members {
        let mut machines = Vec::with_capacity(owners.len());
        let mut known: Vec<&Owner> = Vec::new();
        let mut used = vec![false; kept.len()];
        let mut all: BTreeMap<Key, BTreeSet<usize>> = BTreeMap::new();
        // By machine: which names each group has already. A later document comes first.
        let mut asked: HashMap<Key, BTreeSet<u32>> = HashMap::new();
        for (place, (one, owner)) in kept.iter().zip(owners).enumerate() {
            let is_first = known.last() != Some(&owner);
            if is_first {
                asked.clear();
                known.push(owner);
            }
            let machine = known.len() - 1;
            machines.push(machine);
            let mut by_library: HashMap<&str, (Key, Vec<u32>)> = HashMap::new();
            for answer in one.answers.iter().filter_map(|at| answers.all.get(*at as usize)) {
                let of_library = by_library.entry(&answer.libcudart).or_insert_with(|| {
                    (Key { libcudart: answer.libcudart.clone(), ..one.digest.key.clone() }, Vec::new())
                });
                of_library.1.push(answer.name);
            }
            for (key, names) in by_library.into_values() {
                let known = asked.entry(key.clone()).or_default();
                let before = known.len();
                known.extend(names);
                if known.len() > before {
                    used[place] = true;
                    all.entry(key).or_default().insert(machine);
                }
            }
        }
        let mut groups: Vec<(Key, BTreeSet<usize>)> = all.into_iter().collect();
        groups.sort_by(|(a, of_a), (b, of_b)| of_b.len().cmp(&of_a.len()).then_with(|| a.cmp(b)));
        let index: HashMap<&Key, usize> = groups.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
        let libraries: BTreeSet<&String> = groups.iter().map(|(key, _)| &key.libcudart).collect();
        let mut by_key: HashMap<&Key, HashMap<String, usize>> = HashMap::new();
        for one in kept {
            by_key.entry(&one.digest.key).or_insert_with(|| {
                let place = |library: &&String| {
                    let key = Key { libcudart: (*library).clone(), ..one.digest.key.clone() };
                    Some(((*library).clone(), *index.get(&key)?))
                };
                libraries.iter().filter_map(place).collect()
            });
        }
        let places = kept.iter().map(|one| by_key.get(&one.digest.key).cloned().unwrap_or_default()).collect();
        Members { groups, places, machines, used }
    }
}

fn machines(kept: &[Kept], owners: &[Owner], members: &Members) -> Vec<Machine> {
    let mut all: Vec<Machine> = Vec::new();
    for ((one, owner), (machine, is_used)) in kept.iter().zip(owners).zip(members.machines.iter().zip(&members.used)) {
        if *machine == all.len() {
            let warnings = owner.shared_name.iter().map(|name| format!("another machine is called {name} too"));
            all.push(Machine {
                name: owner.name.clone(),
                shared_name: owner.shared_name.clone(),
                warnings: warnings.collect(),
                ..Machine::default()
            });
        }
        // The latest document of a machine comes first, and is always used.
        let Some(known) = all.get_mut(*machine).filter(|_| *is_used) else { continue };
        for (name, value) in &one.digest.labels {
            known.labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        known.gpus.extend(one.digest.gpus.iter().cloned());
        known.gpus.sort();
        known.gpus.dedup();
        known.reports.push(one.path.clone());
        // Those that are dated in the future come after the others.
        if known.started_at.is_empty() || (!one.is_of_the_future && known.started_at < one.digest.started_at) {
            known.started_at.clone_from(&one.digest.started_at);
        }
        if one.is_of_the_future {
            known.dated_ahead = true;
            known.warnings.push(format!("a report of it is dated in the future: {}", one.digest.started_at));
        }
        known.partial |= one.digest.is_partial;
        // The latest report that was calibrated.
        known.context_bytes = known.context_bytes.or(one.digest.context_bytes);
        for (kind, count) in &one.digest.verdicts {
            *known.verdicts.entry(*kind).or_insert(0) += count;
        }
        known.unexpected += one.digest.unexpected;
        known.warnings.extend(
            one.digest.warnings.iter().filter(|why| !known.warnings.contains(why)).cloned().collect::<Vec<_>>(),
        );
    }
    all
}

/// Two names with one GPU: a machine that was renamed, a label that was copied, or a report that was made up.
fn warn_of_clashes(machines: &mut [Machine]) {
    let mut owners: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, machine) in machines.iter().enumerate() {
        for gpu in &machine.gpus {
            owners.entry(gpu.clone()).or_default().push(place);
        }
    }
    let names: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
    let mut clashes: BTreeSet<(usize, usize)> = BTreeSet::new();
    for places in owners.values().filter(|places| places.len() > 1) {
        // Each names one other: of a thousand with one UUID a million pairs would be named.
        let after = places.iter().skip(1).chain(places.first());
        clashes.extend(places.iter().copied().zip(after.copied()));
    }
    for (one, other) in clashes {
        if let (Some(machine), Some(name)) = (machines.get_mut(one), names.get(other)) {
            machine.warnings.push(format!("has a GPU with the UUID of one of {name}"));
        }
    }
}

/// Answers by what was asked and by group; empty for what most were asked.
type Variants<'a> = BTreeMap<String, BTreeMap<usize, Vec<Given<'a>>>>;

struct Questions<'a, W> {
    answers: &'a Answers,
    kept: &'a [Kept],
    members: &'a Members,
    words: &'a W,
}

impl<'a, W: Fn(&str) -> Option<Words>> Questions<'a, W> {
    /// Merges one question after the other, so that the answers to only one are in memory in a second order.
    fn ask(&self, fleet: &mut Fleet) {
        let mut cursors = vec![(0_usize, 0_usize); self.kept.len()];
        let mut found: BTreeMap<String, Vec<(usize, Usual, Vec<Difference>)>> = BTreeMap::new();
        let mut about: HashMap<String, Question> = HashMap::new();
        for name in 0..u32::try_from(self.answers.names.len()).unwrap_or(u32::MAX) {
            let mut given: BTreeMap<usize, Vec<Given<'a>>> = BTreeMap::new();
            for (place, cursor) in cursors.iter_mut().enumerate() {
                self.advance(name, place, cursor, &mut given);
            }
            for (asked, variant) in Self::variants(given) {
                let question = self.question(name, &asked);
                let key = question.name.clone();
                about.insert(key.clone(), question);
                let results = variant.into_iter().map(|(group, given)| {
                    let members = &self.members.groups[group];
                    let (usual, differences) = Asked { given, members: &members.1, key: &members.0 }.result(group);
                    (group, usual, differences)
                });
                found.entry(key).or_default().extend(results);
            }
        }
        for (place, (name, results)) in found.into_iter().enumerate() {
            fleet.questions.extend(about.remove(&name));
            for (group, mut usual, differences) in results {
                usual.question = place;
                fleet.differences.extend(differences.into_iter().map(|it| Difference { question: place, ..it }));
                if let Some(group) = fleet.groups.get_mut(group) {
                    group.usual.push(usual);
                }
            }
        }
    }

    /// Takes the answers to one question out of a document, which has them in the order of names.
    fn advance(
        &self,
        name: u32,
        place: usize,
        (at, figure): &mut (usize, usize),
        given: &mut BTreeMap<usize, Vec<Given<'a>>>,
    ) {
        let (Some(one), Some(machine)) = (self.kept.get(place), self.members.machines.get(place)) else { return };
        while let Some(answer) = one.answers.get(*at).and_then(|at| self.answers.all.get(*at as usize)) {
            if answer.name != name {
                return;
            }
            let end = *figure + answer.figures.len();
            let figures = one.figures.get(*figure..end).unwrap_or_default();
            (*at, *figure) = (*at + 1, end);
            let Some(group) = self.members.places.get(place).and_then(|it| it.get(&answer.libcudart)) else { continue };
            let all = given.entry(*group).or_default();
            // A later document of the machine stands before this one, and what it says counts.
            if all.last().is_none_or(|last| last.machine != *machine) {
                all.push(Given { machine: *machine, answer, figures });
            }
        }
    }

    /// The answers by what was asked. Answers that do not say what was asked join the most frequent ones.
    fn variants(given: BTreeMap<usize, Vec<Given<'a>>>) -> Variants<'a> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for one in given.values().flatten().filter(|one| !one.answer.asked.is_empty()) {
            *counts.entry(&one.answer.asked).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|(asked, count)| (**count, std::cmp::Reverse(**asked)));
        let usual = most.map(|(asked, _)| (*asked).to_owned()).unwrap_or_default();
        let mut variants = Variants::new();
        for (group, all) in given {
            let mut in_group: BTreeMap<&str, usize> = BTreeMap::new();
            for one in all.iter().filter(|one| !one.answer.asked.is_empty()) {
                *in_group.entry(&one.answer.asked).or_default() += 1;
            }
            let most = in_group.iter().max_by_key(|(asked, count)| (**count, std::cmp::Reverse(**asked)));
            let most = most.map_or(usual.as_str(), |(asked, _)| asked).to_owned();
            for one in all {
                let asked = if one.answer.asked.is_empty() { &most } else { &one.answer.asked };
                // The usual variant has the plain name.
                let asked = if *asked == usual { String::new() } else { asked.clone() };
                variants.entry(asked).or_default().entry(group).or_default().push(one);
            }
        }
        variants
    }

    fn question(&self, name: u32, asked: &str) -> Question {
        let known = self.answers.names.get(name as usize);
        let (plain, scenario, words) =
            known.map_or(("", "", ""), |name| (name.name.as_str(), name.scenario.as_str(), name.words.as_str()));
        let built_in = (self.words)(scenario).unwrap_or_default();
        Question {
            name: if asked.is_empty() { plain.to_owned() } else { format!("{plain} (asked otherwise: {asked})") },
            question: if words.is_empty() { built_in.question } else { words.to_owned() },
            page: built_in.page,
            is_row: scenario.is_empty(),
        }
    }
}
