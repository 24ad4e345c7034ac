//! Runs that are interrupted: by Ctrl-C, by SIGTERM, by SIGKILL, by a report that cannot be written.
//! Whatever happens, no process is left, and the file on disk is a complete document.

use crate::common;

use std::fs;
use std::path::Path;

use cuda_pitfalls::judge::rejudge;
use cuda_pitfalls::report::Report;
use cuda_pitfalls::verdict::{Kind, Reason};
use rustix::process::Signal;

use common::{LONGEST, Ran, Running, Scratch, eventually, part};

/// A machine with one GPU, the minimum for sampling.
const MACHINE: &str = "sim:h200-x1";

/// Starts a run of a scenario that ends and one of `tests/selftest` that does not, and returns in
/// the middle of the second.
fn in_the_middle_of(scratch: &Scratch, stem: &str) -> Running {
    let file = format!("tests/selftest/{stem}.toml");
    let selectors = ["tests/selftest/clean.toml", &file];
    let running = scratch.start(scratch.simulating(MACHINE, &selectors, &["--repeat", "1"]));
    eventually("the first scenario's result is on disk", LONGEST, || {
        scratch.stored().filter(|report| {
            report
                .scenarios
                .first()
                .is_some_and(|done| done.verdict.kind.is_conclusive())
        })
    });
    scratch.sleeper();
    running
}

/// Checks the report of an interrupted run: it has the scenario that had ended, in full, and does not claim that the
/// run finished.
fn is_partial(report: &Report) {
    assert!(!report.complete);
    assert_eq!(
        part(report, "selftest/clean").verdict.kind,
        Kind::Reproduced
    );
    let others = report
        .scenarios
        .iter()
        .filter(|scenario| scenario.name != "selftest/clean");
    assert!(
        others
            .into_iter()
            .all(|scenario| !scenario.verdict.kind.is_conclusive())
    );
}

fn interrupted_by(signal: Signal, stem: &str) -> (Ran, Report) {
    let scratch = Scratch::new();
    let running = in_the_middle_of(&scratch, stem);
    running.signal(signal);
    let ran = running.wait(LONGEST);
    scratch.assert_no_process_left();
    let report = scratch
        .stored()
        .expect("a report is on disk and can be read");
    is_partial(&report);
    assert_eq!(
        ran.json(),
        serde_json::to_value(&report).expect("JSON"),
        "stdout and the disk say the same"
    );
    (ran, report)
}

#[test]
fn ctrl_c_leaves_a_partial_report_and_exit_code_130() {
    let (ran, report) = interrupted_by(Signal::INT, "hang-long");
    ran.ended(130, "interrupted");
    assert_eq!(report.run.interrupted.as_deref(), Some("SIGINT"));
    let attempts = report
        .scenarios
        .iter()
        .flat_map(|it| &it.cases)
        .flat_map(|case| &case.attempts);
    let broken_off = attempts
        .filter(|attempt| !attempt.judged.invalid.is_empty())
        .count();
    assert_eq!(
        broken_off, 1,
        "the attempt under way is kept, and does not count"
    );
}

#[test]
fn another_signal_leaves_a_partial_report_and_exit_code_131_or_143() {
    for (signal, name, code) in [
        (Signal::QUIT, "SIGQUIT", 131),
        (Signal::USR1, "SIGUSR1", 143),
    ] {
        let (ran, report) = interrupted_by(signal, "hang-long");
        ran.ended(code, "interrupted");
        assert_eq!(report.run.interrupted.as_deref(), Some(name));
    }
}

/// A pipe in place of a library: opening it blocks until there is a writer, like a constructor that does not return.
#[test]
fn signals_end_a_run_stuck_in_a_library() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = Scratch::new();
        let pipe = scratch.at("libcudart.so");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU)
            .expect("a pipe of our own");
        let running = scratch.start(scratch.command(&[
            "run",
            "all",
            "--on",
            "cuda",
            "--dry-run",
            "--libcudart",
            &pipe,
        ]));
        eventually("a process opens the library", LONGEST, || {
            let mut all = scratch.processes().into_iter();
            all.find(|(_, line)| line.contains("__versions") && line.contains(&pipe))
        });
        running.signal(signal);
        running.wait(LONGEST).ended(code, "interrupted");
        scratch.assert_no_process_left();
    }
}

/// A single round of five does not give an answer. The report has the planned and the completed attempts, and it can
/// be judged again.
#[test]
fn scenario_interrupted_in_first_rounds_has_no_verdict() {
    let scratch = Scratch::new();
    let selectors =
        ["clean", "hang-long", "wait"].map(|stem| format!("tests/selftest/{stem}.toml"));
    let selectors = selectors.each_ref().map(String::as_str);
    let running = scratch.start(scratch.simulating(MACHINE, &selectors, &["--repeat", "5"]));
    scratch.sleeper();
    running.signal(Signal::INT);
    running
        .wait(LONGEST)
        .ended(130, "interrupted")
        .says("interrupted: 1 not run, 2 not finished\n")
        .says("\nNo question has an answer.\n");
    let mut report = scratch
        .stored()
        .expect("a report is on disk and can be read");
    for _ in 0..2 {
        let clean = part(&report, "selftest/clean");
        assert_eq!(
            (clean.verdict.kind, clean.verdict.reason),
            (Kind::Inconclusive, Some(Reason::Interrupted))
        );
        assert_eq!(
            clean.verdict.detail,
            "1 of 5 planned attempts of each case were made"
        );
        let plan = clean.plan.as_ref().expect("it was planned");
        assert_eq!((plan.repeat, plan.planned), (1, Some(5)));
        rejudge(&mut report);
    }
}

/// The fourth attempt at the trap does not end.
const LAST_HANGS: &str = r#"
question = "Is the last round left out?"
belief   = "No."
repeat   = 4
effect   = [{ at = "count", status = "OSError" }]

[cases.trap]
does   = "counts its attempts in a file"
python = { needs = ["python >= 3.9"] }
steps  = [
  { py = "count = open('COUNT', 'a+'); count.write('x'); count.flush(); count.seek(0); made = count.read()" },
  { py = "import time; time.sleep(600 if made == 'xxxx' else 0)", label = "count" },
]

[cases.control]
does   = "does nothing"
python = { needs = ["python >= 3.9"] }
steps  = [{ py = "1", label = "count" }]
"#;

#[test]
fn scenario_interrupted_in_last_round_has_no_verdict() {
    let scratch = Scratch::new();
    let count = scratch.at("count");
    let file = scratch.file("last-hangs.toml", LAST_HANGS.replace("COUNT", &count));
    let running = scratch.start(scratch.simulating(MACHINE, &[&file], &["--allow", "code"]));
    eventually("the last round has begun", LONGEST, || {
        fs::read_to_string(&count)
            .ok()
            .filter(|made| made == "xxxx")
    });
    running.signal(Signal::INT);
    running.wait(LONGEST).ended(130, "interrupted");
    let report = scratch
        .stored()
        .expect("a report is on disk and can be read");
    assert_eq!(
        report.scenarios[0].verdict.detail,
        "3 of 4 planned attempts of each case were made"
    );
    let plan = report.scenarios[0].plan.as_ref().expect("it was planned");
    assert_eq!((plan.repeat, plan.planned), (3, Some(4)));
}

#[test]
fn ctrl_c_ends_a_worker_that_is_deaf_to_sigterm_too() {
    interrupted_by(Signal::INT, "hang-long-deaf")
        .0
        .ended(130, "interrupted");
}

/// Nobody is left to clean up: the kernel and the closed channels have to do it.
#[test]
fn killed_parent_takes_all_run_processes_along() {
    let killed = |stem: &str| {
        let scratch = Scratch::new();
        let running = in_the_middle_of(&scratch, stem);
        assert!(
            scratch.processes().len() >= 3,
            "parent, sampler, worker: {:?}",
            scratch.processes()
        );
        running.signal(Signal::KILL);
        assert_eq!(running.wait(LONGEST).code, None);
        let what = format!("worker and sampler of {stem} are dead");
        eventually(&what, LONGEST, || {
            scratch.processes().is_empty().then_some(())
        });
        is_partial(
            &scratch
                .stored()
                .expect("a report is on disk and can be read"),
        );
    };
    // A worker, one that ignores SIGTERM, and processes by fork, by exec, by vfork, and in another session.
    let stems = [
        "hang-long",
        "hang-long-deaf",
        "child-hangs-long",
        "spawned-hangs-long",
        "vforked-hangs-long",
    ];
    stems
        .into_iter()
        .chain(["session-hangs-long"])
        .for_each(killed);
}

/// Checks that a report that cannot be written is not a success, and still one document on stdout.
fn not_durable(ran: Ran) {
    let ran = ran.ended(74, "not_durable");
    assert_eq!(ran.json()["exit"]["code"], 74);
    assert!(
        ran.json()["error"]
            .as_str()
            .is_some_and(|error| error.contains("cannot"))
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_exit_code_74() {
    // The second is denied to root too, who can write to a directory without write permission.
    for out in ["/dev/full/x", "/proc/x"] {
        let scratch = Scratch::new();
        let file = "tests/selftest/clean.toml";
        not_durable(scratch.run(&[
            "run", file, "--on", MACHINE, "--repeat", "1", "--json", "--out", out,
        ]));
        scratch.assert_no_process_left();
    }
}

#[test]
fn a_folder_that_goes_away_during_the_run_is_exit_code_74() {
    let scratch = Scratch::new();
    let selectors = ["tests/selftest/clean.toml", "tests/selftest/wait.toml"];
    let running = scratch.start(scratch.simulating(MACHINE, &selectors, &["--repeat", "1"]));
    eventually("a report is on disk", LONGEST, || scratch.stored());
    fs::remove_dir_all(scratch.reports()).expect("the folder can be removed");
    not_durable(running.wait(LONGEST));
    scratch.assert_no_process_left();
}

#[test]
fn a_junit_file_that_cannot_be_opened_is_known_before_anything_runs() {
    let scratch = Scratch::new();
    let file = "tests/selftest/clean.toml";
    let ran = scratch
        .run(&[
            "run",
            file,
            "--on",
            MACHINE,
            "--json",
            "--junit",
            "/proc/x/junit.xml",
            "--out",
            "/dev/full",
        ])
        .ended(2, "usage");
    assert!(
        ran.json()["error"]
            .as_str()
            .is_some_and(|error| error.contains("--junit"))
    );
}

#[test]
fn irregular_junit_file_is_rejected_and_untouched() {
    let scratch = Scratch::new();
    let pipe = scratch.at("pipe.xml");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    for path in ["/dev/full", &pipe] {
        let more = ["--repeat", "1", "--junit", path];
        // A pipe without a reader would block a process that opens it for writing.
        scratch
            .simulated(MACHINE, &["tests/selftest/clean.toml"], &more)
            .ended(2, "usage");
        assert!(
            Path::new(path).exists(),
            "a device must not be replaced by a file"
        );
    }
}

/// A file left by a previous run, which CI would take for success.
const STALE: &str = "<testsuites tests=\"1\" failures=\"0\" errors=\"0\"/>";

#[test]
fn a_junit_file_of_a_run_before_does_not_outlive_this_one() {
    let scratch = Scratch::new();
    let junit = scratch.file("junit.xml", STALE);
    let selectors = ["tests/selftest/clean.toml", "tests/selftest/hang-long.toml"];
    let running = scratch.start(scratch.simulating(
        MACHINE,
        &selectors,
        &["--repeat", "1", "--junit", &junit],
    ));
    eventually("a report is on disk", LONGEST, || scratch.stored());
    running.signal(Signal::KILL);
    running.wait(LONGEST);
    let left = fs::read_to_string(&junit).expect("the file is there");
    assert!(
        left.contains("errors=\"1\""),
        "a killed run looks like a success: {left}"
    );
    // The same where the report cannot be written: it is exit code 74, and no success.
    fs::write(&junit, STALE).expect("a file of our own");
    let file = "tests/selftest/clean.toml";
    not_durable(scratch.run(&[
        "run",
        file,
        "--on",
        MACHINE,
        "--json",
        "--junit",
        &junit,
        "--out",
        "/dev/full/x",
    ]));
    let left = fs::read_to_string(&junit).expect("the file is there");
    assert!(
        left.contains("errors=\"1\"") && left.contains("cannot"),
        "{left}"
    );
}

#[test]
fn failed_output_gives_same_exit_code_on_disk() {
    let scratch = Scratch::new();
    let mut command = scratch.simulating(MACHINE, &["tests/selftest/clean.toml"], &[]);
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let status = command
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .expect("the program starts");
    assert_eq!(status.code(), Some(74));
    let exit = scratch
        .stored()
        .expect("the report is whole")
        .run
        .exit
        .expect("the run ended");
    assert_eq!(exit.code, 74);
}
