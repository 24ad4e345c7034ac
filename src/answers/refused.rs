//! Failed CUDA calls of a trace, each with the explanation of its status and the cause if the trace contains it; and
//! the last message of a program that failed.

use std::collections::BTreeSet;

use crate::explain::{KnownAnswer, explain_lines, explain_status};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_trace::history::{MASK, ProgramHistory};
use cuda_pitfalls_trace::{ContextChange, EventKind, History, Trace, TraceEvent, status_name};

/// Maximum number of calls that are explained.
const MOST: usize = 8;
/// Calls that libraries use to find out what a driver supports.
const PROBES: [&str; 5] = [
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuDeviceGetAttribute",
    "cuPointerGetAttribute",
    "cuLibraryGetKernel",
];
/// Statuses that mean that something is already so, and the simulated driver's status for calls that it does not model.
/// They are not reported.
const HARMLESS: [i64; 4] = [cuda_pitfalls_calls::status::SIM_NOT_MODELLED, 4, 704, 705];
const NOT_INITIALIZED: i64 = 3;
const INVALID_DEVICE: i64 = 101;
const INVALID_CONTEXT: i64 = 201;

/// A CUDA call that failed, or the line of stderr that a program failed with.
#[derive(Clone, Debug)]
pub struct RefusedCall {
    /// Index of the event; `None` for a line of stderr.
    pub event: Option<usize>,
    /// Sentences with the call, its status, and the cause if the trace contains it.
    pub says: String,
    /// Known explanation of the status or the message.
    pub known: Option<KnownAnswer>,
}

impl RefusedCall {
    /// Returns everything that is known about the call as sentences.
    pub fn in_words(&self) -> String {
        match &self.known {
            Some(known) => format!("{} {}", self.says, known.says),
            None => self.says.clone(),
        }
    }
}

/// Returns the last line of stderr that contains a known error, if the program failed.
pub fn last_error(trace: &Trace) -> Option<RefusedCall> {
    let (line, known) = explain_lines(&trace.end.as_ref()?.stderr)?;
    Some(RefusedCall {
        event: None,
        says: format!("The program wrote on stderr: `{}`.", line.trim()),
        known: Some(known),
    })
}

/// Returns the CUDA calls that failed, the first of each cause. If the program succeeded, only those whose cause the
/// trace contains, because a program may make calls that it expects to fail.
pub fn refused_calls(history: &History) -> Vec<RefusedCall> {
    let trace = history.trace;
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    if trace.has_no_device() {
        return found;
    }
    let has_failed = has_failed(trace);
    for (index, event) in trace.events.iter().enumerate() {
        let Some(status) = event.status else { continue };
        if !is_refused(event, status) {
            continue;
        }
        let program = history.program_of(index);
        let program = program.and_then(|program| history.programs.get(program));
        let cause = program.and_then(|program| refusal_cause(history, program, event, status));
        if cause.is_none() && !has_failed || !seen.insert((status, cause.clone())) {
            continue;
        }
        let (at, name) = (place(event), status_name(status));
        let mut says = format!("{at}: {} returned {name}.", event.call);
        if let Some(cause) = cause {
            says.push_str(&format!(" {cause}"));
        }
        found.push(RefusedCall {
            event: Some(index),
            says,
            known: explain_status(status),
        });
    }
    found.truncate(MOST);
    found
}

/// Returns `true` if the program failed and CUDA could not be initialized with the driver of this machine.
pub fn failed_to_start(trace: &Trace) -> bool {
    if !has_failed(trace) || trace.start.on.starts_with("sim") {
        return false;
    }
    let mut events = trace.events.iter();
    events.any(|event| matches!(event.what, EventKind::InitDone { .. }) && event.has_failed())
}

/// Returns `true` if the program itself failed.
fn has_failed(trace: &Trace) -> bool {
    let end = trace.end.as_ref();
    end.is_some_and(|end| end.failure_reason().is_some())
}

fn is_refused(event: &TraceEvent, status: i64) -> bool {
    let is_told = matches!(
        event.what,
        EventKind::InitDone { .. }
            | EventKind::Error
            | EventKind::Context {
                change: ContextChange::Failed,
                ..
            }
    );
    let is_probe = PROBES.iter().any(|probe| event.call.starts_with(probe));
    is_told && event.has_failed() && !is_probe && !HARMLESS.contains(&status)
}

/// Returns the cause of a failed call, if the trace contains it.
fn refusal_cause(
    history: &History,
    program: &ProgramHistory,
    event: &TraceEvent,
    status: i64,
) -> Option<String> {
    match status {
        INVALID_DEVICE => no_such_ordinal(program, event),
        INVALID_CONTEXT => no_context(program, event),
        NOT_INITIALIZED => forked_after_init(history, event),
        _ => None,
    }
}

fn no_such_ordinal(program: &ProgramHistory, event: &TraceEvent) -> Option<String> {
    let visible = program.visible()?.len();
    let mask = program.variable_at_init(MASK)??;
    let last = visible.checked_sub(1)?;
    let gpus = counted(visible as u64, "GPU");
    let devices = if last == 0 {
        "device 0".to_owned()
    } else {
        format!("devices 0 to {last}")
    };
    let mut says =
        format!("{MASK} was {mask} at cuInit, so the process sees {gpus}, as {devices}.");
    // The device argument is known only for calls that find devices and create contexts.
    let asked = event.device.and_then(|device| usize::try_from(device).ok());
    if let Some(asked) = asked {
        says.push_str(&format!(" The call asked for device {asked}."));
    }
    let mut numbers = Vec::new();
    for (at, entry) in mask.split(',').enumerate().take(visible) {
        if let Ok(number) = entry.trim().parse::<usize>()
            && number >= visible
            && asked.is_none_or(|asked| asked == number)
        {
            numbers.push(format!("GPU {number} of {MASK} is device {at}"));
        }
    }
    if !numbers.is_empty() {
        says.push_str(&format!(" Inside the process {}.", numbers.join(", ")));
    }
    let written = program.events.iter().rev().find(|(_, write)| {
        write.t_ns <= event.t_ns && matches!(&write.what, EventKind::Variable { name, value, .. } if name == MASK && value.as_deref() == Some(mask))
    });
    if let Some((_, write)) = written {
        let line = write.stack.place();
        let at = line.map_or_else(String::new, |line| format!(" at {line}"));
        says.push_str(&format!(
            " The process set the mask{at}: a GPU count taken before that no longer holds."
        ));
    }
    Some(says)
}

fn no_context(program: &ProgramHistory, event: &TraceEvent) -> Option<String> {
    if event.selected_by == Some(event.tid) {
        let lost = "A context was current in this thread before but no longer is: it was removed from the thread or destroyed.";
        return Some(lost.to_owned());
    }
    let mut selector = String::new();
    if let Some(tid) = event.selected_by {
        selector = format!(" Thread {tid} had selected one.");
    }
    let mut before = Vec::new();
    for life in &program.contexts {
        if life.created.t_ns <= event.t_ns {
            before.push(life.created);
        }
    }
    let made = before.first()?;
    if before.iter().any(|made| made.tid == event.tid) {
        return None;
    }
    let at = place(made);
    Some(format!(
        "This thread created no context; thread {} created one at {at}.{selector} A context is current only in the threads that select it.",
        made.tid
    ))
}

fn forked_after_init(history: &History, event: &TraceEvent) -> Option<String> {
    let fork = history
        .all_forks()
        .find(|fork| fork.child.pid == event.pid && fork.event.1.t_ns <= event.t_ns)?;
    let begun = history
        .inherited_init(&fork)
        .map(|(_, begun)| format!(" at {}", place(begun)))
        .unwrap_or_default();
    let parent = fork.parent;
    Some(format!(
        "Process {} was forked by process {parent} after the parent had called cuInit{begun}, so it cannot use CUDA.",
        event.pid
    ))
}

fn place(event: &TraceEvent) -> String {
    event
        .stack
        .place()
        .unwrap_or_else(|| format!("pid {}", event.pid))
}
