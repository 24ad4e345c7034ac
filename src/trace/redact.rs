//! Redaction: a trace without paths, arguments and environment, which identify its author.

use std::collections::BTreeMap;

use super::{EventKind, Stack, TraceLine};
use cuda_pitfalls_core::text::redact::{GONE, keep_package, short};

/// A line of a trace without folders, arguments and the values of variables other than masks. Names
/// of files, functions and lines stay: without them a trace says nothing.
pub fn redacted(line: TraceLine) -> TraceLine {
    match line {
        TraceLine::Start(mut start) => {
            start.command =
                start.command.first().map(|program| vec![short(program), GONE.to_owned()]).unwrap_or_default();
            start.folder = GONE.to_owned();
            start.libcuda = start.libcuda.as_deref().map(short);
            redact_variables(&mut start.environment);
            TraceLine::Start(start)
        }
        TraceLine::Process(mut process) => {
            process.program = short(&process.program);
            process.arguments = vec![GONE.to_owned()];
            TraceLine::Process(process)
        }
        TraceLine::Event(mut event) => {
            redact_stack(&mut event.stack);
            if let EventKind::Init { variables, .. } = &mut event.what {
                redact_variables(variables);
            }
            TraceLine::Event(event)
        }
        TraceLine::Holder(mut holder) => {
            redact_stack(&mut holder.stack);
            TraceLine::Holder(holder)
        }
        other => other,
    }
}

/// Values that may hold a path; a mask never does.
fn redact_variables(variables: &mut BTreeMap<String, String>) {
    for (_, value) in variables.iter_mut().filter(|(_, value)| value.contains('/')) {
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
