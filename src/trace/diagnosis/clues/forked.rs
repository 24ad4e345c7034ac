//! Children that were forked after `cuInit`.

use super::super::clue::Clue;
use super::{about, called_function, line};
use crate::history::{Fork, ProgramHistory};
use crate::{FrameLanguage, History, TraceEvent, status_name};

pub(super) fn fork_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let forks = history.all_forks();
    forks.filter_map(|fork| fork_clue(history, fork)).collect()
}

fn fork_clue<'a>(history: &History<'a>, fork: Fork<'_, 'a>) -> Option<Clue<'a>> {
    let mut clue = about("forked", fork.event.0, fork.event.1)?
        .with("parent", u64::from(fork.parent))
        .with("contexts", u64::from(fork.contexts));
    if let Some((index, event)) = failed_call(fork) {
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

/// Adds to the clue the `cuInit` that the child has inherited.
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

/// Returns the place of a fork: the user's line, or else the process and what it runs.
fn fork_origin(history: &History<'_>, fork: Fork<'_, '_>) -> String {
    let (_, event) = fork.event;
    if let Some(site) = event.stack.call_site() {
        return site.in_words();
    }
    let parent = history.program_at(fork.parent, event.t_ns);
    let parent = parent.and_then(|parent| history.programs.get(parent));
    match parent.and_then(|parent| parent.process) {
        Some(process) => format!("{} ({})", line(event), process.name()),
        None => line(event),
    }
}

/// Returns the first call of a child that returned an error.
fn failed_call<'a>(fork: Fork<'_, 'a>) -> Option<(usize, &'a TraceEvent)> {
    let mut events = fork.child.events.iter();
    let refused = events.find(|(at, event)| *at > fork.event.0 && event.has_failed());
    refused.copied()
}

/// Returns a call of a program that returned an error, from the counts, because the trace may lack its event.
fn counted_error<'a>(program: &ProgramHistory<'a>) -> Option<&'a str> {
    let mut calls = program.counts?.calls.iter();
    let (call, _) = calls.find(|(_, count)| count.errors > 0)?;
    Some(call)
}

/// Forks at one line of a process without any failed call in a child.
struct SilentForks<'h, 'a> {
    parent: u32,
    line: String,
    first: Fork<'h, 'a>,
    events: Vec<usize>,
    /// `true` if each fork created a worker of PyTorch's data loader.
    is_loader: bool,
}

fn silent_forks<'h, 'a>(history: &'h History<'a>) -> Vec<SilentForks<'h, 'a>> {
    let mut lines: Vec<SilentForks> = Vec::new();
    for fork in history.all_forks() {
        let (index, event) = fork.event;
        let is_seen = failed_call(fork).is_some() || counted_error(fork.child).is_some();
        if is_seen
            || !is_python_child(fork)
            || is_for_exec(event)
            || runs_another(&history.programs, fork)
        {
            continue;
        }
        let (parent, line) = (fork.parent, line(event));
        let is_loader = is_data_loader_worker(event);
        let mut known = lines.iter_mut();
        match known.find(|known| known.parent == parent && known.line == line) {
            Some(known) => {
                known.events.push(index);
                known.is_loader &= is_loader;
            }
            None => lines.push(SilentForks {
                parent,
                line,
                first: fork,
                events: vec![index],
                is_loader,
            }),
        }
    }
    lines
}

/// Returns a clue for each line that forked children without a failed call in the trace. This does not show that CUDA
/// worked: PyTorch rejects CUDA in such a child before it calls the driver, and Numba after a query that is not
/// counted.
pub(super) fn unseen_fork_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let end = history.trace.end.as_ref();
    let ended_well = end.is_some_and(|end| end.code == Some(0));
    let mut clues = Vec::new();
    for forks in silent_forks(history) {
        let (index, event) = forks.first.event;
        let children = match forks.events.len() {
            1 => format!("pid {}", forks.first.child.pid),
            many => format!("{many} processes"),
        };
        let Some(clue) = about("forked-unseen", index, event) else {
            continue;
        };
        let mut clue = clue
            .with("line", fork_origin(history, forks.first))
            .with("children", children)
            .with("would_show", ended_well && forks.is_loader);
        clue.events = forks.events;
        let mut clue = with_init(clue, history, forks.first);
        // If the program's code did not fork, as in a forkserver, the line of `cuInit` comes first, because the user
        // can change that one.
        if event.stack.call_site().is_none() {
            clue.events.rotate_right(1);
        }
        clues.push(clue);
    }
    clues
}

/// Returns `true` if a Python framework may refuse CUDA in the child without a driver call.
fn is_python_child(fork: Fork<'_, '_>) -> bool {
    if let Some(process) = fork.child.process
        && (process.python.is_some() || process.no_python.is_some())
    {
        return true;
    }
    let (_, event) = fork.event;
    let mut frames = event.stack.frames.iter();
    frames.any(|frame| frame.language == FrameLanguage::Python)
}

/// Returns `true` if the child executed another program, which initializes CUDA for itself.
fn runs_another(programs: &[ProgramHistory<'_>], fork: Fork<'_, '_>) -> bool {
    programs.iter().any(|program| {
        let first = program.events.first();
        program.pid == fork.child.pid && first.is_some_and(|(first, _)| *first > fork.event.0)
    })
}

/// Returns `true` if Python forked to run another program: `subprocess` forks first up to Python 3.9, and with a
/// `preexec_fn`. A trace has no line of that program if it makes no call.
fn is_for_exec(event: &TraceEvent) -> bool {
    let mut frames = event.stack.frames.iter();
    match frames.find(|frame| frame.language == FrameLanguage::Python) {
        Some(innermost) => {
            ["_execute_child", "spawnv_passfds"].contains(&innermost.function.as_str())
        }
        None => false,
    }
}

fn is_data_loader_worker(event: &TraceEvent) -> bool {
    event.stack.frames.iter().any(|frame| {
        let file = frame.package_file().unwrap_or_default();
        file.starts_with("torch/utils/data/")
    })
}
