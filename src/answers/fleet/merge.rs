//! From what many documents answer to one document: groups, what is usual in them, and who differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::document::{
    Bucket, Difference, ExpectedMachines, Fleet, FleetMachine, Group, Key, NotMerged, Question, SCHEMA, Usual,
};
use super::driver;
use super::names::{DocumentOwner, owners};
use super::pool::{Answers, DocumentPool, Name, PooledDocument};
use super::usual::{Given, GroupQuestion};
use cuda_pitfalls_core::report::SchemaId;

/// What the program knows of a scenario that a report only names.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The question.
    pub question: String,
    /// The page of the pitfall.
    pub page: Option<String>,
}

/// Merges what was read. `expected` are the names of those that should report, `words` what is known of a scenario.
pub fn merge(pool: DocumentPool, expected: Option<&[String]>, words: impl Fn(&str) -> Option<Words>) -> Fleet {
    let (rule, answers, kept, mut input) = pool.into_parts();
    // Each machine's documents stand together, the latest first; one that is dated in the future comes last.
    let mut owned: Vec<(DocumentOwner, PooledDocument)> = owners(&kept).into_iter().zip(kept).collect();
    owned.sort_by(|(owner, one), (other_owner, other)| {
        let owners = owner.cmp(other_owner).then(one.is_of_the_future.cmp(&other.is_of_the_future));
        owners.then(other.digest.machine.started_at.cmp(&one.digest.machine.started_at)).then(one.path.cmp(&other.path))
    });
    let (owners, kept): (Vec<DocumentOwner>, Vec<PooledDocument>) = owned.into_iter().unzip();

    let members = Members::new(&answers, &kept, &owners);
    for (one, is_used) in kept.iter().zip(&members.used) {
        if !is_used {
            let from = if one.digest.machine.partial { Bucket::Partial } else { Bucket::Merged };
            let (bucket, why) = if one.is_of_the_future {
                let why = "which is in the future; another report of this machine answers the same questions";
                (Bucket::Future, format!("its run began at {}, {why}", one.digest.machine.started_at))
            } else {
                (Bucket::Duplicate, "a later report of this machine answers the same questions".to_owned())
            };
            input.recount(from, NotMerged { path: one.path.clone(), bucket, why });
        }
    }
    input.shorten();
    let used = kept.iter().zip(&members.used).filter(|(one, is_used)| **is_used && !one.is_of_the_future);
    let times: BTreeSet<&String> = used.map(|(one, _)| &one.digest.machine.started_at).collect();
    (input.from, input.to) = (times.first().copied().cloned(), times.last().copied().cloned());

    let mut machines = machines(&kept, &owners, &members);
    warn_of_clashes(&mut machines);
    let expected = expected.map(|names| ExpectedMachines::new(names, &machines));
    let groups = members.groups.iter().map(|(key, machines)| Group {
        key: key.clone(),
        machines: machines.iter().copied().collect(),
        usual: Vec::new(),
    });
    let mut fleet = Fleet {
        schema: SchemaId::current(SCHEMA),
        provenance: rule.provenance,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        input,
        expected,
        machines,
        groups: groups.collect(),
        ..Fleet::default()
    };
    QuestionMerge { answers: &answers, kept: &kept, members: &members, words: &words }.ask(&mut fleet);
    driver::compare(&mut fleet);
    fleet.ranked()
}

impl ExpectedMachines {
    fn new(names: &[String], machines: &[FleetMachine]) -> ExpectedMachines {
        let all: BTreeSet<&String> = names.iter().collect();
        let there: BTreeSet<&String> = machines.iter().map(|it| it.shared_name.as_ref().unwrap_or(&it.name)).collect();
        ExpectedMachines {
            machines: all.len(),
            missing: all.difference(&there).copied().cloned().collect(),
            unexpected: there.difference(&all).copied().cloned().collect(),
        }
    }
}

/// Which machine answered what in which group, without the answers.
struct Members {
    /// The groups in the order of the document, each with its machines.
    groups: Vec<(Key, BTreeSet<usize>)>,
    /// The groups of each document by libcudart.
    places: Vec<HashMap<String, usize>>,
    machines: Vec<usize>,
    /// Whether anything of a document is compared.
    used: Vec<bool>,
}

impl Members {
    fn new(answers: &Answers, kept: &[PooledDocument], owners: &[DocumentOwner]) -> Members {
        let mut machines = Vec::with_capacity(owners.len());
        let mut known: Vec<&DocumentOwner> = Vec::new();
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
            let mut by_library: HashMap<&str, Vec<u32>> = HashMap::new();
            for (name, answer) in one.answers.iter().filter_map(|at| answers.all.get(*at as usize)) {
                by_library.entry(&answer.libcudart).or_default().push(*name);
            }
            for (library, names) in by_library {
                let key = Key { libcudart: library.to_owned(), ..one.digest.key.clone() };
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
        // By what is known of a document without its answers.
        let mut by_key: HashMap<Key, HashMap<String, usize>> = HashMap::new();
        for (at, (key, _)) in groups.iter().enumerate() {
            let without = Key { libcudart: String::new(), ..key.clone() };
            by_key.entry(without).or_default().insert(key.libcudart.clone(), at);
        }
        let places = kept.iter().map(|one| by_key.get(&one.digest.key).cloned().unwrap_or_default()).collect();
        Members { groups, places, machines, used }
    }
}

fn machines(kept: &[PooledDocument], owners: &[DocumentOwner], members: &Members) -> Vec<FleetMachine> {
    let mut all: Vec<FleetMachine> = Vec::new();
    let places = members.machines.iter().zip(&members.used);
    for ((one, owner), (machine, is_used)) in kept.iter().zip(owners).zip(places) {
        if *machine == all.len() {
            let warnings = owner.shared_name.iter().map(|name| format!("another machine is called {name} too"));
            all.push(FleetMachine {
                name: owner.name.clone(),
                shared_name: owner.shared_name.clone(),
                warnings: warnings.collect(),
                ..FleetMachine::default()
            });
        }
        // The latest document of a machine comes first, and is always used.
        if let Some(known) = all.get_mut(*machine).filter(|_| *is_used) {
            known.add(one);
        }
    }
    all
}

impl FleetMachine {
    /// Adds what a document says, of which those that are dated in the future come after the others.
    fn add(&mut self, PooledDocument { path, is_of_the_future, digest, .. }: &PooledDocument) {
        let said = digest.machine.clone();
        for (name, value) in said.labels {
            self.labels.entry(name).or_insert(value);
        }
        self.gpus.extend(said.gpus);
        self.gpus.sort();
        self.gpus.dedup();
        self.reports.push(path.clone());
        if *is_of_the_future {
            self.dated_ahead = true;
            self.warnings.push(format!("a report of it is dated in the future: {}", said.started_at));
        }
        if self.started_at.is_empty() || (!is_of_the_future && self.started_at < said.started_at) {
            self.started_at = said.started_at;
        }
        self.partial |= said.partial;
        // The latest report that was calibrated.
        self.context_bytes = self.context_bytes.or(said.context_bytes);
        for (kind, count) in said.verdicts {
            *self.verdicts.entry(kind).or_insert(0) += count;
        }
        self.unexpected += said.unexpected;
        for warning in said.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Two names with one GPU: a machine that was renamed, a label that was copied, or a report that was made up.
fn warn_of_clashes(machines: &mut [FleetMachine]) {
    let mut owners: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, machine) in machines.iter().enumerate() {
        for gpu in &machine.gpus {
            owners.entry(gpu).or_default().push(place);
        }
    }
    let mut clashes: BTreeSet<(usize, usize)> = BTreeSet::new();
    for places in owners.values().filter(|places| places.len() > 1) {
        // Each names one other: of a thousand with one UUID a million pairs would be named.
        let after = places.iter().skip(1).chain(places.first());
        clashes.extend(places.iter().copied().zip(after.copied()));
    }
    for (one, other) in clashes {
        let warning = machines.get(other).map(|other| format!("has a GPU with the UUID of one of {}", other.name));
        if let Some(machine) = machines.get_mut(one) {
            machine.warnings.extend(warning);
        }
    }
}

/// Answers by what was asked and by group; empty for what most were asked.
type Variants<'a> = BTreeMap<String, BTreeMap<usize, Vec<Given<'a>>>>;

/// Of a question, what each group usually shows, and which of its machines differ.
type Results = Vec<(usize, Usual, Vec<Difference>)>;

struct QuestionMerge<'a, W> {
    answers: &'a Answers,
    kept: &'a [PooledDocument],
    members: &'a Members,
    words: &'a W,
}

impl<'a, W: Fn(&str) -> Option<Words>> QuestionMerge<'a, W> {
    /// Merges one question after the other, so that the answers to only one are in memory in a second order.
    fn ask(&self, fleet: &mut Fleet) {
        let mut cursors = vec![(0_usize, 0_usize); self.kept.len()];
        let mut found: BTreeMap<String, (Question, Results)> = BTreeMap::new();
        for (number, name) in (0..).zip(&self.answers.names) {
            let mut given: BTreeMap<usize, Vec<Given<'a>>> = BTreeMap::new();
            for (place, cursor) in cursors.iter_mut().enumerate() {
                self.advance(number, place, cursor, &mut given);
            }
            for (asked, variant) in variants(given) {
                let question = self.question(name, &asked);
                let (_, results) = found.entry(question.name.clone()).or_insert((question, Vec::new()));
                results.extend(variant.into_iter().map(|(group, given)| {
                    let (key, members) = &self.members.groups[group];
                    let (usual, differences) = GroupQuestion { given, group, members, key }.result();
                    (group, usual, differences)
                }));
            }
        }
        for (place, (question, results)) in found.into_values().enumerate() {
            fleet.questions.push(question);
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
        while let Some((of, answer)) = one.answers.get(*at).and_then(|at| self.answers.all.get(*at as usize)) {
            if *of != name {
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

    fn question(&self, Name { name, scenario, words }: &Name, asked: &str) -> Question {
        let built_in = (self.words)(scenario).unwrap_or_default();
        Question {
            name: if asked.is_empty() { name.clone() } else { format!("{name} (asked otherwise: {asked})") },
            question: if words.is_empty() { built_in.question } else { words.clone() },
            page: built_in.page,
            is_row: scenario.is_empty(),
        }
    }
}

/// The answers by what was asked. Answers that do not say what was asked join the most frequent ones.
fn variants(given: BTreeMap<usize, Vec<Given<'_>>>) -> Variants<'_> {
    let usual = most_asked(given.values().flatten()).unwrap_or_default();
    let mut variants = Variants::new();
    for (group, all) in given {
        let most = most_asked(&all).unwrap_or(usual);
        for one in all {
            let asked = if one.answer.asked.is_empty() { most } else { &one.answer.asked };
            // The usual variant has the plain name.
            let asked = if asked == usual { "" } else { asked };
            variants.entry(asked.to_owned()).or_default().entry(group).or_default().push(one);
        }
    }
    variants
}

/// What most of these were asked, as far as they say it.
fn most_asked<'a: 'g, 'g>(given: impl IntoIterator<Item = &'g Given<'a>>) -> Option<&'a str> {
    let mut counts: BTreeMap<&'a str, usize> = BTreeMap::new();
    for one in given.into_iter().filter(|one| !one.answer.asked.is_empty()) {
        *counts.entry(&one.answer.asked).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(asked, count)| (*count, std::cmp::Reverse(*asked))).map(|(asked, _)| asked)
}
