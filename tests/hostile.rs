//! Files from untrusted sources: nothing in them, and nothing in their names, reaches a terminal except as text, and
//! none of them keeps the program waiting.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuzz::forms::acts;
use common::{Ran, Scratch};
use rustix::fs::{CWD, Mode};

/// Sequences that a terminal obeys: a color, a title, a C1 control, DEL, and changes of writing direction.
const EVIL: &str = "\x1b[31m\x1b]0;owned\x07\u{9b}2J\x7f\u{202e}\u{2066}\r\u{8}";

/// The same sequences, as written in a TOML string.
const IN_TOML: &str = r"\u001B[31m\u001B]0;owned\u0007\u009B2J\u007F\u202E\u2066\r\b";

fn scenario(belief: &str) -> String {
    format!(
        r#"# A comment cannot hold every character, but it can hold {c1} and {bidi}.
question = "Is it {IN_TOML} so?"
belief = "{belief}"
answer = "An answer {IN_TOML}"
workaround = "A workaround {IN_TOML}"
tags = ["A01"]
sources = ["https://example.org/{IN_TOML}"]
no_control = "No control {IN_TOML}"
effect = [ {{ exit = 0, because = "because {IN_TOML}", evidence = "{IN_TOML}" }} ]
[parameters]
q = ["{IN_TOML}", "b"]
[cases.trap]
does = "it does {IN_TOML}"
env = {{ CUDA_MODULE_LOADING = "{IN_TOML}" }}
steps = [ {{ setenv = {{ name = "CUDA_VISIBLE_DEVICES", value = "${{q}}{IN_TOML}" }} }} ]
"#,
        c1 = '\u{9b}',
        bidi = '\u{202e}',
    )
}

/// Returns a scenario file whose name is as hostile as its text.
fn file(scratch: &Scratch, text: &str) -> String {
    let folder = scratch.path().join(format!("folder{EVIL}"));
    fs::create_dir_all(&folder).expect("any name is a name");
    let path = folder.join(format!("file{EVIL}.toml"));
    fs::write(&path, text).expect("the file can be written");
    path.to_str().expect("the name is UTF-8").to_string()
}

fn assert_harmless(what: &str, ran: &Ran) {
    for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        let line = text.lines().find(|line| line.chars().any(acts));
        assert_eq!(line, None, "{what}: on {name} something acts");
    }
}

/// Fails unless a command rejects its arguments, with a message that has no effect on a terminal.
fn refused(scratch: &Scratch, arguments: &[&str]) -> Ran {
    let ran = scratch.run(arguments).ended(2, "usage");
    assert_harmless(arguments[0], &ran);
    ran
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

#[test]
fn a_hostile_scenario_is_shown_and_run_as_text() {
    let scratch = Scratch::new();
    let file = file(&scratch, &scenario(IN_TOML));
    let reports = scratch.reports();
    for arguments in [
        vec!["show", &file],
        vec!["list", &file],
        vec![
            "run",
            &file,
            "--on",
            "sim",
            "--quick",
            "--out",
            path(&reports),
        ],
    ] {
        let ran = scratch.run(&arguments);
        assert_ne!(ran.code, Some(2), "{ran:#?}");
        assert_harmless(arguments[0], &ran);
        assert!(
            ran.stdout.contains(r"\x1b["),
            "{} shows nothing of it: {ran:#?}",
            arguments[0]
        );
    }
    let listed = scratch.run(&["list", "--json", &file]).json();
    let question = listed["scenarios"][0]["question"]
        .as_str()
        .expect("a question");
    assert!(
        question.contains('\x1b'),
        "JSON has escapes of its own, and needs no others: {question:?}"
    );
}

#[test]
fn an_invalid_hostile_scenario_is_complained_of_in_text() {
    let scratch = Scratch::new();
    let good = scenario(IN_TOML);
    for bad in [
        // Not TOML at all: the offending line is shown.
        format!("question = \"{EVIL}\"\n"),
        good.replace("belief", &format!("\"{IN_TOML}\"")),
        good.replace(
            "tags = [\"A01\"]",
            &format!("tags = [\"{IN_TOML}\", \"\u{9b}\u{202e}\"]"),
        ),
        good.replace("setenv", &format!("\"setenv{IN_TOML}\"")),
    ] {
        let file = file(&scratch, &bad);
        for command in ["check", "show", "run"] {
            refused(&scratch, &[command, &file]);
        }
    }
}

#[test]
fn a_hostile_name_of_nothing_is_repeated_as_text() {
    let scratch = Scratch::new();
    let missing = format!("{}/{EVIL}.toml", path(scratch.path()));
    for (command, argument) in [
        ("show", EVIL.to_string()),
        ("list", format!("**a{EVIL}")),
        ("check", missing.clone()),
        ("judge", missing.clone()),
        ("render", missing),
    ] {
        refused(&scratch, &[command, &argument]);
    }
}

/// If a file is expected, a directory is rejected, and its name is repeated.
#[test]
fn hostile_path_names_are_escaped() {
    let scratch = Scratch::new();
    let folder = scratch.path().join(format!("folder{EVIL}"));
    fs::create_dir(&folder).expect("any name is a name");
    let file = scratch.path().join(format!("file{EVIL}"));
    fs::write(&file, "").expect("any name is a name");
    let (folder, file) = (path(&folder), path(&file));
    let [run, trace] = [
        [
            "run",
            "framework/torch-fork-after-available",
            "--dry-run",
            "--on",
        ],
        ["trace", "--on", "sim", "true"],
    ];
    for arguments in [
        &[
            "run",
            "tests/selftest/clean.toml",
            "--on",
            "sim",
            "--junit",
            folder,
        ][..],
        &[&run[..], &["sim", "--python", folder]].concat(),
        &[&run[..], &["cuda", "--libcuda", folder]].concat(),
        &[&run[..], &["cuda", "--libcudart", folder]].concat(),
        &[&trace[..3], &["--html", folder], &trace[3..]].concat(),
        &[&trace[..3], &["--out", file], &trace[3..]].concat(),
        &["export", "visibility/empty-mask-hides-all", "--out", folder],
        &[
            "fleet",
            "merge",
            "reports/compact/h200-x2-all.json",
            "--out",
            folder,
        ],
    ] {
        let ran = scratch.run(arguments);
        assert!(
            ran.code.is_some_and(|code| [2, 74].contains(&code)),
            "{arguments:?}: {ran:#?}"
        );
        assert!(
            ran.stderr.contains(r"\x1b["),
            "{arguments:?} does not name it: {ran:#?}"
        );
        assert_harmless(arguments[0], &ran);
    }
}

#[test]
fn a_hostile_report_is_refused_in_text() {
    let scratch = Scratch::new();
    let file = scratch.path().join(format!("report{EVIL}.json"));
    let schema = r#""schema": {"name": "cuda-pitfalls-report", "major": 1, "minor": 0}"#;
    for text in [
        EVIL.to_string(),
        format!("{{\"{}\": 1}}", "\\u001b[31m"),
        format!(
            "{{\n{schema},\n\"run\": \"\\u001b[31m\u{9b}\", \"exit\": \"\\u001b[31m\u{9b}\u{202e}\"}}"
        ),
        format!("{{\n{schema},\n\"provenance\": \"\\u001b[31m\u{9b}\u{202e}\"}}"),
    ] {
        fs::write(&file, text).expect("the file can be written");
        for command in ["judge", "render"] {
            refused(&scratch, &[command, path(&file)]);
        }
    }
    scratch.run(&["judge", path(&file)]).says("line 3 column ");
}

#[test]
fn a_hostile_machine_is_refused_in_text() {
    let scratch = Scratch::new();
    let reports = scratch.reports();
    let file = scratch.path().join(format!("machine{EVIL}.toml"));
    for text in [
        EVIL.to_string(),
        format!("\"{IN_TOML}\\n{IN_TOML}\" = 1\n"),
        "driver_version = [\"\u{9b}\"]\n".to_string(),
    ] {
        fs::write(&file, text).expect("the file can be written");
        let on = format!("sim:{}", path(&file));
        refused(
            &scratch,
            &[
                "run",
                "tests/selftest/clean.toml",
                "--on",
                &on,
                "--out",
                path(&reports),
            ],
        );
    }
}

#[test]
fn what_has_no_end_is_not_read() {
    let scratch = Scratch::new();
    let reports = scratch.reports();
    let fifo: PathBuf = scratch.path().join("pipe.toml");
    rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).expect("a pipe of our own");
    for endless in [Path::new("/dev/zero"), &fifo] {
        let on = format!("sim:{}", path(endless));
        for arguments in [
            vec!["check", path(endless)],
            vec!["judge", path(endless)],
            vec!["render", path(endless)],
            vec![
                "run",
                "tests/selftest/clean.toml",
                "--on",
                &on,
                "--out",
                path(&reports),
            ],
        ] {
            scratch
                .run(&arguments)
                .ended(2, "usage")
                .says("not a regular file");
        }
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let scratch = Scratch::new();
    let reports = scratch.reports();
    let file = scratch.file("long.toml", "#\n".repeat(256 << 10));
    let on = format!("sim:{file}");
    for arguments in [
        vec!["check", &file],
        vec![
            "run",
            "tests/selftest/clean.toml",
            "--on",
            &on,
            "--out",
            path(&reports),
        ],
    ] {
        scratch
            .run(&arguments)
            .ended(2, "usage")
            .says("larger than 256 KiB");
    }
}

/// Errors repeat content of a trace: every line of them is text.
#[test]
fn a_hostile_trace_is_refused_in_text() {
    let scratch = Scratch::new();
    let good = common::root().join("reports/traces/h200-x2/c_late_mask/trace.ndjson");
    let good = common::read_document(good);
    let first = good.lines().next().expect("a first line");
    let evil = r#"\u001b[31m\u009b\n::error::it is \u202e"#.to_string();
    let file = scratch.path().join(format!("trace{EVIL}.ndjson"));
    for second in [
        // An invalid name: the error repeats it.
        format!("{{\"line\":\"{evil}\"}}"),
        format!("{{\"line\":\"event\",\"what\":\"{evil}\"}}"),
        first.replacen(
            "\"provenance\":\"measured\"",
            &format!("\"provenance\":\"{evil}\""),
            1,
        ),
    ] {
        fs::write(&file, format!("{first}\n{second}\n")).expect("the file can be written");
        for arguments in [
            vec!["render", path(&file)],
            vec!["compare", path(&file), path(&file)],
        ] {
            let ran = refused(&scratch, &arguments);
            let command = ran
                .stderr
                .lines()
                .find(|line| line.trim_start().starts_with("::"));
            assert_eq!(
                command, None,
                "{arguments:?}: a line that a CI system obeys"
            );
        }
    }
}

/// A few kilobytes can expand to gigabytes of lines: the work for them is bounded, and the limit is reported.
#[test]
fn a_small_file_makes_little_work() {
    let scratch = Scratch::new();
    let out = scratch.path().join("fleet.json");
    let lines = b"{}\n".repeat(16 << 20);
    let packed =
        ruzstd::encoding::compress_to_vec(&lines[..], ruzstd::encoding::CompressionLevel::Fastest);
    assert!(packed.len() < 64 << 10, "{} bytes", packed.len());
    let text = b"{\"must_understand\":[\"compact\"],\"x\":1}\n".repeat(1 << 20);
    let heads =
        ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
    for (name, bytes) in [
        ("lines.ndjson.zst", &packed),
        ("lines.json.zst", &packed),
        ("heads.ndjson.zst", &heads),
    ] {
        let file = scratch.file(name, bytes);
        let arguments = ["fleet", "merge", &file, "--out", path(&out)];
        let ran = scratch.run(&arguments).ended(4, "nothing_measured");
        let ran = ran.join_lines();
        let names_a_limit = ["the rest is not read", "times its size"]
            .iter()
            .any(|it| ran.stdout.contains(it));
        assert!(names_a_limit, "{name}: {}", ran.stdout);
        scratch.run(&["render", &file]).ended(2, "usage");
    }
    let deep = scratch.file(
        "deep.json",
        format!("{{\"x\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20)),
    );
    scratch.run(&["judge", &deep]).ended(2, "usage");
}

/// The file of `--out` of an export belongs to the user, and is never the target of a link or a pipe. A step may pass
/// text beyond ASCII: a compiler accepts the file.
#[test]
fn an_export_of_any_text_is_a_program() {
    let scratch = Scratch::new();
    let file = scratch.path().join("accents.toml");
    let text =
        fs::read_to_string(common::root().join("scenarios/visibility/mask-after-cuinit.toml"))
            .expect("ours");
    let text = text.replace("value = \"1\"", "value = \"\u{e9}\\u001b\\\"\"");
    assert!(
        text.contains('\u{e9}'),
        "the mask of the scenario is written otherwise now"
    );
    fs::write(&file, text).expect("a file of our own");
    let ran = scratch
        .run(&["export", path(&file)])
        .good()
        .prints("\"\\303\\251\\033\\\"\"");
    let source = scratch.file("accents.c", &ran.stdout);
    let compiled = std::process::Command::new("cc")
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
        .arg(source)
        .output();
    let compiled = compiled.expect("there is a C compiler");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
}
