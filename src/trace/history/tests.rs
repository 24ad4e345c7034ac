//! Histories of synthetic traces.

use super::{History, Init, MASK, ProgramHistory};
use crate::fixture::{PID, TraceBuilder, uuid};
use crate::{ContextChange, EventKind, EventSource, Trace, TraceEvent};

fn program<'h, 'a>(history: &'h History<'a>) -> &'h ProgramHistory<'a> {
    history
        .programs
        .iter()
        .find(|program| program.pid == PID)
        .expect("the program")
}

/// Returns the mask that the first program got.
fn mask_of(trace: &Trace) -> Option<Option<String>> {
    program(&History::new(trace))
        .variable_at_init(MASK)
        .map(|mask| mask.map(str::to_owned))
}

/// Returns the values of variables that were written too late, with the delay in milliseconds.
fn late(trace: &Trace) -> Vec<(String, u64)> {
    let history = History::new(trace);
    let late = history.writes.iter().filter(|write| write.is_late());
    late.map(|write| {
        (
            write.value.unwrap_or("").to_owned(),
            write.after_init_ns.unwrap_or(0) / 1_000_000,
        )
    })
    .collect()
}

/// A process whose libcuda queries the mask at these places: in a `cuInit` that fails, in one that succeeds, and after
/// it.
fn asked(failed: Option<&str>, counts: Option<&str>, later: Option<&str>) -> Trace {
    let read = |made: TraceBuilder, value: Option<&str>| match value {
        Some(value) => {
            let what = EventKind::MaskRead {
                value: Some(value.to_owned()),
                after_hook: true,
            };
            made.event("getenv", what, |_| {})
        }
        None => made,
    };
    let mut made = TraceBuilder::on(2);
    if failed.is_some() {
        made = read(made, failed).init_fails(&[("CUDA_VISIBLE_DEVICES", "")], 100);
    }
    read(
        read(made, counts).init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1]),
        later,
    )
    .ends(&[])
    .done()
}

#[test]
fn the_mask_is_what_the_cuinit_that_counts_has_read() {
    let mask = |trace: Trace| mask_of(&trace).flatten();
    assert_eq!(mask(asked(None, Some("1"), None)).as_deref(), Some("1"));
    assert_eq!(
        mask(asked(None, Some("1"), Some("0"))).as_deref(),
        Some("1"),
        "not what is asked for later"
    );
    assert_eq!(
        mask(asked(Some(""), Some("1"), None)).as_deref(),
        Some("1"),
        "nor what a cuInit read that failed"
    );
    assert_eq!(
        mask(asked(Some(""), Some("1"), Some("0"))).as_deref(),
        Some("1")
    );
    // If no witness saw libcuda query the mask, the mask is the value of the variable at that time.
    assert_eq!(mask(asked(None, None, None)).as_deref(), Some("1"));
    assert_eq!(mask_of(&TraceBuilder::on(1).done()), None);
}

/// A write before the successful `cuInit` is in time, although another `cuInit` had failed by then.
#[test]
fn the_cuinit_that_counts_is_the_one_that_succeeded() {
    let made = TraceBuilder::on(2)
        .init_fails(&[("CUDA_VISIBLE_DEVICES", "")], 100)
        .setenv("CUDA_VISIBLE_DEVICES", "1");
    let trace = made
        .init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1])
        .ends(&[])
        .done();
    let written = trace
        .events
        .iter()
        .find(|event| matches!(event.what, EventKind::Variable { .. }))
        .expect("a write");
    let history = History::new(&trace);
    let init = program(&history).init().expect("a cuInit");
    assert!(
        init.has_succeeded() && init.t_ns() > written.t_ns,
        "{:#?}",
        trace.events
    );
    assert_eq!(
        mask_of(&trace),
        Some(Some("1".to_owned())),
        "as nobody saw libcuda ask for it"
    );
    assert!(
        history
            .writes
            .iter()
            .all(|write| write.after_init_ns.is_none()),
        "{:#?}",
        history.writes
    );
    let failed = TraceBuilder::on(1).init_fails(&[], 100).ends(&[]).done();
    assert!(
        program(&History::new(&failed))
            .init()
            .is_some_and(Init::has_failed)
    );
}

#[test]
fn a_program_after_exec_is_another() {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .process(PID, 1)
        .setenv(MASK, "1");
    let mut trace = made.init(&[(MASK, "1")], &[1]).done();
    let inits = |trace: &Trace| {
        let history = History::new(trace);
        history
            .programs
            .iter()
            .filter(|program| program.has_initialised())
            .count()
    };
    assert_eq!((inits(&trace), late(&trace)), (2, vec![]));
    trace.events.truncate(3);
    assert_eq!((inits(&trace), late(&trace)), (1, vec![]));
}

#[test]
fn work_belongs_to_the_program_not_the_pid() {
    let used = |trace: &Trace| -> Vec<Option<bool>> {
        History::new(trace)
            .contexts
            .iter()
            .map(|life| life.uses.map(|uses| !uses.is_none()))
            .collect()
    };
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(0, 0)
        .ends(&[])
        .process(PID, 1);
    let mut trace = made
        .init(&[], &[0, 1])
        .context(0, 0)
        .launch(0)
        .ends(&[0])
        .done();
    assert_eq!(used(&trace), [Some(false), Some(true)]);
    // Counts of older versions have no program. The counts of several programs were added up.
    trace
        .counts
        .iter_mut()
        .for_each(|counts| counts.began_ns = None);
    assert_eq!(used(&trace), [None, None]);
    let mut only = TraceBuilder::on(1)
        .init(&[], &[0])
        .context(0, 0)
        .ends(&[0])
        .done();
    only.counts[0].began_ns = None;
    assert_eq!(used(&only), [Some(true)]);
}

#[test]
fn the_end_of_a_primary_context_is_not_that_of_another_one() {
    let created = EventKind::Context {
        change: ContextChange::Made,
        primary: false,
        handle: 7,
        current: None,
    };
    let released = EventKind::Context {
        change: ContextChange::Released,
        primary: true,
        handle: 0,
        current: None,
    };
    let on_first = |event: &mut TraceEvent| event.gpu = Some(uuid(0));
    let made = TraceBuilder::on(1).init(&[], &[0]).context(0, 0).event(
        "cuCtxCreate_v2",
        created,
        on_first,
    );
    let trace = made
        .event("cuDevicePrimaryCtxRelease_v2", released, on_first)
        .ends(&[])
        .done();
    let ended: Vec<bool> = History::new(&trace)
        .contexts
        .iter()
        .map(|life| life.ended.is_some())
        .collect();
    assert_eq!(ended, [true, false]);
}

#[test]
fn calls_of_several_threads_at_once_are_one_cuinit() {
    let begins = |made: TraceBuilder, witness| {
        made.event(
            "cuInit",
            EventKind::Init {
                witness,
                variables: [].into(),
            },
            |_| {},
        )
    };
    let returns = |made: TraceBuilder| {
        made.event(
            "cuInit",
            EventKind::InitDone {
                visible: Some(1),
                gpus: Vec::new(),
            },
            |event| event.status = Some(0),
        )
    };
    let made = begins(
        begins(
            begins(TraceBuilder::on(1), EventSource::Forwarding),
            EventSource::Forwarding,
        ),
        EventSource::Injection,
    );
    let trace = begins(returns(returns(made)), EventSource::Forwarding).done();
    let history = History::new(&trace);
    let events: Vec<&[usize]> = program(&history)
        .inits
        .iter()
        .map(|init| init.events.as_slice())
        .collect();
    assert_eq!(events, [&[0, 1, 2, 3, 4][..], &[5][..]]);
}

#[test]
fn a_write_is_late_where_nothing_can_read_it_any_more() {
    let made = TraceBuilder::on(2).init(&[(MASK, "0")], &[0]);
    let made = made
        .setenv(MASK, " 0")
        .setenv(MASK, "1")
        .setenv("CUDA_LAUNCH_BLOCKING", "1");
    let trace = made.setenv("CUDA_MODULE_LOADING", "EAGER").done();
    assert_eq!(
        late(&trace),
        [("1".to_owned(), 30), ("EAGER".to_owned(), 50)]
    );
}
