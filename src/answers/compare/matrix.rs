//! Compares two matrices of releases: lists the lines that behave differently in an environment that both matrices
//! have, or in one environment compared with another.

use super::comparison::{
    CompareError, Comparison, ComparisonSide, EntryDifference, FactDifference, Relation,
};
use super::pair::ComparedEntry;
use crate::releases::{Matrix, MatrixCell};
use crate::survey::word;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::verdict::Provenance;

/// Compares two matrices, or two environments if each matrix has only one. A different line number of a place in the
/// same function does not count as a difference.
///
/// # Errors
/// Returns an error if versions of libcudart are given, because cells have no such version.
pub fn compare_matrices(
    matrices: [&Matrix; 2],
    versions: Option<(String, String)>,
) -> Result<Comparison, CompareError> {
    if versions.is_some() {
        return Err(CompareError::Versions);
    }
    let comparison = Comparison::new("releases", matrices.map(matrix_side), Vec::new());
    let is_named = matrices.iter().any(|matrix| matrix.columns.len() != 1);
    comparison.with(
        matrices.map(|matrix| entries(matrix, is_named)),
        None,
        |a: &MatrixCell, b| {
            let changes = FactDifference::between(&facts(a), &facts(b), "nowhere");
            if changes.is_empty() {
                Relation::Same
            } else {
                Relation::Changed(EntryDifference::new(changes, Vec::new()))
            }
        },
    )
}

fn matrix_side(matrix: &Matrix) -> ComparisonSide {
    let environments = counted(matrix.columns.len() as u64, "environment");
    ComparisonSide::new("", "", Provenance::Measured, true, environments)
}

/// Returns the cells of a matrix, by their lines and, if `is_named`, by their environments.
fn entries(matrix: &Matrix, is_named: bool) -> Vec<ComparedEntry<'_, MatrixCell>> {
    let mut entries = Vec::new();
    for line in &matrix.lines {
        for cell in &line.cells {
            let Some(environment) = matrix.columns.get(cell.column) else {
                continue;
            };
            let name = if is_named {
                format!("{}: {}", environment.name, line.id)
            } else {
                line.id.clone()
            };
            entries.push(ComparedEntry {
                name,
                libcudart: None,
                unmeasured: None,
                item: cell,
            });
        }
    }
    entries
}

fn facts(cell: &MatrixCell) -> Vec<(String, String)> {
    let mut facts = vec![("calls cuInit".to_owned(), word(cell.state))];
    facts.extend(cell.place().map(|place| ("at".to_owned(), place)));
    facts
}
