//! A process of the run that is asked nothing: it is waited for, and what it leaves behind is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use super::spawn::{self, Spawn};
use super::{SupervisorError, end};
use cuda_pitfalls_core::clock;

/// How often it is looked whether the caller still wants it.
const TICK_MS: u64 = 20;

/// What to run.
pub struct Errand<'a> {
    /// This program.
    pub program: &'a Path,
    /// What it is to be: a word of [`super::role`].
    pub role: &'static str,
    /// Its arguments beside those of every process of a run.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The folder that it works in.
    pub folder: &'a Path,
    /// How long it may run; then it is ended.
    pub limit: Duration,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

/// How it ended.
#[derive(Debug)]
pub enum ErrandEnd {
    /// By itself, or because it was late: its status, and the last of what it wrote to stderr.
    Exited(ExitStatus, String),
    /// The caller did not want it any more.
    Stopped,
    /// It could not be ended. Its PID.
    Unkillable(u32),
}

impl Errand<'_> {
    /// Runs it to its end. It dies with the calling thread.
    ///
    /// # Errors
    /// It could not be started.
    pub fn run(self, is_stopped: impl Fn() -> bool) -> Result<ErrandEnd, SupervisorError> {
        let Errand { program, role, arguments, environment, folder, limit, grace } = self;
        let folder = Some(folder);
        let spawn = Spawn { program, role, arguments, environment, folder, inherit: Vec::new(), capture: true };
        let mut child = spawn::start(spawn)?;
        let deadline_ns = clock::running_ns().saturating_add(limit.as_nanos() as u64);
        while !end::has_ended(&mut child, TICK_MS) {
            if is_stopped() || clock::running_ns() > deadline_ns {
                end::kill(&mut child, grace.as_millis() as u64);
                break;
            }
        }
        let Some(status) = end::reap(&child) else {
            return Ok(ErrandEnd::Unkillable(child.pid.as_raw_nonzero().get().unsigned_abs()));
        };
        if is_stopped() {
            return Ok(ErrandEnd::Stopped);
        }
        let words = child.stderr.take().map(|tail| tail.finish().1).unwrap_or_default();
        Ok(ErrandEnd::Exited(status, words))
    }
}
