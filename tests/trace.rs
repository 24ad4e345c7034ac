//! `trace` on the simulated machine: the events of the programs of `tests/traced` are those in their first lines, they
//! end as they would without it, and nothing that happens to the tracer harms them.

#[path = "traced/attacks/main.rs"]
mod attacks;
#[path = "traced/ledger/main.rs"]
mod ledger;

use crate::common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::counts;
use common::traced::{LATE, Node, PROGRAMS, Program, events, in_time, lines_of, traced};
use common::{LONGEST, PROGRAM, Ran, Scratch, has_all_rights, root};
use cuda_pitfalls::diagnosis::{Severity, findings};
use cuda_pitfalls::trace::{
    ContextChange, EventKind, EventSource, Frame, FrameLanguage, FrameOwner, GpuUse, History,
    Trace, TraceEvent,
};
use rustix::process::{Pid, Signal, kill_process};

/// Returns a command under `trace` on the simulated machine, not yet started.
fn tracing(scratch: &Scratch, options: &[&str], command: &[&str]) -> Command {
    let out = text(scratch.path().join("traces"));
    let mut tracing = scratch.command(
        &[
            &["trace", "--on", "sim:h200-x2", "--out", &out][..],
            options,
            &["--"],
            command,
        ]
        .concat(),
    );
    tracing.env("PYTHONDONTWRITEBYTECODE", "1");
    tracing
}

/// Runs a command under `trace` to its end.
fn run(scratch: &Scratch, options: &[&str], command: &[&str]) -> Ran {
    scratch
        .start(tracing(scratch, options, command))
        .wait(LONGEST)
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the path of a program of `tests/traced`.
fn script(name: &str) -> String {
    text(root().join(traced(name)))
}

fn stored(scratch: &Scratch) -> Trace {
    only(&scratch.path().join("traces"))
}

/// Returns the one trace of a directory.
fn only(traces: &Path) -> Trace {
    let folders: Vec<PathBuf> = fs::read_dir(traces)
        .expect("a folder")
        .flatten()
        .map(|it| it.path())
        .collect();
    let [folder] = folders.as_slice() else {
        panic!("{folders:?}")
    };
    Trace::open(folder).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_cuinit_that_fails_has_its_own_mask() {
    let program = "import ctypes, os\ncuda = ctypes.CDLL('libcuda.so.1')\n\
        for mask in '7', '8', '9', '0':\n os.environ['CUDA_VISIBLE_DEVICES'] = mask\n cuda.cuInit(0)";
    let (_, trace) = trace(&[], &["python3", "-c", program]);
    let history = History::new(&trace);
    let inits = &history
        .programs
        .iter()
        .find(|program| !program.inits.is_empty())
        .expect("a program")
        .inits;
    let masks: Vec<_> = inits
        .iter()
        .map(|init| init.value("CUDA_VISIBLE_DEVICES").flatten())
        .collect();
    assert_eq!(masks, ["7", "8", "9", "0"].map(Some));
    assert!(
        inits.iter().all(|init| init.returned.is_some()),
        "each has an end"
    );
}

/// Traces a command to its end.
fn trace(options: &[&str], command: &[&str]) -> (Ran, Trace) {
    let is_late = |event: &TraceEvent| {
        event
            .stack
            .missing
            .as_deref()
            .is_some_and(|why| why.contains(LATE))
    };
    let is_lost = |why: &String| {
        why.contains("before they could be identified")
            || why.contains("did not arrive; events may be missing")
    };
    // Some of a few hundred processes are always late.
    let are_late = |(_, trace): &(Ran, Trace)| {
        let is_lossy = trace
            .end
            .as_ref()
            .is_some_and(|end| end.not_seen.iter().any(is_lost));
        trace.events.len() < 100 && (is_lossy || trace.events.iter().any(is_late))
    };
    in_time(are_late, || {
        let scratch = Scratch::new();
        (run(&scratch, options, command), stored(&scratch))
    })
}

/// Returns a program of `tests/traced` with its arguments.
fn words(node: &Node, program: &Program) -> Vec<String> {
    let mut words = match program.0.ends_with(".py") {
        true => vec!["python3".to_string(), script(program.0)],
        false => vec![text(node.program(program.0))],
    };
    words.extend(program.1.iter().map(ToString::to_string));
    words
}

/// Programs, each with the pitfall in its trace and the label of the line at fault; `None` without a pitfall.
const PITFALLS: &[(&str, Option<(&str, &str)>)] = &[
    ("late_mask.py", Some(("late-mask", "written"))),
    ("late_mask.c", Some(("late-mask", "written"))),
    ("stray_context.py", Some(("stray-context", "stray"))),
    ("guard.py", Some(("guard-restores-device", "exit"))),
    ("fork_after_init.py", Some(("fork-after-init", "child"))),
    ("raw_fork.py", Some(("fork-after-init", "child"))),
    ("pinned.py", Some(("pinned-memory-context", "pin"))),
    ("late_limit.py", Some(("limit-after-launch", "late"))),
    ("threads.py", Some(("context-on-every-gpu", "context"))),
    ("mask_hides.py", Some(("mask-hides", "read"))),
    ("mask_threads.py", Some(("mask-overwritten", "written"))),
    ("misspelt_mask.py", Some(("misspelt-variable", "init"))),
    (
        "own_number.py",
        Some(("outside-the-parents-mask", "worker")),
    ),
    ("idle_worker.py", Some(("stray-context", "idle"))),
    ("thread_device.py", Some(("thread-without-device", "lost"))),
    ("crowd.py", Some(("ranks-share-gpu", "crowd"))),
    ("reordered.py", Some(("parents-gpus-reordered", "worker"))),
    ("exec_after_work.py", Some(("stray-context", "idle"))),
    ("preload.py", None),
    ("exec_sets_mask.py", None),
    ("silent_fork.py", None),
    ("no_cuda.py", None),
    ("no_cuda.c", None),
];

/// Compares the findings in the trace of a program with the pitfall that it was written for.
fn pitfall_is_found(name: &str, trace: &Trace) {
    let Some((_, expected)) = PITFALLS.iter().find(|(program, _)| *program == name) else {
        return;
    };
    let found: Vec<_> = findings(trace)
        .into_iter()
        .filter(|it| it.severity == Severity::Pitfall)
        .collect();
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(
        rules,
        expected.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(),
        "{name}: {found:#?}"
    );
    if let (Some((_, label)), Some(finding)) = (expected, found.first()) {
        let line = lines_of(Path::new(name))[*label];
        assert!(
            finding.says.starts_with(&format!("{name}:{line} ")),
            "{}",
            finding.says
        );
    }
}

/// Returns `true` if an event is the one that a program's comment announces, in the words of tests/traced/README.md.
fn is_shown(said: &str, event: &TraceEvent) -> bool {
    let (kind, rest) = said.split_once([',', ' ']).unwrap_or((said, ""));
    let rest = rest.trim();
    let gpu = || {
        rest.split("on GPU ")
            .nth(1)?
            .chars()
            .next()?
            .to_digit(10)
            .map(|digit| digit as i32)
    };
    match (kind, &event.what) {
        ("init", EventKind::Init { variables, .. }) => {
            let mask = rest
                .trim_start_matches("mask ")
                .split(", ")
                .next()
                .unwrap_or_default();
            variables
                .get("CUDA_VISIBLE_DEVICES")
                .map_or("(unset)", String::as_str)
                == mask
        }
        ("context", EventKind::Context { change, .. }) => {
            let changed = if rest.starts_with("made") {
                ContextChange::Made
            } else {
                ContextChange::Released
            };
            *change == changed && event.device == gpu()
        }
        ("first_use", EventKind::FirstUse { usage }) => {
            let wanted = match rest.split(' ').next() {
                Some("launch") => GpuUse::Launch,
                Some("copy") => GpuUse::Copy,
                _ => GpuUse::Allocation,
            };
            *usage == wanted && event.device == gpu()
        }
        ("host_memory", EventKind::HostMemory { bytes }) => rest == format!("{bytes} bytes"),
        ("variable", EventKind::Variable { name, value, .. }) => rest.starts_with(&format!(
            "{name} = {}",
            value.as_deref().unwrap_or("(unset)")
        )),
        (
            "limit",
            EventKind::Limit {
                limit,
                value,
                after_launch,
            },
        ) => {
            let when = if *after_launch { "after" } else { "before" };
            let status = rest.split("status ").nth(1).unwrap_or("0");
            rest.starts_with(&format!("{limit} = {value}, {when} a launch"))
                && event.status == status.parse().ok()
        }
        ("module", EventKind::Module) => event.status == Some(0),
        ("forked", EventKind::Forked { contexts, .. }) => rest.starts_with(&contexts.to_string()),
        ("error", EventKind::InitDone { visible: None, .. }) => {
            rest.contains(&event.call) && event.status != Some(0)
        }
        ("error", EventKind::Error) => rest.contains(&event.call),
        _ => false,
    }
}

#[test]
fn trace_matches_programs_own_account_by_line() {
    programs_are_shown(&[]);
}

#[test]
fn a_trace_that_says_whose_memory_is_shows_the_same() {
    programs_are_shown(&["--memory"]);
}

fn programs_are_shown(options: &[&str]) {
    let node = Node::new("h200-x2");
    for program in PROGRAMS
        .iter()
        .filter(|program| program.0 != "absolute_path.py" && program.1 != ["bare"])
    {
        let name = program.0;
        if name == "setuid.py" && rustix::process::geteuid().is_root() && !has_all_rights() {
            eprintln!("NOT TESTED: only root with all rights can read a process that dropped them");
            continue;
        }
        let command = words(&node, program);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let (ran, trace) = trace(options, &command);
        assert!(
            ran.stdout.starts_with(program.3),
            "{name} printed something else:\n{}\n{}",
            ran.stdout,
            ran.stderr
        );
        assert_eq!(
            ran.code, program.2,
            "{name} ended in another way: {}",
            ran.stderr
        );
        let lines = lines_of(Path::new(name));
        for (label, said) in events(Path::new(name)) {
            if said.starts_with("nothing") {
                let end = trace.end.as_ref().expect("a whole trace");
                assert!(
                    !end.not_seen.is_empty(),
                    "{name}: what was not seen is not said"
                );
                continue;
            }
            let line_of = |event: &&TraceEvent| {
                let frame = event
                    .stack
                    .user_frame()
                    .or_else(|| event.stack.users_meanwhile());
                frame.and_then(|frame| frame.line)
            };
            let alike: Vec<&TraceEvent> = trace
                .events
                .iter()
                .filter(|event| is_shown(&said, event))
                .collect();
            assert!(
                !alike.is_empty(),
                "{name}: {label}: {said} is not in the trace: {:#?}",
                trace.events
            );
            if let Some(line) = lines.get(&label) {
                // Some of many children may not have been inspected in time; their events
                // contain a note.
                let lines: Vec<Option<u32>> = alike.iter().map(line_of).collect();
                assert!(
                    lines.contains(&Some(*line)),
                    "{name}: {label}: {said} at line {line}, found {lines:?}"
                );
            }
        }
        pitfall_is_found(name, &trace);
        let end = trace
            .end
            .as_ref()
            .unwrap_or_else(|| panic!("{name}: the trace has no end"));
        assert_eq!((end.code, end.left_out), (program.2, 0), "{name}");
        // A child gives up waiting for a tracer that is kept busy, here by 200 children at once, and
        // the trace reports that.
        let late = [
            "before they could be identified",
            "did not arrive; events may be missing",
            "stopped telling what happens",
            "no memory records from",
            "more arrived than could be processed",
        ];
        // Another test may open the same libcuda while a process of this one ends.
        let by_another_test =
            "ended before it could be inspected, and libcuda was opened at that time";
        let is_late = |it: &&String| {
            it.contains(by_another_test)
                || name == "many_children.py" && late.iter().any(|late| it.contains(late))
        };
        if name != "spawn.py" {
            assert_eq!(
                end.not_seen.iter().filter(|it| !is_late(it)).count(),
                0,
                "{name}: {:?}",
                end.not_seen
            );
        }
    }
}

#[test]
fn the_entry_script_of_an_environment_is_the_packages() {
    let scratch = Scratch::new();
    let [bin, packages] =
        ["venv/bin", "venv/lib/python3/site-packages"].map(|folder| scratch.path().join(folder));
    fs::create_dir_all(packages.join("serve")).expect("a folder");
    fs::create_dir_all(&bin).expect("a folder");
    let code = "import ctypes\ndef main():\n    return ctypes.CDLL('libcuda.so.1').cuInit(0)\n";
    fs::write(packages.join("serve/cli.py"), code).expect("a file");
    let path = format!("PYTHONPATH={}", text(packages));
    for (name, line) in [
        ("serve", "sys.argv[0] = sys.argv[0].removesuffix('.exe')"),
        ("own", "print('mine')"),
    ] {
        let code = format!(
            "#!/usr/bin/python3\nimport sys\nfrom serve.cli import main\n{line}\nsys.exit(main())\n"
        );
        let file = text(bin.join(name));
        fs::write(&file, code).expect("a file");
        let (ran, trace) = trace(&[], &["env", &path, "python3", &file]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let init = trace
            .events
            .iter()
            .find(|event| matches!(event.what, EventKind::Init { .. }))
            .expect("a cuInit");
        let script = init.stack.frames.last().expect("a frame");
        assert_eq!(script.file.as_deref(), Some(file.as_str()), "{init:#?}");
        assert_eq!(
            init.stack.place(),
            (name == "own").then(|| "own:5".to_owned()),
            "{init:#?}"
        );
        assert_eq!(
            script.package.as_deref(),
            (name == "serve").then_some("serve"),
            "{init:#?}"
        );
    }
}

/// Writes packages that import each other, `deep0` first. The last one calls `cuInit` through another package.
fn write_deep_packages(packages: &Path, levels: usize) {
    let mut files = vec![
        ("culprit/extension.py".to_owned(), "import os, toolkit\nos.environ['PYTORCH_NVML_BASED_CUDA_CHECK'] = '1'\ntoolkit.available()\n".to_owned()),
        ("toolkit/__init__.py".to_owned(), "import ctypes\ndef available():\n    return ctypes.CDLL('libcuda.so.1').cuInit(0)\n".to_owned()),
        ("lazy/__init__.py".to_owned(), "import importlib\ndef __getattr__(name):\n    return importlib.import_module('deep0')\n".to_owned()),
    ];
    for level in 0..levels {
        let imported = match level + 1 {
            next if next == levels => "culprit.extension".to_owned(),
            next => format!("deep{next}"),
        };
        files.push((
            format!("deep{level}/__init__.py"),
            format!("import {imported}\n"),
        ));
    }
    for (name, text) in files {
        let path = packages.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

#[test]
fn deep_import_names_users_line_and_culprit() {
    let scratch = Scratch::new();
    let packages = scratch.path().join("lib/python3/site-packages");
    let [app, json, sarif] =
        ["app.py", "a.json", "a.sarif"].map(|name| text(scratch.path().join(name)));
    let path = format!("PYTHONPATH={}", text(packages.clone()));
    for (line, levels, through) in [
        ("import deep0", 60, "deep0"),
        ("import deep0", 140, "deep0"),
        ("from lazy import Trainer", 60, "lazy"),
    ] {
        write_deep_packages(&packages, levels);
        fs::write(
            &app,
            format!("import sys; sys.setrecursionlimit(5000)\n{line}\n"),
        )
        .expect("a file");
        let options = [
            "--forbid", "cuinit", "--json", &json, "--sarif", &sarif, "--github",
        ];
        let (ran, trace) = trace(&options, &["env", &path, "python3", &app]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let says =
            format!("app.py:2 initializes CUDA through {through} (at culprit/extension.py:3)");
        let [summary, log] = [&json, &sarif].map(|file| fs::read_to_string(file).expect("a file"));
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        let violation = &summary["violations"][0];
        assert_eq!(violation["says"], says.as_str());
        assert_eq!(violation["at"]["file"], app.as_str());
        assert_eq!(violation["at"]["source"], line);
        let log: serde_json::Value = serde_json::from_str(&log).expect("JSON");
        let located = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(located["region"]["startLine"], 2, "{log:#}");
        assert!(ran.stderr.contains("app.py,line=2"), "{}", ran.stderr);
        let [write, init, ..] = trace.events.as_slice() else {
            panic!("{:#?}", trace.events)
        };
        assert!(
            matches!(&write.what, EventKind::Variable { name, .. } if name == "PYTORCH_NVML_BASED_CUDA_CHECK"),
            "{write:#?}"
        );
        assert_eq!(write.stack.place().as_deref(), Some("app.py:2"));
        assert_eq!(
            write.stack.entry_name(),
            Some(format!("{through} (at culprit/extension.py:2)"))
        );
        let stack = &init.stack;
        assert_eq!(stack.left_out > 0, levels > 128, "{stack:#?}");
        let is_system = |frame: &Frame| {
            frame.owner == FrameOwner::System && frame.language == FrameLanguage::Python
        };
        assert!(
            stack.frames.len() <= 129 && !stack.frames.iter().any(is_system),
            "{stack:#?}"
        );
    }
}

#[test]
fn violation_in_an_import_has_its_measured_results() {
    let scratch = Scratch::new();
    let packages = scratch.path().join("lib/python3/site-packages");
    let [app, json, sarif] =
        ["app.py", "a.json", "a.sarif"].map(|name| text(scratch.path().join(name)));
    let path = format!("PYTHONPATH={}", text(packages.clone()));
    for (package, is_measured) in [("bitsandbytes", true), ("nobody_measured_it", false)] {
        let folder = packages.join(package);
        fs::create_dir_all(&folder).expect("a folder");
        let call = "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n";
        fs::write(folder.join("__init__.py"), call).expect("a file");
        let late = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1'";
        fs::write(&app, format!("import {package}\n{late}\n")).expect("a file");
        let command = ["env", &path, "python3", &app];
        let options = ["--forbid", "cuinit", "--json", &json, "--sarif", &sarif];
        let (ran, _) = trace(&options, &command);
        let [summary, log] = [&json, &sarif].map(|file| fs::read_to_string(file).expect("a file"));
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        let (annotated, _) = trace(&["--forbid", "cuinit", "--github"], &command);
        let mut annotations = annotated.stderr.lines();
        let annotation = annotations.find(|line| line.starts_with("::error file="));
        let annotation = annotation.unwrap_or_else(|| panic!("{annotated:?}"));
        let printed = words_of(&ran.stderr);
        let known = [
            summary["violations"][0]["import"].as_str(),
            summary["findings"][0]["import"].as_str(),
        ];
        if !is_measured {
            assert_eq!(known, [None; 2], "{summary:#}");
            let texts = [printed.as_str(), annotation, log.as_str()];
            assert!(!texts.iter().any(|text| text.contains("docs/imports.md")));
            continue;
        }
        let [Some(known), Some(of_finding)] = known else {
            panic!("{summary:#}")
        };
        let start = "Imported without a GPU: import bitsandbytes calls cuInit in bitsandbytes ";
        assert!(known.starts_with(start) && known.ends_with(". See docs/imports.md."));
        assert_eq!(known, of_finding);
        assert_eq!(printed.matches(known).count(), 1, "{printed}");
        assert!(log.contains(known), "{log}");
        assert!(annotation.contains(known), "{annotation}");
    }
}

/// Returns a text without its line breaks.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn failed_import_is_told_from_a_violation() {
    for (command, code, end) in [
        (
            "import does_not_exist",
            Some(1),
            "exit 1 (the program itself failed;",
        ),
        (
            "import os; os.abort()",
            None,
            "ended by SIGABRT (the program itself failed;",
        ),
        (
            "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0); import does_not_exist",
            Some(1),
            "exit 1 (unexpected)",
        ),
    ] {
        let (ran, _) = trace(&["--forbid", "cuinit"], &["python3", "-c", command]);
        assert_eq!(ran.code, code, "{ran:?}");
        let last = ran.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("cuda-pitfalls: {end}")), "{last}");
    }
}

#[test]
fn program_that_hangs_after_cuinit_is_stopped_there() {
    let hangs = "import ctypes, os, time; child = os.fork()\n\
        if child == 0: ctypes.CDLL('libcuda.so.1').cuInit(0); print('after', flush=True)\n\
        time.sleep(300)";
    let command = ["python3", "-c", hangs];
    for (options, code) in [
        (&["--stop-at-first"][..], Some(0)),
        (&["--stop-at-first", "--forbid", "cuinit"], Some(1)),
        (&["--stop-at-first", "--forbid", "context"], Some(3)),
    ] {
        let (ran, trace) = trace(options, &command);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{ran:?}");
        let history = History::new(&trace);
        let inits = history.programs.iter().flat_map(|program| &program.inits);
        let returned: Vec<bool> = inits.map(|init| init.has_succeeded()).collect();
        assert_eq!(returned, [true], "{trace:#?}");
        let end = trace.end.as_ref().expect("a whole trace");
        assert_eq!(end.signal.as_deref(), Some("SIGKILL"));
        let [why] = end.not_seen.as_slice() else {
            panic!("{:?}", end.not_seen)
        };
        assert!(why.contains("ended at its first cuInit"), "{why}");
    }
}

#[test]
fn simulated_machine_can_lack_nvml() {
    let opens = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2()";
    for (nvml, code) in [("with", Some(0)), ("without", Some(1))] {
        let (ran, _) = trace(&["--nvml", nvml], &["python3", "-c", opens]);
        assert_eq!(ran.code, code, "{ran:?}");
    }
    let scratch = Scratch::new();
    let words = [
        "trace", "--on", "cuda", "--nvml", "without", "python3", "-c", opens,
    ];
    scratch.run(&words).ended(2, "usage").says("--on sim");
}

#[test]
fn brief_use_of_simulated_nvml_is_no_unseen_libcuda() {
    let counts = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2()";
    for _ in 0..8 {
        let (ran, trace) = trace(&["--forbid", "cuinit"], &["python3", "-c", counts]);
        assert_eq!(ran.code, Some(0), "{trace:#?}");
    }
}

#[test]
fn the_hook_comes_before_the_mask_and_both_witnesses_see_each_init() {
    let (_, trace) = trace(&[], &["python3", &script("late_mask.py")]);
    let witnesses = trace.events.iter().filter_map(|event| match event.what {
        EventKind::Init { witness, .. } => Some(witness),
        _ => None,
    });
    assert_eq!(
        witnesses.collect::<Vec<_>>(),
        [EventSource::Forwarding, EventSource::Injection]
    );
    let read = trace.events.iter().find_map(|event| match &event.what {
        EventKind::MaskRead { value, after_hook } => Some((value.clone(), *after_hook)),
        _ => None,
    });
    assert_eq!(read, Some((None, true)));
}

#[test]
fn libcuda_opened_by_path_is_reported_unseen() {
    let node = Node::new("h200-x2");
    let command = [
        "python3",
        &script("absolute_path.py"),
        &text(node.links.join("libcuda.so.1")),
    ];
    let (ran, trace) = trace(&[], &command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let hooked = |event: &TraceEvent| {
        matches!(
            event.what,
            EventKind::Init {
                witness: EventSource::Injection,
                ..
            }
        )
    };
    assert!(trace.events.iter().any(hooked), "{:#?}", trace.events);
    let not_seen = trace.end.expect("a whole trace").not_seen;
    assert!(
        not_seen
            .iter()
            .any(|why| why.contains("did not open by name")),
        "{not_seen:?}"
    );
}

/// No real libcudart creates a context without calling libcuda; the simulated one does.
#[test]
fn simulated_libcudart_program_is_not_blamed_for_gaps() {
    let script = "import ctypes; rt = ctypes.CDLL('libcudart.so.12'); p = ctypes.c_void_p()\n\
                  assert rt.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 20)) == 0";
    let (ran, trace) = trace(&[], &["python3", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        trace
            .events
            .iter()
            .any(|event| matches!(event.what, EventKind::Init { .. })),
        "{:#?}",
        trace.events
    );
    let not_seen = trace.end.expect("a whole trace").not_seen;
    assert!(
        matches!(not_seen.as_slice(), [why] if why.starts_with("the simulated libcudart")),
        "{not_seen:?}"
    );
}

#[test]
fn trace_needs_no_dashes_and_writes_summary_file() {
    let scratch = Scratch::new();
    let [out, file] = ["traces", "summary.json"].map(|name| text(scratch.path().join(name)));
    let words = [
        "trace", "--on", "sim", "--out", &out, "--json", &file, "python3", "-c", "print(7)",
        "--forbid",
    ];
    // A link at that path is rejected before the program runs, and its target is unchanged.
    let victim = scratch.path().join("victim");
    fs::write(&victim, "whole").expect("a file");
    std::os::unix::fs::symlink(&victim, &file).expect("a link");
    let refused = scratch.run(&words).ended(2, "usage");
    assert!(
        refused.stderr.contains("it is a symbolic link") && refused.stdout.is_empty(),
        "{refused:?}"
    );
    fs::remove_file(&file).expect("ours");
    // The same holds for a file of any format in a path that does not exist or is not a directory.
    for option in ["--html", "--junit", "--sarif", "--markdown", "--json"] {
        for file in [
            text(scratch.path().join("nowhere/file.json")),
            format!("{}/file.json", text(victim.clone())),
        ] {
            let ran = scratch.run(&[
                "trace", "--on", "sim", "--out", &out, option, &file, "python3", "-c", "print(7)",
            ]);
            let ran = ran.ended(2, "usage").says("cannot write");
            assert!(ran.stdout.is_empty(), "{option} {file}: {ran:?}");
        }
    }
    // The trace creates its own folder, which does not exist yet.
    let own = format!("{out}/own.json");
    scratch
        .run(&[
            "trace", "--on", "sim", "--out", &out, "--json", &own, "true",
        ])
        .good();
    assert!(Path::new(&own).exists());
    fs::remove_dir_all(&out).expect("ours");
    let ran = scratch.run(&words);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "7\n"), "{ran:?}");
    assert!(
        ran.stderr.contains("trace.ndjson"),
        "the text stays on stderr: {ran:?}"
    );
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("a file")).expect("JSON");
    assert_eq!(
        summary["command"].as_array().map(Vec::len),
        Some(4),
        "{summary}"
    );
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "whole");
    let program = scratch.run(&["trace", "--on", "sim", "--json", "sh", "script"]);
    assert!(
        program.code == Some(2) && program.stderr.contains("write `--json=- sh`"),
        "no program is a file: {program:?}"
    );
    scratch
        .run(&["trace", "--frobid", "cuinit", "python3", "-c", "1"])
        .ended(2, "usage")
        .says("--forbid");
}

#[test]
fn an_injection_library_and_a_preload_that_were_there_before_are_kept() {
    let node = Node::new("h200-x2");
    let hook = node.compile(
        "tests/injection/hook.c",
        "libhook.so",
        &["-shared", "-fPIC"],
    );
    let preload = node.compile(
        "tests/injection/preload.c",
        "libpreload.so",
        &["-shared", "-fPIC"],
    );
    let (log, scratch) = (node.file("log"), Scratch::new());
    let script = "import ctypes, os; ctypes.CDLL('libcuda.so.1').cuInit(0); print(os.environ['LD_PRELOAD'].count(':'))";
    let mut command = tracing(&scratch, &[], &["python3", "-c", script]);
    command
        .env("CUDA_INJECTION64_PATH", &hook)
        .env("LD_PRELOAD", &preload)
        .env("HOOK_LOG", &log);
    let ran = scratch.start(command).wait(LONGEST);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    let called = fs::read_to_string(&log).unwrap_or_default();
    assert!(
        !called.is_empty(),
        "the earlier hook was not called: {ran:?}"
    );
}

#[test]
fn every_format_reports_violation_at_user_line() {
    let scratch = Scratch::new();
    let script = script("stray_context.py");
    let line = lines_of(Path::new("stray_context.py"))["stray"];
    let [page, junit] = ["page.html", "junit.xml"].map(|name| text(scratch.path().join(name)));
    let options = [
        "--forbid", "stray", "--github", "--json", "--html", &page, "--junit", &junit,
    ];
    let ran = run(&scratch, &options, &["python3", &script]).ended(1, "unexpected");
    assert_eq!(
        ran.stdout, "model on cuda:1\ndone\n",
        "stdout is the program's"
    );
    let summary = ran
        .stderr
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(summary).expect("JSON");
    assert_eq!(summary["violations"][0]["forbidden"], "stray", "{summary}");
    let text = fs::read_to_string(&script).expect("the script");
    let source = text
        .lines()
        .nth(line as usize - 1)
        .expect("the line")
        .trim();
    assert_eq!(
        summary["violations"][0]["at"]["source"], source,
        "{summary}"
    );
    let at = format!("tests/traced/stray_context.py,line={line}");
    let annotation = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("::error") && line.contains(&at));
    assert!(
        annotation.is_some(),
        "{at} is not annotated:\n{}",
        ran.stderr
    );
    let xml = fs::read_to_string(&junit).expect("a file");
    assert!(
        xml.contains("<failure") && xml.contains("cuda-pitfalls.simulated.trace"),
        "{xml}"
    );
    assert!(
        fs::read_to_string(&page)
            .expect("a page")
            .contains("stray_context.py")
    );
}

#[test]
fn a_policy_that_cannot_be_decided_is_not_kept() {
    let node = Node::new("h200-x2");
    let command = [
        "python3",
        &script("absolute_path.py"),
        &text(node.links.join("libcuda.so.1")),
    ];
    let scratch = Scratch::new();
    // A violation may have its own exit code, which an undecided policy does not get.
    for (options, code, name) in [
        (
            ["--forbid", "context", "--error-exitcode", "9"],
            3,
            "inconclusive",
        ),
        (
            ["--forbid", "cuinit", "--error-exitcode", "9"],
            9,
            "unexpected",
        ),
    ] {
        run(&scratch, &options, &command).ended(code, name);
    }
    assert_eq!(
        run(&scratch, &["--forbid", "cuinit,context"], &["true"]).code,
        Some(0)
    );
}

#[test]
fn a_process_that_changes_its_title_is_the_same_program() {
    // prctl(PR_SET_MM) needs privileges; the memory of the command line can be written by anyone who has it.
    let script = "import ctypes, sys\n\
        cuda = ctypes.CDLL('libcuda.so.1')\ncontext, pointer = ctypes.c_void_p(), ctypes.c_uint64()\n\
        cuda.cuInit(0)\ncuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)\ncuda.cuCtxSetCurrent(context)\n\
        start = int(open('/proc/self/stat').read().rsplit(') ', 1)[1].split()[45])\n\
        ctypes.memmove(start, b'title', 5)\nassert open('/proc/self/cmdline').read().startswith('title')\n\
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20))";
    let (ran, trace) = trace(&[], &["python3", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(trace.processes.len(), 1, "{:?}", trace.processes);
    let uses: Vec<u64> = trace
        .counts
        .iter()
        .flat_map(|counts| counts.gpus.values())
        .map(|it| it.allocations)
        .collect();
    assert_eq!(uses, [1], "{:?}", trace.counts);
}

#[test]
fn writes_that_are_told_no_more_are_said_to_be_unseen() {
    let script = "import os\nfor n in range(300): os.environ['CUDA_VISIBLE_DEVICES'] = str(n)";
    let (ran, trace) = trace(&[], &["python3", "-c", script]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let writes = trace
        .events
        .iter()
        .filter(|event| matches!(event.what, EventKind::Variable { .. }))
        .count();
    let not_seen = trace.end.expect("a whole trace").not_seen;
    assert!(
        writes == 256 && not_seen.iter().any(|why| why.contains("writes variables")),
        "{writes}, {not_seen:?}"
    );
}

#[test]
fn simulated_driver_is_never_reported_as_real() {
    let node = Node::new("h200-x2");
    let scratch = Scratch::new();
    let (out, script) = (text(scratch.path().join("traces")), script("late_mask.py"));
    let mut command = scratch.command(&[
        "trace", "--on", "cuda", "--out", &out, "--", "python3", &script,
    ]);
    command
        .env("LD_LIBRARY_PATH", &node.links)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = scratch.start(command).wait(LONGEST);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("SIMULATED"), "{}", ran.stderr);
    let trace = stored(&scratch);
    assert_eq!(
        trace.start.provenance,
        cuda_pitfalls::verdict::Provenance::Simulated
    );
    assert!(
        trace
            .events
            .iter()
            .any(|event| matches!(event.what, EventKind::Context { .. })),
        "{:?}",
        trace.events
    );
}

#[test]
fn concurrent_traces_report_a_shared_gpu() {
    let node = Node::new("h200-x1");
    let hold = "import ctypes, os, time\ncuda = ctypes.CDLL('libcuda.so.1')\ncontext = ctypes.c_void_p()\n\
        cuda.cuInit(0)\ncuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n";
    let start = |name: &str, script: String| {
        let words = [
            "trace",
            "--on",
            "cuda",
            "--out",
            &text(node.file(name)),
            "--",
            "python3",
            "-c",
            &script,
        ];
        let mut command = node.scratch.command(&words);
        command
            .env("LD_LIBRARY_PATH", &node.links)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("it starts")
    };
    let (held, go) = (node.file("held"), node.file("go"));
    let wait = format!(
        "open({held:?}, 'w').close()\nwhile not os.path.exists({go:?}): time.sleep(0.01)\n"
    );
    let mut first = start("first", format!("{hold}{wait}"));
    appears(&held);
    assert!(
        start("second", hold.to_string())
            .wait()
            .expect("it ends")
            .success()
    );
    fs::write(&go, "").expect("a file");
    assert!(first.wait().expect("it ends").success());
    for (name, shared) in [("first", false), ("second", true)] {
        let trace = only(&node.file(name));
        let made = trace
            .events
            .iter()
            .filter(|event| matches!(event.what, EventKind::Context { .. }))
            .count();
        assert_eq!((made, trace.processes.len()), (1, 1), "{name}");
        assert_eq!(
            trace
                .start
                .limits
                .iter()
                .any(|limit| limit.contains("shared")),
            shared,
            "{:?}",
            trace.start.limits
        );
    }
}

#[test]
fn code_that_python_was_given_as_text_is_the_programs_own() {
    let script = "import ctypes\ndef work():\n    ctypes.CDLL('libcuda.so.1').cuInit(0)\nwork()";
    let compiled = |name: &str| format!("exec(compile({script:?}, '{name}', 'exec'))");
    let [typed, kernel] = [
        "<ipython-input-7-0a1b2c3d4e5f>",
        "/tmp/ipykernel_9/922341601.py",
    ]
    .map(compiled);
    // A notebook has the cell of the kernel by its hash, and its text with it.
    let folder = tempfile::tempdir().expect("a folder of our own");
    let notebook = text(folder.path().join("fit.ipynb"));
    let cells = serde_json::json!({ "cells": [{ "cell_type": "code", "source": "1" }, { "cell_type": "code", "source": script }] });
    fs::write(&notebook, cells.to_string()).expect("the notebook is written");
    let source = "ctypes.CDLL('libcuda.so.1').cuInit(0)";
    for (script, argument, line, source) in [
        (script, "", "<string>:3", None),
        (&typed, "", "cell 7 line 3", None),
        (
            &kernel,
            "other.ipynb",
            "notebook cell 922341601 line 3",
            None,
        ),
        (
            &kernel,
            &notebook,
            "fit.ipynb code cell 2 line 3",
            Some(source),
        ),
    ] {
        let (_, trace) = trace(&[], &["python3", "-c", script, argument]);
        let init = trace
            .events
            .iter()
            .find(|event| matches!(event.what, EventKind::Init { .. }))
            .expect("an init");
        let users = init
            .stack
            .user_frame()
            .map(|frame| (frame.function.as_str(), frame.line()));
        assert_eq!(
            users,
            Some(("work", Some(line.to_string()))),
            "{:?}",
            init.stack
        );
        assert_eq!(init.stack.source.as_deref(), source);
    }
}

#[test]
fn a_write_that_is_not_intercepted_is_found_at_the_end() {
    let script = script("unseen_write.py");
    let (ran, _) = trace(&["--forbid", "late-mask"], &["python3", &script]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn without_a_preload_writes_are_not_seen_and_that_is_said() {
    let (ran, trace) = trace(&["--no-preload"], &["python3", &script("late_mask.py")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        !trace
            .events
            .iter()
            .any(|event| matches!(event.what, EventKind::Variable { .. }))
    );
    assert!(
        trace
            .events
            .iter()
            .any(|event| matches!(event.what, EventKind::Context { .. }))
    );
    assert!(
        trace
            .start
            .limits
            .iter()
            .any(|limit| limit.contains("--no-preload")),
        "{:?}",
        trace.start.limits
    );
}

#[test]
fn counts_are_those_of_the_calls_that_were_made() {
    let node = Node::new("h200-x2");
    let (_, trace) = trace(&[], &[&text(node.program("launch_loop.c")), "1000"]);
    let [counts] = trace.counts.as_slice() else {
        panic!("{:?}", trace.counts)
    };
    let launches = counts.calls["cuLaunchKernel"].calls;
    // Calls that bypass the tracer's library are not counted.
    assert!((1000..=1001).contains(&launches), "{counts:?}");
    assert_eq!(
        counts.gpus.values().map(|uses| uses.launches).sum::<u64>(),
        launches
    );
}

#[test]
fn exit_code_output_and_input_are_the_programs_own() {
    let scratch = Scratch::new();
    let mut command = tracing(
        &scratch,
        &[],
        &["sh", "-c", "cat; echo out; echo err >&2; exit 42"],
    );
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    use std::io::Write;
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"in\n")
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(output.stdout, b"in\nout\n");
    assert!(
        output.stderr.starts_with(b"err\n"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_signal_ends_the_tracer_as_it_ended_the_program() {
    let scratch = Scratch::new();
    let status = tracing(&scratch, &[], &["sh", "-c", "kill -USR1 $$"])
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    assert_eq!(status.signal(), Some(libc::SIGUSR1));
}

#[test]
fn a_command_that_is_not_there_ends_as_in_a_shell() {
    let scratch = Scratch::new();
    let absent = scratch.at("absent.py");
    let ran = run(&scratch, &[], &[&absent]);
    assert_eq!(ran.code, Some(127), "{ran:?}");
    assert!(ran.stderr.contains(&absent), "{ran:?}");
    assert!(ran.stderr.contains("`python FILE`"), "{ran:?}");
    let left = fs::read_dir(scratch.path().join("traces")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "an empty trace was left behind");
}

#[test]
fn traced_worker_makes_exactly_the_listed_calls() {
    [&["--all-calls"][..], &["--all-calls", "--memory"]]
        .into_iter()
        .for_each(worker_makes_the_listed_calls);
}

fn worker_makes_the_listed_calls(options: &[&str]) {
    let scratch = Scratch::new();
    let names = [
        "visibility/mask-after-cuinit",
        "visibility/unset-before-cuinit",
        "context/second-context-costs-again",
        "context/retain-is-counted",
        "memory/vmm-is-taken-at-create",
        "device/pop-too-often",
    ];
    let reports = text(scratch.reports());
    let command = [
        &[PROGRAM, "run", "--on", "cuda", "--quick", "--out", &reports][..],
        &names,
    ]
    .concat();
    let ran = run(&scratch, options, &command);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = scratch
        .stored()
        .unwrap_or_else(|| panic!("no report: {ran:?}"));
    assert!(
        report
            .run
            .warnings
            .iter()
            .any(|warning| warning.contains("traced")),
        "{:?}",
        report.run.warnings
    );
    let trace = stored(&scratch);
    for scenario in &report.scenarios {
        assert_eq!(
            scenario.verdict.kind.name(),
            "reproduced",
            "{}",
            scenario.name
        );
    }
    let compared = counts::compare(&report, &trace);
    assert!(
        compared.wrong.is_empty() && compared.counts > 50,
        "{compared:?}"
    );
}

#[test]
fn questions_of_a_program_are_counted_only_where_all_calls_are() {
    let ask = "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\nflags, active = ctypes.c_uint(), \
               ctypes.c_int()\nassert cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0";
    for (options, asked) in [(&[][..], None), (&["--all-calls"][..], Some(1))] {
        let (ran, trace) = trace(options, &["python3", "-c", ask]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(trace.start.all_calls, asked.is_some());
        let counts = &trace.counts.first().expect("counts").calls;
        assert_eq!(
            counts.get("cuDevicePrimaryCtxGetState").map(|it| it.calls),
            asked,
            "{counts:?}"
        );
        assert_eq!(counts.get("cuInit").map(|it| it.calls), Some(1));
    }
}

/// Waits for a file.
fn appears(path: &Path) {
    common::eventually(&path.to_string_lossy(), LONGEST, || {
        path.exists().then_some(())
    });
}

/// Returns a traced program that has called `cuInit`, runs `rest` once the first of the files exists, and then creates
/// the second.
fn under_way(scratch: &Scratch, [go, done]: &[PathBuf; 2], rest: &str) -> std::process::Child {
    let begun = scratch.path().join("begun");
    let script = format!(
        "import ctypes, os, time\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\nopen({begun:?}, 'w').close()\n\
         while not os.path.exists({go:?}): time.sleep(0.01)\n{rest}\nopen({done:?}, 'w').close()\n"
    );
    let child = tracing(scratch, &["--memory"], &["python3", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    appears(&begun);
    child
}

/// Creates a context, and allocates and frees memory at two lines.
const TAKES: &str = "context, memory = ctypes.c_void_p(), ctypes.c_uint64()\n\
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\ncuda.cuCtxSetCurrent(context)\n\
    for size in range(1, 100):\n    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size << 20)) == 0\n    \
    assert cuda.cuMemFree_v2(memory) == 0\n";

#[test]
fn program_survives_killed_tracer_with_readable_trace() {
    let scratch = Scratch::new();
    let files = ["gone", "done"].map(|name| scratch.path().join(name));
    let mut child = under_way(
        &scratch,
        &files,
        &format!("{TAKES}os.environ['CUDA_VISIBLE_DEVICES'] = '1'"),
    );
    child.kill().expect("it is killed");
    child.wait().expect("it has ended");
    fs::write(&files[0], "").expect("a file of our own");
    // A tracer that is lost does not hold the program.
    appears(&files[1]);
    let trace = stored(&scratch);
    assert!(trace.end.is_none());
    assert!(
        trace
            .events
            .iter()
            .any(|event| matches!(event.what, EventKind::Init { .. })),
        "{:?}",
        trace.events
    );
}

#[test]
fn a_tracer_that_is_stopped_does_not_hold_the_program() {
    let scratch = Scratch::new();
    let files = ["stopped", "done"].map(|name| scratch.path().join(name));
    let rest = format!("{TAKES}for n in range(20): os.environ['CUDA_VISIBLE_DEVICES'] = str(n)");
    let mut child = under_way(&scratch, &files, &rest);
    let pid = Pid::from_raw(child.id() as i32).expect("a PID");
    kill_process(pid, Signal::STOP).expect("it is stopped");
    fs::write(&files[0], "").expect("a file of our own");
    // The file would not appear if each event waited for the tracer to continue.
    appears(&files[1]);
    kill_process(pid, Signal::CONT).expect("it goes on");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// Traces a program to a disk that has no room for its trace; none if no such disk can be simulated. The document and
/// what was printed are copied to the scratch folder.
fn on_a_full_disk(
    scratch: &Scratch,
    options: &[&str],
    program: &str,
    arguments: &[&str],
) -> Option<Ran> {
    if !attacks::is_root("make a small disk") {
        return None;
    }
    let (disk, copy) = (scratch.path().join("disk"), scratch.path().join("traces"));
    fs::create_dir(&disk).expect("a folder");
    let line = format!(
        "mount -t tmpfs -o size=16k none {0} || exit 99\n{PROGRAM} trace --on sim:h200-x2 --out {0} {2} -- \"$@\"\ncode=$?\n\
         cp -r {0} {1}\nexit $code",
        disk.display(),
        copy.display(),
        options.join(" "),
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &line, "sh", program])
        .args(arguments)
        .env("TMPDIR", scratch.path());
    let ran = scratch.start(command).wait(LONGEST);
    if ran.code == Some(99) || ran.stderr.contains("unshare failed") {
        eprintln!("NOT TESTED: no disk can be mounted here: {}", ran.stderr);
        return None;
    }
    Some(ran)
}

#[test]
fn a_full_disk_is_reported_and_the_program_ends_as_it_would() {
    for (options, code) in [(&[][..], 5), (&["--forbid", "cuinit"][..], 74)] {
        let scratch = Scratch::new();
        let done = scratch.path().join("done");
        let script = format!(
            "import os, sys\ndef write(depth):\n    if depth: return write(depth - 1)\n    for n in range(20):\n        \
             os.environ['CUDA_VISIBLE_DEVICES'] = str(n)\nwrite(150)\nopen({done:?}, 'w').close()\nsys.exit(5)\n"
        );
        let Some(ran) = on_a_full_disk(&scratch, options, "python3", &["-c", &script]) else {
            return;
        };
        assert!(
            done.exists(),
            "the program did not come to its end: {ran:?}"
        );
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(
            ran.stderr.contains("the trace is incomplete on disk"),
            "{}",
            ran.stderr
        );
        let trace = stored(&scratch);
        assert!(trace.end.is_none() && !trace.events.is_empty());
    }
}

#[test]
fn early_root_drop_passes_no_memory_policy() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: only root can change its user");
        return;
    }
    let code = "import ctypes, os\nos.setgid(65534)\nos.setuid(65534)\ncuda, context = ctypes.CDLL('libcuda.so.1'), \
                ctypes.c_void_p()\nraise SystemExit(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))";
    let cases: [(&[&str], i32, &str); 2] = [
        (&["--forbid", "context"], 1, "a context"),
        (
            &["--max-bytes", "gpu0=100MiB"],
            3,
            "as a user without write access to the",
        ),
    ];
    for (policy, exit, says) in cases {
        let scratch = Scratch::new();
        let ran = run(&scratch, policy, &["python3", "-c", code]);
        assert_eq!(ran.code, Some(exit), "{policy:?}: {ran:#?}");
        assert!(
            ran.stderr.contains(says) || ran.stdout.contains(says),
            "{policy:?}: {ran:#?}"
        );
    }
}

#[test]
fn get_proc_address_resolves_names_by_version() {
    let code = "import ctypes\ncuda, found, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_void_p()\n\
        def look(name, version):\n    found.value = None\n    said = ctypes.c_int(-1)\n    status = \
        cuda.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_uint64(0), ctypes.byref(said))\n    \
        return ctypes.CFUNCTYPE(ctypes.c_int)(found.value) if found.value else (status, said.value)\n\
        cuda.cuInit(0)\nat, device = ctypes.byref(context), ctypes.c_int(-1)\n\
        print(look(b'cuCtxCreate', 11040)(at, None, 0, 0, 1), context.value)\n\
        print(look(b'cuCtxCreate', 12050)(at, None, 0, 1), context.value is not None)\n\
        print(look(b'cuCtxGetDevice', 13000)(ctypes.byref(device), context), device.value)\n\
        print(look(b'cuCtxSynchronize', 13000)(None), look(b'cuStreamGetCtx', 13000)(None, at, at))\n\
        print(look(b'cuCtxCreate_v2', 13000), look(b'cuInit', 14000))";
    let scratch = Scratch::new();
    let ran = scratch.run(&["sim", "--gpus", "2", "--", "python3", "-c", code]);
    let expected = "60000 None\n0 True\n0 1\n0 60000\n(0, 1) (1, -1)\n";
    assert_eq!(
        (ran.stdout.as_str(), ran.code),
        (expected, Some(3)),
        "{ran:#?}"
    );
}
