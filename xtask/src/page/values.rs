//! The section on parameters: what each value showed, with a row for each instance.

use std::collections::BTreeMap;

use cuda_pitfalls::scenario::{Instance, Scenario};

use super::measured::{Measurement, Reference, happened};
use super::prose::{prose, value};
use super::showed::briefly;
use super::since::{in_order, shown};
use super::table::Table;

/// Writes the section; nothing for a scenario without parameters, or without measurements.
pub(super) fn section(out: &mut String, scenario: &Scenario, own: &[&Measurement], reference: &Reference<'_>) {
    if scenario.parameters.is_empty() || own.is_empty() {
        return;
    }
    out.push_str("\n### By value\n");
    let versions: Vec<String> = in_order(own).into_iter().map(|(_, version)| version).collect();
    let verdicts: Vec<BTreeMap<&String, String>> =
        scenario.instances.iter().map(|instance| by_version(instance, own, &versions)).collect();
    let names = scenario.parameters.iter().map(|(name, _)| prose(name));
    let columns: Vec<Option<&String>> =
        match verdicts.iter().all(|all| all.values().all(|text| Some(text) == all.values().next())) {
            true => vec![None],
            false => versions.iter().map(Some).collect(),
        };
    let titles = columns.iter().map(|version| match version {
        Some(version) => format!("libcudart {}", prose(version)),
        None => "the pitfall".to_owned(),
    });
    let seen = "what the trap showed".to_owned();
    let mut table = Table::new(names.chain(titles).chain([seen]));
    for (instance, verdicts) in scenario.instances.iter().zip(&verdicts) {
        let values =
            scenario.parameters.iter().map(|(name, _)| instance.values.get(name).map(value).unwrap_or_default());
        let verdicts = columns.iter().map(|version| match version {
            Some(version) => verdicts.get(*version).cloned().unwrap_or_else(|| "not measured".to_owned()),
            None => verdicts.values().next().cloned().unwrap_or_else(|| "not measured".to_owned()),
        });
        let seen = reference
            .of
            .iter()
            .find(|measurement| measurement.part.name == instance.name)
            .map(|measurement| briefly(measurement));
        table.row(values.chain(verdicts).chain([seen.unwrap_or_default()]));
    }
    table.write(out);
}

/// What an instance showed with each version with which it was measured.
fn by_version<'v>(instance: &Instance, own: &[&Measurement], versions: &'v [String]) -> BTreeMap<&'v String, String> {
    let own = own.iter().filter(|measurement| measurement.part.name == instance.name);
    let shown = versions.iter().map(|version| {
        let measured = own.clone().filter(|measurement| measurement.libcudart() == version.as_str());
        (version, shown(measured.map(|measurement| happened(&measurement.part.verdict))))
    });
    shown.filter(|(_, words)| !words.is_empty()).collect()
}
