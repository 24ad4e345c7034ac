//! The contexts of a trace, from creation to end.

use super::ProgramHistory;
use crate::{ContextChange, EventKind, Trace, TraceEvent, Uses};

/// A context: its creation, its end and its use.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextLife<'a> {
    /// The event that created the context.
    pub created: &'a TraceEvent,
    /// The index of that event in the trace.
    pub event: usize,
    /// The program that created the context, by its index in the history.
    pub program: usize,
    /// The event that ended the context; none if it existed until its program ended.
    pub ended: Option<&'a TraceEvent>,
    /// The memory that it uses on its GPU, in bytes, measured as the change while it was created. If something else
    /// changed the memory too: the part that NVML accounts to its process, or else an equal share among the contexts
    /// that were created together. None if neither is known.
    pub bytes: Option<i64>,
    /// The source of other changes to its GPU's memory while it was created.
    pub concurrent: ConcurrentChange,
    /// The number of times that its program used that GPU. None if the trace has no counts of the program.
    pub uses: Option<Uses>,
}

/// The source of other changes to the memory of a context's GPU while the context was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrentChange {
    /// No other change, as far as NVML shows.
    None,
    /// Another context of the trace was created or destroyed.
    OtherContext,
    /// Another process changed the memory, without a context in the trace: the GPU's memory changed by more or less
    /// than NVML accounts to the process of this context.
    OtherProcess,
}

/// In bytes. NVML accounts a part of each context to no process: 4.6 to 5.6 MiB on H100 and H200. While another process
/// was creating a context too, the GPU's memory changed by at least 25 MiB more than NVML accounted.
const UNACCOUNTED_BYTES: u64 = 16 << 20;

impl ContextLife<'_> {
    /// Returns `true` if its program did work on its GPU. None if the trace has no counts of the program.
    pub fn is_used(&self) -> Option<bool> {
        let uses = self.uses?;
        Some(!uses.is_none())
    }

    /// Returns `true` if the counts show that nothing was done in it.
    pub fn is_unused(&self) -> bool {
        self.is_used() == Some(false)
    }

    /// Returns `true` if an event of its program may be the end of this context.
    fn may_end_with(&self, event: &TraceEvent) -> bool {
        let (
            EventKind::Context {
                primary, handle, ..
            },
            EventKind::Context {
                primary: is_primary,
                handle: ended,
                ..
            },
        ) = (&self.created.what, &event.what)
        else {
            return false;
        };
        // The event at the end of a primary context has no handle.
        let is_same = ended == handle || (*ended == 0 && self.created.gpu == event.gpu);
        self.ended.is_none() && primary == is_primary && is_same
    }
}

/// Returns every context, in the order of creation; `program_of` has the index of each event's program.
pub(super) fn all<'a>(
    trace: &'a Trace,
    programs: &[ProgramHistory<'a>],
    program_of: &[usize],
) -> Vec<ContextLife<'a>> {
    let neighbours = Neighbours::new(trace);
    let mut lives: Vec<ContextLife> = Vec::new();
    for ((index, event), program) in trace.events.iter().enumerate().zip(program_of) {
        let EventKind::Context { change, .. } = event.what else {
            continue;
        };
        match change {
            ContextChange::Made => {
                let mut life = neighbours.new_life(trace, (index, event), *program);
                let counts = programs.get(*program).and_then(|program| program.counts);
                if let (Some(gpu), Some(counts)) = (&event.gpu, counts) {
                    life.uses = Some(counts.gpus.get(gpu).copied().unwrap_or_default());
                }
                lives.push(life);
            }
            ContextChange::Failed => {}
            ContextChange::Released | ContextChange::Reset | ContextChange::Destroyed => {
                let mut last = lives.iter_mut().rev();
                if let Some(life) =
                    last.find(|life| life.program == *program && life.may_end_with(event))
                {
                    life.ended = Some(event);
                }
            }
        }
    }
    lives
}

/// The events of contexts, sorted by time.
struct Neighbours<'a> {
    events: Vec<&'a TraceEvent>,
    /// The longest duration of one of these calls.
    longest_ns: u64,
}

impl<'a> Neighbours<'a> {
    fn new(trace: &'a Trace) -> Neighbours<'a> {
        let (mut events, mut longest_ns) = (Vec::new(), 0);
        for event in &trace.events {
            if matches!(event.what, EventKind::Context { .. }) {
                events.push(event);
                longest_ns = event.elapsed_ns.unwrap_or(0).max(longest_ns);
            }
        }
        events.sort_by_key(|event| event.t_ns);
        Neighbours { events, longest_ns }
    }

    /// Returns the context that an event created, still without an end.
    fn new_life(
        &self,
        trace: &Trace,
        (index, event): (usize, &'a TraceEvent),
        program: usize,
    ) -> ContextLife<'a> {
        let gpu = trace.gpu_index(event.gpu.as_deref());
        let change = gpu.and_then(|gpu| event.memory_change(gpu));
        let others = self.overlapping(event);
        let unaccounted = match (change, event.own_bytes) {
            (Some(change), Some(own)) => change.abs_diff(own),
            _ => 0,
        };
        let concurrent = if !others.is_empty() {
            ConcurrentChange::OtherContext
        } else if unaccounted > UNACCOUNTED_BYTES {
            ConcurrentChange::OtherProcess
        } else {
            ConcurrentChange::None
        };
        let is_own = others.iter().all(|other| other.pid != event.pid);
        let bytes = if concurrent == ConcurrentChange::None {
            change
        } else if is_own && event.own_bytes.is_some() {
            event.own_bytes
        } else {
            gpu.and_then(|gpu| self.memory_share(event, gpu))
        };
        ContextLife {
            created: event,
            event: index,
            program,
            ended: None,
            bytes,
            concurrent,
            uses: None,
        }
    }

    /// Returns the other contexts that were created or destroyed on the same GPU at the same time.
    fn overlapping(&self, created: &TraceEvent) -> Vec<&'a TraceEvent> {
        let earliest_ns = created.t_ns.saturating_sub(self.longest_ns);
        let from = self
            .events
            .partition_point(|event| event.t_ns < earliest_ns);
        let to = self
            .events
            .partition_point(|event| event.t_ns <= end_ns(created));
        let mut near = self.events.get(from..to).unwrap_or_default().to_vec();
        near.retain(|other| {
            !std::ptr::eq(created, *other)
                && other.gpu == created.gpu
                && end_ns(other) >= created.t_ns
        });
        near
    }

    /// Returns an equal share of the memory of all contexts that were created on this GPU at the same time, because
    /// contexts on one GPU use the same amount. None if one was destroyed during that time.
    fn memory_share(&self, created: &'a TraceEvent, index: usize) -> Option<i64> {
        let mut group: Vec<&TraceEvent> = vec![created];
        // Each neighbour may overlap with further ones.
        let mut at = 0;
        while let Some(member) = group.get(at).copied() {
            for other in self.overlapping(member) {
                if !group.iter().any(|known| std::ptr::eq(*known, other)) {
                    group.push(other);
                }
            }
            at += 1;
        }
        for event in &group {
            let EventKind::Context {
                change: ContextChange::Made,
                ..
            } = event.what
            else {
                return None;
            };
        }
        let first = group.iter().min_by_key(|event| event.t_ns)?;
        let last = group.iter().max_by_key(|event| end_ns(event))?;
        let before = used_bytes(first, index)?.saturating_sub(first.memory_change(index)?);
        Some(used_bytes(last, index)?.saturating_sub(before) / group.len() as i64)
    }
}

/// NVML's `used` of a GPU after a call, in bytes.
fn used_bytes(event: &TraceEvent, index: usize) -> Option<i64> {
    i64::try_from((*event.used_bytes.get(index)?)?).ok()
}

fn end_ns(event: &TraceEvent) -> u64 {
    event.t_ns.saturating_add(event.elapsed_ns.unwrap_or(0))
}
