//! Number of questions of its groups that each machine answered. A machine that answered few of them cannot differ in
//! the rest.

use std::collections::HashMap;

use super::document::{Fleet, Usual};

/// Number of questions that a machine answered, among those that at least half of one of its groups answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCoverage {
    /// Number of answered questions among them.
    pub answered: usize,
    /// Number of questions among them that the machine ran without getting an answer, which is a difference.
    pub no_answer: usize,
    /// Number of these questions.
    pub asked: usize,
    /// Number of other questions that the machine answered, which fewer machines answered.
    pub others: usize,
}

impl AnswerCoverage {
    /// Returns `true` if too many answers are missing to claim that the machine does not differ: more than one in ten,
    /// and the machine did not answer other questions instead.
    pub fn is_small(self) -> bool {
        let told = self
            .answered
            .saturating_add(self.no_answer)
            .saturating_add(self.others);
        self.asked.saturating_sub(told).saturating_mul(10) > self.asked
    }
}

/// Response of a machine to a question. If several of its groups have that question, the best response counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MachineResponse {
    NothingExpected,
    RareAnswer,
    NotAsked,
    NoAnswer,
    Answer,
}

impl Fleet {
    /// Returns the coverage of each machine, in the order of [`Fleet::machines`].
    pub fn coverage(&self) -> Vec<AnswerCoverage> {
        let mut all = vec![AnswerCoverage::default(); self.machines.len()];
        let mut questions: Vec<(&Usual, &[usize])> = self
            .groups
            .iter()
            .filter(|group| !group.key.is_of_facts)
            .flat_map(|group| group.usual.iter().map(|usual| (usual, &group.machines[..])))
            .collect();
        questions.sort_by_key(|(usual, _)| usual.question);
        for of_question in questions.chunk_by(|(a, _), (b, _)| a.question == b.question) {
            let mut said = vec![MachineResponse::NothingExpected; all.len()];
            for (usual, members) in of_question {
                raise_responses(&mut said, usual, members);
            }
            for (coverage, said) in all.iter_mut().zip(said) {
                coverage.asked += usize::from(said > MachineResponse::RareAnswer);
                coverage.others += usize::from(said == MachineResponse::RareAnswer);
                coverage.no_answer += usize::from(said == MachineResponse::NoAnswer);
                coverage.answered += usize::from(said == MachineResponse::Answer);
            }
        }
        all
    }
}

/// Raises the responses of the members of a group, if the group has better ones.
fn raise_responses(known: &mut [MachineResponse], usual: &Usual, members: &[usize]) {
    let lists = [
        (MachineResponse::NoAnswer, &usual.no_answer),
        (MachineResponse::NotAsked, &usual.not_asked),
    ];
    let silent: HashMap<usize, MachineResponse> = lists
        .into_iter()
        .flat_map(|(said, list)| list.iter().map(move |machine| (*machine, said)))
        .collect();
    let is_rare = silent.len().saturating_mul(2) > members.len();
    for machine in members {
        let said = match silent.get(machine) {
            None if is_rare => MachineResponse::RareAnswer,
            None => MachineResponse::Answer,
            Some(_) if is_rare => MachineResponse::NothingExpected,
            Some(said) => *said,
        };
        if let Some(known) = known.get_mut(*machine) {
            *known = said.max(*known);
        }
    }
}
