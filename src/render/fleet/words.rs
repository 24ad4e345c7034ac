//! What every form says of a fleet, in the same words and in the same order. Each form escapes them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::standing::{self, Few};
use crate::block::{Block, Span, Tone};
use crate::change;
use cuda_pitfalls_answers::fleet::{
    ByteSpread, Difference, FactDiffers, Fleet, Group, GroupOutcome, Key, Question, Rank, Usual, What, causes,
};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Kind;

pub(super) fn rank_words(rank: Rank) -> &'static str {
    match rank {
        Rank::Verdict => "another verdict",
        Rank::Fact => "other facts",
        Rank::NoAnswer => "no answer",
        Rank::Bytes => "other bytes",
    }
}

/// One thing that differs, with both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// What it is about: `verdict`, `trap 2 cudaSetDevice`, `trap/gpu0`.
    pub(super) of: String,
    pub(super) usual: String,
    pub(super) these: String,
}

/// A difference, in words.
#[derive(Clone, Debug)]
pub(super) struct Told<'a> {
    pub(super) difference: &'a Difference,
    pub(super) rank: Rank,
    pub(super) name: &'a str,
    /// The question in words; empty for rows of surveys.
    pub(super) question: &'a str,
    pub(super) page: Option<&'a str>,
    /// What the machines of the group have in common; empty if the document does not say.
    pub(super) group: String,
    pub(super) machines: Vec<&'a str>,
    pub(super) asked: usize,
    /// Whether no outcome is usual, because no more machines show the first than these.
    pub(super) is_split: bool,
    pub(super) sides: Vec<Side>,
}

impl Told<'_> {
    pub(super) fn these(&self) -> usize {
        self.difference.machines.len()
    }

    /// `another verdict on 1 of 120 machines`, or how a group is split.
    pub(super) fn share(&self) -> String {
        self.share_of(rank_words(self.rank))
    }

    /// What differs, on how many of the machines that were asked.
    pub(super) fn share_of(&self, what: &str) -> String {
        let (these, usual) = (self.these(), self.difference.usual_machines);
        if self.is_split {
            return format!("{what}: {these} against {usual}, so none is usual");
        }
        format!("{what} on {these} of {}", counted(self.asked as u64, "machine"))
    }
}

/// What differs, the most important first.
pub(super) fn told(fleet: &Fleet) -> Vec<Told<'_>> {
    let mut usual: HashMap<(usize, usize), &Usual> = HashMap::new();
    for (place, group) in fleet.groups.iter().enumerate() {
        for one in &group.usual {
            usual.entry((place, one.question)).or_insert(one);
        }
    }
    let in_words = |difference| tell(fleet, difference, usual.get(&(difference.group, difference.question)));
    fleet.differences.iter().map(in_words).collect()
}

/// The number of the cause of each difference, from 1.
pub(super) fn numbers(fleet: &Fleet) -> HashMap<usize, usize> {
    let causes = causes(fleet).into_iter().zip(1..);
    causes.flat_map(|(cause, number)| cause.differences.into_iter().map(move |place| (place, number))).collect()
}

fn tell<'a>(fleet: &'a Fleet, difference: &'a Difference, usual: Option<&&'a Usual>) -> Told<'a> {
    let question = fleet.questions.get(difference.question);
    let members = fleet.groups.get(difference.group).map_or(0, |group| group.machines.len());
    let asked = usual.map_or(0, |usual| members.saturating_sub(usual.not_asked.len()));
    Told {
        difference,
        rank: Rank::new(&difference.what),
        name: question.map_or("unknown", |question| &question.name),
        question: question.map_or("", |question| &question.question),
        page: question.and_then(|question| question.page.as_deref()),
        group: fleet.groups.get(difference.group).map(|group| key(&group.key)).unwrap_or_default(),
        machines: difference.machines.iter().map(|place| name(fleet, *place)).collect(),
        // A document may contradict itself.
        asked: asked.max(difference.machines.len().saturating_add(difference.usual_machines)),
        is_split: difference.is_split(),
        sides: sides(&difference.what, usual.copied(), question),
    }
}

fn sides(what: &What, usual: Option<&Usual>, question: Option<&Question>) -> Vec<Side> {
    let side = |of: &str, usual: String, these: String| Side { of: of.to_owned(), usual, these };
    let kind = |place: usize| usual.and_then(|usual| usual.outcomes.get(place)).map(|it: &GroupOutcome| it.kind);
    let is_row = question.is_some_and(|question| question.is_row);
    let verdict_of = |place| kind(place).map_or("unknown".to_owned(), |kind| verdict(kind, is_row));
    match what {
        What::Outcome { outcome, verdict_differs, facts } => {
            let first = verdict_differs.then(|| side("verdict", verdict_of(0), verdict_of(*outcome)));
            let words = |seen: &Option<Change>| seen.as_ref().map_or_else(|| "no such fact".to_owned(), change::words);
            let facts = facts.iter().map(|fact| side(&about(fact), words(&fact.usual), words(&fact.these)));
            first.into_iter().chain(facts).collect()
        }
        What::Bytes { figure, usual, these } => {
            let change = these.median_bytes.saturating_sub(usual.median_bytes);
            vec![side(figure, spread(usual), format!("{} ({})", spread(these), units::delta(change)))]
        }
        What::NoAnswer { reasons } => {
            let reasons = reasons.iter().map(|(reason, times)| match times {
                1 => reason.clone(),
                times => format!("{reason} ({times} machines)"),
            });
            vec![side("verdict", verdict_of(0), format!("no answer: {}", listed(reasons, "")))]
        }
    }
}

/// What a fact that differs is about: `trap 2 cudaSetDevice`.
pub(super) fn about(fact: &FactDiffers) -> String {
    let words = fact.usual.as_ref().or(fact.these.as_ref()).map(change::about).unwrap_or_default();
    let which = if fact.outcome == 1 { String::new() } else { format!("(or {}) ", fact.outcome) };
    if fact.case.is_empty() { words } else { format!("{} {which}{words}", fact.case) }
}

/// `yes (reproduced)`: a verdict on a question is a yes or a no. A row of a survey has none.
pub(super) fn verdict(kind: Kind, is_row: bool) -> String {
    match kind {
        Kind::Reproduced if is_row => "measured".to_owned(),
        Kind::Reproduced => "yes (reproduced)".to_owned(),
        Kind::NotReproduced => "no (not_reproduced)".to_owned(),
        other => other.name().to_owned(),
    }
}

/// Figures of several machines: `527 MiB`, or the median with how far the others are from it.
fn spread(spread: &ByteSpread) -> String {
    let median = units::delta(spread.median_bytes);
    if spread.least_bytes == spread.most_bytes {
        return median;
    }
    format!(
        "{median} (median; MAD {}, {} to {})",
        units::bytes(spread.mad_bytes.unsigned_abs()),
        units::delta(spread.least_bytes),
        units::delta(spread.most_bytes)
    )
}

pub(super) fn name(fleet: &Fleet, place: usize) -> &str {
    fleet.machines.get(place).map_or("unknown", |machine| &machine.name)
}

/// What machines of a group have in common, in a line.
pub(super) fn key(key: &Key) -> String {
    let mut words = vec![if key.gpus.is_empty() { "no GPU".to_owned() } else { key.gpus.clone() }];
    words.push(match key.driver.as_str() {
        "" => "driver not known".to_owned(),
        driver => format!("driver {driver}"),
    });
    if !key.libcudart.is_empty() {
        words.push(format!("libcudart {}", key.libcudart));
    }
    if key.mig {
        words.push("MIG".to_owned());
    }
    if key.shared {
        words.push("shared with co-tenants".to_owned());
    }
    words.join(", ")
}

/// Names, the first few of them, and how many there are beside: `a, b and 12 more`.
pub(super) fn names(names: &[impl AsRef<str>], most: usize) -> String {
    let shown = listed(names.iter().take(most).map(AsRef::as_ref), "");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The machines that nobody can be compared with: in every group that they are in, they are the only one, and their
/// driver is that of the others.
pub(super) fn alone(fleet: &Fleet) -> Vec<&str> {
    let mut largest: BTreeMap<usize, usize> = BTreeMap::new();
    for group in &fleet.groups {
        for place in &group.machines {
            let known = largest.entry(*place).or_insert(0);
            *known = group.machines.len().max(*known);
        }
    }
    let differing: HashSet<usize> = fleet.differences.iter().flat_map(|one| one.machines.iter().copied()).collect();
    let is_alone = |(place, largest): &(&usize, &usize)| **largest == 1 && !differing.contains(*place);
    let alone = largest.range(..fleet.machines.len()).filter(is_alone);
    alone.map(|(place, _)| name(fleet, *place)).collect()
}

/// How many machines differ in something from the others of a group. A group that is split has none.
pub(super) fn differing(fleet: &Fleet, told: &[Told<'_>]) -> usize {
    by_machine(told).iter().filter(|(place, _)| *place < fleet.machines.len()).count()
}

/// The machines that differ, each with in how many questions, the most first. A group that is split has none.
pub(super) fn by_machine(told: &[Told<'_>]) -> Vec<(usize, usize)> {
    let mut questions: HashMap<usize, HashSet<usize>> = HashMap::new();
    for one in told.iter().filter(|one| !one.is_split) {
        for place in &one.difference.machines {
            questions.entry(*place).or_default().insert(one.difference.question);
        }
    }
    let mut most: Vec<(usize, usize)> = questions.iter().map(|(place, all)| (*place, all.len())).collect();
    most.sort_by_key(|(place, count)| (std::cmp::Reverse(*count), *place));
    most
}

/// Who differs in the most questions: `node-3 in 12 questions`.
fn differ_most(fleet: &Fleet, told: &[Told<'_>], count: usize) -> Option<String> {
    let most = by_machine(told);
    let lines =
        most.iter().map(|(place, count)| format!("{} in {}", name(fleet, *place), counted(*count as u64, "question")));
    (!most.is_empty()).then(|| names(&lines.collect::<Vec<_>>(), count))
}

/// What a group's row says of its machines: how many there are, how many differ, and whether it is split.
pub(super) fn group(group: &Group, told: &[Told<'_>], few: &Few, place: usize) -> String {
    let few = few.among(&group.machines);
    let (split, others): (Vec<&Told<'_>>, Vec<&Told<'_>>) =
        told.iter().filter(|one| one.difference.group == place).partition(|one| one.is_split);
    let differing: HashSet<&usize> = others.into_iter().flat_map(|one| &one.difference.machines).collect();
    let split = split.len();
    let mut words = match (group.machines.len(), differing.len()) {
        (1, 0) => return "1 machine, alone: it cannot differ".to_owned(),
        (1, _) => return "1 machine, alone: it differs in its driver".to_owned(),
        (count, 0) if split == 0 && few > 0 => format!("{count} machines, none differs in what it answered"),
        (count, 0) if split == 0 => format!("{count} machines, none differs"),
        (count, 0) => format!("{count} machines"),
        (count, 1) => format!("{count} machines, 1 differs"),
        (count, differ) => format!("{count} machines, {differ} differ"),
    };
    if split > 0 {
        words.push_str(&format!(", split in {}", counted(split as u64, "question")));
    }
    if few > 0 {
        words.push_str(&format!(", {few} with few answers"));
    }
    words
}

/// `120 machines in 3 groups, 2 missing, 5 machines differ`.
pub(super) fn title(fleet: &Fleet, told: &[Told<'_>]) -> String {
    listed(counts(fleet, told).into_iter().map(|(_, words)| words), "")
}

/// The counts of a fleet, each in the colour of what it means.
pub(super) fn counts(fleet: &Fleet, told: &[Told<'_>]) -> Vec<(Tone, String)> {
    let machines = counted(fleet.machines.len() as u64, "machine");
    let mut counts = vec![(Tone::Plain, format!("{machines} in {}", counted(fleet.groups.len() as u64, "group")))];
    if let Some(expected) = &fleet.expected {
        let tone = if expected.missing.is_empty() { Tone::Good } else { Tone::Bad };
        counts.push((tone, format!("{} missing", expected.missing.len())));
    }
    let (few, unexpected) = (standing::few(fleet).count(), standing::unexpected_machines(fleet));
    counts.push(match differing(fleet, told) {
        0 if few > 0 => (Tone::Plain, "none differs in what it answered".to_owned()),
        // Where nothing differs because all are wrong, that is no good news.
        0 if unexpected > 0 => (Tone::Plain, "none differs".to_owned()),
        0 => (Tone::Good, "none differs".to_owned()),
        1 => (Tone::Doubt, "1 machine differs".to_owned()),
        count => (Tone::Doubt, format!("{count} machines differ")),
    });
    let split = told.iter().filter(|one| one.is_split).count();
    let others = [
        (split, Tone::Doubt, "groups split in", "question"),
        (unexpected, Tone::Bad, "unexpected verdicts on", "machine"),
        (few, Tone::Doubt, "few answers from", "machine"),
    ];
    let others = others.into_iter().filter(|(count, ..)| *count > 0);
    counts.extend(others.map(|(count, tone, what, noun)| (tone, format!("{what} {}", counted(count as u64, noun)))));
    counts
}

/// What was read and what became of it: `130 documents: 120 merged, 4 duplicate`.
pub(super) fn input(fleet: &Fleet) -> String {
    let input = &fleet.input;
    let buckets = input.buckets.iter().filter(|(_, count)| **count > 0);
    let buckets = listed(buckets.map(|(bucket, count)| format!("{count} {}", word(bucket))), "none");
    let mut words = format!("{}: {buckets}", counted(input.documents, "document"));
    if let (Some(from), Some(to)) = (&input.from, &input.to) {
        words.push_str(&if from == to { format!("; run at {from}") } else { format!("; run from {from} to {to}") });
    }
    words
}

/// What is said of a fleet as a whole, in the order of every form. Of machines and questions at most so many are named.
pub(super) fn remarks(fleet: &Fleet, told: &[Told<'_>], few: &Few, most: usize) -> Vec<Block> {
    let (missing, unlisted) = expected(fleet, most);
    let is_missing = fleet.expected.as_ref().is_some_and(|it| !it.missing.is_empty());
    let missing_tone = if is_missing { Tone::Bad } else { Tone::Good };
    let conflicts = conflicts(fleet, most).into_iter().map(|text| ("Conflict", Some(text), Tone::Bad));
    let all = [("Missing", missing, missing_tone), ("Unlisted", unlisted, Tone::Plain)].into_iter().chain(conflicts);
    let all = all.chain([
        ("Dates", dated_ahead(fleet, most), Tone::Bad),
        ("Unexpected", standing::unexpected(fleet, most), Tone::Bad),
        ("Few answers", few.words(fleet, most), Tone::Doubt),
        ("Alone", lonely(fleet, most), Tone::Plain),
        ("Differ most", differ_most(fleet, told, most), Tone::Plain),
        ("Labels", standing::labelled(fleet, most), Tone::Plain),
    ]);
    let fact = |(name, text, tone): (&str, Option<String>, Tone)| match (text?, tone) {
        (text, Tone::Plain | Tone::Good) => Some(Block::fact(name, text)),
        (text, tone) => Some(Block::fact(name, Span::Toned(tone, text))),
    };
    all.filter_map(fact).collect()
}

/// Who was expected and is missing, and who came unexpected.
fn expected(fleet: &Fleet, most: usize) -> (Option<String>, Option<String>) {
    let Some(expected) = &fleet.expected else { return (None, None) };
    let missing = match expected.missing.len() {
        0 => format!("none of {} expected", expected.machines),
        count => format!("{count} of {} expected ({})", expected.machines, names(&expected.missing, most)),
    };
    let unlisted = &expected.unexpected;
    let unlisted = (!unlisted.is_empty()).then(|| format!("{} ({})", unlisted.len(), names(unlisted, most)));
    (Some(missing), unlisted)
}

/// Names that several machines have, with their reports.
fn conflicts(fleet: &Fleet, most: usize) -> Vec<String> {
    let mut called: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for machine in &fleet.machines {
        if let Some(shared) = &machine.shared_name {
            called.entry(shared).or_default().push(format!("{} in {}", machine.name, names(&machine.reports, 2)));
        }
    }
    let conflicts = called.iter().take(most).map(|(shared, all)| {
        let count = counted(all.len() as u64, "machine");
        format!("{count} with other GPUs have one name, {shared}: {}", names(all, most))
    });
    conflicts.chain((called.len() > most).then(|| format!("and {} more names", called.len() - most))).collect()
}

/// Machines with a report of the future.
fn dated_ahead(fleet: &Fleet, most: usize) -> Option<String> {
    let ahead: Vec<&String> = fleet.machines.iter().filter(|it| it.dated_ahead).map(|it| &it.name).collect();
    let count = counted(ahead.len() as u64, "machine");
    (!ahead.is_empty()).then(|| format!("{count} with a report that is dated in the future: {}", names(&ahead, most)))
}

/// Machines that are alone in their group, in a sentence.
fn lonely(fleet: &Fleet, most: usize) -> Option<String> {
    match alone(fleet).as_slice() {
        [] => None,
        [alone] => Some(format!("{alone} is alone in its group: it cannot differ")),
        all => {
            let names = names(all, most);
            Some(format!("{} machines are alone in their groups, and cannot differ: {names}", all.len()))
        }
    }
}
