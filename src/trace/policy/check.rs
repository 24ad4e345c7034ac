//! Comparing a policy with a trace.

use super::word::{GpuWord, PolicyWord, bound_text};
use super::{Policy, PolicyOutcome, Violation};
use crate::diagnosis::{Finding, embedded_rules, gpu_name, line};
use crate::ledger::{Ledger, LedgerTable, MemoryOwner, UNKNOWN, all_ledgers};
use crate::{ContextLife, History, Trace, TraceEvent, status_name};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;

pub(super) fn outcome(policy: &Policy, history: &History, findings: &[Finding]) -> PolicyOutcome {
    let is_of_memory =
        |word: &PolicyWord| matches!(word, PolicyWord::Unattributed(_) | PolicyWord::Owner(..));
    let ledgers = if policy.forbid.iter().any(is_of_memory) {
        all_ledgers(history.trace)
    } else {
        Vec::new()
    };
    let mut check = PolicyCheck {
        trace: history.trace,
        history,
        ledgers: &ledgers,
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

struct PolicyCheck<'c, 'a> {
    trace: &'a Trace,
    history: &'c History<'a>,
    ledgers: &'c [Ledger<'a>],
    findings: &'c [Finding],
    outcome: PolicyOutcome,
}

/// The parts of a program that a trace must cover to decide a policy word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceCoverage {
    /// The processes and their `cuInit`, which the injection hook shows.
    Init,
    /// Driver calls, which only the forwarding library shows.
    Calls,
    /// Calls, and writes of variables.
    Variables,
}

impl PolicyCheck<'_, '_> {
    fn add_violation(&mut self, forbidden: &str, says: String, event: Option<&TraceEvent>) {
        self.outcome.violations.push(Violation {
            forbidden: forbidden.to_owned(),
            says,
            event: self.trace.events.iter().position(|other: &TraceEvent| {
                event.is_some_and(|event| std::ptr::eq(other, event))
            }),
        });
    }

    fn add_undecided(&mut self, forbidden: &str, why: &str) {
        let sentence = format!("{forbidden}: {why}");
        if !self.outcome.undecided.contains(&sentence) {
            self.outcome.undecided.push(sentence);
        }
    }

    fn is_violated(&self, forbidden: &str) -> bool {
        let mut violations = self.outcome.violations.iter();
        violations.any(|violation| violation.forbidden == forbidden)
    }

    /// Records why a policy word is undecided, unless a violation has already decided it.
    fn require_coverage(&mut self, forbidden: &str, needs: TraceCoverage) {
        if self.is_violated(forbidden) {
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
                self.contexts(&name, |trace, life| gpu.is_of(trace, life.created));
                self.known(&name, gpu);
            }
            PolicyWord::ContextOnOrdinal(ordinal) => {
                let ordinal = i64::from(*ordinal);
                self.contexts(&name, |_, life| {
                    Some(i64::from(life.created.device?) == ordinal)
                });
            }
            PolicyWord::Stray => self.check_unused_contexts(&name),
            PolicyWord::Error => self.errors(&name),
            PolicyWord::Rule(rule) => self.rule(&name, rule),
            PolicyWord::Unattributed(most) => {
                self.check_ledgers(&name, *most, "unattributed", unattributed_bounds)
            }
            PolicyWord::Owner(key, most) => {
                let held_by = format!("held by {}", MemoryOwner::known(key).name);
                self.check_ledgers(&name, *most, &held_by, |table| owner_bounds(table, key));
            }
        }
    }

    /// Checks the peak of each process and GPU. `held` returns the minimum and the maximum of the limited memory; none
    /// if that is not known.
    fn check_ledgers(
        &mut self,
        name: &str,
        most: u64,
        what: &str,
        held: impl Fn(&LedgerTable) -> Option<[u64; 2]>,
    ) {
        let trace = self.trace;
        if !trace.start.ledger {
            return self
                .add_undecided(name, "memory owners were not recorded: trace with --memory");
        }
        let mut open = Vec::new();
        for ledger in self.ledgers {
            let gpu = gpu_name(trace, Some(ledger.gpu));
            let who = format!("pid {} on {gpu}", ledger.pid);
            match held(&ledger.peak) {
                Some([least, _]) if least > most => {
                    let charged = if ledger.is_own {
                        "NVML reports for it"
                    } else {
                        "were added on its GPU"
                    };
                    let all = match ledger.peak.charged_bytes {
                        Some(bytes) => units::bytes(bytes),
                        None => "what".to_owned(),
                    };
                    let least = units::bytes(least);
                    let says =
                        format!("{who}: at the peak {least} are {what}, of {all} that {charged}");
                    self.add_violation(name, says, None);
                }
                Some([least, at_most]) if at_most > most => {
                    let [least, at_most] = [least, at_most].map(units::bytes);
                    open.push(format!(
                        "{who}: at the peak between {least} and {at_most} are {what}"
                    ));
                }
                Some(_) => {}
                None => open.push(format!("{who}: NVML could not be read")),
            }
        }
        for life in &self.history.contexts {
            let (pid, gpu) = (life.created.pid, life.created.gpu.as_deref());
            let mut ledgers = self.ledgers.iter();
            if !ledgers.any(|ledger| ledger.pid == pid && Some(ledger.gpu) == gpu) {
                let gpu = gpu_name(trace, gpu);
                open.push(format!("memory of pid {pid} on {gpu} was not attributed"));
            }
        }
        for why in &open {
            self.add_undecided(name, why);
        }
        self.require_coverage(name, TraceCoverage::Calls);
    }

    fn init(&mut self, name: &str) {
        for program in &self.history.programs {
            // There is one violation per program, at the first event of its `cuInit`.
            if let Some(init) = program.inits.first() {
                let (line, function) = (line(init.first), called_function(init.first));
                let says = format!("{line} initializes CUDA through {function}");
                self.add_violation(name, says, Some(init.first));
            }
        }
        self.require_coverage(name, TraceCoverage::Init);
    }

    /// Checks each context. `is` returns whether it is forbidden, or none if unknown.
    fn contexts(&mut self, name: &str, is: impl Fn(&Trace, &ContextLife<'_>) -> Option<bool>) {
        let trace = self.trace;
        for life in &self.history.contexts {
            match is(trace, life) {
                Some(true) => {
                    self.add_violation(name, describe_creation(trace, life), Some(life.created))
                }
                Some(false) => {}
                None => {
                    let line = line(life.created);
                    let why = format!("the GPU where {line} created a context is unknown");
                    self.add_undecided(name, &why);
                }
            }
        }
        self.require_coverage(name, TraceCoverage::Calls);
    }

    /// Leaves a policy word undecided if its GPU is not on this machine.
    fn known(&mut self, name: &str, gpu: &GpuWord) {
        if gpu.index(self.trace).is_none() {
            let count = counted(self.trace.start.gpus.len() as u64, "GPU");
            self.add_undecided(name, &format!("{gpu}: not found (NVML lists {count})"));
        }
    }

    fn check_unused_contexts(&mut self, name: &str) {
        let trace = self.trace;
        for life in &self.history.contexts {
            match life.is_used() {
                Some(false) => {
                    let says = format!(
                        "{}; the process does no work there",
                        describe_creation(trace, life)
                    );
                    self.add_violation(name, says, Some(life.created));
                }
                Some(true) => {}
                None => {
                    let why = format!(
                        "whether pid {} used the GPU of each of its contexts is not known",
                        life.created.pid
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
            // Without a GPU, the simulated driver is the reason for the failure.
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
        for finding in self.findings {
            if finding.rule == rule {
                let first = finding.events.first();
                let event = first.and_then(|index| trace.events.get(*index));
                self.add_violation(name, finding.says.clone(), event);
            }
        }
        let mut rules = embedded_rules().iter();
        let Some(rule) = rules.find(|known| known.name == rule) else {
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
        if !self.is_violated(name) {
            for finding in self.findings {
                if finding.leaves_open().contains(&rule.name) {
                    self.add_undecided(name, &finding.says);
                }
            }
        }
        let needs_counts = rule.asks_for("context-made", "used")
            || rule.asks_for("context-made", "unselected_thread")
            || rule.asks_for("process-contexts", "used");
        for life in &self.history.contexts {
            if needs_counts && life.uses.is_none() {
                let pid = life.created.pid;
                let why = format!("what pid {pid} did in its contexts is not known");
                self.add_undecided(name, &why);
            }
        }
    }

    fn memory(&mut self, gpu: &GpuWord, most: u64) {
        let trace = self.trace;
        let name = bound_text(gpu, most);
        let Some(index) = gpu.index(trace) else {
            return self.known(&name, gpu);
        };
        let Some(before) = trace.used_before(index) else {
            return self.add_undecided(
                &name,
                "the memory of this GPU was not read before the program began",
            );
        };
        let (mut largest, mut exceeded_ns) = (0, u64::MAX);
        for memory in &trace.memory {
            if memory.index != index {
                continue;
            }
            let grown = memory.used_bytes.saturating_sub(before);
            largest = largest.max(grown);
            if grown > most {
                exceeded_ns = exceeded_ns.min(memory.t_ns);
            }
        }
        if largest > most {
            let mut earlier = trace.events.iter().rev();
            let event = earlier.find(|event| {
                event.t_ns <= exceeded_ns && event.memory_change(index).unwrap_or(0) > 0
            });
            let largest = units::bytes_exact(largest);
            let mut says = format!("the memory of {gpu} grows by {largest}");
            if let Some(event) = event {
                says += &format!(", past the limit after {}", line(event));
            }
            self.add_violation(&name, says, event);
            return;
        }
        let Some(end) = &trace.end else {
            return self.add_undecided(&name, CUT_SHORT);
        };
        if trace.has_no_device() {
            self.require_coverage(&name, TraceCoverage::Calls);
        }
        let why = match end.memory_gap_ns.get(index) {
            Some(Some(gap)) if *gap <= MOST_UNREAD_NS => return,
            Some(Some(gap)) => {
                let gap = units::format_duration(*gap);
                format!("the memory of {gpu} was not read for {gap} while the program ran")
            }
            Some(None) => format!("the memory of {gpu} was not read until the program ended"),
            None => format!("how often the memory of {gpu} was read is not known"),
        };
        self.add_undecided(&name, &why);
    }
}

/// Returns the minimum and the maximum of the unattributed memory. Rows that are upper bounds may be unattributed too.
fn unattributed_bounds(table: &LedgerTable) -> Option<[u64; 2]> {
    let least = u64::try_from(table.unattributed_bytes?).unwrap_or(0);
    let mut at_most = least;
    for row in &table.rows {
        if row.is_upper_bound() {
            at_most = at_most.saturating_add(row.bytes);
        }
    }
    Some([least, at_most])
}

/// Returns the minimum and the maximum of an owner's memory. Memory without a known owner may belong to this owner.
fn owner_bounds(table: &LedgerTable, key: &str) -> Option<[u64; 2]> {
    let mut least = 0_u64;
    let mut perhaps = u64::try_from(table.unattributed_bytes?).unwrap_or(0);
    for row in &table.rows {
        if row.owner.key != key && row.owner.key != UNKNOWN {
            continue;
        }
        if row.owner.key == key && !row.is_upper_bound() {
            least = least.saturating_add(row.bytes);
        } else {
            perhaps = perhaps.saturating_add(row.bytes);
        }
    }
    Some([least, least.saturating_add(perhaps)])
}

/// The longest gap between readings that still decides a limit, because memory may grow and shrink in a longer gap. It
/// is normally read fifty times a second.
const MOST_UNREAD_NS: u64 = 2_000_000_000;

/// A program that looks for a driver in vain gives up before `cuInit`, so that even a forbidden `cuinit` does not occur.
const NO_LIBCUDA: &str = "no libcuda was found; without a GPU, add --on sim:no-device";
const CUT_SHORT: &str = "the trace is truncated, so later events are unknown";

/// Returns the reasons why a trace does not cover a policy word.
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
    if trace.start.libcuda.is_none() {
        why.push(NO_LIBCUDA.to_owned());
    }
    if needs == TraceCoverage::Variables && !trace.start.preload {
        why.push("writes of variables are not seen".to_owned());
    }
    why
}

/// Returns the function that the user's line calls.
fn called_function(event: &TraceEvent) -> String {
    let entry = event.stack.entry_name();
    entry.unwrap_or_else(|| event.call.clone())
}

fn describe_creation(trace: &Trace, life: &ContextLife<'_>) -> String {
    let (line, gpu) = (
        line(life.created),
        gpu_name(trace, life.created.gpu.as_deref()),
    );
    let bytes = match life.bytes {
        Some(bytes) => format!(" ({})", units::format_delta(bytes)),
        None => String::new(),
    };
    let function = called_function(life.created);
    format!("{line} creates a context on {gpu}{bytes} through {function}")
}
