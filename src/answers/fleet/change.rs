//! Facts of cases in fleet reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::difference::differing_values;
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::text::counts::group_by_key;

/// Facts of a case at one step, or of a row of a survey.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct CaseChange {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Number of the outcome of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// The observed facts.
    pub change: Change,
}

/// A fact that differs from the usual one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactDiffers {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Number of the outcome of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// Usual facts; left out if the usual outcome has no facts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Change>,
    /// Facts of these machines; left out if they have no facts there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub these: Option<Change>,
}

fn first() -> u32 {
    1
}

fn is_first(outcome: &u32) -> bool {
    *outcome == first()
}

/// Returns the facts that differ between two outcomes, case by case.
pub(super) fn facts_that_differ(usual: &[CaseChange], these: &[CaseChange]) -> Vec<FactDiffers> {
    let said = [usual, these].map(|said| {
        said.iter()
            .map(|one| ((&one.case, one.outcome, one.change.subject()), &one.change))
    });
    let mut differing = Vec::new();
    for ((case, outcome, _), pair) in differing_values(said) {
        let [usual, these] = pair.map(Option::<&Change>::cloned);
        let fact = FactDiffers {
            case: case.clone(),
            outcome,
            usual,
            these,
        };
        differing.push(((case, outcome), fact));
    }
    let mut by_outcome = Vec::new();
    for (_, facts) in group_by_key(differing) {
        by_outcome.extend(facts);
    }
    by_outcome
}
