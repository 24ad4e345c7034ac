//! What a case showed, in merged documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_core::fact::{self, Change};
use cuda_pitfalls_core::text::counts::tally;

/// What a case showed at one step, or what a row of a survey says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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
pub(super) fn differing(usual: &[CaseChange], these: &[CaseChange]) -> Vec<FactDiffers> {
    let cases = tally(usual.iter().chain(these).map(|one| (one.case.as_str(), one.outcome)));
    let mut all = Vec::new();
    for ((case, outcome), _) in cases {
        let is_of_it = |one: &&CaseChange| one.case == case && one.outcome == outcome;
        let changes =
            |all: &[CaseChange]| all.iter().filter(is_of_it).map(|one| one.change.clone()).collect::<Vec<_>>();
        let (usual, these) = (changes(usual), changes(these));
        all.extend(fact::differing(&usual, &these).into_iter().map(|(usual, these)| FactDiffers {
            case: case.to_owned(),
            outcome,
            usual: usual.cloned(),
            these: these.cloned(),
        }));
    }
    all
}
