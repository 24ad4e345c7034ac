//! Small reports made by hand, for the tests of the renderings.

use serde_json::{Value, json};

use crate::html::page::POLICY;
use cuda_pitfalls_core::report::{Report, SCHEMA, SchemaId};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason};

const MIB: u64 = 1 << 20;
const GPUS: [&str; 2] = [
    "GPU-8b6c2f00-0000-4000-8000-00000000000a",
    "GPU-8b6c2f00-0000-4000-8000-00000000000b",
];

/// Returns a report with every kind of standing except a harness error.
pub(super) fn report() -> Report {
    let scenarios = [
        scenario(
            "visibility/mask-after-count",
            "reproduced",
            "as_expected",
            false,
        ),
        scenario(
            "context/set-device-makes-no-context",
            "not_reproduced",
            "unexpected",
            false,
        ),
        scenario(
            "memory/heap-growth[limit=64 MiB]",
            "inconclusive",
            "no_expectation",
            true,
        ),
        json!({
            "name": "peer/needs-two", "scenario": "peer/needs-two", "question": "Does a peer copy make a context?", "workaround": "",
            "tags": ["peer"], "parameters": {}, "sha256": "00ff".repeat(16), "libcudart": null, "plan": null, "cases": [],
            "verdict": {"kind": "skipped", "reason": "too_few_gpus", "detail": "needs 4 GPUs, found 2",
                        "expectation": "no_expectation", "provenance": "measured"},
        }),
    ];
    // Built part by part: a report that is read must not contradict itself, but this one need not be possible.
    Report {
        schema: SchemaId::current(SCHEMA),
        must_understand: Vec::new(),
        provenance: Provenance::Measured,
        run: serde_json::from_value(run()).unwrap(),
        machine: serde_json::from_value(machine()).unwrap(),
        scenarios: scenarios
            .into_iter()
            .map(|scenario| serde_json::from_value(scenario).unwrap())
            .collect(),
        complete: true,
    }
}

/// Returns a finished report without scenarios, on a machine without a GPU.
pub(super) fn empty() -> Report {
    let mut report = report();
    report.scenarios.clear();
    report.run.calibration.clear();
    report.machine.gpus.clear();
    report.machine.driver_version = None;
    report
}

/// Returns a report whose run was interrupted, with one attempt under way.
pub(super) fn partial() -> Report {
    let mut report = report();
    report.complete = false;
    report.run.finished_at = None;
    report.run.exit = None;
    report.run.interrupted = Some("SIGINT".to_owned());
    report.scenarios.truncate(1);
    report.scenarios[0].cases[1].attempts.truncate(1);
    report.scenarios[0].cases[1].outcomes.clear();
    report
}

/// Returns a report whose scenarios were all skipped.
pub(super) fn skipped() -> Report {
    let mut report = report();
    report.scenarios.drain(..3);
    report
}

pub(super) fn simulated() -> Report {
    let mut report = report();
    report.provenance = Provenance::Simulated;
    report.run.on = "sim:two".to_owned();
    for scenario in &mut report.scenarios {
        scenario.verdict.provenance = Provenance::Simulated;
    }
    report
}

/// Text of [`hostile`]: several attacks on a reader, one after the other.
pub(super) const HOSTILE: &str = "<img src='' onerror=\"x\"> \u{1b}]52;c;aGk=\u{7} a|b `c` \u{202e}abc\n::set-output name=x::y\r##[error]z";

/// Returns an interrupted report whose texts in tables, labels and sentences are [`HOSTILE`].
pub(super) fn hostile() -> Report {
    let mut report = Report {
        complete: false,
        ..report()
    };
    let verdicts = [
        (Kind::Reproduced, None, ExpectationMet::Unexpected),
        (
            Kind::Inconclusive,
            Some(Reason::Crashed),
            ExpectationMet::NoExpectation,
        ),
        (
            Kind::HarnessError,
            Some(Reason::Protocol),
            ExpectationMet::NoExpectation,
        ),
        (
            Kind::Skipped,
            Some(Reason::NoGpu),
            ExpectationMet::NoExpectation,
        ),
    ];
    for (place, (scenario, (kind, reason, expectation))) in
        report.scenarios.iter_mut().zip(verdicts).enumerate()
    {
        let verdict = &mut scenario.verdict;
        (verdict.kind, verdict.reason, verdict.expectation) = (kind, reason, expectation);
        verdict.unexpected.clear();
        if expectation == ExpectationMet::Unexpected {
            verdict.unexpected.push(HOSTILE.to_owned());
        }
        let texts = [
            &mut scenario.name,
            &mut scenario.scenario,
            &mut scenario.question,
            &mut scenario.workaround,
        ];
        texts
            .into_iter()
            .chain([&mut verdict.detail])
            .for_each(|text| *text = HOSTILE.to_owned());
        (scenario.name, scenario.scenario) =
            (format!("{HOSTILE}{place}"), format!("{HOSTILE}{place}"));
        for (index, case) in scenario.cases.iter_mut().enumerate() {
            // Neither two cases of a question nor two questions may have one name.
            case.name = format!("{HOSTILE}{index}");
            case.attempts
                .iter_mut()
                .for_each(|attempt| attempt.recording.stderr_tail = HOSTILE.to_owned());
        }
    }
    report
        .machine
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.name = Some(HOSTILE.to_owned()));
    report.machine.driver_version = Some(HOSTILE.to_owned());
    report.run.warnings = vec![HOSTILE.to_owned()];
    (report.run.host_unsafe, report.run.interrupted) =
        (Some(HOSTILE.to_owned()), Some(HOSTILE.to_owned()));
    report
}

fn run() -> Value {
    let calibration = GPUS.map(|uuid| {
        json!({"uuid": uuid, "null_bytes": 0, "context_bytes": 530 * MIB, "allocation_bytes": 64 * MIB,
               "allocated_bytes": 64 * MIB, "epsilon_bytes": 2 * MIB, "pid_listed": true, "sound": true})
    });
    json!({
        "id": "2025-11-20T16-00-00Z-abcd", "version": "0.1.0", "started_at": "2025-11-20T16:00:00Z",
        "finished_at": "2025-11-20T16:01:13Z", "started_ns": 0, "elapsed_ns": 73_000_000_000u64, "selectors": [],
        "on": "cuda", "seed": 7, "allowed": [], "interrupted": null, "exit": {"code": 1, "name": "unexpected"},
        "calibration": calibration, "warnings": [], "host_unsafe": null, "parent_peak_rss_bytes": 9 * MIB,
    })
}

pub(super) fn machine() -> Value {
    let gpus = GPUS.map(|uuid| {
        json!({"uuid": uuid, "name": "NVIDIA H200", "pci_bus_id": "00000000:18:00.0", "compute_capability": "9.0",
               "total_bytes": 150_754_820_096u64, "reserved_bytes": 630 * MIB, "compute_mode": "Default",
               "persistence": true, "mig": false})
    });
    json!({
        "driver_version": "580.159.04", "cuda_driver_version": 13000, "nvml_version": "13.580.159.04", "gpus": gpus,
        "libraries": [{"library": "libcuda", "path": "/usr/lib/libcuda.so.580.159.04", "simulated": false}],
        "libcudart": [runtime()], "kernel": "6.18.44", "architecture": "x86_64",
        "isolation": {"pid_namespace": true, "container": "docker", "own_pid_listed": true},
        "environment": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "mps": false,
    })
}

fn runtime() -> Value {
    json!({"path": "/usr/local/cuda/lib64/libcudart.so.13.0.96", "version": "13.0", "number": 13000})
}

fn scenario(name: &str, kind: &str, expectation: &str, mixed: bool) -> Value {
    let unexpected: &[&str] = if expectation == "unexpected" {
        &["expected reproduced: the driver has made a context in cudaSetDevice since 12.0"]
    } else {
        &[]
    };
    json!({
        "name": name, "scenario": name, "question": "Does CUDA_VISIBLE_DEVICES still count after a device count?", "workaround": "",
        "tags": ["visibility", "environment"], "parameters": {}, "sha256": "5d41402abc4b2a76b9719d911017c592".repeat(2),
        "libcudart": runtime(), "plan": plan(),
        "verdict": {"kind": kind, "reason": if mixed { json!("intermittent") } else { Value::Null },
                    "detail": "the effect shows in 3 of 3 attempts of trap and 0 of 3 of control",
                    "expectation": expectation, "unexpected": unexpected, "provenance": "measured"},
        "cases": [case("trap", true, mixed), case("control", false, false)],
    })
}

fn plan() -> Value {
    let steps = |calls: &[&str]| -> Vec<Value> {
        calls
            .iter()
            .map(|call| json!({"call": call, "label": call, "line": 9}))
            .collect()
    };
    let case = |name: &str, does: &str, calls: &[&str]| json!({"name": name, "does": does, "mask": null, "env": {}, "probes": true, "steps": steps(calls), "expect": []});
    json!({
        "repeat": 3, "step_timeout_ms": 10000, "timeout_ms": 60000, "gpus": GPUS, "used_gpus": 2,
        "needs": {"gpus": 2}, "hazards": [], "parameters": {}, "nondeterministic": false, "expect": [],
        "effect": [{"at": "cudaGetDeviceCount", "value": {"count": {"eq": {"int": 2}}}, "line": 30},
                   {"at": "cudaFree", "memory": {"gpu0": ["context"]}, "line": 31}],
        "cases": [case("trap", "counts before it sets the mask", &["cudaGetDeviceCount", "setenv", "cudaFree"]),
                  case("control", "sets the mask first", &["setenv", "cudaGetDeviceCount", "cudaFree"])],
    })
}

fn case(name: &str, trap: bool, mixed: bool) -> Value {
    let count = |n: u32| json!({"count": n, "observation": observation(trap)});
    let mut outcomes = vec![count(if mixed { 1 } else { 3 })];
    if mixed {
        outcomes.push(json!({"count": 1, "observation": {"steps": [], "end": "SIGSEGV"}}));
    }
    let attempts: Vec<Value> = (0..3)
        .map(|n| {
            let contaminated = mixed && n == 2;
            let outcome = if contaminated {
                None
            } else {
                Some(if mixed { n } else { 0 })
            };
            let doubt =
                json!({"reason": "contaminated", "detail": "another process took 12 MiB on gpu1"});
            attempt(
                n,
                trap,
                outcome,
                if contaminated {
                    json!([doubt])
                } else {
                    json!([])
                },
            )
        })
        .collect();
    json!({"name": name, "outcomes": outcomes, "attempts": attempts})
}

fn observation(trap: bool) -> Value {
    let memory = |used: u64| {
        let class = if used > 0 { "context" } else { "none" };
        json!({"gpu0": {"class": class, "used_bytes": used}, "gpu1": {"class": "none", "used_bytes": 0}})
    };
    let visible = if trap {
        json!(["gpu0", "gpu1"])
    } else {
        json!(["gpu1"])
    };
    let success = json!({"code": 0, "name": "cudaSuccess"});
    let count = json!({
        "label": "cudaGetDeviceCount", "returned": true, "status": success, "values": {"count": if trap { 2 } else { 1 }},
        "elapsed_ns": 231_000_000, "initialised": true, "visible": visible, "contexts": [], "current": "none",
        "memory": memory(0),
    });
    let setenv = json!({
        "label": "setenv", "returned": true, "status": {"code": 0, "name": null}, "elapsed_ns": 900, "initialised": null,
        "visible": null, "contexts": null, "current": null, "memory": memory(0),
    });
    let free = json!({
        "label": "cudaFree", "returned": true, "status": success, "elapsed_ns": 120_000_000, "initialised": true,
        "visible": visible, "contexts": if trap { json!(["gpu0"]) } else { json!([]) },
        "current": if trap { "gpu0" } else { "none" }, "memory": memory(if trap { 530 * MIB } else { 0 }),
    });
    json!({"steps": if trap { [count, setenv, free] } else { [setenv, count, free] }, "end": "0"})
}

fn attempt(order: u64, trap: bool, outcome: Option<u64>, invalid: Value) -> Value {
    const MS: u64 = 1_000_000;
    let start = 1_000 * MS * (order + 1);
    let snapshot = |at: u64, step: Option<u64>, used: u64| {
        let gpus = [used, 0].map(|used| {
            json!({"used_bytes": 1100 * MIB + used, "reserved_bytes": 630 * MIB, "v1_used_bytes": null, "processes": []})
        });
        json!({"step": step, "t_ns": start + at * MS, "elapsed_ns": MS, "gpus": gpus})
    };
    let after = if trap { 530 * MIB } else { 0 };
    let events: Vec<Value> = (0..3u64)
        .map(|step| json!({"event": "begin", "step": step, "t_ns": start + (50 + 120 * step) * MS}))
        .collect();
    json!({
        "order": order, "started_ns": start, "wall_ns": 700 * MS, "overhead_ns": 80 * MS, "pid": 4711, "events": events,
        "snapshots": [snapshot(10, None, 0), snapshot(400, Some(2), after)],
        "polling": {"t_ns": start, "elapsed_ns": 600 * MS, "reads": 900, "longest_gap_ns": 3 * MS, "stalls": [],
                     "changes": {"t_ns": [start + 310 * MS, start + 600 * MS], "gpu": [0, 0],
                                 "used_bytes": [1100 * MIB + after / 2, 1100 * MIB]},
                     "truncated": false},
        "exit": {"code": 0, "signal": null, "deadline_at": null, "died_at": null, "said_bye": true,
                 "leaked_children": 0, "unkillable": false, "oom_killed": false},
        "incidents": [], "invalid": invalid, "outcome": outcome,
    })
}

/// Checks that a page loads and runs nothing.
pub(crate) fn assert_inert(page: &str) {
    assert!(page.contains(POLICY));
    for word in [
        "<script", "<img", "<link", "<iframe", "src=\"", "url(", "http://", "https://", "@import",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert_closed(page);
}

/// Checks that every tag is closed.
pub(crate) fn assert_closed(page: &str) {
    let tags = [
        "table", "tr", "td", "th", "div", "section", "details", "summary", "p", "span", "dl",
        "svg", "ol", "li", "pre", "figure", "caption", "fieldset", "label", "a", "ul", "code",
        "article", "select", "main",
    ];
    for tag in tags {
        let open =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

/// Checks that every line is a series with a number, and no series occurs twice.
pub(crate) fn assert_metrics(file: &str, prefix: &str) {
    let mut seen = std::collections::HashSet::new();
    for line in file.lines().filter(|line| !line.starts_with("# ")) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} twice");
        assert!(
            series.starts_with(prefix) && value.parse::<f64>().is_ok(),
            "{line}"
        );
        let quotes = series
            .replace("\\\\", "")
            .replace("\\\"", "")
            .matches('"')
            .count();
        assert_eq!(
            quotes,
            2 * series.replace("\\\"", "").matches("=\"").count(),
            "{line}"
        );
    }
}
