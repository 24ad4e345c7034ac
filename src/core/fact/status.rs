//! `status`: the result of the call, by name.

use serde_json::{Value, json};

use super::{CheckReader, CheckedStep, FactColumn, FactKind, FactSet, Sight, Truth, words};
use crate::event::Status;
use crate::python;
use crate::source::diagnostic::suggest_name;
use crate::source::schema::{one_or_more, or_parameter, reference};
use crate::source::tree::Node;
use crate::verdict::Reason;
use cuda_pitfalls_calls::status;

pub(super) const STATUS: FactKind = FactKind {
    key: "status",
    read: |facts, file, node| facts.status = read(file, node),
    schema: || one_or_more(reference("status")),
    matchers: |_| Vec::new(),
    sentences: |FactSet { status, .. }| match status.as_slice() {
        [] => Vec::new(),
        names => vec![format!("it returns {}", names.join(" or "))],
    },
    held: |FactSet { status, .. }, look, _| match (status.as_slice(), &look.step.status) {
        ([], _) => Vec::new(),
        (_, None) => vec![Truth::Unknown("the step has no status".to_string())],
        (
            names,
            Some(Status {
                name: Some(name), ..
            }),
        ) if names.contains(name) => vec![Truth::Yes],
        // Some GPUs lack the queried feature, such as their own memory.
        (
            names,
            Some(Status {
                name: Some(name), ..
            }),
        ) if name == "NVML_ERROR_NOT_SUPPORTED"
            && names.iter().any(|name| name == "NVML_SUCCESS") =>
        {
            let why = "status cannot be determined: NVML does not support the call on this GPU"
                .to_string();
            vec![Truth::Unobservable(Reason::Unobservable, why)]
        }
        (names, Some(Status { name, code })) => {
            let name = name.clone().unwrap_or_else(|| code.to_string());
            vec![Truth::No(format!(
                "status is {name}, expected {}",
                names.join(" or ")
            ))]
        }
    },
    needs_polling: false,
    told: FactColumn::WithCall,
    seen: |look, _| {
        let status = look.step.status.as_ref()?;
        let cell = words::status(status);
        let exact = json!({ "code": status.code, "name": status.name });
        Some(Sight {
            words: format!("{cell} ({})", status.code),
            cell,
            exact,
        })
    },
};

fn read(file: &mut CheckReader<'_, '_>, node: &Node) -> Vec<String> {
    let mut names = Vec::new();
    let mut all_known = true;
    let of_lines = file
        .rows
        .iter()
        .any(|row| matches!(row, CheckedStep::Line { .. }));
    for node in file.reader.one_or_more(node) {
        match file.reader.text(node) {
            Some(name) if status::is_known(name) || (of_lines && can_raise(name)) => {
                names.push(name.to_string())
            }
            Some(name) => {
                let help = if of_lines {
                    Some(format!(
                        "write `{}` or the name of an exception, such as `RuntimeError`",
                        python::OK
                    ))
                } else {
                    suggest_name(name, status::names())
                };
                file.reader
                    .error(&node.place, format!("unknown status `{name}`"), help);
                all_known = false;
            }
            None => all_known = false,
        }
    }
    for row in file.rows {
        if !all_known || names.is_empty() || names.iter().any(|name| can_return(row, name)) {
            continue;
        }
        let message = match row {
            CheckedStep::Call(call) => {
                format!(
                    "`{}` is a {} call and never returns this",
                    call.name,
                    call.library.name()
                )
            }
            CheckedStep::Line { .. } => "a Python line never has this status".to_string(),
        };
        file.reader.error(&node.place, message, None);
    }
    names
}

pub(super) fn status_schema() -> Value {
    let mut names: Vec<&str> = status::names().collect();
    names.sort_unstable();
    names.dedup();
    or_parameter(json!([{ "enum": names }, { "type": "string", "pattern": python::EXCEPTION }]))
}

/// Returns `true` if a Python line can have this status: `OK`, or an exception.
fn can_raise(name: &str) -> bool {
    name == python::OK || python::is_exception(name)
}

/// Returns `true` if the library of a call can return this status.
fn can_return(row: &CheckedStep, name: &str) -> bool {
    match row {
        CheckedStep::Call(kind) => status::has(kind.library, name),
        CheckedStep::Line { .. } => can_raise(name),
    }
}
