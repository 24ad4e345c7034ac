//! The `cuInit` calls of a program.

use std::collections::BTreeMap;

use super::MASK;
use crate::{EventKind, EventSource, TraceEvent};

/// A `cuInit` call: its start, the variables it read, and its status. Concurrent calls of several threads count as one.
#[derive(Clone, Debug)]
pub struct Init<'a> {
    /// The events of the call by their index in the trace, sorted by time.
    pub events: Vec<usize>,
    /// The start as each witness saw it: the event, with its index.
    pub begun: Vec<(usize, &'a TraceEvent)>,
    /// The event of its return, with its index. If several calls returned, the one that succeeded.
    pub returned: Option<(usize, &'a TraceEvent)>,
    /// The first event, of any type.
    pub first: &'a TraceEvent,
    /// The mask that libcuda read. The last read counts, because a hook may change the mask in between.
    mask: Option<Option<&'a str>>,
    returns: usize,
}

impl<'a> Init<'a> {
    /// Returns every `cuInit` among the events of one program, sorted by time.
    pub(super) fn all(events: &[(usize, &'a TraceEvent)]) -> Vec<Init<'a>> {
        let mut inits: Vec<Init<'a>> = Vec::new();
        for &(index, event) in events {
            let last = inits.last_mut();
            let own = match &event.what {
                EventKind::Init { witness, .. } => last.filter(|init| init.is_missing(*witness)),
                // A read of the mask after a successful `cuInit` has no effect.
                EventKind::MaskRead { .. } => {
                    last.filter(|init| init.lacks_mask() || init.has_succeeded())
                }
                EventKind::InitDone { .. } => last.filter(|init| init.lacks_return()),
                _ => continue,
            };
            match own {
                Some(init) => init.take(index, event),
                None => inits.push(Init::new(index, event)),
            }
        }
        inits
    }

    fn new(index: usize, event: &'a TraceEvent) -> Init<'a> {
        let (events, begun, returned, mask, returns) = Default::default();
        let mut init = Init {
            events,
            begun,
            returned,
            first: event,
            mask,
            returns,
        };
        init.take(index, event);
        init
    }

    /// Returns `true` if an event of this witness still belongs to this call. Events arrive late if their thread
    /// waited.
    fn is_missing(&self, witness: EventSource) -> bool {
        self.returned.is_none() || !self.is_seen_by(witness)
    }

    fn lacks_mask(&self) -> bool {
        self.returned.is_none() || self.mask.is_none()
    }

    fn lacks_return(&self) -> bool {
        let mut begun = self.begun.clone();
        begun.retain(|(_, event)| is_by(event, EventSource::Forwarding));
        self.returns < begun.len().max(1)
    }

    fn take(&mut self, index: usize, event: &'a TraceEvent) {
        self.events.push(index);
        match &event.what {
            EventKind::Init { .. } => self.begun.push((index, event)),
            EventKind::MaskRead { value, .. } if self.lacks_mask() => {
                self.mask = Some(value.as_deref())
            }
            EventKind::InitDone { visible, .. } => {
                self.returns += 1;
                if self.returned.is_none() || (visible.is_some() && !self.has_succeeded()) {
                    self.returned = Some((index, event));
                }
            }
            _ => {}
        }
    }

    /// Returns the time when `cuInit` read the environment variables: that of its last recorded start, because the
    /// driver calls the injection hook right before it reads them. A variable set after this time is late.
    pub fn t_ns(&self) -> u64 {
        self.begun
            .last()
            .map_or(self.first.t_ns, |(_, event)| event.t_ns)
    }

    /// Returns `true` if it returned success.
    pub fn has_succeeded(&self) -> bool {
        self.visible().is_some()
    }

    /// Returns `true` if it returned an error. Without a recorded return it has neither succeeded nor failed.
    pub fn has_failed(&self) -> bool {
        self.returned.is_some() && !self.has_succeeded()
    }

    /// Returns `true` if this witness saw it start.
    pub fn is_seen_by(&self, witness: EventSource) -> bool {
        self.begun.iter().any(|(_, event)| is_by(event, witness))
    }

    /// Returns `true` if a read of the mask by libcuda was recorded.
    pub fn has_read_mask(&self) -> bool {
        self.mask.is_some()
    }

    /// Returns the variables that CUDA reads, as they were at its start. None if no witness saw the start.
    pub fn variables(&self) -> Option<&'a BTreeMap<String, String>> {
        let (_, event) = self.begun.last()?;
        match &event.what {
            EventKind::Init { variables, .. } => Some(variables),
            _ => None,
        }
    }

    /// Returns the value of a variable that it read: `None` if unknown, `Some(None)` if the variable was not set.
    pub fn value(&self, name: &str) -> Option<Option<&'a str>> {
        if name == MASK && self.mask.is_some() {
            return self.mask;
        }
        Some(self.variables()?.get(name).map(String::as_str))
    }

    /// Returns the number of visible GPUs, and their UUIDs by CUDA ordinal. None unless it succeeded.
    pub fn visible(&self) -> Option<(u32, &'a [String])> {
        match &self.returned?.1.what {
            EventKind::InitDone { visible, gpus } => Some(((*visible)?, gpus)),
            _ => None,
        }
    }
}

fn is_by(event: &TraceEvent, by: EventSource) -> bool {
    matches!(event.what, EventKind::Init { witness, .. } if witness == by)
}
