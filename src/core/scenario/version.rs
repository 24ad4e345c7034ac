//! Dotted versions and ranges of versions.

use serde::de::{Deserialize, Deserializer, Error};

use super::Range;
use crate::text::counts::parse_digits;

/// The comparisons. Longer ones come first, so that `>=` is not read as `>`.
const COMPARISONS: [&str; 5] = [">=", "<=", ">", "<", "="];

/// The text is not a range. The message shows an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write one of `>=` `>` `<=` `<` `=` and a dotted number, such as `>= 12.0`")]
pub struct RangeError;

impl Range {
    /// Parses a range such as `>= 12.0`.
    ///
    /// # Errors
    /// Returns an error if the text is not a range.
    pub fn parse(text: &str) -> Result<Range, RangeError> {
        match split(text) {
            Some(_) => Ok(Range(text.to_string())),
            None => Err(RangeError),
        }
    }

    /// Returns `true` if a version is in the range. Only as many numbers are compared as the range has: `= 580` and `<=
    /// 580` hold for 580.159.04. A version that is not dotted numbers is in no range.
    pub fn matches(&self, version: &str) -> bool {
        let (Some((comparison, bound)), Some(mut version)) = (split(&self.0), numbers(version))
        else {
            return false;
        };
        version.resize(bound.len(), 0);
        let order = version.cmp(&bound);
        match comparison {
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            _ => order.is_eq(),
        }
    }
}

/// Returns the text of a range, as a file has it.
pub(super) fn read_range<'de, D: Deserializer<'de>>(file: D) -> Result<String, D::Error> {
    let text = String::deserialize(file)?;
    match Range::parse(&text) {
        Ok(_) => Ok(text),
        Err(form) => Err(D::Error::custom(format!("`{text}` is not a range: {form}"))),
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn split(range: &str) -> Option<(&'static str, Vec<u64>)> {
    COMPARISONS.iter().find_map(|comparison| {
        let rest = range.trim().strip_prefix(comparison)?;
        numbers(rest.trim_start()).map(|numbers| (*comparison, numbers))
    })
}

fn numbers(version: &str) -> Option<Vec<u64>> {
    version.trim().split('.').map(parse_digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(range: &str, version: &str) -> bool {
        Range::parse(range).unwrap().matches(version)
    }

    #[test]
    fn comparisons() {
        assert!(holds(">= 12.0", "12.0"));
        assert!(holds(">= 12.0", "12"));
        assert!(holds(">= 525", "580.159.04"));
        assert!(holds("< 13", "12.9"));
        assert!(!holds("< 13", "13.0"));
        assert!(holds("= 580.159.04", "580.159.04"));
        assert!(holds("=580.159.4", "580.159.04"));
        assert!(!holds("= 580.159.04", "580.159.03"));
        assert!(holds("> 9.9", "9.10"));
    }

    #[test]
    fn a_short_range_looks_at_no_more_than_it_says() {
        assert!(holds("= 580", "580.159.04"));
        assert!(holds("<= 580", "580.159.04"));
        assert!(!holds("> 580", "580.159.04"));
    }

    #[test]
    fn what_is_no_version_lies_nowhere() {
        assert!(!holds(">= 0", "unknown"));
        assert!(!holds(">= 0", ""));
        assert!(!holds("< 13", "-1"));
    }

    #[test]
    fn what_is_no_range() {
        for text in [
            "12.0",
            ">= ",
            "~> 12",
            ">= 12.x",
            "== 12",
            ">= 12, < 13",
            ">= +1",
            "",
            ">= 1..2",
        ] {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }
}
