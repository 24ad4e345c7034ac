//! The attempts of a row, in every survey.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_core::report::ScenarioReport;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

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
pub fn keyed(question: &str, libcudart: Option<&str>) -> String {
    libcudart.map_or_else(|| question.to_string(), |version| format!("{question} ({version})"))
}

impl RowAttempts {
    /// The attempts of a question, from its results.
    pub fn from_report(done: &ScenarioReport) -> RowAttempts {
        let attempts = || done.cases.iter().flat_map(|case| &case.attempts);
        let counting = attempts().filter(|attempt| attempt.judged.invalid.is_empty()).count();
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
    pub fn agreed<T: PartialEq>(&mut self, fact: &str, seen: impl IntoIterator<Item = T>) -> Option<T> {
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
        let is_partly_modelled = simulated && self.invalid.contains_key(&Reason::NotModelled.name());
        let is_absent = self.unmeasured.as_ref().is_some_and(|unmeasured| match unmeasured.reason {
            Reason::MissingSymbol | Reason::TooFewGpus | Reason::LibcudartVersion => true,
            Reason::NoPython | Reason::NoPackage | Reason::NoLibcuda => true,
            Reason::NotModelled => simulated,
            _ => false,
        });
        is_absent || is_partly_modelled
    }
}
