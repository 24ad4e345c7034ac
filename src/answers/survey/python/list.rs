//! The rows to ask: `scenarios/surveys/python.toml`, or a file of the same format, read strictly.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::INSTRUMENT;
use crate::survey::document::LeftOut;
use crate::survey::errors::Returned;
use cuda_pitfalls_core::catalogue::Invalid;
use cuda_pitfalls_core::scenario::python::{INTERPRETER, PackageRequirement};
use cuda_pitfalls_core::source::reader::{Reader, get};
use cuda_pitfalls_core::source::tree::{Node, SourceSpan, TreeEntry};

const PATH: &str = "scenarios/surveys/python.toml";
const SOURCE: &str = cuda_pitfalls_scenarios::LINES;

/// The largest list in a file, in bytes. No person writes a list of thousands of rows.
pub const MOST_BYTES: usize = 1 << 20;

const KEYS: [&str; 11] =
    ["id", "framework", "needs", "before", "ask", "env", "gpus", "timeout_s", "asks_gpu", "scenarios", "note"];

/// A Python line to ask about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PythonLine {
    /// Its name for selectors, unique in the list.
    pub id: String,
    /// The group with which it can be selected, such as `torch`.
    pub framework: String,
    /// The packages that it needs, as in a case.
    pub needs: Vec<String>,
    /// The code that runs before it.
    pub before: Vec<String>,
    /// The code in question.
    pub ask: String,
    /// Variables that are set before the interpreter starts.
    pub env: BTreeMap<String, String>,
    /// How many GPUs it needs.
    pub gpus: u32,
    /// How long a process may run, in seconds, if longer than for other rows.
    pub timeout_s: Option<u64>,
    /// Whether the line plainly asks for a GPU, so that its answer is the same in every release: `survey python --with`
    /// leaves it out unless it is selected.
    pub asks_gpu: bool,
    /// The scenarios whose pitfall needs this line to call `cuInit`.
    pub scenarios: Vec<String>,
    /// Why the line is of interest.
    pub note: String,
    /// What libcuda returns by itself; `None` where every call is passed on.
    #[serde(skip)]
    pub returned: Option<Returned>,
}

impl PythonLine {
    /// The packages among its needs.
    pub fn packages(&self) -> BTreeSet<String> {
        let needs = self.needs.iter().filter_map(|need| PackageRequirement::parse(need).ok());
        let names = needs.flat_map(|PackageRequirement(packages)| packages).map(|package| package.name);
        names.filter(|name| name != INTERPRETER).collect()
    }
}

/// The rows of a list, and what it leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The rows, in the order of the file.
    pub lines: Vec<PythonLine>,
    /// What is not asked about, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// The list that comes with the program.
///
/// # Errors
/// The errors of the list, with their places.
pub fn built_in() -> Result<List, Invalid> {
    read(PATH, SOURCE)
}

/// Parses a list; errors name `path`.
///
/// # Errors
/// Every error of the list, with its place.
pub fn read(path: &str, source: &str) -> Result<List, Invalid> {
    Invalid::or_read(path, source, list)
}

fn list(reader: &mut Reader<'_>) -> Option<List> {
    let entries = reader.top("a list of rows", MOST_BYTES)?;
    reader.known_keys(&entries, &["row", "left_out"]);
    let rows = reader.required(&entries, "row", &SourceSpan::at(0..0), "a list of rows")?;
    let (mut list, mut known) = (List::default(), BTreeSet::new());
    for node in reader.one_or_more(rows) {
        let Some(line) = line(reader, node) else { continue };
        if line.framework == INSTRUMENT {
            reader.error(&node.place, format!("`{INSTRUMENT}` is the framework of the controls"), None);
        }
        if !known.insert(line.id.clone()) {
            reader.error(&node.place, format!("`{}` occurs twice", line.id), Some("give it another `id`".to_string()));
        }
        list.lines.push(line);
    }
    for node in get(&entries, "left_out").map(|node| reader.one_or_more(node)).unwrap_or_default() {
        let Some(entries) = reader.table_of(node, &["name", "reason"]) else { continue };
        let mut text = |key: &str| {
            let node = reader.required(entries, key, &node.place, "an entry of `left_out`")?;
            reader.sentence(node)
        };
        if let (Some(name), Some(reason)) = (text("name"), text("reason")) {
            list.left_out.push(LeftOut { name, reason });
        }
    }
    Some(list)
}

fn line(reader: &mut Reader<'_>, node: &Node) -> Option<PythonLine> {
    let entries = reader.table_of(node, &KEYS)?;
    let mut required = |key: &str| {
        let node = reader.required(entries, key, &node.place, "a row")?;
        reader.sentence(node)
    };
    let (id, framework, ask) = (required("id"), required("framework"), required("ask"));
    let needs = reader.required(entries, "needs", &node.place, "a row");
    let needs = needs.and_then(|node| reader.list(node)).unwrap_or_default();
    let needs = needs.iter().filter_map(|node| need(reader, node)).collect();
    let before = sentences(reader, entries, "before");
    let env = get(entries, "env").and_then(|node| reader.table(node)).unwrap_or_default();
    let env = env.iter().filter_map(|entry| variable(reader, entry)).collect();
    let gpus = get(entries, "gpus").and_then(|node| reader.integer(node, 0..=64)).unwrap_or(0);
    let timeout_s = get(entries, "timeout_s").and_then(|node| reader.integer(node, 1..=3600));
    let asks_gpu = get(entries, "asks_gpu").and_then(|node| reader.boolean(node)).unwrap_or(false);
    let scenarios = sentences(reader, entries, "scenarios");
    let note = get(entries, "note").and_then(|node| reader.sentence(node)).unwrap_or_default();
    Some(PythonLine {
        id: id?,
        framework: framework?,
        needs,
        before,
        ask: ask?,
        env,
        gpus: u32::try_from(gpus).unwrap_or(0),
        timeout_s: timeout_s.and_then(|seconds| u64::try_from(seconds).ok()),
        asks_gpu,
        scenarios,
        note,
        returned: None,
    })
}

/// The texts of a list under a key, which may be absent.
pub(crate) fn sentences(reader: &mut Reader<'_>, entries: &[TreeEntry], key: &str) -> Vec<String> {
    let nodes = get(entries, key).and_then(|node| reader.list(node)).unwrap_or_default();
    nodes.iter().filter_map(|node| reader.sentence(node)).collect()
}

fn need(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let text = reader.sentence(node)?;
    match PackageRequirement::parse(&text) {
        Ok(_) => Some(text),
        Err(form) => {
            reader.error(&node.place, format!("`{text}` is not a package and its versions"), Some(form.to_string()));
            None
        }
    }
}

fn variable(reader: &mut Reader<'_>, TreeEntry { key, value }: &TreeEntry) -> Option<(String, String)> {
    let text = reader.text(value)?;
    if key.text.is_empty() || key.text.contains(['=', '\0']) || text.contains('\0') {
        reader.error(&key.place, "this is no variable that a process can have", None);
        return None;
    }
    Some((key.text.clone(), text.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "[[row]]\nid = \"a\"\nframework = \"torch\"\nneeds = []\nask = \"pass\"\n";

    fn wrong(source: &str) -> Vec<String> {
        let invalid = read("rows.toml", source).expect_err("it is wrong");
        invalid.diagnostics.iter().map(|wrong| wrong.line(source)).collect()
    }

    #[test]
    fn every_key_of_a_row_is_read() {
        let text = "env = { A = \"1\" }\ngpus = 2\ntimeout_s = 90\nscenarios = [\"framework/c\"]\nnote = \"Why.\"\nbefore = [\"import x\", \"y()\"]\n";
        let source = format!("{ROW}{text}\n[[left_out]]\nname = \"b\"\nreason = \"large\"\n");
        let list = read("rows.toml", &source).expect("it is valid");
        let line = list.lines.first().expect("a row");
        assert_eq!((line.before.as_slice(), line.gpus), (&["import x".to_string(), "y()".to_string()][..], 2));
        assert_eq!((line.timeout_s, line.note.as_str(), line.env["A"].as_str()), (Some(90), "Why.", "1"));
        assert_eq!(line.scenarios, ["framework/c"]);
        assert_eq!(list.left_out, [LeftOut { name: "b".into(), reason: "large".into() }]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert_eq!(
            wrong("[[row]]\n"),
            [
                "rows.toml:1:1: a row needs `id`",
                "rows.toml:1:1: a row needs `framework`",
                "rows.toml:1:1: a row needs `ask`",
                "rows.toml:1:1: a row needs `needs`"
            ]
            .map(str::to_string)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
        );
        assert_eq!(wrong(&format!("{ROW}{ROW}")), ["rows.toml:6:1: `a` occurs twice"]);
        let control = ROW.replace("torch", "instrument");
        assert_eq!(wrong(&control), ["rows.toml:1:1: `instrument` is the framework of the controls"]);
        assert_eq!(wrong(&format!("{ROW}aks = \"x\"\n")), ["rows.toml:6:1: unknown key `aks`"]);
        assert_eq!(
            wrong(&ROW.replace("[]", "[\"torch 2\"]")),
            ["rows.toml:4:10: `torch 2` is not a package and its versions"]
        );
        assert_eq!(wrong(&format!("{ROW}env = {{ A = 1 }}\n")), ["rows.toml:6:13: expected text, found an integer"]);
    }
}
