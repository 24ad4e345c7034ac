//! `survey errors`: reactions of frameworks to a driver error.
//!
//! A Python line runs in a fresh interpreter with a libcuda that returns one status from one place on, such as
//! `cuInit`, and forwards every other call to the real one. Older documents have rows of an NVML that does so, or
//! reports another number of GPUs. The row contains what the user sees in that case: the exception with its message,
//! another value, or the CPU without an exception, with or without a warning. The control of each line is the line with
//! every call forwarded.

mod list;
#[cfg(test)]
mod tests;

pub use list::built_in;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SurveyKind;
use super::python::{LineQuestions, List, PythonLine, PythonRow, Raised, Returned};
use super::row::{KindRow, RowAttempts, SurveyRow};
use cuda_pitfalls_core::machine::Machine;

/// Reaction of a line to a status at a place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRow {
    /// The name of the row: the line, the place and the number, such as `torch, asks, cuInit 999`.
    pub id: String,
    /// The group of the line, such as `torch`; `instrument` for a control of the instrument.
    pub framework: String,
    /// The name of the line, such as `torch, asks`.
    pub line: String,
    /// The versions of the packages that the line needs.
    pub versions: BTreeMap<String, String>,
    /// The code that ran before the line in the same process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The tested code.
    pub ask: String,
    /// Variables that were set before the interpreter started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Status that libcuda or NVML returned, and the place; null for the control, where every call was forwarded.
    pub returned: Option<Returned>,
    /// `true` if the line reached that place; null for the control. A row that did not reach it is not a result.
    pub met: Option<bool>,
    /// Exception that the line raised; null if it raised none, or if attempts differ.
    pub raised: Option<Raised>,
    /// The value of the line: the device that did the work. Null if it raised an exception, or if attempts differ.
    pub value: Option<String>,
    /// The first of its warnings, each with its category.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<String>,
    /// End of the process, unless it exited with code 0.
    pub left: Option<String>,
    /// For a control of the instrument: `true` if it showed the required facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_expected: Option<bool>,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
}

/// Effect of an error that is visible to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorEffect {
    /// The line behaved the same as without an error.
    Nothing,
    /// The line continued with another value, such as the CPU, and raised no exception. It may have warned.
    Silent,
    /// The line raised an exception.
    Raises,
    /// The process of the line did not exit by itself.
    Dies,
}

impl ErrorRow {
    /// Returns the control among these rows: the same line with every call forwarded.
    pub fn control<'a>(&self, rows: &'a [ErrorRow]) -> Option<&'a ErrorRow> {
        rows.iter()
            .find(|row| row.line == self.line && row.returned.is_none() && !row.is_control())
    }

    /// Returns the effect that is visible to the user; `None` if the line did not reach the place, or if the effect is
    /// unknown.
    pub fn effect(&self, rows: &[ErrorRow]) -> Option<ErrorEffect> {
        if self.met != Some(true) {
            return None;
        }
        if self.left.is_some() {
            return Some(ErrorEffect::Dies);
        }
        if !self.is_conclusive() {
            return None;
        }
        let usual = self.control(rows)?.value.as_ref()?;
        match (&self.raised, &self.value) {
            (Some(_), _) => Some(ErrorEffect::Raises),
            (None, Some(value)) if value == usual => Some(ErrorEffect::Nothing),
            (None, Some(_)) => Some(ErrorEffect::Silent),
            (None, None) => None,
        }
    }
}

/// Returns the questions of the survey.
pub(super) fn questions() -> LineQuestions {
    let list = List {
        lines: built_in(),
        left_out: Vec::new(),
    };
    let row = |line: &PythonLine, row, met| SurveyRow::new(&ErrorRow::new(line, row, met));
    LineQuestions {
        list,
        row,
        has_memory: false,
    }
}

impl KindRow for ErrorRow {
    const KIND: SurveyKind = SurveyKind::Errors;

    fn question(&self) -> (String, Option<String>) {
        (self.id.clone(), None)
    }

    fn standing(&self) -> &RowAttempts {
        &self.standing
    }

    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        vec![(
            "raises",
            json!(
                self.raised
                    .as_ref()
                    .map(|raised| format!("{}: {}", raised.kind, raised.message))
            ),
        )]
    }

    fn asked_as(&self) -> String {
        format!("{:?} {:?} {:?}", self.before, self.ask, self.env)
    }

    fn has_facts(&self) -> bool {
        self.raised.is_some() || self.value.is_some() || self.left.is_some()
    }

    fn is_control(&self) -> bool {
        self.framework == super::python::INSTRUMENT
    }

    fn is_unexpected(&self) -> bool {
        self.as_expected == Some(false)
    }
}

impl ErrorRow {
    fn new(line: &PythonLine, row: PythonRow, met: bool) -> ErrorRow {
        let counting = row.seen.into_iter().find(|seen| seen.invalid.is_none());
        let name = line
            .returned
            .as_ref()
            .and_then(|returned| row.id.strip_suffix(&name_suffix(returned)));
        ErrorRow {
            line: name.unwrap_or(&row.id).to_string(),
            returned: line.returned.clone(),
            met: match (&line.returned, &row.standing.unmeasured) {
                (Some(_), None) => Some(met),
                _ => None,
            },
            id: row.id,
            framework: row.framework,
            versions: row.versions,
            before: row.before,
            ask: row.ask,
            env: row.env,
            raised: row.facts.raised,
            value: row.facts.value,
            warned: counting.map(|seen| seen.warned).unwrap_or_default(),
            left: row.facts.left,
            as_expected: row.as_expected,
            standing: row.standing,
        }
    }
}

/// Returns the part of a row's name after the name of its line.
fn name_suffix(returned: &Returned) -> String {
    format!(", {} {}", returned.place, returned.code)
}
