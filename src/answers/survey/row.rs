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

/// What was asked once: how its attempts went, and beside that the facts of its kind, each a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurveyRow {
    /// What was asked, and of which libcudart if each is asked: unique in the document.
    pub key: String,
    /// Whether it is a control of the instrument.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
    /// Whether it has its facts, and its attempts agree on them.
    pub is_conclusive: bool,
    /// Whether the driver contradicts one of our rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unexpected: bool,
    /// How many attempts count, and why others do not.
    #[serde(flatten)]
    pub standing: RowAttempts,
    /// What its kind has of it: what was asked, as data, and what was seen.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl SurveyRow {
    /// The row with these facts.
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

    /// The row in the type of its kind.
    ///
    /// # Errors
    /// It does not fit the type.
    pub fn read<R: KindRow>(&self) -> serde_json::Result<R> {
        serde_json::to_value(self).and_then(serde_json::from_value)
    }
}

/// The fields of a value in documents.
pub(super) fn document_fields(value: &impl Serialize) -> Map<String, Value> {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_object().cloned())
        .unwrap_or_default()
}

/// Something that was not asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Its name, or a pattern for several (`*_ptsz`).
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The attempts of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowAttempts {
    /// How many attempts count.
    pub attempts: u32,
    /// How many attempts do not count, by the word of the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, u32>,
    /// Names of facts on which the attempts that count disagree. These facts are null in the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreement: Vec<String>,
    /// Why nothing was measured; null if something was.
    pub unmeasured: Option<Unmeasured>,
}

/// Why a row has no facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unmeasured {
    /// A word of `Reason`.
    pub reason: Reason,
    /// A description of what is missing.
    pub detail: String,
}

/// The key of a row: the subject of the question and, if it is asked for each libcudart, the version.
pub fn format_row_key(question: &str, libcudart: Option<&str>) -> String {
    libcudart.map_or_else(
        || question.to_string(),
        |version| format!("{question} ({version})"),
    )
}

impl RowAttempts {
    /// The attempts of a question, from its results.
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

    /// The value on which all attempts agree. If there are several values, records a disagreement about `fact`.
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

    /// Whether the row cannot exist here: the simulated machine does not model it, or the machine or this libcudart
    /// lacks something.
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

/// The row of a kind: what its recipe asks, and what it makes of the answers.
pub trait KindRow:
    Clone + Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The survey of the row.
    const KIND: SurveyKind;

    /// The question, and the libcudart that answered it, if each is asked.
    fn question(&self) -> (String, Option<String>);

    /// The question with the libcudart, unique in the document.
    fn key(&self) -> String {
        let (question, libcudart) = self.question();
        format_row_key(&question, libcudart.as_deref())
    }

    /// How many attempts count, and why others do not.
    fn standing(&self) -> &RowAttempts;

    /// Whether the row has facts; a row that was not measured has none.
    fn has_facts(&self) -> bool;

    /// Whether the row has its facts, and its attempts agree on them.
    fn is_conclusive(&self) -> bool {
        let standing = self.standing();
        standing.unmeasured.is_none() && standing.disagreement.is_empty() && self.has_facts()
    }

    /// What was asked, where the question does not say it: rows that differ in it answer two questions.
    fn asked_as(&self) -> String {
        String::new()
    }

    /// Facts that follow from the row and its machine, beside its fields.
    fn derived_facts(&self, _: &Machine) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Whether the row is a control of the instrument.
    fn is_control(&self) -> bool {
        false
    }

    /// Whether the driver contradicts one of our rules.
    fn is_unexpected(&self) -> bool {
        false
    }
}
