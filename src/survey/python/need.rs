//! What a row needs of the interpreter: `torch >= 2.0, < 3`, or one of several: `cupy-cuda12x | cupy`.

use std::cmp::Ordering;
use std::fmt;

/// What names the interpreter itself among needs.
pub const INTERPRETER: &str = "python";

/// Packages of which one must be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need(Vec<Package>);

/// A package of Python, and which versions of it will do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Package {
    /// The distribution's name, as `pip list` has it, or a top-level module's.
    name: String,
    bounds: Vec<Bound>,
}

/// One bound on a version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    sign: &'static str,
    version: String,
}

/// The longer ones first: `>` is the beginning of `>=`.
const SIGNS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];

impl Need {
    /// Reads `torch`, `torch >= 2.0, < 3`, or several such with ` | ` between.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Need, String> {
        text.split('|').map(|one| Package::parse(one.trim())).collect::<Result<_, _>>().map(Need)
    }

    /// The names that it asks for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|package| package.name.as_str())
    }

    /// Why what is installed will not do; none if it will. `version` is that of a package by its name, none if it is
    /// not installed.
    pub fn lacks(&self, version: impl Fn(&str) -> Option<String>) -> Option<String> {
        if self.0.iter().any(|package| version(&package.name).is_some_and(|version| package.admits(&version))) {
            return None;
        }
        let other = self.0.iter().find_map(|package| Some((&package.name, version(&package.name)?)));
        Some(match other {
            Some((name, version)) => format!("{self} is needed, and {name} {version} is installed"),
            None => format!("{} is not installed", self.names().collect::<Vec<_>>().join(" or ")),
        })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let package = |package: &Package| {
            let bounds = package.bounds.iter().map(|bound| format!("{} {}", bound.sign, bound.version));
            format!("{} {}", package.name, bounds.collect::<Vec<_>>().join(", ")).trim_end().to_string()
        };
        f.write_str(&self.0.iter().map(package).collect::<Vec<_>>().join(" | "))
    }
}

impl Package {
    fn parse(text: &str) -> Result<Package, String> {
        let end = text.find(|c: char| c.is_whitespace() || "<>=!,".contains(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(is_letter) {
            return Err(format!("`{text}` does not begin with the name of a package"));
        }
        let bounds = rest.split(',').map(str::trim).filter(|_| !rest.trim().is_empty()).map(Bound::parse);
        Ok(Package { name: name.to_string(), bounds: bounds.collect::<Result<_, _>>()? })
    }

    fn admits(&self, version: &str) -> bool {
        self.bounds.iter().all(|bound| bound.admits(version))
    }
}

impl Bound {
    fn parse(text: &str) -> Result<Bound, String> {
        let sign = SIGNS.into_iter().find(|sign| text.starts_with(sign));
        let sign = sign.ok_or_else(|| format!("`{text}` does not begin with one of {}", SIGNS.join(" ")))?;
        let version = text.get(sign.len()..).unwrap_or_default().trim();
        if numbers(version).is_empty() || version.contains(char::is_whitespace) {
            return Err(format!("`{version}` is no version such as 2.0"));
        }
        Ok(Bound { sign, version: version.to_string() })
    }

    fn admits(&self, installed: &str) -> bool {
        let order = compare(installed, &self.version);
        match self.sign {
            ">=" => order != Ordering::Less,
            "<=" => order != Ordering::Greater,
            "==" => begins(installed, &self.version),
            "!=" => !begins(installed, &self.version),
            ">" => order == Ordering::Greater,
            _ => order == Ordering::Less,
        }
    }
}

/// Compares two versions by their numbers: builds of what is to be 2.9 call themselves 2.9.0a0+git, and do what 2.9
/// does.
fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (numbers(a), numbers(b));
    let number = |numbers: &[u64], at: usize| numbers.get(at).copied().unwrap_or(0);
    let parts = (0..a.len().max(b.len())).map(|at| number(&a, at).cmp(&number(&b, at)));
    parts.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Whether a version is one of those that a shorter one stands for: 0.4.35 is a 0.4.
fn begins(version: &str, with: &str) -> bool {
    numbers(version).starts_with(&numbers(with))
}

/// The numbers that a version begins with: 2, 9, 0 of `2.9.0a0+git`.
fn numbers(version: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    for part in version.split('.') {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let Some(number) = part.get(..end).and_then(|digits| digits.parse().ok()) else { break };
        numbers.push(number);
        if end < part.len() {
            break;
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::Need;

    #[test]
    fn a_version_is_held_against_every_bound() {
        let lacks = |need: &str, version: Option<&str>| {
            Need::parse(need).expect(need).lacks(|name| version.filter(|_| name == "torch").map(str::to_string))
        };
        assert_eq!(lacks("torch", None).as_deref(), Some("torch is not installed"));
        assert_eq!(lacks("torch", Some("0.1")), None);
        for (need, version, is_met) in [
            ("torch >= 2.0", "2.0.0", true),
            ("torch>=2.0", "1.13.1+cu117", false),
            ("torch >= 2.9", "2.9.0a0+50eac811a6.nv25.09", true),
            ("torch >= 2.10", "2.9.1", false),
            ("torch >= 2.0, < 3", "3.0", false),
            ("torch >= 2.0, < 3", "2.99", true),
            ("torch == 2.8", "2.8.1", true),
            ("torch == 2.8.0", "2.8.1", false),
            ("torch != 2.8", "2.8.0", false),
            ("torch > 2.8", "2.8", false),
            ("torch <= 2.8", "2.8.1", false),
        ] {
            assert_eq!(lacks(need, Some(version)).is_none(), is_met, "{need} and {version}");
        }
        let why = lacks("torch >=2.0,<3", Some("3.1"));
        assert_eq!(why.as_deref(), Some("torch >= 2.0, < 3 is needed, and torch 3.1 is installed"));
        assert_eq!(lacks("cupy >= 13 | torch", Some("2")), None);
        assert_eq!(lacks("cupy >= 13 | numba", Some("2")).as_deref(), Some("cupy or numba is not installed"));
    }

    #[test]
    fn what_is_no_need_is_refused() {
        for (text, why) in [
            ("", "`` does not begin with the name of a package"),
            (">= 2", "`>= 2` does not begin with the name of a package"),
            ("torch 2.0", "`2.0` does not begin with one of >= <= == != > <"),
            ("torch >= new", "`new` is no version such as 2.0"),
            ("torch >= 2.0,", "`` does not begin with one of >= <= == != > <"),
            ("torch | ", "`` does not begin with the name of a package"),
        ] {
            assert_eq!(Need::parse(text).expect_err(text), why);
        }
    }
}
