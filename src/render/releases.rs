//! The matrix of lines and releases.

use crate::Format;
use crate::block::{Block, Text};
use crate::survey::section::{Section, filtered_sections};
use crate::writer::terminal::{Screen, write};
use crate::writer::{html, markdown};
use cuda_pitfalls_answers::releases::{
    DriverWitness, LineReleases, LineState, Matrix, MatrixChange, ReleaseSpan,
};
use cuda_pitfalls_core::scenario::framework::frameworks;

/// Returns the texts of a state: a word, one character for a table with a column for each version, and the behavior of
/// a line.
fn words(state: LineState) -> (&'static str, &'static str, &'static str) {
    match state {
        LineState::Yes => ("yes", "Y", "calls cuInit"),
        LineState::No => ("no", "-", "does not call cuInit"),
        LineState::WithoutNvml => ("without NVML", "y", "calls cuInit only if NVML is missing"),
        LineState::WithNvml => ("with NVML", "n", "calls cuInit only if NVML is present"),
        LineState::NoWithNvml => (
            "no with NVML",
            ".",
            "does not call cuInit if NVML is present",
        ),
        LineState::Initialised => (
            "already initialized",
            "=",
            "runs after earlier lines called cuInit",
        ),
        LineState::Undecided => ("not decided without a GPU", "C", "falls back to the CPU"),
        LineState::Absent => ("absent", "x", "does not exist"),
        LineState::Stopped => ("fails first", "!", "fails first"),
        LineState::NeedsGpu => ("needs a GPU", "G", "needs a GPU"),
        LineState::Disagree => ("two answers", "?", "has no known result"),
        LineState::Unknown => ("unknown", "?", "has no known result"),
    }
}

/// Returns the text of a cell in a table.
pub fn word(state: LineState) -> &'static str {
    words(state).0
}

/// Returns the behavior of a line, as a clause: `calls cuInit`.
pub(crate) fn clause(state: LineState) -> &'static str {
    words(state).2
}

/// Legend of the signs in a text.
const SIGNS: &str = "Y calls cuInit, which reads the mask   - does not   y only without NVML
n only with NVML   . not with NVML; = without NVML
= earlier lines had called cuInit   ! fails before
x absent in this version   C falls back to the CPU
G earlier lines need a GPU   ? unknown";

/// Returns the name of a witness as text.
pub fn witness_words(witness: DriverWitness) -> &'static str {
    match witness {
        DriverWitness::Libcuda => "libcuda",
        DriverWitness::FakeWithNvml => "the simulated driver with NVML",
        DriverWitness::Fake => "the simulated driver",
        DriverWitness::LibcudaWithNvml => "libcuda with NVML",
    }
}

/// Returns the matrix for a terminal of this width: a table for each package, a row for each line, a character for each
/// version, and then the changes.
pub fn text(matrix: &Matrix, screen: impl Into<Screen>) -> String {
    let screen: Screen = screen.into();
    let mut blocks = Vec::new();
    for (package, columns) in matrix.packages() {
        let mut widest = 1;
        for column in columns
            .iter()
            .filter_map(|index| matrix.columns.get(*index))
        {
            widest = widest.max(column.version.len());
        }
        // The width of a version and a column gap, after the names of lines.
        let fitting = screen.width.saturating_sub(32) / (widest + 2);
        for part in columns.chunks(fitting.max(1)) {
            blocks.extend(package_table(matrix, package, part, |state| words(state).1).blocks());
        }
    }
    if !matrix.lines.is_empty() {
        blocks.push(Block::Gap);
        blocks.extend(SIGNS.lines().map(Block::paragraph));
        blocks.extend(changes(matrix));
    }
    write(&blocks, screen)
}

/// Returns the changes; lines with the same changes are together.
fn changes(matrix: &Matrix) -> Vec<Block> {
    let mut told = Vec::new();
    for group in matrix.grouped_changes() {
        let mut names = Vec::new();
        for change in &group {
            let line = matrix.lines.get(change.line);
            names.extend(line.map(|line| Text::code(&line.id)));
        }
        told.push(Text::join(names, "; ").then(format!(": {}", changed(matrix, &group))));
    }
    if told.is_empty() {
        return Vec::new();
    }
    vec![Block::heading(2, "What changed"), Block::List(told)]
}

/// Returns a sentence about lines with the same changes: the new behavior, the version since which they have it, and
/// the place.
fn changed(matrix: &Matrix, group: &[MatrixChange]) -> String {
    let Some(change) = group.first() else {
        return String::new();
    };
    let [before, after] = [change.before, change.after].map(|index| {
        let column = matrix.columns.get(index);
        column.map_or("", |column| column.name.as_str())
    });
    let calling = if change.is.calls() {
        change.after
    } else {
        change.before
    };
    let line = matrix.lines.get(change.line);
    let cell = line.and_then(|line| line.find_cell(calling));
    let at = match cell.and_then(|cell| cell.at.as_ref()) {
        Some(at) => format!(", at {at}"),
        None => String::new(),
    };
    let call = if group.len() == 1 { "calls" } else { "call" };
    // Releases between the two may have run only other lines.
    let (since, between) = match change.after - change.before {
        0 | 1 => ("since", ""),
        _ => ("in", "; unknown in the releases between"),
    };
    let told = match (change.was.calls(), change.is.calls()) {
        (false, true) => format!(
            "{call} cuInit {since} {after}{}{at}; {before} did not",
            only(change.is)
        ),
        (true, false) => format!(
            "no longer {call} cuInit {since} {after}; {before} did{}{at}",
            only(change.was)
        ),
        _ => format!(
            "{} in {before}, {} {since} {after}{at}",
            word(change.was),
            word(change.is)
        ),
    };
    format!("{told}{between}")
}

/// Returns the condition for a line to call `cuInit`; empty if it is unconditional.
fn only(state: LineState) -> &'static str {
    match state {
        LineState::WithoutNvml => " without NVML",
        LineState::WithNvml => " with NVML",
        _ => "",
    }
}

/// Returns the behavior of a line in the releases of a package, as a clause: `x calls cuInit in torch 2.0.1 to 2.15.0`.
pub fn line(facts: &LineReleases) -> String {
    let mut spans = Vec::new();
    for ReleaseSpan { state, releases } in &facts.spans {
        let releases = match releases.as_slice() {
            [] => String::new(),
            [only] => only.clone(),
            [first, .., last] => format!("{first} to {last}"),
        };
        let does = words(*state).2;
        spans.push(format!("{does} in {} {releases}", facts.package));
    }
    format!("{} {}", facts.line, spans.join(", "))
}

/// Returns the matrix in a format; `None` if it does not have it. Text is as wide as a page.
pub fn as_format(matrix: &Matrix, format: Format) -> Option<String> {
    match format {
        Format::Text => Some(text(matrix, PAGE_WIDTH)),
        Format::Markdown => Some(matrix_page(matrix)),
        Format::Html => Some(html::page(TITLE, &html_blocks(matrix))),
        _ => None,
    }
}

/// The width of a text that is not for a terminal.
const PAGE_WIDTH: usize = 100;
const TITLE: &str = "First version in which a line calls cuInit";

const OPENING: &str = "\
Each line ran in a fresh interpreter, in an environment that `uv` created with the release and its dependencies. The table shows whether the line calls `cuInit`, which reads `CUDA_VISIBLE_DEVICES` once; afterwards a forked child cannot use CUDA. Without a GPU, `cuInit` fails, so the table shows that it was called but not which GPU would get a context. On such a machine each line ran twice: with a distribution's libcuda and no NVML, and with a simulated driver and an NVML that reports two GPUs.

- **yes**, **no**: the line calls or does not call `cuInit`.
- **without NVML**, **with NVML**: only without NVML, or only with it. A machine with GPUs has NVML.
- **no with NVML**: if NVML is present, the line does not call `cuInit`; without NVML, earlier lines had already called it.
- **already initialized**: earlier lines had called `cuInit`. Without a GPU that call failed, so the line may have fallen back to the CPU.
- **not decided without a GPU**: it fell back to the CPU.
- **absent**: this release does not have what the line uses.
- **fails first**: it raised an exception or exited with a nonzero code before any `cuInit`.
- **needs a GPU**: earlier lines called `cuInit` and failed.
- **two answers**: two drivers gave different results.
- **unknown**: the line hung, crashed or did not finish, or the document does not record whether earlier lines had called `cuInit`.

A column stands for a complete environment rather than one release, because an installed package can change the effect of importing another.";

fn environment_section(matrix: &Matrix) -> Section {
    let mut told = Vec::new();
    for framework in frameworks() {
        told.extend(framework.told.as_deref());
    }
    told.push("numpy");
    let mut rows = Vec::new();
    for column in &matrix.columns {
        if column.failed.is_some() {
            continue;
        }
        let mut packages = Vec::new();
        for name in &told {
            if let Some(version) = column.packages.get(*name)
                && *name != column.package
            {
                packages.push(format!("{name} {version}"));
            }
        }
        rows.push(vec![
            column.name.clone(),
            column.python.clone().unwrap_or_default(),
            packages.join(", "),
            column.asked_at.get(..10).unwrap_or_default().to_string(),
            if column.has_gpu { "yes" } else { "none" }.to_string(),
        ]);
    }
    Section::new(
        "Environments",
        &["environment", "Python", "with", "measured on", "GPUs"],
        rows,
        &[],
    )
}

/// Returns the matrix as a Markdown page: a table for each package, changes first.
pub fn matrix_page(matrix: &Matrix) -> String {
    markdown::write(&page(matrix))
}

/// Returns the matrix for a browser: a filter and the tables first, that of torch before the others.
fn html_blocks(matrix: &Matrix) -> Vec<Block> {
    let mut packages = matrix.packages();
    packages.sort_by_key(|(package, _)| *package != "torch");
    let mut tables = Vec::new();
    for (package, columns) in &packages {
        tables.push(package_table(matrix, package, columns, word));
    }
    let about = ("Meaning of the cells", OPENING);
    let mut blocks = vec![Block::heading(1, TITLE)];
    blocks.extend(filtered_sections("package", "Package", about, tables));
    blocks.extend(changes(matrix));
    blocks.extend(environment_section(matrix).blocks());
    blocks
}

fn page(matrix: &Matrix) -> Vec<Block> {
    let mut page = vec![Block::heading(1, TITLE), Block::Prose(OPENING)];
    page.extend(changes(matrix));
    for (package, columns) in matrix.packages() {
        page.extend(package_table(matrix, package, &columns, word).blocks());
    }
    page.extend(environment_section(matrix).blocks());
    page
}

/// Returns the table of one package: lines, and the versions in these columns. Failures precede it.
fn package_table(
    matrix: &Matrix,
    package: &str,
    columns: &[usize],
    shown: impl Fn(LineState) -> &'static str,
) -> Section {
    let (mut asked, mut header, mut failed) = (Vec::new(), vec!["line"], Vec::new());
    for index in columns {
        let Some(column) = matrix.columns.get(*index) else {
            continue;
        };
        if let Some(why) = &column.failed {
            failed.push(format!("{}: not measured: {why}", column.name));
        } else {
            asked.push(*index);
            header.push(&column.version);
        }
    }
    let mut rows = Vec::new();
    for line in matrix.lines_in(columns) {
        let mut row = vec![line.id.clone()];
        for index in &asked {
            let cell = line.find_cell(*index);
            row.push(cell.map_or("", |cell| shown(cell.state)).to_string());
        }
        rows.push(row);
    }
    if asked.is_empty() {
        rows.clear();
    }
    Section {
        text: failed,
        ..Section::new(package, &header, rows, &[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::releases::{Column, MatrixCell, MatrixLine};

    #[test]
    fn a_page_has_torch_first_a_filter_and_colored_cells() {
        let (mut columns, mut cells) = (Vec::new(), Vec::new());
        let asked = [("a<b>", LineState::No), ("torch", LineState::Yes)];
        for (column, (package, state)) in asked.into_iter().enumerate() {
            columns.push(Column {
                package: package.to_owned(),
                version: "1".to_owned(),
                ..Column::default()
            });
            cells.push(MatrixCell {
                column,
                state,
                at: None,
            });
        }
        let line = MatrixLine {
            id: "import x".to_owned(),
            cells,
        };
        let matrix = Matrix {
            columns,
            lines: vec![line],
        };
        let page = as_format(&matrix, Format::Html).unwrap();
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
        assert!(at("id=\"package-p1\"") < at(">torch</h2>"));
        assert!(at(">torch</h2>") < at(">a&lt;b&gt;</h2>"));
        assert!(at("<span class=\"shows\">yes</span>") < at("<span class=\"good\">no</span>"));
        let markdown = as_format(&matrix, Format::Markdown).unwrap();
        assert!(
            markdown.find("## a") < markdown.find("## torch"),
            "{markdown}"
        );
    }
}
