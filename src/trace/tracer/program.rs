//! Starting the traced program in the way its caller would have.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::caller::Caller;
use super::{Apart, TracerError};
use cuda_pitfalls_instrument::supervisor::is_ignored;

/// The PID to which signals from other processes are forwarded; 0 before the program has started.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that arrived before the program was started; 0 if none did.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

pub(super) struct TracedProgram {
    child: Child,
    pidfd: OwnedFd,
}

impl TracedProgram {
    /// Starts a command with a changed environment, and with our terminal, descriptors and process group. If it runs
    /// `apart`, it has neither input nor output but for the stderr that is wanted, and is killed when this process ends.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(OsString, OsString)],
        caller: Caller,
        apart: Option<&Apart>,
    ) -> Result<TracedProgram, TracerError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(TracerError::Usage("no command was given".to_string()));
        };
        let failed = |source| TracerError::Program { name: program.to_string_lossy().into_owned(), source };
        take_signals().map_err(failed)?;
        let mut started = Command::new(program);
        started.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(apart) = apart {
            let stderr = match &apart.stderr {
                Some(path) => Stdio::from(appended(path).map_err(failed)?),
                None => Stdio::null(),
            };
            started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
            // SAFETY: the closure makes one system call, which allocates nothing.
            unsafe { started.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
        } else {
            // SAFETY: the closure makes system calls, which allocate nothing.
            unsafe { started.pre_exec(move || caller.hand_on()) };
        }
        let child = started.spawn().map_err(failed)?;
        PROGRAM.store(child.id() as i32, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            // SAFETY: our child, which has not been waited for.
            unsafe { libc::kill(child.id() as i32, early) };
        }
        let pid = Pid::from_raw(child.id() as i32).ok_or_else(|| TracerError::Internal("it has no PID".to_string()))?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        Ok(TracedProgram { child, pidfd })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program, but not its children.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// How the program ended; `None` if it still runs.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok()??;
        PROGRAM.store(0, Ordering::SeqCst);
        Some(Ended { code: status.code(), signal: status.signal() })
    }
}

/// The most that is kept of the stderr of a program that runs apart, in bytes.
const MOST_STDERR_BYTES: u64 = 16 << 20;

/// A new file, at whose end everything is written wherever that is.
fn appended(path: &Path) -> std::io::Result<File> {
    File::create(path)?;
    File::options().append(true).open(path)
}

/// Empties the file of a program's stderr if it has become too long: who floods it would fill the disk.
pub(super) fn bound(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|file| file.len() > MOST_STDERR_BYTES) {
        let _ = File::options().write(true).truncate(true).open(path);
    }
}

impl AsFd for TracedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Installs handlers that forward signals that another process sends to us alone. Signals of the terminal reach the
/// program directly, because it is in the foreground too. A signal that our caller ignores, as with `nohup`, stays
/// ignored.
fn take_signals() -> std::io::Result<()> {
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2].into_iter().filter(|signal| !is_ignored(*signal))
    {
        let pass_on = move |info: &libc::siginfo_t| {
            let program = PROGRAM.load(Ordering::SeqCst);
            // A positive code means that the kernel sent the signal, for instance for a key of the terminal.
            if info.si_code > 0 {
                return;
            }
            match program {
                0 => EARLY.store(signal, Ordering::SeqCst),
                // SAFETY: kill is allowed in a handler.
                program => drop(unsafe { libc::kill(program, signal) }),
            }
        };
        // SAFETY: the handler reads a number and calls kill.
        unsafe { signal_hook_registry::register_sigaction(signal, pass_on) }?;
    }
    Ok(())
}
