//! The contexts of a trace, each from its making to its end.

use super::{ContextChange, Counts, Event, Trace, Uses, What};

/// One context: where it was made, where it ended, and what was done in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextLife<'a> {
    /// The event that made it.
    pub made: &'a Event,
    /// The event that ended it; none if it stayed until its process ended.
    pub ended: Option<&'a Event>,
    /// How the memory of its own GPU changed while it was made, in bytes.
    pub bytes: Option<i64>,
    /// What its process did on that GPU; none where the counts of the process are not known.
    pub uses: Option<Uses>,
    /// Its place among the contexts that its process made, from 0.
    pub ordinal: usize,
}

impl ContextLife<'_> {
    /// Whether nothing was done in it, as far as it is known.
    pub fn is_unused(&self) -> bool {
        self.uses.is_some_and(|uses| uses.is_none())
    }
}

/// Every context that was made, in the order of time.
pub fn contexts(trace: &Trace) -> Vec<ContextLife<'_>> {
    let mut lives: Vec<ContextLife> = Vec::new();
    for event in &trace.events {
        let What::Context { change, handle, .. } = event.what else { continue };
        match change {
            ContextChange::Made => {
                let ordinal = lives.iter().filter(|life| life.made.pid == event.pid).count();
                let index = trace.gpu_index(event.gpu.as_deref());
                let bytes = index.and_then(|index| event.memory_bytes.get(index).copied().flatten());
                let uses = event.gpu.as_deref().and_then(|gpu| uses_of(&trace.counts, event.pid, gpu));
                lives.push(ContextLife { made: event, ended: None, bytes, uses, ordinal });
            }
            ContextChange::Failed => {}
            ContextChange::Released | ContextChange::Reset | ContextChange::Destroyed => {
                let is_it = |life: &&mut ContextLife| {
                    let What::Context { handle: of, .. } = life.made.what else { return false };
                    life.ended.is_none()
                        && life.made.pid == event.pid
                        && (of == handle || (handle == 0 && life.made.gpu == event.gpu))
                };
                if let Some(life) = lives.iter_mut().rev().find(is_it) {
                    life.ended = Some(event);
                }
            }
        }
    }
    lives
}

fn uses_of(counts: &[Counts], pid: u32, gpu: &str) -> Option<Uses> {
    counts.iter().find(|counts| counts.pid == pid).map(|counts| counts.gpus.get(gpu).copied().unwrap_or_default())
}
