//! The history of a trace: what the traced program did, computed once for all readers.
//!
//! Text, pages, `--json`, `compare`, the rules, policies and `survey python` read it: which programs ran, which
//! `cuInit` of each program counts and what it read, which contexts were created, which writes of variables came too
//! late, and which processes were forked after `cuInit`.

mod contexts;
mod fork;
mod init;
mod program;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{HashMap, HashSet};

use super::{ProcessCounts, Trace, TraceProcess};

pub use contexts::{ConcurrentChange, ContextLife};
pub use cuda_pitfalls_core::scenario::environment::{
    MASK, ORDER, is_read_by_cuinit, read_by_cuinit,
};
pub use fork::Fork;
pub use init::Init;
pub use program::ProgramHistory;
pub use write::VariableWrite;
pub(crate) use write::known_ancestors;

/// The history of a traced program.
#[derive(Clone, Debug)]
pub struct History<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The programs in the order of their first events; those without events come last.
    pub programs: Vec<ProgramHistory<'a>>,
    /// Every context that was created, sorted by time.
    pub contexts: Vec<ContextLife<'a>>,
    /// Every write of a variable, sorted by time.
    pub writes: Vec<VariableWrite<'a>>,
    /// The index of each event's program.
    program_of: Vec<usize>,
}

impl<'a> History<'a> {
    /// Computes the history of a trace.
    pub fn new(trace: &'a Trace) -> History<'a> {
        let mut history = History {
            trace,
            programs: Vec::new(),
            contexts: Vec::new(),
            writes: Vec::new(),
            program_of: Vec::with_capacity(trace.events.len()),
        };
        history.find_programs();
        history.contexts = contexts::all(trace, &history.programs, &history.program_of);
        for life in &history.contexts {
            if let Some(program) = history.programs.get_mut(life.program) {
                program.contexts.push(life.clone());
            }
        }
        for program in &mut history.programs {
            program.inits = Init::all(&program.events);
        }
        history.writes = write::all(&history);
        history
    }

    fn find_programs(&mut self) {
        let lines = program_lines(self.trace);
        let with_events = self.place_events(&lines);
        let mut silent: Vec<&TraceProcess> = Vec::new();
        for (pid, own) in &lines {
            for (number, line) in own.iter().enumerate() {
                if !with_events.contains(&(*pid, number)) {
                    silent.push(line);
                }
            }
        }
        silent.sort_by_key(|line| (line.t_ns, line.pid));
        for line in silent {
            self.programs
                .push(ProgramHistory::new(line.pid, Some(line)));
        }
        self.find_counts(&lines);
    }

    /// Assigns each event to its program. Returns the programs that have events, by their PID and number.
    fn place_events(&mut self, lines: &ProgramLines<'a>) -> HashSet<(u32, usize)> {
        let mut places: HashMap<(u32, usize), usize> = HashMap::new();
        for (index, event) in self.trace.events.iter().enumerate() {
            let own = lines.get(&event.pid).map_or(&[][..], Vec::as_slice);
            // The first line belongs to the process itself, and may come after its first event.
            let number = own
                .partition_point(|line| line.t_ns <= event.t_ns)
                .saturating_sub(1);
            let place = *places
                .entry((event.pid, number))
                .or_insert(self.programs.len());
            if place == self.programs.len() {
                self.programs
                    .push(ProgramHistory::new(event.pid, own.get(number).copied()));
            }
            if let Some(program) = self.programs.get_mut(place) {
                program.events.push((index, event));
            }
            self.program_of.push(place);
        }
        places.into_keys().collect()
    }

    fn find_counts(&mut self, lines: &ProgramLines<'a>) {
        let mut counts: HashMap<(u32, Option<u64>), &ProcessCounts> = HashMap::new();
        for one in &self.trace.counts {
            counts.entry((one.pid, one.began_ns)).or_insert(one);
        }
        for program in &mut self.programs {
            let began_ns = program.process.map(|process| process.t_ns);
            program.counts = counts.get(&(program.pid, began_ns)).copied();
            // In an older trace, counts of several programs cannot be separated.
            let is_only = lines.get(&program.pid).is_none_or(|own| own.len() == 1);
            if program.counts.is_none() && is_only {
                program.counts = counts.get(&(program.pid, None)).copied();
            }
        }
    }

    /// Returns the reasons why the driver calls after a `cuInit` are not seen although every message arrived, each as a
    /// sentence without its full stop. Without a GPU no such call succeeds, and OpenCL calls the driver without using
    /// libcuda's exported names.
    pub fn unseen_call_reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for program in &self.programs {
            let pid = program.pid;
            let Some(init) = program.inits.first() else {
                continue;
            };
            if self.trace.has_no_device() {
                reasons.push(format!(
                    "cuInit fails in pid {pid} without a GPU, so the calls that would follow are not seen"
                ));
            } else if init
                .begun
                .iter()
                .any(|(_, event)| event.stack.is_of_opencl())
            {
                reasons.push(format!(
                    "pid {pid} initializes CUDA through OpenCL, whose own contexts and calls are not seen"
                ));
            }
        }
        reasons
    }

    /// Returns the index of an event's program.
    pub fn program_of(&self, event: usize) -> Option<usize> {
        self.program_of.get(event).copied()
    }

    /// Returns the program that started with a line of the trace. None for a line of another trace.
    pub fn program_started_by(&self, process: &TraceProcess) -> Option<&ProgramHistory<'a>> {
        self.programs.iter().find(|program| {
            program
                .process
                .is_some_and(|own| std::ptr::eq(own, process))
        })
    }

    /// Returns the index of the program that a process ran at a time, or of its first one if that started later.
    pub fn program_at(&self, pid: u32, t_ns: u64) -> Option<usize> {
        let mut found: Option<(u64, usize)> = None;
        for (index, program) in self.programs.iter().enumerate() {
            if program.pid != pid {
                continue;
            }
            let began_ns = program.began_ns();
            let is_nearer = match found {
                None => true,
                Some((known_ns, _)) if began_ns <= t_ns => known_ns > t_ns || known_ns <= began_ns,
                Some((known_ns, _)) => began_ns < known_ns,
            };
            if is_nearer {
                found = Some((began_ns, index));
            }
        }
        found.map(|(_, index)| index)
    }

    /// Returns the process that started a program, directly or through others: the nearest ancestor that initialized
    /// CUDA, or else the topmost known ancestor.
    pub fn launcher_pid(&self, program: &ProgramHistory<'_>) -> Option<u32> {
        let above = known_ancestors(self.trace, program.pid);
        above
            .iter()
            .find(|pid| self.has_initialized(**pid))
            .or(above.last())
            .copied()
    }

    fn has_initialized(&self, pid: u32) -> bool {
        self.programs
            .iter()
            .any(|program| program.pid == pid && !program.inits.is_empty())
    }

    /// Returns the index of the program that these counts belong to; in an older trace, the last program of the PID.
    pub fn program_of_counts(&self, counts: &ProcessCounts) -> Option<usize> {
        self.program_at(counts.pid, counts.began_ns.unwrap_or(u64::MAX))
    }

    /// Returns the write that an event records, if it records one.
    pub fn write(&self, event: usize) -> Option<&VariableWrite<'a>> {
        let at = self
            .writes
            .binary_search_by_key(&event, |write| write.event);
        self.writes.get(at.ok()?)
    }
}

/// The lines of each process, sorted by time. A program starts at each.
type ProgramLines<'a> = HashMap<u32, Vec<&'a TraceProcess>>;

fn program_lines(trace: &Trace) -> ProgramLines<'_> {
    let mut lines = ProgramLines::new();
    for process in &trace.processes {
        lines.entry(process.pid).or_default().push(process);
    }
    for lines in lines.values_mut() {
        lines.sort_by_key(|line| line.t_ns);
    }
    lines
}
