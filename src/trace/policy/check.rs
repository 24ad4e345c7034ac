//! Comparing a policy with a trace.

use super::word::{GpuWord, PolicyWord, bound_text};
use super::{Policy, PolicyOutcome, Violation};
use crate::diagnosis::{Finding, embedded_rules, gpu_name, line};
use crate::ledger::{LedgerTable, MemoryOwner, UNKNOWN, all_ledgers};
use crate::{ContextLife, History, Trace, TraceEvent, status_name};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;

pub(super) fn outcome(policy: &Policy, trace: &Trace, findings: &[Finding]) -> PolicyOutcome {
    let history = History::new(trace);
    let mut check = PolicyCheck {
        trace,
        history: &history,
        findings,
        outcome: PolicyOutcome::default(),
    };
    for word in &policy.forbid {
        check.word(word);
    }
    for (gpu, bytes) in &policy.max_bytes {
        check.memory(gpu, *bytes);
    }
    check.outcome
}

struct PolicyCheck<'a> {
    trace: &'a Trace,
    history: &'a History<'a>,
    findings: &'a [Finding],
    outcome: PolicyOutcome,
}

/// What a trace must cover to decide a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceCoverage {
    /// The processes and their `cuInit`: the injection hook shows it.
    Init,
    /// Calls of the driver: only the forwarding library shows them.
    Calls,
    /// Calls, and writes of variables.
    Variables,
}

impl PolicyCheck<'_> {
    fn add_violation(&mut self, forbidden: &str, says: String, event: Option<&TraceEvent>) {
        let event = event.and_then(|event| {
            self.trace
                .events
                .iter()
                .position(|other| std::ptr::eq(other, event))
        });
        self.outcome.violations.push(Violation {
            forbidden: forbidden.to_owned(),
            says,
            event,
        });
    }

    fn add_undecided(&mut self, forbidden: &str, why: &str) {
        let sentence = format!("{forbidden}: {why}");
        if !self.outcome.undecided.contains(&sentence) {
            self.outcome.undecided.push(sentence);
        }
    }

    /// Records why a question is undecided, unless a violation has already decided it.
    fn require_coverage(&mut self, forbidden: &str, needs: TraceCoverage) {
        if self
            .outcome
            .violations
            .iter()
            .any(|violation| violation.forbidden == forbidden)
        {
            return;
        }
        for why in missing(self.history, needs) {
            self.add_undecided(forbidden, &why);
        }
    }

    fn word(&mut self, word: &PolicyWord) {
        let name = word.to_string();
        match word {
            PolicyWord::Init => self.init(&name),
            PolicyWord::Context => self.contexts(&name, |_, _| Some(true)),
            PolicyWord::ContextOn(gpu) => {
                self.contexts(&name, |trace, life| gpu.is_of(trace, life.made));
                self.known(&name, gpu);
            }
            PolicyWord::ContextOnOrdinal(ordinal) => {
                self.contexts(&name, |_, life| {
                    life.made
                        .device
                        .map(|device| i64::from(device) == i64::from(*ordinal))
                });
            }
            PolicyWord::Stray => self.check_unused_contexts(&name),
            PolicyWord::Error => self.errors(&name),
            PolicyWord::Rule(rule) => self.rule(&name, rule),
            PolicyWord::Unattributed(most) => {
                self.check_ledgers(&name, *most, "not attributed", unattributed_bounds)
            }
            PolicyWord::Owner(key, most) => {
                let held_by = format!("held by {}", MemoryOwner::known(key).name);
                self.check_ledgers(&name, *most, &held_by, |table| owner_bounds(table, key));
            }
        }
    }

    /// Checks the peak of each process and GPU. `held` returns the least and the most that it can be of what is
    /// limited; none if that is not known.
    fn check_ledgers(
        &mut self,
        name: &str,
        most: u64,
        what: &str,
        held: impl Fn(&LedgerTable) -> Option<[u64; 2]>,
    ) {
        let trace = self.trace;
        if !trace.start.ledger {
            return self.add_undecided(
                name,
                "whose the memory is was not noted: trace with --memory",
            );
        }
        let ledgers = all_ledgers(trace);
        let mut open = Vec::new();
        for ledger in &ledgers {
            let of = format!(
                "pid {} on {}",
                ledger.pid,
                gpu_name(trace, Some(ledger.gpu))
            );
            match held(&ledger.peak) {
                Some([least, _]) if least > most => {
                    let charged = match ledger.is_own {
                        true => "NVML charges it",
                        false => "its GPU has in use more than before",
                    };
                    let all = ledger
                        .peak
                        .charged_bytes
                        .map_or_else(|| "what".to_owned(), units::bytes);
                    let least = units::bytes(least);
                    let says =
                        format!("{of}: at the peak {least} are {what}, of {all} that {charged}");
                    self.add_violation(name, says, None);
                }
                Some([least, at_most]) if at_most > most => {
                    let [least, at_most] = [least, at_most].map(units::bytes);
                    open.push(format!(
                        "{of}: at the peak between {least} and {at_most} are {what}"
                    ));
                }
                Some(_) => {}
                None => open.push(format!("{of}: NVML could not be read")),
            }
        }
        for life in &self.history.contexts {
            let is_read = ledgers
                .iter()
                .any(|it| it.pid == life.made.pid && Some(it.gpu) == life.made.gpu.as_deref());
            if !is_read {
                let of = gpu_name(trace, life.made.gpu.as_deref());
                open.push(format!(
                    "whose the memory of pid {} on {of} is was not read",
                    life.made.pid
                ));
            }
        }
        open.iter().for_each(|why| self.add_undecided(name, why));
        self.require_coverage(name, TraceCoverage::Calls);
    }

    fn init(&mut self, name: &str) {
        // One violation for a program, at the first event of its `cuInit`.
        for init in self
            .history
            .programs
            .iter()
            .filter_map(|program| program.inits.first())
        {
            let says = format!(
                "{} initialises CUDA through {}",
                line(init.first),
                called_function(init.first)
            );
            self.add_violation(name, says, Some(init.first));
        }
        self.require_coverage(name, TraceCoverage::Init);
    }

    /// Checks each context. `is` returns whether it is forbidden, or none if unknown.
    fn contexts(&mut self, name: &str, is: impl Fn(&Trace, &ContextLife<'_>) -> Option<bool>) {
        let trace = self.trace;
        for life in &self.history.contexts {
            match is(trace, life) {
                Some(true) => self.add_violation(name, made(trace, life), Some(life.made)),
                Some(false) => {}
                None => self.add_undecided(
                    name,
                    &format!(
                        "on which GPU {} made a context is not known",
                        line(life.made)
                    ),
                ),
            }
        }
        self.require_coverage(name, TraceCoverage::Calls);
    }

    /// Leaves a question open if its GPU is not on this machine.
    fn known(&mut self, name: &str, gpu: &GpuWord) {
        if gpu.index(self.trace).is_none() {
            let count = counted(self.trace.start.gpus.len() as u64, "GPU");
            self.add_undecided(
                name,
                &format!("{gpu} is none of the {count} of this machine that NVML named"),
            );
        }
    }

    fn check_unused_contexts(&mut self, name: &str) {
        let trace = self.trace;
        for life in &self.history.contexts {
            match life.uses {
                Some(uses) if uses.is_none() => {
                    let says = format!("{}; the process does no work there", made(trace, life));
                    self.add_violation(name, says, Some(life.made));
                }
                Some(_) => {}
                None => {
                    let why = format!(
                        "whether pid {} used the GPU of each of its contexts is not known",
                        life.made.pid
                    );
                    self.add_undecided(name, &why);
                }
            }
        }
        self.require_coverage(name, TraceCoverage::Calls);
    }

    fn errors(&mut self, name: &str) {
        let trace = self.trace;
        for event in &trace.events {
            // Without a GPU it is the simulated driver that fails.
            if event.has_failed() && !trace.has_no_device() {
                let status = event.status.map_or("an error".to_owned(), status_name);
                self.add_violation(
                    name,
                    format!("{}: {} returns {status}", line(event), event.call),
                    Some(event),
                );
            }
        }
        self.require_coverage(name, TraceCoverage::Calls);
    }

    fn rule(&mut self, name: &str, rule: &str) {
        let trace = self.trace;
        for finding in self.findings.iter().filter(|finding| finding.rule == rule) {
            let event = finding
                .events
                .first()
                .and_then(|index| trace.events.get(*index));
            self.add_violation(name, finding.says.clone(), event);
        }
        let Some(rule) = embedded_rules().iter().find(|it| it.name == rule) else {
            return;
        };
        let reads_writes = rule.asks_for("variable-written", "changes")
            || rule.asks_for("mask-overwritten", "other_thread");
        let needs = if reads_writes {
            TraceCoverage::Variables
        } else {
            TraceCoverage::Calls
        };
        self.require_coverage(name, needs);
        if rule.asks_for("variable-written", "after_context") {
            self.require_coverage(name, TraceCoverage::Calls);
        }
        if self
            .outcome
            .violations
            .iter()
            .all(|violation| violation.forbidden != name)
        {
            for finding in self
                .findings
                .iter()
                .filter(|finding| finding.leaves_open().contains(&rule.name))
            {
                self.add_undecided(name, &finding.says);
            }
        }
        let counted = [
            ("context-made", "used"),
            ("context-made", "unselected_thread"),
            ("process-contexts", "used"),
        ];
        if counted
            .iter()
            .any(|(clue, attribute)| rule.asks_for(clue, attribute))
        {
            for life in self
                .history
                .contexts
                .iter()
                .filter(|life| life.uses.is_none())
            {
                self.add_undecided(
                    name,
                    &format!(
                        "what pid {} did in its contexts is not known",
                        life.made.pid
                    ),
                );
            }
        }
    }

    fn memory(&mut self, gpu: &GpuWord, most: u64) {
        let trace = self.trace;
        let name = bound_text(gpu, most);
        let Some(index) = gpu.index(trace) else {
            return self.known(&name, gpu);
        };
        let Some(before) = trace.start.used_bytes.get(index).copied().flatten() else {
            return self.add_undecided(
                &name,
                "the memory of this GPU was not read before the program began",
            );
        };
        let readings = trace.memory.iter().filter(|memory| memory.index == index);
        let grown = readings.map(|memory| (memory.used_bytes.saturating_sub(before), memory.t_ns));
        let largest = grown.clone().map(|(bytes, _)| bytes).max().unwrap_or(0);
        if largest > most {
            let first = grown
                .filter(|(bytes, _)| *bytes > most)
                .map(|(_, t_ns)| t_ns)
                .min();
            let event = first.and_then(|t_ns| {
                let mut before = trace.events.iter().rev().filter(|event| event.t_ns <= t_ns);
                before.find(|event| {
                    event
                        .memory_bytes
                        .get(index)
                        .copied()
                        .flatten()
                        .is_some_and(|grown| grown > 0)
                })
            });
            let at = event
                .map(|event| format!(", past the limit after {}", line(event)))
                .unwrap_or_default();
            let says = format!(
                "the memory of {gpu} grows by {}{at}",
                units::bytes_exact(largest)
            );
            self.add_violation(&name, says, event);
            return;
        }
        let Some(end) = &trace.end else {
            return self.add_undecided(&name, CUT_SHORT);
        };
        if trace.has_no_device() {
            self.require_coverage(&name, TraceCoverage::Calls);
        }
        match end.memory_gap_ns.get(index) {
            Some(Some(gap)) if *gap <= MOST_UNREAD_NS => {}
            Some(Some(gap)) => {
                let gap = units::format_duration(*gap);
                self.add_undecided(
                    &name,
                    &format!("the memory of {gpu} was not read for {gap} while the program ran"),
                );
            }
            Some(None) => self.add_undecided(
                &name,
                &format!("the memory of {gpu} was not read until the program ended"),
            ),
            None => self.add_undecided(
                &name,
                &format!("how often the memory of {gpu} was read is not known"),
            ),
        }
    }
}

/// What is not attributed. Of memory of which only the most is known, the rest is not attributed either.
fn unattributed_bounds(table: &LedgerTable) -> Option<[u64; 2]> {
    let least = u64::try_from(table.unattributed_bytes?).unwrap_or(0);
    let bounds = table.rows.iter().filter(|row| row.is_upper_bound());
    Some([
        least,
        bounds.map(|row| row.bytes).fold(least, u64::saturating_add),
    ])
}

/// What an owner holds. What is nobody's may be its too.
fn owner_bounds(table: &LedgerTable, key: &str) -> Option<[u64; 2]> {
    let mut least = 0_u64;
    let mut perhaps = u64::try_from(table.unattributed_bytes?).unwrap_or(0);
    for row in &table.rows {
        match row.owner.key == key {
            true if !row.is_upper_bound() => least = least.saturating_add(row.bytes),
            false if row.owner.key != UNKNOWN => {}
            _ => perhaps = perhaps.saturating_add(row.bytes),
        }
    }
    Some([least, least.saturating_add(perhaps)])
}

/// In a longer gap memory may have grown and shrunk. It is normally read fifty times a second.
const MOST_UNREAD_NS: u64 = 2_000_000_000;

const CUT_SHORT: &str = "the trace was cut short, so that what came later is not known";

/// Why a trace does not cover a question.
fn missing(history: &History, needs: TraceCoverage) -> Vec<String> {
    let trace = history.trace;
    let mut why = if needs == TraceCoverage::Calls {
        history.unseen_call_reasons()
    } else {
        Vec::new()
    };
    match &trace.end {
        None => why.push(CUT_SHORT.to_owned()),
        Some(end) => {
            why.extend(end.not_seen.iter().cloned());
            if end.left_out > 0 {
                why.push(format!(
                    "{} left out of the trace",
                    counted(end.left_out, "event")
                ));
            }
        }
    }
    if needs != TraceCoverage::Init && trace.start.libcuda.is_none() {
        why.push("no libcuda was found to stand before, so that only cuInit is seen".to_owned());
    }
    if needs == TraceCoverage::Variables && !trace.start.preload {
        why.push("writes of variables are not seen".to_owned());
    }
    why
}

/// The function that the user's line calls.
fn called_function(event: &TraceEvent) -> String {
    event
        .stack
        .entry_name()
        .unwrap_or_else(|| event.call.clone())
}

fn made(trace: &Trace, life: &ContextLife<'_>) -> String {
    let gpu = gpu_name(trace, life.made.gpu.as_deref());
    let bytes = life
        .bytes
        .map(|bytes| format!(" ({})", units::format_delta(bytes)))
        .unwrap_or_default();
    format!(
        "{} makes a context on {gpu}{bytes} through {}",
        line(life.made),
        called_function(life.made)
    )
}
