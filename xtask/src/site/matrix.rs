//! Which line calls `cuInit` in which version: a table for each package, and a page of what changed.
//!
//! Names, stacks and exceptions in a matrix are text of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cuda_pitfalls::releases::{self, LineState};
use cuda_pitfalls::text::escape::html;
use serde::Deserialize;

use super::{Draft, write};
use crate::TaskError;

/// The page of changes.
pub(super) const CHANGES: &str = "releases/changes.md";

/// Lines, asked in many versions of packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Matrix {
    /// Where they were asked.
    pub environments: Vec<Environment>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An interpreter with a version of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Environment {
    /// Its name: `torch 2.9.1`.
    pub id: String,
    /// The package that it is about.
    pub package: String,
    /// The version of that package.
    pub version: String,
    /// The version of Python.
    pub python: String,
    /// The versions of all packages that count.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// The day on which it was asked: `2026-11-25`.
    pub asked_on: String,
}

/// A line with what it did in each environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// Its name: `torch.cuda.is_available`.
    pub id: String,
    /// Its group.
    pub framework: String,
    /// The lines that ran before it.
    #[serde(default)]
    pub before: Vec<String>,
    /// The line.
    pub ask: String,
    /// Why it is asked.
    #[serde(default)]
    pub note: String,
    /// What it did.
    #[serde(default)]
    pub cells: Vec<Cell>,
}

/// What a line did in an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Cell {
    /// The name of the environment.
    pub environment: String,
    /// Whether it called `cuInit`.
    pub state: State,
    /// The innermost place in the package on the way to `cuInit`.
    #[serde(default)]
    pub at: Option<String>,
    /// The exception that it raised.
    #[serde(default)]
    pub raised: Option<String>,
    /// The functions on the way to `cuInit`, the outermost first.
    #[serde(default)]
    pub way: Vec<String>,
}

/// Whether a line calls `cuInit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It asks NVML, and does not call `cuInit`.
    Nvml,
    /// This version has no such line.
    Absent,
    /// It could not be told.
    #[default]
    Unknown,
    /// It needs a GPU to come to an answer.
    Gpu,
}

impl State {
    /// All, in the order of the legend.
    const ALL: [State; 6] = [State::Yes, State::No, State::Nvml, State::Absent, State::Unknown, State::Gpu];

    /// The word in a cell.
    pub(super) const fn word(self) -> &'static str {
        match self {
            State::Yes => "yes",
            State::No => "no",
            State::Nvml => "no, NVML",
            State::Absent => "absent",
            State::Unknown => "unknown",
            State::Gpu => "needs a GPU",
        }
    }

    /// The word in an attribute.
    const fn name(self) -> &'static str {
        match self {
            State::Yes => "yes",
            State::No => "no",
            State::Nvml => "nvml",
            State::Absent => "absent",
            State::Unknown => "unknown",
            State::Gpu => "gpu",
        }
    }

    const fn means(self) -> &'static str {
        match self {
            State::Yes => "the line calls cuInit, which reads the mask",
            State::No => "it does not",
            State::Nvml => "it asks NVML, and calls cuInit only where there is none",
            State::Absent => "this version has no such line",
            State::Unknown => "it could not be told: it raised an exception before, for instance",
            State::Gpu => "it comes to an answer only where there is a GPU",
        }
    }

    /// Whether it calls `cuInit`, if that is known.
    const fn calls(self) -> Option<bool> {
        match self {
            State::Yes => Some(true),
            State::No | State::Nvml => Some(false),
            State::Absent | State::Unknown | State::Gpu => None,
        }
    }
}

impl Matrix {
    /// Reads what pages show of a matrix.
    ///
    /// # Errors
    /// The text is not valid.
    pub fn parse(source: &str) -> Result<Matrix, TaskError> {
        serde_json::from_str(source).map_err(|error| format!("a matrix of pages: {error}").into())
    }

    /// What pages show of the committed documents; `None` if there are none.
    pub fn of(matrix: &releases::Matrix) -> Option<Matrix> {
        let asked = matrix.columns.iter().filter(|column| column.failed.is_none());
        let environments: Vec<Environment> = asked
            .map(|column| Environment {
                id: column.name.clone(),
                package: column.package.clone(),
                version: column.version.clone(),
                python: column.python.clone().unwrap_or_default(),
                packages: column.packages.clone(),
                asked_on: column.asked_at.get(..10).unwrap_or_default().to_owned(),
            })
            .collect();
        let lines = matrix.lines.iter().map(|line| Line {
            id: line.id.clone(),
            framework: line.framework.clone(),
            before: line.before.clone(),
            ask: line.ask.clone(),
            note: String::new(),
            cells: line.cells.iter().filter_map(|cell| shown(matrix, cell)).collect(),
        });
        (!environments.is_empty()).then(|| Matrix { environments, lines: lines.collect() })
    }

    /// The environments of each package, the oldest version first.
    fn packages(&self) -> BTreeMap<&str, Vec<&Environment>> {
        let mut packages: BTreeMap<&str, Vec<&Environment>> = BTreeMap::new();
        for environment in &self.environments {
            packages.entry(&environment.package).or_default().push(environment);
        }
        packages.values_mut().for_each(|own| own.sort_by_key(|it| (numbers(&it.version), numbers(&it.python))));
        packages
    }

    /// The lines that were asked in one of these environments.
    fn asked<'m>(&'m self, environments: &[&Environment]) -> Vec<&'m Line> {
        let is_asked =
            |line: &&Line| line.cells.iter().any(|cell| environments.iter().any(|it| it.id == cell.environment));
        self.lines.iter().filter(is_asked).collect()
    }
}

impl Line {
    fn cell(&self, environment: &Environment) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.environment == environment.id)
    }

    fn state(&self, environment: &Environment) -> State {
        self.cell(environment).map_or(State::Unknown, |cell| cell.state)
    }
}

/// What a page shows of a cell.
fn shown(matrix: &releases::Matrix, cell: &releases::Cell) -> Option<Cell> {
    let through = cell.through.as_ref().map(|through| format!(" ({through})")).unwrap_or_default();
    let child = cell.child.as_ref().map(|child| format!(", in the child process {child}")).unwrap_or_default();
    Some(Cell {
        environment: matrix.columns.get(cell.column)?.name.clone(),
        state: match cell.state {
            LineState::Yes | LineState::WithNvml => State::Yes,
            LineState::No => State::No,
            LineState::WithoutNvml => State::Nvml,
            LineState::Absent => State::Absent,
            LineState::NeedsGpu => State::Gpu,
            LineState::Stopped | LineState::Disagree | LineState::Unknown => State::Unknown,
        },
        at: cell.at.as_ref().filter(|_| cell.state.calls()).map(|at| format!("{at}{through}{child}")),
        raised: cell.raised.as_ref().map(|raised| format!("{}: {}", raised.kind, raised.message)),
        way: cell.way.clone(),
    })
}

/// The numbers of a version, to sort by.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn path(package: &str) -> String {
    format!("releases/{}.md", write::slug(package))
}

/// The pages that have a line, each with its name and its address with the line's anchor.
pub(super) fn places(matrix: &Matrix, id: &str) -> Vec<(String, String)> {
    let of = |(package, environments): (&str, Vec<&Environment>)| {
        let asked = matrix.asked(&environments);
        let anchors = write::slugs(asked.iter().map(|line| line.id.as_str()));
        let (_, anchor) = asked.iter().zip(anchors).find(|(line, _)| line.id == id)?;
        Some((package.to_owned(), format!("{}#{anchor}", path(package))))
    };
    matrix.packages().into_iter().filter_map(of).collect()
}

/// The index, the page of changes, and a page for each package.
pub(super) fn pages(matrix: &Matrix) -> Vec<Draft> {
    let packages = matrix.packages();
    let mut index = "# Lines by version\n\nWhich line of Python calls `cuInit` in which version of its package, each \
                     asked in an environment of its own. A mask that is set after `cuInit` has no effect.\n\n"
        .to_owned();
    let _ = writeln!(index, "- [What changed between versions](/{CHANGES})");
    let mut pages = Vec::new();
    for (package, environments) in &packages {
        let lines = matrix.asked(environments).len();
        let versions = environments.len();
        let _ = writeln!(
            index,
            "- [{}](/{}): {lines} lines in {versions} versions",
            write::plain(&write::title(package)),
            path(package)
        );
        pages.push(of_package(matrix, package, environments));
    }
    let _ = writeln!(index, "\n{}", asked_on(&matrix.environments.iter().collect::<Vec<_>>()));
    let draft =
        |path: &str, title: &str, text| Draft { path: path.into(), title: title.into(), text, ..Draft::default() };
    let first = [draft("releases/index.md", "Lines by version", index), changes(matrix, &packages)];
    first.into_iter().chain(pages).collect()
}

fn asked_on(environments: &[&Environment]) -> String {
    let days: BTreeSet<&str> = environments.iter().map(|it| it.asked_on.as_str()).collect();
    match (days.first(), days.last()) {
        (Some(first), Some(last)) if first == last => format!("Asked on {}.", write::plain(first)),
        (Some(first), Some(last)) => format!("Asked from {} to {}.", write::plain(first), write::plain(last)),
        _ => String::new(),
    }
}

/// The page of a package.
fn of_package(matrix: &Matrix, package: &str, environments: &[&Environment]) -> Draft {
    let title = format!("{package}, by version");
    let mut out = format!("# {}\n\n", write::plain(&write::title(&title)));
    let _ = writeln!(
        out,
        "Which line calls `cuInit` in which version. *how* opens the code of a line, and its way to `cuInit` in each \
         version. {}\n",
        asked_on(environments)
    );
    out.push_str("<ul class=\"legend\">\n");
    for state in State::ALL {
        let _ = writeln!(
            out,
            "<li><span class=\"state {}\">{}</span> {}</li>",
            state.name(),
            html(state.word()),
            html(state.means())
        );
    }
    out.push_str("</ul>\n\n");
    table(&mut out, &matrix.asked(environments), environments);
    out.push_str(
        "\n## Environments {#environments}\n\n| version | Python | packages | asked on |\n| --- | --- | --- | --- |\n",
    );
    for it in environments {
        let packages: Vec<String> = it.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let cells = [&it.version, &it.python, &packages.join(", "), &it.asked_on].map(|cell| write::plain(cell));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    Draft { path: path(package), title, text: out, ..Draft::default() }
}

/// The table: a row for each line, a column for each environment, and below each row how the line comes to `cuInit`.
/// It has no empty line, at which Markdown would end it.
fn table(out: &mut String, lines: &[&Line], environments: &[&Environment]) {
    out.push_str("<div class=\"matrix\"><table>\n<thead><tr><th scope=\"col\">line</th>");
    for environment in environments {
        let _ = write!(
            out,
            "<th scope=\"col\">{} <small>Python {}</small></th>",
            html(&environment.version),
            html(&environment.python)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let anchors = write::slugs(lines.iter().map(|line| line.id.as_str()));
    for (line, anchor) in lines.iter().zip(anchors) {
        let _ =
            write!(out, "<tr class=\"line\" id=\"{anchor}\"><th scope=\"row\"><code>{}</code></th>", html(&line.id));
        for environment in environments {
            cell(out, line.state(environment), line.cell(environment));
        }
        out.push_str("</tr>\n");
        let _ = writeln!(
            out,
            "<tr class=\"how\"><td colspan=\"{}\"><details><summary>how</summary>{}</details></td></tr>",
            environments.len() + 1,
            how(line, environments)
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn cell(out: &mut String, state: State, cell: Option<&Cell>) {
    let at = cell.and_then(|cell| cell.at.as_ref().or(cell.raised.as_ref()));
    let title = at.map(|at| format!(" title=\"{}\"", html(at))).unwrap_or_default();
    let _ = write!(out, "<td class=\"state {}\"{title}>{}</td>", state.name(), html(state.word()));
}

/// The code of a line, and each way to `cuInit` with the versions that take it.
fn how(line: &Line, environments: &[&Environment]) -> String {
    let code = line.before.iter().chain([&line.ask]).flat_map(|part| part.lines());
    let code: Vec<String> = code.filter(|row| !row.trim().is_empty()).map(html).collect();
    let mut out = format!("<pre><code class=\"language-python\">{}</code></pre>", code.join("\n"));
    if !line.note.is_empty() {
        let _ = write!(out, "<p>{}</p>", html(&line.note));
    }
    let mut ways: Vec<(&Cell, Vec<&str>)> = Vec::new();
    for environment in environments {
        let Some(cell) = line.cell(environment) else { continue };
        let is_same = |other: &Cell| {
            (other.state, &other.at, &other.raised, &other.way) == (cell.state, &cell.at, &cell.raised, &cell.way)
        };
        match ways.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, versions)) => versions.push(&environment.version),
            None => ways.push((cell, vec![&environment.version])),
        }
    }
    for (cell, versions) in ways {
        let _ = write!(out, "<p><b>{}</b> in {}", html(cell.state.word()), html(&versions.join(", ")));
        for (words, text) in [("at", &cell.at), ("raises", &cell.raised)] {
            if let Some(text) = text {
                let _ = write!(out, "; {words} <code>{}</code>", html(text));
            }
        }
        out.push_str("</p>");
        if !cell.way.is_empty() {
            let way: Vec<String> =
                cell.way.iter().map(|step| format!("<li><code>{}</code></li>", html(step))).collect();
            let _ = write!(out, "<ol>{}</ol>", way.concat());
        }
    }
    out
}

/// A change of whether a line calls `cuInit`, between two versions that were asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'m> {
    /// The line.
    pub line: &'m Line,
    /// The last environment in which it was as before.
    pub before: &'m Environment,
    /// The first in which it is otherwise.
    pub after: &'m Environment,
    /// Whether it began to call `cuInit`; else it ceased to.
    pub began: bool,
}

/// The changes of a line among environments, the oldest first. What is not known between two answers is passed over.
pub fn changes_of<'m>(line: &'m Line, environments: &[&'m Environment]) -> Vec<Change<'m>> {
    let known = environments.iter().filter_map(|it| Some((*it, line.state(it).calls()?)));
    let known: Vec<(&Environment, bool)> = known.collect();
    let pairs = known.iter().zip(known.iter().skip(1)).filter(|((_, one), (_, other))| one != other);
    pairs.map(|((before, _), (after, began))| Change { line, before, after, began: *began }).collect()
}

/// The page of changes.
fn changes(matrix: &Matrix, packages: &BTreeMap<&str, Vec<&Environment>>) -> Draft {
    let title = "What changed between versions";
    let mut out = format!("# {title}\n\nFor each line that began or ceased to call `cuInit`: between which versions. ");
    out.push_str("Versions in which it was absent or could not be told are passed over.\n");
    for (package, environments) in packages {
        let lines = matrix.asked(environments);
        let anchors = write::slugs(lines.iter().map(|line| line.id.as_str()));
        write::heading(&mut out, 2, package, &write::slug(package));
        let mut count = 0;
        for (line, anchor) in lines.iter().zip(anchors) {
            for change in changes_of(line, environments) {
                let _ = writeln!(out, "- {}", changed(&change, &path(package), &anchor));
                count += 1;
            }
        }
        if count == 0 {
            let _ = writeln!(out, "No line of {} changed in this.", lines.len());
        }
    }
    let _ = writeln!(out, "\n{}", asked_on(&matrix.environments.iter().collect::<Vec<_>>()));
    Draft { path: CHANGES.into(), title: title.into(), text: out, ..Draft::default() }
}

/// A change in words.
fn changed(change: &Change<'_>, page: &str, anchor: &str) -> String {
    let verb = if change.began { "began" } else { "ceased" };
    let caller = if change.began { change.after } else { change.before };
    let at = change.line.cell(caller).and_then(|cell| cell.at.as_ref());
    let at = at.map(|at| format!(", at {}", write::code(at))).unwrap_or_default();
    let version = |it: &Environment, other: &Environment| match it.version == other.version {
        true => write::plain(&format!("{} (Python {})", it.version, it.python)),
        false => write::plain(&it.version),
    };
    let (before, after) = (version(change.before, change.after), version(change.after, change.before));
    let name = write::plain(&write::title(&change.line.id));
    format!("[{name}](/{page}#{anchor}) {verb} to call `cuInit` between {before} and {after}{at}")
}
