//! `survey python` on the simulated machine, with a framework made up for these tests (`tests/surveyed`).

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use cuda_pitfalls::report::Stored;
use cuda_pitfalls::survey::errors::ErrorRow;
use cuda_pitfalls::survey::python::PythonRow;
use cuda_pitfalls::survey::{KindRow, SurveyDocument, SurveyKind, SurveyRow};
use cuda_pitfalls::verdict::Reason;
use rustix::process::Signal;

use common::{Ran, Scratch, against_schema, eventually, root};

/// The version of the framework of these tests.
const VERSION: &str = "2.5.1";

/// Returns a survey of the rows of these tests, not yet started. `--out` is this directory's own.
fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let out = scratch.at("reports");
    let mut all = vec!["survey", "python", "--allow", "code"];
    if !arguments.contains(&"--rows") {
        all.extend(["--rows", "tests/surveyed/rows.toml"]);
    }
    if !arguments.contains(&"--on") {
        all.extend(["--on", "sim:h200-x2"]);
    }
    all.extend(arguments);
    if !arguments.contains(&"--resume") {
        all.extend(["--out", &out]);
    }
    let mut command = scratch.command(&all);
    // A relative path: rows run in other folders.
    command.env("PYTHONPATH", "tests/surveyed/site-packages");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("FRAMEWORK_STATE", scratch.path().join("state"));
    command
}

fn survey(scratch: &Scratch, arguments: &[&str]) -> Ran {
    scratch.ran(command(scratch, arguments))
}

fn stored(scratch: &Scratch) -> Option<SurveyDocument> {
    let file = scratch.folder()?.join(SurveyKind::Python.file());
    SurveyDocument::from_stored(&Stored::open(&file).ok()?)?.ok()
}

fn rows(scratch: &Scratch) -> BTreeMap<String, PythonRow> {
    let document = stored(scratch).expect("a survey was written");
    document
        .rows_of::<PythonRow>()
        .into_iter()
        .map(|row| (row.id.clone(), row))
        .collect()
}

#[test]
fn each_line_is_told_by_what_it_does() {
    let scratch = Scratch::new();
    // Rows that raise too early, crash or leave are not answered.
    let document = survey(&scratch, &["--jobs", "2", "--json"])
        .ended(3, "inconclusive")
        .json();
    assert_eq!(against_schema("survey", &document), Vec::<String>::new());
    assert_eq!(
        (
            document["provenance"].as_str(),
            document["complete"].as_bool()
        ),
        (Some("simulated"), Some(true))
    );
    assert_eq!(
        document["machine"]["python"]["packages"]["framework"],
        VERSION
    );
    assert_eq!(document["left_out"][0]["name"], "framework.slow");
    let rows = rows(&scratch);
    let row = |id: &str| rows.get(id).unwrap_or_else(|| panic!("no row {id}"));
    let init = |id: &str| {
        let row = &row(id).facts;
        (
            row.initialised_before,
            row.calls_cuinit,
            row.reads_mask,
            row.mask.as_deref(),
        )
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(init("import framework"), (no, no, no, None));
    assert_eq!(init("import framework.eager"), (no, yes, yes, None));
    assert_eq!(init("framework.device_count"), (no, yes, yes, None));
    assert_eq!(
        init("framework.device_count, masked"),
        (no, yes, yes, Some("1"))
    );
    assert_eq!(
        init("framework.is_available, no GPU visible"),
        (no, yes, yes, Some(""))
    );
    assert_eq!(
        init("framework.device_count, eager"),
        (yes, None, None, None)
    );
    assert_eq!(init("framework.in_a_thread"), (no, yes, yes, None));
    assert_eq!(init("def"), (no, no, no, None));

    // The places in the framework are lines of its file.
    let source =
        fs::read_to_string(root().join("tests/surveyed/site-packages/framework/__init__.py"))
            .expect("text");
    let line = |text: &str| {
        source
            .lines()
            .position(|line| line.contains(text))
            .expect("a line")
            + 1
    };
    let place =
        |text: &str, name: &str| Some(format!("framework/__init__.py:{} {name}", line(text)));
    let counts = place("cuDeviceGetCount", "device_count");
    for id in [
        "framework.device_count",
        "import framework.eager",
        "framework.in_a_thread",
    ] {
        assert_eq!(row(id).facts.at, counts, "{id}");
    }
    let eager = row("import framework.eager");
    assert!(
        eager.facts.way[0].starts_with("framework/eager.py:4"),
        "{eager:?}"
    );
    assert_eq!(
        row("framework.zeros").facts.at,
        place("return Array(size", "zeros")
    );

    // Contexts of the line, but not of the lines before it.
    let zeros = &row("framework.zeros").facts;
    assert_eq!(
        (zeros.context_before.as_deref(), zeros.context_on.as_deref()),
        (Some(&[][..]), Some(&[1][..]))
    );
    let used = zeros
        .device_used_bytes
        .clone()
        .expect("an attempt ran alone");
    assert!(used[0] < 16 << 20 && used[1] > (400 + 64) << 20, "{used:?}");
    assert_eq!(
        row("framework.zeros")
            .seen
            .iter()
            .map(|seen| seen.alone)
            .collect::<Vec<_>>(),
        [false, false, true]
    );
    let every = &row("framework.on_every_gpu, eager").facts;
    assert_eq!(
        (every.context_before.as_deref(), every.context_on.as_deref()),
        (Some(&[0][..]), Some(&[1][..]))
    );
    // Unknown if the GPU was not read between the context of the lines before and the line.
    if let Some(used) = &every.device_used_bytes {
        assert!(
            used[0] == 0 && used[1] > 400 << 20,
            "what was there before is not the line's: {used:?}"
        );
    }
    assert!(
        row("framework.device_count")
            .facts
            .context_on
            .as_ref()
            .is_some_and(Vec::is_empty)
    );

    // Values, exceptions, children.
    assert_eq!(
        row("framework.device_count, masked").facts.value.as_deref(),
        Some("1")
    );
    assert_eq!(
        row("framework.zeros").facts.value.as_deref(),
        Some("framework.Array"),
        "an array is never written"
    );
    assert_eq!(
        row("def").facts.value.as_deref(),
        Some("42"),
        "code has its source, and may use any name"
    );
    let raised = |id: &str| {
        row(id)
            .facts
            .raised
            .clone()
            .map(|raised| format!("{}: {}", raised.kind, raised.message))
    };
    assert_eq!(
        raised("framework.device_count, no GPU visible").as_deref(),
        Some("RuntimeError: cuInit returned 100")
    );
    assert_eq!(raised("raises").as_deref(), Some("ValueError: first"));
    assert!(row("raises").is_conclusive() && raised("def").is_none());
    let spawned = &row("framework.child_of_multiprocessing, spawn").facts;
    assert_eq!(
        (
            spawned.in_child,
            spawned.value.as_deref(),
            spawned.at.clone()
        ),
        (yes, Some("0"), counts)
    );

    // Lines that could not run.
    let why = |id: &str| {
        let why = row(id)
            .standing
            .unmeasured
            .clone()
            .unwrap_or_else(|| panic!("{id} was measured"));
        (why.reason.name(), why.detail)
    };
    let (reason, detail) = why("not there");
    assert!(
        reason == "no_package"
            && detail.starts_with("`no-such-package-here` is not installed for "),
        "{detail}"
    );
    let outside = "framework 2.5.1 is outside `framework >= 3`".to_string();
    assert_eq!(why("too old"), ("no_package".to_string(), outside));
    assert_eq!(why("setup lacks a module").0, "no_package");
    assert_eq!(
        why("setup raises"),
        (
            "setup_raised".to_string(),
            "ZeroDivisionError: division by zero".to_string()
        )
    );
    assert_eq!(
        why("exits"),
        (
            "exited_early".to_string(),
            "it exited in the measured line (exit code 3)".to_string()
        )
    );
    assert_eq!(why("crashes").0, "crashed");
    assert_eq!(why("too few GPUs").0, "too_few_gpus");
    let controls: Vec<&PythonRow> = rows
        .values()
        .filter(|row| row.framework == "instrument")
        .collect();
    assert!(
        controls.len() == 3 && controls.iter().all(|row| row.as_expected == Some(true)),
        "{controls:#?}"
    );
    scratch.assert_no_process_left();
}

#[test]
fn hanging_row_is_killed_and_survey_continues() {
    let scratch = Scratch::new();
    let list = scratch.path().join("rows.toml");
    let row = |id: &str, ask: &str, more: &str| {
        let needs =
            "framework = \"framework\"\nneeds = [\"framework\"]\nbefore = [\"import framework\"]";
        format!("[[row]]\nid = \"{id}\"\n{needs}\nask = \"framework.{ask}\"\n{more}\n")
    };
    let text = [
        row("hangs", "hang()", ""),
        row("counts", "device_count()", ""),
        row("differs", "now_and_then()", ""),
    ];
    fs::write(&list, text.concat()).expect("a file of our own");
    let list = list.to_string_lossy().into_owned();
    survey(
        &scratch,
        &["--rows", &list, "--timeout", "10s", "--jobs", "3"],
    )
    .ended(3, "inconclusive");
    scratch.assert_no_process_left();
    let rows = rows(&scratch);
    let hangs = rows["hangs"].standing.clone();
    let why = hangs.unmeasured.expect("nothing is known of it");
    assert_eq!(
        why.detail,
        "the measured line did not end within 10 s, and it was killed"
    );
    assert_eq!(
        hangs.invalid,
        [("hang".to_string(), 1)].into(),
        "it is not asked again"
    );
    assert_eq!(rows["counts"].facts.reads_mask, Some(true));
    // Each fact on which attempts disagree is named, and is null.
    assert!(
        rows["differs"]
            .standing
            .disagreement
            .contains(&"reads_mask".to_string()),
        "{:?}",
        rows["differs"]
    );
    assert_eq!(
        (
            rows["differs"].facts.reads_mask,
            rows["differs"].standing.attempts
        ),
        (None, 3)
    );
}

#[test]
fn rows_see_the_gpus_that_may_be_used() {
    let scratch = Scratch::new();
    survey(&scratch, &["plain", "def", "--quick"]);
    let uuid = stored(&scratch).expect("a survey").machine.gpus[1]
        .uuid
        .clone();
    fs::remove_dir_all(scratch.reports()).expect("it is our own");
    let chosen = [
        "framework.device_count*",
        "framework.on_every_gpu, eager",
        "framework.zeros",
        "--quick",
    ];
    // A mask that lists a GPU twice would hide all.
    let twice = format!("{uuid},{uuid}");
    survey(&scratch, &[&chosen[..], &["--gpus", &twice]].concat()).ended(3, "inconclusive");
    let rows = rows(&scratch);
    let row = &rows["framework.device_count"].facts;
    assert_eq!(
        (row.mask.as_deref(), row.value.as_deref()),
        (Some(uuid.as_str()), Some("1"))
    );
    // GPUs are named by their indices on the machine.
    assert_eq!(
        rows["framework.on_every_gpu, eager"].facts.context_before,
        Some(vec![1])
    );
    let why = |id: &str| {
        rows[id]
            .standing
            .unmeasured
            .clone()
            .map(|why| why.reason.name())
    };
    assert_eq!(
        why("framework.device_count, masked").as_deref(),
        Some("restricted")
    );
    assert_eq!(why("framework.zeros").as_deref(), Some("too_few_gpus"));
    let control = &rows["instrument: a context on the last GPU"];
    assert_eq!(
        (control.facts.context_on.as_deref(), control.as_expected),
        (Some(&[1][..]), Some(true))
    );
}

#[test]
fn a_survey_that_was_stopped_goes_on_with_the_rest() {
    let scratch = Scratch::new();
    let chosen = ["framework", "!framework.child*", "--jobs", "1", "--quick"];
    // The survey is killed, resumed, stopped by Ctrl-C, and resumed again.
    let (mut before, mut place) = (Vec::new(), String::new());
    for (signal, code) in [(Signal::KILL, None), (Signal::INT, Some(130))] {
        let resumed: &[&str] = if place.is_empty() {
            &[]
        } else {
            &["--resume", &place]
        };
        let running = scratch.start(command(&scratch, &[&chosen[..], resumed].concat()));
        let most = before.len() + 1;
        let count = || stored(&scratch).filter(|document| document.rows.len() > most);
        eventually("some rows more are on disk", Duration::from_secs(60), count);
        running.signal(signal);
        assert_eq!(running.wait(Duration::from_secs(20)).code, code);
        eventually("processes of rows end", Duration::from_secs(20), || {
            scratch.processes().is_empty().then_some(())
        });
        let stopped = stored(&scratch).expect("a whole document is on disk");
        assert!(!stopped.complete && is_kept(&before, &stopped.rows));
        before = stopped.rows;
        place = scratch
            .folder()
            .expect("a folder")
            .to_string_lossy()
            .into_owned();
    }
    survey(
        &scratch,
        &["framework", "--jobs", "1", "--quick", "--resume", &place],
    )
    .ended(2, "usage")
    .says("other selectors");
    survey(&scratch, &[&chosen[..], &["--resume", &place]].concat()).ended(0, "ok");
    let after = stored(&scratch).expect("a document");
    assert!(
        after.complete && after.header.resumed == 2 && after.rows.len() > before.len(),
        "{:?}",
        after.header
    );
    assert!(is_kept(&before, &after.rows), "a row was asked twice");
}

/// Returns `true` if all rows are still present, except for those of the instrument, which is tried again.
fn is_kept(before: &[SurveyRow], after: &[SurveyRow]) -> bool {
    before
        .iter()
        .filter(|row| !row.is_control)
        .all(|row| after.contains(row))
}

#[test]
fn an_interpreter_with_other_packages_does_not_go_on_with_a_survey() {
    let scratch = Scratch::new();
    survey(&scratch, &["plain", "framework", "--quick"]).ended(3, "inconclusive");
    let place = scratch
        .folder()
        .expect("a folder")
        .to_string_lossy()
        .into_owned();
    let mut other = command(
        &scratch,
        &["plain", "framework", "--quick", "--resume", &place],
    );
    other.env_remove("PYTHONPATH");
    scratch
        .ran(other)
        .ended(2, "usage")
        .says("its packages are not those it was started with");
}

/// PyTorch's way of counting, by NVML and then by libcuda, in the small stand-in of the tests.
#[test]
fn a_line_that_does_not_come_to_the_place_says_nothing() {
    let scratch = Scratch::new();
    let out = scratch.at("reports");
    let mut command = scratch.command(&[
        "survey", "errors", "--on", "sim", "--quick", "--json", "--out", &out,
    ]);
    command.args(["torch, counts", "torch, counts, cuInit 999"]);
    command.env("PYTHONPATH", root().join("tests/surveyed/failing"));
    let ran = scratch.ran(command).ended(0, "ok");
    let rows: Vec<ErrorRow> = serde_json::from_value(ran.json()["rows"].clone()).expect("rows");
    let [.., usual, failed] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!((usual.value.as_deref(), usual.met), (Some("2"), None));
    let seen = (failed.met, failed.effect(&rows));
    assert_eq!(
        seen,
        (Some(false), None),
        "NVML has counted, and libcuda is not asked"
    );
}

/// Returns an interpreter in this scratch directory: a shell script.
fn interpreter(scratch: &Scratch, script: &str) -> String {
    let path = scratch.path().join("python");
    common::script(&path, &format!("#!/bin/sh\n{script}\n"));
    path.to_string_lossy().into_owned()
}

/// Runs the built-in list on the simulated machine.
fn built_in(scratch: &Scratch, change: impl FnOnce(&mut Command)) -> Ran {
    let out = scratch.at("reports");
    let mut command = scratch.command(&[
        "survey", "python", "--on", "sim", "--quick", "--json", "--out", &out,
    ]);
    command.env_remove("PYTHONPATH");
    change(&mut command);
    scratch.ran(command)
}

#[test]
fn without_an_interpreter_rows_say_so_and_nothing_fails() {
    let scratch = Scratch::new();
    let ran = built_in(&scratch, |command| {
        command.env("PATH", scratch.path());
    });
    let document = ran.ended(4, "nothing_measured").json();
    assert_eq!(against_schema("survey", &document), Vec::<String>::new());
    let rows = document["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["unmeasured"]["reason"], "no_python", "{row}");
        assert_eq!(
            row["unmeasured"]["detail"], "no `python3` was found on PATH",
            "{row}"
        );
    }
}

#[test]
fn without_packages_rows_say_which_and_nothing_fails() {
    let scratch = Scratch::new();
    // An interpreter without any installed package.
    let python = interpreter(&scratch, "exec python3 -S \"$@\"");
    let ran = built_in(&scratch, |command| {
        command.env("CUDA_PITFALLS_PYTHON", &python);
    });
    let document = ran.json();
    let rows = document["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["framework"] != "instrument");
    let (missing, measured): (Vec<_>, Vec<_>) =
        rows.partition(|row| row["unmeasured"]["reason"] == "no_package");
    assert!(
        missing.iter().any(|row| row["unmeasured"]["detail"]
            .as_str()
            .is_some_and(|it| it.contains("`torch >= 2.0` is not installed"))),
        "{missing:#?}"
    );
    // The controls alone do not count as an answer.
    let code = if measured.is_empty() { 4 } else { 0 };
    assert_eq!(ran.code, Some(code), "{ran:#?}");
    for row in measured {
        let needs = row["versions"].as_object().expect("versions");
        assert!(
            needs.keys().all(|name| name == "python"),
            "nothing else is installed: {row}"
        );
    }
}

#[test]
fn an_instrument_that_does_not_see_its_controls_asks_nothing() {
    let scratch = Scratch::new();
    // The interpreter leaves the trace: it finds the driver itself, and neither library of the trace.
    let leave =
        "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH#*:}\"; unset LD_PRELOAD CUDA_INJECTION64_PATH";
    let python = interpreter(&scratch, &format!("{leave}; exec python3 \"$@\""));
    survey(&scratch, &["framework", "--python", &python])
        .ended(1, "unexpected")
        .says("the instrument's controls failed")
        .prints("Controls of the instrument that did not hold");
    let rows = rows(&scratch);
    assert!(
        rows.values().all(|row| row.framework == "instrument"),
        "{rows:#?}"
    );
    assert_eq!(rows["instrument: cuInit"].as_expected, Some(false));
    assert_eq!(
        rows["instrument: a line without CUDA"].as_expected,
        Some(true)
    );
}

#[test]
fn a_short_limit_for_rows_is_none_for_the_controls() {
    let scratch = Scratch::new();
    // It starts more slowly than the limit of a row, but within the limit of a control.
    let python = interpreter(&scratch, "sleep 1.2; exec python3 \"$@\"");
    let ran = survey(
        &scratch,
        &["def", "--quick", "--timeout", "1s", "--python", &python],
    )
    .ended(3, "inconclusive");
    assert!(!ran.stderr.contains("controls failed"), "{}", ran.stderr);
    let rows = rows(&scratch);
    let (controls, asked): (Vec<_>, Vec<_>) =
        rows.values().partition(|row| row.framework == "instrument");
    assert!(
        controls.len() == 3 && controls.iter().all(|row| row.as_expected == Some(true)),
        "{controls:#?}"
    );
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].standing.invalid.contains_key(&Reason::Hang.name()),
        "{asked:#?}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let scratch = Scratch::new();
    let [wrong, misspelt] = ["ask", "asks"].map(|key| {
        let file = scratch.path().join(format!("wrong-{key}.toml"));
        let row = format!(
            "[[row]]\nid = \"a\"\nframework = \"b\"\nneeds = [\"torch 2\"]\n{key} = \"pass\"\n"
        );
        fs::write(&file, row).expect("a file");
        file.to_string_lossy().into_owned()
    });
    let rows = "tests/surveyed/rows.toml";
    for (arguments, parts) in [
        (
            &["python", "--rows", rows, "--on", "sim"][..],
            &["--allow code"][..],
        ),
        (
            &["python", "--rows", &wrong, "--allow", "code", "--on", "sim"],
            &["wrong-ask.toml:1:1", "write a package and its versions"],
        ),
        (
            &[
                "python", "--rows", &misspelt, "--allow", "code", "--on", "sim",
            ],
            &[
                "wrong-asks.toml:5:1",
                "unknown field `asks`, expected one of",
                "`ask`",
            ],
        ),
        (
            &[
                "python",
                "framework.divice_count",
                "--rows",
                rows,
                "--allow",
                "code",
                "--on",
                "sim",
            ],
            &["did you mean `framework.device_count`?"],
        ),
        (
            &["calls", "--jobs", "2", "--on", "sim"],
            &["--jobs belongs to `survey python`, `survey errors` and `survey imports`"],
        ),
        (&["calls", "--list"], &["--list belongs to `survey python`"]),
        (&["python", "--timeout", "0s"], &["at least 1s"]),
        (&["python", "--jobs", "0"], &["a number from 1 to 256"]),
    ] {
        let ran = scratch
            .run(&[&["survey"], arguments].concat())
            .ended(2, "usage");
        for part in parts {
            assert!(
                ran.stderr.contains(part),
                "{arguments:?} has no `{part}`: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn rows_are_listed_with_their_code() {
    let scratch = Scratch::new();
    let ran = scratch
        .run(&[
            "survey",
            "python",
            "--list",
            "--rows",
            "tests/surveyed/rows.toml",
        ])
        .good();
    for line in [
        "framework.zeros [framework], GPUs: 2; needs: framework",
        "    import framework",
        "  > framework.zeros(64 << 20, device=1)",
        "    CUDA_VISIBLE_DEVICES=1",
        "    def twice(x):",
        "import framework [framework]; needs: framework >= 2.0, < 3",
    ] {
        assert!(
            ran.stdout.lines().any(|shown| shown == line),
            "no line `{line}`:\n{}",
            ran.stdout
        );
    }
}
