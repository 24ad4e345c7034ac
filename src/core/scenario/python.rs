//! The requirements of Python lines for their interpreter: packages with version ranges.

use std::collections::BTreeSet;

use serde::de::{Deserialize, Deserializer, Error};

use super::Range;
use crate::machine::Interpreter;

/// The name of the interpreter itself among needs.
pub const INTERPRETER: &str = "python";

/// An entry of `needs`: alternative packages. Any of them is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageRequirement(pub Vec<Package>);

/// A package and a range of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// A distribution or a top-level module, or [`INTERPRETER`].
    pub name: String,
    /// The bounds, which must all hold; without bounds, any version is enough.
    bounds: Vec<VersionBound>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum VersionBound {
    In(Range),
    NotIn(Range),
}

/// The text is not a requirement. The message shows an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a package and its versions, such as `torch >= 2.0` or `cupy-cuda12x | cupy`")]
pub struct RequirementError;

impl PackageRequirement {
    /// Parses `torch >= 2.0, < 3`, or several alternatives separated by ` | `.
    ///
    /// # Errors
    /// Returns an error if the text is not a requirement.
    pub fn parse(text: &str) -> Result<PackageRequirement, RequirementError> {
        let mut packages = Vec::new();
        for alternative in text.split('|') {
            packages.push(Package::parse(alternative.trim())?);
        }
        Ok(PackageRequirement(packages))
    }
}

/// Entries of `needs`, as a file has them.
pub(crate) fn read_requirements<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Vec<String>, D::Error> {
    let entries = Vec::<String>::deserialize(file)?;
    for text in &entries {
        if let Err(form) = PackageRequirement::parse(text) {
            let message = format!("`{text}` is not a package and its versions: {form}");
            return Err(D::Error::custom(message));
        }
    }
    Ok(entries)
}

/// Returns the reason why an interpreter does not meet an entry of `needs`, as text; `None` if it does.
pub fn unmet_requirement(text: &str, found: &Interpreter) -> Option<String> {
    let Ok(PackageRequirement(packages)) = PackageRequirement::parse(text) else {
        return Some(format!("`{text}` is not a package and its versions"));
    };
    let mut first = None;
    for package in &packages {
        let version = match package.name.as_str() {
            INTERPRETER => Some(&found.version),
            name => found.packages.get(name).and_then(Option::as_ref),
        };
        let Some(version) = version else {
            continue;
        };
        if package.holds(version) {
            return None;
        }
        first = first.or(Some((&package.name, version)));
    }
    Some(match first {
        Some((name, version)) if version.is_empty() => {
            format!("`{text}`: {name} has no version")
        }
        Some((name, version)) => format!("{name} {version} is outside `{text}`"),
        None => format!(
            "`{text}` is not installed for {} (Python {})",
            found.executable, found.version
        ),
    })
}

/// Returns the names of the packages in these needs, without [`INTERPRETER`].
pub fn packages<'n>(needs: impl Iterator<Item = &'n String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for need in needs {
        let Ok(PackageRequirement(packages)) = PackageRequirement::parse(need) else {
            continue;
        };
        names.extend(packages.into_iter().map(|package| package.name));
    }
    names.remove(INTERPRETER);
    names
}

/// Returns an interpreter with only the packages in these needs.
pub fn with_needed<'n>(
    needs: impl Iterator<Item = &'n String>,
    found: &Interpreter,
) -> Interpreter {
    let names = packages(needs);
    let mut needed = found.clone();
    needed.packages.retain(|name, _| names.contains(name));
    needed
}

impl Package {
    fn parse(text: &str) -> Result<Package, RequirementError> {
        let end = text
            .find(|c: char| "<>=! ".contains(c))
            .unwrap_or(text.len());
        let (name, bounds) = text.split_at(end);
        if !name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            || !name.starts_with(|first: char| first.is_ascii_alphanumeric())
        {
            return Err(RequirementError);
        }
        let mut parsed = Vec::new();
        if !bounds.trim().is_empty() {
            for bound in bounds.split(',') {
                parsed.push(VersionBound::parse(bound.trim())?);
            }
        }
        Ok(Package {
            name: name.to_string(),
            bounds: parsed,
        })
    }

    /// Returns `true` if a version is in the range. Suffixes after the numbers (`2.9.0+cu130`, `3.14.0rc2`) are
    /// ignored.
    pub fn holds(&self, version: &str) -> bool {
        let numbers = numbers(version);
        self.bounds.iter().all(|bound| match bound {
            VersionBound::In(range) => range.matches(numbers),
            VersionBound::NotIn(range) => !range.matches(numbers),
        })
    }
}

impl VersionBound {
    fn parse(text: &str) -> Result<VersionBound, RequirementError> {
        let range = |text: &str| Range::parse(text).map_err(|_| RequirementError);
        if let Some(version) = text.strip_prefix("!=") {
            return Ok(VersionBound::NotIn(range(&format!("={version}"))?));
        }
        let bound = match text.strip_prefix("==") {
            Some(version) => range(&format!("={version}"))?,
            None => range(text)?,
        };
        Ok(VersionBound::In(bound))
    }
}

/// Returns the leading dotted numbers of a version.
fn numbers(version: &str) -> &str {
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    // `13.0.dev2` leaves a trailing dot; `3.14.0rc2` does not.
    version.get(..end).unwrap_or_default().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(text: &str) -> Package {
        let PackageRequirement(mut packages) = PackageRequirement::parse(text).unwrap();
        assert_eq!(packages.len(), 1, "{text}");
        packages.remove(0)
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(package("torch").holds("anything"));
        assert!(package("torch >= 2.0").holds("2.9.0+cu130"));
        assert!(package("torch>=2.0,<3").holds("2.9.0a0+git"));
        assert!(!package("torch >= 2.0, < 2.5").holds("2.5.1"));
        assert!(package("jax == 0.4").holds("0.4.35"));
        assert!(!package("jax != 0.4").holds("0.4.35"));
        assert!(package("python >= 3.9").holds("3.14.0rc2"));
        assert!(package("x >= 13.0").holds("13.0.dev2"));
        assert!(!package("torch >= 2.0").holds("unknown"));
    }

    #[test]
    fn one_of_several_packages_will_do() {
        let PackageRequirement(packages) =
            PackageRequirement::parse("cupy-cuda12x >= 13 | cupy").unwrap();
        let names: Vec<&str> = packages
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        assert_eq!(names, ["cupy-cuda12x", "cupy"]);
    }

    #[test]
    fn what_is_no_need_is_refused() {
        for text in [
            "",
            "torch >=",
            "torch two",
            "torch >= 2.0.",
            "torch >= 2.0 | ",
            "torch ~= 2.0",
            "a b >= 1",
            "../x",
        ] {
            assert!(PackageRequirement::parse(text).is_err(), "{text}");
        }
    }
}
