//! What matters although no machine differs: verdicts that are unexpected, machines that answered little, labels of
//! which the machines differ.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cuda_pitfalls_answers::fleet::{AnswerCoverage, Fleet, labels};

use super::words::{name, names};

/// Machines with an unexpected verdict by their own reports.
pub(super) fn unexpected_machines(fleet: &Fleet) -> usize {
    fleet.machines.iter().filter(|machine| machine.unexpected > 0).count()
}

/// Which verdicts are unexpected and on how many machines: `context/one on all 5 machines`. None if there is none.
pub(super) fn unexpected(fleet: &Fleet, most: usize) -> Option<String> {
    // By question: machines with an answer, and those whose own report calls it unexpected.
    let mut questions: BTreeMap<usize, [BTreeSet<usize>; 2]> = BTreeMap::new();
    for (group, usual) in fleet.groups.iter().flat_map(|group| group.usual.iter().map(move |usual| (group, usual))) {
        if usual.unexpected.is_empty() {
            continue;
        }
        let [answered, unexpected] = questions.entry(usual.question).or_default();
        let silent: HashSet<&usize> = usual.no_answer.iter().chain(&usual.not_asked).collect();
        answered.extend(group.machines.iter().filter(|machine| !silent.contains(machine)));
        unexpected.extend(&usual.unexpected);
    }
    let mut all: Vec<(usize, usize, &str)> = Vec::new();
    for (place, [answered, unexpected]) in &questions {
        let question = fleet.questions.get(*place).map_or("unknown", |question| &question.name);
        all.push((unexpected.len(), answered.len(), question));
    }
    all.sort_by_key(|(count, _, question)| (std::cmp::Reverse(*count), *question));
    let lines: Vec<String> = all
        .iter()
        .map(|(count, of, question)| match of {
            _ if count < of => format!("{question} on {count} of {of} machines"),
            1 => format!("{question} on 1 machine"),
            of => format!("{question} on all {of} machines"),
        })
        .collect();
    (!lines.is_empty()).then(|| names(&lines, most))
}

/// The machines that answered so few questions that they can hardly differ.
pub(super) struct Few {
    /// The fewest answers first.
    all: Vec<(usize, AnswerCoverage)>,
    places: HashSet<usize>,
}

pub(super) fn few(fleet: &Fleet) -> Few {
    let all = fleet.coverage().into_iter().enumerate();
    let mut all: Vec<(usize, AnswerCoverage)> = all.filter(|(_, coverage)| coverage.is_small()).collect();
    all.sort_by_key(|(place, coverage)| (coverage.answered, *place));
    let places = all.iter().map(|(place, _)| *place).collect();
    Few { all, places }
}

impl Few {
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// How many of these machines are among them.
    pub(super) fn among(&self, machines: &[usize]) -> usize {
        machines.iter().filter(|machine| self.places.contains(machine)).count()
    }

    /// `of the questions that most of the group answered: node-3 10 of 50`. None if every machine answered enough.
    pub(super) fn words(&self, fleet: &Fleet, most: usize) -> Option<String> {
        let line = |(place, coverage): &(usize, AnswerCoverage)| {
            format!("{} {} of {}", name(fleet, *place), coverage.answered, coverage.asked)
        };
        let lines: Vec<String> = self.all.iter().map(line).collect();
        let words = names(&lines, most);
        (!lines.is_empty()).then(|| format!("of the questions that most of the group answered: {words}"))
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

/// Labels of which the machines differ: `rack=3: 4 of 4 machines differ, of the others 1 of 36`.
pub(super) fn labelled(fleet: &Fleet, most: usize) -> Option<String> {
    let shares = labels(fleet);
    let lines: Vec<String> = shares
        .iter()
        .map(|it| {
            let of_others = format!("of the others {} of {}", it.others_differing, it.others);
            format!("{}: {} of {} machines differ, {of_others}", it.label, it.differing, it.machines)
        })
        .collect();
    let words = names(&lines, most);
    (!lines.is_empty()).then_some(words)
}
