//! Writes of variables that CUDA reads.

use std::collections::HashMap;

use super::super::clue::Clue;
use super::program::Program;
use super::{UNSET, about};
use crate::mask;
use crate::trace::{Process, Trace, What};

/// A clue for each write.
pub(super) fn clues<'a>(trace: &'a Trace, programs: &[Program<'a>]) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for program in programs {
        let first_context = program.contexts.first().map(|(_, life)| life.made.t_ns);
        let mut at_context: HashMap<&str, Option<Option<&str>>> = HashMap::new();
        for &(index, event) in &program.events {
            let What::Variable { name, value, .. } = &event.what else { continue };
            let value = value.as_deref();
            let Some(clue) = about("variable-written", index, event) else { continue };
            let after_init = program.is_initialised_at(event.t_ns);
            let after_context = first_context.is_some_and(|made| made < event.t_ns);
            let latched = program.latched(name);
            let changes = match first_context.filter(|_| after_context) {
                // What is read with the context may have been written since `cuInit`.
                Some(made) if name != "CUDA_VISIBLE_DEVICES" => {
                    let before = at_context.entry(name).or_insert_with(|| at(program, name, made));
                    before.map(|before| before != value)
                }
                _ => latched.map(|latched| is_other(trace, program, name, latched, value)),
            };
            let init = program.init.filter(|_| after_init);
            let is_late = after_init || after_context;
            let reaches_child = || reaches_child(trace, programs, program, name, value, event.t_ns);
            let mut clue = clue
                .with("name", name.as_str())
                .with("value", value.unwrap_or(UNSET))
                .with("after_init", after_init)
                .with("after_context", after_context)
                .with_known("reaches_child", is_late.then(reaches_child))
                .with_known("latched", latched.map(|latched| latched.unwrap_or(UNSET)))
                .with_known("changes", changes)
                .with_known("late", init.map(|(_, init)| event.t_ns.saturating_sub(init.t_ns)));
            if let Some((index, init)) = init {
                clue.events.push(index);
                clue.stacks.push(&init.stack);
            }
            clues.push(clue);
        }
    }
    clues
}

/// A variable as it was at a time after `cuInit`; the outer value is none where that is not known.
fn at<'a>(program: &Program<'a>, name: &str, t_ns: u64) -> Option<Option<&'a str>> {
    let init = program.init?.1;
    let written = program.events.iter().rev().find_map(|(_, event)| match &event.what {
        What::Variable { name: of, value, .. } if of == name && (init.t_ns..=t_ns).contains(&event.t_ns) => {
            Some(value.as_deref())
        }
        _ => None,
    });
    written.or_else(|| program.latched(name))
}

/// Whether two values mean something else. Masks may be written in several ways.
fn is_other(trace: &Trace, program: &Program<'_>, name: &str, latched: Option<&str>, value: Option<&str>) -> bool {
    if name != "CUDA_VISIBLE_DEVICES" || latched == value {
        return latched != value;
    }
    let gpus: Vec<String> = trace.start.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let is_alike =
        trace.start.gpus.windows(2).all(|pair| pair.first().map(|it| &it.name) == pair.last().map(|it| &it.name));
    if gpus.is_empty() || !is_alike {
        return true;
    }
    let order = program.latched("CUDA_DEVICE_ORDER").flatten();
    mask::parse(latched, order, &gpus) != mask::parse(value, order, &gpus)
}

/// Whether a process that was started later initialised with this value: the write was meant for it.
fn reaches_child(
    trace: &Trace,
    programs: &[Program<'_>],
    writer: &Program<'_>,
    name: &str,
    value: Option<&str>,
    t_ns: u64,
) -> bool {
    programs.iter().any(|program| {
        let started = program.process.map(|process| process.t_ns);
        started.is_some_and(|started| started > t_ns)
            && program.latched(name).is_some_and(|latched| latched == value)
            && program.process.is_some_and(|process| may_descend(trace, process, writer.pid))
    })
}

/// Whether a process may be a descendant of a writer: it is, or a parent on the way made no CUDA call
/// and is not in the trace.
fn may_descend(trace: &Trace, process: &Process, writer: u32) -> bool {
    if process.pid == writer {
        return true;
    }
    let above = ancestors(trace, writer);
    for ancestor in ancestors(trace, process.pid) {
        if ancestor == writer {
            return true;
        }
        if above.contains(&ancestor) {
            return false;
        }
    }
    true
}

/// The processes above another, the nearest first, as far as the trace knows them.
fn ancestors(trace: &Trace, pid: u32) -> Vec<u32> {
    let mut ancestors = Vec::new();
    let parent = |pid: u32| trace.processes.iter().find(|process| process.pid == pid).map(|process| process.parent);
    let mut next = parent(pid);
    while let Some(ancestor) = next.filter(|it| !ancestors.contains(it)) {
        ancestors.push(ancestor);
        next = parent(ancestor);
    }
    ancestors
}
