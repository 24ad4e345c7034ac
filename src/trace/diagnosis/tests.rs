//! Each rule on a trace with a finding, and on a similar trace without a finding.

mod files;
mod near;

use super::{Finding, Severity, embedded_rules, findings};
use crate::fixture::{CONTEXT, PID, TraceBuilder, late_and_stray, uuid};
use crate::{ConcurrentChange, EventKind, Frame, History, Stack, Trace};

/// A rule, a trace with a finding of it, and a trace without one.
type Case = (&'static str, fn() -> Trace, fn() -> Trace);

const CASES: &[Case] = &[
    ("late-mask", late_mask, || {
        mask_written(&[], "CUDA_VISIBLE_DEVICES", "1", false)
    }),
    ("late-variable", late_variable, || {
        mask_written(&[], "CUDA_MODULE_LOADING", "EAGER", false)
    }),
    (
        "late-launch-blocking",
        || launch_blocking(true),
        || launch_blocking(false),
    ),
    (
        "stray-context",
        || synchronised(&[1]),
        || synchronised(&[0, 1]),
    ),
    (
        "copy-opens-every-gpu",
        || copied(&[2, 3]),
        || copied(&[1, 2, 3]),
    ),
    (
        "memory-question",
        || asked_about_memory(&[0]),
        || asked_about_memory(&[0, 1]),
    ),
    (
        "context-on-every-gpu",
        || on_every(&[1], &[0, 1, 2, 3]),
        || on_every(&[1, 2], &[0, 1, 2, 3]),
    ),
    ("fork-after-init", || forked(true), || forked(false)),
    ("forked-unseen", || forked(false), || forked(true)),
    ("guard-restores-device", || guard(&[1]), || guard(&[0, 1])),
    ("limit-after-launch", || limit(true, 1), || limit(true, 0)),
    ("pinned-memory-context", || pinned(&[1]), || pinned(&[0, 1])),
    (
        "device-order",
        || order("FASTEST_FIRST", 1),
        || order("PCI_BUS_ID", 0),
    ),
    ("memory-of-init", || on_two(&[0]), || on_two(&[0, 1])),
    ("ranks-share-gpu", || ranks(2, true), || ranks(1, true)),
    ("work-after-guard", || after_guard(700), || after_guard(2)),
    (
        "mask-hides",
        || mask_read("1,7,2", 1),
        || mask_read("1,3,2", 3),
    ),
    (
        "mask-hides-all",
        || mask_read("-1", 0),
        || mask_read("all", 0),
    ),
    (
        "mask-overwritten",
        || masks(&[(1, 9, "1"), (2, 9, "2")]),
        || masks(&[(1, 9, "2"), (2, 9, "2")]),
    ),
    (
        "mask-set-twice",
        || masks(&[(1, 7, "1"), (1, 9, "2")]),
        || masks(&[(1, 9, "1"), (1, 9, "2")]),
    ),
    (
        "misspelt-variable",
        || misspelt("CUDA_VISIBLE_DEVICE"),
        || misspelt("CUDA_HOME"),
    ),
    (
        "parents-gpus-reordered",
        || reordered("2,3", &[2, 3]),
        || reordered("3,2", &[3, 2]),
    ),
    (
        "thread-without-device",
        || in_thread(false),
        || in_thread(true),
    ),
    (
        "outside-the-parents-mask",
        || handed_on("1", 1),
        || handed_on("3", 3),
    ),
    (
        "late-in-package",
        || by_package("lightning/trainer.py"),
        || by_package("torch/cuda/__init__.py"),
    ),
    (
        "init-without-context",
        || {
            TraceBuilder::on(2)
                .at(ASKS)
                .init(&[], &[0, 1])
                .ends(&[])
                .done()
        },
        || on_two(&[0]),
    ),
];

const ASKS: &[(&str, &str, u32)] = &[
    ("<module>", "train.py", 12),
    ("setup", "cli.py", 88),
    ("is_available", "torch/cuda/__init__.py", 129),
];

fn finding<'f>(rule: &str, found: &'f [Finding]) -> Option<&'f Finding> {
    found.iter().find(|finding| finding.rule == rule)
}

#[test]
fn every_rule_matches_only_its_own_fixture() {
    let tested: Vec<&str> = CASES.iter().map(|(rule, _, _)| *rule).collect();
    let untested: Vec<&str> = embedded_rules()
        .iter()
        .map(|rule| rule.name.as_str())
        .filter(|it| !tested.contains(it))
        .collect();
    assert!(
        untested.is_empty() && tested.len() == embedded_rules().len(),
        "rules that no test lets find anything: {untested:?}"
    );
    for (rule, trace, near) in CASES {
        let (found, missed) = (findings(&trace()), findings(&near()));
        assert!(
            finding(rule, &found).is_some(),
            "{rule} is not among {found:#?}"
        );
        assert!(
            finding(rule, &missed).is_none(),
            "{rule} is among {missed:#?}"
        );
        for finding in found.iter().chain(&missed) {
            assert!(!finding.says.contains(['{', '?']), "{}", finding.says);
            assert!(!finding.workaround.contains('{'), "{}", finding.workaround);
            assert!(
                !finding.events.is_empty() && !finding.says.ends_with('.'),
                "{finding:?}"
            );
        }
    }
}

/// The program of the README: queries, sets the mask too late, works on GPU 1, and creates a context on GPU 0.
fn late_mask() -> Trace {
    let made = TraceBuilder::on(2)
        .at(ASKS)
        .init(&[], &[0, 1])
        .at(&[("<module>", "train.py", 31)]);
    made.setenv("CUDA_VISIBLE_DEVICES", "1").ends(&[]).done()
}

fn mask_written(before: &[(&str, &str)], name: &str, value: &str, late: bool) -> Trace {
    let made = TraceBuilder::on(2).at(&[("<module>", "train.py", 31)]);
    let made = match late {
        true => made.init(before, &[0, 1]).setenv(name, value),
        false => made.setenv(name, value).init(&[(name, value)], &[0, 1]),
    };
    made.context(0, 0).launch(0).ends(&[0]).done()
}

fn late_variable() -> Trace {
    mask_written(&[], "CUDA_MODULE_LOADING", "EAGER", true)
}

fn launch_blocking(after: bool) -> Trace {
    let made = TraceBuilder::on(1).init(&[], &[0]);
    let made = match after {
        true => made.context(0, 0).setenv("CUDA_LAUNCH_BLOCKING", "1"),
        false => made.setenv("CUDA_LAUNCH_BLOCKING", "1").context(0, 0),
    };
    made.launch(0).ends(&[0]).done()
}

/// Works on GPU 1, then makes a call at this place that creates a context on GPU 0.
fn then_context(place: &[(&str, &str, u32)], worked_on: &[usize]) -> Trace {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .at(&[("<module>", "train.py", 35)])
        .context(1, 1)
        .launch(1);
    made.at(place).context(0, 0).ends(worked_on).done()
}

fn synchronised(worked_on: &[usize]) -> Trace {
    let [synchronize, enter] = [("synchronize", 7), ("__enter__", 3)]
        .map(|(name, line)| (name, "torch/cuda/__init__.py", line));
    then_context(
        &[("<module>", "train.py", 52), synchronize, enter],
        worked_on,
    )
}

/// Copies from GPU 3 to GPU 2, which creates a context on GPU 1 too. The stack comes from
/// `reports/traces/h200-x4/torch_to_third`, without frames that have no name.
fn copied(worked_on: &[usize]) -> Trace {
    let to = [
        ("nvidia/cu13/lib/libcudart.so.13", "cudaSetDevice"),
        (
            "torch/lib/libc10_cuda.so",
            "c10::cuda::ExchangeDevice(signed char)",
        ),
        (
            "torch/lib/libc10_cuda.so",
            "c10::cuda::impl::CUDAGuardImpl::exchangeDevice(c10::Device) const",
        ),
        (
            "torch/lib/libtorch_python.so",
            "torch::autograd::dispatch_to(at::Tensor const&, c10::Device, bool)",
        ),
        (
            "torch/lib/libtorch_python.so",
            "torch::autograd::THPVariable_to(_object*, _object*, _object*)",
        ),
    ];
    let to = to.map(|(file, function)| {
        Frame::from_native(
            function,
            Some(&format!("/l/site-packages/{file}")),
            None,
            None,
        )
    });
    let own = Frame::python("<module>", "/me/copy.py", 5);
    let made = TraceBuilder::on(4)
        .at(&[("<module>", "copy.py", 3)])
        .init(&[], &[0, 1, 2, 3])
        .context(3, 3);
    let made = made.on_stack(Stack {
        frames: to.into_iter().chain([own]).collect(),
        ..Stack::default()
    });
    made.context(2, 2)
        .context(1, 1)
        .launch(3)
        .ends(worked_on)
        .done()
}

/// Works on GPU 0 and queries the free memory of GPU 1.
fn asked_about_memory(worked_on: &[usize]) -> Trace {
    let made = TraceBuilder::on(4)
        .at(&[("<module>", "plan.py", 3)])
        .init(&[], &[0, 1])
        .context(0, 0)
        .launch(0);
    let made = made.at(&[
        ("<module>", "plan.py", 5),
        ("mem_get_info", "torch/cuda/memory.py", 3),
    ]);
    made.context(1, 1).ends(worked_on).done()
}

fn on_every(worked_on: &[usize], contexts: &[usize]) -> Trace {
    let mut made = TraceBuilder::on(4)
        .at(&[
            ("<module>", "plan.py", 9),
            ("mem_get_info", "torch/cuda/memory.py", 3),
        ])
        .init(&[], &[0, 1, 2, 3]);
    for gpu in contexts {
        made = made.context(*gpu, i32::try_from(*gpu).unwrap());
    }
    for gpu in worked_on {
        made = made.launch(*gpu);
    }
    made.ends(worked_on).done()
}

fn forked(calls: bool) -> Trace {
    let made = TraceBuilder::on(1)
        .at(ASKS)
        .init(&[], &[0])
        .context(0, 0)
        .at(&[("<module>", "train.py", 40)])
        .forks(200);
    let made = match calls {
        true => made
            .at(&[
                ("load", "data.py", 7),
                ("_lazy_init", "torch/cuda/__init__.py", 1),
            ])
            .init_fails(&[], 3),
        false => made,
    };
    made.by(PID).launch(0).ends(&[0]).done()
}

fn guard(worked_on: &[usize]) -> Trace {
    then_context(
        &[
            ("<module>", "train.py", 34),
            ("__exit__", "torch/cuda/__init__.py", 3),
        ],
        worked_on,
    )
}

/// The block of a guard creates a context on GPU 1, its end creates one on GPU 0, and work there ends with a status.
fn after_guard(status: i64) -> Trace {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .at(&[("<module>", "sum.py", 3)])
        .context(1, 1)
        .launch(1);
    let made = made
        .at(&[
            ("<module>", "sum.py", 3),
            ("__exit__", "cupy/cuda/device.py", 9),
        ])
        .context(0, 0);
    let made = made
        .at(&[("<module>", "sum.py", 5), ("sum", "cupy/_core/core.py", 9)])
        .launch(0);
    made.error("cuMemcpyDtoHAsync_v2", status)
        .ends(&[0, 1])
        .done()
}

fn limit(after_launch: bool, status: i64) -> Trace {
    let what = EventKind::Limit {
        limit: 2,
        value: 64 << 20,
        after_launch,
    };
    let made = TraceBuilder::on(1)
        .init(&[], &[0])
        .context(0, 0)
        .launch(0)
        .at(&[("<module>", "heap.py", 9)]);
    made.event("cuCtxSetLimit", what, |event| event.status = Some(status))
        .ends(&[0])
        .done()
}

fn pinned(worked_on: &[usize]) -> Trace {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .thread(101);
    let made = made
        .at(&[
            ("<module>", "train.py", 60),
            ("run", "torch/utils/data/dataloader.py", 1),
        ])
        .context(0, 0);
    made.event(
        "cuMemHostAlloc",
        EventKind::HostMemory { bytes: 1 << 20 },
        |_| {},
    )
    .ends(worked_on)
    .done()
}

/// Sets a mask of `0` on a machine with different GPUs, where it selects this GPU.
fn order(order: &str, gpu: usize) -> Trace {
    let made = TraceBuilder::with_models(&["NVIDIA L4", "NVIDIA H200"]);
    let made = made.init(
        &[("CUDA_VISIBLE_DEVICES", "0"), ("CUDA_DEVICE_ORDER", order)],
        &[gpu],
    );
    made.context(gpu, 0).launch(gpu).ends(&[gpu]).done()
}

/// A process that reads a mask, and sees `visible` of four GPUs.
fn mask_read(mask: &str, visible: usize) -> Trace {
    let made = TraceBuilder::on(4).at(&[("<module>", "train.py", 3)]);
    let variables = [("CUDA_VISIBLE_DEVICES", mask)];
    match visible {
        0 => made.init_fails(&variables, 100).ends(&[]).done(),
        _ => made
            .init(&variables, &[1, 3, 2][..visible])
            .context(1, 0)
            .launch(1)
            .ends(&[1])
            .done(),
    }
}

/// Sets masks one after the other, each by a thread at a line; `cuInit` reads `2`.
fn masks(set: &[(u32, u32, &str)]) -> Trace {
    let set_one = |made: TraceBuilder, (tid, line, mask): &(u32, u32, &str)| {
        made.thread(*tid)
            .at(&[("trial", "tune.py", *line)])
            .setenv("CUDA_VISIBLE_DEVICES", mask)
    };
    let made = set
        .iter()
        .fold(TraceBuilder::on(4), set_one)
        .init(&[("CUDA_VISIBLE_DEVICES", "2")], &[2]);
    made.context(2, 0).launch(2).ends(&[2]).done()
}

/// A child process whose launcher set a variable for it.
fn misspelt(name: &str) -> Trace {
    let made = TraceBuilder::on(2)
        .at(&[("<module>", "work.py", 2)])
        .init(&[(name, "2")], &[0, 1]);
    made.context(0, 0).launch(0).ends(&[0]).done()
}

/// A launcher that sees GPU 2 and 3, and a worker that gets a mask from it.
fn handed_on(mask: &str, gpu: usize) -> Trace {
    let made = TraceBuilder::on(4)
        .init(&[("CUDA_VISIBLE_DEVICES", "2,3")], &[2, 3])
        .context(3, 1)
        .launch(3);
    let made = made
        .process(200, PID)
        .at(&[("<module>", "work.py", 4)])
        .init(&[("CUDA_VISIBLE_DEVICES", mask)], &[gpu]);
    made.context(gpu, 0)
        .launch(gpu)
        .ends(&[gpu])
        .by(PID)
        .ends(&[3])
        .done()
}

/// A launcher that sees GPU 3 and 2, and a worker that gets a mask of both.
fn reordered(mask: &str, gpus: &[usize]) -> Trace {
    let made = TraceBuilder::on(4)
        .init(&[("CUDA_VISIBLE_DEVICES", "3,2")], &[3, 2])
        .context(3, 0)
        .launch(3);
    let made = made
        .process(200, PID)
        .at(&[("<module>", "work.py", 4)])
        .init(&[("CUDA_VISIBLE_DEVICES", mask)], gpus);
    made.context(gpus[0], 0)
        .launch(gpus[0])
        .ends(&[gpus[0]])
        .by(PID)
        .ends(&[3])
        .done()
}

/// Works on GPU 1 and 0, the latter in a pool thread that has or has not selected a device before.
fn in_thread(selects: bool) -> Trace {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .at(&[("<module>", "serve.py", 4)])
        .context(1, 1)
        .launch(1);
    let made = made.thread(101).at(&[
        ("prepare", "serve.py", 7),
        ("zeros", "torch/_refs/__init__.py", 9),
    ]);
    let mut trace = made.context(0, 0).launch(0).ends(&[0, 1]).done();
    for event in trace.events.iter_mut().filter(|event| event.tid == 101) {
        if let EventKind::Context { current, .. } = &mut event.what {
            *current = Some(selects);
        }
    }
    trace
}

/// A package that sets a variable late, after a call of the package or of the user to this file.
fn by_package(file: &str) -> Trace {
    let made = TraceBuilder::on(2)
        .at(&[("<module>", "train.py", 22), ("__init__", file, 1)])
        .init(&[], &[0, 1]);
    let made = made.at(&[
        ("<module>", "train.py", 24),
        ("fit", "lightning/trainer.py", 5),
    ]);
    made.setenv("CUDA_MODULE_LOADING", "EAGER")
        .context(0, 0)
        .launch(0)
        .ends(&[0])
        .done()
}

/// A process that sees both GPUs, with contexts and work on some of them.
fn on_two(contexts: &[usize]) -> Trace {
    let mut made = TraceBuilder::on(2).init(&[], &[0, 1]);
    for gpu in contexts {
        made = made
            .context(*gpu, i32::try_from(*gpu).unwrap())
            .launch(*gpu);
    }
    made.ends(contexts).done()
}

/// Two ranks of one launcher. Each sees `visible` GPUs; the second works on its own GPU, or on the first.
fn ranks(visible: usize, one_parent: bool) -> Trace {
    let visible: Vec<usize> = (0..visible).collect();
    let works = |made: TraceBuilder, line| {
        made.at(&[("<module>", "rank.py", line)])
            .init(&[], &visible)
            .context(0, 0)
            .launch(0)
    };
    let made = works(TraceBuilder::on(2).process(200, PID), 5)
        .process(300, if one_parent { PID } else { 200 });
    works(made, 7).by(200).ends(&[0]).by(300).ends(&[0]).done()
}

/// Two ranks that start at once on GPU 0; the second one works on GPU 1 later, in time order.
fn ranks_at_once(own_bytes: Option<i64>) -> Trace {
    let sets = &[
        ("<module>", "rank.py", 5),
        ("set_device", "torch/cuda/__init__.py", 4),
    ];
    let made = TraceBuilder::on(2)
        .process(200, PID)
        .at(sets)
        .init(&[], &[0, 1]);
    let made = made.process(300, PID).init(&[], &[0, 1]).context(1, 1);
    let made = made
        .at(&[
            ("<module>", "rank.py", 6),
            ("load", "torch/serialization.py", 4),
        ])
        .context(0, 0);
    let mut trace = made
        .by(200)
        .at(sets)
        .context(0, 0)
        .ends(&[0])
        .by(300)
        .ends(&[0, 1])
        .done();
    for event in trace
        .events
        .iter_mut()
        .filter(|event| event.gpu == Some(uuid(0)))
    {
        event.elapsed_ns = Some(200_000_000);
        event.memory_bytes = vec![Some(2 * CONTEXT), Some(0)];
        event.own_bytes = own_bytes;
    }
    trace
}

#[test]
fn memory_that_two_processes_took_at_once_is_not_counted_twice() {
    let trace = ranks_at_once(Some(CONTEXT));
    let on_first: Vec<_> = History::new(&trace)
        .contexts
        .into_iter()
        .filter(|life| life.created.gpu == Some(uuid(0)))
        .collect();
    assert!(
        on_first.len() == 2
            && on_first
                .iter()
                .all(|life| life.concurrent == ConcurrentChange::OtherContext
                    && life.bytes == Some(CONTEXT))
    );
    let found = findings(&trace);
    let shared = finding("ranks-share-gpu", &found).expect("two ranks share GPU 0");
    assert_eq!(
        (shared.pid, shared.bytes),
        (300, Some(CONTEXT)),
        "the rank that has another GPU: {shared:?}"
    );
    assert!(
        shared.says.starts_with("rank.py:6 creates"),
        "{}",
        shared.says
    );
    // Without NVML's figure for each process, each gets an equal share of their total.
    let mut shared_out = ranks_at_once(None);
    let of_first = shared_out
        .events
        .iter_mut()
        .filter(|event| event.gpu == Some(uuid(0)));
    for (event, used) in of_first.zip([3 * CONTEXT, 4 * CONTEXT]) {
        event.used_bytes = vec![u64::try_from(used).ok(), Some(0)];
    }
    let lives = History::new(&shared_out).contexts;
    assert!(lives.iter().all(|life| life.bytes
        == Some(if life.concurrent == ConcurrentChange::OtherContext {
            3 * CONTEXT / 2
        } else {
            CONTEXT
        })));
    let unknown = ranks_at_once(None);
    assert!(
        History::new(&unknown)
            .contexts
            .iter()
            .all(|life| (life.concurrent == ConcurrentChange::OtherContext) == life.bytes.is_none())
    );
}

#[test]
fn memory_that_another_process_took_meanwhile_is_not_the_contexts() {
    let mut trace = TraceBuilder::on(1)
        .init(&[], &[0])
        .context(0, 0)
        .ends(&[0])
        .done();
    let seen = |trace: &Trace| {
        History::new(trace)
            .contexts
            .first()
            .map(|life| (life.concurrent, life.bytes))
    };
    let alone = seen(&trace);
    for event in trace
        .events
        .iter_mut()
        .filter(|event| event.gpu == Some(uuid(0)))
    {
        event.own_bytes = Some(CONTEXT - (6 << 20));
    }
    assert_eq!(alone, Some((ConcurrentChange::None, Some(CONTEXT))));
    assert_eq!(
        seen(&trace),
        alone,
        "NVML accounts a few MiB of each context to no process"
    );
    for event in trace
        .events
        .iter_mut()
        .filter(|event| event.gpu == Some(uuid(0)))
    {
        event.memory_bytes = vec![Some(2 * CONTEXT)];
    }
    assert_eq!(
        seen(&trace),
        Some((ConcurrentChange::OtherProcess, Some(CONTEXT - (6 << 20))))
    );
}

#[test]
fn the_program_of_the_readme_gets_the_sentences_of_the_readme() {
    let trace = late_and_stray().ends(&[1]).done();
    let found = findings(&trace);
    let said: Vec<(&str, &str)> = found
        .iter()
        .map(|it| (it.rule.as_str(), it.says.as_str()))
        .collect();
    let late = "train.py:31 sets CUDA_VISIBLE_DEVICES=1, 20 ms too late: no effect; it was read as (unset)";
    let stray = "train.py:52 creates a context on GPU 0 (524 MiB), through torch.cuda.synchronize; the process does no work there";
    assert_eq!(said, [("late-mask", late), ("stray-context", stray)]);
    assert!(
        found[0].workaround.contains("torch.cuda.set_device(N)"),
        "{}",
        found[0].workaround
    );
    assert_eq!(
        found[1].workaround,
        "torch.cuda.set_device(1) first, in every thread; or give the device, as in torch.cuda.synchronize(1)"
    );
    assert_eq!(
        (found[1].gpu.clone(), found[1].bytes),
        (Some(uuid(0)), Some(CONTEXT))
    );
    assert_eq!(
        found[0].events.len(),
        2,
        "the write, and the cuInit that was before it"
    );
    assert!(
        found
            .iter()
            .all(|finding| finding.severity == Severity::Pitfall && finding.pid == PID)
    );
}

#[test]
fn the_workaround_is_in_the_words_of_what_the_user_called() {
    let with = |frames: &[(&str, &str, u32)]| {
        let made = TraceBuilder::on(2)
            .at(frames)
            .init(&[], &[0, 1])
            .at(&[("<module>", "a.py", 3)]);
        let found = findings(&made.setenv("CUDA_VISIBLE_DEVICES", "1").ends(&[]).done());
        finding("late-mask", &found)
            .expect("a late mask")
            .workaround
            .clone()
    };
    let torch = ("is_available", "torch/cuda/__init__.py", 1);
    let accelerate = ("__init__", "accelerate/state.py", 1);
    let own = ("<module>", "a.py", 1);
    assert!(with(&[own, torch]).contains("torch.cuda"));
    assert!(with(&[own, accelerate, torch]).contains("accelerate launch"));
    assert!(
        with(&[own, ("devices", "jax/_src/xla_bridge.py", 1)]).contains("such as jax.devices()")
    );
    assert!(
        with(&[own, ("main", "pytest/__init__.py", 1)])
            .starts_with("Set CUDA_VISIBLE_DEVICES in the shell or the")
    );
}

#[test]
fn a_native_guard_is_known_by_its_destructor() {
    let native = |function: &str| {
        let frame = |function| {
            Frame::from_native(
                function,
                Some("/v/site-packages/torch/lib/libc10_cuda.so"),
                None,
                None,
            )
        };
        Stack {
            frames: vec![frame("c10::cuda::SetDevice(int)"), frame(function)],
            ..Stack::default()
        }
    };
    let with = |function: &str| {
        let made = TraceBuilder::on(2)
            .init(&[], &[0, 1])
            .context(1, 1)
            .launch(1);
        findings(
            &made
                .on_stack(native(function))
                .context(0, 0)
                .ends(&[1])
                .done(),
        )
    };
    for function in [
        "c10::cuda::CUDAGuard::~CUDAGuard()",
        "c10::cuda::MaybeSetDevice(signed char)",
    ] {
        let found = with(function);
        assert!(
            finding("guard-restores-device", &found).is_some(),
            "{function}: {found:#?}"
        );
        assert!(
            finding("stray-context", &found).is_none(),
            "the guard says more: {found:#?}"
        );
    }
    let found = with("at::native::add(at::Tensor const&)");
    assert!(
        finding("guard-restores-device", &found).is_none()
            && finding("stray-context", &found).is_some(),
        "{found:#?}"
    );
}
