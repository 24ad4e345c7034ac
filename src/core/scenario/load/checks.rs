//! Reading checks: what must hold at a step, or how the worker must end.

use super::cases::{FoundStep, Scope};
use super::conditions;
use super::parameters::Parameters;
use crate::fact::{CheckReader, CheckedStep, ExitCheck, FactKind, KINDS};
use crate::scenario::Check;
use crate::source::diagnostic::suggest_name;
use crate::source::reader::{Reader, get};
use crate::source::tree::{Node, SourceSpan, TreeEntry};

/// The keys of a check that are not facts about a step.
const OTHERS: [&str; 5] = ["at", "exit", "when", "because", "evidence"];

/// Reads a list of checks, each of which must be valid in all of these cases.
pub(super) fn parse_checks(
    reader: &mut Reader<'_>,
    node: &Node,
    scopes: &[&Scope],
    parameters: &Parameters,
) -> Vec<Check> {
    let nodes = reader.list(node).unwrap_or_default();
    nodes
        .iter()
        .filter_map(|node| check(reader, node, scopes, parameters))
        .collect()
}

fn check<'a>(
    reader: &mut Reader<'a>,
    node: &Node,
    scopes: &[&Scope],
    parameters: &Parameters,
) -> Option<Check> {
    let keys: Vec<&str> = OTHERS
        .into_iter()
        .chain(KINDS.iter().map(|kind| kind.key))
        .collect();
    let entries = reader.table_of(node, &keys)?;
    let (at, exit) = (get(entries, "at"), get(entries, "exit"));
    is_about_one_thing(reader, node, entries);
    let label = at.and_then(|node| reader.text(node).map(|label| (label, node)));
    let rows = label
        .map(|(label, node)| find(reader, scopes, label, &node.place))
        .unwrap_or_default();
    let mut check = Check {
        line: reader.line(&node.place),
        ..Check::default()
    };
    check.at = label
        .map(|(label, _)| label.to_string())
        .unwrap_or_default();
    check.facts.exit = exit.and_then(|node| ExitCheck::read(reader, node));
    for TreeEntry { key, value } in entries {
        match key.text.as_str() {
            "when" => check.when = conditions::when(reader, value, parameters),
            "because" => check.because = reader.sentence(value).unwrap_or_default(),
            "evidence" => check.evidence = reader.sentence(value).unwrap_or_default(),
            key => {
                if let Some(kind) = FactKind::find(key) {
                    let find = &|reader: &mut Reader<'a>, label: &str, place: &SourceSpan| {
                        find(reader, scopes, label, place)
                    };
                    (kind.read)(
                        &mut check.facts,
                        &mut CheckReader {
                            reader,
                            rows: &rows,
                            find,
                        },
                        value,
                    );
                }
            }
        }
    }
    Some(check)
}

/// Reports a check unless it is about a step and has a fact, or is about how the worker ends.
fn is_about_one_thing(reader: &mut Reader<'_>, node: &Node, entries: &[TreeEntry]) {
    let fact = entries
        .iter()
        .find(|entry| FactKind::find(&entry.key.text).is_some());
    match (get(entries, "at"), get(entries, "exit")) {
        (Some(_), Some(exit)) => {
            let help = Some("`exit` is about the whole attempt; write two checks".to_string());
            reader.error(&exit.place, "a check has `at` or `exit`, not both", help);
        }
        (None, Some(_)) => {
            if let Some(TreeEntry { key, .. }) = fact {
                let help = Some("name one with `at` in a check of its own".to_string());
                reader.error(&key.place, format!("`{}` is about a step", key.text), help);
            }
        }
        (None, None) => {
            let help = Some("name a step by its label, or write how the worker ended".to_string());
            reader.error(&node.place, "a check needs `at` or `exit`", help);
        }
        (Some(_), None) if fact.is_none() => {
            let keys: Vec<String> = KINDS.iter().map(|kind| format!("`{}`", kind.key)).collect();
            let help = Some(format!("add one of {}", keys.join(", ")));
            reader.error(&node.place, "this check has no fact about the step", help);
        }
        (Some(_), None) => {}
    }
}

/// The step with this label in each case, if it could be read there. Reports a label that does not exist.
fn find(
    reader: &mut Reader<'_>,
    scopes: &[&Scope],
    label: &str,
    place: &SourceSpan,
) -> Vec<CheckedStep> {
    let mut kinds = Vec::new();
    for scope in scopes {
        match scope.find(label) {
            FoundStep::Step(kind) => kinds.extend(kind),
            FoundStep::Ambiguous => {
                let message = format!(
                    "`{label}` is ambiguous: several steps of `{}` make this call",
                    scope.case
                );
                reader.error(
                    place,
                    message,
                    Some("label it: `label = \"…\"` beside the call".to_string()),
                );
            }
            FoundStep::Nothing => {
                let message = format!("no step of `{}` has the label `{label}`", scope.case);
                reader.error(place, message, suggest_name(label, scope.usable_labels()));
            }
        }
    }
    kinds
}
