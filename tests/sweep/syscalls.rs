//! The n-th system call of the parent fails, at each point of one short run.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::trace::{self, Fault, Traced};
use crate::common::{Scratch, eventually};

/// The calls by name, with the errors that they may have.
const CALLS: [(&str, &[i64], i32, bool); 9] = [
    (
        "sendto",
        &[libc::SYS_sendto, libc::SYS_sendmsg],
        libc::EIO,
        false,
    ),
    (
        "recvfrom",
        &[libc::SYS_recvfrom, libc::SYS_recvmsg],
        libc::EIO,
        false,
    ),
    ("close", &[libc::SYS_close], libc::EIO, true),
    (
        "read",
        &[libc::SYS_read, libc::SYS_pread64],
        libc::EIO,
        false,
    ),
    (
        "write",
        &[libc::SYS_write, libc::SYS_writev],
        libc::ENOSPC,
        false,
    ),
    (
        "fsync",
        &[libc::SYS_fsync, libc::SYS_fdatasync],
        libc::EIO,
        false,
    ),
    (
        "renameat",
        &[libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2],
        libc::EIO,
        false,
    ),
    (
        "openat",
        &[libc::SYS_open, libc::SYS_openat],
        libc::EIO,
        false,
    ),
    (
        "unlinkat",
        &[libc::SYS_unlink, libc::SYS_unlinkat, libc::SYS_rmdir],
        libc::EIO,
        false,
    ),
];

/// A run that takes longer hangs. Some waits for an answer that was lost take 20 s.
const LONGEST: Duration = Duration::from_secs(600);

/// Runs a program with a fault, and returns its end, its output, and its error messages.
fn run(scratch: &Scratch, mut command: Command, fault: Fault) -> (Traced, String, String) {
    let paths = ["stdout", "stderr"].map(|name| scratch.path().join(name));
    let [out, err] = paths
        .each_ref()
        .map(|path| File::create(path).expect("a file of our own"));
    command.stdout(out).stderr(err);
    let traced = trace::run(command, fault, LONGEST);
    let [printed, said] = paths.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    (traced, printed, said)
}

/// Makes a run with a fault, and returns its end, and what is wrong with it.
fn run_with(fault: Fault) -> (Traced, Option<String>) {
    let scratch = Scratch::new();
    let command = scratch.simulating(
        "sim:h200-x1",
        &["tests/selftest/clean.toml"],
        &["--repeat", "1"],
    );
    let (traced, printed, said) = run(&scratch, command, fault);
    let wrong = wrong_in(&scratch, &traced, &printed);
    let wrong = wrong.map(|wrong| {
        format!(
            "{wrong}; code {:?}; {}",
            traced.code,
            said.trim().replace('\n', " | ")
        )
    });
    // The processes of a parent that was killed end a moment after it.
    eventually("no process is left", LONGEST, || {
        scratch.processes().is_empty().then_some(())
    });
    (traced, wrong)
}

fn wrong_in(scratch: &Scratch, traced: &Traced, printed: &str) -> Option<String> {
    if traced.hung {
        return Some("it did not end".to_string());
    }
    let Some(code) = traced.code else {
        return Some("a signal ended it".to_string());
    };
    if ![0, 2, 3, 4, 6, 70, 74].contains(&code) {
        return Some("an exit code that means nothing".to_string());
    }
    let stored = scratch.stored();
    if code == 0 && !stored.as_ref().is_some_and(|report| report.complete) {
        return Some("success without a report".to_string());
    }
    if let Some(exit) = stored.and_then(|report| report.run.exit)
        && exit.code != code
    {
        return Some(format!("the report says {}", exit.code));
    }
    // What could not be printed is exit code 74, and may be cut off.
    let document: Option<Value> = serde_json::from_str(printed).ok();
    let said = document.as_ref().and_then(|it| {
        it.pointer("/run/exit/code")
            .or_else(|| it.pointer("/exit/code"))
    });
    match said.and_then(Value::as_i64) {
        Some(said) if said != i64::from(code) && code != 74 => Some(format!("stdout says {said}")),
        None if code != 74 => Some(format!("no document on stdout: {printed:?}")),
        _ => None,
    }
}

/// The run that is swept, and its exit code without a fault.
type Swept = (fn(Fault) -> (Traced, Option<String>), i32);
const RUN: Swept = (run_with, 0);
const TRACE: Swept = (one_trace, 5);

/// Fails the calls of these names at points.
fn sweep((swept, code): Swept, names: &[&str], points: impl Fn(u64) -> Vec<u64>) {
    let mut wrong = Vec::new();
    let mut all = 0;
    for (name, calls, errno, made) in CALLS.into_iter().filter(|(name, ..)| names.contains(name)) {
        let fault = |nth| Fault {
            calls,
            nth,
            errno,
            made,
            lasts: false,
        };
        let (none, wrong_without) = swept(fault(0));
        assert_eq!((none.code, wrong_without), (Some(code), None), "{name}");
        assert!(none.calls > 0, "it makes no {name}");
        for nth in points(none.calls) {
            all += 1;
            wrong.extend(
                swept(fault(nth))
                    .1
                    .map(|wrong| format!("{name} {nth} of {}: {wrong}", none.calls)),
            );
        }
        println!("{name}: {} calls", none.calls);
    }
    assert!(
        wrong.is_empty(),
        "{} of {all} points:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns a few points of each, spread over the run.
fn few(count: u64) -> Vec<u64> {
    let mut points = vec![1, count / 3, count * 2 / 3, count];
    points.retain(|point| *point > 0);
    points.dedup();
    points
}

fn every(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

#[test]
fn failed_syscall_ends_in_report_or_error() {
    std::thread::scope(|scope| {
        let channels =
            scope.spawn(|| sweep(RUN, &["sendto", "recvfrom", "close", "unlinkat"], few));
        sweep(RUN, &["read", "write", "fsync", "renameat", "openat"], few);
        channels.join().expect("every point ended well");
    });
}

/// Makes a trace with a fault, and returns its end, and what is wrong with it.
fn one_trace(fault: Fault) -> (Traced, Option<String>) {
    let scratch = Scratch::new();
    let out = scratch.at("traces");
    let command = scratch.command(&[
        "trace",
        "--on",
        "sim:h200-x1",
        "--out",
        &out,
        "--",
        "sh",
        "-c",
        "exit 5",
    ]);
    let (traced, _, said) = run(&scratch, command, fault);
    // The program's own code; or nothing was started, and the reason is reported.
    let is_right = match traced.code {
        Some(5) => true,
        Some(70 | 74 | 126) => said.contains("cuda-pitfalls: "),
        _ => false,
    };
    let is_right = is_right && !traced.hung && !said.contains("panicked");
    let wrong = (!is_right).then(|| format!("{traced:?}: {}", said.trim().replace('\n', " | ")));
    eventually("no process is left", LONGEST, || {
        scratch.processes().is_empty().then_some(())
    });
    (traced, wrong)
}

/// All calls but `recvfrom`: the standard library panics where the pipe to a process that it starts fails, which is all
/// that a tracer receives from.
const OF_A_TRACER: [&str; 8] = [
    "sendto", "close", "read", "write", "fsync", "renameat", "openat", "unlinkat",
];

#[test]
fn a_failed_call_of_a_tracer_leaves_the_program_its_exit_code() {
    // The twelfth belongs to a directory; the standard library panics if closing it fails.
    let points = |count| {
        let mut points = few(count);
        points.push(12);
        points.retain(|nth| *nth <= count);
        points
    };
    let (first, second) = OF_A_TRACER.split_at(4);
    std::thread::scope(|scope| {
        scope.spawn(|| sweep(TRACE, first, points));
        sweep(TRACE, second, points);
    });
}

#[test]
#[ignore = "minutes"]
fn every_call_of_a_tracer_may_fail() {
    sweep(TRACE, &OF_A_TRACER, every);
}

#[test]
fn channels_that_stay_broken_end_a_run_soon() {
    let fault = |nth| Fault {
        calls: &[libc::SYS_sendto],
        nth,
        errno: libc::EPIPE,
        made: false,
        lasts: true,
    };
    let (none, _) = run_with(fault(0));
    for nth in few(none.calls) {
        let (_, wrong) = run_with(fault(nth));
        assert_eq!(wrong, None, "from {nth} of {} on", none.calls);
        let (traced, wrong) = one_trace(fault(nth));
        assert_eq!(wrong, None, "{traced:?}: from {nth} on");
    }
}

macro_rules! every_point {
    ($($test:ident $name:literal)*) => {$(
        #[test]
        #[ignore = "minutes"]
        fn $test() {
            sweep(RUN, &[$name], every);
        }
    )*};
}

every_point! {
    every_sendto_may_fail "sendto"
    every_recvfrom_may_fail "recvfrom"
    every_close_may_fail "close"
    every_read_may_fail "read"
    every_write_may_fail "write"
    every_fsync_may_fail "fsync"
    every_rename_may_fail "renameat"
    every_open_may_fail "openat"
    every_unlink_may_fail "unlinkat"
}
