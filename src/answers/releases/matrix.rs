//! The matrix of lines and the environments that they ran in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{LineState, ReleaseRow};
use super::{EnvironmentDocument, ReleaseEnvironment, version_order};
use crate::survey::python::without_line;
use cuda_pitfalls_core::text::counts::{group_by_key, tally_items};

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
    /// The name of the environment, such as `torch 2.9.1`.
    pub name: String,
    /// Package that the environment is about.
    pub package: String,
    /// Version of that package.
    pub version: String,
    /// Python version.
    pub python: Option<String>,
    /// The versions of every package in it.
    pub packages: std::collections::BTreeMap<String, String>,
    /// Time of the measurement: RFC 3339, UTC.
    pub asked_at: String,
    /// `true` if there was a GPU.
    pub has_gpu: bool,
    /// Reason why no line was run.
    pub failed: Option<String>,
}

/// A line, with its cell in each environment that it ran in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixLine {
    /// The name of the line.
    pub id: String,
    /// The cells of the line, in the order of the columns.
    pub cells: Vec<MatrixCell>,
}

/// Summary of a line in an environment. The environment's document contains all observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Cell")]
pub struct MatrixCell {
    /// The index of its column.
    pub column: usize,
    /// The line's use of `cuInit`.
    pub state: LineState,
    /// The innermost public function of a package in the stack of `cuInit`, and where it was.
    pub at: Option<String>,
}

/// A line that began or ceased to call `cuInit`, between two versions of a package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct MatrixChange {
    /// The index of the line.
    pub line: usize,
    /// The index of the last column before it.
    pub before: usize,
    /// The index of the first column after it.
    pub after: usize,
    /// Use of `cuInit` before.
    pub was: LineState,
    /// Use of `cuInit` since then.
    pub is: LineState,
}

impl Matrix {
    /// Returns the matrix of these documents. If two are about the same environment, the later one counts.
    pub fn new(documents: &[EnvironmentDocument]) -> Matrix {
        let packages = tally_items(
            documents
                .iter()
                .map(|document| document.environment.package.as_str()),
        );
        // If several documents have the same name, use the latest.
        let by_name = group_by_key(
            documents
                .iter()
                .map(|document| (&document.environment.name, document)),
        );
        let mut sorted: Vec<&EnvironmentDocument> = Vec::new();
        for (_, all) in &by_name {
            sorted.extend(all.last());
        }
        sorted.sort_by(|a, b| {
            let [a, b] = [&a.environment, &b.environment];
            version_order(&a.version, &b.version).then_with(|| a.name.cmp(&b.name))
        });
        sorted.sort_by_key(|document| {
            packages
                .iter()
                .position(|(it, _)| *it == document.environment.package)
        });
        let (mut columns, mut cells) = (Vec::new(), Vec::new());
        for (index, document) in sorted.into_iter().enumerate() {
            columns.push(matrix_column(document));
            for row in &document.rows {
                cells.push((row.id.clone(), matrix_cell(index, row, &document.rows)));
            }
        }
        let lines = group_by_key(cells).into_iter();
        let lines = lines.map(|(id, cells)| MatrixLine { id, cells }).collect();
        Matrix { columns, lines }
    }

    /// Returns the packages of the columns, each with the indices of its columns, oldest version first.
    pub fn packages(&self) -> Vec<(&str, Vec<usize>)> {
        group_by_key(
            self.columns
                .iter()
                .enumerate()
                .map(|(index, column)| (column.package.as_str(), index)),
        )
    }

    /// Returns the lines with a cell in one of these columns.
    pub fn lines_in<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = &'a MatrixLine> {
        self.lines
            .iter()
            .filter(|line| line.cells.iter().any(|cell| columns.contains(&cell.column)))
    }

    /// Returns the lines that began or ceased to call `cuInit`, by package. Versions without a known answer are
    /// skipped.
    pub fn changes(&self) -> Vec<MatrixChange> {
        let mut all = Vec::new();
        for (_, columns) in self.packages() {
            for (index, line) in self.lines.iter().enumerate() {
                let mut last: Option<&MatrixCell> = None;
                for cell in &line.cells {
                    if !columns.contains(&cell.column) || !cell.state.is_known() {
                        continue;
                    }
                    if let Some(before) = last
                        && !before.state.agrees_with(cell.state)
                    {
                        all.push(MatrixChange {
                            line: index,
                            before: before.column,
                            after: cell.column,
                            was: before.state,
                            is: cell.state,
                        });
                    }
                    last = Some(cell);
                }
            }
        }
        all
    }

    /// Returns the changes in groups: the same change, between the same two versions and at the same place.
    pub fn grouped_changes(&self) -> Vec<Vec<MatrixChange>> {
        let groups = group_by_key(self.changes().into_iter().map(|change| {
            let caller = if change.is.calls() {
                change.after
            } else {
                change.before
            };
            let place = self
                .lines
                .get(change.line)
                .and_then(|line| line.find_cell(caller)?.place());
            (
                (change.before, change.after, change.was, change.is, place),
                change,
            )
        }));
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

impl MatrixLine {
    /// Returns its cell in a column.
    pub fn find_cell(&self, column: usize) -> Option<&MatrixCell> {
        self.cells.iter().find(|cell| cell.column == column)
    }
}

impl MatrixCell {
    /// Returns the place of the `cuInit` call, without the line number, which changes from version to version.
    pub fn place(&self) -> Option<String> {
        self.at.as_deref().map(without_line)
    }
}

fn matrix_column(document: &EnvironmentDocument) -> Column {
    let ReleaseEnvironment {
        name,
        package,
        version,
        python,
        packages,
        asked_at,
        failed,
        ..
    } = document.environment.clone();
    let mut witnesses = document.witnesses.iter();
    let has_gpu = witnesses.any(|witness| witness.cuda_gpus > 0);
    Column {
        name,
        package,
        version,
        python,
        packages,
        asked_at,
        has_gpu,
        failed,
    }
}

/// Returns the cell of a row in a column. `document` contains the rows of the column's document.
fn matrix_cell(column: usize, row: &ReleaseRow, document: &[ReleaseRow]) -> MatrixCell {
    let at = row.call().and_then(|seen| seen.at.clone());
    MatrixCell {
        column,
        state: row.state(document),
        at,
    }
}
