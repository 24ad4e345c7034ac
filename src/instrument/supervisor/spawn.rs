//! Starting a process: in its own group, with only the given descriptors, and killed together with the parent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, FdFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, parent_process_death_signal,
    pidfd_open, set_parent_process_death_signal,
};

use super::error::SupervisorError;
use super::output::Tail;
use crate::umask;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::PROTOCOL;

/// Number of attempts of the library check and of the sampler's start: a signal that was meant for another process may
/// have ended them.
pub(super) const STARTS: u32 = 3;

pub(super) struct Spawn<'a> {
    pub(super) program: &'a Path,
    /// The role of the process: a word of [`super::role`].
    pub(super) role: &'static str,
    /// The arguments of the process, in addition to those of every process of a run.
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) folder: Option<&'a Path>,
    /// The child's ends of channels. They are closed here once the child runs.
    pub(super) inherit: Vec<Channel>,
    /// `true` to keep the end of its output. Otherwise stdout is discarded, and stderr is inherited from this process.
    pub(super) capture: bool,
    /// The file that gets its stdout, regardless of `capture`.
    pub(super) stdout: Option<std::fs::File>,
}

impl<'a> Spawn<'a> {
    /// Returns a process that works in our directory, gets no channel, and whose output is not kept.
    pub(super) fn new(
        program: &'a Path,
        role: &'static str,
        arguments: Vec<OsString>,
        environment: BTreeMap<OsString, OsString>,
    ) -> Spawn<'a> {
        let (folder, inherit, capture, stdout) = (None, Vec::new(), false, None);
        Spawn {
            program,
            role,
            arguments,
            environment,
            folder,
            inherit,
            capture,
            stdout,
        }
    }
}

pub(super) struct Child {
    pub(super) handle: duct::Handle,
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) stdout: Option<Tail>,
    pub(super) stderr: Option<Tail>,
}

/// Returns the descriptor of an inherited channel in a child, as an argument.
pub(super) fn descriptor_argument(channel: &Channel) -> OsString {
    OsString::from(number(channel).to_string())
}

pub(super) fn number(channel: &Channel) -> RawFd {
    use std::os::fd::AsFd;
    channel.as_fd().as_raw_fd()
}

/// Held while a process is started: its descriptors are open to any other process that is started at the same time.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process. It is killed when the calling thread ends, so that thread must live as long as the process should.
///
/// No code of ours runs between fork and exec: the child does the rest itself, in [`begin_child`]. So the standard
/// library can use `posix_spawn`, without a pipe to wait for the child.
pub(super) fn start(spawn: Spawn) -> Result<Child, SupervisorError> {
    let mut command = duct::cmd(spawn.program, child_arguments(&spawn))
        .full_env(&spawn.environment)
        .stdin_null()
        .unchecked();
    if let Some(folder) = spawn.folder {
        command = command.dir(folder);
    }
    let (mut stdout, mut stderr) = (None, None);
    if let Some(file) = spawn.stdout {
        command = command.stdout_file(file);
    } else if spawn.capture {
        let (tail, end) = Tail::new_pipe().map_err(SupervisorError::from_system)?;
        command = command.stdout_file(end);
        stdout = Some(tail);
    } else {
        command = command.stdout_null();
    }
    if spawn.capture {
        let (tail, end) = Tail::new_pipe().map_err(SupervisorError::from_system)?;
        command = command.stderr_file(end);
        stderr = Some(tail);
    }
    let command = command.before_spawn(|command| {
        command.process_group(0);
        Ok(())
    });
    can_watch()?;
    let handle = start_inheriting(&command, spawn.inherit).map_err(SupervisorError::from_system)?;
    let pid = handle.pids().first().copied().unwrap_or_default();
    let (pid, pidfd) = handle_on(pid).map_err(SupervisorError::from_system)?;
    Ok(Child {
        handle,
        pid,
        pidfd,
        stdout,
        stderr,
    })
}

/// Returns the arguments of a child, which begin with its role.
fn child_arguments(spawn: &Spawn) -> Vec<OsString> {
    let mut arguments = vec![OsString::from(spawn.role)];
    for (option, value) in [
        ("--parent", getpid().as_raw_nonzero().to_string()),
        ("--protocol", PROTOCOL.to_string()),
        ("--umask", umask::caller_umask().to_string()),
    ] {
        arguments.extend([OsString::from(option), OsString::from(value)]);
    }
    for channel in &spawn.inherit {
        arguments.extend([OsString::from("--keep"), descriptor_argument(channel)]);
    }
    arguments.extend(spawn.arguments.iter().cloned());
    arguments
}

/// Starts a command that inherits these channels. Our copies are closed, whether or not it was started.
fn start_inheriting(
    command: &duct::Expression,
    inherit: Vec<Channel>,
) -> std::io::Result<duct::Handle> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    for channel in &inherit {
        rustix::io::fcntl_setfd(channel, FdFlags::empty())?;
    }
    let started = command.start();
    // Before another process can be started.
    drop(inherit);
    started
}

/// Returns a handle on a child that was just started.
///
/// # Errors
/// Returns an error if it cannot be watched, so it was killed.
pub fn handle_on(pid: u32) -> std::io::Result<(Pid, OwnedFd)> {
    let pid = Pid::from_raw(pid as i32).ok_or(std::io::ErrorKind::NotFound)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        let _ = kill_process(pid, Signal::KILL);
    })?;
    Ok((pid, pidfd))
}

/// Checks that this process may watch others.
///
/// # Errors
/// Returns an error if the kernel is too old, or if a sandbox denies it. Then a program must not be started: its end
/// would not be noticed, it would outlive this process, or another process would be taken for it.
pub fn can_watch() -> Result<(), SupervisorError> {
    let refused = |call: &'static str| {
        move |error: Errno| SupervisorError::Unwatched(format!("{call} is denied ({error})"))
    };
    pidfd_open(getpid(), PidfdFlags::empty())
        .map_err(refused("pidfd_open, which Linux has from 5.3 on,"))?;
    parent_process_death_signal().map_err(refused("prctl"))?;
    let own = getpid().as_raw_nonzero().to_string();
    if !std::fs::read_link("/proc/self").is_ok_and(|named| named.as_os_str() == own.as_str()) {
        let why = "/proc is not mounted or belongs to another PID namespace";
        return Err(SupervisorError::Unwatched(why.to_string()));
    }
    Ok(())
}

/// Prepares a child of `start`; called first in it. Closes every descriptor except those in `keep`, and requests to be
/// killed when its parent ends. Returns `false` if the parent has ended already.
pub fn begin_child(parent: i32, keep: &[RawFd]) -> bool {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().filter(|fd| *fd >= 3) {
        close_range(from, fd - 1);
        from = from.max(fd + 1);
    }
    close_range(from, RawFd::MAX);
    // The limit on file sizes concerns the parent alone; see `Interrupt::install`.
    let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    bound && getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent)
}

/// Prepares a fresh process that a step of a worker started; called first in it. Requests to be killed when the thread
/// that started it ends, like a forked process.
pub fn begin_fresh() {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: called before anything of this process has opened a descriptor; those of the range
    // came from the caller's caller, and nothing here uses them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}
