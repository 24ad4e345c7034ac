//! Kernels and sandboxes that refuse something: each command works there, or says so and starts nothing.

use crate::common;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use common::{Scratch, behind};

/// Has the kernel answer a system call of a command with an error.
fn refuse(command: &mut Command, call: i64, errno: i32) {
    let filter = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: between fork and exec only two system calls are made, with memory that the closure owns.
    unsafe {
        command.pre_exec(move || {
            let listed = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
            let is_filtered = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const listed) == 0;
            if is_filtered { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

/// A tmpfs over /proc, for root alone.
const NO_PROC: [&str; 6] = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"];

#[test]
fn a_command_works_without_something_of_the_kernel_or_says_so_and_starts_nothing() {
    let before = if rustix::process::geteuid().is_root() { &NO_PROC[..] } else { &["NOT TESTED"] };
    for (what, before, call, errno, code, says) in [
        (
            "Linux before 5.3",
            &[][..],
            libc::SYS_pidfd_open,
            libc::ENOSYS,
            70,
            "which Linux has from 5.3 on, is refused",
        ),
        ("no prctl", &[], libc::SYS_prctl, libc::EPERM, 70, "prctl is refused"),
        ("Linux before 5.3, threads", &[], libc::SYS_clone3, libc::ENOSYS, 0, ""),
        ("no threads", &[], libc::SYS_clone3, libc::EPERM, 70, "Operation not permitted"),
        ("no filters", &[], libc::SYS_seccomp, libc::EPERM, 0, ""),
        ("no namespaces", &[], libc::SYS_unshare, libc::EPERM, 0, ""),
        ("Linux before 5.9", &[], libc::SYS_close_range, libc::ENOSYS, 0, ""),
        ("folders that are never read", &[], libc::SYS_getdents64, libc::EINTR, 0, ""),
        ("no /proc", before, -1, 0, 70, "/proc"),
    ] {
        let scratch = Scratch::new();
        let (made, traces) = (scratch.path().join("made"), scratch.path().join("traces"));
        let (made, traces) = (made.to_str().expect("UTF-8"), traces.to_str().expect("UTF-8"));
        for arguments in [
            &["trace", "--on", "sim", "--out", traces, "--", "touch", made][..],
            &["sim", "--", "touch", made],
            &["run", "--on", "sim", "--quick", "--out", traces, "memory/context-cost"],
            &["doctor", "--on", "sim"],
        ] {
            if before == ["NOT TESTED"] {
                eprintln!("{what}: NOT TESTED: only root can mount something");
                continue;
            }
            let mut command = behind(before, &scratch.command(arguments));
            refuse(&mut command, call, errno);
            let ran = scratch.ran(command);
            let case = format!("{what}, {}: {ran:?}", arguments[0]);
            assert_eq!(ran.code, Some(code), "{case}");
            assert!(code == 0 || ran.stderr.contains(says), "{case}");
            assert!(!ran.stdout.contains("does not start here") && !ran.stderr.contains("panicked"), "{case}");
            let is_made = std::fs::remove_file(made).is_ok();
            assert_eq!(is_made, code == 0 && ["trace", "sim"].contains(&arguments[0]), "{case}");
        }
    }
}
