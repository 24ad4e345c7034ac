//! Writes of variables that CUDA reads, or that are spelt nearly so.

use std::collections::{HashMap, HashSet};

use super::super::clue::Clue;
use super::{UNSET, about, line};
use crate::history::{MASK, ProgramHistory, VariableWrite, is_read_by_cuinit};
use crate::{EventKind, History, TraceEvent};
use cuda_pitfalls_core::scenario::environment::meant_by;

pub(super) fn variable_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut at_context: HashMap<(usize, &str), Option<Option<&str>>> = HashMap::new();
    let mut clues = Vec::new();
    for write in &history.writes {
        let Some(program) = history.programs.get(write.program) else {
            continue;
        };
        let Some(event) = history.trace.events.get(write.event) else {
            continue;
        };
        let Some(clue) = about("variable-written", write.event, event) else {
            continue;
        };
        let after_context = program
            .first_context_ns()
            .is_some_and(|made| made < event.t_ns);
        let changes = match program.first_context_ns().filter(|_| after_context) {
            // A variable that is read at context creation may be written after `cuInit`.
            Some(made) if !is_read_by_cuinit(write.name) => {
                let key = (write.program, write.name);
                let before = at_context
                    .entry(key)
                    .or_insert_with(|| value_at(program, write, made));
                before.map(|before| before != write.value)
            }
            _ => write.differs,
        };
        let changes = changes.map(|changes| changes && !write.is_put_back);
        let mut clue = clue
            .with("name", write.name)
            .with("value", write.value.unwrap_or(UNSET))
            .with("read_by_cuinit", is_read_by_cuinit(write.name))
            .with("after_init", write.after_init_ns.is_some())
            .with("after_context", after_context)
            .with("reaches_child", write.reaches_child)
            .with(
                "latched",
                write.latched.map(|latched| latched.unwrap_or(UNSET)),
            )
            .with("changes", changes)
            .with("late", write.after_init_ns);
        let init = program.init().filter(|_| write.after_init_ns.is_some());
        let begun = init.and_then(|init| init.begun.last());
        let own = package(event);
        clue = clue.with(
            "in_package",
            own.is_some() && begun.is_some_and(|(_, init)| package(init) == own),
        );
        if let Some((index, init)) = begun {
            clue.events.push(*index);
            clue.stacks.push(&init.stack);
        }
        clues.push(clue);
    }
    clues
}

/// Masks of which a program read the last alone.
pub(super) fn overwritten_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    (0..)
        .zip(&history.programs)
        .filter_map(|(number, program)| overwritten_of(history, number, program))
        .collect()
}

fn overwritten_of<'a>(
    history: &History<'a>,
    number: usize,
    program: &ProgramHistory<'a>,
) -> Option<Clue<'a>> {
    let latched = program.variable_at_init(MASK)??;
    let mut writes: Vec<(&VariableWrite<'a>, &TraceEvent)> = history
        .writes
        .iter()
        .filter_map(|write| Some((write, history.trace.events.get(write.event)?)))
        .collect();
    writes.retain(|(write, _)| {
        write.program == number
            && write.name == MASK
            && write.after_init_ns.is_none()
            && write.value.is_some()
    });
    let &(_, last) = writes
        .iter()
        .rev()
        .find(|(write, _)| write.value == Some(latched))?;
    writes.retain(|(write, event)| {
        // The same line of a thread writes one mask after the other for children, and a mask that is put back was meant
        // for a while.
        let is_again = event.tid == last.tid && line(event) == line(last);
        let is_back = matches!(&event.what, EventKind::Variable { before: Some(before), .. } if before == latched);
        let is_other = event.t_ns < last.t_ns && write.value != Some(latched);
        is_other && !(write.reaches_child || is_again || is_back)
    });
    let of_another_thread = writes.iter().find(|(_, event)| event.tid != last.tid);
    let (first, event) = *of_another_thread.or(writes.first())?;
    let clue = about("mask-overwritten", first.event, event)?
        .with(
            "values",
            writes
                .iter()
                .filter_map(|(write, _)| write.value)
                .collect::<Vec<_>>(),
        )
        .with("other_thread", of_another_thread.is_some());
    Some(clue.with("latched", latched).with("by_line", line(last)))
}

/// Variables that are spelt nearly as others, each where it is first written or read.
pub(super) fn misspelled_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let writes = history
        .writes
        .iter()
        .filter_map(|write| Some((write.event, write.name, write.value?)));
    let inits = history.programs.iter().filter_map(|program| {
        let init = program.init()?;
        let (event, _) = *init.begun.last()?;
        Some(
            init.variables()?
                .iter()
                .map(move |(name, value)| (event, name.as_str(), value.as_str())),
        )
    });
    let mut known = HashSet::new();
    let all = writes
        .chain(inits.flatten())
        .filter(|(_, name, value)| known.insert((*name, *value)));
    all.filter_map(|(index, name, value)| misspelt_at(history, index, name, value))
        .collect()
}

fn misspelt_at<'a>(
    history: &History<'a>,
    index: usize,
    name: &str,
    value: &str,
) -> Option<Clue<'a>> {
    let meant = meant_by(name)?;
    let own = history
        .program_of(index)
        .and_then(|own| history.programs.get(own));
    let others = history
        .programs
        .iter()
        .filter(|program| program.variable_at_init(name) == Some(Some(value)));
    let latched = own
        .into_iter()
        .chain(others)
        .find_map(|it| it.variable_at_init(meant))?;
    let clue = about("variable-misspelt", index, history.trace.events.get(index)?)?;
    let clue = clue
        .with("name", name)
        .with("value", value)
        .with("meant", meant);
    (latched != Some(value)).then(|| clue.with("latched", latched.unwrap_or(UNSET)))
}

/// The package whose function the user's line called.
fn package(event: &TraceEvent) -> Option<&str> {
    event.stack.entry()?.package.as_deref()
}

/// The value of a variable at a time after `cuInit`: `None` if unknown, `Some(None)` if it was not set.
fn value_at<'a>(
    program: &ProgramHistory<'a>,
    write: &VariableWrite<'a>,
    t_ns: u64,
) -> Option<Option<&'a str>> {
    let init_ns = program.init()?.t_ns();
    let written = program
        .events
        .iter()
        .rev()
        .find_map(|(_, event)| match &event.what {
            EventKind::Variable { name, value, .. }
                if name == write.name && (init_ns..=t_ns).contains(&event.t_ns) =>
            {
                Some(value.as_deref())
            }
            _ => None,
        });
    written.or(write.latched)
}
