//! The clues of a trace, one file per subject.

mod context;
mod forked;
mod init;
mod limit;
mod shared;
mod variable;

use super::clue::Clue;
use crate::{ContextLife, EventKind, FrameLanguage, FrameOwner, History, Stack, Trace, TraceEvent};

const UNSET: &str = "(unset)";

pub(super) fn all(trace: &Trace) -> Vec<Clue<'_>> {
    let history = History::new(trace);
    let kinds = [
        variable::variable_clues,
        variable::overwritten_clues,
        variable::misspelled_clues,
        context::context_clues,
        context::process_clues,
        forked::fork_clues,
        forked::unseen_fork_clues,
        limit::limit_clues,
        init::init_clues,
        shared::shared_gpu_clues,
    ];
    kinds.iter().flat_map(|clues| clues(&history)).collect()
}

/// Returns the user's line of an event, such as `train.py:12`; else the user's function; else the user's line on
/// another thread at that time; else the process.
pub(crate) fn line(event: &TraceEvent) -> String {
    event.stack.place().unwrap_or_else(|| match event.what {
        EventKind::Forked { parent, .. } => format!("pid {parent}"),
        _ => format!("pid {}", event.pid),
    })
}

/// Returns a clue about an event, with the attributes that every clue has.
fn about<'a>(kind: &str, index: usize, event: &'a TraceEvent) -> Option<Clue<'a>> {
    let clue = Clue::new(kind, event.pid, event.t_ns)?;
    let mut clue = clue
        .with("line", line(event))
        .with("call", event.call.clone())
        .with("through", called_function(event));
    clue.events.push(index);
    clue.stacks.push(&event.stack);
    Some(clue)
}

/// Returns the function that the user's line called, such as `torch.cuda.is_available`.
fn called_function(event: &TraceEvent) -> String {
    // Without a user's frame the entry is only the start of a package's own program.
    let public = match event.stack.user_frame() {
        Some(_) => None,
        None => event.stack.innermost_public(),
    };
    let name = match public {
        Some(frame) => Some(frame.name()),
        None => event.stack.entry_name(),
    };
    name.unwrap_or_else(|| event.call.clone())
}

/// Returns a GPU as users know it: its index in NVML order, or its UUID where the index is not known.
pub(crate) fn gpu_name(trace: &Trace, uuid: Option<&str>) -> String {
    match (trace.gpu_index(uuid), uuid) {
        (Some(index), _) => format!("GPU {index}"),
        (None, Some(uuid)) => uuid.to_owned(),
        (None, None) => "a GPU".to_owned(),
    }
}

/// Returns the total memory of contexts. None if it is unknown for one of them.
fn context_bytes(contexts: &[&ContextLife<'_>]) -> Option<i64> {
    let mut sum = 0_i64;
    for life in contexts {
        sum = sum.saturating_add(life.bytes?);
    }
    Some(sum)
}

/// Returns `true` if a call is made at the end of a device guard: in an `__exit__` that makes the call itself or
/// belongs to a package's module for devices (the `__exit__` of a timer may call anything), in one compiled by Cython,
/// or in the destructor of a C++ guard.
fn leaves_guard(stack: &Stack) -> bool {
    let innermost = stack
        .frames
        .iter()
        .position(|frame| frame.language == FrameLanguage::Python);
    stack.frames.iter().enumerate().any(|(place, frame)| {
        let (function, file) = (frame.name(), frame.file.as_deref().unwrap_or_default());
        let is_of_devices = frame.owner == FrameOwner::Package
            && ["cuda", "device"].iter().any(|word| file.contains(word));
        let is_exit = function.ends_with("__exit__");
        match frame.language {
            FrameLanguage::Python => is_exit && (is_of_devices || Some(place) == innermost),
            FrameLanguage::Native => {
                is_exit || (function.contains('~') && function.to_lowercase().contains("guard"))
            }
        }
    })
}
