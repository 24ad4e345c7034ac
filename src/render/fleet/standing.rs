//! A fleet as a whole, in the same words and in the same order in every form: its counts, who is missing, who differs,
//! and what matters although no machine differs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::words::{Deviation, any_names, name, names};
use crate::block::{Block, Span, Tone};
use cuda_pitfalls_answers::fleet::{AnswerCoverage, Fleet, FleetMachine, Group, Outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::{counted, group_by_key, listed};
use cuda_pitfalls_core::text::escape::shorten_text;

/// A text of a report is cut to so many bytes.
const LONGEST: usize = 220;

/// Machines with an unexpected verdict by their own reports.
pub(super) fn unexpected_machines(fleet: &Fleet) -> usize {
    fleet
        .machines
        .iter()
        .filter(|machine| machine.unexpected > 0)
        .count()
}

/// Which verdicts are unexpected and on how many machines: `context/one on all 5 machines`. None if there is none.
pub(super) fn unexpected_verdicts(fleet: &Fleet, most: usize) -> Option<String> {
    // By question: machines with an answer, and those whose own report calls it unexpected.
    let mut questions: BTreeMap<usize, [BTreeSet<usize>; 2]> = BTreeMap::new();
    for (group, usual) in fleet
        .groups
        .iter()
        .flat_map(|group| group.usual.iter().map(move |usual| (group, usual)))
    {
        if usual.unexpected.is_empty() {
            continue;
        }
        let [answered, unexpected] = questions.entry(usual.question).or_default();
        let silent: HashSet<&usize> = usual.no_answer.iter().chain(&usual.not_asked).collect();
        answered.extend(
            group
                .machines
                .iter()
                .filter(|machine| !silent.contains(machine)),
        );
        unexpected.extend(&usual.unexpected);
    }
    let all = questions.iter().map(|(index, [answered, unexpected])| {
        let question = fleet
            .questions
            .get(*index)
            .map_or("unknown", |question| &question.name);
        (unexpected.len(), answered.len(), question)
    });
    let mut all: Vec<(usize, usize, &str)> = all.collect();
    all.sort_by_key(|(count, _, question)| (std::cmp::Reverse(*count), *question));
    let lines = all.iter().map(|(count, of, question)| match of {
        _ if count < of => format!("{question} on {count} of {of} machines"),
        1 => format!("{question} on 1 machine"),
        of => format!("{question} on all {of} machines"),
    });
    any_names(lines, most)
}

/// The machines that answered so few questions that they can hardly differ.
pub(super) struct Few {
    /// The fewest answers first.
    all: Vec<(usize, AnswerCoverage)>,
    indices: HashSet<usize>,
}

pub(super) fn few_answers(fleet: &Fleet) -> Few {
    let all = fleet.coverage().into_iter().enumerate();
    let mut all: Vec<(usize, AnswerCoverage)> =
        all.filter(|(_, coverage)| coverage.is_small()).collect();
    all.sort_by_key(|(index, coverage)| (coverage.answered, *index));
    let indices = all.iter().map(|(index, _)| *index).collect();
    Few { all, indices }
}

impl Few {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// How many of these machines are among them.
    pub(super) fn count_among(&self, machines: &[usize]) -> usize {
        machines
            .iter()
            .filter(|machine| self.indices.contains(machine))
            .count()
    }

    /// `of the questions that most of the group answered: node-3 10 of 50`. None if every machine answered enough.
    pub(super) fn words(&self, fleet: &Fleet, most: usize) -> Option<String> {
        let lines = self.all.iter().map(|(index, coverage)| {
            format!(
                "{} {} of {}",
                name(fleet, *index),
                coverage.answered,
                coverage.asked
            )
        });
        any_names(lines, most)
            .map(|words| format!("of the questions that most of the group answered: {words}"))
    }

    /// What is said where there is no difference.
    pub(super) fn no_difference(&self) -> &'static str {
        if self.all.is_empty() {
            "No machine differs from the others of its group."
        } else {
            "No machine differs from the others of its group in what it answered."
        }
    }
}

/// `1 machine cannot use CUDA: gpu-200: libcuda.so.1 was not found`. None if CUDA starts everywhere.
pub(super) fn without_cuda(fleet: &Fleet, most: usize) -> Option<String> {
    let broken: Vec<(&str, &str)> = fleet
        .machines
        .iter()
        .filter_map(|machine| Some((machine.no_cuda.as_deref()?, machine.name.as_str())))
        .collect();
    let count = counted(broken.len() as u64, "machine");
    let reasons = group_by_key(broken).into_iter();
    let reasons = reasons.map(|(why, machines)| {
        format!("{}: {}", names(&machines, most), shorten_text(why, LONGEST))
    });
    any_names(reasons, most).map(|reasons| format!("{count} cannot use CUDA: {reasons}"))
}

/// Machines of which every report is left out: `gpu-9 (stale)`.
fn left_out(fleet: &Fleet, most: usize) -> Option<String> {
    let lines = fleet
        .machines
        .iter()
        .filter_map(|machine| Some(format!("{} ({})", machine.name, word(machine.left_out?))));
    any_names(lines, most)
}

/// What is known of outliers by their labels: `all machines with rack=3, and no others`.
pub(super) fn label_words(outliers: &Outliers) -> Option<String> {
    (!outliers.labels.is_empty()).then(|| {
        format!(
            "all machines with {}, and no others",
            outliers.labels.join(" or ")
        )
    })
}

/// The machines whose answers nobody can be compared with, and that differ in nothing else: in every group that they are
/// in, they are the only one.
pub(super) fn alone(fleet: &Fleet) -> Vec<&str> {
    let mut largest: BTreeMap<usize, usize> = BTreeMap::new();
    for group in answer_groups(fleet) {
        for index in &group.machines {
            let known = largest.entry(*index).or_insert(0);
            *known = group.machines.len().max(*known);
        }
    }
    let differing: HashSet<usize> = fleet
        .differences
        .iter()
        .flat_map(|one| one.machines.iter().copied())
        .collect();
    let known = largest.range(..fleet.machines.len());
    let alone = known.filter(|(index, largest)| **largest == 1 && !differing.contains(*index));
    alone.map(|(index, _)| name(fleet, *index)).collect()
}

/// The groups in which answers are compared.
pub(super) fn answer_groups(fleet: &Fleet) -> impl Iterator<Item = &Group> {
    fleet.groups.iter().filter(|group| !group.key.is_of_facts)
}

/// How many machines differ in something from the others of a group. A group that is split has none.
pub(super) fn count_differing(fleet: &Fleet, told: &[Deviation<'_>]) -> usize {
    by_machine(told)
        .iter()
        .filter(|(index, _)| *index < fleet.machines.len())
        .count()
}

/// The machines that differ, each with in how many questions, the most first. A group that is split has none.
pub(super) fn by_machine(told: &[Deviation<'_>]) -> Vec<(usize, usize)> {
    let mut questions: HashMap<usize, HashSet<usize>> = HashMap::new();
    for one in told.iter().filter(|one| !one.is_split) {
        for index in &one.difference.machines {
            questions
                .entry(*index)
                .or_default()
                .insert(one.difference.question);
        }
    }
    let mut most: Vec<(usize, usize)> = questions
        .iter()
        .map(|(index, all)| (*index, all.len()))
        .collect();
    most.sort_by_key(|(index, count)| (std::cmp::Reverse(*count), *index));
    most
}

/// Who differs in the most questions: `node-3 in 12 questions`.
fn differ_most(fleet: &Fleet, told: &[Deviation<'_>], count: usize) -> Option<String> {
    let most = by_machine(told);
    let lines = most.iter().map(|(index, count)| {
        format!(
            "{} in {}",
            name(fleet, *index),
            counted(*count as u64, "question")
        )
    });
    any_names(lines, count)
}

/// What a group's row says of its machines: how many there are, how many differ, and whether it is split.
pub(super) fn group(group: &Group, told: &[Deviation<'_>], few: &Few, index: usize) -> String {
    let few = few.count_among(&group.machines);
    let (split, others): (Vec<&Deviation<'_>>, Vec<&Deviation<'_>>) = told
        .iter()
        .filter(|one| one.difference.group == index)
        .partition(|one| one.is_split);
    let differing: HashSet<&usize> = others
        .into_iter()
        .flat_map(|one| &one.difference.machines)
        .collect();
    let split = split.len();
    let mut words = match (group.machines.len(), differing.len()) {
        (1, _) => return "1 machine: nothing is compared with it".to_owned(),
        (count, 0) if split == 0 && few > 0 => {
            format!("{count} machines, none differs in what it answered")
        }
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
pub(super) fn title(fleet: &Fleet, told: &[Deviation<'_>]) -> String {
    listed(counts(fleet, told).into_iter().map(|(_, words)| words), "")
}

/// The counts of a fleet, each in the colour of what it means.
pub(super) fn counts(fleet: &Fleet, told: &[Deviation<'_>]) -> Vec<(Tone, String)> {
    let machines = counted(fleet.machines.len() as u64, "machine");
    let mut counts = vec![(
        Tone::Plain,
        format!(
            "{machines} in {}",
            counted(answer_groups(fleet).count() as u64, "group")
        ),
    )];
    let no_cuda = fleet
        .machines
        .iter()
        .filter(|machine| machine.no_cuda.is_some())
        .count();
    if no_cuda > 0 {
        counts.push((Tone::Bad, format!("{no_cuda} without CUDA")));
    }
    if let Some(expected) = &fleet.expected {
        let tone = if expected.missing.is_empty() {
            Tone::Good
        } else {
            Tone::Bad
        };
        counts.push((tone, format!("{} missing", expected.missing.len())));
    }
    let (few, unexpected) = (few_answers(fleet).count(), unexpected_machines(fleet));
    counts.push(match count_differing(fleet, told) {
        0 if few > 0 => (Tone::Plain, "none differs in what it answered".to_owned()),
        // Where nothing differs because all are wrong, that is no good news.
        0 if unexpected + no_cuda > 0 => (Tone::Plain, "none differs".to_owned()),
        0 => (Tone::Good, "none differs".to_owned()),
        1 => (Tone::Doubt, "1 machine differs".to_owned()),
        count => (Tone::Doubt, format!("{count} machines differ")),
    });
    let split = told.iter().filter(|one| one.is_split).count();
    let others = [
        (split, Tone::Doubt, "no majority in", "question"),
        (unexpected, Tone::Bad, "unexpected verdicts on", "machine"),
        (few, Tone::Doubt, "few answers from", "machine"),
    ];
    let others = others.into_iter().filter(|(count, ..)| *count > 0);
    counts.extend(others.map(|(count, tone, what, noun)| {
        (tone, format!("{what} {}", counted(count as u64, noun)))
    }));
    counts
}

/// What was read and what became of it: `130 documents: 120 merged, 4 duplicate`.
pub(super) fn input_line(fleet: &Fleet) -> String {
    let input = &fleet.input;
    let buckets = input.buckets.iter().filter(|(_, count)| **count > 0);
    let buckets = listed(
        buckets.map(|(bucket, count)| format!("{count} {}", word(bucket))),
        "none",
    );
    let mut words = format!("{}: {buckets}", counted(input.documents, "document"));
    if let (Some(from), Some(to)) = (&input.from, &input.to) {
        words.push_str(&if from == to {
            format!("; run at {from}")
        } else {
            format!("; run from {from} to {to}")
        });
    }
    words
}

/// What is said of a fleet as a whole, in the order of every form. Of machines and questions at most so many are named.
pub(super) fn fleet_remarks(
    fleet: &Fleet,
    told: &[Deviation<'_>],
    few: &Few,
    most: usize,
) -> Vec<Block> {
    let (missing, unlisted) = expected(fleet, most);
    let is_missing = fleet
        .expected
        .as_ref()
        .is_some_and(|it| !it.missing.is_empty());
    let missing_tone = if is_missing { Tone::Bad } else { Tone::Good };
    let conflicts = name_conflicts(fleet, most)
        .into_iter()
        .map(|text| ("Conflict", Some(text), Tone::Bad));
    let all = [
        ("Missing", missing, missing_tone),
        ("Unlisted", unlisted, Tone::Plain),
    ]
    .into_iter()
    .chain(conflicts);
    let all = all.chain([
        ("Dates", dated_ahead(fleet, most), Tone::Bad),
        ("Unexpected", unexpected_verdicts(fleet, most), Tone::Bad),
        ("Few answers", few.words(fleet, most), Tone::Doubt),
        ("Not compared", left_out(fleet, most), Tone::Doubt),
        ("Alone", lone_machines_sentence(fleet, most), Tone::Plain),
        ("Differ most", differ_most(fleet, told, most), Tone::Plain),
    ]);
    let facts = all.filter_map(|(name, text, tone)| match (text?, tone) {
        (text, Tone::Plain | Tone::Good) => Some(Block::fact(name, text)),
        (text, tone) => Some(Block::fact(name, Span::Toned(tone, text))),
    });
    facts.collect()
}

/// Who was expected and is missing, and who came unexpected.
fn expected(fleet: &Fleet, most: usize) -> (Option<String>, Option<String>) {
    let Some(expected) = &fleet.expected else {
        return (None, None);
    };
    let missing = match expected.missing.len() {
        0 => format!("none of {} expected", expected.machines),
        count => format!(
            "{count} of {} expected ({})",
            expected.machines,
            names(&expected.missing, most)
        ),
    };
    let unlisted = &expected.unexpected;
    let unlisted =
        (!unlisted.is_empty()).then(|| format!("{} ({})", unlisted.len(), names(unlisted, most)));
    (Some(missing), unlisted)
}

/// Names that several machines have, with their reports.
fn name_conflicts(fleet: &Fleet, most: usize) -> Vec<String> {
    let mut called: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for machine in &fleet.machines {
        if let Some(shared) = &machine.shared_name {
            called.entry(shared).or_default().push(format!(
                "{} in {}",
                machine.name,
                names(&machine.reports, 2)
            ));
        }
    }
    let conflicts = called.iter().take(most).map(|(shared, all)| {
        let count = counted(all.len() as u64, "machine");
        format!(
            "{count} with other GPUs have one name, {shared}: {}",
            names(all, most)
        )
    });
    let disagreeing: Vec<&FleetMachine> = fleet
        .machines
        .iter()
        .filter(|machine| !machine.conflicts.is_empty())
        .collect();
    let more = disagreeing.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more machines whose reports disagree"));
    let conflicts = conflicts
        .chain(disagreeing.into_iter().take(most).map(disagreement_line))
        .chain(more);
    conflicts
        .chain((called.len() > most).then(|| format!("and {} more names", called.len() - most)))
        .collect()
}

/// What the reports of a machine do not say alike.
fn disagreement_line(machine: &FleetMachine) -> String {
    let what: Vec<String> = machine
        .conflicts
        .iter()
        .map(|conflict| shorten_text(conflict, 2 * LONGEST))
        .collect();
    format!("{}: {}", machine.name, names(&what, 2))
}

/// Machines with a report of the future.
fn dated_ahead(fleet: &Fleet, most: usize) -> Option<String> {
    let ahead: Vec<&String> = fleet
        .machines
        .iter()
        .filter(|it| it.dated_ahead)
        .map(|it| &it.name)
        .collect();
    let count = counted(ahead.len() as u64, "machine");
    (!ahead.is_empty()).then(|| {
        format!(
            "{count} with a report that is dated in the future: {}",
            names(&ahead, most)
        )
    })
}

/// Machines that are alone in their group, in a sentence.
fn lone_machines_sentence(fleet: &Fleet, most: usize) -> Option<String> {
    match alone(fleet).as_slice() {
        [] => None,
        [alone] => Some(format!(
            "{alone} is alone in its group: its answers are compared with none"
        )),
        all => {
            let names = names(all, most);
            let count = all.len();
            Some(format!(
                "{count} machines are alone in their groups, their answers are compared with none: {names}"
            ))
        }
    }
}
