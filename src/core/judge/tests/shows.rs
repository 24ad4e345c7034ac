//! Every predicate of a check: observations that it holds for, fails for, and cannot decide.

use std::collections::BTreeMap;

use crate::event::{Status, Value};
use crate::fact::{FactSet, facts};
use crate::judge::{Facts, Failed, Shows, shows};
use crate::observe::fixture::plan;
use crate::observe::{Hidden, MemoryObservation, Observation, Shared, StepObservation};
use crate::plan::fixture::machine;
use crate::scenario::{Check, Class, ExitCheck, GpuList, Matcher, Operand, Range, When};
use crate::verdict::Provenance;
use cuda_pitfalls_calls::CallLibrary;

fn step() -> StepObservation {
    let memory = |class, used: i64| MemoryObservation {
        class: Some(class),
        used_bytes: Some(used),
        process_bytes: Some(7),
        ..MemoryObservation::default()
    };
    StepObservation {
        label: "it".into(),
        returned: true,
        status: Some(Status::named(CallLibrary::Driver, 0)),
        values: [("count".to_string(), Value::Int(2))].into(),
        varying: [("free".to_string(), Value::Int(9))].into(),
        initialised: Some(true),
        visible: Some(vec!["gpu1".into(), "gpu0".into()]),
        contexts: Some(vec!["gpu1".into()]),
        current: Some("gpu1".into()),
        memory: [
            ("gpu0".to_string(), memory(Class::None, 0)),
            ("gpu1".to_string(), memory(Class::Context, 100 << 20)),
        ]
        .into(),
        ..StepObservation::default()
    }
}

fn observed(steps: Vec<StepObservation>, end: &str, check: Check) -> Shows {
    let observation = Observation {
        steps,
        end: end.into(),
    };
    let (plan, machine) = (plan(2, vec![]), machine(2));
    shows(
        &[check],
        &observation,
        true,
        &plan,
        &Facts::new(&machine, None, &plan, Provenance::Measured),
    )
}

fn asked(step: StepObservation, check: Check) -> Shows {
    observed(vec![step], "0", check)
}

fn at(facts: FactSet) -> Check {
    Check {
        at: "it".into(),
        facts,
        ..Check::default()
    }
}

/// Returns `y`, `n` or `?`; `~` and `u` if other processes hide some or all of it.
fn letter(shows: &Shows) -> char {
    match shows {
        Shows::Yes => 'y',
        Shows::No(_) => 'n',
        Shows::Unknown(_) => '?',
        Shows::Partly(..) => '~',
        Shows::Unobservable(..) => 'u',
    }
}

fn names(names: &[&str]) -> Option<GpuList> {
    Some(GpuList::Named(
        names.iter().map(|name| (*name).to_string()).collect(),
    ))
}

fn bytes(gpu: &str, value: i64) -> BTreeMap<String, Matcher> {
    [(gpu.to_string(), Matcher::equal_to(Operand::Int(value)))].into()
}

fn classes(list: &[(&str, Class)]) -> BTreeMap<String, Vec<Class>> {
    list.iter()
        .map(|(gpu, class)| ((*gpu).to_string(), vec![*class]))
        .collect()
}

#[test]
fn each_predicate_holds_or_fails() {
    let elsewhere = When {
        driver: Some(Range("< 500".into())),
        ..When::default()
    };
    let table: Vec<(Check, char)> = vec![
        (
            at(facts!(status: vec!["CUDA_ERROR_UNKNOWN".into(), "CUDA_SUCCESS".into()])),
            'y',
        ),
        (at(facts!(status: vec!["CUDA_ERROR_UNKNOWN".into()])), 'n'),
        (at(facts!(value: bytes("count", 2))), 'y'),
        (at(facts!(value: bytes("count", 1))), 'n'),
        (at(facts!(value: bytes("free", 9))), 'y'),
        (at(facts!(value: bytes("other", 9))), '?'),
        (at(facts!(visible: names(&["gpu1", "gpu0"]))), 'y'),
        (at(facts!(visible: names(&["gpu0", "gpu1"]))), 'n'),
        // NVML order is GPU-0, GPU-1.
        (at(facts!(visible: Some(GpuList::All))), 'n'),
        (at(facts!(visible: Some(GpuList::None))), 'n'),
        (at(facts!(contexts: names(&["gpu1"]))), 'y'),
        (at(facts!(contexts: Some(GpuList::None))), 'n'),
        (at(facts!(contexts: Some(GpuList::All))), 'n'),
        (at(facts!(current: Some("gpu1".into()))), 'y'),
        (at(facts!(current: Some("none".into()))), 'n'),
        (at(facts!(initialised: Some(true))), 'y'),
        (at(facts!(initialised: Some(false))), 'n'),
        (
            at(facts!(memory: classes(&[("gpu1", Class::Context), ("others", Class::None)]))),
            'y',
        ),
        (
            at(facts!(memory: classes(&[("gpu0", Class::None), ("others", Class::None)]))),
            'n',
        ),
        (at(facts!(memory: classes(&[("others", Class::None)]))), 'n'),
        (at(facts!(memory: classes(&[("gpu7", Class::None)]))), '?'),
        (at(facts!(used_bytes: bytes("gpu1", 100 << 20))), 'y'),
        (at(facts!(used_bytes: bytes("others", 100 << 20))), 'n'),
        (at(facts!(peak_bytes: bytes("gpu1", 100 << 20))), 'y'),
        (at(facts!(process_bytes: bytes("others", 7))), 'y'),
        (
            Check {
                facts: facts!(exit: Some(ExitCheck::Code(0))),
                ..Check::default()
            },
            'y',
        ),
        (
            Check {
                facts: facts!(exit: Some(ExitCheck::Code(1))),
                ..Check::default()
            },
            'n',
        ),
        (
            Check {
                facts: facts!(exit: Some(ExitCheck::Deadline)),
                ..Check::default()
            },
            'n',
        ),
        (
            Check {
                when: elsewhere,
                ..at(facts!(value: bytes("count", 1)))
            },
            '?',
        ),
        (
            Check {
                at: "elsewhere".into(),
                facts: facts!(initialised: Some(true)),
                ..Check::default()
            },
            '?',
        ),
    ];
    for (check, expected) in table {
        let found = asked(step(), check.clone());
        assert_eq!(letter(&found), expected, "{check:?}: {found:?}");
    }
}

#[test]
fn what_was_not_observed_is_unknown() {
    let blind = StepObservation {
        label: "it".into(),
        returned: true,
        ..StepObservation::default()
    };
    let mut checks = vec![
        at(facts!(status: vec!["CUDA_SUCCESS".into()])),
        at(facts!(visible: Some(GpuList::None))),
        at(facts!(contexts: Some(GpuList::None))),
        at(facts!(current: Some("none".into()))),
        at(facts!(initialised: Some(false))),
        at(facts!(memory: classes(&[("gpu0", Class::None)]))),
        at(facts!(used_bytes: bytes("gpu0", 0))),
        at(facts!(peak_bytes: bytes("gpu0", 0))),
        at(facts!(process_bytes: bytes("gpu0", 0))),
    ];
    for check in &checks {
        let expected = if check.facts.process_bytes.is_empty() {
            '?'
        } else {
            'u'
        };
        assert_eq!(
            letter(&asked(blind.clone(), check.clone())),
            expected,
            "{check:?}"
        );
    }
    // A call that did not return gives no information either.
    checks.push(at(facts!(value: bytes("count", 2))));
    for check in checks {
        assert_eq!(
            letter(&asked(
                StepObservation {
                    returned: false,
                    ..step()
                },
                check
            )),
            '?'
        );
    }
}

#[test]
fn uninitialized_process_has_no_contexts_but_unknown_visibility() {
    let idle = StepObservation {
        label: "it".into(),
        returned: true,
        initialised: Some(false),
        status: Some(Status::named(CallLibrary::Driver, 3)),
        ..StepObservation::default()
    };
    let held = |step: &StepObservation, check| letter(&asked(step.clone(), check));
    assert_eq!(held(&idle, at(facts!(contexts: Some(GpuList::None)))), 'y');
    assert_eq!(held(&idle, at(facts!(current: Some("none".into())))), 'y');
    assert_eq!(held(&idle, at(facts!(visible: Some(GpuList::None)))), '?');
    let refused = StepObservation {
        status: Some(Status::named(CallLibrary::Driver, 100)),
        ..idle.clone()
    };
    assert_eq!(
        held(&refused, at(facts!(visible: Some(GpuList::None)))),
        'y'
    );
    assert_eq!(held(&refused, at(facts!(visible: names(&["gpu0"])))), 'n');
    let refused = StepObservation {
        status: Some(Status::named(CallLibrary::Runtime, 100)),
        ..idle
    };
    assert_eq!(
        held(&refused, at(facts!(visible: Some(GpuList::None)))),
        'y'
    );
}

#[test]
fn all_failures_are_named_and_decide_whatever_could_not_be_told() {
    let value = [bytes("count", 1), bytes("free", 1)]
        .into_iter()
        .flatten()
        .collect();
    let check = at(
        facts!(value: value, contexts: names(&["gpu0"]), memory: classes(&[("gpu1", Class::None)])),
    );
    let all = vec![
        failed("at it: count is 2, expected 1", false),
        // Another process may have changed how much is free.
        failed("at it: free is 9, expected 1", true),
        failed("at it: memory of gpu1 is context, expected none", true),
    ];
    assert_eq!(
        asked(
            StepObservation {
                contexts: None,
                ..step()
            },
            check
        ),
        Shows::No(all)
    );
}

fn failed(words: &str, of_memory: bool) -> Failed {
    Failed {
        words: words.into(),
        of_memory,
    }
}

fn with_memory(memory: MemoryObservation) -> StepObservation {
    StepObservation {
        memory: [("gpu0".to_string(), memory)].into(),
        ..step()
    }
}

fn seen(class: Class, used: i64, hidden: Option<Hidden>) -> StepObservation {
    let (class, used_bytes) = (Some(class), Some(used));
    with_memory(MemoryObservation {
        class,
        used_bytes,
        hidden,
        ..MemoryObservation::default()
    })
}

#[test]
fn what_a_co_tenant_has_paid_is_neither_there_nor_absent() {
    let mib = 1i64 << 20;
    let class = |step: &StepObservation, class| {
        letter(&asked(
            step.clone(),
            at(facts!(memory: classes(&[("gpu0", class)]))),
        ))
    };
    let all = [Class::None, Class::Init, Class::Context, Class::Allocation];
    let letters = |step: &StepObservation| {
        all.map(|it| class(step, it))
            .into_iter()
            .collect::<String>()
    };
    assert_eq!(letters(&seen(Class::None, 0, None)), "ynnn");
    assert_eq!(
        letters(&seen(Class::None, 0, Some(Hidden::Prepaid))),
        "uunn"
    );
    assert_eq!(
        letters(&seen(Class::Init, 3 * mib, Some(Hidden::Prepaid))),
        "nynn"
    );
    assert_eq!(
        letters(&seen(Class::Context, 524 * mib, Some(Hidden::Prepaid))),
        "nnyn"
    );
    assert_eq!(
        letters(&seen(Class::Init, 3 * mib, Some(Hidden::Wavering))),
        "uunn"
    );
    assert_eq!(
        letters(&seen(Class::Context, 524 * mib, Some(Hidden::Uncalibrated))),
        "uuuu"
    );

    let bound = |ge: i64, le: i64| Matcher {
        ge: Some(Operand::Int(ge)),
        le: Some(Operand::Int(le)),
        ..Matcher::default()
    };
    let bytes = |used: i64, hidden, matcher: Matcher| {
        let check = at(facts!(used_bytes: [("gpu0".to_string(), matcher)].into()));
        letter(&asked(seen(Class::None, used, hidden), check))
    };
    assert_eq!(bytes(0, None, bound(mib, 16 * mib)), 'n');
    assert_eq!(bytes(0, Some(Hidden::Prepaid), bound(mib, 16 * mib)), 'u');
    assert_eq!(
        bytes(
            0,
            Some(Hidden::Prepaid),
            Matcher::equal_to(Operand::Int(3 * mib))
        ),
        'u'
    );
    assert_eq!(
        bytes(0, Some(Hidden::Prepaid), bound(100 * mib, 900 * mib)),
        'n'
    );
    assert_eq!(
        bytes(
            524 * mib,
            Some(Hidden::Prepaid),
            bound(100 * mib, 900 * mib)
        ),
        'y'
    );
    assert_eq!(
        bytes(17 * mib, Some(Hidden::Prepaid), bound(mib, 16 * mib)),
        'n'
    );
    assert_eq!(
        bytes(17 * mib, Some(Hidden::Wavering), bound(mib, 16 * mib)),
        'u'
    );
    assert_eq!(
        bytes(
            524 * mib,
            Some(Hidden::Uncalibrated),
            bound(100 * mib, 900 * mib)
        ),
        'u'
    );
}

#[test]
fn what_hides_leaves_the_rest_of_a_check_standing() {
    let touch = || classes(&[("gpu0", Class::Init)]);
    let with = |check: Check| letter(&asked(seen(Class::None, 0, Some(Hidden::Prepaid)), check));
    assert_eq!(with(at(facts!(memory: touch()))), 'u');
    assert_eq!(
        with(at(facts!(memory: touch(), contexts: names(&["gpu1"])))),
        '~'
    );
    assert_eq!(
        with(at(facts!(memory: touch(), contexts: names(&["gpu0"])))),
        'n'
    );
    assert_eq!(
        with(at(facts!(memory: touch(), value: bytes("nothing", 1)))),
        '?'
    );
    // An NVML list without the worker's PID is not evidence against the fact.
    assert_eq!(with(at(facts!(process_bytes: bytes("gpu0", 0)))), 'u');
}

#[test]
fn what_processes_on_other_gpus_stir_is_no_change() {
    let (kib, mib) = (1 << 10, 1 << 20);
    let with = |used: i64, matcher: Matcher| {
        letter(&asked(
            seen(Class::None, used, None),
            at(facts!(used_bytes: [("gpu0".to_string(), matcher)].into())),
        ))
    };
    let is = |bytes: i64| Matcher::equal_to(Operand::Int(bytes));
    let under = |bytes: i64| Matcher {
        lt: Some(Operand::Int(bytes)),
        ..Matcher::default()
    };
    let over = Matcher {
        gt: Some(Operand::Int(0)),
        ..Matcher::default()
    };
    assert_eq!([with(64 * kib, is(0)), with(mib, is(0))], ['y', 'n']);
    assert_eq!(
        [
            with(32 * mib - 64 * kib, is(32 * mib)),
            with(31 * mib, is(32 * mib))
        ],
        ['y', 'n']
    );
    assert_eq!(
        [
            with(64 * kib, under(mib)),
            with(-64 * kib, under(0)),
            with(64 * kib, over)
        ],
        ['y', 'n', 'n']
    );
    let own = MemoryObservation {
        process_bytes: Some(64 << 10),
        ..MemoryObservation::default()
    };
    assert_eq!(
        letter(&asked(
            with_memory(own),
            at(facts!(process_bytes: bytes("gpu0", 0)))
        )),
        'n',
        "nobody stirs it"
    );
}

#[test]
fn a_peak_lies_at_an_end_if_not_between() {
    let mib = 1 << 20;
    let of = |used: i64, peak: Option<i64>| {
        let (used_bytes, peak_bytes) = (Some(used * mib), peak.map(|peak| peak * mib));
        with_memory(MemoryObservation {
            used_bytes,
            peak_bytes,
            ..MemoryObservation::default()
        })
    };
    let peak_is = |now, peak| {
        let before = StepObservation {
            label: "before".into(),
            ..of(50, None)
        };
        observed(
            vec![before, now],
            "0",
            at(facts!(peak_bytes: bytes("gpu0", peak * mib))),
        )
    };
    assert_eq!(peak_is(of(10, None), 50), Shows::Yes);
    assert_eq!(peak_is(of(60, None), 60), Shows::Yes);
    assert_eq!(peak_is(of(10, Some(90)), 90), Shows::Yes);
}

#[test]
fn ends_are_told_apart() {
    let ends = [
        "0",
        "early exit 0",
        "exit 3",
        "SIGSEGV",
        "deadline",
        "unknown",
    ];
    let checks = [
        (ExitCheck::Code(0), "ynnnn?"),
        (ExitCheck::Code(3), "nnynn?"),
        (ExitCheck::Signal("SIGSEGV".into()), "nnnyn?"),
        (ExitCheck::Deadline, "nnnny?"),
        (
            ExitCheck::OneOf(vec![
                ExitCheck::Signal("SIGSEGV".into()),
                ExitCheck::Code(0),
            ]),
            "ynnyn?",
        ),
    ];
    for (exit, expected) in checks {
        let check = Check {
            facts: facts!(exit: Some(exit)),
            ..Check::default()
        };
        let found: String = ends
            .iter()
            .map(|end| letter(&observed(vec![], end, check.clone())))
            .collect();
        assert_eq!(found, expected, "{check:?}");
    }
}

#[test]
fn what_a_call_says_of_all_processes_is_not_the_workers_alone() {
    let with = |shared: Option<Shared>, matcher: Matcher| {
        let check = at(facts!(value: [("count".to_string(), matcher)].into()));
        letter(&asked(StepObservation { shared, ..step() }, check))
    };
    let of_itself = Operand::Value {
        label: "it".into(),
        name: "count".into(),
    };
    for (matcher, expected) in [
        (Matcher::equal_to(Operand::Int(2)), "yuu"),
        (Matcher::equal_to(Operand::Int(1)), "nuu"),
        (Matcher::equal_to(of_itself), "yyu"),
    ] {
        let shared = [None, Some(Shared::Summed), Some(Shared::Listed)];
        let found: String = shared
            .map(|shared| with(shared, matcher.clone()))
            .into_iter()
            .collect();
        assert_eq!(found, expected);
    }
}
