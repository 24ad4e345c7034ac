//! Policies on synthetic traces.

use super::{Policy, PolicyOutcome, words};
use crate::diagnosis::{embedded_rules, findings};
use crate::fixture::{PID, TraceBuilder, late_and_stray as program, uuid};
use crate::{ContextChange, EventKind, Frame, Held, LedgerReason, MemoryKind, Stack, Trace};

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn forbid(words: &[&str]) -> Policy {
    Policy::parse(&texts(words), &[]).expect("words that are known")
}

fn check(policy: &Policy, trace: &Trace) -> PolicyOutcome {
    policy.check(trace, &findings(trace))
}

/// Returns the violations of these words, each with its event.
fn done(words: &[&str], trace: &Trace) -> Vec<(String, Option<usize>)> {
    let outcome = check(&forbid(words), trace);
    assert_eq!(outcome.undecided, [] as [&str; 0]);
    outcome
        .violations
        .into_iter()
        .map(|violation| (violation.forbidden, violation.event))
        .collect()
}

fn whole() -> Trace {
    program().ends(&[1]).done()
}

fn clean() -> Trace {
    TraceBuilder::on(2)
        .init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1])
        .context(1, 0)
        .launch(1)
        .ends(&[1])
        .done()
}

fn violation(word: &str, event: usize) -> Vec<(String, Option<usize>)> {
    vec![(word.to_owned(), Some(event))]
}

#[test]
fn each_word_finds_what_it_forbids_and_nothing_else() {
    let trace = whole();
    assert_eq!(done(&["cuinit"], &trace), violation("cuinit", 0));
    assert_eq!(
        done(&["context"], &trace),
        [violation("context", 3), violation("context", 5)].concat()
    );
    assert_eq!(
        done(&["context:gpu0"], &trace),
        violation("context:gpu0", 5)
    );
    assert_eq!(
        done(&["context:cuda:1"], &trace),
        violation("context:cuda:1", 3)
    );
    let by_uuid = format!("context:{}", uuid(1));
    assert_eq!(done(&[by_uuid.as_str()], &trace), violation(&by_uuid, 3));
    assert_eq!(done(&["stray"], &trace), violation("stray", 5));
    assert_eq!(done(&["late-mask"], &trace), violation("late-mask", 2));
    assert_eq!(
        done(&["stray-context"], &trace),
        violation("stray-context", 5)
    );
    assert_eq!(done(&["fork", "error", "limit-after-launch"], &trace), []);
    let all: Vec<&str> = words()
        .into_iter()
        .filter(|word| !word.contains([':', '>']))
        .collect();
    let found = done(&all, &clean());
    assert_eq!(
        found,
        [violation("cuinit", 0), violation("context", 2)].concat()
    );
}

#[test]
fn a_violation_says_the_users_line() {
    let trace = whole();
    let outcome = check(&forbid(&["cuinit,context:gpu0", "stray"]), &trace);
    let says: Vec<&str> = outcome
        .violations
        .iter()
        .map(|violation| violation.says.as_str())
        .collect();
    assert_eq!(
        says,
        [
            "train.py:12 initializes CUDA through torch.cuda.is_available",
            "train.py:52 creates a context on GPU 0 (+524 MiB) through torch.cuda.synchronize",
            "train.py:52 creates a context on GPU 0 (+524 MiB) through torch.cuda.synchronize; the process does no work there",
        ]
    );
}

#[test]
fn errors_and_forks_are_found_and_what_is_not_ready_is_none() {
    let made = TraceBuilder::on(1)
        .init(&[], &[0])
        .context(0, 0)
        .error("cuStreamQuery", 600)
        .error("cuMemAlloc_v2", 2);
    let trace = made.launch(0).ends(&[0]).done();
    let outcome = check(&forbid(&["error"]), &trace);
    let says: Vec<&str> = outcome
        .violations
        .iter()
        .map(|violation| violation.says.as_str())
        .collect();
    assert_eq!(
        says,
        ["pid 100: cuMemAlloc_v2 returns CUDA_ERROR_OUT_OF_MEMORY"]
    );
    let failed = EventKind::Context {
        change: ContextChange::Failed,
        primary: true,
        handle: 0,
        current: None,
    };
    let trace = TraceBuilder::on(1)
        .init(&[], &[0])
        .event("cuCtxCreate_v4", failed, |event| event.status = Some(2))
        .done();
    assert_eq!(done(&["error"], &trace), violation("error", 2));
    let forked = TraceBuilder::on(1)
        .init(&[], &[0])
        .forks(200)
        .init_fails(&[], 3)
        .done();
    assert_eq!(done(&["fork"], &forked), violation("fork", 2));
}

#[test]
fn unknown_policy_word_gets_suggestions() {
    let wrong = |word: &str| {
        Policy::parse(&texts(&[word]), &[])
            .expect_err("no such word")
            .to_string()
    };
    assert_eq!(
        wrong("latemask"),
        "unknown word `latemask`; did you mean `late-mask`?"
    );
    let said = wrong("everything");
    assert!(
        said.starts_with("unknown word `everything`; known:\ncuinit, context,"),
        "{said}"
    );
    assert!(said.lines().all(|line| line.len() <= 80), "{said}");
    for rule in embedded_rules() {
        assert!(
            said.contains(&rule.name) && Policy::parse(&texts(&[&rule.name]), &[]).is_ok(),
            "{}",
            rule.name
        );
    }
    assert!(wrong("").starts_with("unknown word ``; known:"));
    assert!(wrong("\x1b[2J").starts_with("unknown word `\\x1b[2J`"));
    for word in [
        "context:0",
        "context:gpu",
        "context:GPU-",
        "context:gpu+1",
        "context:",
    ] {
        assert!(
            wrong(word).contains("is not a GPU: write gpuN by NVML index"),
            "{}",
            wrong(word)
        );
    }
    assert!(wrong("context:cuda:x").contains("has no number"));
}

#[test]
fn a_bound_is_a_gpu_and_a_size_with_its_unit() {
    for (wrong, why) in [
        ("gpu1", "form gpu1=2GiB"),
        ("1=2GiB", "is not a GPU"),
        ("gpu1=2", "byte size"),
        ("gpu1=2GB", "2 GiB"),
    ] {
        let said = Policy::parse(&[], &texts(&[wrong]))
            .expect_err("this is wrong")
            .to_string();
        assert!(said.contains(why), "{said}");
    }
    assert!(Policy::parse(&[], &texts(&["gpu1=2GiB"])).is_ok_and(|policy| !policy.is_empty()));
}

#[test]
fn a_bound_is_not_kept_by_memory_that_was_not_read() {
    let bound = Policy::parse(&[], &texts(&["gpu1=2GiB"])).expect("a bound");
    let mut trace = whole();
    for (gaps, why) in [
        (vec![None, Some(2_000_000_000)], None),
        (
            vec![Some(0), Some(2_500_000_000)],
            Some("the memory of gpu1 was not read for 2.5 s while the program ran"),
        ),
        (
            vec![Some(0), None],
            Some("the memory of gpu1 was not read until the program ended"),
        ),
        (
            Vec::new(),
            Some("how often the memory of gpu1 was read is not known"),
        ),
    ] {
        trace.end.as_mut().expect("an end").memory_gap_ns = gaps;
        let undecided = check(&bound, &trace).undecided;
        let expected: Vec<String> = why
            .map(|why| format!("max-bytes gpu1=2GiB: {why}"))
            .into_iter()
            .collect();
        assert_eq!(undecided, expected);
    }
    // A violation that was seen counts in spite of the gap.
    let trace = program().memory(1, 3 << 30).ends(&[1]).done();
    assert_eq!(check(&bound, &trace).violations.len(), 1);
}

#[test]
fn memory_counts_from_what_was_there_before() {
    let of = |bound: &str, trace: &Trace| {
        check(
            &Policy::parse(&[], &texts(&[bound])).expect("a bound"),
            trace,
        )
    };
    let mut trace = program()
        .memory(1, 3 << 30)
        .memory(1, 1 << 30)
        .ends(&[1])
        .done();
    let outcome = of("gpu1=2GiB", &trace);
    let violation = outcome.violations.first().expect("3 GiB are more");
    assert_eq!(violation.forbidden, "max-bytes gpu1=2GiB");
    assert_eq!(
        violation.says,
        "the memory of gpu1 grows by 3072 MiB, past the limit after train.py:35"
    );
    assert_eq!(violation.event, Some(3));
    assert!(of("gpu1=3GiB", &trace).is_kept() && of("gpu0=524MiB", &trace).is_kept());
    assert!(!of("gpu0=523MiB", &trace).is_kept());
    trace.start.used_bytes = vec![Some(0), Some(1 << 30)];
    assert!(
        of("gpu1=2GiB", &trace).is_kept(),
        "one of the three was there before"
    );
    trace.start.used_bytes = vec![Some(0), None];
    let outcome = of("gpu1=2GiB", &trace);
    assert_eq!(
        outcome.undecided,
        ["max-bytes gpu1=2GiB: the memory of this GPU was not read before the program began"]
    );
    let outcome = of("gpu7=2GiB", &trace);
    assert_eq!(
        outcome.undecided,
        ["max-bytes gpu7=2GiB: gpu7: not found (NVML lists 2 GPUs)"]
    );
}

#[test]
fn what_a_trace_did_not_see_is_undecided_and_not_kept() {
    let undecided = |words: &[&str], change: fn(&mut Trace)| {
        let mut trace = clean();
        change(&mut trace);
        let outcome = check(&forbid(words), &trace);
        assert!(outcome.violations.is_empty(), "{outcome:?}");
        assert_eq!(outcome.is_kept(), outcome.undecided.is_empty());
        outcome.undecided
    };
    let kept: [&str; 0] = [];
    for word in [
        "context:gpu0",
        "stray",
        "late-mask",
        "fork",
        "error",
        "stray-context",
    ] {
        assert_eq!(undecided(&[word], |_| {}), kept);
        assert_eq!(
            undecided(&[word], |trace| trace.end = None).len(),
            1,
            "{word}"
        );
        assert_eq!(
            undecided(&[word], |trace| trace.start.libcuda = None).len(),
            1,
            "{word}"
        );
        let unseen = |trace: &mut Trace| {
            trace
                .end
                .as_mut()
                .unwrap()
                .not_seen
                .push("pid 7 has a context".to_owned())
        };
        assert_eq!(
            undecided(&[word], unseen),
            [format!("{word}: pid 7 has a context")]
        );
        assert_eq!(
            undecided(&[word], |trace| trace.end.as_mut().unwrap().left_out = 3),
            [format!("{word}: 3 events left out of the trace")]
        );
    }
    assert_eq!(
        undecided(&["late-mask"], |trace| trace.start.preload = false),
        ["late-mask: writes of variables are not seen"]
    );
    assert_eq!(
        undecided(&["stray"], |trace| trace.start.preload = false),
        kept
    );
    assert_eq!(
        undecided(&["stray-context"], |trace| trace.counts.clear()).len(),
        1
    );
    assert_eq!(
        undecided(&["context:gpu0"], |trace| trace.events[2].gpu = None).len(),
        1
    );
    let name = "context:gpu5";
    assert_eq!(
        undecided(&[name], |_| {}),
        [format!("{name}: gpu5: not found (NVML lists 2 GPUs)")]
    );
}

#[test]
fn one_unused_context_in_each_of_many_processes_is_stray() {
    let one = |made: TraceBuilder, worked_on: &[usize]| {
        made.init(&[], &[0]).context(0, 0).ends(worked_on)
    };
    let mut trace = one(one(TraceBuilder::on(1), &[0]).process(200, PID), &[]).done();
    let outcome = check(&forbid(&["stray"]), &trace);
    assert_eq!(
        (outcome.violations.len(), outcome.undecided.len()),
        (1, 0),
        "{outcome:?}"
    );
    assert!(
        outcome.violations[0]
            .says
            .starts_with("pid 200 creates a context on GPU 0"),
        "{outcome:?}"
    );
    trace.counts.clear();
    let outcome = check(&forbid(&["stray"]), &trace);
    assert_eq!(
        (outcome.violations.len(), outcome.undecided.len()),
        (0, 2),
        "{outcome:?}"
    );
}

#[test]
fn without_a_libcuda_a_policy_is_undecided() {
    let mut trace = TraceBuilder::on(0).done();
    trace.start.libcuda = None;
    for word in ["cuinit", "context"] {
        let outcome = check(&forbid(&[word]), &trace);
        assert_eq!(outcome.undecided.len(), 1, "{word}: {outcome:?}");
    }
}

#[test]
fn unknown_use_leaves_stray_policy_undecided() {
    let mut trace = program().done();
    let outcome = check(&forbid(&["stray"]), &trace);
    assert_eq!(outcome.violations, []);
    assert_eq!(
        outcome.undecided,
        ["stray: whether pid 100 used the GPU of each of its contexts is not known"]
    );
    trace.end = None;
    assert_eq!(
        check(&forbid(&["cuinit", "context:gpu0"]), &trace).undecided,
        [] as [&str; 0]
    );
}

/// A process with 500 MiB for a context and 300 MiB for NCCL, out of the 900 MiB that NVML reports.
fn ledger() -> TraceBuilder {
    let nccl = Frame::from_native(
        "ncclCommInitRank",
        Some("/v/site-packages/nvidia/nccl/libnccl.so.2"),
        None,
        None,
    );
    let nccl = Stack {
        frames: vec![nccl],
        ..Stack::default()
    };
    let made = TraceBuilder::on(1)
        .init(&[], &[0])
        .at(&[("<module>", "train.py", 4)])
        .context(0, 0);
    let made = made
        .holder(0, MemoryKind::Context)
        .on_stack(nccl)
        .holder(0, MemoryKind::Physical);
    made.reading(
        0,
        LedgerReason::Peak,
        [Some(900), None],
        &[(0, 500), (1, 300)],
    )
}

#[test]
fn whose_memory_is_more_than_a_size_is_decided_at_the_peak() {
    let words = [
        "unattributed>64MiB",
        "owner=nccl>256MiB",
        "owner=nccl > 1GiB",
        "unattributed>100MiB",
    ];
    let policy = forbid(&words);
    let trace = ledger().ends(&[0]).done();
    let outcome = check(&policy, &trace);
    let found: Vec<_> = outcome
        .violations
        .iter()
        .map(|it| (it.forbidden.as_str(), it.says.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "unattributed>64MiB",
                "pid 100 on GPU 0: at the peak 100 MiB are unattributed, of 900 MiB that NVML reports for it"
            ),
            (
                "owner=nccl>256MiB",
                "pid 100 on GPU 0: at the peak 300 MiB are held by NCCL, of 900 MiB that NVML reports for it"
            ),
        ]
    );
    assert_eq!(outcome.undecided, [] as [&str; 0]);
}

#[test]
fn memory_policy_is_undecided_without_exact_figures() {
    let undecided = |word: &str, trace: &Trace| {
        let outcome = check(&forbid(&[word]), trace);
        assert_eq!(outcome.violations, []);
        outcome.undecided
    };
    // Unattributed memory may belong to NCCL.
    let trace = ledger().ends(&[0]).done();
    let between = "owner=nccl>350MiB: pid 100 on GPU 0: at the peak between 300 MiB and 400 MiB are held by NCCL";
    assert_eq!(undecided("owner=nccl>350MiB", &trace), [between]);
    let made = ledger()
        .on_stack(Stack::default())
        .holder(0, MemoryKind::Managed);
    let trace = made
        .reading(0, LedgerReason::Peak, [Some(900), None], &[(2, 60)])
        .ends(&[0])
        .done();
    let mut trace = trace;
    trace.ledger.remove(0);
    trace.ledger[0]
        .held
        .extend([(0, 500), (1, 300)].map(|(holder, mib)| Held {
            holder,
            bytes: mib << 20,
            count: None,
        }));
    let between = "unattributed>64MiB: pid 100 on GPU 0: at the peak between 40 MiB and 100 MiB are unattributed";
    assert_eq!(undecided("unattributed>64MiB", &trace), [between]);
    for word in ["unattributed>64MiB", "owner=nccl>1GiB"] {
        trace.ledger[0].own_bytes = None;
        assert_eq!(
            undecided(word, &trace),
            [format!("{word}: pid 100 on GPU 0: NVML could not be read")]
        );
        let unread = Trace {
            ledger: Vec::new(),
            ..trace.clone()
        };
        let why = format!("{word}: memory of pid 100 on GPU 0 was not attributed");
        assert_eq!(undecided(word, &unread), [why]);
        let why = format!("{word}: memory owners were not recorded: trace with --memory");
        assert_eq!(undecided(word, &clean()), [why]);
    }
}

#[test]
fn wrong_memory_word_gets_suggestions() {
    let wrong = |word: &str| {
        Policy::parse(&texts(&[word]), &[])
            .expect_err("no such word")
            .to_string()
    };
    assert_eq!(
        wrong("owner=ncll>1GiB"),
        "unknown owner `ncll`; did you mean `nccl`?"
    );
    let said = wrong("owner=mine>1GiB");
    assert!(
        said.starts_with("unknown owner `mine`; known:\nprogram, unknown, driver, cudart, "),
        "{said}"
    );
    assert_eq!(
        wrong("unatributed>1GiB"),
        "unknown word `unatributed`; did you mean `unattributed`?"
    );
    assert!(
        wrong("gpu0>1GiB").contains("write unattributed>64MiB or owner=nccl>1GiB"),
        "{}",
        wrong("gpu0>1GiB")
    );
    assert!(
        wrong("owner=nccl>1").contains("is not a byte size"),
        "{}",
        wrong("owner=nccl>1")
    );
    assert!(
        wrong("owner=nccl").starts_with("unknown word `owner=nccl`"),
        "{}",
        wrong("owner=nccl")
    );
    for word in ["unattributed>64MiB", "owner=llama.cpp>1GiB"] {
        assert_eq!(
            Policy::parse(&texts(&[word]), &[])
                .expect("a policy")
                .forbid[0]
                .to_string(),
            word
        );
    }
}

#[test]
fn a_fork_that_may_have_been_refused_in_silence_is_undecided() {
    let forked = |calls: bool, code: i32, frames: &[(&str, &str, u32)]| {
        let made = TraceBuilder::on(1)
            .at(&[("<module>", "train.py", 4)])
            .init(&[], &[0])
            .at(frames)
            .forks(200);
        let made = if calls {
            made.error("cuDeviceGetCount", 3)
        } else {
            made
        };
        let mut trace = made.ends(&[]).by(PID).ends(&[]).done();
        trace.end.as_mut().expect("an end").code = Some(code);
        trace
    };
    let own = [("<module>", "train.py", 9)];
    let loader = [
        ("<module>", "train.py", 9),
        ("__init__", "torch/utils/data/dataloader.py", 1192),
    ];
    for word in ["fork", "fork-after-init"] {
        let policy = forbid(&[word]);
        let silent = check(&policy, &forked(false, 0, &own));
        assert_eq!(
            (silent.violations.len(), silent.undecided.len()),
            (0, 1),
            "{silent:#?}"
        );
        assert!(
            silent.undecided[0].starts_with("fork: train.py:9 forks pid 200"),
            "{silent:#?}"
        );
        let refused = check(&policy, &forked(true, 0, &own));
        assert_eq!(
            (refused.violations.len(), refused.undecided.len()),
            (1, 0),
            "{refused:#?}"
        );
        assert!(
            check(&policy, &forked(false, 0, &loader)).is_kept(),
            "a worker's error would have ended the program"
        );
        assert_eq!(
            check(&policy, &forked(false, 1, &loader)).undecided.len(),
            1
        );
        assert!(
            check(&policy, &forked(false, 0, &[])).is_kept(),
            "what C does is a call of the driver"
        );
    }
    assert!(
        check(&forbid(&["late-mask"]), &forked(false, 0, &own)).is_kept(),
        "only what is left open"
    );
}
