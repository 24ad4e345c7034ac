//! Reading conditions on the machine: what a scenario needs, and where an expectation applies.

use super::diagnostic::suggest_name;
use super::parameters::{Parameters, parse_scalar};
use super::reader::{Reader, get};
use super::tree::{Data, Node, SourceSpan, TreeEntry};
use crate::scenario::python::PackageRequirement;
use crate::scenario::{Expectation, Expected, Hazard, Needs, Range, When};

pub(super) fn needs(reader: &mut Reader<'_>, node: &Node) -> Needs {
    let keys = [
        "gpus",
        "driver",
        "libcudart",
        "compute_capability",
        "root",
        "peer_access",
    ];
    let mut needs = Needs {
        gpus: 1,
        ..Needs::default()
    };
    for TreeEntry { key, value } in reader.table_of(node, &keys).unwrap_or_default() {
        match key.text.as_str() {
            "gpus" => {
                let gpus = reader
                    .read_integer(value, 0..=64)
                    .and_then(|gpus| u32::try_from(gpus).ok());
                needs.gpus = gpus.unwrap_or(64);
            }
            "driver" => needs.driver = parse_range(reader, value),
            "libcudart" => needs.libcudart = parse_range(reader, value),
            "compute_capability" => needs.compute_capability = parse_range(reader, value),
            "root" => needs.root = reader.read_boolean(value).unwrap_or(false),
            "peer_access" => needs.peer_access = reader.read_boolean(value).unwrap_or(false),
            _ => {}
        }
    }
    needs
}

pub(super) fn parse_hazards(reader: &mut Reader<'_>, node: &Node) -> Vec<Hazard> {
    let mut hazards = Vec::new();
    for node in reader.list(node).unwrap_or_default() {
        let word = reader.word(node, "hazard", &Hazard::LISTED.map(Hazard::name));
        hazards.extend(
            Hazard::LISTED
                .into_iter()
                .find(|hazard| Some(hazard.name()) == word),
        );
    }
    hazards
}

pub(super) fn when(reader: &mut Reader<'_>, node: &Node, parameters: &Parameters) -> When {
    let keys = [
        "driver",
        "libcudart",
        "compute_capability",
        "gpus",
        "parameters",
        "packages",
    ];
    let mut when = When::default();
    for TreeEntry { key, value } in reader.table_of(node, &keys).unwrap_or_default() {
        match key.text.as_str() {
            "driver" => when.driver = parse_range(reader, value),
            "libcudart" => when.libcudart = parse_range(reader, value),
            "compute_capability" => when.compute_capability = parse_range(reader, value),
            "gpus" => when.gpus = parse_range(reader, value),
            "packages" => when.packages = parse_requirements(reader, value),
            "parameters" => {
                for TreeEntry { key, value } in reader.table(value).unwrap_or_default() {
                    let Some(values) = parameters.values(&key.text) else {
                        let help = suggest_name(&key.text, parameters.names());
                        reader.error(
                            &key.place,
                            format!("unknown parameter `{}`", key.text),
                            help,
                        );
                        continue;
                    };
                    let known: Vec<_> = values.collect();
                    for node in reader.one_or_more(value) {
                        let Some(value) = parse_scalar(reader, node) else {
                            continue;
                        };
                        if !known.contains(&&value) {
                            let message = format!("`{}` never has the value `{value}`", key.text);
                            let names: Vec<String> =
                                known.iter().map(|value| value.to_string()).collect();
                            let help =
                                suggest_name(&value.to_string(), names.iter().map(String::as_str));
                            reader.error(&node.place, message, help);
                        }
                        when.parameters
                            .entry(key.text.clone())
                            .or_default()
                            .push(value);
                    }
                }
            }
            _ => {}
        }
    }
    when
}

pub(super) fn parse_requirements(reader: &mut Reader<'_>, node: &Node) -> Vec<String> {
    let mut requirements = Vec::new();
    for node in reader.list(node).unwrap_or_default() {
        let Some(text) = reader.text(node) else {
            continue;
        };
        match PackageRequirement::parse(text) {
            Ok(_) => requirements.push(text.to_string()),
            Err(form) => {
                reader.error(
                    &node.place,
                    format!("`{text}` is not a package and its versions"),
                    Some(form.to_string()),
                );
            }
        }
    }
    requirements
}

pub(super) fn parse_expectations(
    reader: &mut Reader<'_>,
    node: &Node,
    parameters: &Parameters,
) -> Vec<Expectation> {
    let nodes = reader.list(node).unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| parse_expectation(reader, node, parameters))
        .collect()
}

fn parse_expectation(
    reader: &mut Reader<'_>,
    node: &Node,
    parameters: &Parameters,
) -> Option<Expectation> {
    let entries = reader.table_of(node, &["verdict", "when", "because", "evidence"])?;
    let [verdict, because] = ["verdict", "because"]
        .map(|key| reader.required_value(entries, key, &node.place, "an expectation"));
    let word =
        verdict.and_then(|node| reader.word(node, "verdict", &["reproduced", "not_reproduced"]));
    let because = because.and_then(|node| reader.sentence(node));
    let when = get(entries, "when").map(|node| when(reader, node, parameters));
    let evidence = get(entries, "evidence").and_then(|node| reader.sentence(node));
    let verdict = if word? == "reproduced" {
        Expected::Reproduced
    } else {
        Expected::NotReproduced
    };
    Some(Expectation {
        verdict,
        when: when.unwrap_or_default(),
        because: because?,
        evidence: evidence.unwrap_or_default(),
    })
}

fn parse_range(reader: &mut Reader<'_>, node: &Node) -> Option<Range> {
    if let Data::Int(value) = node.data {
        let help = Some(format!("write `\">= {value}\"` or `\"= {value}\"`"));
        return reader.reject(
            &node.place,
            "expected a range of versions, found an integer",
            help,
        );
    }
    let text = reader.text(node)?;
    match Range::parse(text) {
        Ok(range) => Some(range),
        Err(form) => reader.reject(
            &node.place,
            format!("`{text}` is not a range"),
            Some(form.to_string()),
        ),
    }
}

/// The place at which to report that something is missing from the file as a whole.
pub(super) fn file_start(entries: &[TreeEntry]) -> SourceSpan {
    entries
        .first()
        .map_or(SourceSpan::at(0..0), |entry| entry.key.place.clone())
}
