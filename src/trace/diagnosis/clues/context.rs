//! Contexts, and how each process used them.

use std::collections::HashSet;

use super::super::clue::Clue;
use super::{about, gpu_name, leaves_guard, line, saturating_sum};
use crate::history::ProgramHistory;
use crate::stack::selects_device;
use crate::{ContextChange, ContextLife, EventKind, GpuUse, History, Trace, TraceEvent};

/// The text for an unknown ordinal.
const SOME_ORDINAL: &str = "N";

pub(super) fn context_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let trace = history.trace;
    let mut clues = Vec::new();
    for program in &history.programs {
        let gpus = program.gpus();
        for (place, (index, life)) in program.contexts.iter().enumerate() {
            let (index, made) = (*index, life.made);
            let Some(clue) = about("context-made", index, made) else {
                continue;
            };
            let before = program.contexts.get(..place).unwrap_or_default();
            let own = worked_on(program, made.gpu.as_deref());
            let pinned = pinned_next(program, index, made);
            let own_gpu = own.map_or("another GPU".to_owned(), |own| {
                gpu_name(trace, own.made.gpu.as_deref())
            });
            let mut clue = clue
                .with("gpu", gpu_name(trace, made.gpu.as_deref()))
                .with(
                    "elsewhere",
                    before.iter().any(|(_, other)| other.made.gpu != made.gpu),
                )
                .with("only", gpus.len() == 1)
                .with("own", own_ordinal(own))
                .with("own_gpu", own_gpu)
                .with("leaves_guard", leaves_guard(&made.stack))
                .with(
                    "goes_back",
                    before
                        .last()
                        .is_some_and(|(_, last)| goes_back(last.made, made)),
                )
                .with("unselected_thread", is_of_unselected_thread(program, life))
                .with("host_memory_follows", pinned.is_some())
                .with("ordinal", made.device.map(i64::from))
                .with("bytes", life.bytes)
                .with("used", life.uses.map(|uses| !uses.is_none()));
            if let EventKind::Context { primary, .. } = made.what {
                clue = clue.with("primary", primary);
            }
            clue.gpu.clone_from(&made.gpu);
            clue.bytes = life.bytes;
            if let Some((at, fault)) = fault_after(program, index, made) {
                clue = clue
                    .with("illegal_address", true)
                    .with("fault_line", line(fault))
                    .with("fault_call", fault.call.as_str());
                clue.events.push(at);
                clue.stacks.push(&fault.stack);
            }
            // What asked for the memory explains the context.
            clue.stacks.extend(pinned.map(|next| &next.stack));
            clues.push(clue);
        }
    }
    clues
}

/// Whether a context was made on a thread that had selected no device, in a process whose other threads work elsewhere.
/// None if it is not known whether the thread had a current context.
fn is_of_unselected_thread(program: &ProgramHistory<'_>, life: &ContextLife<'_>) -> Option<bool> {
    let made = life.made;
    let EventKind::Context {
        primary: true,
        current: Some(has_selected),
        ..
    } = made.what
    else {
        return None;
    };
    if made.stack.frames.is_empty() {
        return None;
    }
    let is_asked_for = has_selected || selects_device(&made.stack);
    let own = made.stack.users_all();
    let mut others = program
        .contexts
        .iter()
        .map(|(_, other)| other.made)
        .filter(|other| other.gpu != made.gpu);
    // Code that runs once for each GPU selects each.
    if is_asked_for
        || (!own.is_empty() && others.clone().any(|other| other.stack.users_all() == own))
    {
        return Some(false);
    }
    let work = program.events.iter().map(|(_, event)| *event);
    // A thread that releases contexts at the end has not worked on their GPUs, and one that copies fetches what is there.
    let work = work.filter(|event| match event.what {
        EventKind::Context { change, .. } => change == ContextChange::Made,
        EventKind::FirstUse { usage } => usage != GpuUse::Copy,
        _ => false,
    });
    let (here, elsewhere): (Vec<_>, Vec<_>) = work.partition(|event| event.gpu == made.gpu);
    let is_of_both = here
        .iter()
        .any(|event| elsewhere.iter().any(|other| other.tid == event.tid));
    let has_others = others.any(|other| other.t_ns <= made.t_ns && other.tid != made.tid);
    Some(has_others && !is_of_both && worked_on(program, made.gpu.as_deref()).is_some())
}

/// A context of the process on another GPU, with work.
fn worked_on<'p, 'a>(
    program: &'p ProgramHistory<'a>,
    but: Option<&str>,
) -> Option<&'p ContextLife<'a>> {
    let mut others = program
        .contexts
        .iter()
        .map(|(_, life)| life)
        .filter(|life| life.made.gpu.as_deref() != but);
    others.find(|life| life.uses.is_some_and(|uses| !uses.is_none()))
}

fn own_ordinal(own: Option<&ContextLife<'_>>) -> String {
    own.and_then(|own| own.made.device)
        .map_or(SOME_ORDINAL.to_owned(), |ordinal| ordinal.to_string())
}

/// The next event of the thread, except loading code, which comes with a context; none unless it asks for page-locked
/// host memory.
fn pinned_next<'a>(
    program: &ProgramHistory<'a>,
    index: usize,
    made: &TraceEvent,
) -> Option<&'a TraceEvent> {
    let after = program
        .events
        .iter()
        .filter(|(at, event)| *at > index && event.tid == made.tid);
    let (_, next) = after
        .copied()
        .find(|(_, event)| !matches!(event.what, EventKind::Module))?;
    matches!(next.what, EventKind::HostMemory { .. }).then_some(next)
}

/// The first call that returned CUDA_ERROR_ILLEGAL_ADDRESS after the process had used the GPU of a context. Later calls
/// return it too; the cause lies before the first.
fn fault_after<'a>(
    program: &ProgramHistory<'a>,
    index: usize,
    made: &TraceEvent,
) -> Option<(usize, &'a TraceEvent)> {
    const ILLEGAL_ADDRESS: i64 = 700;
    let first = program
        .events
        .iter()
        .copied()
        .find(|(_, event)| event.status == Some(ILLEGAL_ADDRESS))?;
    let between = program
        .events
        .iter()
        .filter(|(at, event)| (index..first.0).contains(at) && event.gpu == made.gpu);
    between
        .into_iter()
        .any(|(_, event)| matches!(event.what, EventKind::FirstUse { .. }))
        .then_some(first)
}

/// Whether a user's line is above another in the same function: `with` returns to its first line when it ends.
fn goes_back(before: &TraceEvent, now: &TraceEvent) -> bool {
    before
        .stack
        .user_frame()
        .zip(now.stack.user_frame())
        .is_some_and(|(before, now)| {
            before.file.is_some()
                && (&before.file, &before.function) == (&now.file, &now.function)
                && before
                    .line
                    .zip(now.line)
                    .is_some_and(|(before, now)| now < before)
        })
}

/// A clue for each process that made a context, about all of them.
pub(super) fn of_processes<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    history
        .programs
        .iter()
        .filter_map(|program| of_process(history.trace, program))
        .collect()
}

fn of_process<'a>(trace: &'a Trace, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let gpus = program.gpus();
    let unused: Vec<&(usize, ContextLife)> = program
        .contexts
        .iter()
        .filter(|(_, life)| program.used(life.made.gpu.as_deref()) == Some(false))
        .collect();
    // The clue is at the first of them, or at the first context if there are none.
    let (index, life) = unused
        .first()
        .map(|(index, life)| (*index, life))
        .or_else(|| gpus.first().copied())?;
    let clue = about("process-contexts", index, life.made)?;
    let uses: Option<Vec<bool>> = gpus
        .iter()
        .map(|(_, life)| program.used(life.made.gpu.as_deref()))
        .collect();
    let mut names: Vec<String> = unused
        .iter()
        .map(|(_, life)| gpu_name(trace, life.made.gpu.as_deref()))
        .collect();
    names.dedup();
    let bytes = saturating_sum(unused.iter().map(|(_, life)| life.bytes));
    let mut clue = clue
        .with(
            "used",
            uses.map(|uses| uses.into_iter().filter(|used| *used).count()),
        )
        .with("unused", names)
        .with("at_once", made_at_once(program, &gpus))
        .with("own", own_ordinal(worked_on(program, None)))
        .with("bytes", bytes);
    if let Some(visible) = program.visible() {
        let made: HashSet<&str> = gpus
            .iter()
            .filter_map(|(_, life)| life.made.gpu.as_deref())
            .collect();
        clue = clue
            .with("visible", visible.len())
            .with("several", visible.len() > 1)
            .with(
                "on_every",
                !visible.is_empty() && visible.iter().all(|gpu| made.contains(gpu.as_str())),
            );
    }
    clue.bytes = bytes;
    clue.events = unused.iter().map(|(index, _)| *index).collect();
    if clue.events.is_empty() {
        clue.events.push(index);
    }
    Some(clue)
}

/// Whether the process used no GPU between the first of its contexts and the first on the last GPU.
fn made_at_once(program: &ProgramHistory<'_>, gpus: &[(usize, &ContextLife<'_>)]) -> bool {
    let (Some((first, _)), Some((last, _))) = (gpus.first(), gpus.last()) else {
        return false;
    };
    let between = program
        .events
        .iter()
        .filter(|(index, _)| (first..last).contains(&index));
    !between
        .into_iter()
        .any(|(_, event)| matches!(event.what, EventKind::FirstUse { .. }))
}
