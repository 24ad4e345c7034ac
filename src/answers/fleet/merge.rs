//! The merge of many documents' answers into one document: groups, their usual results, and the machines that differ.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Range;

use super::answer::{SharedAnswer, Shown};
use super::document::{
    Bucket, Difference, ExpectedMachines, Fleet, FleetMachine, Group, Input, Key, NotMerged,
    Question, SCHEMA, Usual,
};
use super::facts::{self, MachineFacts};
use super::names::{DocumentOwner, document_owners, label};
use super::pool::{Answers, DocumentPool, LeftOutDocument, Name, PooledDocument};
use super::usual::{AnswerGroup, Given, GroupQuestion};
use cuda_pitfalls_core::report::SchemaId;

/// The program's texts about a scenario that a report contains only by name.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The question.
    pub question: String,
    /// The page of the pitfall.
    pub page: Option<String>,
}

/// Merges everything that was read. `expected` lists the machines that should report, and `words` returns the texts
/// about a scenario.
pub fn merge(
    pool: DocumentPool,
    expected: Option<&[String]>,
    words: impl Fn(&str) -> Option<Words>,
) -> Fleet {
    let (rule, answers, kept, left_out, mut input) = pool.into_parts();
    let (owners, mut kept) = sort_by_owner(kept);
    let members = Members::new(&answers, &kept, &owners);
    members.count_unused(&kept, &mut input);
    (input.from, input.to) = members.times(&kept);

    let mut machines = machines(&mut kept, &owners, &members);
    warn_of_clashes(&mut machines);
    let compared = machines.len();
    add_left_out(&mut machines, left_out);
    let expected = expected
        .map(|names| ExpectedMachines::new(names, machines.get(..compared).unwrap_or_default()));
    let groups = members.groups.iter().map(|(key, machines)| Group {
        key: key.clone(),
        machines: machines.clone(),
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
    QuestionMerge {
        answers: &answers,
        kept: &kept,
        members: &members,
        words: &words,
    }
    .ask(&mut fleet);
    facts::compare_facts(&mut fleet, &members.latest_facts(&kept));
    sort_groups(&mut fleet);
    fleet.ranked()
}

/// Sorts the documents by machine. The documents of a machine are adjacent, the latest first; a document dated in the
/// future comes last.
fn sort_by_owner(kept: Vec<PooledDocument>) -> (Vec<DocumentOwner>, Vec<PooledDocument>) {
    let mut owned: Vec<_> = document_owners(&kept).into_iter().zip(kept).collect();
    owned.sort_by(|(owner, one), (other_owner, other)| {
        let [began, other_began] = [one, other].map(|document| &document.digest.machine.started_at);
        owner
            .cmp(other_owner)
            .then(one.is_of_the_future.cmp(&other.is_of_the_future))
            .then(other_began.cmp(began))
            .then(one.path.cmp(&other.path))
    });
    owned.into_iter().unzip()
}

/// Sorts the groups by their size, the largest first.
fn sort_groups(fleet: &mut Fleet) {
    let groups = std::mem::take(&mut fleet.groups);
    let mut sorted: Vec<(usize, Group)> = groups.into_iter().enumerate().collect();
    sorted.sort_by(|(_, a), (_, b)| {
        let larger_first = b.machines.len().cmp(&a.machines.len());
        larger_first.then_with(|| a.key.cmp(&b.key))
    });
    let mut places = vec![0; sorted.len()];
    for (new, (old, group)) in sorted.into_iter().enumerate() {
        places[old] = new;
        fleet.groups.push(group);
    }
    for difference in &mut fleet.differences {
        difference.group = places[difference.group];
    }
}

/// Adds the machines without any merged report, named by their label or else by their GPUs.
fn add_left_out(machines: &mut Vec<FleetMachine>, left_out: Vec<LeftOutDocument>) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for machine in machines.iter() {
        known.extend(machine.gpus.iter().cloned());
        known.insert(machine.reported_name().clone());
    }
    for LeftOutDocument {
        path,
        bucket,
        machine,
    } in left_out
    {
        let name = match (label(&machine), machine.gpus.first()) {
            (Some(label), _) => label.to_owned(),
            (None, Some(gpu)) => gpu.clone(),
            (None, None) => format!("unnamed: {path}"),
        };
        if known.insert(name.clone()) {
            let warnings = Vec::new();
            machines.push(FleetMachine {
                name,
                left_out: Some(bucket),
                reports: vec![path],
                warnings,
                ..machine
            });
        }
    }
}

impl ExpectedMachines {
    fn new(names: &[String], machines: &[FleetMachine]) -> ExpectedMachines {
        let all: BTreeSet<&String> = names.iter().collect();
        let there: BTreeSet<&String> = machines.iter().map(FleetMachine::reported_name).collect();
        ExpectedMachines {
            machines: all.len(),
            missing: all.difference(&there).copied().cloned().collect(),
            unexpected: there.difference(&all).copied().cloned().collect(),
        }
    }
}

/// The group of each machine's answers, without the answers.
struct Members {
    /// The groups in the order of the document, each with its machines.
    groups: Vec<(Key, Vec<usize>)>,
    /// Groups by document and answer.
    places: GroupPlaces,
    machines: Vec<usize>,
    used: Vec<Used>,
    /// Subjects that the documents of each machine disagree on, and number of their unexpected verdicts.
    conflicts: Vec<Vec<String>>,
    unexpected: Vec<usize>,
}

/// Maps the answers of a document to their groups. Equal keys get the same number, so a key is compared once instead of
/// once per answer.
struct GroupPlaces {
    /// Number of the key of each document.
    keys: Vec<usize>,
    /// Number of the libcudart of each answer.
    libcudarts: Vec<usize>,
    /// Groups by both numbers.
    groups: HashMap<(usize, usize), usize>,
}

impl GroupPlaces {
    fn new(answers: &Answers, kept: &[PooledDocument]) -> GroupPlaces {
        let libcudarts = answers.all.iter().map(|(_, answer)| &answer.libcudart);
        GroupPlaces {
            keys: numbered(kept.iter().map(|one| &one.digest.key)),
            libcudarts: numbered(libcudarts),
            groups: HashMap::new(),
        }
    }

    fn numbers(&self, document: usize, answer: u32) -> Option<(usize, usize)> {
        let key = self.keys.get(document)?;
        let libcudart = self.libcudarts.get(answer as usize)?;
        Some((*key, *libcudart))
    }

    fn entry(&mut self, document: usize, answer: u32) -> Option<Entry<'_, (usize, usize), usize>> {
        let numbers = self.numbers(document, answer)?;
        Some(self.groups.entry(numbers))
    }

    fn get(&self, document: usize, answer: u32) -> Option<usize> {
        let numbers = self.numbers(document, answer)?;
        self.groups.get(&numbers).copied()
    }
}

/// Returns a number for each value. Equal values get the same number.
fn numbered<T: Eq + Hash>(values: impl Iterator<Item = T>) -> Vec<usize> {
    let mut numbers: HashMap<T, usize> = HashMap::new();
    let mut all = Vec::new();
    for value in values {
        let next = numbers.len();
        all.push(*numbers.entry(value).or_insert(next));
    }
    all
}

/// Use of a document in the comparison, or the reason why it is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Yes,
    Same,
    Disagrees,
}

/// Content of the documents of one machine that were read so far, the latest first.
#[derive(Default)]
struct Said<'a> {
    /// The answers by group and question, each with its document.
    asked: HashMap<(usize, u32), (usize, &'a SharedAnswer)>,
    unexpected: BTreeSet<(u32, &'a str)>,
}

impl Members {
    fn new(answers: &Answers, kept: &[PooledDocument], owners: &[DocumentOwner]) -> Members {
        let mut members = Members {
            groups: Vec::new(),
            places: GroupPlaces::new(answers, kept),
            machines: Vec::with_capacity(owners.len()),
            used: Vec::with_capacity(owners.len()),
            conflicts: Vec::new(),
            unexpected: Vec::new(),
        };
        let mut first = 0;
        for (machine, documents) in owners.chunk_by(|one, other| one == other).enumerate() {
            let end = first + documents.len();
            members.add_documents(machine, first..end, answers, kept);
            first = end;
        }
        members.sort_groups();
        members
    }

    /// Adds the content of the documents of a machine, the latest first.
    fn add_documents<'a>(
        &mut self,
        machine: usize,
        documents: Range<usize>,
        answers: &'a Answers,
        kept: &'a [PooledDocument],
    ) {
        let (mut said, mut conflicts) = (Said::default(), Vec::new());
        let latest = &kept[documents.start];
        for place in documents {
            let one = &kept[place];
            let mut found = one.disagreements_with(latest);
            let is_used = self.add_answers(machine, (place, one), answers, &mut said, &mut found);
            self.used.push(match (is_used, found.is_empty()) {
                (true, _) => Used::Yes,
                (false, true) => Used::Same,
                (false, false) => Used::Disagrees,
            });
            self.machines.push(machine);
            if !found.is_empty() && latest.path != one.path {
                let (latest, names) = (&latest.path, names_of(&found));
                conflicts.push(format!("{latest} and {} disagree on {names}", one.path));
            }
        }
        self.conflicts.push(conflicts);
        self.unexpected.push(said.unexpected.len());
    }

    /// Adds the answers of a document, and to `found` the questions that a later document answers otherwise. Returns
    /// `true` if any of them is compared.
    fn add_answers<'a>(
        &mut self,
        machine: usize,
        (place, one): (usize, &'a PooledDocument),
        answers: &'a Answers,
        said: &mut Said<'a>,
        found: &mut Vec<String>,
    ) -> bool {
        // A document without an answer still describes its machine.
        let mut is_used = one.answers.is_empty();
        for index in &one.answers {
            let Some((name, answer)) = answers.all.get(*index as usize) else {
                continue;
            };
            if answer.is_unexpected {
                said.unexpected.insert((*name, &answer.libcudart));
            }
            let group = self.group_for(&one.digest.key, place, *index, answer);
            match said.asked.entry((group, *name)) {
                Entry::Vacant(entry) => {
                    is_used = true;
                    self.add_machine(group, machine);
                    entry.insert((place, answer));
                }
                Entry::Occupied(entry) => {
                    let (other, known) = *entry.get();
                    if other != place && known.disagrees_with(answer) {
                        found.push(answer.name.clone());
                    }
                }
            }
        }
        is_used
    }

    /// Counts the documents without any compared answer, each by its reason.
    fn count_unused(&self, kept: &[PooledDocument], input: &mut Input) {
        for (one, used) in kept.iter().zip(&self.used) {
            let (bucket, why) = match used {
                Used::Yes => continue,
                _ if one.is_of_the_future => {
                    let why = "which is in the future; another report of this machine has the same scenarios";
                    let began = &one.digest.machine.started_at;
                    (Bucket::Future, format!("its run began at {began}, {why}"))
                }
                Used::Same => {
                    let why = "a later report of this machine has the same scenarios";
                    (Bucket::Duplicate, why.to_owned())
                }
                Used::Disagrees => {
                    let why = "a later report of this machine has different results";
                    (Bucket::Disagreeing, why.to_owned())
                }
            };
            let path = one.path.clone();
            input.move_to_bucket(one.bucket(), NotMerged { path, bucket, why });
        }
        input.shorten_lists();
    }

    /// Returns the starts of the earliest and the latest run that are compared.
    fn times(&self, kept: &[PooledDocument]) -> (Option<String>, Option<String>) {
        let mut times: BTreeSet<&String> = BTreeSet::new();
        for (one, used) in kept.iter().zip(&self.used) {
            if *used == Used::Yes && !one.is_of_the_future {
                times.insert(&one.digest.machine.started_at);
            }
        }
        (
            times.first().copied().cloned(),
            times.last().copied().cloned(),
        )
    }

    /// Returns the group of a document's answer. A new group is added if necessary.
    fn group_for(
        &mut self,
        key: &Key,
        document: usize,
        index: u32,
        answer: &SharedAnswer,
    ) -> usize {
        let next = self.groups.len();
        let Some(group) = self.places.entry(document, index) else {
            return next;
        };
        let group = *group.or_insert(next);
        if group == next {
            let libcudart = answer.libcudart.clone();
            let key = Key {
                libcudart,
                ..key.clone()
            };
            self.groups.push((key, Vec::new()));
        }
        group
    }

    /// Adds a machine to a group. Machines must be added in ascending order.
    fn add_machine(&mut self, group: usize, machine: usize) {
        if let Some((_, machines)) = self.groups.get_mut(group)
            && machines.last() != Some(&machine)
        {
            machines.push(machine);
        }
    }

    /// Sorts the groups by their size, the largest first.
    fn sort_groups(&mut self) {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by(|a, b| {
            let [(key, of_a), (other, of_b)] = [&self.groups[*a], &self.groups[*b]];
            of_b.len().cmp(&of_a.len()).then_with(|| key.cmp(other))
        });
        let mut places = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            places[*old] = new;
        }
        for group in self.places.groups.values_mut() {
            *group = places[*group];
        }
        let groups = std::mem::take(&mut self.groups);
        let mut numbered: Vec<_> = places.into_iter().zip(groups).collect();
        numbered.sort_unstable_by_key(|(place, _)| *place);
        self.groups = numbered.into_iter().map(|(_, group)| group).collect();
    }

    /// Returns the facts about each machine from its latest document, if CUDA starts there.
    fn latest_facts<'a>(
        &self,
        kept: &'a [PooledDocument],
    ) -> Vec<(usize, Option<String>, &'a MachineFacts)> {
        let mut all: Vec<(usize, Option<String>, &MachineFacts)> = Vec::new();
        for (one, machine) in kept.iter().zip(&self.machines) {
            if one.digest.machine.no_cuda.is_none()
                && all.last().is_none_or(|(last, ..)| last != machine)
            {
                all.push((*machine, one.digest.key.label.clone(), &*one.facts));
            }
        }
        all
    }
}

/// Returns the first subjects that two documents disagree on, and the number of the others.
fn names_of(all: &[String]) -> String {
    match all {
        [first, second, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second} and {} more", rest.len())
        }
        all => all.join(" and "),
    }
}

impl SharedAnswer {
    /// Returns `true` if both answer the same question, but differently.
    fn disagrees_with(&self, other: &SharedAnswer) -> bool {
        let is_asked_alike =
            self.asked == other.asked || self.asked.is_empty() || other.asked.is_empty();
        is_asked_alike
            && matches!((&self.shown, &other.shown), (Shown::Outcome(one), Shown::Outcome(other)) if one != other)
    }
}

impl PooledDocument {
    /// Returns the facts about the machine that differ from those in another document of the same machine.
    fn disagreements_with(&self, other: &PooledDocument) -> Vec<String> {
        let [starts, starts_there] = [self, other].map(|one| one.digest.machine.no_cuda.is_none());
        if starts != starts_there {
            return vec!["whether CUDA starts".to_owned()];
        }
        let facts = self.facts.disagreeing_facts(&other.facts);
        facts.into_iter().map(str::to_owned).collect()
    }
}

fn machines(
    kept: &mut [PooledDocument],
    owners: &[DocumentOwner],
    members: &Members,
) -> Vec<FleetMachine> {
    let mut all: Vec<FleetMachine> = Vec::new();
    let places = members.machines.iter().zip(&members.used);
    for ((one, owner), (machine, used)) in kept.iter_mut().zip(owners).zip(places) {
        if *machine == all.len() {
            let mut new = FleetMachine {
                name: owner.name.clone(),
                shared_name: owner.shared_name.clone(),
                no_cuda: one.digest.machine.no_cuda.clone(),
                conflicts: members.conflicts[*machine].clone(),
                unexpected: members.unexpected[*machine],
                ..FleetMachine::default()
            };
            if let Some(name) = &owner.shared_name {
                new.warnings
                    .push(format!("another machine has the same name {name}"));
            }
            all.push(new);
        }
        // The latest document of a machine comes first, and is always used.
        if *used == Used::Yes
            && let Some(known) = all.get_mut(*machine)
        {
            known.add_document(one);
        }
    }
    all
}

impl FleetMachine {
    /// Returns the name of the machine in its reports.
    fn reported_name(&self) -> &String {
        self.shared_name.as_ref().unwrap_or(&self.name)
    }

    /// Adds the content of a document. Documents dated in the future must be added last.
    fn add_document(
        &mut self,
        PooledDocument {
            path,
            is_of_the_future,
            digest,
            ..
        }: &mut PooledDocument,
    ) {
        let said = std::mem::take(&mut digest.machine);
        digest.machine.no_cuda.clone_from(&said.no_cuda);
        for (name, value) in said.labels {
            self.labels.entry(name).or_insert(value);
        }
        self.gpus.extend(said.gpus);
        self.gpus.sort();
        self.gpus.dedup();
        self.reports.push(std::mem::take(path));
        if *is_of_the_future {
            self.dated_ahead = true;
            self.warnings.push(format!(
                "a report is dated in the future: {}",
                said.started_at
            ));
        }
        if self.started_at.is_empty() || (!*is_of_the_future && self.started_at < said.started_at) {
            self.started_at = said.started_at;
        }
        self.partial |= said.partial;
        for (kind, count) in said.verdicts {
            *self.verdicts.entry(kind).or_insert(0) += count;
        }
        for warning in said.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}

/// Warns about machines with a common GPU but different names: a machine that was renamed, a label that was copied, or
/// a fabricated report.
fn warn_of_clashes(machines: &mut [FleetMachine]) {
    let mut owners: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, machine) in machines.iter().enumerate() {
        for gpu in &machine.gpus {
            owners.entry(gpu).or_default().push(place);
        }
    }
    let mut clashes: BTreeSet<(usize, usize)> = BTreeSet::new();
    for mut places in owners.into_values() {
        // Each machine names only one other: a thousand machines with one UUID would otherwise name a million pairs.
        if places.len() > 1 {
            places.push(places[0]);
            clashes.extend(places.windows(2).map(|pair| (pair[0], pair[1])));
        }
    }
    for (one, other) in clashes {
        let other = &machines[other].name;
        let warning = format!("has a GPU with the same UUID as one of {other}");
        machines[one].warnings.push(warning);
    }
}

/// Answers by variant of the question and by group; the key of the most frequent variant is empty.
type Variants<'a> = BTreeMap<&'a str, BTreeMap<usize, Vec<Given<'a>>>>;

/// Usual result of each group for a question, and its machines that differ.
type Results = Vec<(usize, Usual, Vec<Difference>)>;

struct QuestionMerge<'a, W> {
    answers: &'a Answers,
    kept: &'a [PooledDocument],
    members: &'a Members,
    words: &'a W,
}

impl<'a, W: Fn(&str) -> Option<Words>> QuestionMerge<'a, W> {
    /// Merges the questions one after the other, so that the answers to only one question are in memory twice.
    fn ask(&self, fleet: &mut Fleet) {
        let mut cursors = vec![(0_usize, 0_usize); self.kept.len()];
        let mut found: BTreeMap<String, (Question, Results)> = BTreeMap::new();
        for (number, name) in (0..).zip(&self.answers.names) {
            let mut given: BTreeMap<usize, Vec<Given<'a>>> = BTreeMap::new();
            for (place, cursor) in cursors.iter_mut().enumerate() {
                self.take_answers(number, place, cursor, &mut given);
            }
            for (asked, variant) in answers_by_variant(given) {
                let question = self.question(name, asked);
                let (_, results) = found
                    .entry(question.name.clone())
                    .or_insert((question, Vec::new()));
                for (group, given) in variant {
                    let (key, members) = &self.members.groups[group];
                    let asked = GroupQuestion {
                        given,
                        group,
                        members,
                        key,
                        question: 0,
                    };
                    let (usual, differences) = asked.usual_and_differences();
                    results.push((group, usual, differences));
                }
            }
        }
        for (place, (question, results)) in found.into_values().enumerate() {
            fleet.questions.push(question);
            for (group, mut usual, differences) in results {
                usual.question = place;
                fleet.groups[group].usual.push(usual);
                for mut difference in differences {
                    difference.question = place;
                    fleet.differences.push(difference);
                }
            }
        }
    }

    /// Takes the answers to one question out of a document, whose answers are in the order of names.
    fn take_answers(
        &self,
        name: u32,
        place: usize,
        (at, figure): &mut (usize, usize),
        given: &mut BTreeMap<usize, Vec<Given<'a>>>,
    ) {
        let (Some(one), Some(machine)) = (self.kept.get(place), self.members.machines.get(place))
        else {
            return;
        };
        while let Some(index) = one.answers.get(*at) {
            let Some((of, answer)) = self.answers.all.get(*index as usize) else {
                return;
            };
            if *of != name {
                return;
            }
            let end = *figure + answer.figures.len();
            let figures = one.figures.get(*figure..end).unwrap_or_default();
            (*at, *figure) = (*at + 1, end);
            let Some(group) = self.members.places.get(place, *index) else {
                continue;
            };
            let all = given.entry(group).or_default();
            // A later document of the machine precedes this one and takes precedence.
            if all.last().is_none_or(|last| last.machine != *machine) {
                all.push(Given {
                    machine: *machine,
                    answer,
                    figures,
                });
            }
        }
    }

    fn question(
        &self,
        Name {
            name,
            scenario,
            words,
        }: &Name,
        asked: &str,
    ) -> Question {
        let built_in = (self.words)(scenario).unwrap_or_default();
        Question {
            name: if asked.is_empty() {
                name.clone()
            } else {
                format!("{name} (measured differently: {asked})")
            },
            question: if words.is_empty() {
                built_in.question
            } else {
                words.clone()
            },
            page: built_in.page,
            is_row: scenario.is_empty(),
        }
    }
}

/// Groups the answers by variant of the question. Answers without a variant join the most frequent one.
fn answers_by_variant(given: BTreeMap<usize, Vec<Given<'_>>>) -> Variants<'_> {
    let mut groups = Vec::new();
    for (group, all) in given {
        groups.push((group, AnswerGroup::split(all)));
    }
    let usual = most_asked(groups.iter().flat_map(|(_, all)| all)).unwrap_or_default();
    let mut variants = Variants::new();
    for (group, all) in groups {
        let most = most_asked(&all).unwrap_or(usual);
        for one in all {
            let asked = if one.answer.asked.is_empty() {
                most
            } else {
                &one.answer.asked
            };
            // The usual variant has the plain name.
            let variant = if asked == usual { "" } else { asked };
            let by_group = variants.entry(variant).or_default();
            by_group.entry(group).or_default().extend(one.given);
        }
    }
    variants
}

/// Returns the most frequent variant of the question among these answers, if any answer has one.
fn most_asked<'a: 'g, 'g>(all: impl IntoIterator<Item = &'g AnswerGroup<'a>>) -> Option<&'a str> {
    let mut counts: BTreeMap<&'a str, usize> = BTreeMap::new();
    for one in all {
        if !one.answer.asked.is_empty() {
            *counts.entry(&one.answer.asked).or_default() += one.given.len();
        }
    }
    counts
        .into_iter()
        .max_by_key(|(asked, count)| (*count, std::cmp::Reverse(*asked)))
        .map(|(asked, _)| asked)
}
