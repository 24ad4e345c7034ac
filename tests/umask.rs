//! Other users cannot write to any file or folder that the program creates, whatever the umask of its caller, which the
//! caller's own program keeps.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::Scratch;

use crate::releases;

/// The caller's program: it prints its umask, creates a file with it, and lists the files that others can write to.
const LOOKS: &str =
    "umask > said; : > own; find \"$CUDA_PITFALLS_TRACED\" ! -type l ! -type s -perm /022 >> said";

/// Collects the files that others can write to below a directory. A link has no permissions. A socket takes messages of
/// a program that gave up root, and the tracer checks the sender.
fn writable_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // The file may already be deleted.
        let Ok(data) = entry.path().symlink_metadata() else {
            continue;
        };
        let is_told = data.is_symlink() || data.file_type().is_socket();
        if !is_told && data.permissions().mode() & 0o022 != 0 {
            found.push(entry.path());
        }
        if data.is_dir() {
            writable_in(&entry.path(), found);
        }
    }
}

/// Runs a command with a umask of 0, and returns the files that others could write to while it ran or after.
fn writable_during(scratch: &Scratch, mut command: Command) -> Vec<PathBuf> {
    let home = scratch.path().join("home");
    fs::create_dir_all(&home).expect("a folder of our own");
    command.env("HOME", &home).stdout(Stdio::null());
    // SAFETY: umask is a system call, which allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::umask(0);
            Ok(())
        });
    }
    let mut child = command.spawn().expect("the program starts");
    let mut found = Vec::new();
    loop {
        let ended = child.try_wait().expect("a child of ours");
        writable_in(scratch.path(), &mut found);
        if ended.is_some() {
            found.sort_unstable();
            found.dedup();
            return found;
        }
    }
}

#[test]
fn others_can_write_to_nothing_that_a_trace_creates() {
    let subcommands: [&[&str]; 2] = [&["trace", "--on", "sim", "--out", "trace"], &["sim"]];
    for arguments in subcommands {
        let scratch = Scratch::new();
        let mut command = scratch.command(&[arguments, &["--", "sh", "-c", LOOKS]].concat());
        command.current_dir(scratch.path());
        let found = writable_during(&scratch, command);
        let said = fs::read_to_string(scratch.path().join("said")).expect("the program ran");
        assert_eq!(
            said.trim(),
            "0000",
            "{arguments:?}: its umask, and what others can write to"
        );
        let own = ["own", "said"].map(|name| scratch.path().join(name));
        assert_eq!(found, own, "{arguments:?}");
    }
}

#[test]
fn others_can_write_to_nothing_that_a_run_or_an_examination_creates() {
    let subcommands: [&[&str]; 3] = [
        &[
            "run",
            "context",
            "--on",
            "sim",
            "--out",
            "reports",
            "--junit",
            "junit.xml",
        ],
        &["doctor", "--on", "sim"],
        &[
            "survey", "calls", "--on", "sim", "--out", "survey", "cuInit",
        ],
    ];
    for arguments in subcommands {
        let scratch = Scratch::new();
        let mut command = scratch.command(arguments);
        command.current_dir(scratch.path());
        let found = writable_during(&scratch, command);
        assert!(found.is_empty(), "{arguments:?}: {found:?}");
    }
}

#[test]
fn others_can_write_to_nothing_that_a_bisection_creates() {
    let scratch = Scratch::new();
    let said = scratch.at("said");
    let code = format!(
        "import os, subprocess; os.chdir({:?}); subprocess.run(['sh', '-c', {LOOKS:?}])",
        scratch.path()
    );
    let work = scratch.at("work");
    fs::create_dir(&work).expect("a folder of our own");
    let package = [
        "--package",
        "framework",
        "--good",
        "1",
        "--bad",
        "2",
        "--forbid",
        "cuinit",
    ];
    let arguments = [
        &["bisect", "--on", "sim", "--work", &work][..],
        &package,
        &["--", "python", "-c", &code],
    ]
    .concat();
    let command = releases::command(&scratch, &arguments);
    let found = writable_during(&scratch, command);
    let said = fs::read_to_string(said).expect("the program ran");
    assert!(
        said.lines().all(|line| line == "0000") && !said.is_empty(),
        "{said}"
    );
    assert_eq!(found, ["own", "said"].map(|name| scratch.path().join(name)));
}
