//! The command line as users and scripts see it: its output and its end.

use crate::common;

use std::fs;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use cuda_pitfalls::text::lines::display_columns;

use common::{PROGRAM, Scratch, gpus, names_in, read_text, root};

/// A machine with one GPU, the minimum for a scenario.
const MACHINE: &str = "sim:h200-x1";
/// A scenario that needs one GPU.
const SMALL: &str = "visibility/empty-mask-hides-all";

#[test]
fn explain_answers_words_and_pasted_text() {
    let scratch = Scratch::new();
    scratch
        .run(&[
            "explain",
            "Cannot",
            "re-initialize",
            "CUDA",
            "in",
            "forked",
            "subprocess",
        ])
        .good()
        .prints("cuda-pitfalls run framework/torch-fork-after-available");
    let json = scratch
        .run(&["explain", "--json", "cudaGetErrorString"])
        .json();
    assert_eq!(json["known"][0]["id"], "call/cudaGetErrorString");
    assert_eq!(json["answers"], serde_json::json!([]));
    let nothing = scratch
        .run(&["explain", "banana", "bread"])
        .ended(4, "nothing_measured");
    assert!(
        nothing
            .stdout
            .starts_with("No CUDA initialization problem recognized in: banana bread"),
        "{}",
        nothing.stdout
    );
    scratch.run(&["explain"]).ended(2, "usage");
    scratch.run(&["explain", "", " "]).ended(2, "usage");
    let pasted = Command::new(PROGRAM)
        .args(["explain", "-"])
        .stdin(fs::File::open(root().join("tests/rejected/says.toml")).expect("a file of ours"))
        .output()
        .expect("the program starts");
    assert!(
        pasted
            .status
            .code()
            .is_some_and(|code| [0, 4].contains(&code)),
        "{pasted:?}"
    );
}

#[test]
fn options_of_another_survey_are_refused() {
    let scratch = Scratch::new();
    for options in [
        ["mask", "--newest", "nonsense"],
        ["mask", "--allow", "code"],
        ["calls", "--disk", "1GiB"],
    ] {
        let ran = scratch.run(&["survey", options[0], options[1], options[2]]);
        let said = ran.ended(2, "usage").stderr;
        assert!(said.contains("to `survey python`"), "{said}");
    }
    for option in [["--keep-traces", "--quick"], ["--repeat", "3"]] {
        let with = ["survey", "python", "--with", "torch==2.9.1"];
        scratch
            .run(&[&with[..], &option].concat())
            .ended(2, "usage");
    }
}

#[test]
fn json_of_a_run_turns_no_line_around() {
    let scratch = Scratch::new();
    let label = "node=a\u{202e}b";
    let ran = scratch.run(&[
        "run", SMALL, "--quick", "--on", MACHINE, "--json", "--label", label,
    ]);
    assert!(!ran.stdout.contains('\u{202e}'));
    assert_eq!(ran.json()["run"]["labels"]["node"], "a\u{202e}b");
}

const FAULT: &str = "RuntimeError: CUDA error: an illegal memory access was encountered\n";

/// Runs `explain -` at the end of a pipe, with input from `feed`, whose writer must not die of SIGPIPE.
fn fed(stdout: Stdio, feed: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            feed(&mut pipe).expect("everything is read, whatever becomes of stdout")
        });
        child.wait_with_output().expect("it ends")
    })
}

#[test]
fn explain_passes_its_input_through_and_answers_what_stands_at_its_end() {
    // 16 MiB of noise, and then the error.
    let noise = "y: step 17 took 3 seconds\n".repeat((16 << 20) / 26);
    let whole = |out: &mut dyn Write| {
        out.write_all(noise.as_bytes())
            .and_then(|()| out.write_all(FAULT.as_bytes()))
    };
    let piped = fed(Stdio::piped(), whole);
    assert_eq!(
        piped.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&piped.stderr)
    );
    assert!(
        piped.stdout.len() == noise.len() + FAULT.len() && piped.stdout.ends_with(FAULT.as_bytes())
    );
    let answer = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(
        answer.contains("CUDA_LAUNCH_BLOCKING=1") && answer.contains("Your program"),
        "{answer}"
    );
    // Nobody reads the text that it passes through: it continues to read, and answers.
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let closed = fed(writer.into(), whole);
    assert_eq!(
        closed.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&closed.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&closed.stderr), answer);
    // A full disk is reported at the end.
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let full = fed(full.into(), |out: &mut dyn Write| {
        out.write_all(FAULT.as_bytes())
    });
    assert_eq!(full.status.code(), Some(74), "{full:?}");
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(
        said.contains("cannot write to stdout") && said.contains("exit 74 (not_durable)"),
        "{said}"
    );
}

#[test]
fn explain_preserves_streams_exit_and_orphans_of_commands() {
    let scratch = Scratch::new();
    let file = scratch.file("in", "typed");
    let ran = |script: &str| {
        let mut command = scratch.command(&["explain", "--", "sh", "-c", script]);
        command.stdin(fs::File::open(&file).expect("ours"));
        scratch.ran(command)
    };
    let failed = ran(&format!(
        "cat; printf '{}' >&2; exit 7",
        FAULT.replace('\n', "\\n")
    ));
    assert_eq!(
        (failed.code, failed.stdout.as_str()),
        (Some(7), "typed"),
        "{failed:?}"
    );
    assert!(
        failed.stderr.starts_with(FAULT) && failed.stderr.contains("CUDA_LAUNCH_BLOCKING=1"),
        "{failed:?}"
    );
    // A process that a program leaves behind holds its stderr, and nobody waits for that process.
    let fine = ran("echo progress >&2; sleep 90 >&2 & echo $! >&2; exec true");
    let orphan = fine.stderr.trim_start_matches("progress\n").trim();
    assert!(
        fine.code == Some(0) && orphan.parse::<u32>().is_ok(),
        "a program that went well is left alone: {fine:?}"
    );
    Command::new("kill").arg(orphan).status().expect("kill");
    assert_eq!(
        ran("kill -TERM $$").code,
        None,
        "it ends by the signal of the command"
    );
    assert_eq!(
        scratch
            .run(&[
                "explain",
                "--",
                &scratch.path().join("absent").to_string_lossy()
            ])
            .code,
        Some(127)
    );
}

#[test]
fn explain_as_json_prints_its_document_alone() {
    let scratch = Scratch::new();
    let file = scratch.file("log", FAULT);
    let mut command = scratch.command(&["explain", "--json", "-"]);
    command.stdin(fs::File::open(file).expect("a file of our own"));
    let ran = scratch.ran(command).good();
    assert!(
        ran.json()["answers"]
            .as_array()
            .is_some_and(|answers| !answers.is_empty())
    );
}

/// Commands that print for people, at least one line for each command. OUT is a folder.
const FOR_PEOPLE: &str = "\
run mask-after-device-count --quick --on sim:h200-x2 --out OUT
run mask-after-device-count --on sim --dry-run
survey calls cuInit --quick --on sim --out OUT
trace --on sim --out OUT -- true
bisect --on sim --work OUT --package framework --good 1 --bad 2 --forbid cuinit -- python -c pass
doctor --on sim
who
mask 0,x --gpus 2
sim -- true
list
list all
list --symptoms
explain 802 --all
explain CUDA_VISIBLE_DEVICES
show mask-after-cuinit
check scenarios/visibility/mask-after-cuinit.toml
judge reports/h200-x2
render reports/h200-x2 --as text-full
render reports/survey-mask-h200-x2
render reports/survey-needs-h100-x1
render reports/survey-startup-h100-x1
render reports/traces/h200-x2/torch_loader
compare reports/h100-x1 reports/h200-x1
compare reports/traces/h200-x2/torch_loader reports/traces/h200-x2/torch_spawn
fleet merge reports/h100-x1 reports/h200-x1 docs/examples/fleet.ndjson --out OUT/fleet.json
fleet render OUT/fleet.json
fleet diff OUT/fleet.json OUT/fleet.json";

/// Commands that print for programs.
const FOR_PROGRAMS: &str = "\
export mask-after-cuinit
bundle reports/h200-x2 mask-after-cuinit --out OUT/bundle.tar.zst
schema report
completions bash
man";

#[test]
fn every_command_for_people_has_colors_and_lines_of_80_columns() {
    let scratch = Scratch::new();
    let out = scratch.path().to_string_lossy().into_owned();
    let run = |line: &str| {
        let line = line.replace("OUT", &out);
        let mut arguments = vec!["--color", "always"];
        arguments.extend(line.split(' '));
        let mut command = crate::releases::command(&scratch, &arguments);
        command.env("COLUMNS", "80");
        scratch.ran(command)
    };
    for line in FOR_PEOPLE.lines() {
        let ran = run(line);
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        assert!(shown.contains("\x1b["), "`{line}` has no color: {ran:#?}");
        for text in shown.lines() {
            // Paths and commands are copied, so they are not broken.
            let is_copied = text.contains(&out) || text.contains("cuda-pitfalls ");
            assert!(is_copied || display_columns(text) <= 80, "`{line}`: {text}");
        }
    }
    for line in FOR_PROGRAMS.lines() {
        let ran = run(line);
        assert!(
            !ran.stdout.contains('\x1b'),
            "`{line}` has colors: {ran:#?}"
        );
    }
    for (name, _) in cuda_pitfalls::cli::list_commands() {
        let mut known = FOR_PEOPLE.lines().chain(FOR_PROGRAMS.lines());
        let is_known = known.any(|line| line.split(' ').next() == Some(&name));
        assert!(is_known, "no line for `{name}`");
    }
}

#[test]
fn terminals_get_colors_unless_they_are_unwanted() {
    let scratch = Scratch::new();
    for (arguments, variable, is_colored) in [
        (["list", "--color", "auto"], ("COLUMNS", "80"), true),
        (["list", "--color", "auto"], ("NO_COLOR", "1"), false),
        (["list", "--color", "never"], ("COLUMNS", "80"), false),
        (["list", "--color", "always"], ("NO_COLOR", "1"), true),
    ] {
        let ran = scratch.run_on_terminal(&arguments, &[variable]);
        assert_eq!(
            ran.stdout.contains("\x1b["),
            is_colored,
            "{arguments:?}: {ran:#?}"
        );
    }
    let ran = scratch.run(&["list", "--color", "auto"]).good();
    assert!(!ran.stdout.contains('\x1b'), "{ran:#?}");
}

#[test]
fn errors_fit_80_columns_and_say_what_to_do() {
    let scratch = Scratch::new();
    for (line, action) in [
        ("run nonexist", "`cuda-pitfalls list` shows"),
        ("run --repeat 0 all", "is not in 1..=1000"),
        ("run all --on sim:nope", "Known: h200-x1"),
        ("run all --require gpus=x", "gpus=N"),
        ("run all --label x", "node=gpu-17"),
        (
            "run mask-after-nvml --on sim --out /proc/x",
            "cannot create",
        ),
        ("survey foo", "possible values: calls"),
        ("survey calls cuInot --on sim", "did you mean `cuInit`"),
        ("survey mask --list", "belongs to `survey python`"),
        ("trace", "Usage: cuda-pitfalls trace"),
        ("trace --forbid foo -- true", "known:"),
        ("trace --max-bytes foo -- true", "gpu1=2GiB"),
        ("doctor --on auto", "write `cuda` or `sim`"),
        ("mask 0 --gpus 9", "a number from 1 to 8"),
        ("mask 0 --gpus README.md", "`nvidia-smi -L` prints"),
        ("check README.md", "README.md:"),
        ("judge README.md", "is not a report"),
        ("render reports/h200-x2 --as sarif", "sarif is of traces"),
        (
            "compare reports/h200-x2 reports/survey-mask-h200-x2",
            "only documents of the same kind",
        ),
        (
            "fleet render reports/h200-x2",
            "Create one with `fleet merge`",
        ),
        ("export all", "name one"),
        ("schema x", "possible values: scenario"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = scratch.command(&arguments);
        command.env("COLUMNS", "80");
        let ran = scratch.ran(command);
        let words = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            ran.code > Some(0) && words.contains(action),
            "`{line}`: {}",
            ran.stderr
        );
        for text in ran.stderr.lines() {
            let is_quoted = text.contains(" | ");
            assert!(is_quoted || display_columns(text) <= 80, "`{line}`: {text}");
        }
    }
}

#[test]
fn a_quiet_run_prints_failures_and_the_end() {
    let scratch = Scratch::new();
    let good = scratch
        .run(&[
            "run",
            "mask-after-device-count",
            "--quick",
            "--on",
            "sim:h200-x2",
            "--quiet",
        ])
        .ended(0, "ok");
    assert!(
        good.stdout
            .starts_with("1 question simulated: 1 as expected"),
        "{}",
        good.stdout
    );
    let file = scratch.at("wrong.toml");
    let source = read_text("scenarios/visibility/mask-after-device-count.toml");
    let wrong = source.replace("verdict = \"reproduced\"", "verdict = \"not_reproduced\"");
    assert_ne!(source, wrong);
    fs::write(&file, wrong).expect("a file of our own");
    let bad = scratch
        .run(&["run", &file, "--quick", "--on", "sim:h200-x2", "-q"])
        .ended(1, "unexpected");
    assert!(
        bad.stdout.trim_start().starts_with("yes (sim)") && bad.stdout.contains("UNEXPECTED"),
        "{}",
        bad.stdout
    );
}

#[test]
fn check_accepts_a_good_file_and_points_into_a_bad_one() {
    let scratch = Scratch::new();
    let good = scratch.run(&["check", "tests/selftest/clean.toml"]).good();
    assert!(good.stdout.contains("valid"));
    let source = read_text("tests/selftest/clean.toml");
    let bad = scratch.file(
        "bad.toml",
        source.replace("{ cuInit = {}", "{ cuInitt = {}"),
    );
    let line = 1 + source
        .lines()
        .position(|line| line.contains("cuInit ="))
        .expect("the step is there");
    let column = 1 + source
        .lines()
        .find_map(|line| line.find("cuInit"))
        .expect("the step is there");
    let ran = scratch
        .run(&["check", "tests/selftest/clean.toml", &bad])
        .ended(2, "usage")
        .says(&format!("bad.toml:{line}:{column}"))
        .says("cuInit`");
    assert!(
        ran.stdout.contains("clean.toml: valid"),
        "the good file is still checked"
    );
}

#[test]
fn an_unknown_selector_ends_with_usage_and_names_the_nearest() {
    for command in ["run", "list", "show"] {
        let ran = Scratch::new()
            .run(&[command, "set-device-is-eagre"])
            .ended(2, "usage")
            .says("set-device-is-eager");
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    }
    let scratch = Scratch::new();
    let here = scratch.path().to_string_lossy().into_owned();
    let absent = format!("{here}/absent");
    for (selector, said) in [
        ("torhc", "did you mean `torch`"),
        ("nosuch.toml", "nosuch.toml"),
        (
            &here,
            "is a directory here, not a directory of scenarios; give its files instead",
        ),
        (".", "`.` is a directory here"),
        (&absent, "matches it; `cuda-pitfalls list` shows all"),
    ] {
        scratch.run(&["run", selector]).ended(2, "usage").says(said);
    }
    scratch.run(&["run", "nosuch.toml"]).says("No such file");
}

/// `-` is standard input where a file is read; as an output it is rejected. An error explains that a document is empty
/// or not an object.
#[test]
fn a_name_or_a_text_that_is_none_is_refused_in_words() {
    let scratch = Scratch::new();
    let (report, stored) = (
        "reports/compact/h200-x2-all.json",
        "reports/h200-x2-contexts/report.json",
    );
    for arguments in [
        &["export", SMALL, "--out", "-"][..],
        &["fleet", "merge", report, "--out", "-"],
        &["fleet", "render", report, "--out", "-"],
        &["bundle", stored, "--out", "-"],
    ] {
        scratch
            .run(arguments)
            .ended(2, "usage")
            .says("does not mean standard output here; write ./- for a file of this name");
        assert!(!root().join("-").exists(), "{arguments:?}");
    }
    for (text, said) in [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("null", "expected an object"),
    ] {
        let file = scratch.file("none.json", text);
        let ran = scratch.run(&["render", &file]).ended(2, "usage").says(said);
        assert!(!ran.stderr.contains("Stored"), "{}", ran.stderr);
    }
    let file = scratch.file("none.json", "{\"schema\": 7}");
    scratch
        .run(&["render", &file])
        .ended(2, "usage")
        .says("expected an object");
}

#[test]
fn an_unknown_machine_is_refused_with_the_names_of_those_there_are() {
    for on in ["sim:nosuch", "simulated"] {
        let scratch = Scratch::new();
        let out = scratch.reports();
        let ran = scratch
            .run(&[
                "run",
                SMALL,
                "--on",
                on,
                "--json",
                "--out",
                &out.to_string_lossy(),
            ])
            .ended(2, "usage")
            .says("h200-x1")
            .says("h200-x8");
        assert_eq!(ran.json()["exit"]["name"], "usage");
        assert!(!out.exists(), "nothing ran, so there is no report");
    }
}

#[test]
fn json_is_one_document_whatever_is_wrong() {
    let bad = "tests/rejected/key-unknown.toml";
    for (arguments, code) in [
        (&["run", "nosuch", "--json"][..], 2),
        (&["run", "--json", "--no-such-option"], 2),
        (&["run", bad, "--on", MACHINE, "--json"], 2),
        (
            &[
                "run",
                SMALL,
                "--on",
                MACHINE,
                "--json",
                "--gpus",
                "GPU-nosuch",
            ],
            2,
        ),
        (
            &["run", SMALL, "--on", MACHINE, "--json", "--repeat", "0"],
            2,
        ),
        (
            &["run", SMALL, "--on", MACHINE, "--json", "--allow", "nosuch"],
            2,
        ),
        (
            &[
                "run",
                SMALL,
                "--on",
                MACHINE,
                "--json",
                "--out",
                "/dev/null/x",
            ],
            74,
        ),
    ] {
        let ran = Scratch::new().run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.json()["exit"]["code"], code, "{arguments:?}");
        assert!(
            ran.json()["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty()),
            "{arguments:?}"
        );
        assert!(
            ran.stderr.contains(&format!("exit {code} (")),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

/// Only some cases need cuBLAS, which the simulated machine does not have. Some of these seeds would begin with a case
/// that does not need it.
#[test]
fn a_need_of_one_case_is_missed_before_any_case_is_attempted() {
    for seed in ["1", "2", "3", "4"] {
        let (ran, report) = Scratch::new().simulate(
            MACHINE,
            &["context/library-handle-keeps-memory"],
            &["--quick", "--seed", seed],
        );
        ran.ended(3, "inconclusive");
        let scenario = &report.scenarios[0];
        assert_eq!(scenario.verdict.detail, "missing: libcublas");
        assert!(
            scenario.cases.iter().all(|case| case.attempts.is_empty()),
            "--seed {seed}"
        );
    }
}

#[test]
fn without_a_gpu_every_verdict_is_skipped_with_a_reason() {
    if gpus() > 0 {
        return;
    }
    let scratch = Scratch::new();
    let (ran, report) = scratch.simulate("cuda", &[], &[]);
    ran.ended(4, "nothing_measured");
    assert!(report.scenarios.len() >= 20 && report.machine.gpus.is_empty() && report.complete);
    for scenario in &report.scenarios {
        assert_eq!(scenario.verdict.kind.name(), "skipped", "{}", scenario.name);
        assert!(
            scenario.verdict.reason.is_some() && !scenario.verdict.detail.is_empty(),
            "{}",
            scenario.name
        );
        assert!(scenario.cases.iter().all(|case| case.attempts.is_empty()));
    }
}

#[test]
fn auto_without_a_gpu_falls_back_and_says_so() {
    if gpus() > 0 {
        return;
    }
    let (ran, report) = Scratch::new().simulate("auto", &[SMALL], &["--quick"]);
    let ran = ran.ended(0, "ok").says("SIMULATED");
    assert!(
        report.run.on.starts_with("sim:")
            && report
                .run
                .warnings
                .iter()
                .any(|note| note.contains("SIMULATED"))
    );
    assert_eq!(ran.json()["provenance"], "simulated");
    assert_eq!(
        ran.json()["scenarios"][0]["verdict"]["provenance"],
        "simulated"
    );
}

#[test]
fn judging_again_and_rendering_work_on_a_stored_report() {
    let scratch = Scratch::new();
    let selectors = [
        SMALL,
        "limits/heap-after-malloc-kernel",
        "tests/selftest/hang.toml",
    ];
    let (ran, report) = scratch.simulate(MACHINE, &selectors, &["--repeat", "2"]);
    let stored = scratch.reports().join(&report.run.id);
    let stored = stored.to_string_lossy();
    let again = scratch.run(&["judge", &stored, "--json"]);
    assert_eq!(again.code, ran.code, "{}", again.stderr);
    assert_eq!(
        again.json(),
        ran.json(),
        "judging the same attempts again changes nothing"
    );
    for form in ["text", "html", "markdown", "junit", "prometheus", "github"] {
        let rendered = scratch.run(&["render", &stored, "--as", form]).good();
        assert!(!rendered.stdout.trim().is_empty(), "{form} is empty");
        assert!(
            rendered.stdout.to_lowercase().contains("simulated"),
            "{form} does not say that it is simulated"
        );
    }
}

/// Exit codes are explained in one place, `src/answers/exit.rs`; the others repeat it word by word.
#[test]
fn documentation_and_help_say_of_exit_codes_what_the_program_says() {
    use cuda_pitfalls::exit::Exit;
    let worst_first: String = Exit::WORST_FIRST
        .iter()
        .map(|exit| exit.row() + "\n")
        .collect();
    let mut by_number = Exit::WORST_FIRST;
    by_number.sort_by_key(|exit| exit.code());
    let by_number: String = by_number.iter().map(|exit| exit.row() + "\n").collect();
    assert!(
        read_text("docs/verdicts.md").contains(&worst_first),
        "docs/verdicts.md needs\n{worst_first}"
    );
    assert!(
        read_text("docs/ci.md").contains(&by_number),
        "docs/ci.md needs\n{by_number}"
    );
    let help = Scratch::new().run(&["--help"]).stdout;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&help).contains(&words(&Exit::help())), "{help}");
}

#[test]
fn usage_error_prints_exit_code_on_last_line() {
    for arguments in [
        &[][..],
        &["nosuch"],
        &["run", "--repeat", "0"],
        &["run", "--require", "x"],
        &["run", "x"],
        &["render"],
    ] {
        let ran = Scratch::new().run(arguments).ended(2, "usage");
        assert!(
            ran.stderr.ends_with("\ncuda-pitfalls: exit 2 (usage)\n"),
            "{arguments:?}: {:?}",
            ran.stderr
        );
    }
}

/// The program's file may be replaced during a run: the processes that the run starts after that belong to the new one.
#[test]
fn a_process_that_would_be_told_in_another_protocol_leaves_at_once() {
    for role in ["__worker", "__sampler", "__versions"] {
        let output = Command::new(PROGRAM)
            .args([
                role,
                "3",
                "--parent",
                &std::process::id().to_string(),
                "--protocol",
                "1",
            ])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(70), "{role}: {said}");
        assert!(said.contains("protocol 1"), "{role}: {said}");
    }
}

#[test]
fn a_report_says_what_its_caller_said_of_it() {
    let scratch = Scratch::new();
    let labels = ["--label", "node=gpu-17", "--label", "rack=<3>"];
    let (ran, report) = scratch.simulate(
        "sim:h200-x1",
        &["context/stays-until-exit"],
        &[&["--quick"], &labels[..]].concat(),
    );
    ran.ended(0, "ok");
    assert_eq!(report.run.labels["node"], "gpu-17");
    assert_eq!(report.run.labels.len(), 2);
    let stored = scratch
        .reports()
        .join(&report.run.id)
        .to_string_lossy()
        .into_owned();
    for (form, part) in [
        ("html", "rack=&lt;3&gt;"),
        ("markdown", "node=gpu-17"),
        ("junit", "node=gpu-17"),
    ] {
        scratch.run(&["render", &stored, "--as", form]).prints(part);
    }
    for bad in [
        &["--label", "node"][..],
        &["--label", "node=a", "--label", "node=b"],
    ] {
        scratch
            .run(&[&["run", "--on", "sim", "--dry-run"], bad].concat())
            .ended(2, "usage")
            .says("--label");
    }
}

#[test]
fn completions_name_every_command_and_no_hidden_one() {
    let scratch = Scratch::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = scratch.run(&["completions", shell]).good();
        for word in [
            "run",
            "survey",
            "trace",
            "--libcudart",
            "libcudart",
            "completions",
        ] {
            // fish writes options without their hyphens.
            let found = ran.stdout.contains(word) || shell == "fish" && word.starts_with('-');
            assert!(found, "{word} is not in the script for {shell}");
        }
        for hidden in [
            cuda_pitfalls::supervisor::role::WORKER,
            cuda_pitfalls::supervisor::role::SAMPLER,
        ] {
            assert!(
                !ran.stdout.contains(hidden),
                "{hidden} is in the script for {shell}"
            );
        }
    }
    let script = scratch.file("script.bash", scratch.run(&["completions", "bash"]).stdout);
    let line = r#"source "$0" && COMP_WORDS=(cuda-pitfalls rend) COMP_CWORD=1 && _cuda__pitfalls cuda-pitfalls rend cuda-pitfalls && echo "${COMPREPLY[@]}""#;
    let output = Command::new("bash")
        .args(["-c", line])
        .arg(&script)
        .output()
        .expect("bash starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "render",
        "{output:?}"
    );
    // For the words of `explain`, it offers the output of this command.
    assert!(
        fs::read_to_string(&script)
            .expect("the script")
            .contains("cuda-pitfalls list --names")
    );
    let names = scratch.run(&["list", "--names"]).good().stdout;
    for name in [
        "cudaMemGetInfo",
        "torch.cuda.is_available",
        "CUDA_DEVICE_ORDER",
        "late-mask",
        "700",
    ] {
        assert!(names.lines().any(|line| line == name), "{name}");
    }
    scratch.run(&["completions", "tcsh"]).ended(2, "usage");
}

#[test]
fn manual_pages_are_one_for_the_program_and_one_for_each_command() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["man"]).good();
    let (_, status) = ran
        .stdout
        .split_once(".SH \"EXIT STATUS\"")
        .expect("a section with the exit codes");
    for exit in cuda_pitfalls::exit::Exit::WORST_FIRST {
        assert!(
            status.contains(&format!("\\fB{}\\fR {}", exit.code(), exit.name())),
            "{exit:?}:\n{status}"
        );
    }
    let folder = scratch.at("deep/man1");
    assert_eq!(scratch.run(&["man", "--out", &folder]).code, Some(0));
    let pages = names_in(&folder);
    for name in [
        "cuda-pitfalls.1",
        "cuda-pitfalls-run.1",
        "cuda-pitfalls-man.1",
    ] {
        assert!(
            pages.iter().any(|page| page == name),
            "{name} is not among {pages:?}"
        );
    }
    assert!(
        !pages
            .iter()
            .any(|page| page.contains("__") || page.contains("help")),
        "{pages:?}"
    );
    let run = fs::read_to_string(format!("{folder}/cuda-pitfalls-run.1")).expect("a page");
    assert_eq!(run, scratch.run(&["man", "run"]).stdout);
    assert!(
        run.contains(&format!("\"cuda-pitfalls {}\"", env!("CARGO_PKG_VERSION"))),
        "{run}"
    );
    scratch.run(&["man", "walk"]).ended(2, "usage");
    scratch
        .run(&["man", cuda_pitfalls::supervisor::role::SAMPLER])
        .ended(2, "usage");
    let file = scratch.at("stdout");
    scratch
        .run(&["man", "--out", &file])
        .ended(74, "not_durable");
    // In a folder that all users share, a page may be a link to a file of ours.
    fs::remove_file(format!("{folder}/cuda-pitfalls-run.1")).expect("a page");
    std::os::unix::fs::symlink(&file, format!("{folder}/cuda-pitfalls-run.1")).expect("a link");
    scratch
        .run(&["man", "--out", &folder])
        .ended(74, "not_durable")
        .says("it is a symbolic link");
}
