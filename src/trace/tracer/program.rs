//! Starting the traced program as its caller would have started it.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::process::{Signal, set_parent_process_death_signal};

use super::caller::Caller;
use super::signals::{Bystander, HandingOn};
use super::stderr::PassedStderr;
use super::{Apart, TracerError};
use cuda_pitfalls_instrument::{supervisor, umask};

/// The result of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

pub(super) struct TracedProgram {
    child: Child,
    pidfd: Arc<OwnedFd>,
    signals: HandingOn,
}

impl TracedProgram {
    /// Starts a command with a changed environment, and with our terminal, descriptors and process group. If it runs
    /// `apart`, it has no input or output except for the stderr that is wanted, and is killed when this process ends.
    /// `passed` replaces our stderr.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(OsString, OsString)],
        caller: Caller,
        bystander: Bystander,
        apart: Option<&Apart>,
        passed: Option<&PassedStderr>,
    ) -> Result<TracedProgram, TracerError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(TracerError::Usage("no command was given".to_string()));
        };
        let failed = |source| TracerError::Program {
            name: program.to_string_lossy().into_owned(),
            source,
        };
        let signals = HandingOn::start(bystander).map_err(failed)?;
        let mut started = Command::new(program);
        started
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(passed) = passed {
            started.stderr(passed.stderr().map_err(failed)?);
            if let Some(stdout) = passed.stdout().map_err(failed)? {
                started.stdout(stdout);
            }
        }
        if let Some(apart) = apart {
            let stderr = match &apart.stderr {
                Some(path) => Stdio::from(create_append(path).map_err(failed)?),
                None => Stdio::null(),
            };
            started
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(stderr);
            // SAFETY: the closure makes one system call, which allocates nothing.
            unsafe {
                started.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?))
            };
        } else {
            // SAFETY: the closure makes system calls, which allocate nothing.
            unsafe { started.pre_exec(move || caller.hand_on()) };
        }
        // SAFETY: the closure makes one system call, which allocates nothing.
        unsafe {
            started.pre_exec(|| {
                umask::hand_on();
                Ok(())
            })
        };
        let child = started.spawn().map_err(failed)?;
        let (_, pidfd) = supervisor::handle_on(child.id()).map_err(failed)?;
        let pidfd = Arc::new(pidfd);
        let _ = signals.program.send(pidfd.clone());
        Ok(TracedProgram {
            child,
            pidfd,
            signals,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the time of the last signal that requests a program to end; 0 before the first.
    pub(super) fn ending_signal_ns(&self) -> u64 {
        self.signals.ending_ns()
    }

    /// Kills the program, but not its children.
    pub(super) fn kill_program(&mut self) {
        let _ = self.child.kill();
    }

    /// Returns the result of the program; `None` if it still runs.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok()??;
        Some(Ended {
            code: status.code(),
            signal: status.signal(),
        })
    }
}

/// The maximum stderr of a program that runs apart, in bytes.
const MOST_STDERR_BYTES: u64 = 16 << 20;

/// Creates a file where every write appends at the current end.
fn create_append(path: &Path) -> std::io::Result<File> {
    File::create(path)?;
    File::options().append(true).open(path)
}

/// Empties the file of a program's stderr if it has become too long, so that a flood does not fill the disk.
pub(super) fn truncate_if_long(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|file| file.len() > MOST_STDERR_BYTES) {
        let _ = File::options().write(true).truncate(true).open(path);
    }
}

impl AsFd for TracedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
