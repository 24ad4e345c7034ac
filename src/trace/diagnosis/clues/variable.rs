//! Writes of variables that CUDA reads.

use std::collections::HashMap;

use super::super::clue::Clue;
use super::{UNSET, about};
use crate::history::{ProgramHistory, VariableWrite, is_read_by_cuinit};
use crate::{EventKind, History};

pub(super) fn clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut at_context: HashMap<(usize, &str), Option<Option<&str>>> = HashMap::new();
    let mut clues = Vec::new();
    for write in &history.writes {
        let Some(program) = history.programs.get(write.program) else { continue };
        let Some(event) = history.trace.events.get(write.event) else { continue };
        let Some(clue) = about("variable-written", write.event, event) else { continue };
        let after_context = program.first_context_ns().is_some_and(|made| made < event.t_ns);
        let changes = match program.first_context_ns().filter(|_| after_context) {
            // A variable that is read at context creation may be written after `cuInit`.
            Some(made) if !is_read_by_cuinit(write.name) => {
                let key = (write.program, write.name);
                let before = at_context.entry(key).or_insert_with(|| value_at(program, write, made));
                before.map(|before| before != write.value)
            }
            _ => write.differs,
        };
        let mut clue = clue
            .with("name", write.name)
            .with("value", write.value.unwrap_or(UNSET))
            .with("read_by_cuinit", is_read_by_cuinit(write.name))
            .with("after_init", write.after_init_ns.is_some())
            .with("after_context", after_context)
            .with("reaches_child", write.reaches_child)
            .with("latched", write.latched.map(|latched| latched.unwrap_or(UNSET)))
            .with("changes", changes)
            .with("late", write.after_init_ns);
        let init = program.init().filter(|_| write.after_init_ns.is_some());
        if let Some((index, init)) = init.and_then(|init| init.begun.last()) {
            clue.events.push(*index);
            clue.stacks.push(&init.stack);
        }
        clues.push(clue);
    }
    clues
}

/// The value of a variable at a time after `cuInit`: `None` if unknown, `Some(None)` if it was not set.
fn value_at<'a>(program: &ProgramHistory<'a>, write: &VariableWrite<'a>, t_ns: u64) -> Option<Option<&'a str>> {
    let init_ns = program.init()?.t_ns();
    let written = program.events.iter().rev().find_map(|(_, event)| match &event.what {
        EventKind::Variable { name, value, .. } if name == write.name && (init_ns..=t_ns).contains(&event.t_ns) => {
            Some(value.as_deref())
        }
        _ => None,
    });
    written.or(write.latched)
}
