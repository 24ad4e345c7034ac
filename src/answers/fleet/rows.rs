//! The rows of a survey as answers.

use std::sync::OnceLock;

use serde::Deserialize as _;
use serde_json::json;

use super::answer::{MachineAnswer, Same, SharedAnswer, Shown};
use super::change::CaseChange;
use crate::survey::{FactRow, KindFile, SurveyDocument};
use cuda_pitfalls_core::fact::{Change, RowFact};
use cuda_pitfalls_core::verdict::Kind;

/// Returns the answers of a survey: one for each row, without the controls of the instrument.
pub(super) fn answers(survey: &SurveyDocument) -> Vec<MachineAnswer> {
    let (file, rows) = (survey.kind.kind_file(), survey.fact_rows());
    let rows = rows.into_iter().filter(|row| row.has("!is_control"));
    let answers = rows.map(|row| {
        let shown = match &row.standing.unmeasured {
            Some(unmeasured) => Shown::Nothing(unmeasured.reason.name()),
            None if row.has("!is_conclusive") => Shown::Nothing("attempts_disagree".to_owned()),
            None => Shown::Outcome(Same {
                kind: Kind::Reproduced,
                facts: facts(file, &row),
            }),
        };
        let mut bytes = Vec::new();
        if matches!(shown, Shown::Outcome(_)) {
            bytes = Vec::<i64>::deserialize(row.fact(&file.bytes)).unwrap_or_default();
        }
        // Start with the GPU that uses most memory: the harness chooses which of several equal GPUs a worker gets.
        bytes.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        let answer = SharedAnswer {
            name: format!("survey {}: {}", survey.kind.name(), row.question),
            asked: row.asked_as,
            libcudart: row.libcudart.unwrap_or_default(),
            is_unexpected: false,
            shown,
            figures: (0..bytes.len()).map(|gpu| format!("gpu{gpu}")).collect(),
        };
        MachineAnswer {
            scenario: String::new(),
            words: String::new(),
            answer,
            bytes,
            place: OnceLock::new(),
        }
    });
    answers.collect()
}

/// Returns the facts that machines are compared by.
fn facts(file: &KindFile, row: &FactRow) -> Vec<CaseChange> {
    let facts = file.answers.iter().filter_map(|[name, word]| {
        let value = file.fact(name).comparable_value(row.fact(name));
        let fact: RowFact = serde_json::from_value(json!({ word: value })).ok()?;
        Some(CaseChange {
            case: String::new(),
            outcome: 1,
            change: Change::row(fact),
        })
    });
    facts.collect()
}
