//! An entire fleet, in the same words and in the same order in every format: its counts, the missing machines, the
//! machines that differ, and what matters although no machine differs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::words::{Deviation, any_names, name, names};
use crate::block::{Block, Span, Tone};
use cuda_pitfalls_answers::fleet::{AnswerCoverage, Fleet, FleetMachine, Group, Outliers};
use cuda_pitfalls_answers::survey::word;
use cuda_pitfalls_core::text::counts::{counted, group_by_key, listed};
use cuda_pitfalls_core::text::escape::shorten_text;

/// Maximum length of a report's text, in bytes.
const LONGEST: usize = 220;

/// Returns the number of machines with an unexpected verdict in their own reports.
pub(super) fn unexpected_machines(fleet: &Fleet) -> usize {
    let machines = fleet.machines.iter();
    machines.filter(|machine| machine.unexpected > 0).count()
}

/// Returns the unexpected verdicts and the number of machines with each: `context/one on all 5 machines`. `None` if all
/// are expected.
pub(super) fn unexpected_verdicts(fleet: &Fleet, most: usize) -> Option<String> {
    // By question: machines with an answer, and those whose own report calls it unexpected.
    let mut questions: BTreeMap<usize, [BTreeSet<usize>; 2]> = BTreeMap::new();
    for group in &fleet.groups {
        for usual in &group.usual {
            if usual.unexpected.is_empty() {
                continue;
            }
            let [answered, unexpected] = questions.entry(usual.question).or_default();
            let silent: HashSet<&usize> = usual.no_answer.iter().chain(&usual.not_asked).collect();
            for machine in &group.machines {
                if !silent.contains(machine) {
                    answered.insert(*machine);
                }
            }
            unexpected.extend(&usual.unexpected);
        }
    }
    let mut all: Vec<(usize, usize, &str)> = Vec::new();
    for (index, [answered, unexpected]) in &questions {
        let question = fleet.questions.get(*index);
        let name = question.map_or("unknown", |question| &question.name);
        all.push((unexpected.len(), answered.len(), name));
    }
    all.sort_by_key(|(count, _, question)| (std::cmp::Reverse(*count), *question));
    let mut lines = Vec::new();
    for (count, of, question) in all {
        lines.push(match of {
            _ if count < of => format!("{question} on {count} of {of} machines"),
            1 => format!("{question} on 1 machine"),
            of => format!("{question} on all {of} machines"),
        });
    }
    any_names(&lines, most)
}

/// Machines that answered few questions, by their index.
pub(super) type FewAnswers = BTreeMap<usize, AnswerCoverage>;

/// Returns the machines that answered too few questions to differ much.
pub(super) fn few_answers(fleet: &Fleet) -> FewAnswers {
    let mut few: FewAnswers = fleet.coverage().into_iter().enumerate().collect();
    few.retain(|_, coverage| coverage.is_small());
    few
}

/// Returns these machines as text: `of the questions that most of the group answered: node-3 10 of 50`. `None` if every
/// machine answered enough.
fn few_answer_words(few: &FewAnswers, fleet: &Fleet, most: usize) -> Option<String> {
    let mut fewest_first: Vec<(&usize, &AnswerCoverage)> = few.iter().collect();
    fewest_first.sort_by_key(|(_, coverage)| coverage.answered);
    let mut lines = Vec::new();
    for (index, coverage) in fewest_first {
        let AnswerCoverage {
            answered, asked, ..
        } = coverage;
        lines.push(format!("{} {answered} of {asked}", name(fleet, *index)));
    }
    let words = any_names(&lines, most)?;
    Some(format!(
        "scenarios answered, of those that most machines in the group answered: {words}"
    ))
}

/// Returns the sentence for a fleet without differences.
pub(super) fn no_difference(few: &FewAnswers) -> &'static str {
    if few.is_empty() {
        "No machine differs from its group."
    } else {
        "No machine differs from its group in the available answers."
    }
}

/// Returns the machines without CUDA: `1 machine cannot use CUDA: gpu-200: libcuda.so.1 was not found`. `None` if CUDA
/// starts everywhere.
pub(super) fn without_cuda(fleet: &Fleet, most: usize) -> Option<String> {
    let mut broken: Vec<(&str, &str)> = Vec::new();
    for machine in &fleet.machines {
        if let Some(why) = &machine.no_cuda {
            broken.push((why, &machine.name));
        }
    }
    let count = counted(broken.len() as u64, "machine");
    let mut reasons = Vec::new();
    for (why, machines) in group_by_key(broken) {
        let why = shorten_text(why, LONGEST);
        reasons.push(format!("{}: {why}", names(&machines, most)));
    }
    let reasons = any_names(&reasons, most)?;
    Some(format!("{count} cannot use CUDA: {reasons}"))
}

/// Returns the machines whose reports are all left out: `gpu-9 (stale)`.
fn left_out(fleet: &Fleet, most: usize) -> Option<String> {
    let mut lines = Vec::new();
    for machine in &fleet.machines {
        if let Some(bucket) = machine.left_out {
            lines.push(format!("{} ({})", machine.name, word(bucket)));
        }
    }
    any_names(&lines, most)
}

/// Returns what the labels show about outliers: `all machines with rack=3, and no others`.
pub(super) fn label_words(outliers: &Outliers) -> Option<String> {
    if outliers.labels.is_empty() {
        return None;
    }
    let labels = outliers.labels.join(" or ");
    Some(format!("exactly the machines with {labels}"))
}

/// Returns the machines with answers that cannot be compared, and that differ in nothing else: they are alone in each
/// of their groups.
pub(super) fn alone(fleet: &Fleet) -> Vec<&str> {
    let mut largest: BTreeMap<usize, usize> = BTreeMap::new();
    for group in answer_groups(fleet) {
        for index in &group.machines {
            let known = largest.entry(*index).or_insert(0);
            *known = group.machines.len().max(*known);
        }
    }
    for difference in &fleet.differences {
        for index in &difference.machines {
            largest.remove(index);
        }
    }
    let mut alone = Vec::new();
    for (index, largest) in largest.range(..fleet.machines.len()) {
        if *largest == 1 {
            alone.push(name(fleet, *index));
        }
    }
    alone
}

/// Returns the groups that answers are compared in.
pub(super) fn answer_groups(fleet: &Fleet) -> impl Iterator<Item = &Group> {
    fleet.groups.iter().filter(|group| !group.key.is_of_facts)
}

/// Returns the number of machines that differ in something from the others of a group. A split group has no such
/// machines.
pub(super) fn count_differing(fleet: &Fleet, told: &[Deviation<'_>]) -> usize {
    let mut differing = by_machine(told);
    differing.retain(|(index, _)| *index < fleet.machines.len());
    differing.len()
}

/// Returns the machines that differ, each with the number of questions, the most first. A split group has no such
/// machines.
pub(super) fn by_machine(told: &[Deviation<'_>]) -> Vec<(usize, usize)> {
    let mut questions: HashMap<usize, HashSet<usize>> = HashMap::new();
    for one in told {
        if one.is_split {
            continue;
        }
        for index in &one.difference.machines {
            let of_machine = questions.entry(*index).or_default();
            of_machine.insert(one.difference.question);
        }
    }
    let mut most = Vec::new();
    for (index, all) in questions {
        most.push((index, all.len()));
    }
    most.sort_by_key(|(index, count)| (std::cmp::Reverse(*count), *index));
    most
}

/// Returns the machines that differ in the most questions: `node-3 in 12 questions`.
fn differ_most(fleet: &Fleet, told: &[Deviation<'_>], most: usize) -> Option<String> {
    let mut lines = Vec::new();
    for (index, count) in by_machine(told) {
        let questions = counted(count as u64, "question");
        lines.push(format!("{} in {questions}", name(fleet, index)));
    }
    any_names(&lines, most)
}

/// Returns the row of a group: the number of machines, the number that differ, and whether it is split.
pub(super) fn group(
    group: &Group,
    told: &[Deviation<'_>],
    few: &FewAnswers,
    index: usize,
) -> String {
    let machines = group.machines.iter();
    let few_count = machines.filter(|machine| few.contains_key(machine)).count();
    let (mut split, mut differing) = (0_u64, HashSet::<usize>::new());
    for one in told {
        if one.difference.group != index {
            continue;
        }
        if one.is_split {
            split += 1;
        } else {
            differing.extend(&one.difference.machines);
        }
    }
    let mut words = match (group.machines.len(), differing.len()) {
        (1, _) => return "1 machine: nothing to compare with".to_owned(),
        (count, 0) if split == 0 && few_count > 0 => {
            format!("{count} machines, no differences in the available answers")
        }
        (count, 0) if split == 0 => format!("{count} machines, none differs"),
        (count, 0) => format!("{count} machines"),
        (count, 1) => format!("{count} machines, 1 differs"),
        (count, differ) => format!("{count} machines, {differ} differ"),
    };
    if split > 0 {
        words += &format!(", split in {}", counted(split, "question"));
    }
    if few_count > 0 {
        words += &format!(", {few_count} with few answers");
    }
    words
}

/// Returns the title: `120 machines in 3 groups, 2 missing, 5 machines differ`.
pub(super) fn title(fleet: &Fleet, told: &[Deviation<'_>]) -> String {
    let mut words = Vec::new();
    for (_, count) in counts(fleet, told) {
        words.push(count);
    }
    words.join(", ")
}

/// Returns the four numbers at the top of a page, each with its description. The third and the fourth may be unknown.
pub(super) fn key_numbers(
    fleet: &Fleet,
    told: &[Deviation<'_>],
) -> [(Tone, Option<usize>, String); 4] {
    let groups = counted(answer_groups(fleet).count() as u64, "group");
    let broken = fleet.machines.iter();
    let no_cuda = broken.filter(|machine| machine.no_cuda.is_some()).count();
    let missing = fleet.expected.as_ref().map(|list| list.missing.len());
    [
        (
            Tone::Plain,
            Some(fleet.machines.len()),
            format!("machines in {groups}"),
        ),
        (Tone::Bad, Some(no_cuda), "cannot use CUDA".to_owned()),
        (
            Tone::Doubt,
            Some(count_differing(fleet, told)),
            "differ".to_owned(),
        ),
        (
            Tone::Bad,
            missing,
            match missing {
                Some(_) => "missing".to_owned(),
                None => "missing: no list of expected machines".to_owned(),
            },
        ),
    ]
}

/// Returns the counts of a fleet, each in the color of its meaning.
pub(super) fn counts(fleet: &Fleet, told: &[Deviation<'_>]) -> Vec<(Tone, String)> {
    let machines = counted(fleet.machines.len() as u64, "machine");
    let groups = counted(answer_groups(fleet).count() as u64, "group");
    let mut counts = vec![(Tone::Plain, format!("{machines} in {groups}"))];
    let broken = fleet.machines.iter();
    let no_cuda = broken.filter(|machine| machine.no_cuda.is_some()).count();
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
    let (few, unexpected) = (few_answers(fleet).len(), unexpected_machines(fleet));
    counts.push(match count_differing(fleet, told) {
        0 if few > 0 => (
            Tone::Plain,
            "no differences in the available answers".to_owned(),
        ),
        // If nothing differs because all are wrong, the count is not shown as good.
        0 if unexpected + no_cuda > 0 => (Tone::Plain, "none differs".to_owned()),
        0 => (Tone::Good, "none differs".to_owned()),
        1 => (Tone::Doubt, "1 machine differs".to_owned()),
        count => (Tone::Doubt, format!("{count} machines differ")),
    });
    counts.extend(further_counts(fleet, told));
    counts
}

/// Returns the counts that are not among the key numbers.
pub(super) fn further_counts(fleet: &Fleet, told: &[Deviation<'_>]) -> Vec<(Tone, String)> {
    let (few, unexpected) = (few_answers(fleet).len(), unexpected_machines(fleet));
    let split = told.iter().filter(|one| one.is_split).count();
    let mut counts = Vec::new();
    for (count, tone, what, noun) in [
        (split, Tone::Doubt, "no majority in", "question"),
        (unexpected, Tone::Bad, "unexpected verdicts on", "machine"),
        (few, Tone::Doubt, "few answers from", "machine"),
    ] {
        if count > 0 {
            counts.push((tone, format!("{what} {}", counted(count as u64, noun))));
        }
    }
    counts
}

/// Returns the number of documents by their result: `130 documents: 120 merged, 4 duplicate`.
pub(super) fn input_line(fleet: &Fleet) -> String {
    let input = &fleet.input;
    let mut buckets = Vec::new();
    for (bucket, count) in &input.buckets {
        if *count > 0 {
            buckets.push(format!("{count} {}", word(bucket)));
        }
    }
    let documents = counted(input.documents, "document");
    let words = format!("{documents}: {}", listed(buckets, "none"));
    match (&input.from, &input.to) {
        (Some(from), Some(to)) if from == to => format!("{words}; run at {from}"),
        (Some(from), Some(to)) => format!("{words}; run from {from} to {to}"),
        _ => words,
    }
}

/// Returns the remarks on the fleet, in the order of every format. At most `most` machines and questions are listed in
/// each.
pub(super) fn fleet_remarks(
    fleet: &Fleet,
    told: &[Deviation<'_>],
    few: &FewAnswers,
    most: usize,
) -> Vec<Block> {
    let (missing, unlisted) = expected(fleet, most);
    let missing_tone = match &fleet.expected {
        Some(expected) if !expected.missing.is_empty() => Tone::Bad,
        _ => Tone::Good,
    };
    let mut all = vec![
        ("Missing", missing, missing_tone),
        ("Unlisted", unlisted, Tone::Plain),
    ];
    for conflict in name_conflicts(fleet, most) {
        all.push(("Conflict", Some(conflict), Tone::Bad));
    }
    all.extend([
        ("Dates", dated_ahead(fleet, most), Tone::Bad),
        ("Unexpected", unexpected_verdicts(fleet, most), Tone::Bad),
        (
            "Few answers",
            few_answer_words(few, fleet, most),
            Tone::Doubt,
        ),
        ("Not compared", left_out(fleet, most), Tone::Doubt),
        ("Alone", lone_machines_sentence(fleet, most), Tone::Plain),
        ("Differ most", differ_most(fleet, told, most), Tone::Plain),
    ]);
    let mut facts = Vec::new();
    for (name, text, tone) in all {
        match (text, tone) {
            (None, _) => {}
            (Some(text), Tone::Plain | Tone::Good) => facts.push(Block::fact(name, text)),
            (Some(text), tone) => facts.push(Block::fact(name, Span::Toned(tone, text))),
        }
    }
    facts
}

/// Returns the expected machines that are missing, and the unexpected ones.
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
    if unlisted.is_empty() {
        return (Some(missing), None);
    }
    let unlisted = format!("{} ({})", unlisted.len(), names(unlisted, most));
    (Some(missing), Some(unlisted))
}

/// Returns the names that several machines have, with their reports.
fn name_conflicts(fleet: &Fleet, most: usize) -> Vec<String> {
    let mut called: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut disagreeing = Vec::new();
    for machine in &fleet.machines {
        if let Some(shared) = &machine.shared_name {
            let reports = names(&machine.reports, 2);
            let all = called.entry(shared).or_default();
            all.push(format!("{} in {reports}", machine.name));
        }
        if !machine.conflicts.is_empty() {
            disagreeing.push(disagreement_line(machine));
        }
    }
    let mut conflicts = Vec::new();
    for (shared, all) in called.iter().take(most) {
        let count = counted(all.len() as u64, "machine");
        let names = names(all, most);
        conflicts.push(format!(
            "{count} with different GPUs share a name, {shared}: {names}"
        ));
    }
    let more = disagreeing.len().saturating_sub(most);
    disagreeing.truncate(most);
    conflicts.append(&mut disagreeing);
    if more > 0 {
        conflicts.push(format!("and {more} more machines whose reports disagree"));
    }
    if called.len() > most {
        conflicts.push(format!("and {} more names", called.len() - most));
    }
    conflicts
}

/// Returns the properties that the reports of a machine disagree on.
fn disagreement_line(machine: &FleetMachine) -> String {
    let mut what = Vec::new();
    for conflict in &machine.conflicts {
        what.push(shorten_text(conflict, 2 * LONGEST));
    }
    format!("{}: {}", machine.name, names(&what, 2))
}

/// Returns the machines with a report that is dated in the future.
fn dated_ahead(fleet: &Fleet, most: usize) -> Option<String> {
    let mut ahead = Vec::new();
    for machine in &fleet.machines {
        if machine.dated_ahead {
            ahead.push(machine.name.as_str());
        }
    }
    let names = any_names(&ahead, most)?;
    let count = counted(ahead.len() as u64, "machine");
    Some(format!(
        "{count} with a report dated in the future: {names}"
    ))
}

/// Returns a sentence about the machines that are alone in their group.
fn lone_machines_sentence(fleet: &Fleet, most: usize) -> Option<String> {
    match alone(fleet).as_slice() {
        [] => None,
        [alone] => Some(format!(
            "{alone} is alone in its group: nothing to compare with"
        )),
        all => {
            let names = names(all, most);
            let count = all.len();
            Some(format!(
                "{count} machines are alone in their groups: nothing to compare with: {names}"
            ))
        }
    }
}
