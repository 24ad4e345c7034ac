//! The summary of a trace as one JSON document, which `trace --json` prints.

use schemars::JsonSchema;
use serde::Serialize;

use super::TraceView;
use super::ledger::LedgerSummary;
use super::place::{self, place};
use cuda_pitfalls_answers::refused::RefusedCall;
use cuda_pitfalls_core::report::{SchemaId, schema_of};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::diagnosis::Finding;
use cuda_pitfalls_trace::history::{MASK, ProgramHistory};
use cuda_pitfalls_trace::policy::Violation;
use cuda_pitfalls_trace::{ContextChange, ContextLife, EventKind, Stack, Trace, TraceProcess};

const SCHEMA: &str = "cuda-pitfalls-trace-summary";

/// Summary of a trace, without its events.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Summary")]
pub(super) struct TraceSummary<'a> {
    /// Type and version of this document.
    schema: SchemaId,
    /// Origin of the results: a real or the simulated driver.
    provenance: Provenance,
    /// The version of cuda-pitfalls.
    version: String,
    /// The command and its arguments.
    command: Vec<String>,
    /// RFC 3339, UTC.
    started_at: String,
    /// Duration of the program, in nanoseconds; null if the trace has no end.
    elapsed_ns: Option<u64>,
    /// End of the program; null if the trace has no end.
    exit: Option<ProgramExit>,
    /// `true` if the trace has an end.
    complete: bool,
    /// The processes that made a CUDA call or changed a CUDA variable.
    processes: Vec<ProcessSummary>,
    /// Every context that was created, in the order of time.
    contexts: Vec<ContextSummary>,
    /// Memory by owner, for each process and GPU, the largest peak first; absent if the trace has no ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ledgers: Vec<LedgerSummary<'a>>,
    /// Findings of the rules.
    findings: Vec<FindingSummary<'a>>,
    /// The CUDA calls that failed: all of them if the program failed, otherwise those with a known cause.
    refused: Vec<RefusalSummary>,
    /// The last line of stderr with a known error, if the program failed; null without such a line.
    last_error: Option<RefusalSummary>,
    /// Violations of the policy.
    violations: Vec<ViolationSummary<'a>>,
    /// Conditions of the policy that cannot be decided, because the trace observed too little; each a sentence without
    /// a final period.
    undecided: Vec<String>,
    /// Sentences on what the trace could not observe.
    not_seen: Vec<String>,
    /// Number of events that the trace left out.
    left_out: u64,
}

/// End of a traced program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct ProgramExit {
    /// The program's exit code, if it exited.
    code: Option<i32>,
    /// The signal that ended the program, by name.
    signal: Option<String>,
}

/// A CUDA call that failed, or an error that the program printed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct RefusalSummary {
    /// Known details, in sentences.
    says: String,
    /// The id of the entry of `explain` for the status or the message, if it has one.
    known: Option<String>,
    /// Meaning according to `explain`, in sentences.
    means: Option<String>,
    /// The user's own line.
    at: Option<Position>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct ProcessSummary {
    /// The PID of the process.
    pid: u32,
    /// The PID of the process's parent.
    parent: u32,
    /// The program, and the script or module that its Python runs.
    name: String,
    /// `true` if the process was observed to initialize CUDA.
    initialised: bool,
    /// `CUDA_VISIBLE_DEVICES` as the driver read it: null where the variable was not set, absent
    /// where that was not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<Mask>,
}

/// Value of a variable when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Mask {
    /// The value; null if it was not set.
    value: Option<String>,
}

/// A line of the user's own code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Position {
    /// The file; if it lies below the folder that the program was started in, relative to that folder.
    file: String,
    /// The line.
    line: Option<u32>,
    /// `true` if another thread made the call while the program was at this line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_beside: bool,
    /// The source line, truncated to 200 characters; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct ContextSummary {
    /// Time of the creation since the start of the program, in nanoseconds.
    after_ns: u64,
    /// The process.
    pid: u32,
    /// The GPU's index in NVML order, if known.
    index: Option<usize>,
    /// The GPU's UUID, if known.
    gpu: Option<String>,
    /// `true` if the context is the GPU's primary context.
    primary: bool,
    /// Change of the memory of the GPU during the creation, in bytes.
    bytes: Option<i64>,
    /// The user's own line that created the context.
    at: Option<Position>,
    /// The path from the user's line to the call, outermost first.
    chain: Vec<String>,
    /// `true` if the context's process used the GPU; null if unknown.
    used: Option<bool>,
    /// `true` if the context was released, reset or destroyed before its process ended.
    ended: bool,
}

/// Finding of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct FindingSummary<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// Time of the finding since the start of the program, in nanoseconds.
    after_ns: Option<u64>,
    /// The user's own line where the program went wrong.
    at: Option<Position>,
    /// The measured results of the import that initialized CUDA there, in sentences; absent without results.
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<String>,
}

/// An action of a program that violates the policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct ViolationSummary<'a> {
    #[serde(flatten)]
    violation: &'a Violation,
    /// The user's own line.
    at: Option<Position>,
    /// The measured results of the import that initialized CUDA there, in sentences; absent without results.
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<String>,
}

pub(super) fn trace_summary<'a>(seen: &TraceView<'a>) -> TraceSummary<'a> {
    let (trace, start) = (seen.trace, &seen.trace.start);
    let mut processes = Vec::new();
    for process in &trace.processes {
        let program = seen.history.program_started_by(process);
        processes.extend(program.map(|program| process_summary(process, program)));
    }
    let contexts = seen.history.contexts.iter();
    let ledgers = seen.ledgers.iter();
    let refusals = seen.refusals.iter();
    let findings = seen.findings.iter().map(|finding| {
        let first = finding.events.first().copied();
        let event = first.and_then(|index| trace.events.get(index));
        FindingSummary {
            finding,
            after_ns: event.map(|event| event.t_ns.saturating_sub(start.t_ns)),
            at: seen.position(first),
            import: seen.import_words(finding.events.iter().copied()),
        }
    });
    let violations = seen.violations.iter().map(|violation| ViolationSummary {
        violation,
        at: seen.position(violation.event),
        import: seen.import_words(violation.event),
    });
    let end = trace.end.as_ref();
    TraceSummary {
        schema: SchemaId::current(SCHEMA),
        provenance: start.provenance,
        version: start.version.clone(),
        command: start.command.clone(),
        started_at: start.started_at.clone(),
        elapsed_ns: end.map(|end| end.t_ns.saturating_sub(start.t_ns)),
        exit: end.map(|end| ProgramExit {
            code: end.code,
            signal: end.signal.clone(),
        }),
        complete: end.is_some(),
        processes,
        contexts: contexts.map(|life| context_summary(trace, life)).collect(),
        ledgers: ledgers
            .map(|ledger| LedgerSummary::new(trace, ledger))
            .collect(),
        findings: findings.collect(),
        refused: refusals
            .map(|refusal| refusal_summary(seen, refusal))
            .collect(),
        last_error: seen
            .last_error
            .as_ref()
            .map(|error| refusal_summary(seen, error)),
        violations: violations.collect(),
        undecided: seen.undecided.to_vec(),
        not_seen: seen.not_seen.clone(),
        left_out: end.map_or(0, |end| end.left_out),
    }
}

fn process_summary(process: &TraceProcess, program: &ProgramHistory) -> ProcessSummary {
    ProcessSummary {
        pid: process.pid,
        parent: process.parent,
        name: process.name(),
        initialised: program.has_initialised(),
        mask: program.variable_at_init(MASK).map(|value| Mask {
            value: value.map(str::to_owned),
        }),
    }
}

fn refusal_summary(seen: &TraceView, refusal: &RefusedCall) -> RefusalSummary {
    let known = refusal.known.as_ref();
    RefusalSummary {
        says: refusal.says.clone(),
        known: known.map(|known| known.id.clone()),
        means: known.map(|known| known.says.clone()),
        at: seen.position(refusal.event),
    }
}

pub(super) fn user_position(trace: &Trace, stack: &Stack) -> Option<Position> {
    let place = place(trace, stack)?;
    Some(Position {
        file: place.file,
        line: place.line,
        is_beside: place.is_beside,
        source: stack.source.clone(),
    })
}

fn context_summary(trace: &Trace, life: &ContextLife) -> ContextSummary {
    ContextSummary {
        after_ns: life.created.t_ns.saturating_sub(trace.start.t_ns),
        pid: life.created.pid,
        index: trace.gpu_index(life.created.gpu.as_deref()),
        gpu: life.created.gpu.clone(),
        primary: matches!(
            life.created.what,
            EventKind::Context {
                change: ContextChange::Made,
                primary: true,
                ..
            }
        ),
        bytes: life.bytes,
        at: user_position(trace, &life.created.stack),
        chain: place::chain(life.created),
        used: life.is_used(),
        ended: life.ended.is_some(),
    }
}

/// Returns the JSON Schema of the summary.
pub fn schema() -> serde_json::Value {
    schema_of::<TraceSummary>()
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
        let summary = trace_summary(&TraceView::new(&trace, &findings, &outcome));
        let shown: Vec<_> = summary
            .contexts
            .iter()
            .map(|context| {
                (
                    context.index,
                    context.bytes.map(|bytes| bytes >> 20),
                    context.used,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Some(1), Some(527), Some(true)),
                (Some(0), Some(524), Some(false))
            ]
        );
        let stray = summary
            .findings
            .get(1)
            .and_then(|finding| finding.at.clone())
            .map(|at| (at.file, at.line));
        assert_eq!(stray, Some(("train.py".to_owned(), Some(52))));
        let (hostile_findings, hostile_outcome) = fixture::hostile_findings();
        let hostile = fixture::hostile();
        let other = super::trace_summary(&TraceView::new(
            &hostile,
            &hostile_findings,
            &hostile_outcome,
        ));
        let memory = fixture::memory();
        let with_ledgers = super::trace_summary(&TraceView::bare(&memory));
        let value = serde_json::to_value(&with_ledgers).unwrap();
        let [peak, row] = [
            "/ledgers/0/peak/unattributed_bytes",
            "/ledgers/0/peak/rows/0",
        ]
        .map(|pointer| value.pointer(pointer));
        assert_eq!(peak, Some(&serde_json::json!(197 << 20)));
        let wanted = serde_json::json!({
            "kind": "allocation", "owner": "torch", "owner_name": "PyTorch's caching allocator",
            "at": {"file": "train.py", "line": 40, "source": "x = torch.empty(1)"}, "place": "train.py:40",
            "calls": ["cuMemAlloc_v2"], "bytes": 2048_u64 << 20, "whole_bytes": null, "count": null, "estimate": false,
        });
        assert_eq!(row, Some(&wanted));
        assert_eq!(summary.ledgers, []);
        for summary in [summary, other, with_ledgers] {
            let value = serde_json::to_value(&summary).unwrap();
            assert!(
                validator.is_valid(&value),
                "{:?}",
                validator.iter_errors(&value).next()
            );
        }
    }
}
