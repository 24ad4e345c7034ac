//! The matrix: lines, and the environments in which they were asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{LineState, ReleaseRow};
use super::{EnvironmentDocument, version_order};
use crate::survey::python::{Raised, without_line};
use cuda_pitfalls_core::text::counts::{grouped, tally};

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
        let packages = tally(documents.iter().map(|document| document.environment.package.as_str()));
        let place = |document: &EnvironmentDocument| {
            packages.iter().position(|(package, _)| *package == document.environment.package)
        };
        // The latest of several with one name.
        let by_name = grouped(documents.iter().map(|document| (&document.environment.name, document)));
        let mut sorted: Vec<&EnvironmentDocument> = by_name.iter().filter_map(|(_, all)| all.last().copied()).collect();
        sorted.sort_by(|a, b| {
            let versions = || version_order(&a.environment.version, &b.environment.version);
            place(a).cmp(&place(b)).then_with(versions).then_with(|| a.environment.name.cmp(&b.environment.name))
        });
        let rows =
            sorted.iter().enumerate().flat_map(|(index, document)| document.rows.iter().map(move |row| (index, row)));
        let lines = grouped(rows.map(|(index, row)| (row.id.as_str(), (index, row))));
        Matrix {
            columns: sorted.iter().map(|document| column(document)).collect(),
            lines: lines.iter().filter_map(|(_, rows)| line(rows)).collect(),
        }
    }

    /// The packages that columns are about, each with the indices of its columns, oldest version first.
    pub fn packages(&self) -> Vec<(&str, Vec<usize>)> {
        grouped(self.columns.iter().enumerate().map(|(index, column)| (column.package.as_str(), index)))
    }

    /// The lines with a cell in one of these columns.
    pub fn lines_in<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = &'a MatrixLine> {
        self.lines.iter().filter(|line| line.cells.iter().any(|cell| columns.contains(&cell.column)))
    }

    /// Lines that began or ceased to call `cuInit`, by package; versions are passed over of which that is not known.
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
        let alike = |change: &Change| (change.before, change.after, change.was, change.is, place(change));
        let groups = grouped(self.changes().into_iter().map(|change| (alike(&change), change)));
        groups.into_iter().map(|(_, group)| group).collect()
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

/// A line by its rows, each with the index of its column.
fn line(rows: &[(usize, &ReleaseRow)]) -> Option<MatrixLine> {
    let (_, ReleaseRow { id, framework, before, ask, .. }) = *rows.first()?;
    let (id, framework, before, ask) = (id.clone(), framework.clone(), before.clone(), ask.clone());
    Some(MatrixLine { id, framework, before, ask, cells: rows.iter().map(|(index, row)| cell(*index, row)).collect() })
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
