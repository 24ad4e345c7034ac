//! The check of a node, on the simulated machine: its output, and the files that it keeps.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{deploy, read};
use crate::common::trials::{self, Test};
use crate::common::{PROGRAM, Scratch, as_if_measured, names_in, read_json, root, script};

/// The longest line of a check, including its newline: node-problem-detector keeps no more.
const LIMIT_BYTES: usize = 80;

const AS_EXPECTED: &str = "visibility/empty-mask-hides-all";
const NOT_AS_EXPECTED: &str = "tests/deploy/slurm/not-as-expected.toml";

pub(crate) fn tests() -> Vec<Test> {
    let tests: [(&'static str, fn()); 9] = [
        (
            "a_check_says_what_the_machine_does",
            a_check_says_what_the_machine_does,
        ),
        (
            "the_simulated_machine_says_nothing_of_health",
            the_simulated_machine_says_nothing_of_health,
        ),
        (
            "a_lost_gpu_or_driver_is_a_problem",
            a_lost_gpu_or_driver_is_a_problem,
        ),
        (
            "who_keeps_a_check_waiting_does_not_silence_it",
            who_keeps_a_check_waiting_does_not_silence_it,
        ),
        (
            "slurm_is_told_what_a_check_says",
            slurm_is_told_what_a_check_says,
        ),
        (
            "a_check_that_says_nothing_leaves_the_last_answer",
            a_check_that_says_nothing_leaves_the_last_answer,
        ),
        ("a_check_ends_in_time", a_check_ends_in_time),
        ("a_reader_never_sees_a_part", a_reader_never_sees_a_part),
        (
            "a_new_machine_is_measured_in_parts",
            a_new_machine_is_measured_in_parts,
        ),
    ];
    let mut tests: Vec<Test> = tests
        .map(|(name, run)| Test {
            name,
            missing: None,
            run,
        })
        .into();
    let missing = trials::missing("promtool");
    tests.push(Test {
        name: "promtool_accepts_the_metrics",
        missing,
        run: promtool_accepts_the_metrics,
    });
    tests
}

/// Returns a check of this scenario, not yet started. The files that it keeps go into the test's directory.
fn check(scratch: &Scratch, scenario: &str) -> Command {
    let mut command = Command::new(deploy("node/check"));
    command.args([scenario, "--on", "sim:h200-x1", "--repeat", "1"]);
    surround(&mut command, scratch);
    command
}

fn surround(command: &mut Command, scratch: &Scratch) {
    let program = scratch.path().join("program");
    if !program.exists() {
        as_if_measured(&program, "");
    }
    command
        .current_dir(root())
        .stdin(Stdio::null())
        .env("CUDA_PITFALLS", program);
    command
        .env("TMPDIR", scratch.path())
        .env("CUDA_PITFALLS_CONF", scratch.path().join("none"));
    command
        .env("CUDA_PITFALLS_STATE", state(scratch))
        .env("CUDA_PITFALLS_TEXTFILE", state(scratch));
}

fn state(scratch: &Scratch) -> PathBuf {
    scratch.path().join("state")
}

/// Runs a program, and returns its exit code and its output.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it starts");
    (
        output.status.code(),
        String::from_utf8(output.stdout).expect("it prints text"),
    )
}

fn status(scratch: &Scratch) -> String {
    read(&state(scratch).join("status"))
}

fn a_check_says_what_the_machine_does() {
    let scratch = Scratch::new();
    for (scenario, code, line) in [
        (AS_EXPECTED, 0, "1/1 as expected"),
        (
            NOT_AS_EXPECTED,
            1,
            "1/1 unexpected: reproduced, slurm/not-as-expected",
        ),
    ] {
        assert_eq!(
            run(&mut check(&scratch, scenario)),
            (Some(code), format!("{line}\n"))
        );
        assert_eq!(status(&scratch), format!("{code} {line}\n"));
        let report =
            cuda_pitfalls::report::read(&state(&scratch).join("report.json")).expect("a report");
        assert_eq!(report.scenarios.len(), 1);
        let metrics = read(&state(&scratch).join("cuda_pitfalls.prom"));
        assert!(
            metrics.contains(&format!("scenario=\"{}\"", report.scenarios[0].name)),
            "{metrics}"
        );
    }
    assert_eq!(
        names_in(state(&scratch)),
        ["cuda_pitfalls.prom", "gpus", "report.json", "status"],
        "nothing else is left"
    );
    assert_eq!(
        names_in(scratch.path()).len(),
        2,
        "nothing but the program is left in the folder of temporary files"
    );
}

fn the_simulated_machine_says_nothing_of_health() {
    let scratch = Scratch::new();
    for scenario in [AS_EXPECTED, NOT_AS_EXPECTED] {
        let (code, line) = run(check(&scratch, scenario).env("CUDA_PITFALLS", PROGRAM));
        assert_eq!(code, Some(2), "{line}");
        assert!(
            line.starts_with("SIMULATED: 1/1 ") && status(&scratch) == format!("2 {line}"),
            "{line}"
        );
    }
    assert!(
        !state(&scratch).join("gpus").exists(),
        "its GPUs are none that could be lost"
    );
}

fn a_lost_gpu_or_driver_is_a_problem() {
    let scratch = Scratch::new();
    let on = |machine: &str| {
        let mut command = Command::new(deploy("node/check"));
        command.args([AS_EXPECTED, "--on", machine, "--repeat", "1"]);
        surround(&mut command, &scratch);
        command
    };
    assert_eq!(run(&mut on("sim:h200-x2")).0, Some(0));
    assert_eq!(read(&state(&scratch).join("gpus")), "2\n");
    // One of the two is lost, whatever the other one reports.
    let lost = (Some(1), "GPU lost: 1 of 2 can be used\n".to_owned());
    assert_eq!(run(&mut on("sim:h200-x1")), lost);
    assert_eq!(status(&scratch), format!("1 {}", lost.1));
    assert_eq!(run(&mut on("sim:h200-x1")), lost, "it is not forgotten");
    assert_eq!(
        run(on("sim:h200-x1").env("CUDA_PITFALLS_GPUS", "1")).0,
        Some(0),
        "a setting is believed"
    );
    let lent = run(on("sim:h200-x1").env("CUDA_VISIBLE_DEVICES", "0"));
    assert!(
        !lent.1.contains("GPU lost"),
        "a job that was lent one of them has lost none: {lent:?}"
    );
    // NVML exists and fails.
    let broken = scratch.path().join("broken");
    let unavailable = r#"{"reason":"nvml_error","detail":"the GPU has fallen off the bus"}"#;
    // Then no scenario can run.
    let asked = r#"s/"scenarios":\[.*\],"complete"/"scenarios":[],"complete"/"#;
    as_if_measured(
        &broken,
        &format!(r#"s/"machine":{{/&"unavailable":[{unavailable}],/;{asked}"#),
    );
    let (code, line) = run(on("sim:h200-x2").env("CUDA_PITFALLS", &broken));
    assert_eq!(
        (code, line.as_str()),
        (
            Some(1),
            "GPU or driver lost: nvml_error: the GPU has fallen off the bus\n"
        )
    );
}

fn who_keeps_a_check_waiting_does_not_silence_it() {
    let scratch = Scratch::new();
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    let busy = scratch.path().join("busy");
    let holder = "the run of process 4711 (user 1000), since 2026-11-22T10:00:00Z";
    let words =
        format!("cuda-pitfalls: GPU-8b6c2f00 is in use by {holder}; waited 0 s of 0 s (--wait)");
    script(&busy, &format!("#!/bin/sh\necho '{words}' >&2\nexit 4\n"));
    let kept = |scratch: &Scratch| run(check(scratch, AS_EXPECTED).env("CUDA_PITFALLS", &busy));
    let (code, line) = kept(&scratch);
    assert_eq!(code, Some(2));
    assert!(
        line.starts_with("kept waiting by the run of process 4711 (user 1000)"),
        "{line}"
    );
    assert_eq!(
        status(&scratch),
        "0 1/1 as expected\n",
        "what was said before holds"
    );
    let file = state(&scratch).join("status");
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_modified(old))
        .expect("it is ours");
    for _ in 0..2 {
        let (code, line) = kept(&scratch);
        assert_eq!((code, status(&scratch)), (Some(2), format!("2 {line}")));
        assert!(
            line.starts_with("no answer for 1440 minutes: kept waiting by the run of process 4711"),
            "{line}"
        );
        assert!(line.len() <= LIMIT_BYTES, "{line}");
    }
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    assert_eq!(status(&scratch), "0 1/1 as expected\n");
}

/// The requests of the health check to Slurm, with a stand-in for the check and for `scontrol`.
fn slurm_is_told_what_a_check_says() {
    let scratch = Scratch::new();
    let (at, asked) = (scratch.path(), scratch.path().join("asked"));
    for folder in ["slurm", "node", "bin"] {
        fs::create_dir(at.join(folder)).expect("a folder of our own");
    }
    fs::copy(deploy("slurm/health-check"), at.join("slurm/health-check"))
        .expect("a file of our own");
    // The node has neither a comment nor a reason yet.
    script(
        &at.join("bin/scontrol"),
        &format!(
            "#!/bin/sh\n[ $1 != update ] || echo \"$@\" >> {}\n",
            asked.display()
        ),
    );
    let path = format!(
        "{}:{}",
        at.join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    for (action, code, line, wanted) in [
        (
            "drain",
            1,
            "GPU lost: 7 of 8 can be used",
            "update nodename=n1 reason=cuda-pitfalls: GPU lost: 7 of 8 can be used state=drain\n",
        ),
        (
            "comment",
            1,
            "GPU lost: 7 of 8 can be used",
            "update nodename=n1 comment=cuda-pitfalls: GPU lost: 7 of 8 can be used\n",
        ),
        ("drain", 2, "kept waiting by x", ""),
        (
            "drain",
            2,
            "no answer for 1440 minutes: x",
            "update nodename=n1 comment=cuda-pitfalls: no answer for 1440 minutes: x\n",
        ),
        ("none", 1, "x", ""),
    ] {
        fs::write(&asked, "").expect("a file of our own");
        script(
            &at.join("node/check"),
            &format!("#!/bin/sh\necho '{line}'\nexit {code}\n"),
        );
        let mut command = Command::new(at.join("slurm/health-check"));
        command
            .env("PATH", &path)
            .env("SLURMD_NODENAME", "n1")
            .env("CUDA_PITFALLS_ACTION", action);
        assert_eq!(
            run(command.env("CUDA_PITFALLS_CONF", at.join("none"))).0,
            Some(0)
        );
        assert_eq!(read(&asked), wanted, "{action}:{code}:{line}");
    }
}

fn a_check_that_says_nothing_leaves_the_last_answer() {
    let scratch = Scratch::new();
    // No program: nothing can be reported, and nothing was reported before.
    let none = |scratch: &Scratch| {
        run(check(scratch, AS_EXPECTED).env("CUDA_PITFALLS", scratch.path().join("absent")))
    };
    let (code, line) = none(&scratch);
    assert_eq!((code, status(&scratch)), (Some(2), format!("2 {line}")));
    assert!(
        line.starts_with("no report: ") && line.len() <= LIMIT_BYTES,
        "{line}"
    );
    assert_eq!(run(&mut check(&scratch, NOT_AS_EXPECTED)).0, Some(1));
    let said = status(&scratch);
    assert_eq!(none(&scratch).0, Some(2));
    assert_eq!(status(&scratch), said);
}

fn a_check_ends_in_time() {
    let scratch = Scratch::new();
    let mut check = check(&scratch, "tests/selftest/hang-long.toml");
    let (code, line) = run(check
        .env("CUDA_PITFALLS_SECONDS", "4")
        .env("CUDA_PITFALLS", PROGRAM));
    assert_eq!(code, Some(2), "{line}");
    assert!(
        line.contains("PARTIAL") && line.len() <= LIMIT_BYTES,
        "{line}"
    );
    scratch.assert_no_process_left();
}

fn a_reader_never_sees_a_part() {
    let scratch = Scratch::new();
    assert_eq!(run(&mut check(&scratch, AS_EXPECTED)).0, Some(0));
    let mut writers: Vec<_> = (0..2)
        .map(|_| {
            check(&scratch, AS_EXPECTED)
                .stdout(Stdio::null())
                .spawn()
                .expect("it starts")
        })
        .collect();
    let mut reads = 0;
    while reads <= 10
        || writers
            .iter_mut()
            .any(|writer| writer.try_wait().expect("it is ours").is_none())
    {
        assert!(status(&scratch).ends_with("as expected\n"));
        let metrics = read(&state(&scratch).join("cuda_pitfalls.prom"));
        assert!(
            metrics.ends_with("} 1\n") && metrics.starts_with("# HELP"),
            "{metrics}"
        );
        read_json::<Value>(state(&scratch).join("report.json"));
        reads += 1;
    }
}

fn promtool_accepts_the_metrics() {
    let scratch = Scratch::new();
    run(&mut check(&scratch, AS_EXPECTED));
    let real = root().join("reports/h200-x2");
    let real = run(Command::new(PROGRAM)
        .arg("render")
        .arg(real)
        .args(["--as", "prometheus"]))
    .1;
    for metrics in [read(&state(&scratch).join("cuda_pitfalls.prom")), real] {
        let file = scratch.file("metrics", metrics);
        let file = fs::File::open(file).expect("a file of our own");
        let output = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(file)
            .output()
            .expect("promtool starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The questions that need three GPUs, and the output about parts that do not apply, that fail, or that do not exist.
fn a_new_machine_is_measured_in_parts() {
    let scratch = Scratch::new();
    let measured = scratch.path().join("measured");
    let wanted = scratch.path().join("wanted");
    let lines = "--repeat 1 memory/context-cost\n--repeat 2 visibility/order-misspelt\n";
    fs::write(&wanted, lines).expect("it is written");
    let measure = |parts: &[&str], on: &str| {
        let mut command = Command::new(deploy("node/measure"));
        command
            .arg(&measured)
            .args(parts)
            .env("CUDA_PITFALLS", PROGRAM)
            .env("CUDA_PITFALLS_WANTED", &wanted)
            .env("CUDA_PITFALLS_ON", on);
        command.env("TMPDIR", scratch.path());
        let ran = command.current_dir(root()).output().expect("it starts");
        (
            ran.status.code(),
            String::from_utf8_lossy(&ran.stdout).into_owned(),
        )
    };
    let (code, said) = measure(&["many", "ranks", "fleet"], "sim:h200-x4");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with("many 0 ")
            && said.contains("ranks-4: not asked")
            && said.contains("fleet: not asked")
    );
    assert_eq!(read(&measured.join("parts")), said);
    let (_, said) = measure(&["wanted"], "sim:h200-x1");
    assert!(
        said.starts_with("wanted-1 0 ") && said.contains("\nwanted-2 0 "),
        "{said}"
    );
    let many = read(&measured.join("many.txt"));
    assert!(
        many.contains("host-number-means-another-gpu")
            && many.contains("1 question (2 variants) simulated")
            && many.contains("not modeled by the simulated machine: 1"),
        "{many}"
    );
    // A part that does not apply to a machine is not a failure; an error is.
    assert_eq!(measure(&["startup"], "sim:no-such-machine").0, Some(4));
    assert_eq!(measure(&["all-of-it"], "sim:h200-x1").0, Some(2));
}
