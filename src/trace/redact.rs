//! Redaction: a trace without paths, arguments and names of a machine, which identify its author.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EventKind, Stack, TraceLine};
use cuda_pitfalls_core::text::redact::{GONE, Redactor, file_name, keep_package};

/// Fields whose values are words of the format.
const WORDS: [&str; 10] = [
    "schema",
    "line",
    "event",
    "provenance",
    "witness",
    "change",
    "usage",
    "language",
    "owner",
    "kind",
];
/// Fields whose keys are names from the machine or the program.
const MAPS: [&str; 2] = ["environment", "variables"];
/// The field of a process's counts whose keys are GPU UUIDs. In the first line, the field of this name is a list.
const GPUS: &str = "gpus";
/// Fields whose sentences may contain relative paths.
const SENTENCES: [&str; 5] = ["limits", "not_seen", "no_python", "missing", "stderr"];

/// Returns a line of a trace without folders, arguments and the values of variables other than masks. Names of files,
/// functions and lines remain: without them a trace is useless. `redactor` must be the same for all lines of a trace.
///
/// # Errors
/// Returns an error if the line cannot be written as JSON.
pub fn redact_line(mut line: TraceLine, redactor: &mut Redactor) -> serde_json::Result<TraceLine> {
    match &mut line {
        TraceLine::Start(start) => {
            redactor.hide_arguments(start.command.get(1..).unwrap_or_default());
            if let Some(program) = start.command.first() {
                start.command = vec![file_name(program), GONE.to_owned()];
            }
            start.folder = GONE.to_owned();
            start.libcuda = start.libcuda.as_deref().map(file_name);
            redact_variables(&mut start.environment);
        }
        TraceLine::Process(process) => {
            process.program = file_name(&process.program);
            process.arguments = vec![GONE.to_owned()];
        }
        TraceLine::Event(event) => {
            redact_stack(&mut event.stack);
            match &mut event.what {
                EventKind::Init { variables, .. } => redact_variables(variables),
                EventKind::Variable { before, value, .. } => {
                    [before, value].into_iter().flatten().for_each(redact_value);
                }
                EventKind::MaskRead { value, .. } => value.iter_mut().for_each(redact_value),
                _ => {}
            }
        }
        TraceLine::Holder(holder) => redact_stack(&mut holder.stack),
        TraceLine::End(end) => {
            // A traceback indents lines of code and their files.
            end.stderr.retain(|line| !line.starts_with([' ', '\t']));
            for line in &mut end.stderr {
                *line = redactor.without_hidden(line);
            }
        }
        TraceLine::Memory(_) | TraceLine::Ledger(_) | TraceLine::Counts(_) => {}
    }
    let mut value = serde_json::to_value(line)?;
    redact_fields(&mut value, redactor);
    serde_json::from_value(value)
}

/// Redacts every text of an object, except for words of the format.
fn redact_fields(value: &mut Value, redactor: &mut Redactor) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_one_of = |names: &[&str]| names.contains(&name.as_str());
                if is_one_of(&WORDS) {
                    // A host or a user may have the same name as one of them.
                    Redactor::default().json(value);
                    continue;
                }
                if is_one_of(&SENTENCES) {
                    shorten_relative(value);
                }
                if is_one_of(&MAPS) || name == GPUS && value.is_object() {
                    redact_keys(value, redactor);
                }
                redact_fields(value, redactor);
            }
        }
        Value::Array(values) => {
            for value in values {
                redact_fields(value, redactor);
            }
        }
        Value::String(text) => *text = redactor.text(text),
        _ => {}
    }
}

fn redact_keys(value: &mut Value, redactor: &mut Redactor) {
    let Value::Object(fields) = value else { return };
    for (name, value) in std::mem::take(fields) {
        fields.insert(redactor.text(&name), value);
    }
}

/// Shortens each relative path in sentences to its last part.
fn shorten_relative(value: &mut Value) {
    match value {
        Value::String(text) => {
            let mut words = Vec::new();
            for word in text.split(' ') {
                // The redactor handles an absolute path.
                words.push(if word.starts_with('/') {
                    word.to_owned()
                } else {
                    file_name(word)
                });
            }
            *text = words.join(" ");
        }
        Value::Array(values) => values.iter_mut().for_each(shorten_relative),
        _ => {}
    }
}

fn redact_variables(variables: &mut BTreeMap<String, String>) {
    variables.values_mut().for_each(redact_value);
}

/// Redacts a value that may contain a path; a mask never does.
fn redact_value(value: &mut String) {
    if value.contains('/') {
        *value = GONE.to_owned();
    }
}

fn redact_stack(stack: &mut Stack) {
    // A line of code may hold a key.
    stack.source = None;
    for frame in stack.frames.iter_mut().chain(&mut stack.meanwhile) {
        frame.file = frame.file.as_deref().map(keep_package);
        frame.module = frame.module.as_deref().map(keep_package);
    }
}
