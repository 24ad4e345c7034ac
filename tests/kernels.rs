//! Kernels and sandboxes that lack a system call: what cannot work there says so, and starts nothing.

use crate::common;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use common::{LONGEST, Ran, Scratch};

/// Lets a command find that its kernel does not have a system call.
fn without(command: &mut Command, call: i64) {
    let filter = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
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

fn run_without(scratch: &Scratch, arguments: &[&str], call: i64) -> Ran {
    let mut command = scratch.command(arguments);
    without(&mut command, call);
    scratch.start(command).wait(LONGEST)
}

#[test]
fn where_no_process_can_be_watched_none_is_started() {
    let scratch = Scratch::new();
    let made = scratch.path().join("made");
    let touch = ["--", "touch", made.to_str().expect("UTF-8")];
    for before in [&["trace", "--on", "sim"][..], &["trace"], &["sim"], &["run", "--on", "sim"], &["doctor"]] {
        let is_of_a_program = matches!(before[0], "trace" | "sim");
        let arguments: Vec<&str> = before.iter().chain(touch.iter().filter(|_| is_of_a_program)).copied().collect();
        let ran = run_without(&scratch, &arguments, libc::SYS_pidfd_open);
        assert_eq!(ran.code, Some(70), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("pidfd_open is refused here") && ran.stderr.contains("Linux 5.3"), "{ran:?}");
        assert!(!ran.stdout.contains("does not start here"), "{ran:?}");
        assert!(!made.exists(), "{arguments:?}: the program ran");
    }
    // The control: the filter alone keeps nothing from working.
    let ran = run_without(&scratch, &["trace", "--on", "sim", "--", "touch", touch[2]], libc::SYS_personality);
    assert_eq!((ran.code, made.exists()), (Some(0), true), "{ran:?}");
}
