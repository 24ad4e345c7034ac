//! Two traces.

use crate::compare::{Comparison, compare_traces};
use crate::exit::Exit;
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_trace::fixture::{PID, TraceBuilder, programs as fixture};
use cuda_pitfalls_trace::{CallCount, EventKind, Trace, TraceEvent};

fn compared(a: &Trace, b: &Trace) -> Comparison {
    compare_traces([a, b], [&fixture::findings(a), &fixture::findings(b)])
}

fn changed(comparison: &Comparison) -> Vec<String> {
    let line = |name: &String, change: &crate::compare::FactDifference| {
        format!("{name}: {} {} -> {}", change.fact, change.a, change.b)
    };
    let all = comparison.changed.iter();
    all.flat_map(|difference| {
        difference
            .changes
            .iter()
            .map(|change| line(&difference.name, change))
    })
    .collect()
}

fn event(trace: &mut Trace, is_it: impl Fn(&TraceEvent) -> bool) -> &mut TraceEvent {
    trace.events.iter_mut().find(|event| is_it(event)).unwrap()
}

const MAIN: &str = "python train.py";

#[test]
fn a_trace_does_what_it_does() {
    let trace = fixture::trace();
    let comparison = compared(&trace, &trace);
    assert_eq!(
        (changed(&comparison), comparison.exit()),
        (vec![], Exit::Ok)
    );
    assert!(comparison.same > 12, "{}", comparison.same);
}

#[test]
fn volatile_values_are_not_differences() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    let pid = |pid: u32| if pid == 4711 { 31 } else { 32 };
    for process in &mut b.processes {
        (process.pid, process.parent) =
            (pid(process.pid), if process.pid == 4711 { 1 } else { 31 });
    }
    for event in &mut b.events {
        event.pid = pid(event.pid);
        event.t_ns += 40_000_000;
        for frame in &mut event.stack.frames {
            frame.line = frame.line.map(|line| line + 3);
        }
        for bytes in event.memory_bytes.iter_mut().flatten() {
            *bytes += if *bytes > 0 { 1 << 20 } else { 0 };
        }
    }
    for counts in &mut b.counts {
        counts.pid = pid(counts.pid);
    }
    let findings = fixture::findings(&b).into_iter().map(|mut finding| {
        finding.pid = 31;
        finding
    });
    let comparison = compare_traces(
        [&a, &b],
        [&fixture::findings(&a), &findings.collect::<Vec<_>>()],
    );
    assert_eq!(
        (changed(&comparison), comparison.exit()),
        (vec![], Exit::Ok)
    );
}

#[test]
fn a_context_that_is_gone_and_its_pitfall_are_told() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    let findings = fixture::findings(&b);
    b.events.retain(|event| event.device != Some(0));
    b.memory.retain(|memory| memory.index != 0);
    let comparison = compare_traces([&a, &b], [&fixture::findings(&a), &findings[..1]]);
    let expected = [
        format!(
            "{MAIN}: pitfall stray-context on GPU 0, train.py <module> → torch.cuda.synchronize: found yes -> no"
        ),
        format!(
            "{MAIN}: context on GPU 0, train.py <module> → torch.cuda.synchronize: contexts 1 -> 0"
        ),
        "memory of GPU 0: peak +524 MiB -> 0".to_owned(),
    ];
    assert_eq!(
        (changed(&comparison), comparison.exit()),
        (expected.to_vec(), Exit::Unexpected)
    );
}

#[test]
fn the_mask_errors_limits_and_functions_are_compared() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    event(&mut b, |event| {
        matches!(event.what, EventKind::MaskRead { .. })
    })
    .what = EventKind::MaskRead {
        value: Some("1".to_owned()),
        after_hook: true,
    };
    event(&mut b, |event| event.what == EventKind::Error).status = Some(2);
    event(&mut b, |event| {
        matches!(event.what, EventKind::Limit { .. })
    })
    .status = Some(0);
    let calls = &mut b.counts[0].calls;
    calls.remove("cuCtxSetLimit");
    calls.insert(
        "cuGraphLaunch".to_owned(),
        CallCount {
            calls: 3,
            errors: 0,
        },
    );
    calls
        .entry("cuLaunchKernel".to_owned())
        .and_modify(|count| count.calls += 9);
    let child = format!("{MAIN} > {MAIN}");
    let expected = [
        format!("{MAIN}: cuInit: CUDA_VISIBLE_DEVICES (unset) -> 1"),
        // The value that the other trace had read before.
        format!(
            "{MAIN}: write of CUDA_VISIBLE_DEVICES=1, train.py <module>: comes after cuInit yes -> no"
        ),
        format!(
            "{MAIN}: limit 2, train.py <module>: returned CUDA_ERROR_INVALID_VALUE -> CUDA_SUCCESS"
        ),
        format!("{child}: CUDA_ERROR_NOT_INITIALIZED by cuMemGetInfo_v2: returned yes -> no"),
        format!("{child}: CUDA_ERROR_OUT_OF_MEMORY by cuMemGetInfo_v2: returned no -> yes"),
        format!("{MAIN}: cuCtxSetLimit: called yes -> no"),
        format!("{MAIN}: cuGraphLaunch: called no -> yes"),
    ];
    assert_eq!(changed(&compared(&a, &b)), expected);
}

#[test]
fn what_a_trace_without_an_end_lacks_does_not_count() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    b.end = None;
    b.events.truncate(8);
    b.memory.truncate(2);
    b.counts.clear();
    let findings = fixture::findings(&a);
    let comparison = compare_traces([&a, &b], [&findings, &findings[..1]]);
    assert_eq!(changed(&comparison), Vec::<String>::new());
    assert!(comparison.explained.len() > 4 && !comparison.b.complete);
    assert!(
        comparison
            .explained
            .iter()
            .all(|it| it.notes == ["the trace B is incomplete"]),
        "{:#?}",
        comparison.explained
    );
}

#[test]
fn a_stack_that_was_not_read_is_no_difference() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    for event in b
        .events
        .iter_mut()
        .filter(|event| event.device == Some(0) || matches!(event.what, EventKind::Init { .. }))
    {
        event.stack = cuda_pitfalls_trace::Stack::from_failure("the thread went on");
    }
    let comparison = compared(&a, &b);
    assert_eq!(changed(&comparison), Vec::<String>::new());
    assert!(
        comparison
            .explained
            .iter()
            .all(|it| it.notes == ["stacks are missing"]),
        "{:#?}",
        comparison.explained
    );
    assert!(comparison.explained.len() >= 2);
}

#[test]
fn another_machine_is_shown_and_does_not_count() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    b.start.driver_version = Some("590.1".to_owned());
    for (place, Gpu { uuid, name, .. }) in b.start.gpus.iter_mut().enumerate() {
        *uuid = format!("other-{place}");
        *name = Some("NVIDIA B200".to_owned());
    }
    let other = |uuid: &mut String| {
        *uuid = if uuid.starts_with("GPU-0") {
            "other-0"
        } else {
            "other-1"
        }
        .to_owned()
    };
    b.events
        .iter_mut()
        .for_each(|event| event.gpu.iter_mut().for_each(other));
    for counts in &mut b.counts {
        counts.gpus = std::mem::take(&mut counts.gpus)
            .into_iter()
            .map(|(mut uuid, uses)| {
                other(&mut uuid);
                (uuid, uses)
            })
            .collect();
    }
    let mut findings = fixture::findings(&b);
    findings
        .iter_mut()
        .for_each(|finding| finding.gpu.iter_mut().for_each(other));
    let comparison = compare_traces([&a, &b], [&fixture::findings(&a), &findings]);
    assert_eq!(
        (changed(&comparison), comparison.exit()),
        (vec![], Exit::Ok)
    );
    let facts: Vec<&str> = comparison
        .machines
        .iter()
        .map(|change| change.fact.as_str())
        .collect();
    assert_eq!(facts, ["driver", "GPU model"]);
}

#[test]
fn a_child_that_is_gone_and_another_python_do_not_rename_everything() {
    let (a, mut b) = (fixture::trace(), fixture::trace());
    b.processes.truncate(1);
    b.events.retain(|event| event.pid == 4711);
    b.processes[0].program = "/usr/bin/python3.13".to_owned();
    let child = format!("{MAIN} > {MAIN}");
    let expected = [
        format!(
            "{child}: fork after cuInit, train.py <module> → torch.utils.data.dataloader.__init__: happens yes -> no"
        ),
        format!("{child}: CUDA_ERROR_NOT_INITIALIZED by cuMemGetInfo_v2: returned yes -> no"),
    ];
    assert_eq!(changed(&compared(&a, &b)), expected);
}

#[test]
fn the_programs_before_and_after_an_exec_are_compared() {
    let [masked, unmasked] = [&[("CUDA_VISIBLE_DEVICES", "1")][..], &[]].map(|variables| {
        let made = TraceBuilder::on(2)
            .init(&[], &[0, 1])
            .ends(&[])
            .process(PID, 1);
        made.init(variables, &[0, 1]).ends(&[]).done()
    });
    let compared = compare_traces([&masked, &unmasked], [&[], &[]]);
    assert_eq!(
        changed(&compared),
        ["cuInit: CUDA_VISIBLE_DEVICES (unset), 1 -> (unset)"]
    );
}

#[test]
fn ledger_growth_is_reported_by_owner_and_purpose() {
    let a = fixture::memory();
    assert_eq!(changed(&compared(&a, &a)), [] as [&str; 0]);
    let mut b = fixture::memory();
    // NCCL uses more, cuBLAS uses nothing, and an array uses slightly more, which does not count.
    for held in b.ledger.iter_mut().flat_map(|reading| &mut reading.held) {
        match held.holder {
            4 => held.bytes += 188 << 20,
            5 => held.bytes = 0,
            8 => held.bytes += 4096,
            _ => {}
        }
    }
    let position = "python train.py: ";
    let named = |name: &str| format!("{position}{name}");
    let found = changed(&compared(&a, &b));
    assert_eq!(
        found,
        [
            named("driver-internal of cuBLAS on GPU 1: at the peak 34 MiB -> 0"),
            named("memory unattributed on GPU 1: at the peak 197 MiB -> 43 MiB"),
            named("physical memory of NCCL on GPU 1: at the peak 512 MiB -> 700 MiB"),
        ]
    );
    b.start.ledger = false;
    let found = changed(&compared(&a, &b));
    assert_eq!(found, [] as [&str; 0], "what was not asked did not shrink");
    b.start.ledger = true;
    b.end = None;
    assert_eq!(
        compared(&a, &b)
            .explained
            .iter()
            .filter(|it| it.name.contains("NCCL"))
            .count(),
        1
    );
}
