//! Cases of Python lines, on the simulated machine: a small framework of the tests calls the fake driver by
//! ctypes, as real ones call the real driver.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_pitfalls::event::{Event, Value};
use cuda_pitfalls::observation::{Class, StepObservation};
use cuda_pitfalls::report::{Attempt, Report};
use cuda_pitfalls::verdict::{Kind, Reason};

use common::{Ran, Scratch, part, root, script};

const TWO_GPUS: &str = "sim:h200-x2";

/// Returns a scenario of the tests.
fn file(name: &str) -> String {
    format!("tests/python/{name}.toml")
}

/// Returns the framework of the tests in the test's own directory, because an interpreter writes next to the files that
/// it imports.
fn packages(scratch: &Scratch) -> PathBuf {
    let (from, to) = (
        root().join("tests/python/site"),
        scratch.path().join("site"),
    );
    for file in [
        "pitfalls_framework.py",
        "pitfalls_framework-1.2.0.dist-info/METADATA",
        "pitfalls_framework-1.2.0.dist-info/RECORD",
    ] {
        let target = to.join(file);
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder of our own");
        fs::copy(from.join(file), target).expect("a file of the tests");
    }
    to
}

/// Returns the program with the framework of the tests on the search path of packages.
fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    with_packages(scratch, scratch.command(arguments))
}

fn with_packages(scratch: &Scratch, mut command: Command) -> Command {
    command.env("PYTHONPATH", packages(scratch));
    command
}

/// Runs files on the simulated machine, and returns the report.
fn simulate(scratch: &Scratch, names: &[&str], more: &[&str]) -> (Ran, Report) {
    let files: Vec<String> = names.iter().map(|name| file(name)).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let ran = scratch.ran(with_packages(
        scratch,
        scratch.simulating(TWO_GPUS, &files, more),
    ));
    let report =
        serde_json::from_value(ran.json()).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    (ran, report)
}

/// Runs one file, with its Python lines allowed.
fn allowed(name: &str, more: &[&str]) -> Report {
    let scratch = Scratch::new();
    let (_, report) = simulate(&scratch, &[name], &[&["--allow", "code"], more].concat());
    scratch.assert_no_process_left();
    report
}

/// Runs one file, whose effect must occur.
fn reproduced(name: &str, more: &[&str]) -> Report {
    let report = allowed(name, more);
    let verdict = &part(&report, &format!("python/{name}")).verdict;
    assert_eq!(verdict.kind, Kind::Reproduced, "{verdict:?}");
    report
}

fn attempt<'r>(report: &'r Report, name: &str, case: &str) -> &'r Attempt {
    let part = part(report, name);
    let case = part
        .case(case)
        .unwrap_or_else(|| panic!("{name} has no case {case}: {:?}", part.verdict));
    case.attempts
        .first()
        .unwrap_or_else(|| panic!("{name}: no attempt: {:?}", part.verdict))
}

/// Returns the observation after a step.
fn seen<'r>(report: &'r Report, name: &str, case: &str, label: &str) -> &'r StepObservation {
    let part = part(report, name);
    let outcome = part.case(case).and_then(|case| case.outcomes.first());
    let outcome = outcome
        .unwrap_or_else(|| panic!("{name}: no attempt of {case} counts: {:?}", part.verdict));
    outcome
        .observation
        .step(label)
        .unwrap_or_else(|| panic!("{name}: {label} was not reached"))
}

fn status(step: &StepObservation) -> (i64, &str) {
    let status = step.status.as_ref().expect("a status");
    (status.code, status.name.as_deref().unwrap_or_default())
}

fn calls(step: &StepObservation) -> Vec<(&str, u64)> {
    step.calls
        .as_ref()
        .expect("calls were counted")
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_string())
}

#[test]
fn lines_report_value_or_exception_calls_and_contexts() {
    let report = reproduced("lines", &[]);
    let name = "python/lines";
    let step = |label: &str| seen(&report, name, "trap", label);
    assert_eq!(calls(step("import")), []);
    assert_eq!(step("import").initialised, Some(false));
    assert_eq!(step("ask").values["available"], text("True"));
    assert_eq!(calls(step("ask")), [("cuDeviceGetCount", 1), ("cuInit", 1)]);
    assert_eq!(
        (step("ask").initialised, step("ask").contexts.as_deref()),
        (Some(true), Some(&[][..]))
    );
    assert_eq!(step("mask").values["value"], text("1"));
    assert_eq!(calls(step("mask")), []);
    assert_eq!(step("count").values["count"], Value::Int(2));
    let made = [
        ("cuCtxSetCurrent", 1),
        ("cuDevicePrimaryCtxRetain", 1),
        ("cuInit", 1),
        ("cuMemAlloc_v2", 1),
    ];
    assert_eq!(calls(step("zeros")), made);
    assert_eq!(step("zeros").contexts.as_deref().unwrap(), ["gpu0"]);
    assert_eq!(step("zeros").current.as_deref(), Some("gpu0"));
    assert_eq!(step("zeros").memory["gpu0"].class, Some(Class::Context));
    assert!(step("address").values.is_empty() && step("address").varying.contains_key("address"));
    assert_eq!(status(step("raises")), (1, "DriverError"));
    assert_eq!(step("raises").varying["message"], text("first"));
    assert_eq!(status(step("syntax")), (1, "SyntaxError"));
    assert_eq!(step("prints").varying["half"], Value::Float(2.5));
    assert_eq!(
        step("pair").values["pair"],
        text("(None, True, ' at 0x12', <object object>)")
    );
    assert_eq!(status(step("exits")), (1, "SystemExit"));
    let kept = &attempt(&report, name, "trap").recording;
    assert_eq!(kept.stdout_tail, "{\"event\": \"bye\"}\n");
    // As the interpreter prints it, without the worker's own frames.
    assert!(
        kept.stderr_tail
            .contains("  File \"<step 7: raises>\", line 1, in <module>\n"),
        "{}",
        kept.stderr_tail
    );
    assert!(
        kept.stderr_tail.contains("words\n") && !kept.stderr_tail.contains("worker.py"),
        "{}",
        kept.stderr_tail
    );
    // With the mask in time another GPU gets the context.
    let zeros = seen(&report, name, "control", "zeros");
    assert_eq!(
        (
            zeros.visible.as_deref().unwrap(),
            zeros.contexts.as_deref().unwrap()
        ),
        (&["gpu1".into()][..], &["gpu1".into()][..])
    );
    let python = report
        .machine
        .python
        .as_ref()
        .expect("the interpreter is in the report");
    assert_eq!(
        python.packages["pitfalls-framework"].as_deref(),
        Some("1.2.0")
    );
    assert_eq!(
        python.packages["pitfalls_framework"].as_deref(),
        Some("1.2.0")
    );
    assert_eq!(python.packages["no-such-package"], None);
    assert!(
        report
            .machine
            .libraries
            .iter()
            .all(|library| library.simulated),
        "{:?}",
        report.machine.libraries
    );
    let forwarding = |report: &Report| {
        report
            .machine
            .libraries
            .iter()
            .any(|it| it.path.contains("/python/cuda/"))
    };
    assert!(!forwarding(&report));
}

/// Code for Python 3.8 to 3.14 runs on all of these versions that are installed.
#[test]
fn every_python_that_is_here_runs_the_same_lines() {
    let mut found = BTreeMap::new();
    for minor in 8..=14 {
        let name = format!("python3.{minor}");
        let answer = Command::new(&name)
            .args(["-c", "import sys; print(sys.executable)"])
            .output();
        let Ok(answer) = answer
            .as_ref()
            .map(|answer| String::from_utf8_lossy(&answer.stdout))
        else {
            continue;
        };
        if let Some(path) = answer.lines().next().filter(|path| path.starts_with('/')) {
            found.insert(name, path.to_string());
        }
    }
    for (name, path) in found {
        let report = reproduced("lines", &["--python", &path]);
        let version = &report
            .machine
            .python
            .as_ref()
            .expect("an interpreter")
            .version;
        assert!(
            name.ends_with(&version[..version.rfind('.').unwrap()]),
            "{name} is {version}"
        );
        reproduced("processes", &["--python", &path]);
    }
}

#[test]
fn step_threads_and_children_behave_as_in_programs() {
    let report = reproduced("processes", &[]);
    let name = "python/processes";
    let step = |label: &str| seen(&report, name, "trap", label);
    // The current context is the thread's own.
    assert_eq!(step("on-thread").current.as_deref(), Some("gpu1"));
    assert_eq!(step("main").current.as_deref(), Some("gpu0"));
    assert_eq!(calls(step("main")), []);
    // A child counts its own calls from zero.
    assert_eq!(status(step("child")), (1, "DriverError"));
    assert_eq!(calls(step("child")), [("cuInit", 1)]);
    assert_eq!(
        step("grandchild").varying["message"],
        text("cuDeviceGetCount returned 3")
    );
    assert_eq!(step("wait-grandchild").values["code"], Value::Int(0));
    assert_eq!(
        (&step("wait").values["code"], &step("wait").values["signal"]),
        (&Value::Int(0), &Value::Int(0))
    );
    // Children that a line starts: one that inherits the driver, and ones that find the function that an
    // earlier line defined.
    assert_eq!(step("by-fork").values["said"], text("('error', 0)"));
    assert_eq!(step("by-spawn").values["said"], text("(True, 0)"));
    assert_eq!(step("by-forkserver").values["said"], text("(True, 0)"));
    assert_eq!(step("by-subprocess").values["count"], text("2"));
    assert_eq!(step("os-wait").values["code"], Value::Int(0));
    // A child that a line starts is a process of the attempt: its memory is counted as the worker's, and no
    // co-tenant's.
    let bytes = |label: &str| step(label).memory["gpu1"].process_bytes.unwrap_or(0);
    assert!(
        bytes("held") > bytes("main") + (500 << 20),
        "{} {}",
        bytes("held"),
        bytes("main")
    );
    assert_eq!(
        (step("released").values["code"].clone(), bytes("released")),
        (Value::Int(0), bytes("main"))
    );
    let events = &attempt(&report, name, "trap").recording.events;
    let by = |process: Option<&str>| {
        events
            .iter()
            .filter(|said| {
                said.process.as_deref() == process && matches!(said.event, Event::End { .. })
            })
            .count()
    };
    // The child of the step is recognized as such; a child of a line is never read.
    assert_eq!((by(Some("D")), by(Some("C")), by(None)), (1, 3, 19));
    assert_eq!(
        seen(&report, name, "control", "child").values["count"],
        Value::Int(2)
    );
}

#[test]
fn however_a_line_ends_the_process_the_attempt_says_so() {
    let scratch = Scratch::new();
    let names = [
        "exits",
        "killed",
        "hangs",
        "closes-some",
        "closes-all",
        "closes-streams",
        "child-exits",
    ];
    let (ran, report) = simulate(&scratch, &names, &["--allow", "code"]);
    scratch.assert_no_process_left();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    for (name, end, goes_on) in [
        ("exits", "exit 3", false),
        ("killed", "SIGKILL", false),
        ("hangs", "deadline", false),
        ("closes-some", "0", true),
        ("closes-all", "exit 70", false),
        ("closes-streams", "0", true),
        ("child-exits", "0", true),
    ] {
        let name = format!("python/{name}");
        assert_eq!(
            part(&report, &name).verdict.kind,
            Kind::Reproduced,
            "{:?}",
            part(&report, &name).verdict
        );
        let outcome = &part(&report, &name).case("trap").unwrap().outcomes[0];
        assert_eq!(outcome.observation.end, end, "{name}");
        let after = outcome.observation.step("after");
        assert_eq!(
            after.is_some_and(|step| step.values["two"] == Value::Int(2)),
            goes_on,
            "{name}"
        );
    }
    let killed = &attempt(&report, "python/killed", "trap").recording.exit;
    assert_eq!((killed.died_at, killed.sent.len()), (Some(1), 0));
}

#[test]
fn a_line_is_refused_a_file_from_the_step_on() {
    let report = reproduced("refuses", &[]);
    let name = "python/refuses";
    assert_eq!(status(seen(&report, name, "trap", "before")).1, "OK");
    assert_eq!(
        status(seen(&report, name, "trap", "open")).1,
        "PermissionError"
    );
    assert_eq!(status(seen(&report, name, "control", "open")).1, "OK");
    let asked = &attempt(&report, name, "trap").recording.system_calls;
    assert!(
        asked.iter().any(|step| !step.refused.is_empty()),
        "{asked:?}"
    );
}

/// A count of zero must not suggest that nothing was called.
#[test]
fn a_libcuda_that_is_opened_by_its_path_is_not_counted() {
    let report = allowed("by-path", &[]);
    let name = "python/by-path";
    assert_eq!(calls(seen(&report, name, "trap", "before")), []);
    let init = seen(&report, name, "trap", "init");
    assert_eq!(
        (init.initialised, &init.calls, &init.values["status"]),
        (Some(true), &None, &Value::Int(0))
    );
    assert_eq!(
        part(&report, name).verdict.reason,
        Some(Reason::Unobservable),
        "{:?}",
        part(&report, name).verdict
    );
}

#[test]
fn a_framework_may_have_a_libcudart_of_its_own() {
    let report = reproduced("own-runtime", &[]);
    let own = report
        .machine
        .libraries
        .iter()
        .find(|library| library.path.ends_with("/home/libcudart.so.12"));
    let own = own.unwrap_or_else(|| panic!("{:?}", report.machine.libraries));
    assert_eq!((own.name.as_str(), own.simulated), ("libcudart", false));
}

#[test]
fn a_value_of_a_statement_is_a_fault_of_the_file() {
    let scratch = Scratch::new();
    let (ran, report) = simulate(&scratch, &["misuse"], &["--allow", "code"]);
    let verdict = &part(&report, "python/misuse").verdict;
    assert_eq!(
        (verdict.kind, verdict.reason),
        (Kind::HarnessError, Some(Reason::Protocol))
    );
    assert!(
        verdict.detail.contains("line 11 of the file"),
        "{}",
        verdict.detail
    );
    ran.ended(70, "internal");
}

#[test]
fn what_is_not_installed_makes_a_question_not_applicable() {
    let scratch = Scratch::new();
    let (ran, report) = simulate(&scratch, &["needs", "too-old"], &["--allow", "code"]);
    ran.ended(5, "skipped");
    let verdict = |name: &str| {
        let part = part(&report, name);
        assert_eq!(
            (part.verdict.kind, part.verdict.reason),
            (Kind::Skipped, Some(Reason::NoPackage))
        );
        (
            part.verdict.detail.clone(),
            part.lacks.clone().unwrap_or_default(),
        )
    };
    let (detail, lacks) = verdict("python/needs");
    assert!(
        detail.contains("`no-such-package >= 2.0` is not installed for "),
        "{detail}"
    );
    assert_eq!(lacks, "no-such-package >= 2.0");
    let (detail, _) = verdict("python/too-old");
    assert!(
        detail.ends_with("pitfalls-framework 1.2.0 is outside `pitfalls-framework >= 2.0`"),
        "{detail}"
    );
}

#[test]
fn code_that_did_not_come_with_the_program_is_allowed_by_name() {
    let scratch = Scratch::new();
    let (ran, report) = simulate(&scratch, &["lines"], &[]);
    ran.ended(5, "skipped");
    let verdict = &part(&report, "python/lines").verdict;
    assert_eq!(verdict.reason, Some(Reason::HazardNotAllowed));
    assert!(
        verdict.detail.contains("`--allow code`"),
        "{}",
        verdict.detail
    );
    // A built-in scenario needs no permission, even by its path.
    let ran = scratch.run(&[
        "run",
        "--dry-run",
        "--on",
        TWO_GPUS,
        "scenarios/framework/torch-is-available-then-mask.toml",
    ]);
    assert!(!ran.stdout.contains("--allow"), "{}", ran.stdout);
}

#[test]
fn the_lines_are_shown_before_they_are_run() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["show", &file("lines")]);
    for line in [
        "import pitfalls_framework as framework  # [import]",
        "    return framework.zeros(device, size)",
        "needs       pitfalls-framework >= 1.2, < 2, no-such",
    ] {
        assert!(
            ran.stdout.contains(line),
            "`{line}` is not in\n{}",
            ran.stdout
        );
    }
    let path = file("lines");
    let dry = [
        "run",
        path.as_str(),
        "--on",
        TWO_GPUS,
        "--allow",
        "code",
        "--dry-run",
    ];
    scratch
        .ran(command(&scratch, &dry))
        .prints("    framework.is_available()  # [ask]\n")
        .prints("    os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"1\"\n");
    assert!(!scratch.reports().exists());
}

#[test]
fn every_form_of_a_report_shows_the_lines_and_their_calls() {
    let scratch = Scratch::new();
    let _ = simulate(&scratch, &["lines", "misuse"], &["--allow", "code"]);
    let folder = scratch.folder().unwrap();
    let form = |form: &str| {
        scratch
            .run(&["render", folder.to_str().unwrap(), "--as", form])
            .stdout
    };
    let full = form("text-full");
    let part = "        framework.is_available()  # [ask]\n        #   available = True\n        #   driver calls: cuInit, 1 query\n";
    assert!(full.contains(part), "{full}");
    assert!(
        full.contains(
            "        def allocate(device):\n            return framework.zeros(device, size)\n"
        ),
        "{full}"
    );
    let html = form("html");
    assert!(html.contains(
        "<code>framework.is_available()</code><br><span class=\"dim\">driver calls: cuInit, 1 query</span>"
    ));
    assert!(html.contains("def allocate(device):\n    return framework.zeros(device, size)\n"));
    assert!(html.contains("pitfalls-framework 1.2.0"));
    let markdown = form("markdown");
    assert!(
        markdown.contains("```python\nvalue = 1  # [value]\n"),
        "{markdown}"
    );
    assert!(form("text").contains("pitfalls-framework 1.2.0"));
}

/// Returns a directory with a program of this text under a name.
fn fake(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let folder = scratch.path().join(format!("bin-{name}"));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    script(&path, text);
    path
}

/// Runs a file with this environment.
fn with(scratch: &Scratch, name: &str, more: &[&str], environment: &[(&str, &Path)]) -> Ran {
    let path = file(name);
    let out = scratch.reports();
    let arguments = [
        "run",
        path.as_str(),
        "--on",
        TWO_GPUS,
        "--allow",
        "code",
        "--out",
        out.to_str().unwrap(),
    ];
    let mut command = command(scratch, &[&arguments, more].concat());
    for (name, value) in environment {
        command.env(name, value);
    }
    scratch.ran(command)
}

#[test]
fn an_interpreter_that_is_none_is_an_error_where_it_was_named() {
    let scratch = Scratch::new();
    with(&scratch, "lines", &["--python", "/bin/true"], &[])
        .ended(2, "usage")
        .says("--python: `/bin/true`: not a Python interpreter that can run lines");
    let absent = scratch.path().join("absent").to_string_lossy().into_owned();
    with(&scratch, "lines", &["--python", &absent], &[])
        .ended(2, "usage")
        .says(&format!("--python: `{absent}`: there is no such program"));
    let says = fake(
        &scratch,
        "says",
        "#!/bin/sh\necho 'I am no snake' >&2\nexit 3\n",
    );
    with(&scratch, "lines", &[], &[("CUDA_PITFALLS_PYTHON", &says)])
        .ended(2, "usage")
        .says("CUDA_PITFALLS_PYTHON: `")
        .says("I am no snake");
    scratch.assert_no_process_left();
}

#[test]
fn first_python3_on_path_is_used() {
    let scratch = Scratch::new();
    let nothing = scratch.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    with(&scratch, "lines", &[], &[("PATH", &nothing)]).ended(5, "skipped");
    let report = scratch.stored().expect("a report");
    let verdict = &part(&report, "python/lines").verdict;
    assert_eq!(verdict.reason, Some(Reason::NoPython));
    assert!(
        verdict.detail.contains("no `python3` was found on PATH"),
        "{}",
        verdict.detail
    );
    // A script in place of an interpreter, as version managers install them, is run to get the
    // interpreter's path.
    let real = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    let real = String::from_utf8_lossy(&real.stdout).trim().to_string();
    let shim = fake(
        &scratch,
        "python3",
        &format!("#!/bin/sh\nexec {real} \"$@\"\n"),
    );
    let other = Scratch::new();
    with(&other, "lines", &[], &[("PATH", shim.parent().unwrap())]).good();
    let report = other.stored().expect("a report");
    assert_eq!(report.machine.python.unwrap().executable, real);
}

/// The trace's own library counts then, and the trace sees the lines.
#[test]
fn lines_can_be_traced_while_they_are_run() {
    let scratch = Scratch::new();
    let (path, out, traces) = (
        file("lines"),
        scratch.reports(),
        scratch.path().join("traces"),
    );
    let run = [
        common::PROGRAM,
        "run",
        path.as_str(),
        "--on",
        TWO_GPUS,
        "--allow",
        "code",
        "--out",
        out.to_str().unwrap(),
    ];
    let trace = [
        "trace",
        "--on",
        TWO_GPUS,
        "--out",
        traces.to_str().unwrap(),
        "--",
    ];
    let command = command(&scratch, &[&trace[..], &run[..]].concat());
    let ran = scratch.ran(command).good();
    let report = scratch.stored().expect("a report");
    let ask = seen(&report, "python/lines", "trap", "ask");
    assert_eq!(calls(ask), [("cuDeviceGetCount", 1), ("cuInit", 1)]);
    let trace = fs::read_dir(&traces)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path()
        .join("trace.ndjson");
    let trace = fs::read_to_string(trace).unwrap();
    assert!(
        trace.contains("pitfalls_framework.py") && trace.contains(": ask>"),
        "{ran:#?}"
    );
}

/// A scenario without Python lines starts no interpreter.
#[test]
fn who_asks_for_no_python_gets_none() {
    let scratch = Scratch::new();
    let trap = fake(&scratch, "python3", "#!/bin/sh\ntouch \"$0.started\"\n");
    let mut command = scratch.command(&[
        "run",
        "visibility/empty-mask-hides-all",
        "--on",
        TWO_GPUS,
        "--quick",
        "--out",
    ]);
    command
        .arg(scratch.reports())
        .env("CUDA_PITFALLS_PYTHON", &trap)
        .env("PATH", trap.parent().unwrap());
    scratch.ran(command).good();
    assert!(!trap.with_extension("started").exists());
    assert!(scratch.stored().expect("a report").machine.python.is_none());
}
