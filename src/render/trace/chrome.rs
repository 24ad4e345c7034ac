//! A trace in the Chrome trace event format, which Perfetto and chrome://tracing open: calls by thread, contexts by
//! their lives, the memory of each GPU as a curve, findings as marks.
//!
//! Times are microseconds since the program was started. The format is that of the document "Trace Event Format" of
//! the Chromium project, as an object with `traceEvents`.

use serde_json::{Value, json};

use super::entry::{entries, late_write};
use super::{Seen, place};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_trace::{EventKind, Trace, TraceEvent};

/// The process that the curves of memory belong to: no PID is 0.
const MACHINE: u32 = 0;

/// The whole document, in one line. It ends with a newline.
pub(super) fn document(seen: &Seen) -> String {
    let (trace, start) = (seen.trace, &seen.trace.start);
    let mut events = names(seen);
    events.extend(trace.events.iter().map(|event| call(trace, event)));
    events.extend(contexts(seen));
    events.extend(memory(trace));
    events.extend(marks(seen));
    let other = json!({
        "command": start.command.join(" "),
        "provenance": start.provenance,
        "simulated": start.provenance == Provenance::Simulated,
        "driver": start.driver_version,
        "version": start.version,
    });
    format!("{}\n", json!({ "displayTimeUnit": "ms", "traceEvents": events, "otherData": other }))
}

/// The names of the processes, and of the row of memory.
fn names(seen: &Seen) -> Vec<Value> {
    let named = |pid: u32, name: String| json!({ "ph": "M", "name": "process_name", "pid": pid, "tid": pid, "args": { "name": name } });
    let processes = seen.trace.processes.iter().map(|process| {
        let who = place::who(seen.trace, process.pid);
        named(process.pid, format!("{} ({who})", place::short(&process.name())))
    });
    let simulated =
        if seen.trace.start.provenance == Provenance::Simulated { " (SIMULATED: not evidence)" } else { "" };
    std::iter::once(named(MACHINE, format!("memory of the GPUs, by NVML{simulated}"))).chain(processes).collect()
}

/// A call, as long as it took.
fn call(trace: &Trace, event: &TraceEvent) -> Value {
    json!({
        "ph": "X",
        "name": place::short(&event.call),
        "cat": "call",
        "pid": event.pid,
        "tid": event.tid,
        "ts": microseconds(trace, event.t_ns),
        "dur": event.elapsed_ns.unwrap_or(0) as f64 / 1000.0,
        "args": {
            "way": place::chain(event),
            "status": event.status,
            "gpu": event.gpu.is_some().then(|| place::gpu(trace, event)),
            "memory_bytes": event.memory_bytes,
        },
    })
}

/// A context from the call that made it to the call that ended it, or to the end of its process or of the trace.
fn contexts(seen: &Seen) -> impl Iterator<Item = Value> {
    let trace = seen.trace;
    let last = trace.end.as_ref().map(|end| end.t_ns).or(trace.events.last().map(|event| event.t_ns)).unwrap_or(0);
    seen.history.contexts.iter().enumerate().flat_map(move |(number, life)| {
        let made = life.made;
        let until = |counts: &&cuda_pitfalls_trace::ProcessCounts| counts.pid == made.pid && counts.t_ns > made.t_ns;
        let process_end = trace.counts.iter().find(until).map(|counts| counts.t_ns);
        let end = life.ended.map(|event| event.t_ns).or(process_end).unwrap_or(last).max(made.t_ns);
        let name = format!("context on {}", place::gpu(trace, made));
        let args =
            json!({ "bytes": life.bytes, "used": life.uses.map(|uses| !uses.is_none()), "way": place::chain(made) });
        [("b", made.t_ns, args), ("e", end, json!({}))].map(|(phase, t_ns, args)| {
            json!({
                "ph": phase, "name": name, "cat": "context", "id": number, "pid": made.pid, "tid": made.tid,
                "ts": microseconds(trace, t_ns), "args": args,
            })
        })
    })
}

/// What was in use on each GPU.
fn memory(trace: &Trace) -> impl Iterator<Item = Value> {
    trace.memory.iter().map(|memory| {
        json!({
            "ph": "C", "name": format!("GPU {}", memory.index), "pid": MACHINE, "tid": MACHINE,
            "ts": microseconds(trace, memory.t_ns), "args": { "MiB in use": memory.used_bytes as f64 / f64::from(1 << 20) },
        })
    })
}

/// What went wrong, at the moment when it did.
fn marks(seen: &Seen) -> Vec<Value> {
    let mark = |event: &TraceEvent, category: &str, name: &str, args: Value| {
        json!({
            "ph": "i", "s": "p", "name": place::short(name), "cat": category, "pid": event.pid, "tid": event.tid,
            "ts": microseconds(seen.trace, event.t_ns), "args": args,
        })
    };
    let event = |index: Option<usize>| seen.trace.events.get(index?);
    let findings = seen.findings.iter().filter_map(|finding| {
        let args = json!({
            "says": finding.says, "workaround": finding.workaround, "rule": finding.rule, "scenario": finding.scenario,
        });
        Some(mark(event(finding.events.first().copied())?, finding.severity.name(), &finding.title, args))
    });
    let violations = seen.violations.iter().filter_map(|violation| {
        let name = format!("forbidden: {}", violation.forbidden);
        Some(mark(event(violation.event)?, "violation", &name, json!({ "says": violation.says })))
    });
    let made = entries(&seen.history, seen.findings, seen.violations);
    let late = made.all.iter().flat_map(|entry| &entry.late).filter_map(|late| {
        let written = seen.trace.events.get(late.event)?;
        matches!(written.what, EventKind::Variable { .. })
            .then(|| mark(written, "late", "late write", json!({ "says": late_write(seen.trace, late) })))
    });
    findings.chain(violations).chain(late).collect()
}

/// Since the program was started.
fn microseconds(trace: &Trace, t_ns: u64) -> f64 {
    t_ns.saturating_sub(trace.start.t_ns) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_trace::fixture::programs as fixture;

    fn events(seen: &Seen) -> Vec<Value> {
        let document: Value = serde_json::from_str(&document(seen)).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    /// What the format asks of each event.
    fn assert_valid(events: &[Value]) {
        for event in events {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
            let needs = match phase {
                "X" => event["dur"].as_f64().is_some_and(|dur| dur >= 0.0),
                "b" | "e" => event["id"].is_u64() && event["cat"].is_string(),
                "i" => event["s"] == "p",
                "C" => event["args"].as_object().unwrap().values().all(Value::is_number),
                "M" => event["args"]["name"].is_string(),
                _ => false,
            };
            assert!(needs && (phase == "M" || event["ts"].as_f64().is_some_and(|ts| ts >= 0.0)), "{event}");
        }
        let lives = |phase: &str| {
            events.iter().filter(|event| event["ph"] == phase).map(|event| event["id"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(lives("b").len(), lives("e").len());
    }

    #[test]
    fn calls_contexts_memory_and_findings_are_events_of_the_format() {
        let trace = fixture::trace();
        let (findings, outcome) = (fixture::findings(&trace), fixture::outcome(&trace));
        let events = events(&Seen::new(&trace, &findings, &outcome));
        assert_valid(&events);
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        assert_eq!((of("X"), of("b"), of("C")), (trace.events.len(), 2, trace.memory.len()));
        assert!(events.iter().any(|event| event["cat"] == "pitfall" && event["args"]["workaround"].is_string()));
        assert!(events.iter().any(|event| event["cat"] == "late"), "{events:#?}");
    }

    #[test]
    fn a_hostile_trace_is_a_valid_document_too_and_a_simulated_one_says_so() {
        let (findings, outcome) = fixture::hostile_findings();
        let hostile = fixture::hostile();
        assert_valid(&events(&Seen::new(&hostile, &findings, &outcome)));
        let mut simulated = fixture::trace();
        simulated.start.provenance = Provenance::Simulated;
        assert!(document(&Seen::bare(&simulated)).contains("SIMULATED: not evidence"));
    }
}
