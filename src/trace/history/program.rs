//! A program of a trace.

use super::{ContextLife, Init};
use crate::{ProcessCounts, TraceEvent, TraceProcess};

/// A program: a process from its start, or from an `exec`, until the next `exec`.
#[derive(Clone, Debug)]
pub struct ProgramHistory<'a> {
    /// The PID of the program, which it shares with the programs before and after an `exec`.
    pub pid: u32,
    /// The program's line in the trace, if it has one.
    pub process: Option<&'a TraceProcess>,
    /// The program's events with their indices, sorted by time.
    pub events: Vec<(usize, &'a TraceEvent)>,
    /// The program's contexts, in the order of creation.
    pub contexts: Vec<ContextLife<'a>>,
    /// The program's `cuInit` calls, sorted by time.
    pub inits: Vec<Init<'a>>,
    /// The program's totals, if the trace has them.
    pub counts: Option<&'a ProcessCounts>,
}

impl<'a> ProgramHistory<'a> {
    pub(super) fn new(pid: u32, process: Option<&'a TraceProcess>) -> ProgramHistory<'a> {
        let (events, contexts, inits) = Default::default();
        ProgramHistory {
            pid,
            process,
            events,
            contexts,
            inits,
            counts: None,
        }
    }

    /// Returns the `cuInit` that counts: the first that succeeded, else the first without a recorded return, else the
    /// first that failed.
    pub fn init(&self) -> Option<&Init<'a>> {
        let succeeded = self.inits.iter().find(|init| init.has_succeeded());
        succeeded
            .or_else(|| self.inits.iter().find(|init| !init.has_failed()))
            .or(self.inits.first())
    }

    /// Returns `true` if a `cuInit` was seen to succeed.
    pub fn has_initialised(&self) -> bool {
        self.init().is_some_and(Init::has_succeeded)
    }

    /// Returns the `cuInit` that counts, if it succeeded before a time. A `cuInit` without a recorded return counts as
    /// successful. A `cuInit` that failed because the trace has no device counts as successful too.
    pub fn init_before(&self, t_ns: u64, has_no_device: bool) -> Option<&Init<'a>> {
        let init = self.init()?;
        if init.has_failed() && !has_no_device {
            return None;
        }
        let is_before = match init.returned {
            Some((_, returned)) => returned.t_ns <= t_ns,
            None => init.t_ns() < t_ns,
        };
        is_before.then_some(init)
    }

    /// Returns the value of a variable at the `cuInit` that counts: `None` if unknown, `Some(None)` if it was not set.
    pub fn variable_at_init(&self, name: &str) -> Option<Option<&'a str>> {
        self.init()?.value(name)
    }

    /// Returns the UUIDs of its visible GPUs, by CUDA ordinal. None if no `cuInit` is known to have succeeded.
    pub fn visible(&self) -> Option<&'a [String]> {
        self.init()?.visible().map(|(_, gpus)| gpus)
    }

    /// Returns `true` if it did work on a GPU. None if it has no context there, or the trace has no counts of it.
    pub fn used(&self, gpu: Option<&str>) -> Option<bool> {
        let mut contexts = self.contexts.iter();
        contexts
            .find(|life| life.created.gpu.as_deref() == gpu)?
            .is_used()
    }

    /// Returns `true` if the program created contexts but is known to have done no work on any GPU.
    pub fn is_idle(&self) -> bool {
        !self.contexts.is_empty() && self.contexts.iter().all(ContextLife::is_unused)
    }

    /// Returns `true` if another program may have run at the same time; the trace may lack the end of either.
    pub fn ran_beside(&self, other: &ProgramHistory<'_>) -> bool {
        self.began_ns() <= other.ended_ns() && other.began_ns() <= self.ended_ns()
    }

    /// Returns the time when it was noticed; 0 if the trace has no line of it.
    pub(super) fn began_ns(&self) -> u64 {
        self.process.map_or(0, |process| process.t_ns)
    }

    fn ended_ns(&self) -> u64 {
        match self.counts {
            Some(counts) if counts.t_ns > 0 => counts.t_ns,
            _ => u64::MAX,
        }
    }

    /// Returns the first context on each GPU, in the order of creation.
    pub fn gpus(&self) -> Vec<&ContextLife<'a>> {
        let mut gpus: Vec<&ContextLife<'a>> = Vec::new();
        for life in &self.contexts {
            if gpus
                .iter()
                .all(|known| known.created.gpu != life.created.gpu)
            {
                gpus.push(life);
            }
        }
        gpus
    }

    /// Returns the time of its first context.
    pub fn first_context_ns(&self) -> Option<u64> {
        Some(self.contexts.first()?.created.t_ns)
    }

    /// Returns the time of its last event, or 0.
    pub fn last_seen_ns(&self) -> u64 {
        self.events.last().map_or(0, |(_, event)| event.t_ns)
    }
}
