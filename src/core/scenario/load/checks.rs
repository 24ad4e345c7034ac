//! Reads checks: the facts that must hold at a step, or the required end of the worker.

use std::ops::Range;

use toml::Spanned;

use super::cases::{FoundStep, Scope};
use super::conditions::check_when;
use super::parameters::Parameters;
use crate::fact::{CheckReader, CheckedStep, ExitCheck, FactKind, KINDS};
use crate::scenario::Check;
use crate::scenario::file::CheckFile;
use crate::source::diagnostic::suggest_name;
use crate::source::reader::Reader;

/// The keys of a check that are not facts about a step.
const OTHERS: [&str; 5] = ["at", "exit", "when", "because", "evidence"];

/// Parses a list of checks. Each of them must be valid in all of these cases.
pub(super) fn read_checks(
    reader: &mut Reader<'_>,
    checks: &[Spanned<CheckFile>],
    scopes: &[&Scope],
    parameters: &Parameters<'_>,
) -> Vec<Check> {
    let mut read = Vec::new();
    for check in checks {
        read.push(read_check(reader, check, scopes, parameters));
    }
    read
}

fn read_check<'a>(
    reader: &mut Reader<'a>,
    written: &Spanned<CheckFile>,
    scopes: &[&Scope],
    parameters: &Parameters<'_>,
) -> Check {
    let (place, file) = (written.span(), written.get_ref());
    is_about_one_thing(reader, &place, file);
    let rows = match &file.at {
        Some(label) => find_step(reader, scopes, label.get_ref(), &label.span()),
        None => Vec::new(),
    };
    let mut check = Check {
        line: reader.line(&place),
        because: file.because.0.clone(),
        evidence: file.evidence.0.clone(),
        ..Check::default()
    };
    if let Some(label) = &file.at {
        check.at.clone_from(label.get_ref());
    }
    if let Some(exit) = &file.exit {
        check.facts.exit = ExitCheck::read(reader, exit);
    }
    if let Some(when) = &file.when {
        check_when(reader, when.get_ref(), &when.span(), parameters);
        check.when = when.get_ref().clone();
    }
    for entry in &file.facts {
        let Some(kind) = FactKind::find(&entry.key.text) else {
            let keys = OTHERS.into_iter().chain(KINDS.iter().map(|kind| kind.key));
            let help = suggest_name(&entry.key.text, keys);
            let message = format!("unknown key `{}`", entry.key.text);
            reader.error(&entry.key.place, message, help);
            continue;
        };
        let find = &|reader: &mut Reader<'a>, label: &str, place: &Range<usize>| {
            find_step(reader, scopes, label, place)
        };
        let mut facts = CheckReader {
            reader,
            rows: &rows,
            find,
        };
        (kind.read)(&mut check.facts, &mut facts, &entry.value);
    }
    check
}

/// Reports a check unless it is about exactly one thing: a step, with a fact, or how the worker ends.
fn is_about_one_thing(reader: &mut Reader<'_>, place: &Range<usize>, check: &CheckFile) {
    let mut facts = check.facts.iter();
    let fact = facts.find(|entry| FactKind::find(&entry.key.text).is_some());
    match (&check.at, &check.exit, fact) {
        (Some(_), Some(exit), _) => {
            let help = Some("`exit` is about the whole attempt; write two checks".to_string());
            reader.error(&exit.place, "a check has either `at` or `exit`", help);
        }
        (None, Some(_), Some(fact)) => {
            let help = Some("use a separate check with `at` and the label of a step".to_string());
            let message = format!("`{}` is about a step", fact.key.text);
            reader.error(&fact.key.place, message, help);
        }
        (None, None, _) => {
            let help = Some("give the label of a step, or how the worker ended".to_string());
            reader.error(place, "a check needs `at` or `exit`", help);
        }
        // An unknown key is reported as such.
        (Some(_), None, None) if check.facts.is_empty() => {
            let keys: Vec<String> = KINDS.iter().map(|kind| format!("`{}`", kind.key)).collect();
            let help = Some(format!("add one of {}", keys.join(", ")));
            reader.error(place, "this check has no fact about the step", help);
        }
        (None, Some(_), None) | (Some(_), None, _) => {}
    }
}

/// Returns the step with this label in each case, if it could be read there. Reports a label that does not exist.
fn find_step(
    reader: &mut Reader<'_>,
    scopes: &[&Scope],
    label: &str,
    place: &Range<usize>,
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
                    Some("label it: `label = \"…\"` next to the call".to_string()),
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
