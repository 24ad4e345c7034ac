//! Kernels and sandboxes that deny a system call: each command works there, or reports the problem and starts nothing.

use crate::common;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use common::traced::MAKES_A_CONTEXT;
use common::{Scratch, behind, has_all_rights};

/// Has the kernel answer a system call of a command with an error; if an argument is given, only where it has this value.
fn refuse(command: &mut Command, call: i64, errno: i32, argument: Option<(u32, u32)>) {
    let filter = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut program = vec![
        filter(load, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
    ];
    if let Some((index, value)) = argument {
        program[1].jf = 3;
        program.extend([
            filter(load, 0, 16 + 8 * index),
            filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, value),
        ]);
    }
    program.push(filter(
        libc::BPF_RET | libc::BPF_K,
        0,
        libc::SECCOMP_RET_ERRNO | errno as u32,
    ));
    program.push(filter(
        libc::BPF_RET | libc::BPF_K,
        0,
        libc::SECCOMP_RET_ALLOW,
    ));
    // SAFETY: between fork and exec only two system calls are made, with memory that the closure owns.
    unsafe {
        command.pre_exec(move || {
            let listed = libc::sock_fprog {
                len: program.len() as u16,
                filter: program.as_mut_ptr(),
            };
            let is_filtered = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const listed,
                ) == 0;
            if is_filtered {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
}

/// A scenario with a step that denies device files.
const REFUSES: &str = "refused/a-context-outlives-its-files";

#[test]
fn a_step_that_cannot_refuse_anything_decides_nothing() {
    // NEW_LISTENER, TSYNC and TSYNC_ESRCH.
    let flags = 8 | 1 | 16;
    for (call, errno, argument, says) in [
        (
            libc::SYS_seccomp,
            libc::EINVAL,
            Some((1, flags)),
            "seccomp user notification (Linux 5.7)",
        ),
        (
            libc::SYS_process_vm_readv,
            libc::EPERM,
            None,
            "the memory of a process with a filter cannot be read",
        ),
        (
            libc::SYS_prctl,
            libc::EINVAL,
            Some((0, 36)),
            "prctl(PR_SET_CHILD_SUBREAPER) failed",
        ),
    ] {
        let scratch = Scratch::new();
        let mut command = scratch.simulating("sim", &[REFUSES], &["--quick"]);
        refuse(&mut command, call, errno, argument);
        let ran = scratch.ran(command);
        assert_eq!(
            ran.code,
            Some(if call == libc::SYS_prctl { 70 } else { 3 }),
            "{says}: {ran:#?}"
        );
        assert!(format!("{ran:?}").contains(says), "{says}: {ran:#?}");
    }
    let scratch = Scratch::new();
    let mut command = scratch.simulating("sim", &[REFUSES], &["--quick"]);
    // SAFETY: as above. The filter lets everything pass.
    unsafe {
        command.pre_exec(|| {
            let mut pass = libc::sock_filter {
                code: 6,
                jt: 0,
                jf: 0,
                k: libc::SECCOMP_RET_ALLOW,
            };
            let listed = libc::sock_fprog {
                len: 1,
                filter: &raw mut pass,
            };
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let listener = libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const listed,
            );
            // A closed listener does not count.
            if libc::fcntl(listener as i32, libc::F_SETFD, 0) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let ran = scratch.ran(command).ended(3, "inconclusive");
    assert!(
        ran.stdout.contains("no process could install the filter"),
        "a container's manager listens already: {ran:#?}"
    );
}

/// The newest call that exists in every kernel that a current driver runs on: all of Linux 2.6 are below it.
const FIRST: i64 = libc::SYS_epoll_pwait;
const LAST: i64 = 470;

#[test]
#[ignore = "it takes ten minutes"]
fn a_kernel_that_lacks_a_call_gives_no_other_answer() {
    do_without(FIRST..=LAST);
}

/// The messages of a program have no thread, or no process receives them.
#[test]
fn a_trace_without_messages_keeps_no_policy() {
    do_without([libc::SYS_gettid, libc::SYS_accept4]);
}

/// Runs commands on a kernel that lacks one of these calls.
fn do_without(calls: impl IntoIterator<Item = i64>) {
    let mut wrong = Vec::new();
    for call in calls {
        for (arguments, whole) in [
            (
                &[
                    "run",
                    "--quick",
                    "memory/context-cost",
                    "process/fork-after-cuinit",
                ][..],
                0,
            ),
            (&["run", "--quick", REFUSES], 0),
            (&["trace", "--forbid", "context"], 1),
            (&["doctor"], 0),
        ] {
            let scratch = Scratch::new();
            let made = &["--", "python3", "-c", MAKES_A_CONTEXT][..];
            let out = scratch.at("out");
            let more = match arguments[0] {
                "doctor" => vec![],
                "trace" => [&["--out", &out], made].concat(),
                _ => vec!["--out", &out],
            };
            let mut command = scratch.command(&[arguments, &["--on", "sim"], &more].concat());
            refuse(&mut command, call, libc::ENOSYS, None);
            let ran = scratch.ran(command);
            // The result is the same as on a complete kernel, or undecided, but never the
            // opposite.
            let is_right = ran.code == Some(whole) || [3, 4, 70, 74].map(Some).contains(&ran.code);
            if !is_right || ran.stderr.contains("panicked at src") {
                wrong.push(format!("without call {call}: {ran:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A tmpfs over /proc, for root alone.
const NO_PROC: [&str; 6] = [
    "unshare",
    "-m",
    "sh",
    "-c",
    "mount -t tmpfs none /proc && exec \"$@\"",
    "sh",
];

#[test]
fn command_works_or_fails_early_on_limited_kernels() {
    let before = if has_all_rights() {
        &NO_PROC[..]
    } else {
        &["NOT TESTED"]
    };
    for (what, before, call, errno, code, says) in [
        (
            "Linux before 5.3",
            &[][..],
            libc::SYS_pidfd_open,
            libc::ENOSYS,
            70,
            "which Linux has from 5.3 on, is denied",
        ),
        (
            "no prctl",
            &[],
            libc::SYS_prctl,
            libc::EPERM,
            70,
            "prctl is denied",
        ),
        (
            "Linux before 5.3, threads",
            &[],
            libc::SYS_clone3,
            libc::ENOSYS,
            0,
            "",
        ),
        (
            "no threads",
            &[],
            libc::SYS_clone3,
            libc::EPERM,
            70,
            "Operation not permitted",
        ),
        ("no filters", &[], libc::SYS_seccomp, libc::EPERM, 0, ""),
        ("no namespaces", &[], libc::SYS_unshare, libc::EPERM, 0, ""),
        (
            "Linux before 5.9",
            &[],
            libc::SYS_close_range,
            libc::ENOSYS,
            0,
            "",
        ),
        (
            "folders that are never read",
            &[],
            libc::SYS_getdents64,
            libc::EINTR,
            0,
            "",
        ),
        ("no /proc", before, -1, 0, 70, "/proc"),
    ] {
        let scratch = Scratch::new();
        let (made, traces) = (scratch.path().join("made"), scratch.path().join("traces"));
        let (made, traces) = (
            made.to_str().expect("UTF-8"),
            traces.to_str().expect("UTF-8"),
        );
        for arguments in [
            &["trace", "--on", "sim", "--out", traces, "--", "touch", made][..],
            &["sim", "--", "touch", made],
            &[
                "run",
                "--on",
                "sim",
                "--quick",
                "--out",
                traces,
                "memory/context-cost",
            ],
            &["doctor", "--on", "sim"],
        ] {
            if before == ["NOT TESTED"] {
                eprintln!("{what}: NOT TESTED: only root with all rights can mount something");
                continue;
            }
            let mut command = behind(before, &scratch.command(arguments));
            refuse(&mut command, call, errno, None);
            let ran = scratch.ran(command);
            let case = format!("{what}, {}: {ran:?}", arguments[0]);
            assert_eq!(ran.code, Some(code), "{case}");
            assert!(code == 0 || ran.stderr.contains(says), "{case}");
            assert!(
                !ran.stdout.contains("does not start here") && !ran.stderr.contains("panicked"),
                "{case}"
            );
            let is_made = std::fs::remove_file(made).is_ok();
            assert_eq!(
                is_made,
                code == 0 && ["trace", "sim"].contains(&arguments[0]),
                "{case}"
            );
        }
    }
}
