//! Starting a process: its own group, no inherited descriptors but the named ones, dead with us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;

use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal};

use super::Trouble;
use super::output::Tail;
use crate::channel::Channel;

/// What to start.
pub(super) struct Spawn<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// The child's ends of channels; ours are closed once it runs.
    pub(super) inherit: Vec<Channel>,
    /// Whether to keep the end of what it prints. Otherwise stdout is dropped and stderr is ours.
    pub(super) capture: bool,
}

/// A process under way.
pub(super) struct Child {
    pub(super) handle: duct::Handle,
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) stdout: Option<Tail>,
    pub(super) stderr: Option<Tail>,
}

/// The number a child finds an inherited channel at, as an argument.
pub(super) fn descriptor(channel: &Channel) -> OsString {
    OsString::from(number(channel).to_string())
}

pub(super) fn number(channel: &Channel) -> RawFd {
    use std::os::fd::AsFd;
    channel.as_fd().as_raw_fd()
}

/// Starts a process. It dies with the thread that calls this, so that must be one that lives as
/// long as the process should.
pub(super) fn start(spawn: Spawn) -> Result<Child, Trouble> {
    let mut command = duct::cmd(spawn.program, &spawn.arguments).full_env(&spawn.environment).stdin_null().unchecked();
    let (mut stdout, mut stderr) = (None, None);
    if spawn.capture {
        let (tail, end) = Tail::pipe().map_err(Trouble::system)?;
        command = command.stdout_file(end);
        stdout = Some(tail);
        let (tail, end) = Tail::pipe().map_err(Trouble::system)?;
        command = command.stderr_file(end);
        stderr = Some(tail);
    } else {
        command = command.stdout_null();
    }
    let inherit: Vec<RawFd> = spawn.inherit.iter().map(number).collect();
    let parent = getpid();
    let command = command.before_spawn(move |command| {
        command.process_group(0);
        let inherit = inherit.clone();
        // SAFETY: between fork and exec only system calls are made, without allocation or locks.
        unsafe { command.pre_exec(move || prepare(&inherit, parent)) };
        Ok(())
    });
    let handle = command.start().map_err(Trouble::system)?;
    drop(spawn.inherit);
    let pid = handle.pids().first().and_then(|pid| Pid::from_raw(*pid as i32));
    let pid = pid.ok_or_else(|| Trouble::System("the started process has no PID".to_string()))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Trouble::system(error.into()))?;
    Ok(Child { handle, pid, pidfd, stdout, stderr })
}

/// What the child does between fork and exec.
fn prepare(inherit: &[RawFd], parent: Pid) -> io::Result<()> {
    for fd in inherit {
        // SAFETY: the descriptor is open in the child, which is a copy of the parent.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(*fd) };
        rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above took effect.
    if getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}
