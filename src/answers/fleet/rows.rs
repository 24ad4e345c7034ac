//! The rows of a survey as answers.

use super::answer::{CaseAnswer, MachineAnswer, Shown};
use crate::survey::Survey;
use crate::survey::calls::CallRow;
use crate::survey::document::Row;
use crate::survey::env::EnvRow;
use crate::survey::errors::ErrorRow;
use crate::survey::mask::MaskRow;
use crate::survey::needs::{NeedRow, returned};
use crate::survey::python::{PythonRow, without_line};
use crate::survey::startup::StartRow;
use cuda_pitfalls_core::fact::{Change, RowFact};
use cuda_pitfalls_core::verdict::Kind;

/// The answers of a survey: one for each row, without the controls of the instrument.
pub(super) fn answers(survey: &Survey) -> Vec<MachineAnswer> {
    match survey {
        Survey::Calls(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Mask(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Env(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Needs(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Python(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Errors(document) => document.rows.iter().filter_map(answer).collect(),
        Survey::Startup(document) => document.rows.iter().filter_map(answer).collect(),
    }
}

fn answer<R: Answers>(row: &R) -> Option<MachineAnswer> {
    if row.is_control() {
        return None;
    }
    let standing = row.standing();
    let shown = match &standing.unmeasured {
        Some(unmeasured) => Shown::Nothing(unmeasured.reason.name()),
        None if !row.is_conclusive() => Shown::Nothing("attempts_disagree".to_owned()),
        None => {
            let changes = row.facts().into_iter().map(Change::row).collect();
            let figures = row.bytes().into_iter().enumerate().map(|(at, bytes)| (format!("gpu{at}"), Some(bytes)));
            let case = CaseAnswer { name: String::new(), outcomes: vec![changes], figures: figures.collect() };
            Shown::Answer { kind: Kind::Reproduced, by_chance: false, cases: vec![case] }
        }
    };
    let (name, libcudart) = row.question();
    Some(MachineAnswer {
        name: format!("survey {}: {name}", R::KIND.name()),
        scenario: String::new(),
        words: String::new(),
        asked: row.asked(),
        libcudart: libcudart.unwrap_or_default(),
        is_unexpected: false,
        shown,
    })
}

/// What a row of this kind answers.
trait Answers: Row {
    /// What was asked, where the name does not say it.
    fn asked(&self) -> String {
        String::new()
    }

    /// What it showed, by fact.
    fn facts(&self) -> Vec<RowFact>;

    /// Memory, from the fullest GPU on: which of equal GPUs a worker is given is the harness's choice.
    fn bytes(&self) -> Vec<i64> {
        Vec::new()
    }
}

impl Answers for CallRow {
    fn asked(&self) -> String {
        format!("{} visible, after {}", self.visible_gpus, self.before.join(" "))
    }

    fn facts(&self) -> Vec<RowFact> {
        vec![
            RowFact::ReadsMask(self.reads_mask),
            RowFact::ContextOn(self.context_on.clone()),
            RowFact::Returned(self.status.clone()),
        ]
    }

    fn bytes(&self) -> Vec<i64> {
        descending(self.device_used_bytes.as_deref())
    }
}

impl Answers for MaskRow {
    /// The same text means other GPUs on a machine with more of them.
    fn asked(&self) -> String {
        format!("{} {:?}", self.predicted.status, self.predicted.gpus)
    }

    fn facts(&self) -> Vec<RowFact> {
        vec![
            RowFact::CuInit(self.status.clone().unwrap_or_default()),
            RowFact::Gpus(self.gpus.clone()),
            RowFact::AsPredicted(self.as_predicted),
        ]
    }
}

impl Answers for NeedRow {
    fn facts(&self) -> Vec<RowFact> {
        vec![
            RowFact::Returned(self.statuses.as_deref().map(returned)),
            RowFact::Gpus(self.gpus.clone()),
            RowFact::Left(self.died.as_ref().map(|died| died.by.clone())),
        ]
    }
}

impl Answers for EnvRow {
    fn asked(&self) -> String {
        format!("{} {}", self.value, self.observable)
    }

    fn facts(&self) -> Vec<RowFact> {
        vec![RowFact::HasEffect(self.has_effect), RowFact::ReadAt(self.read_at.clone())]
    }
}

impl Answers for PythonRow {
    fn asked(&self) -> String {
        format!("{:?} {:?} {:?}", self.before, self.ask, self.env)
    }

    fn facts(&self) -> Vec<RowFact> {
        vec![
            RowFact::ReadsMask(self.reads_mask),
            RowFact::CallsCuinit(self.calls_cuinit),
            RowFact::CalledAt(self.at.as_deref().map(without_line)),
            RowFact::ContextOn(self.context_on.clone()),
            RowFact::Raises(self.raised.as_ref().map(|raised| raised.kind.clone())),
            RowFact::Left(self.left.clone()),
        ]
    }

    fn bytes(&self) -> Vec<i64> {
        descending(self.context_bytes.as_deref())
    }
}

impl Answers for ErrorRow {
    fn asked(&self) -> String {
        format!("{:?} {:?} {:?}", self.before, self.ask, self.env)
    }

    fn facts(&self) -> Vec<RowFact> {
        vec![
            RowFact::Raises(self.raised.as_ref().map(|raised| raised.kind.clone())),
            RowFact::Returned(self.value.clone()),
            RowFact::Left(self.left.clone()),
        ]
    }
}

impl Answers for StartRow {
    // Times differ on any two machines, and are no answers.
    fn facts(&self) -> Vec<RowFact> {
        vec![RowFact::Returned(self.returned())]
    }
}

fn descending(bytes: Option<&[i64]>) -> Vec<i64> {
    let mut bytes = bytes.unwrap_or_default().to_vec();
    bytes.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
    bytes
}
