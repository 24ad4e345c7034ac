//! Kernels and sandboxes that refuse something: each command works there, or says so and starts nothing.

use crate::common;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use common::{LONGEST, Scratch};

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

/// Gives a command a mount namespace of its own, in which this is /proc. Only root can.
fn remount(command: &mut Command, kind: &'static std::ffi::CStr) {
    // SAFETY: between fork and exec only system calls are made, with memory that outlives them.
    unsafe {
        command.pre_exec(move || {
            let (proc, none) = (c"/proc".as_ptr(), std::ptr::null());
            let is_mounted = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
                && libc::mount(kind.as_ptr(), proc, kind.as_ptr(), 0, none.cast()) == 0;
            if is_mounted { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

/// What each command comes to in surroundings that `change` makes: to this exit code, and to these words if it is not 0.
fn comes_to(what: &str, change: impl Fn(&mut Command), code: i32, says: &str) {
    let scratch = Scratch::new();
    let (made, traces) = (scratch.path().join("made"), scratch.path().join("traces"));
    let (made, traces) = (made.to_str().expect("UTF-8"), traces.to_str().expect("UTF-8"));
    for arguments in [
        &["trace", "--on", "sim", "--out", traces, "--", "touch", made][..],
        &["sim", "--", "touch", made],
        &["run", "--on", "sim", "--quick", "--out", traces, "memory/context-cost"],
        &["doctor", "--on", "sim"],
    ] {
        let mut command = scratch.command(arguments);
        change(&mut command);
        let ran = scratch.start(command).wait(LONGEST);
        let name = arguments[0];
        assert_eq!(ran.code, Some(code), "{what}, {name}: {ran:?}");
        assert!(code == 0 || ran.stderr.contains(says), "{what}, {name}: {ran:?}");
        let is_wrong = ran.stdout.contains("does not start here") || ran.stderr.contains("panicked");
        assert!(!is_wrong, "{what}, {name}: {ran:?}");
        let is_made = std::fs::remove_file(made).is_ok();
        assert_eq!(is_made, code == 0 && matches!(name, "trace" | "sim"), "{what}, {name}: {ran:?}");
    }
}

#[test]
fn a_command_works_without_a_system_call_or_says_so_and_starts_nothing() {
    for (what, call, errno, code, says) in [
        (
            "Linux before 5.3",
            libc::SYS_pidfd_open,
            libc::ENOSYS,
            70,
            "pidfd_open, which Linux has from 5.3 on, is refused",
        ),
        ("prctl", libc::SYS_prctl, libc::EPERM, 70, "prctl is refused"),
        ("Linux before 5.3, threads", libc::SYS_clone3, libc::ENOSYS, 0, ""),
        ("threads", libc::SYS_clone3, libc::EPERM, 70, "Operation not permitted"),
        ("filters", libc::SYS_seccomp, libc::EPERM, 0, ""),
        ("Linux before 5.0, filters", libc::SYS_seccomp, libc::ENOSYS, 0, ""),
        ("namespaces", libc::SYS_unshare, libc::EPERM, 0, ""),
        ("Linux before 5.9", libc::SYS_close_range, libc::ENOSYS, 0, ""),
        ("folders", libc::SYS_getdents64, libc::EINTR, 0, ""),
    ] {
        comes_to(what, |command| refuse(command, call, errno), code, says);
    }
}

#[test]
fn a_command_says_that_it_has_no_proc_and_starts_nothing() {
    if rustix::process::geteuid().is_root() {
        comes_to("no /proc", |command| remount(command, c"tmpfs"), 70, "/proc");
    } else {
        eprintln!("NOT TESTED: only root can mount something");
    }
}
