//! Comparing one observed value with what a file says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a value must be. All the bounds that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matcher {
    /// Equal to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eq: Option<Operand>,
    /// Not equal to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ne: Option<Operand>,
    /// At least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ge: Option<Operand>,
    /// At most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub le: Option<Operand>,
    /// Greater than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gt: Option<Operand>,
    /// Less than.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lt: Option<Operand>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Operand {
    /// An integer. Text such as `"64 MiB"` becomes one when the file is read.
    Int(i64),
    /// Text, after the plan has filled in `${gpus}` and `${gpu0}`; all digits compare as an integer.
    Text(String),
    /// A value of another step, written `"@label.name"`.
    Value {
        /// The step.
        label: String,
        /// The name among its values.
        name: String,
    },
}

impl Matcher {
    /// Exactly this.
    pub fn equal(operand: Operand) -> Matcher {
        Matcher { eq: Some(operand), ..Matcher::default() }
    }

    /// Whether some bound is a number or text of the file, and not a value of another step.
    pub fn is_absolute(&self) -> bool {
        self.bounds().any(|(_, operand)| !matches!(operand, Operand::Value { .. }))
    }

    /// The bounds that are given, with the words for them.
    pub fn bounds(&self) -> impl Iterator<Item = (&'static str, &Operand)> {
        [
            ("=", &self.eq),
            ("not", &self.ne),
            ("at least", &self.ge),
            ("at most", &self.le),
            ("more than", &self.gt),
            ("less than", &self.lt),
        ]
        .into_iter()
        .filter_map(|(word, operand)| operand.as_ref().map(|operand| (word, operand)))
    }
}
