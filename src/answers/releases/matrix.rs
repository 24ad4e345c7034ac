//! The matrix: lines, and the environments in which they were asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{LineState, ReleaseRow};
use super::{EnvironmentDocument, version_order};
use crate::survey::python::{Raised, without_line};

/// Lines and environments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The environments: by package in the order of their first documents, then by version, oldest first.
    pub columns: Vec<Column>,
    /// The lines, in the order of the documents.
    pub lines: Vec<MatrixLine>,
}

/// An environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Its name, such as `torch 2.9.1`.
    pub name: String,
    /// The package that it is about.
    pub package: String,
    /// That package's version.
    pub version: String,
    /// The version of Python.
    pub python: Option<String>,
    /// The versions of every package in it.
    pub packages: std::collections::BTreeMap<String, String>,
    /// When it was asked: RFC 3339, UTC.
    pub asked_at: String,
    /// Whether there was a GPU.
    pub has_gpu: bool,
    /// Why nothing was asked.
    pub failed: Option<String>,
}

/// A line, with its cell in each environment in which it was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixLine {
    /// Its name.
    pub id: String,
    /// Its group.
    pub framework: String,
    /// The code before it.
    pub before: Vec<String>,
    /// The code that was asked about.
    pub ask: String,
    /// Its cells, in the order of the columns.
    pub cells: Vec<Cell>,
}

/// One line in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The index of its column.
    pub column: usize,
    /// What became of `cuInit`.
    pub state: LineState,
    /// The innermost public function of a package in the stack of `cuInit`, and where it was.
    pub at: Option<String>,
    /// The packages' functions in that stack, outermost first.
    pub way: Vec<String>,
    /// The call of a CUDA library that called `cuInit`.
    pub through: Option<String>,
    /// The command of the child process that called it.
    pub child: Option<String>,
    /// The exception that the line raised.
    pub raised: Option<Raised>,
    /// NVML indices of the GPUs on which it makes a context; null without a GPU.
    pub context_on: Option<Vec<u32>>,
}

/// A line that began or ceased to call `cuInit`, between two versions of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The index of the line.
    pub line: usize,
    /// The index of the last column before it.
    pub before: usize,
    /// The index of the first column after it.
    pub after: usize,
    /// What became of `cuInit` before.
    pub was: LineState,
    /// What becomes of it since.
    pub is: LineState,
}

impl Matrix {
    /// The matrix of these documents. Of two about one environment, the later one counts.
    pub fn of(documents: &[EnvironmentDocument]) -> Matrix {
        let mut packages: Vec<&str> = Vec::new();
        for document in documents {
            if !packages.contains(&document.environment.package.as_str()) {
                packages.push(&document.environment.package);
            }
        }
        let place = |document: &EnvironmentDocument| {
            packages.iter().position(|package| *package == document.environment.package)
        };
        let mut sorted: Vec<&EnvironmentDocument> = Vec::new();
        for document in documents {
            match sorted.iter_mut().find(|known| known.environment.name == document.environment.name) {
                Some(known) => *known = document,
                None => sorted.push(document),
            }
        }
        sorted.sort_by(|a, b| {
            let versions = || version_order(&a.environment.version, &b.environment.version);
            place(a).cmp(&place(b)).then_with(versions).then_with(|| a.environment.name.cmp(&b.environment.name))
        });
        let mut matrix =
            Matrix { columns: sorted.iter().map(|document| column(document)).collect(), lines: Vec::new() };
        for (index, row) in
            sorted.iter().enumerate().flat_map(|(at, document)| document.rows.iter().map(move |row| (at, row)))
        {
            let known = matrix.lines.iter().position(|line| line.id == row.id);
            let at = known.unwrap_or_else(|| {
                matrix.lines.push(line(row));
                matrix.lines.len() - 1
            });
            matrix.lines.iter_mut().skip(at).take(1).for_each(|line| line.cells.push(cell(index, row)));
        }
        matrix
    }

    /// The packages that columns are about, each with the indices of its columns, oldest version first.
    pub fn packages(&self) -> Vec<(&str, Vec<usize>)> {
        let mut all: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            match all.last_mut() {
                Some((package, columns)) if *package == column.package => columns.push(index),
                _ => all.push((&column.package, vec![index])),
            }
        }
        all
    }

    /// The lines with a cell in one of these columns.
    pub fn lines_in<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = &'a MatrixLine> {
        self.lines.iter().filter(|line| line.cells.iter().any(|cell| columns.contains(&cell.column)))
    }

    /// Lines that began or ceased to call `cuInit`, package by package. Versions in which that is not known, or which
    /// do not have the line, are passed over.
    pub fn changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        for (_, columns) in self.packages() {
            for (index, line) in self.lines.iter().enumerate() {
                let known = line.cells.iter().filter(|cell| columns.contains(&cell.column) && cell.state.is_known());
                let known: Vec<&Cell> = known.collect();
                for pair in known.windows(2) {
                    if let [before, after] = pair
                        && before.state != after.state
                    {
                        all.push(Change {
                            line: index,
                            before: before.column,
                            after: after.column,
                            was: before.state,
                            is: after.state,
                        });
                    }
                }
            }
        }
        all
    }

    /// The changes, those of one kind between the same two versions and at one place together.
    pub fn grouped_changes(&self) -> Vec<Vec<Change>> {
        let place = |change: &Change| {
            let caller = if change.is.calls() { change.after } else { change.before };
            self.lines.get(change.line).and_then(|line| line.cell(caller)?.place())
        };
        let mut groups: Vec<Vec<Change>> = Vec::new();
        for change in self.changes() {
            let is_same = |group: &&mut Vec<Change>| {
                let kind = |change: &Change| (change.before, change.after, change.was, change.is, place(change));
                group.first().is_some_and(|first| kind(first) == kind(&change))
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.push(change),
                None => groups.push(vec![change]),
            }
        }
        groups
    }
}

impl MatrixLine {
    /// Its cell in a column.
    pub fn cell(&self, column: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.column == column)
    }
}

impl Cell {
    /// Where `cuInit` was called, without the number of the line, which changes from version to version.
    pub fn place(&self) -> Option<String> {
        self.at.as_deref().map(without_line)
    }
}

fn column(document: &EnvironmentDocument) -> Column {
    let environment = &document.environment;
    Column {
        name: environment.name.clone(),
        package: environment.package.clone(),
        version: environment.version.clone(),
        python: environment.python.clone(),
        packages: environment.packages.clone(),
        asked_at: environment.asked_at.clone(),
        has_gpu: document.witnesses.iter().any(|witness| witness.cuda_gpus > 0),
        failed: environment.failed.clone(),
    }
}

fn line(row: &ReleaseRow) -> MatrixLine {
    let ReleaseRow { id, framework, before, ask, .. } = row;
    MatrixLine {
        id: id.clone(),
        framework: framework.clone(),
        before: before.clone(),
        ask: ask.clone(),
        cells: Vec::new(),
    }
}

fn cell(column: usize, row: &ReleaseRow) -> Cell {
    let call = row.call();
    Cell {
        column,
        state: row.state(),
        at: call.and_then(|seen| seen.at.clone()),
        way: call.map(|seen| seen.way.clone()).unwrap_or_default(),
        through: call.and_then(|seen| seen.through.clone()),
        child: call.and_then(|seen| seen.child.clone()),
        raised: row.raised().cloned(),
        context_on: row.seen.iter().find_map(|seen| seen.context_on.clone()),
    }
}
