//! The section on parameters: what each value showed, with a row for each instance.

use cuda_pitfalls::scenario::Scenario;

use super::measured::{Measurement, Reference};
use super::prose::{to_markdown, value};
use super::showed::brief_outcome;
use super::since::by_versions;
use super::table::MarkdownTable;

/// Writes the section; nothing for a scenario without parameters, or without measurements.
pub(super) fn write_values(
    out: &mut String,
    scenario: &Scenario,
    own: &[&Measurement],
    reference: &Reference<'_>,
) {
    if scenario.parameters.is_empty() || own.is_empty() {
        return;
    }
    out.push_str("\n### By value\n");
    let columns = by_versions(&scenario.instances, own);
    let names = scenario
        .parameters
        .iter()
        .map(|(name, _)| to_markdown(name));
    let titles = columns.iter().map(|(_, versions)| match columns.len() {
        1 => "the pitfall".to_owned(),
        _ => format!("libcudart {}", to_markdown(versions)),
    });
    let mut table = MarkdownTable::new(
        names
            .chain(titles)
            .chain(["what the trap showed".to_owned()]),
    );
    for (index, instance) in scenario.instances.iter().enumerate() {
        let values = scenario
            .parameters
            .iter()
            .map(|(name, _)| instance.values.get(name).map(value).unwrap_or_default());
        let told = columns.iter().filter_map(|(told, _)| told.get(index));
        let told = told.map(|told| {
            if told.is_empty() {
                "not measured"
            } else {
                told
            }
            .to_owned()
        });
        let seen = reference
            .of
            .iter()
            .find(|measurement| measurement.part.name == instance.name);
        table.row(
            values
                .chain(told)
                .chain([seen.map(|seen| brief_outcome(seen)).unwrap_or_default()]),
        );
    }
    table.write(out);
}
