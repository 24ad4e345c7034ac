//! Running a program and making one system call of it fail, by `ptrace`: of the program itself, not of
//! the processes that it starts.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A system call that is to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// Any of these numbers.
    pub(crate) calls: &'static [i64],
    /// Number of the call, from 1, since the program's own code began; 0 for no call.
    pub(crate) nth: u64,
    /// The error.
    pub(crate) errno: i32,
    /// `true` if the call is made anyway and only its result changes. A `close` that fails has closed the descriptor,
    /// on Linux.
    pub(crate) made: bool,
    /// `true` if all later calls fail, too.
    pub(crate) lasts: bool,
}

/// End of a traced program.
#[derive(Debug)]
pub(crate) struct Traced {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Number of the calls.
    pub(crate) calls: u64,
    /// `true` if it had to be killed because it did not end.
    pub(crate) hung: bool,
}

/// Runs a program to its end, or kills it when it takes longer than `longest`.
pub(crate) fn run(mut command: Command, fault: Fault, longest: Duration) -> Traced {
    // SAFETY: between fork and exec one system call is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    // The tracer reaps the child itself.
    let pid = command.spawn().expect("the program starts").id() as i32;
    let (end, ended) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let hung = ended.recv_timeout(longest) == Err(RecvTimeoutError::Timeout);
        if hung {
            // SAFETY: our child, not reaped before `end` is dropped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        hung
    });
    let (code, calls) = follow(pid, fault);
    drop(end);
    Traced {
        code,
        calls,
        hung: watch.join().expect("the watch ends"),
    }
}

/// Follows a traced process from its exec to its end.
fn follow(pid: i32, fault: Fault) -> (Option<i32>, u64) {
    let (mut began, mut inside, mut failing, mut calls) = (false, false, false, 0);
    let mut status = 0;
    // SAFETY: all calls are about a child that this thread traces, with live out-parameters.
    unsafe {
        libc::waitpid(pid, &raw mut status, libc::__WALL);
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0usize, options as usize);
        let mut signal = 0;
        loop {
            libc::ptrace(libc::PTRACE_SYSCALL, pid, 0usize, signal as usize);
            signal = 0;
            if libc::waitpid(pid, &raw mut status, libc::__WALL) != pid {
                return (None, calls);
            }
            if libc::WIFEXITED(status) {
                return (Some(libc::WEXITSTATUS(status)), calls);
            }
            if libc::WIFSIGNALED(status) {
                return (None, calls);
            }
            if libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
                signal = libc::WSTOPSIG(status);
                continue;
            }
            inside = !inside;
            let mut registers = std::mem::zeroed::<libc::user_regs_struct>();
            libc::ptrace(libc::PTRACE_GETREGS, pid, 0usize, &raw mut registers);
            if inside {
                let number = registers.orig_rax as i64;
                // The first thing that Rust's runtime does; what the loader does is not the program's.
                began |= number == libc::SYS_rt_sigaction && registers.rdi == libc::SIGPIPE as u64;
                if began && fault.calls.contains(&number) {
                    calls += 1;
                    failing =
                        calls == fault.nth || (fault.lasts && fault.nth > 0 && calls > fault.nth);
                    if failing && !fault.made {
                        registers.orig_rax = u64::MAX;
                        libc::ptrace(libc::PTRACE_SETREGS, pid, 0usize, &raw const registers);
                    }
                }
            } else if std::mem::take(&mut failing) {
                registers.rax = i64::from(-fault.errno) as u64;
                libc::ptrace(libc::PTRACE_SETREGS, pid, 0usize, &raw const registers);
            }
        }
    }
}
