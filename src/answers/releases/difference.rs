//! What differs between two matrices: an older one and a newer one.

use serde::Serialize;

use super::matrix::{Cell, Matrix};
use super::row::LineState;

/// What differs between two matrices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MatrixDifference {
    /// Environments that only the first has.
    pub only_in_a: Vec<String>,
    /// Environments that only the second has.
    pub only_in_b: Vec<String>,
    /// How many cells both have.
    pub compared: usize,
    /// The cells that differ.
    pub cells: Vec<CellDifference>,
}

/// A line that differs in one environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellDifference {
    /// The line.
    pub line: String,
    /// The environment.
    pub environment: String,
    /// What became of `cuInit` in the first; null if the line was not asked.
    pub a: Option<LineState>,
    /// The same in the second.
    pub b: Option<LineState>,
    /// Where `cuInit` was called in the first.
    pub at_a: Option<String>,
    /// Where it was called in the second.
    pub at_b: Option<String>,
}

/// Compares two matrices, environment by environment. A place in another line of the same function is no difference.
pub fn differences(a: &Matrix, b: &Matrix) -> MatrixDifference {
    let missing = |from: &Matrix, other: &Matrix| {
        let has = |name: &str| other.columns.iter().any(|column| column.name == name);
        from.columns.iter().map(|column| column.name.clone()).filter(|name| !has(name)).collect()
    };
    let mut found =
        MatrixDifference { only_in_a: missing(a, b), only_in_b: missing(b, a), ..MatrixDifference::default() };
    for (index, column) in a.columns.iter().enumerate() {
        let Some(other) = b.columns.iter().position(|other| other.name == column.name) else { continue };
        let new = b.lines.iter().filter(|line| a.lines.iter().all(|known| known.id != line.id));
        for id in a.lines.iter().chain(new).map(|line| line.id.as_str()) {
            let [one, two] = [(a, index), (b, other)]
                .map(|(matrix, column)| matrix.lines.iter().find(|line| line.id == id)?.cell(column));
            found.compared += usize::from(one.is_some() && two.is_some());
            let cell = CellDifference {
                line: id.to_string(),
                environment: column.name.clone(),
                a: one.map(|cell| cell.state),
                b: two.map(|cell| cell.state),
                at_a: one.and_then(Cell::place),
                at_b: two.and_then(Cell::place),
            };
            if (cell.a, &cell.at_a) != (cell.b, &cell.at_b) {
                found.cells.push(cell);
            }
        }
    }
    found
}
