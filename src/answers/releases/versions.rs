//! Releases in which a line calls `cuInit`, from the committed matrix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matrix::Matrix;
use super::row::LineState;
use crate::survey::python::PythonLine;

/// Results of a line without a GPU in the releases of one package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineReleases {
    /// The name of the line: `torch.cuda.is_available`.
    pub line: String,
    /// The package: `torch`.
    pub package: String,
    /// Use of `cuInit`, oldest release first. Adjacent releases with the same result are combined.
    pub spans: Vec<ReleaseSpan>,
    /// The scenarios whose pitfall needs this line to call `cuInit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<String>,
}

/// Adjacent releases where a line behaves the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseSpan {
    /// Use of `cuInit`.
    pub state: LineState,
    /// Tested releases, oldest first.
    pub releases: Vec<String>,
}

/// Returns every line of a matrix, for each package with an environment that it ran in. `lines` contains the scenarios
/// that it decides.
pub fn line_releases(matrix: &Matrix, lines: &[PythonLine]) -> Vec<LineReleases> {
    let mut all = Vec::new();
    for line in &matrix.lines {
        let scenarios = lines
            .iter()
            .find(|known| known.id == line.id)
            .map(|known| known.scenarios.clone());
        for (package, columns) in matrix.packages() {
            let mut spans: Vec<ReleaseSpan> = Vec::new();
            for index in columns {
                let column = matrix.columns.get(index).filter(|column| !column.has_gpu);
                let (Some(column), Some(cell)) = (column, line.find_cell(index)) else {
                    continue;
                };
                match spans.last_mut() {
                    Some(span) if span.state == cell.state => {
                        span.releases.push(column.version.clone())
                    }
                    _ => spans.push(ReleaseSpan {
                        state: cell.state,
                        releases: vec![column.version.clone()],
                    }),
                }
            }
            if !spans.is_empty() {
                all.push(LineReleases {
                    line: line.id.clone(),
                    package: package.to_owned(),
                    spans,
                    scenarios: scenarios.clone().unwrap_or_default(),
                });
            }
        }
    }
    all
}
