//! `survey python` on this machine: the interpreter, the controls, then the rows, several at once.
//!
//! Each attempt is a process of this program (`__tracer`) that traces one fresh interpreter, so that code that reads
//! the stacks of other processes stays out of the parent. Rows run at the same time, because each has its own process
//! and spends most of its time importing. But then it is unknown which row allocates which memory. So the last attempt
//! of a row that creates contexts runs alone.

pub(in crate::run) mod attempt;
pub(in crate::run) mod pool;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::error::RunError;
use super::super::options::{ASKED, HOW_OFTEN, WRITTEN};
use super::super::progress::Progress;

use super::{SurveyRun, select};
use crate::argument;
use attempt::{Attempts, RowJob};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::EnvironmentRequest;
use cuda_pitfalls_answers::survey::python::{
    self, Control, LineQuestions, List, PythonAttempt, PythonLine, PythonRow,
};
use cuda_pitfalls_answers::survey::{SurveyDocument, SurveyRow};
use cuda_pitfalls_core::catalogue::{Invalid, SelectError};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::input;
use cuda_pitfalls_core::machine::Interpreter;
use cuda_pitfalls_core::scenario::python::unmet_requirement;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::verdict::Reason;
use pool::DoneRow;

/// The group of options about releases.
const RELEASES: &str = "Releases";

fn jobs_help() -> String {
    let (cpus, most) = (defaults::CPUS_PER_JOB, defaults::MOST_JOBS);
    format!(
        "`python`, `imports`: measurements at the same time [default: one per {cpus} CPUs, at most {most}]"
    )
}

fn timeout_help() -> String {
    let default = defaults::ROW_TIMEOUT_S;
    format!(
        "`python`, `imports`: time limit of a process and its children, e.g. 90s, 5m [default: {default}s]"
    )
}

/// Options of `survey python`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PythonOptions {
    #[arg(help = jobs_help(), long, value_name = "N", value_parser = argument::parse_jobs, help_heading = HOW_OFTEN, hide_short_help = true)]
    pub(crate) jobs: Option<usize>,
    #[arg(help = timeout_help(), long, value_name = "DURATION", value_parser = argument::parse_timeout, help_heading = HOW_OFTEN, hide_short_help = true)]
    pub(crate) timeout: Option<Duration>,
    /// `python`, `imports`: measure the list in this file instead of the built-in one.
    #[arg(long, value_name = "FILE", help_heading = ASKED, hide_short_help = true)]
    pub(crate) rows: Option<PathBuf>,
    /// Allow code from --rows and --environments to run; with `imports`, also build packages that have no wheel.
    #[arg(long, value_name = "HAZARD", value_parser = ["code"], help_heading = ASKED, hide_short_help = true)]
    pub(crate) allow: Vec<String>,
    /// `python`: keep the trace of each attempt in the run's directory.
    #[arg(long, help_heading = WRITTEN, hide_short_help = true)]
    pub(crate) keep_traces: bool,
    /// `python`: print the rows with their code and exit.
    #[arg(long, help_heading = ASKED)]
    pub(crate) list: bool,
    /// `python`: measure the lines of the first package in a temporary `uv` environment with these
    /// packages, e.g. "torch==2.9.1 numpy<2" (repeatable).
    #[arg(long, value_name = "PACKAGES", value_parser = EnvironmentRequest::parse, help_heading = RELEASES)]
    pub(crate) with: Vec<EnvironmentRequest>,
    /// `python`: measure in every environment of the built-in list, or in those whose names match,
    /// e.g. --releases='torch 2.1*'.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, default_missing_value = "*", help_heading = RELEASES)]
    pub(crate) releases: Option<String>,
    /// `python`: use the environments of this file instead of that list.
    #[arg(long, value_name = "FILE", help_heading = RELEASES, hide_short_help = true)]
    pub(crate) environments: Option<PathBuf>,
    /// `python`: use the latest release of each package of that list.
    #[arg(long, help_heading = RELEASES, hide_short_help = true)]
    pub(crate) latest: bool,
    /// `python`: install the given version of the first package of --with even if other packages
    /// exclude it.
    #[arg(long, requires = "with", help_heading = RELEASES, hide_short_help = true)]
    pub(crate) force: bool,
    /// `imports`: do not measure alongside the packages that initialize CUDA when others import them.
    #[arg(long, help_heading = RELEASES)]
    pub(crate) bare: bool,
    /// `python`: ignore packages published after this day, e.g. 2025-11-20.
    #[arg(long, value_name = "DATE", help_heading = RELEASES, hide_short_help = true)]
    pub(crate) newest: Option<String>,
    /// `python`, `imports`: maximum disk space of environments and downloads between two environments.
    #[arg(long, value_name = "SIZE", default_value = defaults::ENVIRONMENTS_SIZE, value_parser = argument::size, help_heading = RELEASES, hide_short_help = true)]
    pub(crate) disk: u64,
    /// Environments to measure in; empty for the interpreter's own.
    #[arg(skip)]
    pub(crate) requests: Vec<EnvironmentRequest>,
}

/// Time limit of a process of a row, unless the command line or the row sets another.
const TIMEOUT: Duration = Duration::from_secs(defaults::ROW_TIMEOUT_S);
/// Minimum time limit of a process of a control: a short limit for rows shows nothing about the instrument.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

impl PythonOptions {
    /// Returns the number of rows that run at once. By default most CPUs stay free: an interpreter that imports a
    /// framework takes a CPU, its tracer another, and the driver initializes one process after the other.
    pub(in crate::run) fn job_count(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs
            .unwrap_or((cpus / defaults::CPUS_PER_JOB).clamp(1, defaults::MOST_JOBS))
    }

    /// Returns the time limit of a process of a line.
    pub(in crate::run) fn limit(&self, line: &PythonLine) -> Duration {
        let limit = self.timeout.unwrap_or(TIMEOUT);
        line.timeout_s
            .map_or(limit, |seconds| limit.max(Duration::from_secs(seconds)))
    }
}

/// Reasons why there is no list of rows or of environments.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowListError {
    #[error("{option} {}: {source}", terminal(name))]
    Unreadable {
        option: &'static str,
        name: String,
        source: std::io::Error,
    },
    #[error("{}", .0.render(false))]
    Invalid(SelectError),
}

impl From<Invalid> for RowListError {
    fn from(invalid: Invalid) -> RowListError {
        RowListError::Invalid(SelectError::Invalid(vec![invalid]))
    }
}

/// Returns the list of rows.
pub(crate) fn list(rows: Option<&Path>) -> Result<List, RowListError> {
    rows.map_or_else(
        || Ok(python::built_in()?),
        |path| file("--rows", path, python::read),
    )
}

/// Returns the list in a file that an option names.
pub(in crate::run) fn file<T>(
    option: &'static str,
    path: &Path,
    read: fn(&str, &str) -> Result<T, Invalid>,
) -> Result<T, RowListError> {
    let name = path.to_string_lossy();
    match input::read_text(path, python::MOST_BYTES as u64) {
        Ok(text) => Ok(read(&name, &text)?),
        Err(source) => Err(RowListError::Unreadable {
            option,
            name: name.to_string(),
            source,
        }),
    }
}

impl SurveyRun<'_> {
    /// Runs all chosen lines of a list.
    pub(super) fn lines(mut self, mut questions: LineQuestions) -> Result<Exit, RunError> {
        let List { lines, left_out } = std::mem::take(&mut questions.list);
        let lines = select::choose_items(lines, &self.run.selectors)?;
        let found = self
            .session
            .callers_python(self.run.asked.python.as_deref(), &lines)?;
        self.report.machine.clone_from(&self.session.machine);
        let mut document = self.document(left_out);
        let is_resumed = self.options.resume.is_some();
        if is_resumed && document.machine.python != self.session.machine.python {
            let why = "--resume: the interpreter or its packages are not those it was started with; start a new one";
            return Err(RunError::Usage(why.to_string()));
        }
        self.console.print_header(&self.report, None);
        let clock = SurveyClock {
            began_ns: clock::now_ns(),
            spent_ns: document.header.elapsed_ns,
        };
        if !is_resumed {
            self.put_document(&document)?;
        }
        let Some(python) = found else {
            document.rows = self.rows_without_python(&lines, &questions);
            return self.end_lines(&lines, document, clock);
        };
        let options = &self.options.python;
        let folder = options.keep_traces.then(|| self.folder.join("traces"));
        let (repeat, jobs) = (self.options.repeat(), options.job_count());
        let attempts = Attempts::new(&self.session, &python, folder, repeat, jobs);
        // The controls run again after each resumption, because stored rows come from another
        // session.
        document.rows.retain(|row| !row.is_control);
        if self.session.has_libcuda() && !self.ask_controls(&attempts, &questions, &mut document)? {
            document.header.elapsed_ns = clock.elapsed_ns();
            return self.refuse_rows(document);
        }
        self.ask_lines(&lines, &attempts, &questions, &mut document, clock)?;
        self.end_lines(&lines, document, clock)
    }

    /// Returns the rows of lines that no interpreter can run here.
    fn rows_without_python(
        &self,
        lines: &[PythonLine],
        questions: &LineQuestions,
    ) -> Vec<SurveyRow> {
        let mut unavailable = self.session.machine.unavailable.iter();
        let missing = unavailable.find(|missing| missing.reason == Reason::NoPython.name());
        let detail = missing.map(|missing| missing.detail.clone());
        let detail = detail.unwrap_or_default();
        let mut rows = Vec::new();
        for line in lines {
            let row = PythonRow::new(line, None);
            let row = row.as_unmeasured(Reason::NoPython, detail.clone());
            rows.push((questions.row)(line, row, false));
        }
        rows
    }

    /// Puts the rows in order, and completes the document if each line has one.
    fn end_lines(
        mut self,
        lines: &[PythonLine],
        mut document: SurveyDocument,
        clock: SurveyClock,
    ) -> Result<Exit, RunError> {
        // Controls first, then in the order of the list, whatever order they were done in.
        document
            .rows
            .sort_by_key(|row| lines.iter().position(|line| line.id == row.key));
        document.complete = lines
            .iter()
            .all(|line| document.rows.iter().any(|row| row.key == line.id));
        document.header.elapsed_ns = clock.elapsed_ns();
        self.end(document)
    }

    /// Returns the NVML indices of the GPUs that processes of rows see, in CUDA order.
    fn visible(&self) -> Vec<u32> {
        let gpus = &self.session.machine.gpus;
        let mut indices = Vec::new();
        for uuid in self.session.usable_gpus() {
            let index = gpus.iter().position(|gpu| gpu.uuid == uuid);
            indices.extend(index.and_then(|index| u32::try_from(index).ok()));
        }
        indices
    }

    /// Runs the controls. Returns `false` if one of them fails.
    fn ask_controls(
        &mut self,
        attempts: &Attempts,
        questions: &LineQuestions,
        document: &mut SurveyDocument,
    ) -> Result<bool, RunError> {
        self.console.status("checking the instrument");
        let controls: Vec<Control> = python::instrument_controls(&self.visible());
        let mut jobs = Vec::new();
        for control in &controls {
            let mut job = self.row_job(&control.line, questions);
            job.limit = job.limit.max(CONTROL_TIMEOUT);
            jobs.push(job);
        }
        let (mut rows, mut is_held) = (Vec::new(), Vec::new());
        pool::run(
            attempts,
            jobs,
            &mut self.session.supervisor.interrupt,
            |done| match done {
                Some(done) => rows.push(done),
                None => self.console.tick(),
            },
        );
        rows.sort_by_key(|(at, _)| *at);
        for (at, made) in rows {
            let Some(control) = controls.get(at) else {
                continue;
            };
            let held = control.held(PythonRow::new(&control.line, None).with_attempts(made));
            is_held.push(held.as_expected == Some(true));
            document
                .rows
                .push((questions.row)(&control.line, held, false));
        }
        Ok(is_held.len() == controls.len() && is_held.iter().all(|held| *held))
    }

    /// Ends the survey without rows, because the controls failed.
    fn refuse_rows(mut self, document: SurveyDocument) -> Result<Exit, RunError> {
        if self.session.supervisor.interrupt.signal().is_none() {
            let why = "the instrument's controls failed, so nothing was measured";
            self.console.print_warnings(&[why.to_string()]);
        }
        // With a faulty instrument, the controls are all that there is to run.
        let complete = document.rows.iter().any(|row| row.is_unexpected);
        self.end(SurveyDocument {
            complete,
            ..document
        })
    }

    fn row_job(&self, line: &PythonLine, questions: &LineQuestions) -> RowJob {
        RowJob {
            line: line.clone(),
            limit: self.options.python.limit(line),
            wants_memory: questions.has_memory,
        }
    }

    /// Runs the lines without a row.
    fn ask_lines(
        &mut self,
        lines: &[PythonLine],
        attempts: &Attempts,
        questions: &LineQuestions,
        document: &mut SurveyDocument,
        clock: SurveyClock,
    ) -> Result<(), RunError> {
        let about = self.session.machine.python.clone().unwrap_or_default();
        let (mut asked, mut jobs) = (Vec::new(), Vec::new());
        let known: BTreeSet<String> = document.rows.iter().map(|row| row.key.clone()).collect();
        for line in lines.iter().filter(|line| !known.contains(&line.id)) {
            match self.why_not_asked(line, &about) {
                Some((reason, detail)) => {
                    let row = PythonRow::new(line, Some(&about)).as_unmeasured(reason, detail);
                    document.rows.push((questions.row)(line, row, false));
                }
                None => {
                    jobs.push(self.row_job(line, questions));
                    asked.push(line);
                }
            }
        }
        self.put_document(document)?;
        self.console.start(jobs.len() as u64);
        let (count, at_once) = (counted(jobs.len(), "row"), attempts.job_count());
        self.console
            .print_warnings(&[format!("measuring {count}, {at_once} at once")]);
        let mut progress = Progress::new(jobs.len());
        let mut failed = None;
        let (console, store) = (&self.console, self.open_store()?);
        pool::run(
            attempts,
            jobs,
            &mut self.session.supervisor.interrupt,
            |done: Option<DoneRow>| {
                let Some((at, made)) = done else {
                    return console.tick();
                };
                let Some(line) = asked.get(at) else { return };
                let is_met = calls_its_place(line, &made);
                let row = PythonRow::new(line, Some(&about)).with_attempts(made);
                document.rows.push((questions.row)(line, row, is_met));
                document.header.elapsed_ns = clock.elapsed_ns();
                console.step(progress.done());
                console.status(&format!("{} · {}", progress.left(), line.id));
                if progress.is_write_due()
                    && let Err(error) = store.write_document(&document.kind.file(), document)
                {
                    failed = Some(error);
                }
            },
        );
        document.header.attempts_ns += attempts.spent_ns();
        document.header.host_unsafe = attempts.unkillable_process();
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Returns the reason why a line cannot run here; `None` if it can.
    fn why_not_asked(&self, line: &PythonLine, about: &Interpreter) -> Option<(Reason, String)> {
        if let Some(detail) = line
            .needs
            .iter()
            .find_map(|need| unmet_requirement(need, about))
        {
            return Some((Reason::NoPackage, detail));
        }
        let visible = self.visible().len();
        if (line.gpus as usize) > visible {
            let has = format!(
                "it needs {}, but {visible} can be used here",
                counted(line.gpus as usize, "GPU")
            );
            return Some((Reason::TooFewGpus, has));
        }
        let sets_mask = line.env.contains_key("CUDA_VISIBLE_DEVICES");
        (sets_mask && self.session.restrict.is_some()).then(|| {
            (
                Reason::Restricted,
                "it sets its own mask, and the usable GPUs are restricted".to_string(),
            )
        })
    }
}

/// Duration of a survey, with the time before it was resumed.
#[derive(Clone, Copy)]
struct SurveyClock {
    /// Time at which this session began.
    began_ns: u64,
    /// The time of earlier sessions.
    spent_ns: u64,
}

impl SurveyClock {
    fn elapsed_ns(self) -> u64 {
        self.spent_ns + (clock::now_ns() - self.began_ns)
    }
}

/// Returns `true` if an attempt makes the call that fails in this line.
fn calls_its_place(line: &PythonLine, made: &[PythonAttempt]) -> bool {
    let Some(returned) = &line.returned else {
        return false;
    };
    let mut called = made.iter().flat_map(|made| &made.called);
    called.any(|call| returned.calls.contains(call))
}
