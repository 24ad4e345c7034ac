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
        let of = |matrix: &'_ Matrix, id: &str, column| {
            matrix.lines.iter().find(|line| line.id == id).and_then(|line| line.cell(column)).cloned()
        };
        let new = b.lines.iter().filter(|line| a.lines.iter().all(|known| known.id != line.id));
        for id in a.lines.iter().chain(new).map(|line| line.id.as_str()) {
            let (one, two): (Option<Cell>, Option<Cell>) = (of(a, id, index), of(b, id, other));
            found.compared += usize::from(one.is_some() && two.is_some());
            let (state, place) = (
                |cell: &Option<Cell>| cell.as_ref().map(|cell| cell.state),
                |cell: &Option<Cell>| cell.as_ref().and_then(Cell::place),
            );
            if state(&one) != state(&two) || place(&one) != place(&two) {
                found.cells.push(CellDifference {
                    line: id.to_string(),
                    environment: column.name.clone(),
                    a: state(&one),
                    b: state(&two),
                    at_a: place(&one),
                    at_b: place(&two),
                });
            }
        }
    }
    found
}
