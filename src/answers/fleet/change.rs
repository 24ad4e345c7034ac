//! What a case showed, in merged documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cuda_pitfalls_core::fact::{self, Change, sentence};

/// What a case showed at one step, or what a row of a survey says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StoredChange")]
#[schemars(!from)]
pub struct CaseChange {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Which of several outcomes of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// What was seen (since 1.2; up to then this was one sentence).
    pub change: Change,
}

/// A fact that is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "StoredDifference")]
#[schemars(!from)]
pub struct FactDiffers {
    /// The case; empty for rows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Which of several outcomes of the case, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub outcome: u32,
    /// What is usual; left out where the usual outcome has nothing there (since 1.2; up to then a sentence).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Change>,
    /// What these machines show; left out where they show nothing there (since 1.2; up to then a sentence).
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
    let mut cases: Vec<(&str, u32)> = Vec::new();
    for one in usual.iter().chain(these) {
        let case = (one.case.as_str(), one.outcome);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let mut all = Vec::new();
    for (case, outcome) in cases {
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

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredChange {
    Sentence(String),
    Facts {
        #[serde(default)]
        case: String,
        #[serde(default = "first")]
        outcome: u32,
        change: Change,
    },
}

impl From<StoredChange> for CaseChange {
    fn from(stored: StoredChange) -> CaseChange {
        match stored {
            StoredChange::Facts { case, outcome, change } => CaseChange { case, outcome, change },
            StoredChange::Sentence(sentence) => {
                let (case, outcome, change) = sentence::of_case(&sentence);
                CaseChange { case, outcome, change }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredDifference {
    Sentences {
        of: String,
        usual: String,
        these: String,
    },
    Facts {
        #[serde(default)]
        case: String,
        #[serde(default = "first")]
        outcome: u32,
        #[serde(default)]
        usual: Option<Change>,
        #[serde(default)]
        these: Option<Change>,
    },
}

impl From<StoredDifference> for FactDiffers {
    fn from(stored: StoredDifference) -> FactDiffers {
        match stored {
            StoredDifference::Facts { case, outcome, usual, these } => FactDiffers { case, outcome, usual, these },
            StoredDifference::Sentences { of, usual, these } => {
                let (case, outcome, _) = sentence::of_case(&format!("{of}: "));
                let change = |words: &str| (!words.is_empty()).then(|| sentence::of_case(&format!("{of}: {words}")).2);
                FactDiffers { case, outcome, usual: change(&usual), these: change(&these) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_an_older_document_are_what_is_written_today() {
        let old = "\"trap (or 2) 1 cuInit: sees gpu0\"";
        let read: CaseChange = serde_json::from_str(old).unwrap();
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(text, r#"{"case":"trap","outcome":2,"change":[1,"cuInit",[{"visible":["gpu0"]}]]}"#);
        assert_eq!(serde_json::from_str::<CaseChange>(&text).unwrap(), read);
        let old = r#"{"of":"trap 1 cuInit","usual":"no context","these":""}"#;
        let read: FactDiffers = serde_json::from_str(old).unwrap();
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(text, r#"{"case":"trap","usual":[1,"cuInit",[{"contexts":[]}]]}"#);
        assert_eq!(serde_json::from_str::<FactDiffers>(&text).unwrap(), read);
    }
}
