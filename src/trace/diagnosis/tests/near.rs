//! Correct programs that look similar to a pitfall.

use super::{CASES, PID, TraceBuilder, finding, findings, on_every, pinned, ranks};
use crate::diagnosis::Severity;
use crate::fixture::{CONTEXT, uuid};
use crate::{EventKind, EventSource, Frame, Stack, Trace};

fn rules_of(trace: &Trace) -> Vec<String> {
    findings(trace)
        .into_iter()
        .map(|finding| finding.rule)
        .collect()
}

fn pitfalls_of(trace: &Trace) -> Vec<String> {
    let found = findings(trace)
        .into_iter()
        .filter(|finding| finding.severity == Severity::Pitfall);
    found.map(|finding| finding.rule).collect()
}

fn written(before: &[(&str, &str)], value: &str) -> Vec<String> {
    let made = TraceBuilder::on(2)
        .init(before, &[0, 1])
        .setenv("CUDA_VISIBLE_DEVICES", value);
    rules_of(
        &made
            .context(0, 0)
            .launch(0)
            .context(1, 1)
            .launch(1)
            .ends(&[0, 1])
            .done(),
    )
}

#[test]
fn a_late_mask_that_means_the_same_gpus_is_no_pitfall() {
    assert_eq!(written(&[], "0,1"), [] as [&str; 0]);
    assert_eq!(
        written(&[("CUDA_VISIBLE_DEVICES", "0,1")], "0,1"),
        [] as [&str; 0]
    );
    assert_eq!(written(&[], "1,0"), ["late-mask"], "in another order");
    assert_eq!(written(&[], ""), ["late-mask"], "none at all");
}

#[test]
fn mask_entries_have_only_known_fates() {
    // The mask, the number of visible GPUs, the number of all GPUs, and the end of the sentence.
    for (mask, visible, gpus, words) in [
        (
            "1,7",
            1,
            4,
            "'1' selects GPU 1, '7' is not a GPU of this machine (valid: 0-3); it and later entries are ignored",
        ),
        (
            "0,0,1",
            0,
            4,
            "'0' selects GPU 0 again: cuInit fails, '1' is ignored",
        ),
        (
            "\"0\"",
            0,
            0,
            "'\"0\"' does not begin with a number or a UUID; it and later entries are ignored",
        ),
        (
            "99",
            0,
            0,
            "'99' is not a GPU of this machine; it and later entries are ignored",
        ),
        ("0", 0, 4, "CUDA_DEVICE_ORDER=PCI is not a valid order"),
        ("", 0, 4, "hides every GPU from this process"),
        ("NoDevFiles", 0, 0, "hides every GPU from this process"),
        // A number or a UUID on unknown GPUs, a MIG instance, and masks that the driver read differently.
        ("7", 0, 0, ""),
        ("GPU-aa", 0, 0, ""),
        ("MIG-aa", 1, 4, ""),
        ("1,7", 2, 4, ""),
        ("0,7", 0, 4, ""),
        ("0,3", 2, 4, ""),
    ] {
        let order = if words.contains("order") {
            "PCI"
        } else {
            "PCI_BUS_ID"
        };
        let variables = [("CUDA_VISIBLE_DEVICES", mask), ("CUDA_DEVICE_ORDER", order)];
        let mut trace = match visible {
            0 => TraceBuilder::on(4).init_fails(&variables, 100).done(),
            _ => TraceBuilder::on(4)
                .init(&variables, &[0, 1][..visible])
                .done(),
        };
        trace.start.gpus.truncate(gpus);
        let found = findings(&trace);
        let found: Vec<_> = found
            .iter()
            .filter(|it| it.rule.starts_with("mask-hides"))
            .collect();
        let severity = if words.contains("every") {
            Severity::Note
        } else {
            Severity::Pitfall
        };
        assert_eq!(
            found.len(),
            usize::from(!words.is_empty()),
            "{mask}: {found:#?}"
        );
        assert!(
            found
                .iter()
                .all(|it| it.says.ends_with(words) && it.severity == severity),
            "{mask}: {found:#?}"
        );
    }
}

#[test]
fn masks_for_children_are_not_overwritten_masks() {
    let set = |made: TraceBuilder, line: u32, mask: &str| {
        made.at(&[("<module>", "a.py", line)])
            .setenv("CUDA_VISIBLE_DEVICES", mask)
    };
    let read = |made: TraceBuilder, mask: &str, gpu: usize| {
        made.init(&[("CUDA_VISIBLE_DEVICES", mask)], &[gpu])
            .context(gpu, 0)
            .launch(gpu)
            .ends(&[gpu])
    };
    let child = read(set(TraceBuilder::on(2), 3, "1").process(200, PID), "1", 1);
    assert_eq!(
        rules_of(&read(set(child.by(PID), 5, "0"), "0", 0).done()),
        [] as [&str; 0],
        "the child got it"
    );
    let [name, before, value] = ["CUDA_VISIBLE_DEVICES", "0", ""].map(str::to_owned);
    let hides = EventKind::Variable {
        name,
        before: Some(before),
        value: Some(value),
    };
    let made = TraceBuilder::on(2)
        .at(&[("<module>", "a.py", 3)])
        .event("setenv", hides, |_| {});
    assert_eq!(
        rules_of(&read(set(made, 5, "0"), "0", 0).done()),
        [] as [&str; 0],
        "put back"
    );
    let outside = findings(&super::handed_on("1", 1));
    let says = &finding("outside-the-parents-mask", &outside)
        .expect("another GPU")
        .says;
    assert!(
        says.contains("gets GPU 1; pid 100, which started it, sees GPU 2, GPU 3 alone"),
        "{says}"
    );
    let found = findings(&super::masks(&[(1, 9, "1"), (2, 9, "3"), (3, 9, "2")]));
    let says = &finding("mask-overwritten", &found).expect("threads").says;
    assert!(
        says.starts_with("tune.py:9 sets CUDA_VISIBLE_DEVICES to 1, 3, and tune.py:9 sets it to 2"),
        "{says}"
    );
}

#[test]
fn misspelled_variable_is_reported_unless_spelled_right_too() {
    let made = |right: &[(&str, &str)]| {
        let made = TraceBuilder::on(2)
            .at(&[("<module>", "a.py", 3)])
            .setenv("CUDA_VISIBLE_DEVICE", "1");
        let read = [&[("CUDA_VISIBLE_DEVICE", "1")], right].concat();
        let child = |made: TraceBuilder, pid| {
            made.process(pid, PID)
                .init(&read, &[0])
                .context(0, 0)
                .launch(0)
                .ends(&[0])
        };
        let found = findings(&child(child(made, 200), 300).done());
        found
            .into_iter()
            .filter(|it| it.rule == "misspelt-variable")
            .map(|it| it.says)
            .collect::<Vec<_>>()
    };
    let says = "a.py:3 has CUDA_VISIBLE_DEVICE=1, which is not a variable that CUDA or a framework is known to read; \
                CUDA_VISIBLE_DEVICES is, and it was (unset)";
    assert_eq!(made(&[]), [says]);
    assert_eq!(made(&[("CUDA_VISIBLE_DEVICES", "1")]), [] as [&str; 0]);
}

#[test]
fn device_order_of_equal_gpus_is_not_late() {
    let late = |models: &[&str], order: &str| {
        let made = TraceBuilder::with_models(models)
            .init(&[], &[0, 1])
            .setenv("CUDA_DEVICE_ORDER", order);
        rules_of(
            &made
                .context(0, 0)
                .launch(0)
                .context(1, 1)
                .launch(1)
                .ends(&[0, 1])
                .done(),
        )
    };
    assert_eq!(late(&["NVIDIA H200"; 2], "PCI_BUS_ID"), [] as [&str; 0]);
    assert_eq!(late(&["NVIDIA H200"; 2], "PCI"), ["late-variable"]);
    assert_eq!(
        late(&["NVIDIA L4", "NVIDIA H200"], "PCI_BUS_ID"),
        ["late-variable"]
    );
}

#[test]
fn removing_a_mask_too_late_is_a_late_mask() {
    let made = TraceBuilder::on(2)
        .init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1])
        .unsetenv("CUDA_VISIBLE_DEVICES");
    let found = findings(&made.context(1, 0).launch(1).ends(&[1]).done());
    let late = finding("late-mask", &found).expect("a late mask");
    assert!(
        late.says.contains("CUDA_VISIBLE_DEVICES=(unset)") && late.says.contains("read as 1"),
        "{}",
        late.says
    );
}

#[test]
fn a_mask_that_a_later_child_gets_is_not_late() {
    let parent = || {
        TraceBuilder::on(2)
            .init(&[], &[0, 1])
            .context(0, 0)
            .launch(0)
            .setenv("CUDA_VISIBLE_DEVICES", "1")
    };
    let child = |mask: &str, parent_of_child: u32| {
        let made = parent()
            .process(200, parent_of_child)
            .init(&[("CUDA_VISIBLE_DEVICES", mask)], &[1]);
        rules_of(
            &made
                .context(1, 0)
                .launch(1)
                .ends(&[1])
                .by(PID)
                .ends(&[0])
                .done(),
        )
    };
    let is_late = |rules: &[String]| rules.iter().any(|rule| rule == "late-mask");
    assert!(!is_late(&child("1", PID)));
    assert!(
        !is_late(&child("1", 4000)),
        "by a shell that made no CUDA call"
    );
    assert!(is_late(&child("0", PID)), "the child got another one");
    assert!(
        is_late(&child("1", 1)),
        "a process beside the one that wrote it"
    );
}

#[test]
fn an_attempt_that_failed_is_not_the_one_that_read_the_mask() {
    // Both witnesses report both attempts, and the end of each has the time of its start.
    let variables = |mask: &str| [("CUDA_VISIBLE_DEVICES".to_owned(), mask.to_owned())].into();
    let begins = |mask: &str, witness| EventKind::Init {
        witness,
        variables: variables(mask),
    };
    let mut made = TraceBuilder::on(2);
    for (mask, status) in [("", 100), ("1", 0)] {
        made = made.event("cuInit", begins(mask, EventSource::Forwarding), |_| {});
        let visible = (status == 0).then_some(1);
        let gpus = if status == 0 {
            vec![uuid(1)]
        } else {
            Vec::new()
        };
        made = made.event("cuInit", EventKind::InitDone { visible, gpus }, |event| {
            event.t_ns -= 10_000_000;
            event.status = Some(status);
        });
        made = made.event(
            "InitializeInjection",
            begins(mask, EventSource::Injection),
            |_| {},
        );
        made = made.setenv("CUDA_VISIBLE_DEVICES", "1");
    }
    assert_eq!(
        rules_of(&made.context(1, 0).launch(1).ends(&[1]).done()),
        [] as [&str; 0]
    );
}

#[test]
fn an_only_context_is_stray_without_work_in_each_of_several_processes() {
    let one = |made: TraceBuilder, worked_on: &[usize]| {
        let made = made
            .init(&[("CUDA_VISIBLE_DEVICES", "0")], &[0])
            .at(&[("init", "load.py", 5)]);
        made.context(0, 0).ends(worked_on)
    };
    assert_eq!(
        rules_of(&one(TraceBuilder::on(2), &[0]).done()),
        [] as [&str; 0]
    );
    let found = findings(&one(TraceBuilder::on(2), &[]).done());
    assert_eq!((found.len(), found[0].rule.as_str()), (1, "stray-context"));
    assert!(
        found[0]
            .workaround
            .starts_with("In a process that does no work on a GPU, do not select"),
        "{}",
        found[0].workaround
    );
    // A context that was destroyed was wasted too.
    let made = TraceBuilder::on(1)
        .init(&[], &[0])
        .context(0, 0)
        .context_ends(0)
        .ends(&[]);
    assert_eq!(rules_of(&made.done()), ["stray-context"]);
    // Workers that do nothing do not need their own GPUs, though other GPUs exist.
    let mut made = one(TraceBuilder::on(2), &[0]);
    for pid in 200..206 {
        made = made
            .process(pid, PID)
            .init(&[], &[0, 1])
            .context(0, 0)
            .ends(&[]);
    }
    let found = findings(&made.done());
    let found: Vec<_> = found
        .iter()
        .filter(|it| it.severity == Severity::Pitfall)
        .map(|it| it.rule.as_str())
        .collect();
    assert_eq!(found, ["stray-context"; 6]);
    // The use is unknown for a program without counts.
    let unknown = TraceBuilder::on(1).init(&[], &[0]).context(0, 0).done();
    assert_eq!(rules_of(&unknown), [] as [&str; 0]);
}

#[test]
fn a_thread_that_means_device_0_is_not_lost() {
    let with = |thread: &[(&str, &str, u32)],
                main: &[(&str, &str, u32)],
                more: fn(TraceBuilder) -> TraceBuilder| {
        let made = TraceBuilder::on(2)
            .init(&[], &[0, 1])
            .at(main)
            .context(1, 1)
            .launch(1);
        rules_of(
            &more(made.thread(101).at(thread).context(0, 0).launch(0))
                .ends(&[0, 1])
                .done(),
        )
    };
    let main = [("<module>", "serve.py", 4)];
    let asks = [
        ("prepare", "serve.py", 7),
        ("_ensure", "own.py", 3),
        ("set_device", "own.py", 1),
    ];
    assert_eq!(
        with(&asks, &main, |made| made),
        ["thread-without-device"],
        "what it calls selects the default"
    );
    let selects = [
        ("prepare", "serve.py", 7),
        ("set_device", "torch/cuda/__init__.py", 9),
    ];
    assert_eq!(with(&selects, &main, |made| made), [] as [&str; 0]);
    let own = [
        ("run", "serve.py", 7),
        ("start", "serve.py", 9),
        ("set_device", "own.py", 1),
    ];
    assert_eq!(with(&own, &main, |made| made), [] as [&str; 0]);
    let mut named = super::in_thread(false);
    for event in named.events.iter_mut().filter(|event| event.tid == 101) {
        event.stack.source = Some("x = torch.zeros(1, device='cuda:0')".to_owned());
    }
    assert_eq!(rules_of(&named), [] as [&str; 0], "the line names device 0");
    let each = [("work", "serve.py", 9)];
    assert_eq!(
        with(&each, &each, |made| made),
        [] as [&str; 0],
        "the same code runs once for each GPU"
    );
    let pool = [
        ("run", "distributed/worker.py", 7),
        ("zeros", "torch/_refs/__init__.py", 9),
    ];
    let runs = [
        ("run", "distributed/worker.py", 3),
        ("set_device", "torch/cuda/__init__.py", 9),
    ];
    assert_eq!(
        with(&pool, &runs, |made| made),
        ["thread-without-device"],
        "no line of the user's is no equal one"
    );
    assert_eq!(
        with(&[], &runs, |made| made),
        [] as [&str; 0],
        "it is not known what it called"
    );
    let gives_up = |made: TraceBuilder| made.thread(PID).context_ends(0).context_ends(1);
    assert_eq!(
        with(&asks, &main, gives_up),
        ["thread-without-device"],
        "what releases contexts does not work on them"
    );
    fn uses(made: TraceBuilder, usage: crate::GpuUse) -> TraceBuilder {
        made.thread(PID)
            .event("a call", EventKind::FirstUse { usage }, |event| {
                event.gpu = Some(uuid(0))
            })
    }
    let launches = |made: TraceBuilder| uses(made, crate::GpuUse::Launch);
    let copies = |made: TraceBuilder| uses(made, crate::GpuUse::Copy);
    assert_eq!(
        with(&asks, &main, launches),
        [] as [&str; 0],
        "the main thread works on both GPUs"
    );
    assert_eq!(
        with(&asks, &main, copies),
        ["thread-without-device"],
        "it fetches what the other one made"
    );
    let mut old = super::in_thread(false);
    for event in &mut old.events {
        if let EventKind::Context { current, .. } = &mut event.what {
            *current = None;
        }
    }
    assert_eq!(
        rules_of(&old),
        [] as [&str; 0],
        "an older trace does not tell"
    );
}

#[test]
fn an_order_of_its_own_for_each_of_several_processes_is_meant() {
    let worker = |made: TraceBuilder, pid: u32, mask: &str, gpus: &[usize]| {
        made.process(pid, PID)
            .init(&[("CUDA_VISIBLE_DEVICES", mask)], gpus)
    };
    let at_once = |second: (&str, &[usize])| {
        let made = TraceBuilder::on(4)
            .init(&[("CUDA_VISIBLE_DEVICES", "0,1,3")], &[0, 1, 3])
            .context(0, 0)
            .launch(0);
        let made = worker(
            worker(made, 200, "1,3,0", &[1, 3, 0]),
            300,
            second.0,
            second.1,
        );
        let made = made
            .context(second.1[0], 0)
            .launch(second.1[0])
            .ends(&[second.1[0]]);
        let found = rules_of(
            &made
                .by(200)
                .context(1, 0)
                .launch(1)
                .ends(&[1])
                .by(PID)
                .ends(&[0])
                .done(),
        );
        found
            .into_iter()
            .filter(|rule| rule == "parents-gpus-reordered")
            .count()
    };
    assert_eq!(at_once(("3,0,1", &[3, 0, 1])), 0);
    assert_eq!(
        at_once(("1,3,0", &[1, 3, 0])),
        2,
        "both have one order, and it is not the launcher's"
    );
    assert_eq!(at_once(("3,1,0", &[3, 1, 0])), 2, "it goes backwards");
    let found = findings(&super::reordered("2,3", &[2, 3]));
    let says = &finding("parents-gpus-reordered", &found)
        .expect("another order")
        .says;
    assert!(
        says.contains("gets GPU 2, GPU 3; pid 100, which started it, sees GPU 3, GPU 2:"),
        "{says}"
    );
    let one = findings(&super::reordered("2", &[2]));
    assert!(
        finding("parents-gpus-reordered", &one).is_none(),
        "one GPU has no order: {one:#?}"
    );
}

#[test]
fn a_process_without_a_line_stands_between_a_launcher_and_its_workers() {
    let worker = |made: TraceBuilder, pid: u32, parents: &[u32], mask: &str, gpus: &[usize]| {
        let made = made
            .process_below(pid, parents)
            .init(&[("CUDA_VISIBLE_DEVICES", mask)], gpus);
        made.context(gpus[0], 0).launch(gpus[0]).ends(&[gpus[0]])
    };
    let launcher = || {
        TraceBuilder::on(4)
            .init(&[("CUDA_VISIBLE_DEVICES", "3,2")], &[3, 2])
            .context(3, 0)
            .launch(3)
            .ends(&[3])
    };
    let below = |mask: &str, gpus: &[usize]| {
        pitfalls_of(&worker(launcher(), 200, &[150, 140, PID, 1], mask, gpus).done())
    };
    assert_eq!(below("2,3", &[2, 3]), ["parents-gpus-reordered"]);
    assert_eq!(below("3,2", &[3, 2]), [] as [&str; 0]);
    assert_eq!(below("1", &[1]), ["outside-the-parents-mask"]);
    // The process does not descend from that launcher.
    assert_eq!(
        pitfalls_of(&worker(launcher(), 200, &[150, 1], "2,3", &[2, 3]).done()),
        [] as [&str; 0]
    );
    // Each worker has its own shell: the first GPU of each differs.
    let made = worker(launcher(), 200, &[150, PID, 1], "2,3", &[2, 3]);
    let made = worker(made, 300, &[250, PID, 1], "3,2", &[3, 2]);
    assert_eq!(pitfalls_of(&made.done()), [] as [&str; 0]);
}

#[test]
fn ranks_share_a_gpu_whatever_stands_between_them_and_their_launcher() {
    let rank = |made: TraceBuilder, pid: u32, parents: &[u32]| {
        let made = made
            .process_below(pid, parents)
            .at(&[("<module>", "rank.py", 5)])
            .init(&[], &[0, 1]);
        made.context(0, 0).launch(0)
    };
    let two = |first: &[u32], second: &[u32]| {
        let made = rank(rank(TraceBuilder::on(2), 200, first), 300, second);
        pitfalls_of(&made.by(200).ends(&[0]).by(300).ends(&[0]).done())
    };
    // The processes above them have no line, or only one of their start.
    assert_eq!(two(&[150, 90, 1], &[250, 90, 1]), ["ranks-share-gpu"]);
    assert_eq!(two(&[150, PID, 1], &[PID, 1]), ["ranks-share-gpu"]);
    assert_eq!(
        two(&[150, 90, 1], &[250, 200, 150, 90, 1]),
        [] as [&str; 0],
        "a worker and what it started"
    );
}

#[test]
fn a_package_that_puts_a_mask_back_sets_none_too_late() {
    const RAY: &[(&str, &str, u32)] = &[
        ("main_loop", "ray/worker.py", 9),
        ("set_visible", "ray/accelerator.py", 3),
    ];
    const OWN: &[(&str, &str, u32)] = &[("main_loop", "ray/worker.py", 9), ("work", "train.py", 3)];
    const CALLED: &[(&str, &str, u32)] = &[
        ("work", "train.py", 3),
        ("set_visible", "ray/accelerator.py", 3),
    ];
    const OTHER: &[(&str, &str, u32)] = &[("main_loop", "dask/worker.py", 9)];
    let write = |made: TraceBuilder,
                 place: &[(&str, &str, u32)],
                 before: Option<&str>,
                 value: Option<&str>| {
        let [before, value] = [before, value].map(|value| value.map(str::to_owned));
        let what = EventKind::Variable {
            name: "CUDA_VISIBLE_DEVICES".to_owned(),
            before,
            value,
        };
        made.at(place).event("setenv", what, |_| {})
    };
    let begun = |place: &[(&str, &str, u32)]| {
        let made = write(TraceBuilder::on(2), place, None, Some("1"))
            .at(OWN)
            .init(&[("CUDA_VISIBLE_DEVICES", "1")], &[1]);
        made.context(1, 0).launch(1)
    };
    let rules = |made: TraceBuilder| pitfalls_of(&made.ends(&[1]).done());
    assert_eq!(
        rules(write(begun(RAY), RAY, Some("1"), None)),
        [] as [&str; 0]
    );
    assert_eq!(
        rules(write(begun(RAY), OWN, Some("1"), None)),
        ["late-mask"],
        "the user's own"
    );
    assert_eq!(
        rules(write(begun(RAY), CALLED, Some("1"), None)),
        ["late-mask"],
        "the user called the package"
    );
    assert_eq!(
        rules(write(begun(OWN), RAY, Some("1"), None)),
        ["late-mask"],
        "the user had set it"
    );
    assert_eq!(
        rules(write(begun(OTHER), RAY, Some("1"), None)),
        ["late-mask"],
        "another package had set it"
    );
    assert_eq!(
        rules(write(begun(RAY), RAY, Some("1"), Some("0"))),
        ["late-mask"],
        "it was not so before"
    );
    // The user's own write, with or without the package's after it.
    let own = || write(begun(RAY), OWN, Some("1"), Some("0"));
    assert_eq!(
        rules(write(own(), RAY, Some("0"), None)),
        ["late-mask", "late-mask"]
    );
    // The next task sets its mask in vain. Removing the mask again is not a second fault.
    let next = write(
        write(begun(RAY), RAY, Some("1"), None),
        RAY,
        None,
        Some("0"),
    );
    assert_eq!(rules(write(next, RAY, Some("0"), None)), ["late-mask"]);
}

#[test]
fn nothing_is_said_of_what_is_not_known() {
    // Without the counts of a process its contexts may have been used.
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .context(0, 0);
    assert_eq!(rules_of(&made.done()), [] as [&str; 0]);
    // A truncated trace may lack the context that came later.
    let mut cut = TraceBuilder::on(2).init(&[], &[0, 1]).done();
    cut.end = None;
    assert_eq!(rules_of(&cut), [] as [&str; 0]);
    let mut unseen = TraceBuilder::on(2).init(&[], &[0, 1]).done();
    unseen.start.libcuda = None;
    assert_eq!(rules_of(&unseen), [] as [&str; 0]);
}

#[test]
fn contexts_that_came_with_the_work_are_not_everywhere() {
    // On two GPUs, a stray context also means a context on every GPU; it has its own sentence.
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .context(0, 0);
    assert_eq!(rules_of(&made.ends(&[1]).done()), ["stray-context"]);
    assert_eq!(
        rules_of(&on_every(&[1], &[0, 1, 2, 3])),
        ["context-on-every-gpu"]
    );
    let found = rules_of(&on_every(&[1], &[0, 1, 2]));
    assert_eq!(
        found,
        ["memory-of-init", "memory-question", "memory-question"],
        "GPU 3 has none"
    );
}

#[test]
fn one_event_has_the_words_that_say_most() {
    assert_eq!(rules_of(&pinned(&[1])), ["pinned-memory-context"]);
    for (rule, trace, _) in CASES {
        let found = findings(&trace());
        let pitfalls = found
            .iter()
            .filter(|finding| finding.severity == Severity::Pitfall);
        let mut first: Vec<usize> = pitfalls
            .filter_map(|finding| finding.events.first().copied())
            .collect();
        let all = first.len();
        first.dedup();
        assert_eq!(
            first.len(),
            all,
            "{rule}: two findings about one event: {found:#?}"
        );
    }
}

#[test]
fn a_context_of_pinned_memory_is_known_by_the_stack_too() {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .thread(101);
    let made = made.at(&[
        ("<module>", "train.py", 60),
        ("pin_memory", "torch/utils/data/_utils/pin_memory.py", 1),
    ]);
    assert_eq!(
        rules_of(&made.context(0, 0).ends(&[1]).done()),
        ["pinned-memory-context"]
    );
    let made = TraceBuilder::on(2).init(&[], &[0, 1]).context(0, 0);
    let made = made.event("cuMemHostAlloc", EventKind::HostMemory { bytes: 1 }, |_| {});
    let found = findings(&made.ends(&[]).done());
    assert!(
        finding("pinned-memory-context", &found).is_some(),
        "the only context, and for host memory alone"
    );
    // Another thread's page-locked memory does not explain this context.
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .context(0, 0)
        .thread(101);
    let made = made.event("cuMemHostAlloc", EventKind::HostMemory { bytes: 1 }, |_| {});
    assert_eq!(rules_of(&made.ends(&[1]).done()), ["stray-context"]);
}

#[test]
fn memory_of_init_is_nobodys_alone_where_another_process_begins_too() {
    let with = |elapsed_ns: u64| {
        let made = TraceBuilder::on(2)
            .init(&[], &[0, 1])
            .context(0, 0)
            .launch(0)
            .ends(&[0]);
        let mut trace = made
            .process(200, PID)
            .init(&[], &[0, 1])
            .context(1, 1)
            .launch(1)
            .ends(&[1])
            .done();
        for event in trace
            .events
            .iter_mut()
            .filter(|event| matches!(event.what, EventKind::InitDone { .. }))
        {
            event.elapsed_ns = Some(elapsed_ns);
        }
        rules_of(&trace)
            .into_iter()
            .filter(|rule| rule == "memory-of-init")
            .count()
    };
    assert_eq!(
        (with(1), with(60_000_000)),
        (2, 0),
        "one after the other, and at once"
    );
}

#[test]
fn memory_of_init_on_a_hidden_gpu_is_somebody_elses() {
    let with = |visible: &[usize]| {
        let mut trace = TraceBuilder::on(2)
            .init(&[], visible)
            .context(0, 0)
            .launch(0)
            .ends(&[0])
            .done();
        for event in trace
            .events
            .iter_mut()
            .filter(|event| matches!(event.what, EventKind::InitDone { .. }))
        {
            event.memory_bytes = vec![Some(3 << 20); 2];
        }
        rules_of(&trace)
    };
    assert_eq!(with(&[0, 1]), ["memory-of-init"]);
    assert_eq!(with(&[0]), [] as [&str; 0]);
}

#[test]
fn what_a_timer_calls_at_its_end_is_no_device_guard() {
    let with = |frames: &[(&str, &str, u32)]| rules_of(&super::then_context(frames, &[1]));
    let (own, exit) = (("<module>", "train.py", 60), ("__exit__", "timer.py", 9));
    assert_eq!(
        with(&[own, exit, ("synchronize", "torch/cuda/__init__.py", 7)]),
        ["stray-context"]
    );
    let profiler = [
        own,
        ("__exit__", "torch/profiler/profiler.py", 9),
        ("sync", "torch/profiler/profiler.py", 7),
    ];
    assert_eq!(with(&profiler), ["stray-context"]);
    assert_eq!(
        with(&[own, exit]),
        ["guard-restores-device"],
        "a guard of the user's own"
    );
    let compiled =
        "__pyx_pw_4cupy_4cuda_6device_6Device_9__exit__(_object*, _object* const*, long, _object*)";
    let stack = Stack {
        frames: vec![
            Frame::from_native(
                compiled,
                Some("/l/site-packages/cupy/cuda/device.cpython-312.so"),
                None,
                None,
            ),
            Frame::python("<module>", "/me/train.py", 3),
        ],
        ..Stack::default()
    };
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .on_stack(stack);
    assert_eq!(
        rules_of(&made.context(0, 0).ends(&[1]).done()),
        ["guard-restores-device"]
    );
}

#[test]
fn a_refused_child_of_which_only_the_counts_are_known_is_found() {
    let mut trace = TraceBuilder::on(1)
        .init(&[], &[0])
        .forks(200)
        .ends(&[])
        .done();
    assert!(finding("fork-after-init", &findings(&trace)).is_none());
    trace.counts[0]
        .calls
        .get_mut("cuInit")
        .expect("a count")
        .errors = 1;
    let found = findings(&trace);
    let says = &finding("fork-after-init", &found).expect("an error").says;
    assert_eq!(
        says,
        "pid 200 calls cuInit in a process that pid 100 forked after cuInit, and gets an error"
    );
}

#[test]
fn a_context_whose_memory_was_not_read_is_found_all_the_same() {
    let mut trace = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .context(0, 0)
        .ends(&[1])
        .done();
    trace
        .events
        .iter_mut()
        .for_each(|event| event.memory_bytes.clear());
    let found = findings(&trace);
    let stray = finding("stray-context", &found).expect("a stray context");
    let says =
        "pid 100 creates a context on GPU 0 (memory not read), through cuDevicePrimaryCtxRetain";
    assert_eq!(
        (&*stray.says, stray.bytes),
        (&*format!("{says}; the process does no work there"), None)
    );
}

#[test]
fn the_end_of_a_with_of_cupy_is_known_by_the_line() {
    let with = |line: u32| {
        let mut stack = crate::fixture::stack(&[("<module>", "a.py", line)]);
        let module = Some("/v/site-packages/cupy/cuda/device.cpython-312-x86_64-linux-gnu.so");
        stack
            .frames
            .insert(0, Frame::from_native("", module, None, None));
        let made = TraceBuilder::on(4)
            .init(&[], &[0, 1, 2, 3])
            .at(&[("<module>", "a.py", 8)])
            .context(3, 3)
            .launch(3);
        let found = findings(&made.on_stack(stack).context(0, 0).ends(&[3]).done());
        found
            .into_iter()
            .find(|finding| finding.severity == Severity::Pitfall)
            .expect("a finding")
    };
    let found = with(7);
    assert_eq!(found.rule, "guard-restores-device");
    assert!(
        found.workaround.starts_with("cupy.cuda.Device(3).use()"),
        "{}",
        found.workaround
    );
    assert_eq!(with(9).rule, "stray-context");
}

#[test]
fn ranks_share_a_gpu_only_at_the_same_time_and_as_siblings() {
    let found = findings(&ranks(2, true));
    let shared = finding("ranks-share-gpu", &found).expect("both are on GPU 0");
    assert_eq!(
        (shared.pid, shared.gpu.clone(), shared.bytes),
        (300, Some(uuid(0)), Some(CONTEXT))
    );
    assert!(
        finding("ranks-share-gpu", &findings(&ranks(2, false))).is_none(),
        "a parent and its child"
    );
    // The first has ended, and its memory is gone, before the second begins.
    let one = |made: TraceBuilder, pid: u32| {
        made.process(pid, PID)
            .init(&[], &[0, 1])
            .context(0, 0)
            .launch(0)
            .ends(&[0])
    };
    let gone = one(one(TraceBuilder::on(2), 200).memory(0, 0), 300).done();
    assert!(finding("ranks-share-gpu", &findings(&gone)).is_none());
    let released = one(one(TraceBuilder::on(2), 200).by(200).context_ends(0), 300).done();
    assert!(
        finding("ranks-share-gpu", &findings(&released)).is_none(),
        "released before"
    );
    let there = one(one(TraceBuilder::on(2), 200), 300).done();
    assert!(
        finding("ranks-share-gpu", &findings(&there)).is_some(),
        "its memory is still there"
    );
}

#[test]
fn crowded_gpu_is_reported_if_others_are_idle() {
    let crowd = |count: u32, visible: &[usize], also: Option<usize>| {
        let mut made = TraceBuilder::on(4);
        for pid in 200..200 + count {
            made = made
                .process(pid, PID)
                .at(&[("<module>", "serve.py", 3)])
                .init(&[], visible)
                .context(0, 0)
                .launch(0);
        }
        for gpu in also.into_iter().flat_map(|last| 1..=last) {
            made = made
                .process(300 + gpu as u32, PID)
                .init(&[], visible)
                .context(gpu, 0)
                .launch(gpu)
                .ends(&[gpu]);
        }
        let ended = (200..200 + count).fold(made, |made, pid| made.by(pid).ends(&[0]));
        let found = findings(&ended.done());
        finding("ranks-share-gpu", &found)
            .map(|it| (it.events.len(), it.bytes.unwrap_or(0) / CONTEXT))
    };
    let all = [0, 1, 2, 3];
    assert_eq!(crowd(1, &all, None), None);
    assert_eq!(crowd(4, &all, None), Some((3, 3)));
    assert_eq!(
        crowd(8, &all, None),
        Some((6, 6)),
        "two on each GPU would be even"
    );
    assert_eq!(crowd(33, &all, None), Some((24, 24)));
    assert_eq!(crowd(8, &all, Some(2)), Some((6, 6)), "GPU 3 has none");
    assert_eq!(crowd(8, &all, Some(3)), None, "every GPU has one");
    assert_eq!(
        crowd(2, &all, Some(3)),
        None,
        "five processes share four GPUs"
    );
    assert_eq!(
        crowd(2, &all, Some(2)),
        Some((1, 1)),
        "four processes could have one each"
    );
    assert_eq!(crowd(8, &[0], None), None, "they see no other");
}

#[test]
fn rank_with_its_own_gpu_is_reported() {
    let made = TraceBuilder::on(2)
        .process(300, PID)
        .init(&[], &[0, 1])
        .at(&[("<module>", "rank.py", 7)]);
    let made = made
        .context(0, 0)
        .context(1, 1)
        .launch(1)
        .process(200, PID)
        .init(&[], &[0, 1])
        .context(0, 0)
        .launch(0);
    let found = findings(&made.ends(&[0]).by(300).ends(&[1]).done());
    assert!(
        finding("stray-context", &found).is_none(),
        "it says less: {found:#?}"
    );
    assert_eq!(
        finding("ranks-share-gpu", &found).map(|finding| finding.pid),
        Some(300),
        "{found:#?}"
    );
}

#[test]
fn a_loop_at_one_line_is_one_finding() {
    let mut made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .at(&[("<module>", "a.py", 3)]);
    for _ in 0..5 {
        made = made.setenv("CUDA_VISIBLE_DEVICES", "1");
    }
    assert_eq!(
        rules_of(
            &made
                .context(0, 0)
                .context(1, 1)
                .launch(0)
                .launch(1)
                .ends(&[0, 1])
                .done()
        ),
        ["late-mask"]
    );
}

#[test]
fn foreign_thread_is_located_by_concurrent_user_code() {
    let meanwhile = crate::fixture::stack(&[
        ("<module>", "a.py", 4),
        ("devices", "jax/_src/xla_bridge.py", 1),
    ]);
    let stack = crate::Stack {
        meanwhile: meanwhile.frames,
        ..Default::default()
    };
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .on_stack(stack)
        .context(0, 0)
        .thread(101)
        .context(1, 1);
    let found = findings(&made.launch(0).ends(&[0]).done());
    let every = finding("context-on-every-gpu", &found).expect("a context on both");
    assert!(
        every
            .says
            .starts_with("other thread (main thread at a.py:4) and later calls"),
        "{}",
        every.says
    );
    assert!(
        every.workaround.contains("jax_cuda_visible_devices"),
        "{}",
        every.workaround
    );
}

#[test]
fn absurd_numbers_do_no_harm() {
    let mut trace = on_every(&[], &[0, 1, 2, 3]);
    for event in &mut trace.events {
        event.memory_bytes = vec![Some(i64::MAX); 9];
        (event.t_ns, event.device, event.status) = (u64::MAX, Some(i32::MIN), Some(i64::MIN));
    }
    trace.start.used_bytes = vec![Some(u64::MAX)];
    trace.start.gpus[1].uuid.clear();
    trace
        .processes
        .iter_mut()
        .for_each(|process| (process.parent, process.t_ns) = (process.pid, u64::MAX));
    let found = findings(&trace);
    let policy = crate::policy::Policy::parse(
        &["cuinit", "context:gpu1", "stray", "error"].map(str::to_owned),
        &["gpu0=1B".to_owned(), "gpu3=1B".to_owned()],
    );
    assert!(!policy.expect("a policy").check(&trace, &found).is_kept());
    trace.start.gpus.clear();
    let _ = findings(&trace);
}

#[test]
fn a_long_trace_takes_no_time_to_speak_of() {
    let mut made = TraceBuilder::on(2).init(&[], &[0, 1]).context(0, 0);
    for number in 0..20_000 {
        made = made
            .setenv("CUDA_VISIBLE_DEVICES", &number.to_string())
            .setenv("CUDA_LAUNCH_BLOCKING", "1");
    }
    let trace = made.launch(0).ends(&[0]).done();
    // CPU time of this thread: a busy machine does not change it.
    let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let began = spent();
    let found = findings(&trace);
    assert!(found.len() > 19_000, "only {}", found.len());
    assert!(spent() - began < 60, "{} s", spent() - began);
}

#[test]
fn findings_come_in_the_order_of_time() {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .context(0, 0);
    let made = made
        .setenv("CUDA_MODULE_LOADING", "EAGER")
        .setenv("CUDA_VISIBLE_DEVICES", "1");
    assert_eq!(
        rules_of(&made.ends(&[1]).done()),
        ["stray-context", "late-variable", "late-mask"]
    );
}

/// Returns a trace with Python children that were forked after `cuInit` at these frames, and without any failed call in
/// them.
fn forked_at(frames: &[(&str, &str, u32)], code: Option<i32>) -> Trace {
    let made = TraceBuilder::on(1).at(&[
        ("<module>", "train.py", 4),
        ("init", "torch/cuda/__init__.py", 447),
    ]);
    let made = made
        .init(&[], &[0])
        .context(0, 0)
        .launch(0)
        .at(frames)
        .forks(200)
        .forks(201);
    let mut trace = made.by(PID).ends(&[0]).done();
    trace.end.as_mut().expect("an end").code = code;
    trace
}

#[test]
fn possibly_failed_fork_is_reported_once() {
    let own = [
        ("<module>", "train.py", 9),
        ("_launch", "multiprocessing/popen_fork.py", 66),
    ];
    let trace = forked_at(&own, Some(0));
    let found = findings(&trace);
    let said: Vec<&str> = found.iter().map(|finding| finding.says.as_str()).collect();
    let after = "after train.py:4 has initialized CUDA through torch.cuda.init: CUDA cannot be used there. No failed \
                 call was seen, but PyTorch raises its own error in such a child, without a call that a trace can see";
    assert_eq!(said, [format!("train.py:9 forks 2 processes {after}")]);
    // A forkserver does not fork at a line of the program. The finding names the process, and the place is the line
    // that initialized CUDA.
    let mut served = forked_at(&[], Some(0));
    served
        .processes
        .iter_mut()
        .for_each(|process| process.python = Some("3.12.3".to_owned()));
    let main = "from multiprocessing.forkserver import main; main(5, 6, ['models'], **{})";
    served.processes[0].arguments = ["python", "-c", main].map(str::to_owned).to_vec();
    let by_server = findings(&served);
    let server = "pid 100 (python3 multiprocessing.forkserver, preloading models)";
    assert_eq!(by_server.len(), 1, "{by_server:#?}");
    assert_eq!(
        by_server[0].says,
        format!("{server} forks 2 processes {after}")
    );
    assert!(
        matches!(
            served.events[by_server[0].events[0]].what,
            EventKind::Init { .. }
        ),
        "{by_server:#?}"
    );
    assert_eq!((found[0].severity, found[0].pid), (Severity::Note, 200));
    assert_eq!(found[0].leaves_open(), ["fork-after-init"]);
    assert!(
        found[0]
            .workaround
            .contains("fork before train.py:4 initializes CUDA through torch.cuda.init")
    );
    // In C, every use of CUDA is a driver call.
    let mut in_c = forked_at(&[], Some(0));
    assert_eq!(rules_of(&in_c), [] as [&str; 0]);
    in_c.processes[1].python = Some("3.12.3".to_owned());
    assert_eq!(rules_of(&in_c), ["forked-unseen"]);
}

#[test]
fn workers_of_a_loader_are_left_open_only_where_the_program_failed() {
    let loader = [
        ("<module>", "train.py", 9),
        ("__init__", "torch/utils/data/dataloader.py", 1192),
    ];
    assert_eq!(rules_of(&forked_at(&loader, Some(0))), [] as [&str; 0]);
    assert_eq!(rules_of(&forked_at(&loader, Some(1))), ["forked-unseen"]);
    assert_eq!(rules_of(&forked_at(&loader, None)), ["forked-unseen"]);
    let mut cut = forked_at(&loader, Some(0));
    cut.end = None;
    assert_eq!(rules_of(&cut), ["forked-unseen"]);
}

#[test]
fn a_child_that_runs_another_program_has_used_nothing_of_its_parent() {
    let made = TraceBuilder::on(1)
        .at(&[("<module>", "train.py", 4)])
        .init(&[], &[0])
        .context(0, 0)
        .launch(0);
    let made = made
        .ends(&[0])
        .forks(200)
        .process(200, PID)
        .error("cuDeviceGetCount", 3);
    let mut trace = made
        .init(&[], &[0])
        .context(0, 0)
        .launch(0)
        .ends(&[0])
        .done();
    // The child made a query before its own cuInit, so its error does not come from the fork.
    let counts = trace
        .counts
        .iter_mut()
        .find(|counts| counts.pid == 200)
        .expect("its counts");
    counts.calls.get_mut("cuInit").expect("a count").errors = 1;
    assert_eq!(rules_of(&trace), [] as [&str; 0]);
}

#[test]
fn python_that_forks_to_run_another_program_leaves_nothing_open() {
    for (function, file) in [
        ("_execute_child", "subprocess.py"),
        ("spawnv_passfds", "multiprocessing/util.py"),
    ] {
        assert_eq!(
            rules_of(&forked_at(
                &[("<module>", "train.py", 9), (function, file, 1823)],
                None
            )),
            [] as [&str; 0]
        );
    }
}

#[test]
fn the_workaround_for_a_fork_names_what_initialised_cuda() {
    let with = |function: &str, child_calls: bool| {
        let made = TraceBuilder::on(1).at(&[
            ("<module>", "train.py", 4),
            (function, "torch/cuda/__init__.py", 9),
        ]);
        let made = made
            .init(&[], &[0])
            .at(&[("<module>", "train.py", 6)])
            .forks(200);
        let made = if child_calls {
            made.error("cuDeviceGetCount", 3)
        } else {
            made
        };
        let found = findings(&made.ends(&[]).by(PID).ends(&[]).done());
        let found: Vec<_> = found
            .into_iter()
            .filter(|it| it.rule.contains("fork"))
            .collect();
        assert_eq!(found.len(), 1, "{found:#?}");
        found[0].workaround.clone()
    };
    for child_calls in [true, false] {
        let asks = with("is_available", child_calls);
        assert!(
            asks.contains("torch.cuda.is_available() at train.py:4 queries NVML"),
            "{asks}"
        );
        let init = with("init", child_calls);
        assert!(
            init.ends_with("fork before train.py:4 initializes CUDA through torch.cuda.init"),
            "{init}"
        );
        assert!(!init.contains("is_available"), "{init}");
    }
}

#[test]
fn fork_is_reported_without_a_traced_cuinit() {
    let found = findings(
        &TraceBuilder::on(1)
            .at(&[("<module>", "train.py", 6)])
            .forks(200)
            .ends(&[])
            .done(),
    );
    let says = &finding("forked-unseen", &found).expect("a fork").says;
    assert!(
        says.starts_with(
            "train.py:6 forks pid 200 after pid 100 has initialized CUDA through cuInit:"
        ),
        "{says}"
    );
}

#[test]
fn processes_that_fork_each_other_in_a_circle_come_to_an_end() {
    let forked = |parent| EventKind::Forked {
        parent,
        contexts: 0,
    };
    let made = TraceBuilder::on(1)
        .process(200, 300)
        .event("fork", forked(300), |_| {})
        .at(&[("<module>", "a.py", 1)]);
    let made = made
        .process(300, 200)
        .event("fork", forked(200), |_| {})
        .by(200)
        .event("fork", forked(200), |_| {});
    let _ = findings(&made.done());
}

#[test]
fn an_error_before_the_gpu_was_used_is_not_of_the_guard() {
    let made = TraceBuilder::on(2)
        .init(&[], &[0, 1])
        .context(1, 1)
        .launch(1)
        .error("cuCtxSynchronize", 700);
    let made = made
        .at(&[
            ("<module>", "a.py", 3),
            ("__exit__", "cupy/cuda/device.py", 9),
        ])
        .context(0, 0)
        .launch(0);
    assert_eq!(rules_of(&made.ends(&[0, 1]).done()), [] as [&str; 0]);
}
