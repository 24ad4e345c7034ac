//! The entries of a program in PyTorch, and of variations of it.

use super::*;
use cuda_pitfalls_trace::fixture::programs as fixture;
use cuda_pitfalls_trace::history::MASK;
use cuda_pitfalls_trace::{EventKind, Trace};

fn entries<'a>(trace: &'a Trace, findings: &[Finding], violations: &[Violation]) -> Entries<'a> {
    super::entries(&History::new(trace), findings, violations)
}

fn titles(trace: &Trace) -> Vec<String> {
    entries(trace, &[], &[])
        .all
        .iter()
        .map(TraceEntry::title)
        .collect()
}

#[test]
fn important_events_have_an_entry_and_the_others_are_counted() {
    let trace = fixture::trace();
    let expected = [
        "CUDA_VISIBLE_DEVICES was read as (unset)",
        "GPU 1  +527 MiB  context",
        "GPU 0  +524 MiB  context, never used afterwards",
        "forked after cuInit: the parent, pid 4711, has 2 contexts",
        "cuMemGetInfo_v2 returned CUDA_ERROR_NOT_INITIALIZED (3)",
        "CU_LIMIT_MALLOC_HEAP_SIZE not set to 64 MiB, after a launch: CUDA_ERROR_INVALID_VALUE (1)",
    ];
    assert_eq!(titles(&trace), expected);
    let made = entries(&trace, &[], &[]);
    assert_eq!(
        made.summed,
        BTreeMap::from([("first use of a GPU", 3), ("module loaded", 12)])
    );
}

#[test]
fn a_late_write_belongs_to_the_reading_that_it_missed() {
    let trace = fixture::trace();
    let made = entries(
        &trace,
        &fixture::findings(&trace),
        &fixture::outcome(&trace).violations,
    );
    let init = made.all.first().unwrap();
    let late: Vec<String> = init.late.iter().map(late_write).collect();
    assert_eq!(
        late,
        ["train.py:31 sets CUDA_VISIBLE_DEVICES=1, 410 ms too late: no effect"]
    );
    assert_eq!(
        (
            init.findings.as_slice(),
            made.all.get(2).map(|it| it.violations.len())
        ),
        (&[0][..], Some(1))
    );
}

#[test]
fn unchanged_or_effective_write_is_not_late() {
    let mut trace = fixture::trace();
    let write = trace
        .events
        .iter_mut()
        .find(|event| matches!(event.what, EventKind::Variable { .. }))
        .unwrap();
    let variable = |name: &str, value: Option<&str>| EventKind::Variable {
        name: name.to_owned(),
        before: Some("0".to_owned()),
        value: value.map(str::to_owned),
    };
    write.what = variable("CUDA_LAUNCH_BLOCKING", Some("1"));
    assert!(
        titles(&trace).contains(&"CUDA_LAUNCH_BLOCKING set to 1 (was 0), after cuInit".to_owned())
    );
    let write = trace
        .events
        .iter_mut()
        .find(|event| matches!(event.what, EventKind::Variable { .. }))
        .unwrap();
    write.what = variable(MASK, None);
    let made = entries(&trace, &[], &[]);
    assert!(made.all.iter().all(|entry| entry.late.is_empty()));
    assert_eq!(made.summed.get("write of the same value"), Some(&1));
}

#[test]
fn cuinit_and_its_effects_are_one_entry() {
    let mut trace = fixture::trace();
    // The event of the return has the time of the call, and comes first.
    let mut done = trace.events.remove(2);
    (done.t_ns, done.elapsed_ns) = (trace.events[0].t_ns - 1, Some(20_000_000));
    trace.events.insert(0, done);
    assert_eq!(
        titles(&trace)[0],
        "CUDA_VISIBLE_DEVICES was read as (unset)"
    );
    assert_eq!(entries(&trace, &[], &[]).summed.get("later cuInit"), None);
    // The time that the thread was parked does not matter either.
    trace.events[0].elapsed_ns = None;
    assert_eq!(
        titles(&trace)[0],
        "CUDA_VISIBLE_DEVICES was read as (unset)"
    );
    let mut again = trace.events[1].clone();
    again.t_ns += 50_000_000;
    trace.events.insert(3, again);
    assert_eq!(
        entries(&trace, &[], &[]).summed.get("later cuInit"),
        Some(&1)
    );
}

#[test]
fn another_program_in_the_same_process_reads_its_variables_anew() {
    let mut trace = fixture::trace();
    let second: Vec<TraceEvent> = trace.events.iter().take(3).cloned().collect();
    let mut again = trace.processes.first().unwrap().clone();
    again.t_ns = trace.events.last().unwrap().t_ns + 1;
    for mut event in second {
        event.t_ns += 4_000_000_000;
        trace.events.push(event);
    }
    let count = |trace: &Trace| {
        entries(trace, &[], &[])
            .all
            .iter()
            .map(|it| it.times * usize::from(it.kind == EntryKind::Init))
            .sum::<usize>()
    };
    assert_eq!(
        count(&trace),
        1,
        "a second cuInit of the same program is no news"
    );
    trace.processes.push(again);
    assert_eq!(count(&trace), 2);
}

#[test]
fn equal_events_of_many_processes_are_one_entry() {
    let mut trace = fixture::trace();
    let stray = trace
        .events
        .iter()
        .find(|event| event.device == Some(0))
        .unwrap()
        .clone();
    for pid in 0..199 {
        let mut event = stray.clone();
        event.pid = 20_000 + pid;
        event.own_bytes = Some(524 << 20);
        trace.events.push(event);
    }
    let made = entries(&trace, &[], &[]);
    let group = made.all.iter().find(|entry| entry.times > 1).unwrap();
    assert_eq!(
        (group.times, group.pids.len()),
        (199, 199),
        "the first is known to be unused, the others are not"
    );
    assert_eq!(group.title(), "GPU 0  +102 GiB  199 contexts");
}

#[test]
fn an_event_that_a_finding_names_has_an_entry_whatever_it_is() {
    let trace = fixture::trace();
    let module = trace
        .events
        .iter()
        .position(|event| event.what == EventKind::Module)
        .unwrap();
    let mut finding = fixture::findings(&trace).remove(0);
    finding.events = vec![module];
    let mut lost = finding.clone();
    lost.events = vec![usize::MAX];
    let made = entries(&trace, &[finding, lost], &[]);
    let own = made
        .all
        .iter()
        .find(|entry| entry.kind == EntryKind::Other)
        .unwrap();
    assert_eq!(
        (own.title().as_str(), own.findings.as_slice()),
        ("cuLibraryLoadData", &[0][..])
    );
    assert_eq!(made.summed.get("module loaded"), Some(&11));
}
