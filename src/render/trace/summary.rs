//! The summary of a trace as one JSON document, which `trace --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::{self, place};
use super::{Seen, unseen};
use cuda_pitfalls_core::report::SchemaId;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::history::{MASK, ProgramHistory};
use cuda_pitfalls_trace::{ContextChange, ContextLife, EventKind, Trace, TraceEvent, TraceProcess};

/// The name of the schema.
pub(super) const SCHEMA: &str = "cuda-pitfalls-trace-summary";

/// What a trace shows, without its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Summary")]
pub struct TraceSummary {
    /// Which document this is.
    pub schema: SchemaId,
    /// Whether a real driver answered.
    pub provenance: Provenance,
    /// The version of cuda-pitfalls.
    pub version: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// How long the program ran; null where the trace has no end.
    pub elapsed_ns: Option<u64>,
    /// How the program ended; null where the trace has no end.
    pub exit: Option<ProgramExit>,
    /// Whether the trace has an end.
    pub complete: bool,
    /// The processes that made a CUDA call or changed a CUDA variable.
    pub processes: Vec<ProcessSummary>,
    /// Every context that was made, in the order of time.
    pub contexts: Vec<ContextSummary>,
    /// What the rules found.
    pub findings: Vec<FindingSummary>,
    /// What it did against the policy.
    pub violations: Vec<ViolationSummary>,
    /// What of the policy cannot be decided, because the trace saw less; each a sentence without a
    /// full stop.
    pub undecided: Vec<String>,
    /// What could not be seen, in words.
    pub not_seen: Vec<String>,
    /// How many events the trace left out.
    pub left_out: u64,
}

/// How a traced program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramExit {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, by name.
    pub signal: Option<String>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSummary {
    /// Its PID.
    pub pid: u32,
    /// Its parent's PID.
    pub parent: u32,
    /// The program, and the script or module that its Python runs.
    pub name: String,
    /// Whether it was seen to initialise the driver.
    pub initialised: bool,
    /// `CUDA_VISIBLE_DEVICES` as the driver read it: null where the variable was not set, absent
    /// where that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<Mask>,
}

/// What a variable was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mask {
    /// The value; null if it was not set.
    pub value: Option<String>,
}

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The file, relative to the folder that the program was started in where it lies below it.
    pub file: String,
    /// The line.
    pub line: Option<u32>,
    /// What stands there, at most 200 characters of it; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextSummary {
    /// When it was made, since the program was started.
    pub after_ns: u64,
    /// The process.
    pub pid: u32,
    /// The GPU's index in NVML order, where it is known.
    pub index: Option<usize>,
    /// The GPU's UUID, where it is known.
    pub gpu: Option<String>,
    /// Whether it is the GPU's primary context.
    pub primary: bool,
    /// How the memory of its GPU changed while it was made.
    pub bytes: Option<i64>,
    /// The user's own line that made it.
    pub at: Option<Position>,
    /// The way from the user's line to the call, outermost first.
    pub chain: Vec<String>,
    /// Whether its process used the GPU; null where that is not known.
    pub used: Option<bool>,
    /// Whether it was released, reset or destroyed before its process ended.
    pub ended: bool,
}

/// What a rule found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingSummary {
    /// The rule that found it.
    pub rule: String,
    /// `pitfall`, or `note` for what is worth knowing and not counted.
    pub severity: String,
    /// The rule's title.
    pub title: String,
    /// What happened, one sentence without a full stop.
    pub says: String,
    /// The scenario that proves the pitfall.
    pub scenario: String,
    /// What to write instead.
    pub workaround: String,
    /// The process.
    pub pid: u32,
    /// When it went wrong, since the program was started.
    pub after_ns: Option<u64>,
    /// The user's own line where it went wrong.
    pub at: Option<Position>,
    /// The events that show it, by their index in the order of time.
    pub events: Vec<usize>,
    /// The UUID of the GPU that is concerned.
    pub gpu: Option<String>,
    /// The memory that it takes on that GPU.
    pub bytes: Option<i64>,
}

/// Something that a program did against the policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ViolationSummary {
    /// What was forbidden, as it was written.
    pub forbidden: String,
    /// What happened, one sentence without a full stop.
    pub says: String,
    /// The user's own line.
    pub at: Option<Position>,
    /// The event that shows it, by its index in the order of time.
    pub event: Option<usize>,
}

/// The summary of a trace.
pub(super) fn summary(seen: &Seen) -> TraceSummary {
    let (trace, start) = (seen.trace, &seen.trace.start);
    let since = |t_ns: u64| t_ns.saturating_sub(start.t_ns);
    let event = |index: Option<usize>| index.and_then(|index| trace.events.get(index));
    let at = |index: Option<usize>| position(trace, event(index)?);
    let begun_by = |process| Some(process_summary(process, seen.history.begun_by(process)?));
    let processes = trace.processes.iter().filter_map(begun_by);
    let contexts = seen.history.contexts.iter().map(|life| context_summary(trace, life));
    let findings = seen.findings.iter().map(|finding| FindingSummary {
        rule: finding.rule.clone(),
        severity: finding.severity.name().to_owned(),
        title: finding.title.clone(),
        says: finding.says.clone(),
        scenario: finding.scenario.clone(),
        workaround: finding.workaround.clone(),
        pid: finding.pid,
        after_ns: event(finding.events.first().copied()).map(|event| since(event.t_ns)),
        at: at(finding.events.first().copied()),
        events: finding.events.clone(),
        gpu: finding.gpu.clone(),
        bytes: finding.bytes,
    });
    let violations = seen.violations.iter().map(|violation| ViolationSummary {
        forbidden: violation.forbidden.clone(),
        says: violation.says.clone(),
        at: at(violation.event),
        event: violation.event,
    });
    TraceSummary {
        schema: SchemaId::current(SCHEMA),
        provenance: start.provenance,
        version: start.version.clone(),
        command: start.command.clone(),
        started_at: start.started_at.clone(),
        elapsed_ns: trace.end.as_ref().map(|end| since(end.t_ns)),
        exit: trace.end.as_ref().map(|end| ProgramExit { code: end.code, signal: end.signal.clone() }),
        complete: trace.end.is_some(),
        processes: processes.collect(),
        contexts: contexts.collect(),
        findings: findings.collect(),
        violations: violations.collect(),
        undecided: seen.undecided.to_vec(),
        not_seen: unseen::unseen(&seen.history),
        left_out: trace.end.as_ref().map_or(0, |end| end.left_out),
    }
}

fn process_summary(process: &TraceProcess, program: &ProgramHistory) -> ProcessSummary {
    ProcessSummary {
        pid: process.pid,
        parent: process.parent,
        name: process.name(),
        initialised: program.has_initialised(),
        mask: program.latched(MASK).map(|value| Mask { value: value.map(str::to_owned) }),
    }
}

/// The user's own line of an event.
fn position(trace: &Trace, event: &TraceEvent) -> Option<Position> {
    let place = place(trace, event)?;
    Some(Position { file: place.file, line: place.line, source: event.stack.source.clone() })
}

fn context_summary(trace: &Trace, life: &ContextLife) -> ContextSummary {
    ContextSummary {
        after_ns: life.made.t_ns.saturating_sub(trace.start.t_ns),
        pid: life.made.pid,
        index: trace.gpu_index(life.made.gpu.as_deref()),
        gpu: life.made.gpu.clone(),
        primary: matches!(life.made.what, EventKind::Context { change: ContextChange::Made, primary: true, .. }),
        bytes: life.bytes,
        at: position(trace, life.made),
        chain: place::chain(life.made),
        used: life.uses.map(|uses| !uses.is_none()),
        ended: life.ended.is_some(),
    }
}

/// The JSON Schema of the summary.
pub fn schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(TraceSummary)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    #[test]
    fn a_summary_has_the_contexts_and_follows_its_schema() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let summary = summary(&Seen::new(&trace, &findings, &outcome));
        let shown: Vec<_> =
            summary.contexts.iter().map(|it| (it.index, it.bytes.map(|it| it >> 20), it.used)).collect();
        assert_eq!(shown, [(Some(1), Some(527), Some(true)), (Some(0), Some(524), Some(false))]);
        let stray = summary.findings.get(1).and_then(|it| it.at.clone()).map(|at| (at.file, at.line));
        assert_eq!(stray, Some(("train.py".to_owned(), Some(52))));
        let (hostile_findings, hostile_outcome) = fixture::hostile_findings();
        let hostile = fixture::hostile();
        let other = super::summary(&Seen::new(&hostile, &hostile_findings, &hostile_outcome));
        for summary in [summary, other] {
            let value = serde_json::to_value(&summary).unwrap();
            assert!(validator.is_valid(&value), "{:?}", validator.iter_errors(&value).next());
            assert_eq!(serde_json::from_value::<TraceSummary>(value).unwrap(), summary);
        }
    }
}
