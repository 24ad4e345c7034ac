//! What a case showed, in merged documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::difference::differing_values;
use cuda_pitfalls_core::fact::Change;
use cuda_pitfalls_core::text::counts::group_by_key;

/// What a case showed at one step, or what a row of a survey says.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct CaseChange {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Which of several outcomes of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// What was seen.
    pub change: Change,
}

/// A fact that is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FactDiffers {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Which of several outcomes of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// What is usual; left out where the usual outcome has nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Change>,
    /// What these machines show; left out where they show nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub these: Option<Change>,
}

fn first() -> u32 {
    1
}

fn is_first(outcome: &u32) -> bool {
    *outcome == first()
}

/// In what two outcomes differ, case by case.
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
