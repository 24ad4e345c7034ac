//! Children that were forked after `cuInit`.

use super::super::clue::Clue;
use super::{about, called_function, line};
use crate::history::{Fork, ProgramHistory};
use crate::{FrameLanguage, History, TraceEvent, status_name};

pub(super) fn fork_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    history
        .all_forks()
        .filter_map(|fork| fork_clue(history, fork))
        .collect()
}

fn fork_clue<'a>(history: &History<'a>, fork: Fork<'_, 'a>) -> Option<Clue<'a>> {
    let mut clue = about("forked", fork.event.0, fork.event.1)?
        .with("parent", u64::from(fork.parent))
        .with("contexts", u64::from(fork.contexts));
    let refused = refused(fork);
    if let Some((index, event)) = refused {
        clue = clue
            .with("refused", true)
            .with("refused_call", event.call.as_str())
            .with("refused_line", line(event))
            .with("status", event.status.map(status_name));
        clue.events.push(index);
        clue.stacks.push(&event.stack);
    } else if !runs_another(&history.programs, fork) && fork.child.counts.is_some() {
        let call = counted_error(fork.child);
        clue = clue
            .with("refused", call.is_some())
            .with("refused_call", call);
        // The trace left out the event with the line and the status.
        clue = clue
            .with("refused_line", format!("pid {}", fork.child.pid))
            .with("status", "an error");
    }
    Some(with_init(clue, history, fork))
}

/// The clue with the `cuInit` that the child has inherited.
fn with_init<'a>(clue: Clue<'a>, history: &History<'a>, fork: Fork<'_, 'a>) -> Clue<'a> {
    let Some((index, init)) = history.inherited_init(&fork) else {
        return clue
            .with("init_line", format!("pid {}", fork.parent))
            .with("init_through", "cuInit");
    };
    let mut clue = clue
        .with("init_line", line(init))
        .with("init_through", called_function(init));
    clue.events.push(index);
    clue.stacks.push(&init.stack);
    clue
}

fn has_line(event: &TraceEvent) -> bool {
    event
        .stack
        .user_frame()
        .or_else(|| event.stack.users_meanwhile())
        .is_some()
}

/// Where a process forked: the user's line, or else the process and what it runs.
fn fork_origin(history: &History<'_>, fork: Fork<'_, '_>) -> String {
    let parent = history
        .program_at(fork.parent, fork.event.1.t_ns)
        .and_then(|parent| history.programs.get(parent));
    let process = parent
        .and_then(|parent| parent.process)
        .filter(|_| !has_line(fork.event.1));
    line(fork.event.1)
        + &process
            .map(|process| format!(" ({})", process.name()))
            .unwrap_or_default()
}

/// The first call of a child that returned an error.
fn refused<'a>(fork: Fork<'_, 'a>) -> Option<(usize, &'a TraceEvent)> {
    fork.child
        .events
        .iter()
        .copied()
        .find(|(at, event)| *at > fork.event.0 && event.has_failed())
}

/// A call of a program that returned an error, by the counts: the trace may lack its event.
fn counted_error<'a>(program: &ProgramHistory<'a>) -> Option<&'a str> {
    program
        .counts?
        .calls
        .iter()
        .find(|(_, count)| count.errors > 0)
        .map(|(call, _)| call.as_str())
}

/// A clue for each line that forked children without a refused call in the trace. This does not show that CUDA worked:
/// PyTorch refuses CUDA in such a child before it calls the driver, and Numba after a query that is not counted.
pub(super) fn unseen_fork_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let trace = history.trace;
    let mut lines: Vec<((u32, String), Vec<Fork<'_, 'a>>)> = Vec::new();
    for fork in history.all_forks() {
        let is_seen = refused(fork).is_some() || counted_error(fork.child).is_some();
        if is_seen
            || !is_of_python(fork)
            || is_for_exec(fork.event.1)
            || runs_another(&history.programs, fork)
        {
            continue;
        }
        let key = (fork.parent, line(fork.event.1));
        match lines.iter_mut().find(|(known, _)| *known == key) {
            Some((_, forks)) => forks.push(fork),
            None => lines.push((key, vec![fork])),
        }
    }
    let ended_well = trace.end.as_ref().is_some_and(|end| end.code == Some(0));
    let mut clues = Vec::new();
    for (_, forks) in lines {
        let Some(first) = forks.first().copied() else {
            continue;
        };
        let children = match forks.len() {
            1 => format!("pid {}", first.child.pid),
            many => format!("{many} processes"),
        };
        let Some(clue) = about("forked-unseen", first.event.0, first.event.1) else {
            continue;
        };
        let mut clue = clue
            .with("line", fork_origin(history, first))
            .with("children", children)
            .with(
                "would_show",
                ended_well && forks.iter().all(|fork| is_of_loader(fork.event.1)),
            );
        clue.events = forks.iter().map(|fork| fork.event.0).collect();
        let mut clue = with_init(clue, history, first);
        // Where no line of the program forked, as in a forkserver, the one that can be mended comes first.
        if !has_line(first.event.1) {
            clue.events.rotate_right(1);
        }
        clues.push(clue);
    }
    clues
}

/// Whether a Python framework may refuse CUDA in the child without a driver call.
fn is_of_python(fork: Fork<'_, '_>) -> bool {
    fork.child
        .process
        .is_some_and(|process| process.python.is_some() || process.no_python.is_some())
        || fork
            .event
            .1
            .stack
            .frames
            .iter()
            .any(|frame| frame.language == FrameLanguage::Python)
}

/// Whether the child executed another program, which initialises CUDA for itself.
fn runs_another(programs: &[ProgramHistory<'_>], fork: Fork<'_, '_>) -> bool {
    let mut first = programs
        .iter()
        .filter(|it| it.pid == fork.child.pid)
        .filter_map(|it| it.events.first());
    first.any(|(first, _)| *first > fork.event.0)
}

/// Whether Python forked to run another program: up to 3.9, and where there is a `preexec_fn`, `subprocess` forks first. A
/// trace has no line of that program if it makes no call.
fn is_for_exec(event: &TraceEvent) -> bool {
    let innermost = event
        .stack
        .frames
        .iter()
        .find(|frame| frame.language == FrameLanguage::Python);
    innermost.is_some_and(|frame| {
        ["_execute_child", "spawnv_passfds"].contains(&frame.function.as_str())
    })
}

fn is_of_loader(event: &TraceEvent) -> bool {
    let mut files = event
        .stack
        .frames
        .iter()
        .filter_map(|frame| frame.package_file());
    files.any(|file| file.starts_with("torch/utils/data/"))
}
