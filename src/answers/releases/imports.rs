//! `survey imports`: which import of a package calls `cuInit`, asked of many packages in two conditions. Each package is
//! measured alone, and alongside packages that initialize CUDA when another one imports them, because what else is installed
//! decides.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::list::{EnvironmentRequest, normalize_name};
use super::row::{LineState, ReleaseRow};
use crate::survey::python::{PythonLine, SideEffects};
use crate::survey::read_list;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::scenario::sha256_hex;

/// The name of the file of rows, in the directory of a survey.
pub const IMPORTS_FILE: &str = "imports.ndjson";
const PATH: &str = "scenarios/surveys/imports.toml";

/// The packages to ask.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportList {
    /// Packages that initialize CUDA when another one imports them: installed in the second condition.
    pub initializers: Vec<String>,
    /// The packages, those that people ask about most first.
    pub package: Vec<ImportedPackage>,
}

/// A package, with the lines that import it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportedPackage {
    /// Name in the package index.
    pub name: String,
    /// Lines that people write.
    pub lines: Vec<String>,
    /// What it needs and does not require itself.
    #[serde(default)]
    pub also: Vec<String>,
    /// Address of a thread about it.
    #[serde(default)]
    pub thread: String,
}

impl ImportedPackage {
    /// Returns the environment of a condition.
    pub fn request(&self, list: &ImportList, is_together: bool) -> EnvironmentRequest {
        let mut also = self.also.clone();
        if is_together {
            also.extend_from_slice(&list.initializers);
        }
        EnvironmentRequest {
            package: self.name.clone(),
            also,
            ..EnvironmentRequest::default()
        }
    }

    /// Returns its lines, each in a fresh interpreter.
    pub fn python_lines(&self) -> Vec<PythonLine> {
        let mut lines = Vec::new();
        for ask in &self.lines {
            lines.push(PythonLine {
                id: ask.clone(),
                framework: self.name.clone(),
                ask: ask.clone(),
                ..PythonLine::default()
            });
        }
        lines
    }
}

/// Returns the built-in list.
///
/// # Errors
/// Returns the errors of the list, with their places.
pub fn built_in_imports() -> Result<ImportList, Invalid> {
    read_imports(PATH, cuda_pitfalls_scenarios::survey("imports"))
}

/// Parses a list.
///
/// # Errors
/// Returns the first error, with its place in `path`.
pub fn read_imports(path: &str, source: &str) -> Result<ImportList, Invalid> {
    read_list(path, source, |list: ImportList, _| Ok(list))
}

/// Result of an import: one line of [`IMPORTS_FILE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRow {
    /// The line.
    pub line: String,
    /// The package that it imports.
    pub package: String,
    /// Version of the package; empty if it could not be installed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Version of Python, such as `3.12.1`.
    pub python: String,
    /// `true` if the packages that initialize CUDA were installed too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// The use of `cuInit`.
    pub state: LineState,
    /// Further facts.
    #[serde(flatten)]
    pub facts: ImportFacts,
    /// Day of the measurement, as `2026-11-29`.
    pub asked: String,
    /// [`inputs_hash`] of the environment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub inputs: String,
}

/// Facts of an import, in addition to the use of `cuInit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportFacts {
    /// The innermost public function of a package in the stack of `cuInit`, and where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The packages in that stack, each with its version, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<String>,
    /// The command of the child process that called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The variable and value with which the import does not call `cuInit`, where NVML is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cured_by: Option<String>,
    /// Reason why there is no answer: the exception, or the end of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Actions in addition to `cuInit`.
    #[serde(flatten)]
    pub side_effects: SideEffects,
}

impl ImportFacts {
    /// Returns the facts of a row in an environment with these packages.
    pub fn new(
        row: &ReleaseRow,
        packages: &BTreeMap<String, String>,
        side_effects: SideEffects,
    ) -> ImportFacts {
        let call = row.call();
        let mut through: Vec<String> = Vec::new();
        for place in call.iter().flat_map(|seen| &seen.way) {
            let Some((module, _)) = place.split_once('/') else {
                continue;
            };
            let version = packages.get(&normalize_name(module));
            let name = version.map_or_else(
                || module.to_owned(),
                |version| format!("{module} {version}"),
            );
            if !module.is_empty() && !through.contains(&name) {
                through.push(name);
            }
        }
        let why = row.seen.iter().find_map(|seen| {
            let raised = seen
                .raised
                .as_ref()
                .map(|raised| format!("{}: {}", raised.kind, raised.message));
            raised
                .or_else(|| seen.unmeasured.as_ref().map(|why| why.detail.clone()))
                .or_else(|| seen.left.clone())
        });
        ImportFacts {
            at: call.and_then(|seen| seen.at.clone()),
            through,
            child: call.and_then(|seen| seen.child.clone()),
            cured_by: None,
            why: if call.is_some() { None } else { why },
            side_effects,
        }
    }
}

impl ImportRow {
    /// Returns `true` if two rows answer the same question, of any version.
    pub fn asks_the_same(&self, other: &ImportRow) -> bool {
        self.line == other.line
            && self.package == other.package
            && self.together == other.together
            && minor_version(&self.python) == minor_version(&other.python)
    }

    /// Returns `true` if two rows have the same answer.
    fn answers_the_same(&self, other: &ImportRow) -> bool {
        self.state == other.state && self.facts.through.len() == other.facts.through.len()
    }
}

/// Returns `3.12` for `3.12.1`.
pub fn minor_version(python: &str) -> &str {
    let end = python.match_indices('.').nth(1).map(|(at, _)| at);
    python
        .get(..end.unwrap_or(python.len()))
        .unwrap_or_default()
}

/// Returns a hash of what decides an answer: the lines, and the versions of Python and of every package.
pub fn inputs_hash(lines: &[String], python: &str, packages: &BTreeMap<String, String>) -> String {
    let mut text = format!("{}\n{python}\n", lines.join("\n"));
    for (name, version) in packages {
        let _ = writeln!(text, "{name}=={version}");
    }
    let mut hash = sha256_hex(text);
    hash.truncate(16);
    hash
}

/// Parses a file of rows. A line that was cut off, because the survey was killed, is left out.
///
/// # Errors
/// Returns an error if another line cannot be parsed.
pub fn read_rows(text: &str) -> serde_json::Result<Vec<ImportRow>> {
    let whole = text
        .rfind('\n')
        .and_then(|end| text.get(..end))
        .unwrap_or_default();
    whole.lines().map(serde_json::from_str).collect()
}

/// Adds rows to others. A row replaces an earlier one of the same question if the answer is the same or the package has
/// the same version; otherwise the earlier one remains, as the last release with another answer. A package that could
/// not be installed keeps the rows that it has.
pub fn keep_newest(rows: &mut Vec<ImportRow>, new: Vec<ImportRow>) {
    for row in new {
        let last = rows.iter().rposition(|known| known.asks_the_same(&row));
        match last.and_then(|at| rows.get_mut(at)) {
            Some(known)
                if known.version.is_empty()
                    || known.answers_the_same(&row)
                    || known.version == row.version =>
            {
                *known = row
            }
            Some(_) if row.version.is_empty() => {}
            _ => rows.push(row),
        }
    }
    rows.sort_by(|a, b| {
        let key = |row: &ImportRow| {
            (
                row.package.clone(),
                row.line.clone(),
                row.together,
                row.python.clone(),
            )
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| super::version_order(&a.version, &b.version))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: &str, python: &str, state: LineState) -> ImportRow {
        ImportRow {
            line: "import a".to_owned(),
            package: "a".to_owned(),
            version: version.to_owned(),
            python: python.to_owned(),
            together: false,
            state,
            facts: ImportFacts::default(),
            asked: "2026-11-29".to_owned(),
            inputs: String::new(),
        }
    }

    #[test]
    fn the_last_release_with_another_answer_remains() {
        let mut rows = Vec::new();
        let new = [
            row("", "3.12.1", LineState::Unknown),
            row("1.0", "3.12.1", LineState::Yes),
            row("", "3.12.1", LineState::Unknown),
            row("1.9", "3.12.4", LineState::Yes),
            row("1.10", "3.12.4", LineState::No),
            row("1.10", "3.14.1", LineState::Yes),
            row("2.0", "3.12.4", LineState::No),
        ];
        for row in new {
            keep_newest(&mut rows, vec![row]);
        }
        let kept: Vec<(&str, &str)> = rows
            .iter()
            .map(|row| (row.version.as_str(), minor_version(&row.python)))
            .collect();
        assert_eq!(kept, [("1.9", "3.12"), ("2.0", "3.12"), ("1.10", "3.14")]);
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out() {
        let line = serde_json::to_string(&row("1", "3.12.1", LineState::No)).unwrap();
        let text = format!("{line}\n{}", &line[..20]);
        assert_eq!(read_rows(&text).unwrap().len(), 1);
        assert!(read_rows(&format!("{}\n", &line[..20])).is_err());
    }

    #[test]
    fn each_line_of_the_list_imports_and_is_asked_once() {
        let list = built_in_imports().unwrap();
        let mut known = std::collections::BTreeSet::new();
        for package in &list.package {
            assert!(!package.lines.is_empty(), "{}", package.name);
            for line in &package.lines {
                assert!(
                    line.starts_with("import ") || line.starts_with("from "),
                    "{line}"
                );
                assert!(known.insert((&package.name, line)), "{line} twice");
            }
        }
        assert!(list.package.len() >= 200, "{}", list.package.len());
    }
}
