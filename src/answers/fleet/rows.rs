//! The rows of a survey as answers.

use super::answer::{MachineAnswer, Same, SharedAnswer};
use super::change::CaseChange;
use crate::survey::calls::CallRow;
use crate::survey::document::Row;
use crate::survey::env::EnvRow;
use crate::survey::errors::ErrorRow;
use crate::survey::mask::MaskRow;
use crate::survey::needs::{NeedRow, returned};
use crate::survey::python::{PythonRow, Raised, without_line};
use crate::survey::startup::StartRow;
use crate::survey::{Survey, SurveyKind};
use cuda_pitfalls_core::fact::{Change, RowFact};
use cuda_pitfalls_core::verdict::Kind;

#[derive(Default)]
struct RowAnswer {
    /// What was asked, where the name does not say it.
    asked: String,
    facts: Vec<RowFact>,
    /// Memory, from the fullest GPU on: which of equal GPUs a worker is given is the harness's choice.
    bytes: Vec<i64>,
}

/// The answers of a survey: one for each row, without the controls of the instrument.
pub(super) fn answers(survey: &Survey) -> Vec<MachineAnswer> {
    match survey.kind() {
        SurveyKind::Calls => all(survey, |row: &CallRow| RowAnswer {
            asked: format!("{} visible, after {}", row.visible_gpus, row.before.join(" ")),
            facts: vec![
                RowFact::ReadsMask(row.reads_mask),
                RowFact::ContextOn(row.context_on.clone()),
                RowFact::Returned(row.status.clone()),
            ],
            bytes: descending(row.device_used_bytes.as_deref()),
        }),
        SurveyKind::Mask => all(survey, |row: &MaskRow| RowAnswer {
            // The same text means other GPUs on a machine with more of them.
            asked: format!("{} {:?}", row.predicted.status, row.predicted.gpus),
            facts: vec![
                RowFact::CuInit(row.status.clone().unwrap_or_default()),
                RowFact::Gpus(row.gpus.clone()),
                RowFact::AsPredicted(row.as_predicted),
            ],
            ..RowAnswer::default()
        }),
        SurveyKind::Env => all(survey, |row: &EnvRow| RowAnswer {
            asked: format!("{} {}", row.value, row.observable),
            facts: vec![RowFact::HasEffect(row.has_effect), RowFact::ReadAt(row.read_at.clone())],
            ..RowAnswer::default()
        }),
        SurveyKind::Needs => all(survey, |row: &NeedRow| RowAnswer {
            facts: vec![
                RowFact::Returned(row.statuses.as_deref().map(returned)),
                RowFact::Gpus(row.gpus.clone()),
                RowFact::Left(row.died.as_ref().map(|died| died.by.clone())),
            ],
            ..RowAnswer::default()
        }),
        SurveyKind::Python => all(survey, |row: &PythonRow| RowAnswer {
            asked: format!("{:?} {:?} {:?}", row.before, row.ask, row.env),
            facts: vec![
                RowFact::ReadsMask(row.facts.reads_mask),
                RowFact::CallsCuinit(row.facts.calls_cuinit),
                RowFact::CalledAt(row.facts.at.as_deref().map(without_line)),
                RowFact::ContextOn(row.facts.context_on.clone()),
                raises(&row.facts.raised),
                RowFact::Left(row.facts.left.clone()),
            ],
            bytes: descending(row.facts.context_bytes.as_deref()),
        }),
        SurveyKind::Errors => all(survey, |row: &ErrorRow| RowAnswer {
            asked: format!("{:?} {:?} {:?}", row.before, row.ask, row.env),
            facts: vec![raises(&row.raised), RowFact::Returned(row.value.clone()), RowFact::Left(row.left.clone())],
            ..RowAnswer::default()
        }),
        // Times differ on any two machines, and are no answers.
        SurveyKind::Startup => all(survey, |row: &StartRow| RowAnswer {
            facts: vec![RowFact::Returned(row.returned())],
            ..RowAnswer::default()
        }),
    }
}

fn raises(raised: &Option<Raised>) -> RowFact {
    RowFact::Raises(raised.as_ref().map(|raised| raised.kind.clone()))
}

fn all<R: Row>(survey: &Survey, answer: impl Fn(&R) -> RowAnswer) -> Vec<MachineAnswer> {
    let rows = survey.rows::<R>().iter().filter(|row| !row.is_control());
    let answers = rows.map(|row| {
        let RowAnswer { asked, facts, bytes } = answer(row);
        let shown = match &row.standing().unmeasured {
            Some(unmeasured) => Err(unmeasured.reason.name()),
            None if !row.is_conclusive() => Err("attempts_disagree".to_owned()),
            None => {
                let changes = facts.into_iter().map(Change::row);
                let facts = changes.map(|change| CaseChange { case: String::new(), outcome: 1, change });
                Ok(Same { kind: Kind::Reproduced, facts: facts.collect() })
            }
        };
        let bytes = if shown.is_ok() { bytes } else { Vec::new() };
        let (name, libcudart) = row.question();
        let answer = SharedAnswer {
            name: format!("survey {}: {name}", R::kind().name()),
            asked,
            libcudart: libcudart.unwrap_or_default(),
            is_unexpected: false,
            shown,
            figures: (0..bytes.len()).map(|gpu| format!("gpu{gpu}")).collect(),
        };
        MachineAnswer { scenario: String::new(), words: String::new(), answer, bytes }
    });
    answers.collect()
}

fn descending(bytes: Option<&[i64]>) -> Vec<i64> {
    let mut bytes = bytes.unwrap_or_default().to_vec();
    bytes.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
    bytes
}
