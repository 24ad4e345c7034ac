//! Processes that were forked after `cuInit`.

use super::{History, ProgramHistory};
use crate::{EventKind, TraceEvent};

/// A fork after `cuInit`, as the child reported it.
#[derive(Clone, Copy, Debug)]
pub struct Fork<'h, 'a> {
    /// The child.
    pub child: &'h ProgramHistory<'a>,
    /// The event, with its index in the trace.
    pub event: (usize, &'a TraceEvent),
    /// The PID of the process that forked.
    pub parent: u32,
    /// The number of contexts of that process.
    pub contexts: u32,
}

impl<'h, 'a> Fork<'h, 'a> {
    fn after_init(child: &'h ProgramHistory<'a>) -> Option<Fork<'h, 'a>> {
        for (index, event) in &child.events {
            if let EventKind::Forked { parent, contexts } = event.what {
                return Some(Fork {
                    child,
                    event: (*index, event),
                    parent,
                    contexts,
                });
            }
        }
        None
    }
}

impl<'a> History<'a> {
    /// Returns every fork after `cuInit`, in the order of the children's first events.
    pub fn all_forks(&self) -> impl Iterator<Item = Fork<'_, 'a>> {
        self.programs.iter().filter_map(Fork::after_init)
    }

    /// Returns the start of the `cuInit` that the child inherited: the one of its nearest ancestor that called it.
    pub fn inherited_init(&self, fork: &Fork<'_, 'a>) -> Option<(usize, &'a TraceEvent)> {
        let (mut pid, mut index) = (fork.parent, fork.event.0);
        loop {
            let mut last = self.programs.iter().rev();
            let parent = last.find(|program| {
                let first = program.events.first();
                program.pid == pid && first.is_some_and(|(first, _)| *first < index)
            })?;
            if let Some(init) = parent.init()
                && let Some(begun) = init.begun.last()
                && begun.0 < index
            {
                return Some(*begun);
            }
            // Each step goes back in time, so the walk ends even if the document has a cycle of parents.
            let own = Fork::after_init(parent)?;
            if own.event.0 >= index {
                return None;
            }
            (pid, index) = (own.parent, own.event.0);
        }
    }
}
