//! Rows from artificial traces.

use super::*;
use cuda_pitfalls_trace::fixture::{CONTEXT, INIT, PID, TraceBuilder, stack};
use cuda_pitfalls_trace::{End, EventKind, EventSource, Frame, FrameOwner, Stack, Trace};

const FOLDER: &str = "/tmp/run/row-0";
const SECOND: u64 = 1_000_000_000;

/// Returns the messages of a program whose line begins and ends at these times, in milliseconds.
fn said(ask_ms: u64, end_ms: u64) -> ProgramMessages {
    let (ask, end) = (ask_ms * 1_000_000, end_ms * 1_000_000);
    ProgramMessages::read(&format!(
        "{{\"said\": \"ask\", \"t_ns\": {ask}, \"pid\": {PID}}}\n\
         {{\"said\": \"end\", \"t_ns\": {end}, \"value\": \"True\", \"raised\": null}}\n"
    ))
}

fn shown(trace: &Trace, said: &ProgramMessages, alone: bool) -> PythonAttempt {
    made(trace, said, FOLDER, 60 * SECOND, alone)
}

/// Returns a stack with functions of packages above the row's own line.
fn asked(frames: &[(&str, &str, u32)]) -> Stack {
    let mut stack = stack(frames);
    stack
        .frames
        .push(Frame::python("<module>", &format!("{FOLDER}/ask.py"), 1));
    stack
}

/// `cuInit` as the forwarding library and the hook report it.
fn init(trial: TraceBuilder, mask: &str) -> TraceBuilder {
    let variables = [("CUDA_VISIBLE_DEVICES".to_string(), mask.to_string())].into();
    trial
        .event(
            "cuInit",
            EventKind::Init {
                witness: EventSource::Forwarding,
                variables,
            },
            |_| {},
        )
        .init(&[("CUDA_VISIBLE_DEVICES", mask)], &[0, 1])
}

/// Returns a line that queries torch for its GPUs through accelerate, and allocates on GPU 1.
fn line() -> TraceBuilder {
    let way = [
        ("__init__", "accelerate/state.py", 180),
        ("is_available", "torch/cuda/__init__.py", 129),
        ("_lazy_init", "torch/cuda/__init__.py", 300),
    ];
    let trial = init(TraceBuilder::on(2).on_stack(asked(&way)), "0,1");
    trial
        .on_stack(asked(&[("zeros", "torch/functional.py", 7)]))
        .context(1, 1)
}

#[test]
fn what_the_line_did_is_told_with_its_place_in_the_framework() {
    let made = shown(&line().done(), &said(5, 90), true);
    let seen = &made.seen;
    assert_eq!(made.invalid, None);
    assert_eq!(
        (seen.initialised_before, seen.calls_cuinit, seen.reads_mask),
        (Some(false), Some(true), Some(true))
    );
    assert_eq!(
        (seen.mask.as_deref(), seen.init_status.as_deref()),
        (Some("0,1"), Some("CUDA_SUCCESS"))
    );
    assert_eq!(
        seen.at.as_deref(),
        Some("torch/cuda/__init__.py:129 is_available")
    );
    assert_eq!(
        seen.entry.as_deref(),
        Some("accelerate/state.py:180 __init__")
    );
    assert_eq!(
        seen.way,
        [
            "accelerate/state.py:180 __init__",
            "torch/cuda/__init__.py:129 is_available",
            "torch/cuda/__init__.py:300 _lazy_init"
        ]
    );
    assert_eq!(
        (seen.context_on.as_deref(), seen.context_bytes.as_deref()),
        (Some(&[1][..]), Some(&[CONTEXT][..]))
    );
    assert_eq!(
        seen.context_at.as_deref(),
        Some("torch/functional.py:7 zeros")
    );
    assert_eq!(seen.device_used_bytes.as_deref(), Some(&[0, CONTEXT][..]));
    assert_eq!(
        (seen.value.as_deref(), seen.elapsed_ns),
        (Some("True"), Some(85_000_000))
    );
    assert_eq!(seen.in_child, Some(false));
}

#[test]
fn memory_is_unknown_without_a_reading_of_an_earlier_context() {
    let mut trace = line().done();
    trace.memory.clear();
    // No reading at all, and a reading whose time is after the context but that does not contain its memory.
    for read in [Vec::new(), trace.start.used_bytes.clone()] {
        for event in &mut trace.events {
            event.used_bytes.clone_from(&read);
        }
        let made = shown(&trace, &said(80, 90), true);
        assert_eq!(made.seen.context_before.as_deref(), Some(&[1][..]));
        assert_eq!(made.seen.device_used_bytes, None, "{read:?}");
    }
}

#[test]
fn what_came_before_the_line_is_not_its_own() {
    let made = shown(&line().done(), &said(80, 90), true);
    let seen = &made.seen;
    assert_eq!(
        (seen.initialised_before, seen.calls_cuinit, seen.reads_mask),
        (Some(true), None, None)
    );
    assert_eq!(
        (seen.context_before.as_deref(), seen.context_on.as_deref()),
        (Some(&[1][..]), Some(&[][..]))
    );
    assert_eq!((seen.at.as_deref(), seen.mask.as_deref()), (None, None));
    assert_eq!(seen.device_used_bytes.as_deref(), Some(&[0, 0][..]));
    let row = PythonRow::default().with_attempts(vec![made]);
    assert!(row.is_conclusive(), "{row:#?}");
}

#[test]
fn between_two_calls_the_line_has_the_second() {
    let trace = line().done();
    let context = trace
        .events
        .iter()
        .find(|event| matches!(event.what, EventKind::Context { .. }))
        .expect("a context");
    let made = shown(&trace, &said(context.t_ns / 1_000_000, 90), true);
    assert_eq!(made.seen.initialised_before, Some(true));
    assert_eq!(
        (made.seen.context_before, made.seen.context_on),
        (Some(vec![]), Some(vec![1]))
    );
}

#[test]
fn a_line_without_cuda_does_nothing() {
    let made = shown(&TraceBuilder::on(2).done(), &said(1, 2), false);
    assert_eq!(
        (made.seen.calls_cuinit, made.seen.reads_mask),
        (Some(false), Some(false))
    );
    assert_eq!(
        (made.seen.context_on, made.seen.device_used_bytes),
        (Some(vec![]), None)
    );
}

#[test]
fn failed_initialization_is_recorded_with_unknown_mask_read() {
    let trial =
        TraceBuilder::on(0).on_stack(asked(&[("is_available", "torch/cuda/__init__.py", 129)]));
    let forwarded = EventKind::Init {
        witness: EventSource::Forwarding,
        variables: BTreeMap::new(),
    };
    let trace = trial
        .event("cuInit", forwarded, |_| {})
        .init_fails(&[], 100)
        .done();
    let made = shown(&trace, &said(1, 90), true);
    assert_eq!(
        (made.seen.calls_cuinit, made.seen.reads_mask),
        (Some(true), None)
    );
    assert_eq!(
        made.seen.init_status.as_deref(),
        Some("CUDA_ERROR_NO_DEVICE")
    );
    assert!(
        PythonRow::default()
            .with_attempts(vec![made])
            .is_conclusive()
    );
}

#[test]
fn a_child_process_may_be_the_one() {
    let trace = init(TraceBuilder::on(2).process(200, PID), "1").done();
    let made = shown(&trace, &said(1, 90), true);
    assert_eq!(
        (made.seen.calls_cuinit, made.seen.in_child),
        (Some(true), Some(true))
    );
}

#[test]
fn a_libcuda_that_is_not_seen_has_contexts_that_are_not_known() {
    let trace = TraceBuilder::on(2).init(&[], &[0, 1]).done();
    let made = shown(&trace, &said(1, 90), true);
    assert_eq!(
        (made.seen.reads_mask, made.seen.context_on),
        (Some(true), None)
    );
}

#[test]
fn beside_other_rows_a_context_takes_what_nvml_lists_for_its_process() {
    let mut trace = line().done();
    assert_eq!(shown(&trace, &said(1, 90), false).seen.context_bytes, None);
    for event in trace
        .events
        .iter_mut()
        .filter(|event| matches!(event.what, EventKind::Context { .. }))
    {
        event.own_bytes = Some(INIT);
    }
    let seen = shown(&trace, &said(1, 90), false).seen;
    assert_eq!(
        (seen.context_bytes, seen.device_used_bytes),
        (Some(vec![INIT]), None)
    );
}

#[test]
fn the_call_of_libcudart_is_told() {
    let native = |function: &str, module: &str| Frame {
        module: Some(module.to_string()),
        owner: if module.starts_with("libcuda") {
            FrameOwner::Cuda
        } else {
            FrameOwner::Package
        },
        ..Frame::from_native(function, None, None, None)
    };
    let mut stack = asked(&[("is_available", "torch/cuda/__init__.py", 129)]);
    let below = [
        native("", "libcudart.so.13"),
        native("cudaGetDeviceCount", "libcudart.so.13"),
        native("c10::cuda::device_count()", "libc10_cuda.so"),
    ];
    stack.frames.splice(0..0, below);
    let trace = init(TraceBuilder::on(2).on_stack(stack), "").done();
    let seen = shown(&trace, &said(1, 90), true).seen;
    assert_eq!(seen.through.as_deref(), Some("cudaGetDeviceCount"));
    assert_eq!(
        seen.at.as_deref(),
        Some("torch/cuda/__init__.py:129 is_available")
    );
}

#[test]
fn without_a_function_the_place_is_the_library_or_the_line_itself() {
    let at = |stack: Stack| {
        shown(
            &init(TraceBuilder::on(2).on_stack(stack), "").done(),
            &said(1, 90),
            true,
        )
        .seen
        .at
    };
    assert_eq!(at(asked(&[])).as_deref(), Some("ask.py:1"));
    let mut stack = asked(&[]);
    let library = "/v/lib/python3.12/site-packages/cuda/bindings/driver.so";
    stack
        .frames
        .insert(0, Frame::from_native("", Some(library), None, None));
    assert_eq!(at(stack).as_deref(), Some("cuda/bindings/driver.so"));
}

#[test]
fn of_a_long_way_the_ends_are_kept() {
    let functions: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let frames: Vec<(&str, &str, u32)> = functions
        .iter()
        .map(|name| (name.as_str(), "jax/core.py", 1))
        .collect();
    let trace = init(TraceBuilder::on(2).on_stack(asked(&frames)), "").done();
    let way = shown(&trace, &said(1, 90), true).seen.way;
    assert_eq!(
        (way.len(), way[7].as_str(), way[8].as_str()),
        (25, "jax/core.py:1 f7", "…")
    );
    assert_eq!(
        (way[9].as_str(), way[24].as_str()),
        ("jax/core.py:1 f24", "jax/core.py:1 f39")
    );
}

fn ended(code: Option<i32>, signal: Option<&str>, after_s: u64) -> Trace {
    let mut trace = TraceBuilder::on(1).done();
    let (t_ns, signal) = (after_s * SECOND, signal.map(str::to_string));
    trace.end = Some(End {
        t_ns,
        code,
        signal,
        not_seen: Vec::new(),
        left_out: 0,
        memory_gap_ns: Vec::new(),
        stderr: Vec::new(),
    });
    trace
}

#[test]
fn an_attempt_that_did_not_come_to_its_end_does_not_count() {
    let ask = ProgramMessages::read(&format!(
        "{{\"said\": \"ask\", \"t_ns\": 1, \"pid\": {PID}}}"
    ));
    let why = |trace: &Trace, said: &ProgramMessages| {
        let invalid = shown(trace, said, true).invalid.expect("it does not count");
        (invalid.reason, invalid.detail)
    };
    let killed = why(&ended(None, Some("SIGKILL"), 61), &ask);
    assert_eq!(
        killed,
        (
            Reason::Hang,
            "the measured line did not end within 60 s, and it was killed".to_string()
        )
    );
    assert_eq!(
        why(&ended(None, Some("SIGKILL"), 5), &ask).0,
        Reason::Crashed
    );
    assert_eq!(
        why(&ended(Some(3), None, 5), &ProgramMessages::default()),
        (
            Reason::ExitedEarly,
            "it exited in the lines before it (exit code 3)".to_string()
        )
    );
    let raised = |kind: &str| {
        ProgramMessages::read(&format!(
            "{{\"said\": \"setup\", \"raised\": {{\"kind\": \"{kind}\", \"message\": \"m\"}}}}"
        ))
    };
    assert_eq!(
        why(&ended(Some(0), None, 1), &raised("ValueError")),
        (Reason::SetupRaised, "ValueError: m".to_string())
    );
    assert_eq!(
        why(&ended(Some(0), None, 1), &raised("ModuleNotFoundError")).0,
        Reason::NoPackage
    );
    let mut cut = TraceBuilder::on(1).done();
    cut.end = None;
    assert_eq!(why(&cut, &said(1, 2)).0, Reason::System);
}

#[test]
fn a_line_whose_process_crashes_at_its_exit_has_facts() {
    let made = shown(&ended(None, Some("SIGSEGV"), 1), &said(1, 2), true);
    assert_eq!(
        (made.invalid.as_ref(), made.seen.left.as_deref()),
        (None, Some("SIGSEGV"))
    );
}

#[test]
fn without_libcuda_only_the_result_is_known() {
    let mut trace = TraceBuilder::on(0).done();
    trace.start.libcuda = None;
    let row = PythonRow::default().with_attempts(vec![shown(&trace, &said(1, 2), true)]);
    assert_eq!(
        row.standing.unmeasured.as_ref().map(|why| why.reason),
        Some(Reason::NoLibcuda)
    );
    assert_eq!(
        (row.facts.calls_cuinit, row.facts.value.as_deref()),
        (None, Some("True"))
    );
    assert!(!row.has_facts());
}

#[test]
fn facts_on_which_attempts_disagree_are_null_and_named() {
    let made = |is_init: bool| {
        shown(
            &if is_init {
                line().done()
            } else {
                TraceBuilder::on(2).done()
            },
            &said(1, 90),
            true,
        )
    };
    let row = PythonRow::default().with_attempts(vec![made(true), made(true), made(false)]);
    assert_eq!(
        (row.facts.reads_mask, row.facts.context_on.as_ref()),
        (None, None)
    );
    for fact in ["calls_cuinit", "reads_mask", "at", "context_on"] {
        assert!(
            row.standing.disagreement.iter().any(|known| known == fact),
            "{fact}: {:?}",
            row.standing
        );
    }
    assert!(
        !row.standing
            .disagreement
            .iter()
            .any(|known| known == "raised")
    );
    let row = PythonRow::default().with_attempts(vec![made(true), made(true)]);
    assert!(
        row.standing.disagreement.is_empty() && row.is_conclusive(),
        "{row:#?}"
    );
}

#[test]
fn a_stack_that_could_not_be_read_contradicts_none() {
    let mut attempts = vec![shown(&line().done(), &said(1, 90), true); 3];
    let at = attempts[1].seen.at.take();
    attempts[1].seen.entry = None;
    let row = PythonRow::default().with_attempts(attempts);
    assert!(
        at.is_some() && row.facts.at == at && row.standing.disagreement.is_empty(),
        "{row:#?}"
    );
}

#[test]
fn memory_is_that_of_attempts_that_ran_alone() {
    let mut attempts = vec![shown(&line().done(), &said(1, 90), false); 3];
    for (made, (bytes, alone)) in attempts
        .iter_mut()
        .zip([(520, false), (520, false), (526, true)])
    {
        (made.seen.context_bytes, made.alone) = (Some(vec![bytes]), alone);
    }
    assert_eq!(
        PythonRow::default()
            .with_attempts(attempts.clone())
            .facts
            .context_bytes,
        Some(vec![526])
    );
    attempts[2].alone = false;
    assert_eq!(
        PythonRow::default()
            .with_attempts(attempts)
            .facts
            .context_bytes,
        Some(vec![520]),
        "the median where none did"
    );
}

#[test]
fn a_value_that_differs_is_none_and_no_disagreement() {
    let mut attempts = vec![shown(&line().done(), &said(1, 90), true); 2];
    attempts[1].seen.value = Some("False".to_string());
    let row = PythonRow::default().with_attempts(attempts);
    assert_eq!(
        (row.facts.value.as_deref(), row.standing.disagreement.len()),
        (None, 0)
    );
}

#[test]
fn a_control_holds_only_if_it_shows_everything() {
    let all = instrument_controls(&[0, 1]);
    assert_eq!(all.len(), 3);
    let nothing = PythonRow::default().with_attempts(vec![shown(
        &TraceBuilder::on(2).done(),
        &said(1, 2),
        true,
    )]);
    let asks = init(TraceBuilder::on(2).on_stack(asked(&[])), "0").done();
    let asks = PythonRow::default().with_attempts(vec![shown(&asks, &said(1, 90), true)]);
    let makes =
        PythonRow::default().with_attempts(vec![shown(&line().done(), &said(40, 90), true)]);
    let held = |row: &PythonRow| -> Vec<Option<bool>> {
        all.iter()
            .map(|control| control.held(row.clone()).as_expected)
            .collect()
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(held(&nothing), [yes, no, no]);
    assert_eq!(held(&asks), [no, yes, no]);
    assert_eq!(held(&makes), [no, no, yes]);
    assert_eq!(
        held(&PythonRow::default().as_unmeasured(Reason::System, String::new())),
        [no, no, no]
    );
    // If NVML lists no GPU, cuInit may still find one.
    let without = instrument_controls(&[]);
    let held: Vec<Option<bool>> = without
        .iter()
        .map(|control| control.held(asks.clone()).as_expected)
        .collect();
    assert_eq!(held, [no, yes]);
}

#[test]
fn what_a_program_says_is_read_as_far_as_it_is_understood() {
    assert_eq!(ProgramMessages::read(""), ProgramMessages::default());
    assert_eq!(
        ProgramMessages::read("garbage\n{\"said\": \"more\"}\n{\"said\": \"ask\"}"),
        ProgramMessages::default()
    );
    assert_ne!(
        ProgramMessages::read("garbage\n{\"said\": \"ask\", \"t_ns\": 5, \"pid\": 1}\n{\"said\""),
        ProgramMessages::default()
    );
}
