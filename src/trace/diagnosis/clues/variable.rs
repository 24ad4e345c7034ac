//! Writes of variables that CUDA reads, or of variables with a similar name.

use std::collections::HashSet;

use super::super::clue::Clue;
use super::{UNSET, about, line};
use crate::history::{MASK, ProgramHistory, VariableWrite, is_read_by_cuinit};
use crate::{EventKind, History, TraceEvent};
use cuda_pitfalls_core::scenario::environment::meant_by;

pub(super) fn variable_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for write in &history.writes {
        clues.extend(variable_clue(history, write));
    }
    clues
}

fn variable_clue<'a>(history: &History<'a>, write: &VariableWrite<'a>) -> Option<Clue<'a>> {
    let program = history.programs.get(write.program)?;
    let event = history.trace.events.get(write.event)?;
    let mut changes = write.differs;
    let mut after_context = false;
    if let Some(made_ns) = program.first_context_ns()
        && made_ns < event.t_ns
    {
        after_context = true;
        // A variable that is read at context creation may be written after `cuInit`.
        if !is_read_by_cuinit(write.name) {
            let before = value_at(program, write, made_ns);
            changes = before.map(|before| before != write.value);
        }
    }
    let is_after_init = write.after_init_ns.is_some();
    let mut clue = about("variable-written", write.event, event)?
        .with("name", write.name)
        .with("value", write.value.unwrap_or(UNSET))
        .with("read_by_cuinit", is_read_by_cuinit(write.name))
        .with("after_init", is_after_init)
        .with("after_context", after_context)
        .with("reaches_child", write.reaches_child)
        .with(
            "changes",
            changes.map(|changes| changes && !write.is_put_back),
        )
        .with("late", write.after_init_ns);
    if let Some(value_at_init) = write.value_at_init {
        clue = clue.with("latched", value_at_init.unwrap_or(UNSET));
    }
    let mut is_of_package = false;
    if is_after_init
        && let Some(init) = program.init()
        && let Some((index, begun)) = init.begun.last()
    {
        clue.events.push(*index);
        clue.stacks.push(&begun.stack);
        is_of_package =
            called_package(event).is_some() && called_package(begun) == called_package(event);
    }
    Some(clue.with("in_package", is_of_package))
}

/// Returns a clue for each program that wrote several masks before its `cuInit` read the last one.
pub(super) fn overwritten_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for (number, program) in history.programs.iter().enumerate() {
        clues.extend(overwritten_clue(history, number, program));
    }
    clues
}

fn overwritten_clue<'a>(
    history: &History<'a>,
    number: usize,
    program: &ProgramHistory<'a>,
) -> Option<Clue<'a>> {
    let value_at_init = program.variable_at_init(MASK)??;
    let mut writes: Vec<(&VariableWrite<'a>, &TraceEvent)> = Vec::new();
    for write in &history.writes {
        let is_early = write.after_init_ns.is_none() && write.value.is_some();
        if write.program == number && write.name == MASK && is_early {
            writes.push((write, history.trace.events.get(write.event)?));
        }
    }
    let mut backwards = writes.iter().rev();
    let &(_, last) = backwards.find(|(write, _)| write.value == Some(value_at_init))?;
    writes.retain(|(write, event)| {
        // A line that writes one mask after the other in one thread does so for children, and a mask that is restored
        // was changed on purpose.
        let is_again = event.tid == last.tid && line(event) == line(last);
        let is_back = matches!(&event.what, EventKind::Variable { before: Some(before), .. } if before == value_at_init);
        let is_other = event.t_ns < last.t_ns && write.value != Some(value_at_init);
        is_other && !(write.reaches_child || is_again || is_back)
    });
    let mut threads = writes.iter();
    let of_another_thread = threads.find(|(_, event)| event.tid != last.tid);
    let (first, event) = *of_another_thread.or(writes.first())?;
    let values: Vec<&str> = writes.iter().flat_map(|(write, _)| write.value).collect();
    let clue = about("mask-overwritten", first.event, event)?
        .with("values", values)
        .with("other_thread", of_another_thread.is_some())
        .with("latched", value_at_init)
        .with("by_line", line(last));
    Some(clue)
}

/// Returns a clue for each variable whose name is similar to a known one, at its first write or read.
pub(super) fn misspelled_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut seen: Vec<(usize, &str, &str)> = Vec::new();
    for write in &history.writes {
        if let Some(value) = write.value {
            seen.push((write.event, write.name, value));
        }
    }
    for program in &history.programs {
        if let Some(init) = program.init()
            && let Some((event, _)) = init.begun.last()
        {
            for (name, value) in init.variables().into_iter().flatten() {
                seen.push((*event, name, value));
            }
        }
    }
    let (mut known, mut clues) = (HashSet::new(), Vec::new());
    for (index, name, value) in seen {
        if known.insert((name, value)) {
            clues.extend(misspelled_clue(history, index, name, value));
        }
    }
    clues
}

fn misspelled_clue<'a>(
    history: &History<'a>,
    index: usize,
    name: &str,
    value: &str,
) -> Option<Clue<'a>> {
    let meant = meant_by(name)?;
    let own = history.program_of(index)?;
    let mut value_at_init = history.programs.get(own)?.variable_at_init(meant);
    for program in &history.programs {
        if value_at_init.is_none() && program.variable_at_init(name) == Some(Some(value)) {
            value_at_init = program.variable_at_init(meant);
        }
    }
    let value_at_init = value_at_init?;
    if value_at_init == Some(value) {
        return None;
    }
    let clue = about("variable-misspelt", index, history.trace.events.get(index)?)?
        .with("name", name)
        .with("value", value)
        .with("meant", meant)
        .with("latched", value_at_init.unwrap_or(UNSET));
    Some(clue)
}

/// Returns the package of the function that the user's line called.
fn called_package(event: &TraceEvent) -> Option<&str> {
    event.stack.entry()?.package.as_deref()
}

/// Returns the value of a variable at a time after `cuInit`: `None` if unknown, `Some(None)` if it was not set.
fn value_at<'a>(
    program: &ProgramHistory<'a>,
    write: &VariableWrite<'a>,
    t_ns: u64,
) -> Option<Option<&'a str>> {
    let init_ns = program.init()?.t_ns();
    let until = program
        .events
        .partition_point(|(_, event)| event.t_ns <= t_ns);
    for (_, event) in program.events.iter().take(until).rev() {
        if event.t_ns < init_ns {
            break;
        }
        if let EventKind::Variable { name, value, .. } = &event.what
            && name == write.name
        {
            return Some(value.as_deref());
        }
    }
    write.value_at_init
}
