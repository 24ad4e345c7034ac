//! The places, statuses and lines of `scenarios/surveys/errors.toml`.

use serde::Deserialize;

use super::name_suffix;
use crate::survey::python::{PythonLine, Returned};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailingCalls {
    pub(super) name: String,
    pub(super) calls: Vec<String>,
    statuses: Vec<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureFile {
    pub(super) place: Vec<FailingCalls>,
    pub(super) line: Vec<PythonLine>,
}

impl FailureFile {
    /// Returns the built-in file. It is empty if it cannot be parsed; a test rules that out.
    pub(super) fn read() -> FailureFile {
        toml::from_str(cuda_pitfalls_scenarios::survey("errors")).unwrap_or_default()
    }
}

/// Returns each line with every call forwarded, and then with each status at each place.
pub fn built_in() -> Vec<PythonLine> {
    let file = FailureFile::read();
    let mut all = Vec::new();
    for line in file.line {
        all.push(line.clone());
        for place in &file.place {
            all.extend(place.statuses.iter().map(|code| {
                let returned = Returned::new(&place.name, &place.calls, *code);
                let id = format!("{}{}", line.id, name_suffix(&returned));
                PythonLine {
                    id,
                    returned: Some(returned),
                    ..line.clone()
                }
            }));
        }
    }
    all
}
