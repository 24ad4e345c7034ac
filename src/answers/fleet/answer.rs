//! Answers, the unit of comparison between machines.

use std::sync::OnceLock;

use super::change::CaseChange;
use cuda_pitfalls_core::verdict::Kind;

/// Answer of a machine to one question on one libcudart.
#[derive(Clone, Debug)]
pub(super) struct MachineAnswer {
    /// Scenario of the instance; empty for rows.
    pub scenario: String,
    /// Text of the question, if the document contains it.
    pub words: String,
    /// The part of the answer that other machines may have in common.
    pub answer: SharedAnswer,
    /// Values of the answer's figures on this machine, in bytes; [`UNREAD`] if a figure could not be read.
    pub bytes: Vec<i64>,
    /// Position of the answer in the pool, once it is stored there. Machines with the same answer share this value, so
    /// the look-up happens only once.
    pub place: OnceLock<AnswerPlace>,
}

/// Position of an answer in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AnswerPlace {
    /// The index of the answer's name.
    pub name: u32,
    /// The index of the answer.
    pub answer: u32,
}

/// An answer, independent of the machine that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SharedAnswer {
    /// The instance, or the survey and its row.
    pub name: String,
    /// Value that identifies what was tested, if known: answers with different values belong to different questions.
    pub asked: String,
    /// Version of libcudart; empty if none is needed.
    pub libcudart: String,
    /// `true` if the report itself marks the verdict as unexpected.
    pub is_unexpected: bool,
    /// Result of the question.
    pub shown: Shown,
    /// Names of the figures: `trap/gpu0`.
    pub figures: Vec<String>,
}

/// Result of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    /// The part that is compared.
    Outcome(Same),
    /// No result, for this reason.
    Nothing(String),
}

impl Shown {
    /// Returns an outcome without facts.
    pub(super) fn without_facts() -> Shown {
        Shown::Outcome(Same {
            kind: Kind::Reproduced,
            facts: Vec::new(),
        })
    }
}

/// Facts that must be equal for two machines to have the same result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Same {
    /// The verdict.
    pub kind: Kind,
    /// Facts of all cases; empty if the answer is a mixture of outcomes, because those are a matter of chance.
    pub facts: Vec<CaseChange>,
}

/// A figure that could not be read.
pub(super) const UNREAD: i64 = i64::MIN;

impl Default for SharedAnswer {
    fn default() -> SharedAnswer {
        let (name, asked, libcudart) = (String::new(), String::new(), String::new());
        SharedAnswer {
            name,
            asked,
            libcudart,
            is_unexpected: false,
            shown: Shown::Nothing(String::new()),
            figures: Vec::new(),
        }
    }
}
