//! Which line calls `cuInit` in which version: a table for each package, and a page of what changed.
//!
//! Names, stacks and exceptions in a matrix are text of others.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cuda_pitfalls::releases::{self, Cell, Change, Column, LineState, Matrix, MatrixLine};
use cuda_pitfalls::render::releases::word;
use cuda_pitfalls::text::escape::html;

use super::{Draft, write};

/// The page of changes.
pub(super) const CHANGES: &str = "releases/changes.md";

/// What is said of a state below a table, the most telling first.
const LEGEND: [(LineState, &str); 9] = [
    (LineState::Yes, "the line calls cuInit, which reads the mask"),
    (LineState::WithNvml, "it does where there is an NVML, as on a machine with GPUs"),
    (LineState::No, "it does not"),
    (LineState::WithoutNvml, "it asks NVML, and calls cuInit only where there is none"),
    (LineState::Absent, "this version has no such line"),
    (LineState::Stopped, "it raised an exception before"),
    (LineState::NeedsGpu, "it comes to an answer only where there is a GPU"),
    (LineState::Disagree, "two drivers gave two answers"),
    (LineState::Unknown, "it hung, crashed or could not be asked"),
];

/// The class of a cell: its color, and what the filters count it as.
const fn class(state: LineState) -> &'static str {
    match state {
        LineState::Yes | LineState::WithNvml => "yes",
        LineState::No => "no",
        LineState::WithoutNvml => "nvml",
        LineState::Absent => "absent",
        LineState::NeedsGpu => "gpu",
        LineState::Stopped | LineState::Disagree | LineState::Unknown => "unknown",
    }
}

/// A package with the columns about it that were asked, the oldest version first.
struct Package<'m> {
    name: &'m str,
    columns: Vec<(usize, &'m Column)>,
}

impl<'m> Package<'m> {
    /// The packages of a matrix that have something to show.
    fn all(matrix: &'m Matrix) -> Vec<Package<'m>> {
        let of = |(name, columns): (&'m str, Vec<usize>)| {
            let asked = columns.into_iter().filter_map(|index| Some((index, matrix.columns.get(index)?)));
            let columns: Vec<(usize, &Column)> = asked.filter(|(_, column)| column.failed.is_none()).collect();
            (!columns.is_empty()).then_some(Package { name, columns })
        };
        matrix.packages().into_iter().filter_map(of).collect()
    }

    fn path(&self) -> String {
        format!("releases/{}.md", write::slug(self.name))
    }

    /// The lines that were asked, each with its anchor on the page.
    fn lines(&self, matrix: &'m Matrix) -> Vec<(&'m MatrixLine, String)> {
        let is_own = |cell: &Cell| self.columns.iter().any(|(index, _)| *index == cell.column);
        let lines: Vec<&MatrixLine> = matrix.lines.iter().filter(|line| line.cells.iter().any(is_own)).collect();
        let anchors = write::slugs(lines.iter().map(|line| line.id.as_str()));
        lines.into_iter().zip(anchors).collect()
    }

    /// The documents that were asked, by their names below `reports/`.
    fn rests(&self) -> BTreeSet<String> {
        self.columns.iter().map(|(_, column)| evidence(column)).collect()
    }
}

/// The document of a column, by its name below `reports/`.
fn evidence(column: &Column) -> String {
    format!("releases/{}", releases::file_name(&column.name))
}

/// The pages that have a line, each with its name and its address with the line's anchor.
pub(super) fn places(matrix: &Matrix, id: &str) -> Vec<(String, String)> {
    let of = |package: Package<'_>| {
        let (_, anchor) = package.lines(matrix).into_iter().find(|(line, _)| line.id == id)?;
        Some((package.name.to_owned(), format!("{}#{anchor}", package.path())))
    };
    Package::all(matrix).into_iter().filter_map(of).collect()
}

/// The index, the page of changes, and a page for each package; nothing if nothing was asked.
pub(super) fn pages(matrix: &Matrix) -> Vec<Draft> {
    let packages = Package::all(matrix);
    if packages.is_empty() {
        return Vec::new();
    }
    let mut index = "# Lines by version\n\nWhich line of Python calls `cuInit` in which version of its package, each \
                     asked in an environment of its own. A mask that is set after `cuInit` has no effect.\n\n"
        .to_owned();
    let _ = writeln!(index, "- [What changed between versions](/{CHANGES})");
    for package in &packages {
        let _ = writeln!(
            index,
            "- [{}](/{}): {} lines in {} versions",
            write::plain(&write::title(package.name)),
            package.path(),
            package.lines(matrix).len(),
            package.columns.len()
        );
    }
    let rests: BTreeSet<String> = packages.iter().flat_map(Package::rests).collect();
    let index = Draft {
        path: "releases/index.md".into(),
        title: "Lines by version".into(),
        text: index,
        rests: rests.clone(),
        ..Draft::default()
    };
    let first = [index, changes(matrix, &packages, rests)];
    first.into_iter().chain(packages.iter().map(|package| of_package(matrix, package))).collect()
}

/// The page of a package.
fn of_package(matrix: &Matrix, package: &Package<'_>) -> Draft {
    let title = format!("{}, by version", package.name);
    let mut out = format!("# {}\n\n", write::plain(&write::title(&title)));
    out.push_str(
        "Which line calls `cuInit` in which version. *how* opens the code of a line, and its way to `cuInit` in each \
         version.\n\n<ul class=\"legend\">\n",
    );
    let lines = package.lines(matrix);
    let states: BTreeSet<&str> =
        lines.iter().flat_map(|(line, _)| package.columns.iter().map(|(index, _)| word(state(line, *index)))).collect();
    for (state, means) in LEGEND.into_iter().filter(|(state, _)| states.contains(word(*state))) {
        let (class, word) = (class(state), html(word(state)));
        let _ = writeln!(out, "<li><span class=\"state {class}\">{word}</span> {}</li>", html(means));
    }
    out.push_str("</ul>\n\n");
    table(&mut out, &lines, &package.columns);
    out.push_str(
        "\n## Environments {#environments}\n\n| version | Python | packages | asked on |\n| --- | --- | --- | --- |\n",
    );
    for (_, column) in &package.columns {
        let packages: Vec<String> = column.packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let (python, day) = (column.python.as_deref().unwrap_or_default(), column.asked_at.get(..10));
        let cells = [&column.version, python, &packages.join(", "), day.unwrap_or_default()].map(write::plain);
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    Draft { path: package.path(), title, text: out, rests: package.rests(), ..Draft::default() }
}

fn state(line: &MatrixLine, column: usize) -> LineState {
    line.cell(column).map_or(LineState::Unknown, |cell| cell.state)
}

/// The table: a row for each line, a column for each environment, and below each row how the line comes to `cuInit`.
/// It has no empty line, at which Markdown would end it.
fn table(out: &mut String, lines: &[(&MatrixLine, String)], columns: &[(usize, &Column)]) {
    out.push_str("<div class=\"matrix\"><table>\n<thead><tr><th scope=\"col\">line</th>");
    for (_, column) in columns {
        let (version, python) = (html(&column.version), html(column.python.as_deref().unwrap_or_default()));
        let _ = write!(out, "<th scope=\"col\">{version} <small>Python {python}</small></th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (line, anchor) in lines {
        let _ =
            write!(out, "<tr class=\"line\" id=\"{anchor}\"><th scope=\"row\"><code>{}</code></th>", html(&line.id));
        for (index, _) in columns {
            let state = state(line, *index);
            let cell = line.cell(*index);
            let title = cell.and_then(|cell| at(cell).or(raised(cell)));
            let title = title.map(|title| format!(" title=\"{}\"", html(&title))).unwrap_or_default();
            let _ = write!(out, "<td class=\"state {}\"{title}>{}</td>", class(state), html(word(state)));
        }
        out.push_str("</tr>\n");
        let _ = writeln!(
            out,
            "<tr class=\"how\"><td colspan=\"{}\"><details><summary>how</summary>{}</details></td></tr>",
            columns.len() + 1,
            how(line, columns)
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Where `cuInit` was called, through which library and in which process.
fn at(cell: &Cell) -> Option<String> {
    let at = cell.at.as_ref().filter(|_| cell.state.calls())?;
    let through = cell.through.as_ref().map(|through| format!(" ({through})")).unwrap_or_default();
    let child = cell.child.as_ref().map(|child| format!(", in the child process {child}")).unwrap_or_default();
    Some(format!("{at}{through}{child}"))
}

fn raised(cell: &Cell) -> Option<String> {
    cell.raised.as_ref().map(|raised| format!("{}: {}", raised.kind, raised.message))
}

/// The code of a line, and each way to `cuInit` with the versions that take it.
fn how(line: &MatrixLine, columns: &[(usize, &Column)]) -> String {
    let code = line.before.iter().chain([&line.ask]).flat_map(|part| part.lines());
    let code: Vec<String> = code.filter(|row| !row.trim().is_empty()).map(html).collect();
    let mut out = format!("<pre><code class=\"language-python\">{}</code></pre>", code.join("\n"));
    let mut ways: Vec<(&Cell, Vec<&str>)> = Vec::new();
    for (index, column) in columns {
        let Some(cell) = line.cell(*index) else { continue };
        let told = |cell: &Cell| (cell.state, at(cell), raised(cell), cell.way.clone());
        match ways.iter_mut().find(|(other, _)| told(other) == told(cell)) {
            Some((_, versions)) => versions.push(&column.version),
            None => ways.push((cell, vec![&column.version])),
        }
    }
    for (cell, versions) in ways {
        let _ = write!(out, "<p><b>{}</b> in {}", html(word(cell.state)), html(&versions.join(", ")));
        for (words, text) in [("at", at(cell)), ("raises", raised(cell))] {
            if let Some(text) = text {
                let _ = write!(out, "; {words} <code>{}</code>", html(&text));
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

/// The page of changes.
fn changes(matrix: &Matrix, packages: &[Package<'_>], rests: BTreeSet<String>) -> Draft {
    let title = "What changed between versions";
    let mut out = format!("# {title}\n\nFor each line that began or ceased to call `cuInit`: between which versions. ");
    out.push_str("Versions in which it was absent or could not be told are passed over.\n");
    let all = matrix.changes();
    for package in packages {
        let lines = package.lines(matrix);
        write::heading(&mut out, 2, package.name, &write::slug(package.name));
        let is_own = |change: &&Change| package.columns.iter().any(|(index, _)| *index == change.after);
        let own: Vec<&Change> = all.iter().filter(is_own).collect();
        for change in &own {
            let of = matrix.lines.get(change.line).and_then(|line| lines.iter().find(|(known, _)| known.id == line.id));
            if let Some((line, anchor)) = of {
                let _ = writeln!(out, "- {}", changed(matrix, change, line, &format!("{}#{anchor}", package.path())));
            }
        }
        if own.is_empty() {
            let _ = writeln!(out, "No line of {} changed in this.", lines.len());
        }
    }
    Draft { path: CHANGES.into(), title: title.into(), text: out, rests, ..Draft::default() }
}

/// A change in words.
fn changed(matrix: &Matrix, change: &Change, line: &MatrixLine, page: &str) -> String {
    let at = [change.after, change.before].into_iter().find_map(|column| line.cell(column).and_then(at));
    let at = at.map(|at| format!(", at {}", write::code(&at))).unwrap_or_default();
    let version = |index: usize| matrix.columns.get(index).map(|column| column.version.as_str()).unwrap_or_default();
    let (before, after) = (write::plain(version(change.before)), write::plain(version(change.after)));
    let name = write::plain(&write::title(&line.id));
    let what = match (change.was.calls(), change.is.calls()) {
        (false, true) => "began to call `cuInit`".to_owned(),
        (true, false) => "ceased to call `cuInit`".to_owned(),
        _ => format!("changed from “{}” to “{}”", word(change.was), word(change.is)),
    };
    format!("[{name}](/{page}) {what} between {before} and {after}{at}")
}
