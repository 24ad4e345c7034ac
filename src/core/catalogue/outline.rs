//! The outline of a scenario: enough to list it and to select it without parsing its file.
//!
//! The first line of `scenarios/SUBJECT/NAME.ndjson` keeps the outline of a built-in file, so that `list` and `run
//! NAME` need not load all files. It is a cache: an outline counts only for the file with its SHA-256, and a file
//! without an outline is parsed. `cargo xtask bless` regenerates it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Embedded, SelectError, embedded_files, load_embedded};
use crate::scenario::{Hazard, Needs, Scalar, Scenario, sha256_hex};

/// Number of digits of a hash that the index keeps.
const DIGITS: usize = 16;

/// A scenario as `list --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// `<subject>/<what-happens>`.
    pub name: String,
    /// The question.
    pub question: String,
    /// Words to select by.
    pub tags: Vec<String>,
    /// The symptoms that users see, by id.
    pub symptoms: Vec<String>,
    /// Names of cases, in the order of the file.
    pub cases: Vec<String>,
    /// The requirements for the machine.
    pub needs: Needs,
    /// Hazards that must be allowed before the scenario runs.
    pub hazards: Vec<Hazard>,
    /// Parameters and their values.
    pub parameters: BTreeMap<String, Vec<Scalar>>,
    /// Names of instances.
    pub instances: Vec<String>,
}

/// An outline and the first digits of the SHA-256 of its file, which distinguish versions of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IndexEntry {
    sha256: String,
    #[serde(flatten)]
    outline: Outline,
}

impl Outline {
    /// Returns the outline of a loaded scenario.
    pub fn new(scenario: &Scenario) -> Outline {
        let cases = scenario
            .instances
            .first()
            .map(|instance| instance.cases.as_slice())
            .unwrap_or_default();
        Outline {
            name: scenario.name.clone(),
            question: scenario.question.clone(),
            tags: scenario.tags.clone(),
            symptoms: scenario.symptoms.clone(),
            cases: cases.iter().map(|case| case.name.clone()).collect(),
            needs: scenario.needs.clone(),
            hazards: scenario.hazards.clone(),
            parameters: scenario.parameters.iter().cloned().collect(),
            instances: scenario
                .instances
                .iter()
                .map(|instance| instance.name.clone())
                .collect(),
        }
    }

    /// Returns the scenario with this full name. For the full name of an instance, returns its scenario with only that
    /// instance.
    pub(super) fn named(all: &[Outline], name: &str) -> Option<Outline> {
        all.iter().find_map(|scenario| {
            if scenario.name == name {
                return Some(scenario.clone());
            }
            let instance = scenario
                .instances
                .iter()
                .find(|instance| *instance == name)?;
            Some(Outline {
                instances: vec![instance.clone()],
                ..scenario.clone()
            })
        })
    }
}

/// Returns the outlines of all built-in scenarios, by name. A file that changed since the index was written is parsed.
pub(super) fn all() -> Result<Vec<Outline>, SelectError> {
    let mut known: BTreeMap<String, Outline> = BTreeMap::new();
    for facts in cuda_pitfalls_scenarios::question_facts() {
        let line = facts.lines().next().unwrap_or_default();
        if let Ok(entry) = serde_json::from_str::<IndexEntry>(line) {
            known.insert(entry.sha256 + &entry.outline.name, entry.outline);
        }
    }
    let files: Vec<Embedded> = embedded_files().collect();
    let mut outlines: Vec<Option<Outline>> = files
        .iter()
        .map(|file| known.remove(&(sha256_hex(file.source)[..DIGITS].to_owned() + &file.name)))
        .collect();
    let unknown = files
        .into_iter()
        .zip(&outlines)
        .filter(|(_, outline)| outline.is_none());
    let unknown: Vec<Embedded> = unknown.map(|(file, _)| file).collect();
    let read = load_embedded(&unknown)?;
    for (slot, scenario) in outlines
        .iter_mut()
        .filter(|outline| outline.is_none())
        .zip(&read)
    {
        *slot = Some(Outline::new(scenario));
    }
    Ok(outlines.into_iter().flatten().collect())
}

/// Returns the first line of the facts of a scenario: its outline, and the digits of the SHA-256 of its file.
pub fn outline_line(scenario: &Scenario) -> String {
    let entry = IndexEntry {
        sha256: scenario.sha256[..DIGITS].to_owned(),
        outline: Outline::new(scenario),
    };
    serde_json::to_string(&entry).expect("strings and numbers are valid JSON")
}
