//! An article's file as it is written. Unknown keys are errors.

use serde::Deserialize;
use toml::Spanned;

use crate::claim::Stated;
use cuda_pitfalls_core::scenario::Expected;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArticleFile {
    pub(super) article: Spanned<String>,
    /// The title as published.
    pub(super) title: Spanned<String>,
    /// The author, if one is named.
    pub(super) author: Option<Spanned<String>>,
    /// The date, such as `2025-05-23`.
    pub(super) published: Spanned<String>,
    pub(super) note: Option<Spanned<String>>,
    pub(super) claim: Vec<RawClaim>,
}

/// A row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClaim {
    pub(super) id: Spanned<String>,
    pub(super) says: Spanned<String>,
    pub(super) note: Option<Spanned<String>>,
    pub(super) untestable: Option<Spanned<String>>,
    pub(super) verdict: Option<Spanned<Stated>>,
    pub(super) condition: Option<Spanned<String>>,
    pub(super) cause: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) shown_by: Vec<RawExpects>,
    #[serde(default)]
    pub(super) cause_shown_by: Vec<RawExpects>,
    #[serde(default)]
    pub(super) numbers: Vec<RawFigure>,
}

/// An answer that supports a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExpects {
    pub(super) scenario: Spanned<String>,
    pub(super) verdict: Expected,
    pub(super) libcudart: Option<Spanned<String>>,
    pub(super) case: Option<Spanned<String>>,
    pub(super) at: Option<Spanned<String>>,
    pub(super) fact: Option<Spanned<String>>,
    pub(super) gpu: Option<String>,
    pub(super) is: Option<Spanned<toml::Value>>,
    pub(super) shows: Option<Spanned<String>>,
}

/// A figure that a row prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFigure {
    pub(super) scenario: Spanned<String>,
    pub(super) case: Spanned<String>,
    pub(super) at: Option<Spanned<String>>,
    pub(super) fact: Spanned<String>,
    pub(super) gpu: Option<String>,
    pub(super) libcudart: Option<Spanned<String>>,
    pub(super) says: Option<Spanned<String>>,
}

impl<'de> Deserialize<'de> for Stated {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Stated, D::Error> {
        const WORDS: [&str; 4] = ["confirmed", "refuted", "qualified", "not_seen"];
        match String::deserialize(deserializer)?.as_str() {
            "confirmed" => Ok(Stated::Confirmed),
            "refuted" => Ok(Stated::Refuted),
            "qualified" => Ok(Stated::Qualified),
            "not_seen" => Ok(Stated::NotSeen),
            other => Err(serde::de::Error::unknown_variant(other, &WORDS)),
        }
    }
}
