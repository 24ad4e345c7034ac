//! Writes of variables, and the ones that came too late.

use super::{History, MASK, ORDER, ProgramHistory, is_read_by_cuinit};
use crate::{EventKind, Trace, TraceEvent, TraceProcess};
use cuda_pitfalls_core::mask;

/// A write or removal of a variable that CUDA or a framework reads.
#[derive(Clone, Copy, Debug)]
pub struct VariableWrite<'a> {
    /// The event, by its index in the trace.
    pub event: usize,
    /// The program that wrote the variable, by its index in the history.
    pub program: usize,
    /// The variable.
    pub name: &'a str,
    /// The new value of the variable; none if it was removed.
    pub value: Option<&'a str>,
    /// The time since the `cuInit` that counts. None if it had not yet succeeded.
    pub after_init_ns: Option<u64>,
    /// The value that this `cuInit` read: `None` if unknown, `Some(None)` if the variable was not set.
    pub value_at_init: Option<Option<&'a str>>,
    /// `true` if the new value differs in meaning from the one that this `cuInit` read. None if unknown.
    pub differs: Option<bool>,
    /// `true` if a later program initialized CUDA with this value, so that the write was meant for that program.
    pub reaches_child: bool,
    /// `true` if a package restored the value that the variable had before the package itself wrote it.
    pub is_put_back: bool,
}

impl VariableWrite<'_> {
    /// Returns `true` if the write came too late to have an effect: only `cuInit` reads the variable, it had read
    /// another value, no later program initialized CUDA with the new one, and the write does not restore a value that a
    /// package had replaced.
    pub fn is_late(&self) -> bool {
        let is_lost = is_read_by_cuinit(self.name) && !self.reaches_child && !self.is_put_back;
        is_lost && self.after_init_ns.is_some() && self.differs == Some(true)
    }
}

/// Returns every write, sorted by time.
pub(super) fn all<'a>(history: &History<'a>) -> Vec<VariableWrite<'a>> {
    let mut writes = Vec::new();
    for (number, program) in history.programs.iter().enumerate() {
        for &(index, event) in &program.events {
            let EventKind::Variable { name, value, .. } = &event.what else {
                continue;
            };
            let init = program.init_before(event.t_ns, history.trace.has_no_device());
            let value_at_init = program.variable_at_init(name);
            writes.push(VariableWrite {
                event: index,
                program: number,
                name,
                value: value.as_deref(),
                after_init_ns: init.map(|init| event.t_ns.saturating_sub(init.t_ns())),
                value_at_init,
                differs: value_at_init.map(|value_at_init| {
                    is_other(
                        history.trace,
                        program,
                        name,
                        value_at_init,
                        value.as_deref(),
                    )
                }),
                reaches_child: reaches_child(history, program.pid, event),
                is_put_back: is_put_back(program, index, event),
            });
        }
    }
    writes.sort_by_key(|write| write.event);
    writes
}

/// Returns `true` if two values differ in meaning. One mask can be written in several ways.
fn is_other(
    trace: &Trace,
    program: &ProgramHistory<'_>,
    name: &str,
    value_at_init: Option<&str>,
    value: Option<&str>,
) -> bool {
    let gpus = trace.gpu_uuids();
    let is_alike = trace
        .start
        .gpus
        .windows(2)
        .all(|pair| matches!(pair, [one, other] if one.name == other.name));
    let cannot_be_told = gpus.is_empty() || !is_alike || trace.has_no_device();
    if ![MASK, ORDER].contains(&name) || value_at_init == value || cannot_be_told {
        return value_at_init != value;
    }
    if name == ORDER {
        // Equal GPUs have the same order for each valid value.
        return mask::parse(None, value_at_init, &gpus) != mask::parse(None, value, &gpus);
    }
    let order = program.variable_at_init(ORDER).flatten();
    mask::parse(value_at_init, order, &gpus) != mask::parse(value, order, &gpus)
}

/// Returns the variable that an event writes, its value before, and its new value.
fn written_variable(event: &TraceEvent) -> Option<(&str, Option<&str>, Option<&str>)> {
    match &event.what {
        EventKind::Variable {
            name,
            before,
            value,
        } => Some((name, before.as_deref(), value.as_deref())),
        _ => None,
    }
}

/// Returns `true` if a package, without any user code on the stack, restored the value that the variable had before the
/// package's own last writes.
fn is_put_back(program: &ProgramHistory<'_>, index: usize, event: &TraceEvent) -> bool {
    let Some((name, mut found, value)) = written_variable(event) else {
        return false;
    };
    let writer = event.stack.writing_package();
    if writer.is_none() || !event.stack.users_all().is_empty() {
        return false;
    }
    for (at, earlier) in program.events.iter().rev() {
        let Some((other, before, written)) = written_variable(earlier) else {
            continue;
        };
        if *at >= index || other != name {
            continue;
        }
        if written != found || earlier.stack.writing_package() != writer {
            return false;
        }
        if before == value {
            return true;
        }
        found = before;
    }
    false
}

/// Returns `true` if a later program initialized CUDA with the value that an event wrote.
fn reaches_child(history: &History<'_>, writer: u32, event: &TraceEvent) -> bool {
    let Some((name, _, value)) = written_variable(event) else {
        return false;
    };
    for program in &history.programs {
        let Some(process) = program.process else {
            continue;
        };
        if process.t_ns > event.t_ns
            && program.variable_at_init(name) == Some(value)
            && may_descend(history.trace, process, writer)
        {
            return true;
        }
    }
    false
}

/// Returns `true` if a process is a descendant of a writer, or may be one because the trace lacks one of its ancestors.
fn may_descend(trace: &Trace, process: &TraceProcess, writer: u32) -> bool {
    if process.pid == writer {
        return true;
    }
    let above = known_ancestors(trace, writer);
    for ancestor in known_ancestors(trace, process.pid) {
        if ancestor == writer {
            return true;
        }
        if above.contains(&ancestor) {
            return false;
        }
    }
    true
}

/// Returns the known ancestors of a process, nearest first.
pub(crate) fn known_ancestors(trace: &Trace, pid: u32) -> Vec<u32> {
    let (mut ancestors, mut child) = (Vec::new(), pid);
    while let Some(process) = trace.processes.iter().find(|process| process.pid == child)
        && !ancestors.contains(&process.parent)
    {
        ancestors.push(process.parent);
        ancestors.extend(&process.above);
        child = process.above.last().copied().unwrap_or(process.parent);
    }
    ancestors
}
