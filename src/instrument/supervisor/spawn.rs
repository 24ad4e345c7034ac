//! Starting a process: its own group, no inherited descriptors but the named ones, killed with the parent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal};

use super::SupervisorError;
use super::output::Tail;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::PROTOCOL;

/// What to start.
pub(super) struct Spawn<'a> {
    pub(super) program: &'a Path,
    /// What it is to be: a word of [`super::role`].
    pub(super) role: &'static str,
    /// Its arguments beside those of every process of a run.
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// The folder that it works in; ours if none.
    pub(super) folder: Option<&'a Path>,
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

/// Held while a process is started: the descriptors that it is to have are open to any other that
/// would be started meanwhile.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process. It dies with the thread that calls this, so that must be one that lives as
/// long as the process should.
///
/// Nothing of ours runs between fork and exec: the child does the rest itself, in [`begin`]. So
/// the standard library takes `posix_spawn`, which has no pipe from the child to wait on.
pub(super) fn start(spawn: Spawn) -> Result<Child, SupervisorError> {
    let mut arguments = vec![OsString::from(spawn.role)];
    arguments.extend([OsString::from("--parent"), OsString::from(getpid().as_raw_nonzero().to_string())]);
    arguments.extend([OsString::from("--protocol"), OsString::from(PROTOCOL.to_string())]);
    for channel in &spawn.inherit {
        arguments.extend([OsString::from("--keep"), descriptor(channel)]);
    }
    arguments.extend(spawn.arguments);
    let mut command = duct::cmd(spawn.program, &arguments).full_env(&spawn.environment).stdin_null().unchecked();
    if let Some(folder) = spawn.folder {
        command = command.dir(folder);
    }
    let (mut stdout, mut stderr) = (None, None);
    if spawn.capture {
        let (tail, end) = Tail::pipe().map_err(SupervisorError::system)?;
        command = command.stdout_file(end);
        stdout = Some(tail);
        let (tail, end) = Tail::pipe().map_err(SupervisorError::system)?;
        command = command.stderr_file(end);
        stderr = Some(tail);
    } else {
        command = command.stdout_null();
    }
    let command = command.before_spawn(|command| {
        command.process_group(0);
        Ok(())
    });
    let handle = {
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        for channel in &spawn.inherit {
            rustix::io::fcntl_setfd(channel, FdFlags::empty())
                .map_err(|error| SupervisorError::system(error.into()))?;
        }
        let started = command.start();
        // Ours are closed here, started or not.
        drop(spawn.inherit);
        started.map_err(SupervisorError::system)?
    };
    let pid = handle.pids().first().and_then(|pid| Pid::from_raw(*pid as i32));
    let pid = pid.ok_or_else(|| SupervisorError::System("the started process has no PID".to_string()))?;
    let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(error) => {
            // A process that cannot be watched must not be left to itself.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            return Err(SupervisorError::system(error.into()));
        }
    };
    Ok(Child { handle, pid, pidfd, stdout, stderr })
}

/// What a process that `start` started does first: it closes every descriptor that it was not
/// given, and asks to be killed when its parent ends. False if the parent has ended already.
pub fn begin(parent: i32, keep: &[RawFd]) -> bool {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep.into_iter().filter(|fd| *fd >= 3) {
        close_range(from, fd - 1);
        from = from.max(fd + 1);
    }
    close_range(from, RawFd::MAX);
    // A limit on the size of files is met by the parent; see `Interrupt::install`.
    let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    bound && getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent)
}

/// What a fresh process does first that a step of a worker started: it ends when its maker's
/// thread does, as a forked one.
pub fn begin_fresh() {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Closes the descriptors from `first` to `last`.
fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: called before anything of this process has opened a descriptor; those of the range
    // came from the caller's caller, and nothing here uses them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}
