//! The lines to test: `scenarios/surveys/python.toml`, or a file of the same format, parsed strictly.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;

use super::INSTRUMENT;
use super::returned::Returned;
use crate::survey::list::read_list;
use crate::survey::row::LeftOut;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::scenario::python::{self, PackageRequirement};

const PATH: &str = "scenarios/surveys/python.toml";

/// Maximum size of a list in a file, in bytes. Hand-written lists do not have thousands of rows.
pub const MOST_BYTES: usize = 1 << 20;

/// A Python line to test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonLine {
    /// The name of the line for selectors, unique in the list.
    pub id: String,
    /// Group that selects the line, such as `torch`.
    pub framework: String,
    /// The packages that the line needs, as in a case.
    pub needs: Vec<String>,
    /// The code that runs before the line.
    #[serde(default)]
    pub before: Vec<String>,
    /// The code in question.
    pub ask: String,
    /// Variables that are set before the interpreter starts.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Number of GPUs that the line needs.
    #[serde(default)]
    pub gpus: u32,
    /// Time limit of a process, in seconds, if longer than for other rows.
    pub timeout_s: Option<u64>,
    /// `true` if the line explicitly uses a GPU, so that its answer is the same in every release: `survey python
    /// --with` leaves it out unless it is selected.
    #[serde(default)]
    pub asks_gpu: bool,
    /// The scenarios whose pitfall needs this line to call `cuInit`.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Reason why the line is of interest.
    #[serde(default)]
    pub note: String,
    /// Status that libcuda returns by itself; `None` if every call is forwarded.
    #[serde(skip)]
    pub returned: Option<Returned>,
}

impl PythonLine {
    /// Returns the packages among its needs.
    pub fn packages(&self) -> BTreeSet<String> {
        python::packages(self.needs.iter())
    }

    /// Returns the first error in it that its types do not rule out.
    fn wrong(&self) -> Option<String> {
        let texts = [&self.id, &self.framework, &self.ask].into_iter();
        let mut texts = texts
            .chain(&self.needs)
            .chain(&self.before)
            .chain(&self.scenarios);
        if texts.any(|text| text.trim().is_empty()) {
            return Some("one of its texts is empty".to_string());
        }
        if self.framework == INSTRUMENT {
            return Some(format!("`{INSTRUMENT}` is the framework of the controls"));
        }
        for need in &self.needs {
            if let Err(form) = PackageRequirement::parse(need) {
                return Some(format!(
                    "`{need}` is not a package and its versions: {form}"
                ));
            }
        }
        if self.env.iter().any(|(name, value): (&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        }) {
            return Some("`env` has a variable that no process can have".to_string());
        }
        let is_in_range = self.gpus <= 64
            && self
                .timeout_s
                .is_none_or(|seconds| (1..=3600).contains(&seconds));
        (!is_in_range).then(|| "`gpus` is at most 64, and `timeout_s` from 1 to 3600".to_string())
    }
}

/// The rows of a list, and the excluded items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The rows, in the order of the file.
    pub lines: Vec<PythonLine>,
    /// Excluded items, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// Returns the built-in list.
///
/// # Errors
/// Returns the errors of the list, with their places.
pub fn built_in() -> Result<List, Invalid> {
    read(PATH, cuda_pitfalls_scenarios::survey("python"))
}

/// Parses a list.
///
/// # Errors
/// Returns the first error, with its place in `path`.
pub fn read(path: &str, source: &str) -> Result<List, Invalid> {
    read_list(path, source, |file: LinesFile, _| {
        let (mut lines, mut known) = (Vec::new(), BTreeSet::new());
        for row in file.row {
            let (span, line) = (row.span(), row.into_inner());
            if let Some(wrong) = line.wrong() {
                return Err((span, wrong));
            }
            if !known.insert(line.id.clone()) {
                return Err((
                    span,
                    format!("`{}` occurs twice: give it another `id`", line.id),
                ));
            }
            lines.push(line);
        }
        Ok(List {
            lines,
            left_out: file.left_out,
        })
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinesFile {
    row: Vec<Spanned<PythonLine>>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[[row]]\nid = \"a\"\nframework = \"torch\"\nneeds = []\nask = \"pass\"\n";

    fn wrong(source: &str) -> Vec<String> {
        let invalid = read("rows.toml", source).expect_err("it is wrong");
        invalid
            .diagnostics
            .iter()
            .map(|wrong| wrong.line(source))
            .collect()
    }

    #[test]
    fn every_key_of_a_row_is_read() {
        let text = "env = { A = \"1\" }\ngpus = 2\ntimeout_s = 90\nscenarios = [\"framework/c\"]\nnote = \"Why.\"\nbefore = [\"import x\", \"y()\"]\n";
        let source = format!("{ROW}{text}\n[[left_out]]\nname = \"b\"\nreason = \"large\"\n");
        let list = read("rows.toml", &source).expect("it is valid");
        let line = list.lines.first().expect("a row");
        assert_eq!(
            (line.before.as_slice(), line.gpus),
            (&["import x".to_string(), "y()".to_string()][..], 2)
        );
        assert_eq!(
            (line.timeout_s, line.note.as_str(), line.env["A"].as_str()),
            (Some(90), "Why.", "1")
        );
        assert_eq!(line.scenarios, ["framework/c"]);
        assert_eq!(
            list.left_out,
            [LeftOut {
                name: "b".into(),
                reason: "large".into()
            }]
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert_eq!(wrong("[[row]]\n"), ["rows.toml:1:1: missing field `id`"]);
        assert_eq!(
            wrong(&format!("{ROW}{ROW}")),
            ["rows.toml:6:1: `a` occurs twice: give it another `id`"]
        );
        let control = ROW.replace("torch", "instrument");
        assert_eq!(
            wrong(&control),
            ["rows.toml:1:1: `instrument` is the framework of the controls"]
        );
        let [misspelt] = wrong(&format!("{ROW}aks = \"x\"\n"))
            .try_into()
            .expect("one error");
        assert!(
            misspelt.starts_with("rows.toml:6:1: unknown field `aks`, expected one of `id`"),
            "{misspelt}"
        );
        let [unknown] = wrong(&ROW.replace("[]", "[\"torch 2\"]"))
            .try_into()
            .expect("one error");
        assert!(
            unknown.starts_with("rows.toml:1:1: `torch 2` is not a package and its versions"),
            "{unknown}"
        );
        assert_eq!(
            wrong(&format!("{ROW}env = {{ A = 1 }}\n")),
            ["rows.toml:6:13: invalid type: integer `1`, expected a string"]
        );
    }
}
