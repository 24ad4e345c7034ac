//! Processes that are held: a parent that is stopped, a worker in a debugger, a sampler that does not answer, a reader
//! that does not read. Nothing is concluded from it, and nothing waits forever.

use crate::common;

use std::fs;
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cuda_pitfalls::verdict::{Kind, Reason};
use rustix::process::{Pid, Signal, kill_process};

use common::{LONGEST, PROGRAM, Running, Scratch, eventually, is_in_call, part};

/// A machine with one GPU, the minimum for sampling.
const MACHINE: &str = "sim:h200-x1";
/// System calls with which a process waits for an answer.
#[cfg(target_arch = "x86_64")]
const WAITS: [i64; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const WAITS: [i64; 1] = [libc::SYS_ppoll];
/// Time that a run waits for its sampler to answer, unless a signal ends it.
const ANSWER: Duration = Duration::from_secs(20);

fn start(scratch: &Scratch, selectors: &[&str], more: &[&str]) -> Running {
    scratch.start(scratch.simulating(MACHINE, selectors, more))
}

/// Waits for a process of a run, and returns its PID.
fn pid_of(scratch: &Scratch, role: &str) -> i32 {
    eventually(role, Duration::from_secs(30), || {
        scratch
            .processes()
            .into_iter()
            .find(|(_, line)| line.contains(role))
            .map(|(pid, _)| pid)
    })
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a PID is not 0"), signal).expect("it can be signalled");
}

/// Stops the parent of a run for longer than an attempt may take, `after` a worker was seen, and checks that the
/// worker did not miss a deadline.
fn stop_parent(after: Duration) {
    let scratch = Scratch::new();
    let running = start(
        &scratch,
        &["tests/selftest/slow-answer.toml"],
        &["--repeat", "4"],
    );
    eventually("the first scenario is under way", LONGEST, || {
        scratch.stored()
    });
    pid_of(&scratch, "__worker");
    std::thread::sleep(after);
    running.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(4500));
    running.signal(Signal::CONT);
    let ran = running.wait(LONGEST);
    let report = scratch.stored().expect("a report");
    let verdict = &part(&report, "selftest/slow-answer").verdict;
    assert_eq!(
        verdict.kind,
        Kind::NotReproduced,
        "{after:?}: {} {}",
        verdict.detail,
        ran.stderr
    );
}

#[test]
fn a_stop_of_the_parent_is_no_deadline_of_the_worker() {
    // At another moment of an attempt each time.
    std::thread::scope(|scope| {
        for milliseconds in [0, 70, 140] {
            scope.spawn(move || stop_parent(Duration::from_millis(milliseconds)));
        }
    });
}

#[test]
fn a_worker_that_a_debugger_holds_is_given_up() {
    assert!(is_given_up([
        "tests/selftest/hang.toml",
        "tests/selftest/clean.toml"
    ]));
}

/// The first of the two workers looks for needs.
#[test]
fn stuck_needs_worker_is_abandoned_once() {
    // A worker that only looks for needs leaves soon. A worker that exited before it was held shows nothing.
    while !is_given_up(["tests/selftest/clean.toml", "tests/selftest/hang.toml"]) {}
}

/// Holds every worker of a run. Returns `true` if that happened in time, before the first scenario was answered.
fn is_given_up(selectors: [&str; 2]) -> bool {
    let scratch = Scratch::new();
    let running = start(&scratch, &selectors, &["--repeat", "1"]);
    // Every worker is held, as a debugger that stops at exit would: it is never reaped by us.
    let started = Instant::now();
    let mut held = std::collections::BTreeSet::new();
    while started.elapsed() < LONGEST && is_running(running.pid()) {
        for (pid, _) in scratch
            .processes()
            .into_iter()
            .filter(|(_, line)| line.contains("__worker"))
        {
            if held.insert(pid) {
                // SAFETY: tracing a process of this test.
                unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0usize, 0usize) };
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let ran = running.wait(LONGEST);
    assert!(!held.is_empty());
    ran.ended(6, "host_unsafe");
    let report = scratch.stored().expect("a report");
    assert!(report.complete && report.run.host_unsafe.is_some());
    assert_eq!(report.run.exit.map(|exit| exit.code), Some(6));
    let in_time = report
        .scenarios
        .iter()
        .all(|scenario| scenario.verdict.kind != Kind::Reproduced);
    assert!(
        held.len() <= 4,
        "the host is unsafe after one such worker, and {} were started",
        held.len()
    );
    for pid in held {
        // SAFETY: the end of a process that was traced here.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    }
    in_time
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with('Z') && !rest.is_empty())
}

#[test]
fn ctrl_c_ends_a_run_whose_sampler_does_not_answer() {
    let scratch = Scratch::new();
    let running = start(
        &scratch,
        &["tests/selftest/hang-long.toml"],
        &["--repeat", "1"],
    );
    scratch.sleeper();
    signal(pid_of(&scratch, "__sampler"), Signal::STOP);
    let started = Instant::now();
    running.signal(Signal::INT);
    running.wait(LONGEST).ended(130, "interrupted");
    assert!(started.elapsed() < ANSWER, "{:?}", started.elapsed());
    scratch.assert_no_process_left();
    let report = scratch.stored().expect("a report");
    assert_eq!(report.run.interrupted.as_deref(), Some("SIGINT"));
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_its_sampler() {
    let scratch = Scratch::new();
    let running = start(
        &scratch,
        &["tests/selftest/clean.toml"],
        &["--repeat", "100"],
    );
    eventually("the first scenario is under way", LONGEST, || {
        scratch.stored()
    });
    signal(pid_of(&scratch, "__sampler"), Signal::STOP);
    let waits = || WAITS.iter().any(|call| is_in_call(running.pid(), *call));
    eventually("the run waits", LONGEST, || waits().then_some(()));
    let started = Instant::now();
    running.signal(Signal::INT);
    running.wait(LONGEST).ended(130, "interrupted");
    assert!(started.elapsed() < ANSWER, "{:?}", started.elapsed());
    assert!(scratch.stored().is_some_and(|report| !report.complete));
}

#[test]
fn a_lost_sampler_is_replaced_and_the_run_goes_on() {
    let scratch = Scratch::new();
    let running = start(
        &scratch,
        &["tests/selftest/wait.toml", "tests/selftest/clean.toml"],
        &["--repeat", "1"],
    );
    eventually("the report is there", LONGEST, || scratch.stored());
    scratch.sleeper();
    signal(pid_of(&scratch, "__sampler"), Signal::KILL);
    let ran = running.wait(Duration::from_secs(60));
    let report = scratch.stored().expect("a report");
    assert!(report.complete);
    let lost = &part(&report, "selftest/wait").verdict;
    assert_eq!(
        (lost.kind, lost.reason),
        (Kind::Inconclusive, Some(Reason::SamplerLost)),
        "{}",
        lost.detail
    );
    assert_eq!(
        part(&report, "selftest/clean").verdict.kind,
        Kind::Reproduced
    );
    ran.ended(3, "inconclusive");
}

#[test]
fn a_sampler_that_is_killed_at_its_start_is_started_again() {
    let scratch = Scratch::new();
    let running = start(&scratch, &["tests/selftest/clean.toml"], &["--repeat", "1"]);
    signal(pid_of(&scratch, "__sampler"), Signal::KILL);
    let ran = running.wait(Duration::from_secs(60));
    let report = scratch.stored().expect("a report");
    assert!(report.complete, "{}", ran.stderr);
    assert_ne!(ran.code, Some(70), "{}", ran.stderr);
}

/// Returns a pipe that is never read and that is full already.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the smallest buffer a pipe can have.
    unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    (reader, writer)
}

/// Returns `true` if a pipe has data.
fn has_output(reader: &std::io::PipeReader) -> bool {
    rustix::io::ioctl_fionread(reader).is_ok_and(|waiting| waiting > 0)
}

#[test]
fn ctrl_c_ends_a_run_whose_output_nobody_reads() {
    let scratch = Scratch::new();
    let (reader, writer) = full_pipe();
    let out = scratch.at("reports");
    let arguments = [
        "run",
        "visibility/*",
        "--on",
        MACHINE,
        "--quick",
        "--out",
        &out,
    ];
    let mut command = scratch.command(&arguments);
    command.stdout(writer).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    // What is printed at once is written as a whole, or waits: the pipe need not be full to the last byte. A run that
    // waits for its reader never has a worker; a run that does not wait yet ends by a signal just as well.
    let has_worker = || {
        scratch
            .processes()
            .iter()
            .any(|(_, line)| line.contains("__worker"))
    };
    let mut looks = 0;
    eventually("the run waits for a reader", LONGEST, || {
        looks = if has_output(&reader) && !has_worker() {
            looks + 1
        } else {
            0
        };
        (looks == 50).then_some(())
    });
    let started = Instant::now();
    signal(child.id() as i32, Signal::INT);
    let code = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status.code();
        }
        if started.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{PROGRAM} did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(130));
    assert!(scratch.stored().is_some_and(|report| !report.complete));
    drop(reader);
}
