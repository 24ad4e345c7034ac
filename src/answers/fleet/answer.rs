//! An answer, by which machines are compared.

use std::sync::OnceLock;

use super::change::CaseChange;
use cuda_pitfalls_core::verdict::Kind;

/// What one question showed on one libcudart.
#[derive(Clone, Debug)]
pub(super) struct MachineAnswer {
    /// The scenario that the instance is of; empty for rows.
    pub scenario: String,
    /// The question in words, where the document has them.
    pub words: String,
    /// What other machines may have answered too.
    pub answer: SharedAnswer,
    /// What the figures of the answer are on this machine, in bytes; [`UNREAD`] if one could not be read.
    pub bytes: Vec<i64>,
    /// Where the pool keeps the answer, once it does: machines that say the same share this value, and their answer is
    /// looked up once.
    pub place: OnceLock<AnswerPlace>,
}

/// Where a pool keeps an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AnswerPlace {
    /// The index of its name.
    pub name: u32,
    /// The index of the answer.
    pub answer: u32,
}

/// One answer, whoever gave it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SharedAnswer {
    /// The instance, or the survey and its row.
    pub name: String,
    /// What was asked, if that is known: another value is another question.
    pub asked: String,
    /// The version of libcudart; empty where none is needed.
    pub libcudart: String,
    /// Whether the report itself says that the verdict is unexpected.
    pub is_unexpected: bool,
    /// What it showed.
    pub shown: Shown,
    /// What its figures are about: `trap/gpu0`.
    pub figures: Vec<String>,
}

/// What an answer showed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    /// What is compared.
    Outcome(Same),
    /// Nothing, for this reason.
    Nothing(String),
}

impl Shown {
    /// An outcome without facts.
    pub(super) fn without_facts() -> Shown {
        Shown::Outcome(Same {
            kind: Kind::Reproduced,
            facts: Vec::new(),
        })
    }
}

/// What must be equal for two machines to have shown the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Same {
    /// The verdict.
    pub kind: Kind,
    /// What all cases showed; nothing where a mixture of outcomes is an answer, because it is a matter of chance then.
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
