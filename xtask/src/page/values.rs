//! The section on parameters: what each value showed, with a row for each instance.

use cuda_pitfalls::scenario::Scenario;

use super::measured::{Measurement, Reference};
use super::prose::{to_markdown, value};
use super::showed::brief_outcome;
use super::since::by_versions;
use crate::table::MarkdownTable;

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
    let mut head = Vec::new();
    for (name, _) in &scenario.parameters {
        head.push(to_markdown(name));
    }
    for (_, versions) in &columns {
        head.push(match columns.len() {
            1 => "the pitfall".to_owned(),
            _ => format!("libcudart {}", to_markdown(versions)),
        });
    }
    head.push("result of the trap".to_owned());
    let mut table = MarkdownTable::new(head);
    for (index, instance) in scenario.instances.iter().enumerate() {
        let mut row = Vec::new();
        for (name, _) in &scenario.parameters {
            row.push(match instance.values.get(name) {
                Some(scalar) => value(scalar),
                None => String::new(),
            });
        }
        for (told, _) in &columns {
            match told.get(index) {
                Some(told) if told.is_empty() => row.push("not measured".to_owned()),
                told => row.extend(told.cloned()),
            }
        }
        let mut seen = reference.of.iter();
        if let Some(seen) = seen.find(|measurement| measurement.part.name == instance.name) {
            row.push(brief_outcome(seen));
        }
        table.row(row);
    }
    out.push_str(&table.to_text());
}
