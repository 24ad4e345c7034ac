//! The program in a difficult environment: odd names of directories, a umask, limits, ignored signals, unrelated
//! descriptors.

use crate::common;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cuda_pitfalls::report::Report;
use cuda_pitfalls::simulated;
use cuda_pitfalls::verdict::Provenance;
use rustix::process::{Signal, geteuid};

use common::{LONGEST, Scratch, behind};

/// A machine with one GPU, the minimum for sampling.
const MACHINE: &str = "sim:h200-x1";

/// Names with which a line of `/proc/self/maps` cannot be split, or that are not text.
const ODD_NAMES: [&[u8]; 4] = [
    b"sp ace",
    b"new\nline",
    b"not-\xff-text",
    b"literal\\012escape",
];

/// Returns a directory of this name in that of the test.
fn folder(scratch: &Scratch, name: &[u8]) -> PathBuf {
    let folder = scratch.path().join(OsStr::from_bytes(name));
    fs::create_dir(&folder).expect("a folder of our own");
    folder
}

/// Returns the program on `tests/selftest/<stem>.toml`, its report in the test's directory.
fn command(scratch: &Scratch, on: &str, stem: &str) -> Command {
    let file = format!("tests/selftest/{stem}.toml");
    scratch.simulating(on, &[&file], &["--repeat", "1"])
}

/// Fails unless everything says that nothing was measured.
fn is_simulated(report: &Report) {
    assert_eq!(report.provenance, Provenance::Simulated);
    assert!(
        report
            .scenarios
            .iter()
            .all(|scenario| scenario.verdict.provenance == Provenance::Simulated)
    );
    assert!(
        report
            .machine
            .libraries
            .iter()
            .any(|library| library.simulated),
        "{:?}",
        report.machine.libraries
    );
}

#[test]
fn a_simulated_run_is_never_reported_as_measured() {
    for name in ODD_NAMES {
        let scratch = Scratch::new();
        let mut command = command(&scratch, MACHINE, "clean");
        command.env("TMPDIR", folder(&scratch, name));
        let ran = scratch.ran(command);
        let text = String::from_utf8_lossy(name);
        let report: Report =
            serde_json::from_value(ran.json()).unwrap_or_else(|error| panic!("{text}: {error}"));
        is_simulated(&report);
        ran.ended(0, "ok");
    }
}

#[test]
fn libraries_of_the_simulated_machine_are_known_wherever_they_come_from() {
    for name in ODD_NAMES {
        let scratch = Scratch::new();
        let links = simulated::lay_out("h200-x1", &folder(&scratch, name)).expect("a machine");
        let mut command = command(&scratch, "cuda", "clean");
        command.env("LD_LIBRARY_PATH", links);
        let ran = scratch.ran(command);
        is_simulated(&serde_json::from_value(ran.json()).expect("a report"));
    }
}

#[test]
fn a_libcuda_that_cannot_be_used_is_refused() {
    let scratch = Scratch::new();
    let links = simulated::lay_out("h200-x1", &folder(&scratch, b"node")).expect("a machine");
    let no_library = folder(&scratch, b"text").join("libcuda.so.1");
    fs::write(&no_library, "text").expect("a file of text");
    let (simulated, absent) = (links.join("libcuda.so.1"), links.join("libcuda.so.9"));
    for (on, path, why) in [
        ("cuda", &absent, "libcuda.so.9: No such file"),
        (
            "cuda",
            &no_library,
            "libcuda.so.1: the loader cannot load this file",
        ),
        ("cuda", &simulated, "belongs to the simulated machine"),
        (
            MACHINE,
            &simulated,
            "the simulated machine has its own libcuda",
        ),
    ] {
        let mut command = command(&scratch, on, "clean");
        command.arg("--libcuda").arg(path);
        let ran = scratch.ran(command).ended(2, "usage");
        let error = ran.json()["error"].as_str().unwrap_or_default().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_name_that_the_loader_would_split_is_refused() {
    for (name, byte) in [("a:b", ':'), ("a;b", ';'), ("$LIB", '$')] {
        let scratch = Scratch::new();
        let mut command = command(&scratch, MACHINE, "clean");
        command.env("TMPDIR", folder(&scratch, name.as_bytes()));
        let ran = scratch.ran(command).ended(2, "usage");
        let error = ran.json()["error"].as_str().unwrap_or_default().to_string();
        assert!(
            error.contains("TMPDIR") && error.contains(&format!("`{byte}`")),
            "{error}"
        );
    }
}

/// Returns the private directory of a run that is under way.
fn private_folder(scratch: &Scratch) -> Option<PathBuf> {
    let mut entries = fs::read_dir(scratch.path()).ok()?.flatten();
    entries
        .find(|entry| entry.file_name().as_bytes().starts_with(b"cuda-pitfalls-"))
        .map(|entry| entry.path())
}

/// Checks the mode of a run's private folder while the run waits.
fn check_private_folder(umask: &str) {
    let scratch = Scratch::new();
    let masked = ["sh", "-c", &format!("umask {umask} && exec \"$@\""), "sh"];
    let running = scratch.start(behind(&masked, &command(&scratch, MACHINE, "wait")));
    scratch.sleeper();
    let folder = private_folder(&scratch).expect("the folder of the run");
    let mode = fs::metadata(&folder)
        .expect("the folder")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o700, "umask {umask}");
    running.wait(LONGEST).ended(0, "ok");
}

#[test]
fn the_private_folder_is_private_whatever_the_umask() {
    // With this mask, only root can write into the folders that it creates.
    let strict = if geteuid().is_root() { "277" } else { "77" };
    std::thread::scope(|scope| {
        for umask in ["0", strict] {
            scope.spawn(move || check_private_folder(umask));
        }
    });
}

#[test]
fn file_size_limit_fails_report_without_killing_processes() {
    let scratch = Scratch::new();
    let running = scratch.start(command(&scratch, MACHINE, "wait"));
    scratch.sleeper();
    let limit = libc::rlimit {
        rlim_cur: 64,
        rlim_max: 64,
    };
    // SAFETY: the limits are a live struct, and the process is our child.
    let set = unsafe {
        libc::prlimit(
            running.pid(),
            libc::RLIMIT_FSIZE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(set, 0);
    let ran = running.wait(LONGEST);
    assert_eq!(ran.code, Some(74), "{ran:#?}");
    scratch.assert_no_process_left();
}

/// Listing a directory takes a descriptor, and none may be left when it was made.
#[test]
fn a_folder_that_a_program_without_descriptors_leaves_is_named() {
    let scratch = Scratch::new();
    let first = (4..40).find(|limit| {
        let run = scratch.simulating(MACHINE, &["memory/context-cost"], &["--quick"]);
        let ran = scratch.ran(behind(
            &["sh", "-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"],
            &run,
        ));
        let left = common::names_in(scratch.path());
        let unnamed = left
            .iter()
            .find(|name| name.starts_with("cuda-pitfalls-") && !ran.stderr.contains(*name));
        assert_eq!(unnamed, None, "with {limit}: {}", ran.stderr);
        left.iter()
            .filter(|name| name.starts_with("cuda-pitfalls-"))
            .for_each(|name| {
                let _ = fs::remove_dir_all(scratch.path().join(name));
            });
        !matches!(ran.code, Some(2 | 70 | 127))
    });
    assert!(
        first.is_some_and(|limit| limit > 10),
        "{first:?}: no limit was in its way"
    );
}

/// Starts the program with signals ignored, as `nohup` and some shells do.
fn ignoring(scratch: &Scratch, signals: &str, stem: &str) -> Command {
    behind(
        &["env", &format!("--ignore-signal={signals}")],
        &command(scratch, MACHINE, stem),
    )
}

#[test]
fn a_caller_that_ignores_sigchld_spoils_nothing() {
    let scratch = Scratch::new();
    scratch
        .ran(ignoring(&scratch, "CHLD", "processes"))
        .ended(0, "ok");
}

#[test]
fn signals_that_the_caller_ignores_do_not_end_a_run() {
    let scratch = Scratch::new();
    let running = scratch.start(ignoring(&scratch, "HUP,INT", "wait"));
    scratch.sleeper();
    running.signal(Signal::HUP);
    running.signal(Signal::INT);
    running.wait(LONGEST).ended(0, "ok");
}

#[test]
fn descriptors_of_the_caller_reach_no_process_of_a_run() {
    let scratch = Scratch::new();
    let secret = scratch.path().join("secret");
    let file = fs::File::create(&secret).expect("a file of our own");
    let mut command = command(&scratch, MACHINE, "wait");
    let fd = file.as_raw_fd();
    // SAFETY: a copy of a descriptor, without the flag that closes it at exec.
    unsafe {
        command.pre_exec(move || {
            if libc::dup2(fd, 77) == 77 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let running = scratch.start(command);
    scratch.sleeper();
    let children = scratch.processes();
    assert!(
        ["__worker", "__sampler"]
            .iter()
            .all(|role| children.iter().any(|(_, line)| line.contains(role)))
    );
    for (pid, line) in children.iter().filter(|(_, line)| line.contains("__")) {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten();
        let open: Vec<OsString> = open
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(PathBuf::into_os_string)
            .collect();
        assert!(
            !open.contains(&OsString::from_vec(secret.as_os_str().as_bytes().to_vec())),
            "{line}: {open:?}"
        );
    }
    running.wait(LONGEST).ended(0, "ok");
}

#[test]
fn a_pipe_named_lock_holds_nobody() {
    let scratch = Scratch::new();
    let other = folder(&scratch, b"cuda-pitfalls-pipe");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).expect("ours");
    assert!(
        Command::new("mkfifo")
            .arg(other.join("lock"))
            .status()
            .expect("mkfifo runs")
            .success()
    );
    scratch
        .ran(command(&scratch, MACHINE, "clean"))
        .ended(0, "ok");
    assert!(other.join("lock").exists(), "it is not ours to remove");
}
