//! An attempt of a row: its files, its tracer, and its result.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::run::session::Session;
use cuda_pitfalls_answers::survey::python::{
    ProgramMessages, PythonAttempt, PythonLine, Returned, made,
};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::scenario::environment::MASK;
use cuda_pitfalls_core::scenario::framework::frameworks;
use cuda_pitfalls_core::verdict::Reason;
use cuda_pitfalls_instrument::supervisor::{Errand, ErrandEnd, SupervisorError, role};
use cuda_pitfalls_trace::Trace;

const ROW: &str = include_str!("row.py");
/// Additional time for the tracer to start and to end: the driver may take long to report its version.
const GRACE: Duration = Duration::from_secs(90);
/// The time from SIGTERM to SIGKILL for a tracer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Variable with the directories where an interpreter finds modules, in addition to its own.
const MODULES: &str = "PYTHONPATH";

/// A row to run, and how.
#[derive(Clone, Debug)]
pub(in crate::run) struct RowJob {
    pub(in crate::run) line: PythonLine,
    /// Time limit of a process of the row.
    pub(in crate::run) limit: Duration,
    /// `true` if the row reports its own memory.
    pub(in crate::run) wants_memory: bool,
}

/// The libraries that a program finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::run) struct Ground {
    /// `cuda` or `sim:<machine>`.
    pub(in crate::run) on: String,
    /// Calls of libcuda that are not passed on, as `cuInit=100`; empty if all calls are passed on.
    pub(in crate::run) returns: String,
    /// The NVML that the program finds, if not the machine's: `nothing` on the simulated machine, `simulated` with a
    /// real libcuda.
    pub(in crate::run) nvml: Option<&'static str>,
}

impl Ground {
    /// Returns the arguments of a tracer on this ground, up to its program. `returns` replaces the ground's value,
    /// unless it is empty.
    pub(in crate::run) fn arguments(
        &self,
        limit: Duration,
        returns: &str,
        trace: &Path,
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            ["--on", &self.on, "--limit-ms"].map(OsString::from).into();
        arguments.push(limit.as_millis().to_string().into());
        let returns = if returns.is_empty() {
            &self.returns
        } else {
            returns
        };
        if !returns.is_empty() {
            arguments.extend([OsString::from("--returns"), returns.into()]);
        }
        arguments.extend(
            self.nvml
                .iter()
                .flat_map(|nvml| ["--nvml", nvml].map(OsString::from)),
        );
        arguments.extend([OsString::from("--folder"), trace.into()]);
        arguments
    }
}

/// Makes attempts, from several threads.
pub(in crate::run) struct Attempts {
    program: PathBuf,
    python: PathBuf,
    /// Variables that are set or, without a value, unset for every attempt.
    variables: BTreeMap<OsString, Option<OsString>>,
    /// Ground where rows run, unless they have another.
    ground: Ground,
    mask: Option<String>,
    /// A private folder for files of attempts.
    folder: PathBuf,
    /// The directory where traces are kept, if they are kept.
    traces: Option<PathBuf>,
    repeat: u32,
    jobs: usize,
    number: AtomicU64,
    spent_ns: AtomicU64,
    /// `true` if the user wants to stop.
    pub(in crate::run) stop: Arc<AtomicBool>,
    /// The PID of a tracer that could not be killed, or 0. If set, nothing more is started.
    unkillable: AtomicU32,
}

impl Attempts {
    pub(in crate::run) fn new(
        session: &Session,
        python: &Path,
        traces: Option<PathBuf>,
        repeat: u32,
        jobs: usize,
    ) -> Attempts {
        Attempts {
            program: session.program().to_path_buf(),
            python: python.to_path_buf(),
            variables: python_path()
                .into_iter()
                .map(|modules| (OsString::from(MODULES), Some(modules)))
                .collect(),
            ground: Ground {
                on: session.on.clone(),
                ..Ground::default()
            },
            mask: session.restrict.as_ref().map(|uuids| uuids.join(",")),
            folder: session.folder().to_path_buf(),
            traces: traces.map(|traces| std::path::absolute(&traces).unwrap_or(traces)),
            repeat,
            jobs,
            number: AtomicU64::new(0),
            spent_ns: AtomicU64::new(0),
            stop: Arc::default(),
            unkillable: AtomicU32::new(0),
        }
    }

    /// Returns the attempts with these variables in each of them: set, or unset if there is no value.
    pub(in crate::run) fn with(self, variables: BTreeMap<OsString, Option<OsString>>) -> Attempts {
        Attempts { variables, ..self }
    }

    /// Returns the attempts with their files in a folder of their own, apart from attempts of the same session that stop
    /// with these.
    pub(in crate::run) fn apart(self, name: &str, stop: &Arc<AtomicBool>) -> Attempts {
        Attempts {
            folder: self.folder.join(name),
            stop: Arc::clone(stop),
            ..self
        }
    }

    /// Makes one attempt with this [`Ground`], while others may run. Returns `None` if the user stopped it.
    pub(in crate::run) fn on(&self, job: &RowJob, ground: &Ground) -> Option<PythonAttempt> {
        self.attempt_unless_stopped(job, false, ground)
    }

    pub(in crate::run) fn job_count(&self) -> usize {
        self.jobs
    }

    /// Returns a sentence about a process that could not be killed, if there is one.
    pub(in crate::run) fn unkillable_process(&self) -> Option<String> {
        let pid = self.unkillable.load(Ordering::Relaxed);
        (pid != 0).then(|| format!("process {pid} could not be killed"))
    }

    /// Returns the wall time of all attempts, added up, in nanoseconds.
    pub(super) fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Makes the attempts of a row that may run at the same time as others: all of them, except the last one of a row
    /// that creates contexts. `None` if the user stopped it.
    pub(super) fn attempts_together(&self, job: &RowJob) -> Option<Vec<PythonAttempt>> {
        let mut attempts = Vec::new();
        for number in 1..=self.repeat {
            if number > 1 && number == self.repeat && wants_to_be_alone(job, &attempts) {
                break;
            }
            attempts.push(self.attempt_unless_stopped(job, self.jobs == 1, &self.ground)?);
            // Further attempts would also hang until the time limit.
            if attempts.last().is_some_and(has_hung) {
                break;
            }
        }
        Some(attempts)
    }

    /// Makes the last attempt of a row that creates contexts, while nothing else runs: while other rows run, it is
    /// unknown how much memory is its own. `None` if the user stopped it.
    pub(super) fn alone(
        &self,
        job: &RowJob,
        mut attempts: Vec<PythonAttempt>,
    ) -> Option<Vec<PythonAttempt>> {
        if wants_to_be_alone(job, &attempts) {
            attempts.push(self.attempt_unless_stopped(job, true, &self.ground)?);
        }
        Some(attempts)
    }

    fn attempt_unless_stopped(
        &self,
        job: &RowJob,
        alone: bool,
        ground: &Ground,
    ) -> Option<PythonAttempt> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let attempt = self.attempt(job, alone, ground);
        if self.stop.load(Ordering::Relaxed) {
            None
        } else {
            attempt
        }
    }

    fn attempt(&self, job: &RowJob, alone: bool, ground: &Ground) -> Option<PythonAttempt> {
        let began = clock::now_ns();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("row-{number}"));
        let trace = self.traces.as_ref().map_or_else(
            || folder.join("trace"),
            |traces| traces.join(format!("{number:04}-{}", file_name(&job.line.id))),
        );
        let made = match self.trace(job, ground, &folder, &trace) {
            Ok(None) => return None,
            Ok(Some(why)) => PythonAttempt::failed(Reason::System, why),
            Err(error) => PythonAttempt::failed(Reason::System, error.to_string()),
        };
        let made = match Trace::open(&trace) {
            Ok(trace) => {
                let said = ProgramMessages::read(
                    &fs::read_to_string(folder.join("said")).unwrap_or_default(),
                );
                let limit_ns = job.limit.as_nanos() as u64;
                self::made(&trace, &said, &folder.to_string_lossy(), limit_ns, alone)
            }
            Err(_) => made,
        };
        // Otherwise it is removed with the private folder.
        let _ = fs::remove_dir_all(&folder);
        self.spent_ns
            .fetch_add(clock::now_ns() - began, Ordering::Relaxed);
        Some(made)
    }

    /// Runs a tracer to its end. Returns its error message, if it has one; `None` if it was stopped.
    fn trace(
        &self,
        job: &RowJob,
        ground: &Ground,
        folder: &Path,
        trace: &Path,
    ) -> Result<Option<String>, SupervisorError> {
        lay_out(folder, &job.line).map_err(SupervisorError::from_system)?;
        let returned = job.line.returned.as_ref();
        let returns = returned.map(Returned::told).unwrap_or_default();
        let mut arguments = ground.arguments(job.limit, &returns, trace);
        arguments.push("--".into());
        arguments.extend([self.python.clone().into(), folder.join("row.py").into()]);
        let tracer = Errand {
            program: &self.program,
            role: role::TRACER,
            arguments,
            environment: self.environment(&job.line, folder),
            folder,
            limit: job.limit + GRACE,
            grace: PATIENCE,
            stdout: None,
        };
        match tracer.run(|| self.stop.load(Ordering::Relaxed))? {
            ErrandEnd::Exited { status, stderr, .. } if stderr.trim().is_empty() => {
                Ok(Some(format!("the tracer exited with {status}")))
            }
            ErrandEnd::Exited { stderr, .. } => Ok(Some(stderr.trim().to_string())),
            ErrandEnd::Stopped => Ok(None),
            ErrandEnd::Unkillable(pid) => {
                self.unkillable.store(pid, Ordering::Relaxed);
                self.stop.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// Returns the caller's environment, changed for a row.
    fn environment(&self, line: &PythonLine, folder: &Path) -> BTreeMap<OsString, OsString> {
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        // Each attempt caches for itself, so that it does not profit from what an earlier one compiled.
        let of_frameworks = frameworks()
            .iter()
            .flat_map(|framework| &framework.caches)
            .map(String::as_str);
        let caches = of_frameworks.chain(["XDG_CACHE_HOME", "CUDA_CACHE_PATH"]);
        environment.extend(caches.map(|name| {
            (
                name.into(),
                folder.join("cache").join(name).into_os_string(),
            )
        }));
        for (name, value) in &self.variables {
            match value {
                Some(value) => environment.insert(name.clone(), value.clone()),
                None => environment.remove(name),
            };
        }
        environment.remove(OsStr::new(MASK));
        environment.extend(
            self.mask
                .as_ref()
                .map(|mask| (OsString::from(MASK), OsString::from(mask))),
        );
        environment.extend(
            line.env
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        environment
    }
}

/// Returns the caller's PYTHONPATH with absolute paths, so that it is valid in any directory.
fn python_path() -> Option<OsString> {
    let paths = std::env::var_os(MODULES)?;
    let paths = std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty());
    std::env::join_paths(paths.map(|path| std::path::absolute(&path).unwrap_or(path))).ok()
}

/// Returns `true` if a row creates contexts, and none of its attempts has run alone.
pub(super) fn wants_to_be_alone(job: &RowJob, attempts: &[PythonAttempt]) -> bool {
    let makes_context = attempts.iter().any(|made| made.seen.makes_context());
    job.wants_memory && makes_context && !attempts.iter().any(|made| made.alone || has_hung(made))
}

fn has_hung(made: &PythonAttempt) -> bool {
    made.invalid
        .as_ref()
        .is_some_and(|invalid| invalid.reason == Reason::Hang)
}

fn lay_out(folder: &Path, line: &PythonLine) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("row.py"), ROW)?;
    fs::write(folder.join("before.py"), line.before.join("\n") + "\n")?;
    fs::write(folder.join("ask.py"), line.ask.clone() + "\n")
}

/// Returns the name of a row as part of a path.
fn file_name(id: &str) -> String {
    let kept = id.chars().map(|c| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '-'
        }
    });
    kept.take(60).collect()
}
