//! The requirements of a run, and whether they are met.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Required {
    /// GPUs that may be used.
    Gpus,
    /// Conclusive verdicts.
    Answers,
}

impl Required {
    /// All requirements, for messages and help.
    pub const ALL: [Required; 2] = [Required::Gpus, Required::Answers];

    /// Returns the word on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Required::Gpus => "gpus",
            Required::Answers => "answers",
        }
    }
}

/// A `--require` option, compared with the actual value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// The kind of requirement.
    pub what: Required,
    /// The least number.
    pub wanted: u64,
    /// The number found; null until it is known.
    pub found: Option<u64>,
    /// `true` if enough were found; null until it is known.
    pub met: Option<bool>,
}

impl Requirement {
    /// Returns a requirement that was not checked yet.
    pub fn new(what: Required, wanted: u64) -> Requirement {
        Requirement {
            what,
            wanted,
            found: None,
            met: None,
        }
    }

    /// Returns the requirement with the number that was found.
    pub fn with(self, found: u64) -> Requirement {
        Requirement {
            found: Some(found),
            met: Some(found >= self.wanted),
            ..self
        }
    }

    /// Returns `true` if fewer were found than were required.
    pub fn is_unmet(&self) -> bool {
        self.met == Some(false)
    }

    /// Returns the requirement and the actual number, as text.
    pub fn sentence(&self) -> String {
        let noun = match (self.what, self.wanted) {
            (Required::Gpus, 1) => "usable GPU was",
            (Required::Gpus, _) => "usable GPUs were",
            (Required::Answers, 1) => "conclusive answer was",
            (Required::Answers, _) => "conclusive answers were",
        };
        let found = match self.found {
            Some(found) => format!(
                "and there {} {found}",
                if found == 1 { "is" } else { "are" }
            ),
            None => "and the run ended before they were counted".to_owned(),
        };
        format!(
            "{} {noun} required (--require {}={}), {found}",
            self.wanted,
            self.what.name(),
            self.wanted
        )
    }
}
