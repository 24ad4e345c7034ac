//! A row of a survey of any kind, and its attempts.

use std::collections::BTreeMap;
use std::fmt::Debug;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SurveyKind;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

/// Results of a question: its attempts, and the facts of its kind, each a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurveyRow {
    /// Name of the question, and the version of libcudart if it runs on each: unique in the document.
    pub key: String,
    /// `true` if the row is a control of the instrument.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
    /// `true` if the row has its facts, and its attempts agree on them.
    pub is_conclusive: bool,
    /// `true` if the driver contradicts one of our rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unexpected: bool,
    /// Number of attempts that count, and the reasons why the others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
    /// Fields of the kind: the question, as data, and the observations.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl SurveyRow {
    /// Returns the row with these facts.
    pub fn new<R: KindRow>(row: &R) -> SurveyRow {
        let mut facts = document_fields(row);
        document_fields(row.standing())
            .keys()
            .for_each(|name| drop(facts.remove(name)));
        SurveyRow {
            key: row.key(),
            is_control: row.is_control(),
            is_conclusive: row.is_conclusive(),
            is_unexpected: row.is_unexpected(),
            standing: row.standing().clone(),
            facts,
        }
    }

    /// Returns the row in the type of its kind.
    ///
    /// # Errors
    /// Returns an error if it does not fit the type.
    pub fn read<R: KindRow>(&self) -> serde_json::Result<R> {
        serde_json::to_value(self).and_then(serde_json::from_value)
    }
}

/// Returns the fields of a value in documents.
pub(super) fn document_fields(value: &impl Serialize) -> Map<String, Value> {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default()
}

/// An excluded item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The name of the item, or a pattern for several (`*_ptsz`).
    pub name: String,
    /// Reason.
    pub reason: String,
}

/// The attempts of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowAttempts {
    /// Number of attempts that count.
    pub attempts: u32,
    /// Number of attempts that do not count, for each reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, u32>,
    /// Names of the facts on which the counted attempts disagree. These facts are null in the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreement: Vec<String>,
    /// Reason why nothing was measured; null if something was measured.
    pub unmeasured: Option<Unmeasured>,
}

/// Reason why a row has no facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmeasured {
    /// A word of `Reason`.
    pub reason: Reason,
    /// A description of what is missing.
    pub detail: String,
}

/// Returns the key of a row: the subject of the question and, if it runs on each libcudart, the version.
pub fn format_row_key(question: &str, libcudart: Option<&str>) -> String {
    libcudart.map_or_else(
        || question.to_string(),
        |version| format!("{question} ({version})"),
    )
}

impl RowAttempts {
    /// Returns the attempts of a question, from its results.
    pub fn from_report(done: &ScenarioReport) -> RowAttempts {
        let attempts = || done.cases.iter().flat_map(|case| &case.attempts);
        let counting = attempts()
            .filter(|attempt| attempt.judged.invalid.is_empty())
            .count();
        let mut invalid = BTreeMap::new();
        for first in attempts().filter_map(|attempt| attempt.judged.invalid.first()) {
            *invalid.entry(first.reason.name()).or_insert(0) += 1;
        }
        RowAttempts {
            attempts: u32::try_from(counting).unwrap_or(u32::MAX),
            invalid,
            disagreement: Vec::new(),
            unmeasured: (counting == 0).then(|| Unmeasured {
                reason: done.verdict.reason.unwrap_or(Reason::TooFewAttempts),
                detail: done.verdict.detail.clone(),
            }),
        }
    }

    /// Returns the value that all attempts agree on. If there are several values, records a disagreement about `fact`.
    pub fn agreed<T: PartialEq>(
        &mut self,
        fact: &str,
        seen: impl IntoIterator<Item = T>,
    ) -> Option<T> {
        let mut seen = seen.into_iter();
        let first = seen.next()?;
        if seen.all(|other| other == first) {
            return Some(first);
        }
        self.disagreement.push(fact.to_string());
        None
    }

    /// Returns `true` if the row cannot exist here: the simulated machine does not model it, or the machine or this
    /// libcudart lacks something.
    pub fn is_left_out(&self, provenance: Provenance) -> bool {
        let simulated = provenance == Provenance::Simulated;
        let is_partly_modelled =
            simulated && self.invalid.contains_key(&Reason::NotModelled.name());
        let is_absent =
            self.unmeasured
                .as_ref()
                .is_some_and(|unmeasured| match unmeasured.reason {
                    Reason::MissingSymbol | Reason::TooFewGpus | Reason::LibcudartVersion => true,
                    Reason::NoPython | Reason::NoPackage | Reason::NoLibcuda => true,
                    Reason::NotModelled => simulated,
                    _ => false,
                });
        is_absent || is_partly_modelled
    }
}

/// The row of a kind: the question of its recipe, and the facts derived from the answers.
pub trait KindRow:
    Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The survey of the row.
    const KIND: SurveyKind;

    /// Returns the question, and the libcudart that answered it, if the question runs on each.
    fn question(&self) -> (String, Option<String>);

    /// Returns the question with the libcudart, unique in the document.
    fn key(&self) -> String {
        let (question, libcudart) = self.question();
        format_row_key(&question, libcudart.as_deref())
    }

    /// Returns the number of attempts that count, and the reasons why the others do not.
    fn standing(&self) -> &RowAttempts;

    /// Returns `true` if the row has facts. A row that was not measured does not have facts.
    fn has_facts(&self) -> bool;

    /// Returns `true` if the row has its facts, and its attempts agree on them.
    fn is_conclusive(&self) -> bool {
        let standing = self.standing();
        standing.unmeasured.is_none() && standing.disagreement.is_empty() && self.has_facts()
    }

    /// Returns what was tested, unless the question determines it: rows that differ in it answer two questions.
    fn asked_as(&self) -> String {
        String::new()
    }

    /// Returns facts that follow from the row and its machine, in addition to its fields.
    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Returns `true` if the row is a control of the instrument.
    fn is_control(&self) -> bool {
        false
    }

    /// Returns `true` if the driver contradicts one of our rules.
    fn is_unexpected(&self) -> bool {
        false
    }
}
