//! Contexts, and how each process used them.

use std::collections::HashSet;

use super::super::clue::Clue;
use super::{about, context_bytes, gpu_name, leaves_guard, line};
use crate::history::ProgramHistory;
use crate::stack::selects_device;
use crate::{ContextChange, ContextLife, EventKind, GpuUse, History, Trace, TraceEvent};

/// The text for an unknown ordinal.
const SOME_ORDINAL: &str = "N";

pub(super) fn context_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for program in &history.programs {
        for place in 0..program.contexts.len() {
            clues.extend(context_clue(history.trace, program, place));
        }
    }
    clues
}

/// Returns a clue about one context of a program, by its index.
fn context_clue<'a>(
    trace: &'a Trace,
    program: &ProgramHistory<'a>,
    place: usize,
) -> Option<Clue<'a>> {
    let (before, rest) = program.contexts.split_at_checked(place)?;
    let life = rest.first()?;
    let created = life.created;
    let own = worked_on(program, created.gpu.as_deref());
    let own_gpu = match own {
        Some(own) => gpu_name(trace, own.created.gpu.as_deref()),
        None => "another GPU".to_owned(),
    };
    let is_elsewhere = before.iter().any(|other| other.created.gpu != created.gpu);
    let last = before.last();
    let pinned = pinned_next(program, life);
    let mut clue = about("context-made", life.event, created)?
        .with("gpu", gpu_name(trace, created.gpu.as_deref()))
        .with("elsewhere", is_elsewhere)
        .with("only", program.gpus().len() == 1)
        .with("own", own_ordinal(own))
        .with("own_gpu", own_gpu)
        .with("leaves_guard", leaves_guard(&created.stack))
        .with(
            "goes_back",
            last.is_some_and(|last| goes_back(last.created, created)),
        )
        .with("unselected_thread", is_of_unselected_thread(program, life))
        .with("host_memory_follows", pinned.is_some())
        .with("ordinal", created.device)
        .with("bytes", life.bytes)
        .with("used", life.is_used());
    if let EventKind::Context { primary, .. } = created.what {
        clue = clue.with("primary", primary);
    }
    clue.gpu.clone_from(&created.gpu);
    clue.bytes = life.bytes;
    if let Some((at, fault)) = fault_after(program, life) {
        clue = clue
            .with("illegal_address", true)
            .with("fault_line", line(fault))
            .with("fault_call", fault.call.as_str());
        clue.events.push(at);
        clue.stacks.push(&fault.stack);
    }
    if let Some(next) = pinned {
        // The request for the memory explains the context.
        clue.stacks.push(&next.stack);
    }
    Some(clue)
}

/// Returns `true` if a context was created on a thread that had selected no device, in a process whose other threads
/// work elsewhere. None if it is not known whether the thread had a current context.
fn is_of_unselected_thread(program: &ProgramHistory<'_>, life: &ContextLife<'_>) -> Option<bool> {
    let created = life.created;
    let EventKind::Context {
        primary: true,
        current: Some(has_selected),
        ..
    } = created.what
    else {
        return None;
    };
    if created.stack.frames.is_empty() {
        return None;
    }
    if has_selected || selects_device(&created.stack) {
        return Some(false);
    }
    let own = created.stack.users_all();
    let mut follows_another = false;
    for other in &program.contexts {
        let other = other.created;
        if other.gpu == created.gpu {
            continue;
        }
        // Code that runs once per GPU selects each GPU.
        if !own.is_empty() && other.stack.users_all() == own {
            return Some(false);
        }
        follows_another |= other.t_ns <= created.t_ns && other.tid != created.tid;
    }
    let gpu = created.gpu.as_deref();
    let is_alone = follows_another && !has_thread_on_both(program, gpu);
    Some(is_alone && worked_on(program, gpu).is_some())
}

/// Returns `true` if a thread worked on this GPU and on another one. A thread that releases contexts at the end has not
/// worked on their GPUs, and a thread that copies only fetches existing data.
fn has_thread_on_both(program: &ProgramHistory<'_>, gpu: Option<&str>) -> bool {
    let (mut here, mut elsewhere) = (HashSet::new(), HashSet::new());
    for (_, event) in &program.events {
        let is_work = match event.what {
            EventKind::Context { change, .. } => change == ContextChange::Made,
            EventKind::FirstUse { usage } => usage != GpuUse::Copy,
            _ => false,
        };
        if !is_work {
            continue;
        }
        if event.gpu.as_deref() == gpu {
            here.insert(event.tid);
        } else {
            elsewhere.insert(event.tid);
        }
    }
    !here.is_disjoint(&elsewhere)
}

/// Returns a context of the process on another GPU, if it did work there.
fn worked_on<'p, 'a>(
    program: &'p ProgramHistory<'a>,
    but: Option<&str>,
) -> Option<&'p ContextLife<'a>> {
    let mut contexts = program.contexts.iter();
    contexts.find(|life| life.created.gpu.as_deref() != but && life.is_used() == Some(true))
}

fn own_ordinal(own: Option<&ContextLife<'_>>) -> String {
    match own.and_then(|own| own.created.device) {
        Some(ordinal) => ordinal.to_string(),
        None => SOME_ORDINAL.to_owned(),
    }
}

/// Returns the thread's next event if it requests page-locked host memory. Skips loading code, which comes with a
/// context.
fn pinned_next<'a>(program: &ProgramHistory<'a>, life: &ContextLife<'_>) -> Option<&'a TraceEvent> {
    for (at, event) in &program.events {
        let is_later = *at > life.event && event.tid == life.created.tid;
        match event.what {
            EventKind::HostMemory { .. } if is_later => return Some(event),
            EventKind::Module => {}
            _ if is_later => return None,
            _ => {}
        }
    }
    None
}

/// Returns the first call that returned CUDA_ERROR_ILLEGAL_ADDRESS after the process had used the GPU of a context.
/// Later calls return it too; the cause lies before the first.
fn fault_after<'a>(
    program: &ProgramHistory<'a>,
    life: &ContextLife<'_>,
) -> Option<(usize, &'a TraceEvent)> {
    const ILLEGAL_ADDRESS: i64 = 700;
    let mut is_used = false;
    for (at, event) in &program.events {
        if event.status == Some(ILLEGAL_ADDRESS) {
            return is_used.then_some((*at, event));
        }
        is_used |= *at >= life.event
            && event.gpu == life.created.gpu
            && matches!(event.what, EventKind::FirstUse { .. });
    }
    None
}

/// Returns `true` if a user's line is above another in the same function, because `with` returns to its first line when
/// it ends.
fn goes_back(before: &TraceEvent, now: &TraceEvent) -> bool {
    let (Some(before), Some(now)) = (before.stack.user_frame(), now.stack.user_frame()) else {
        return false;
    };
    let (Some(line), Some(next_line)) = (before.line, now.line) else {
        return false;
    };
    let is_same = (&before.file, &before.function) == (&now.file, &now.function);
    before.file.is_some() && is_same && next_line < line
}

/// Returns a clue for each process that created a context, about all its contexts.
pub(super) fn process_clues<'a>(history: &History<'a>) -> Vec<Clue<'a>> {
    let mut clues = Vec::new();
    for program in &history.programs {
        clues.extend(process_clue(history.trace, program));
    }
    clues
}

fn process_clue<'a>(trace: &'a Trace, program: &ProgramHistory<'a>) -> Option<Clue<'a>> {
    let gpus = program.gpus();
    let mut unused: Vec<&ContextLife> = program.contexts.iter().collect();
    unused.retain(|life| program.used(life.created.gpu.as_deref()) == Some(false));
    // The clue is at the first of them, or at the first context if the list is empty.
    let first = *unused.first().or(gpus.first())?;
    let (mut used, mut is_known) = (0, true);
    for life in &gpus {
        match program.used(life.created.gpu.as_deref()) {
            Some(true) => used += 1,
            Some(false) => {}
            None => is_known = false,
        }
    }
    let mut names = Vec::new();
    for life in &unused {
        names.push(gpu_name(trace, life.created.gpu.as_deref()));
    }
    names.dedup();
    let bytes = context_bytes(&unused);
    let mut clue = about("process-contexts", first.event, first.created)?
        .with("used", is_known.then_some(used))
        .with("unused", names)
        .with("at_once", made_at_once(program, &gpus))
        .with("own", own_ordinal(worked_on(program, None)))
        .with("bytes", bytes);
    if let Some(visible) = program.visible() {
        let has_context = |gpu: &String| {
            gpus.iter()
                .any(|life| life.created.gpu.as_ref() == Some(gpu))
        };
        let on_every = !visible.is_empty() && visible.iter().all(has_context);
        clue = clue
            .with("visible", visible.len())
            .with("several", visible.len() > 1)
            .with("on_every", on_every);
    }
    clue.bytes = bytes;
    if !unused.is_empty() {
        clue.events = unused.iter().map(|life| life.event).collect();
    }
    Some(clue)
}

/// Returns `true` if the process used no GPU between its first context and the first context on the last GPU.
fn made_at_once(program: &ProgramHistory<'_>, gpus: &[&ContextLife<'_>]) -> bool {
    let (Some(first), Some(last)) = (gpus.first(), gpus.last()) else {
        return false;
    };
    let span = first.event..last.event;
    !program.events.iter().any(|(index, event)| {
        span.contains(index) && matches!(event.what, EventKind::FirstUse { .. })
    })
}
