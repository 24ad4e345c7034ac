//! A program of a trace: a process from its start, or its last `exec`, to the next.

use std::collections::{BTreeMap, HashMap};

use crate::trace::{ContextLife, Event, Process, Trace, What, contexts};

/// One program that ran in a process.
pub(super) struct Program<'a> {
    pub(super) pid: u32,
    /// None where the trace has no line for it.
    pub(super) process: Option<&'a Process>,
    /// What it did, with the index of each event.
    pub(super) events: Vec<(usize, &'a Event)>,
    /// The contexts that it made, each with the index of the event that made it.
    pub(super) contexts: Vec<(usize, ContextLife<'a>)>,
    /// The end of the first `cuInit` that succeeded, with what it showed.
    pub(super) initialised: Option<(usize, &'a Event)>,
    /// The last `cuInit` that failed.
    pub(super) failed_init: Option<(usize, &'a Event)>,
    /// The beginning of the `cuInit` that counts: the first that is known not to have failed.
    pub(super) init: Option<(usize, &'a Event)>,
    /// What libcuda got when it asked for the mask, the first time.
    mask_read: Option<Option<&'a str>>,
}

impl<'a> Program<'a> {
    /// All programs that did something, in the order of their first event.
    pub(super) fn all(trace: &'a Trace) -> Vec<Program<'a>> {
        let mut lines: HashMap<u32, Vec<&Process>> = HashMap::new();
        for process in &trace.processes {
            lines.entry(process.pid).or_default().push(process);
        }
        lines.values_mut().for_each(|lines| lines.sort_by_key(|line| line.t_ns));
        // The number of `exec`s before an event: the first line is that of the process itself, and
        // may come after its first event.
        let turn = |event: &Event| {
            let lines = lines.get(&event.pid).map_or(&[][..], Vec::as_slice);
            lines.iter().skip(1).filter(|line| line.t_ns <= event.t_ns).count()
        };
        let mut programs: Vec<Program> = Vec::new();
        let mut places: HashMap<(u32, usize), usize> = HashMap::new();
        let mut of_event: HashMap<*const Event, (usize, usize)> = HashMap::new();
        for (index, event) in trace.events.iter().enumerate() {
            let turn = turn(event);
            let place = *places.entry((event.pid, turn)).or_insert(programs.len());
            if place == programs.len() {
                let process = lines.get(&event.pid).and_then(|lines| lines.get(turn)).copied();
                programs.push(Program::new(event.pid, process));
            }
            if let Some(program) = programs.get_mut(place) {
                program.events.push((index, event));
            }
            if matches!(event.what, What::Context { .. }) {
                of_event.insert(event, (place, index));
            }
        }
        for life in contexts(trace) {
            let Some(&(place, index)) = of_event.get(&std::ptr::from_ref(life.made)) else { continue };
            if let Some(program) = programs.get_mut(place) {
                program.contexts.push((index, life));
            }
        }
        programs.iter_mut().for_each(Program::find_init);
        programs
    }

    fn new(pid: u32, process: Option<&'a Process>) -> Program<'a> {
        let (events, contexts) = Default::default();
        let (initialised, failed_init, init, mask_read) = Default::default();
        Program { pid, process, events, contexts, initialised, failed_init, init, mask_read }
    }

    fn find_init(&mut self) {
        let all = || self.events.iter().copied();
        let done = |event: &Event| matches!(event.what, What::InitDone { visible: Some(_), .. });
        let failed = |event: &Event| matches!(event.what, What::InitDone { visible: None, .. });
        let initialised = all().find(|(_, event)| done(event));
        let failed_init = all().rfind(|(_, event)| failed(event));
        // Both witnesses tell of the beginning; the first of them counts unless it failed.
        let is_before = |event: &Event| initialised.is_some_and(|(_, done)| event.t_ns <= done.t_ns);
        let failed_before = all().rfind(|(_, event)| failed(event) && is_before(event));
        let since = failed_before.map_or(0, |(_, event)| event.t_ns.saturating_add(1));
        let until = initialised.map_or(u64::MAX, |(_, event)| event.t_ns.saturating_add(1));
        let begins = |event: &Event| matches!(event.what, What::Init { .. }) && (since..=until).contains(&event.t_ns);
        let init = all().find(|(_, event)| begins(event));
        let mask_read = self.events.iter().find_map(|(_, event)| match &event.what {
            What::MaskRead { value, .. } => Some(value.as_deref()),
            _ => None,
        });
        (self.initialised, self.failed_init, self.init, self.mask_read) = (initialised, failed_init, init, mask_read);
    }

    /// Whether `cuInit` had succeeded before a time, as far as it was seen: where only its beginning
    /// was, it is taken to have.
    pub(super) fn is_initialised_at(&self, t_ns: u64) -> bool {
        match self.initialised {
            Some((_, done)) => done.t_ns <= t_ns,
            None => self.failed_init.is_none() && self.init.is_some_and(|(_, init)| init.t_ns < t_ns),
        }
    }

    /// The variables that CUDA reads, as they were at `cuInit`.
    pub(super) fn variables(&self) -> Option<&'a BTreeMap<String, String>> {
        match &self.init?.1.what {
            What::Init { variables, .. } => Some(variables),
            _ => None,
        }
    }

    /// A variable as it was at `cuInit`; the inner value is none where it was not set.
    pub(super) fn latched(&self, name: &str) -> Option<Option<&'a str>> {
        let read = self.mask_read.filter(|_| name == "CUDA_VISIBLE_DEVICES");
        // A `cuInit` that failed has read another value than the one that counts.
        let read = read.filter(|_| self.failed_init.is_none());
        read.or_else(|| Some(self.variables()?.get(name).map(String::as_str)))
    }

    /// The UUIDs of the GPUs that it can see, in its own order.
    pub(super) fn visible(&self) -> Option<&'a [String]> {
        match &self.initialised?.1.what {
            What::InitDone { gpus, .. } => Some(gpus),
            _ => None,
        }
    }

    /// Whether it did work on a GPU; none where its counts are not known.
    pub(super) fn used(&self, gpu: Option<&str>) -> Option<bool> {
        let contexts = || self.contexts.iter().filter(|(_, life)| life.made.gpu.as_deref() == gpu);
        let used = contexts().map(|(_, life)| life.uses.map(|uses| !uses.is_none()));
        used.into_iter().next().flatten()
    }

    /// The GPUs on which it made contexts, in the order of their first, with the first of each.
    pub(super) fn gpus(&self) -> Vec<(usize, &ContextLife<'a>)> {
        let mut gpus: Vec<(usize, &ContextLife<'a>)> = Vec::new();
        for (index, life) in &self.contexts {
            if !gpus.iter().any(|(_, known)| known.made.gpu == life.made.gpu) {
                gpus.push((*index, life));
            }
        }
        gpus
    }

    /// The last time at which it is known to have been there.
    pub(super) fn last_seen_ns(&self) -> u64 {
        self.events.last().map_or(0, |(_, event)| event.t_ns)
    }
}
