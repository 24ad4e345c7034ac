//! A process of the run without messages: the parent waits for it and reads the files that it leaves.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use super::end;
use super::error::SupervisorError;
use super::spawn::{self, Spawn};
use cuda_pitfalls_core::clock;

/// Interval at which the caller is checked for an interruption, in milliseconds.
const TICK_MS: u64 = 20;

/// The process to run.
pub struct Errand<'a> {
    /// The path of this program.
    pub program: &'a Path,
    /// The role of the process: a word of [`super::role`].
    pub role: &'static str,
    /// The arguments of the process, in addition to those of every process of a run.
    pub arguments: Vec<OsString>,
    /// The complete environment of the process.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working directory of the process.
    pub folder: &'a Path,
    /// Maximum time that it may run before it is ended.
    pub limit: Duration,
    /// The time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// The file that gets all of its stdout; `None` to keep the end of it.
    pub stdout: Option<File>,
}

/// The end of the process.
#[derive(Debug)]
pub enum ErrandEnd {
    /// The process exited, by itself or at its time limit.
    Exited {
        /// How.
        status: ExitStatus,
        /// The end of its stderr.
        stderr: String,
    },
    /// The caller stopped it.
    Stopped,
    /// The process with this PID could not be ended.
    Unkillable(u32),
}

impl Errand<'_> {
    /// Runs the process to its end. It is killed if the calling thread ends.
    ///
    /// # Errors
    /// Returns an error if the process could not be started.
    pub fn run(self, is_stopped: impl Fn() -> bool) -> Result<ErrandEnd, SupervisorError> {
        let Errand {
            program,
            role,
            arguments,
            environment,
            folder,
            limit,
            grace,
            stdout,
        } = self;
        let own = Spawn::new(program, role, arguments, environment);
        let spawn = Spawn {
            folder: Some(folder),
            capture: true,
            stdout,
            ..own
        };
        let mut child = spawn::start(spawn)?;
        let deadline_ns = clock::running_ns().saturating_add(limit.as_nanos() as u64);
        while !end::has_ended(&mut child, TICK_MS) {
            if is_stopped() || clock::running_ns() > deadline_ns {
                end::kill_child(&mut child, grace.as_millis() as u64);
                break;
            }
        }
        let Some(status) = end::reap_child(&child) else {
            return Ok(ErrandEnd::Unkillable(
                child.pid.as_raw_nonzero().get().unsigned_abs(),
            ));
        };
        if is_stopped() {
            return Ok(ErrandEnd::Stopped);
        }
        let stderr = child
            .stderr
            .take()
            .map(|tail| tail.finish().1)
            .unwrap_or_default();
        Ok(ErrandEnd::Exited { status, stderr })
    }
}
