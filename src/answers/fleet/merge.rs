//! From what many documents answer to one document: groups, what is usual in them, and who differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::change::differing as differing_facts;
use super::pool::{Answer, Answers, Kept, Pool, Same, UNREAD};
use super::spread::{FEWEST, differs, spread};
use super::{
    Bucket, Difference, Expected, Fleet, Group, Key, MAJOR, MINOR, Machine, NotMerged, Outcome, Question, SCHEMA,
    Spread, Usual, What,
};
use cuda_pitfalls_core::report::SchemaId;

/// The labels that name a machine, the first first.
const NAMES: [&str; 2] = ["node", "host"];
/// So much of a UUID tells GPUs apart: `GPU-8b6c2f00`.
const SHORT: usize = 12;

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
    let (rule, answers, mut kept, mut input) = pool.into_parts();
    let names = Names::of(&kept);
    // Each machine's documents stand together, the latest first; one that is dated in the future comes last.
    let mut owners = names.owners(&kept);
    let mut order: Vec<usize> = (0..kept.len()).collect();
    let rank = |at: usize| {
        let one = &kept[at];
        (&owners[at], one.is_of_the_future, std::cmp::Reverse(&one.started_at), &one.path)
    };
    order.sort_by(|a, b| rank(*a).cmp(&rank(*b)));
    let mut by_place: Vec<Option<Kept>> = kept.drain(..).map(Some).collect();
    kept = order.iter().filter_map(|at| by_place.get_mut(*at)?.take()).collect();
    owners = order.iter().map(|at| owners[*at].clone()).collect();

    let members = Members::of(&answers, &kept, &owners);
    for (one, is_used) in kept.iter().zip(&members.used) {
        if !is_used {
            let from = if one.is_partial { Bucket::Partial } else { Bucket::Merged };
            let (bucket, why) = if one.is_of_the_future {
                let why = "which is in the future; another report of this machine answers the same questions";
                (Bucket::Future, format!("its run began at {}, {why}", one.started_at))
            } else {
                (Bucket::Duplicate, "a later report of this machine answers the same questions".to_owned())
            };
            input.recount(from, NotMerged { path: one.path.clone(), bucket, why });
        }
    }
    input.shorten();
    let used = || kept.iter().zip(&members.used).filter(|(_, is_used)| **is_used).map(|(one, _)| one);
    let times = || used().filter(|one| !one.is_of_the_future).map(|one| &one.started_at);
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
        schema: SchemaId { name: SCHEMA.to_owned(), major: MAJOR, minor: MINOR },
        provenance: rule.provenance,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        input,
        expected,
        machines,
        questions: Vec::new(),
        groups: members.groups.iter().map(|(key, machines)| group(key, machines)).collect(),
        differences: Vec::new(),
    };
    Questions { answers: &answers, kept: &kept, members: &members, words: &words }.ask(&mut fleet);
    fleet.ranked()
}

fn group(key: &Key, machines: &BTreeSet<usize>) -> Group {
    Group { key: key.clone(), machines: machines.iter().copied().collect(), usual: Vec::new() }
}

/// How machines are called: by a label, or by their GPUs.
struct Names {
    /// The labels that documents with these GPUs have.
    labelled: HashMap<String, BTreeSet<String>>,
    /// Short names of GPUs without a label.
    short: HashMap<String, String>,
}

impl Names {
    fn of(kept: &[Kept]) -> Names {
        let mut names = Names { labelled: HashMap::new(), short: HashMap::new() };
        for one in kept.iter().filter(|one| !one.gpus.is_empty()) {
            if let Some(label) = label(one) {
                names.labelled.entry(one.gpus.join(",")).or_default().insert(label.to_owned());
            }
        }
        let all: BTreeSet<&Vec<String>> = kept.iter().map(|one| &one.gpus).collect();
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        for gpus in all {
            let cut = |uuid: &String| uuid.chars().take(SHORT).collect::<String>();
            let short = match gpus.as_slice() {
                [] => continue,
                [one] => cut(one),
                // Without commas and blanks, as a host's name: names stand in lists.
                [one, other] => format!("{}+{}", cut(one), cut(other).trim_start_matches("GPU-")),
                [one, rest @ ..] => format!("{}+{}-more", cut(one), rest.len()),
            };
            let times = taken.entry(short.clone()).or_default();
            *times += 1;
            let short = if *times > 1 { format!("{short} ({times})") } else { short };
            names.short.insert(gpus.join(","), short);
        }
        names
    }

    /// The machine of each document. Reports with one name are of one machine where they share a GPU, or are linked by
    /// others that do: a name that was given twice hides nobody.
    fn owners(&self, kept: &[Kept]) -> Vec<Owner> {
        let called: Vec<String> = kept.iter().map(|one| self.of_document(one)).collect();
        let mut linked = Linked::new(kept.len());
        let mut first_with: HashMap<(&str, &str), usize> = HashMap::new();
        for (at, (one, name)) in kept.iter().zip(&called).enumerate() {
            for gpu in &one.gpus {
                let other = *first_with.entry((name, gpu)).or_insert(at);
                linked.link(at, other);
            }
        }
        // Reports that list no GPU are of the one machine with their name, if there is just one.
        let mut with_gpus: HashMap<&str, BTreeSet<usize>> = HashMap::new();
        for (at, name) in called.iter().enumerate().filter(|(at, _)| !kept[*at].gpus.is_empty()) {
            with_gpus.entry(name).or_default().insert(linked.first(at));
        }
        let mut without: HashMap<&str, usize> = HashMap::new();
        for (at, name) in called.iter().enumerate().filter(|(at, _)| kept[*at].gpus.is_empty()) {
            let only = with_gpus.get(name.as_str()).filter(|all| all.len() == 1).and_then(|all| all.first().copied());
            let other = only.unwrap_or_else(|| *without.entry(name).or_insert(at));
            linked.link(at, other);
        }
        // By name: the machines, each with the least UUID of its GPUs.
        let mut machines: HashMap<&str, BTreeMap<usize, &str>> = HashMap::new();
        for (at, (one, name)) in kept.iter().zip(&called).enumerate() {
            let known = machines.entry(name).or_default().entry(linked.first(at)).or_default();
            if let Some(gpu) = one.gpus.first().filter(|gpu| known.is_empty() || gpu.as_str() < *known) {
                *known = gpu;
            }
        }
        let mut all: BTreeMap<usize, Owner> = BTreeMap::new();
        for (name, of_name) in machines {
            let short = |gpu: &str| gpu.chars().take(SHORT).collect::<String>();
            let mut taken: HashMap<String, usize> = HashMap::new();
            of_name.values().for_each(|gpu| *taken.entry(short(gpu)).or_default() += 1);
            for (first, gpu) in &of_name {
                let owner = if of_name.len() == 1 {
                    Owner { name: name.to_owned(), first: *first, shared_name: None }
                } else {
                    let short = short(gpu);
                    let gpu = match taken.get(&short) {
                        _ if gpu.is_empty() => "no GPU".to_owned(),
                        Some(1) => short,
                        _ => (*gpu).to_owned(),
                    };
                    Owner { name: format!("{name} ({gpu})"), first: *first, shared_name: Some(name.to_owned()) }
                };
                all.insert(*first, owner);
            }
        }
        // A label can look like such a name.
        let mut taken: HashMap<String, usize> = HashMap::new();
        for owner in all.values_mut() {
            let times = taken.entry(owner.name.clone()).or_default();
            *times += 1;
            if *times > 1 {
                owner.name = format!("{} ({times})", owner.name);
            }
        }
        (0..kept.len()).filter_map(|at| all.get(&linked.first(at)).cloned()).collect()
    }

    fn of_document(&self, one: &Kept) -> String {
        if let Some(label) = label(one) {
            return label.to_owned();
        }
        let gpus = one.gpus.join(",");
        let labels = self.labelled.get(&gpus);
        // A report without a label is of the machine with the same GPUs, if there is one such.
        if let Some([label]) = labels.map(|all| all.iter().collect::<Vec<_>>()).as_deref() {
            return (*label).clone();
        }
        self.short.get(&gpus).cloned().unwrap_or_else(|| format!("unnamed: {}", one.path))
    }
}

/// A machine, as the owner of documents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    name: String,
    /// Its first document, by path: what a report says can be made up, so a name alone is no identity.
    first: usize,
    /// What its documents call it, where another machine's call that one the same.
    shared_name: Option<String>,
}

/// Which documents are linked with one another, directly or by others.
struct Linked(Vec<usize>);

impl Linked {
    fn new(count: usize) -> Linked {
        Linked((0..count).collect())
    }

    /// The first of those that a document is linked with.
    fn first(&self, at: usize) -> usize {
        let mut at = at;
        while let Some(next) = self.0.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }

    fn link(&mut self, one: usize, other: usize) {
        let (one, other) = (self.first(one), self.first(other));
        if let Some(link) = self.0.get_mut(one.max(other)) {
            *link = one.min(other);
        }
    }
}

fn label(one: &Kept) -> Option<&str> {
    NAMES.iter().find_map(|name| one.labels.get(*name)).map(String::as_str).filter(|label| !label.is_empty())
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
        // Machines that turn out to be none leave no gap, since an owner without a used document has no entry.
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
                let of = by_library
                    .entry(&answer.libcudart)
                    .or_insert_with(|| (Key { libcudart: answer.libcudart.clone(), ..one.key.clone() }, Vec::new()));
                of.1.push(answer.name);
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
            by_key.entry(&one.key).or_insert_with(|| {
                let place = |library: &&String| {
                    let key = Key { libcudart: (*library).clone(), ..one.key.clone() };
                    Some(((*library).clone(), *index.get(&key)?))
                };
                libraries.iter().filter_map(place).collect()
            });
        }
        let places = kept.iter().map(|one| by_key.get(&one.key).cloned().unwrap_or_default()).collect();
        Members { groups, places, machines, used }
    }
}

fn machines(kept: &[Kept], owners: &[Owner], members: &Members) -> Vec<Machine> {
    let mut all: Vec<Machine> = Vec::new();
    for ((one, owner), (machine, is_used)) in kept.iter().zip(owners).zip(members.machines.iter().zip(&members.used)) {
        if *machine == all.len() {
            all.push(Machine {
                name: owner.name.clone(),
                shared_name: owner.shared_name.clone(),
                labels: BTreeMap::new(),
                gpus: Vec::new(),
                reports: Vec::new(),
                started_at: String::new(),
                dated_ahead: false,
                partial: false,
                verdicts: BTreeMap::new(),
                unexpected: 0,
                warnings: owner
                    .shared_name
                    .iter()
                    .map(|name| format!("another machine is called {name} too"))
                    .collect(),
            });
        }
        // The latest document of a machine comes first, and is always used.
        let Some(known) = all.get_mut(*machine).filter(|_| *is_used) else { continue };
        for (name, value) in &one.labels {
            known.labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        known.gpus.extend(one.gpus.iter().cloned());
        known.gpus.sort();
        known.gpus.dedup();
        known.reports.push(one.path.clone());
        // Those that are dated in the future come after the others.
        if known.started_at.is_empty() || (!one.is_of_the_future && known.started_at < one.started_at) {
            known.started_at.clone_from(&one.started_at);
        }
        if one.is_of_the_future {
            known.dated_ahead = true;
            known.warnings.push(format!("a report of it is dated in the future: {}", one.started_at));
        }
        known.partial |= one.is_partial;
        for (kind, count) in &one.verdicts {
            *known.verdicts.entry(*kind).or_insert(0) += count;
        }
        known.unexpected += one.unexpected;
        known
            .warnings
            .extend(one.warnings.iter().filter(|why| !known.warnings.contains(why)).cloned().collect::<Vec<_>>());
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

/// One document's answer to the question that is being looked at.
#[derive(Clone, Copy)]
struct Given<'a> {
    machine: usize,
    answer: &'a Answer,
    figures: &'a [i64],
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
    /// Looks at one question after the other, so that never more than one is held in another order.
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

    /// The answers by what was asked. Those who could not be asked at all are with the most frequent.
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

/// One question in one group.
struct Asked<'a> {
    given: Vec<Given<'a>>,
    members: &'a BTreeSet<usize>,
    key: &'a Key,
}

impl Asked<'_> {
    fn result(&self, group: usize) -> (Usual, Vec<Difference>) {
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
            question: 0,
            outcomes: outcomes.iter().map(|(same, given)| outcome(same, given.len())).collect(),
            used_bytes: BTreeMap::new(),
            no_answer,
            not_asked: self.members.difference(&there).copied().collect(),
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

fn outcome(same: &Same, machines: usize) -> Outcome {
    Outcome { kind: same.kind, facts: same.facts.clone(), machines }
}

/// Machines on one side of the median, and their figures.
type Away = (Vec<usize>, Spread);

/// Each figure of machines that showed the same, and those that are above and below it.
fn figures(given: &[&Given], is_shared: bool) -> Vec<(String, Spread, Vec<Away>)> {
    let about: BTreeSet<&String> = given.iter().flat_map(|given| &given.answer.figures).collect();
    let mut found = Vec::new();
    for figure in about {
        let value = |given: &&&Given| {
            let place = given.answer.figures.iter().position(|known| known == figure);
            // What did not change has no figure.
            let bytes = place.map_or(Some(0), |place| given.figures.get(place).copied())?;
            (bytes != UNREAD).then_some((given.machine, bytes))
        };
        let values: Vec<(usize, i64)> = given.iter().filter_map(|given| value(&given)).collect();
        let mut bytes: Vec<i64> = values.iter().map(|(_, bytes)| *bytes).collect();
        let Some(all) = spread(&mut bytes) else { continue };
        let mut away = Vec::new();
        if all.count >= FEWEST {
            for above in [false, true] {
                let is_away = |(_, bytes): &&(usize, i64)| {
                    differs(*bytes, &all, is_shared) && (*bytes > all.median_bytes) == above
                };
                let (machines, mut bytes): (Vec<usize>, Vec<i64>) = values.iter().filter(is_away).copied().unzip();
                away.extend(spread(&mut bytes).map(|these| (machines, these)));
            }
        }
        found.push((figure.clone(), all, away));
    }
    found
}
