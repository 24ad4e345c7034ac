//! `survey imports`: the packages of a list, each in an environment of its own, several environments side by side.
//!
//! Every result is one line of a file, which is on disk as soon as the environment is done. A package whose file has
//! rows for the same versions of everything installed is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::console::Console;
use super::document::{blank_report, parent_folder};
use super::error::RunError;
use super::progress::Progress;
use super::releases::{WORK, answer, ask_controls, list_witnesses, who_answers};
use super::session::{Launcher, Session};
use super::survey::SurveyOptions;
use super::survey::python::attempt::{Attempts, Ground, RowJob};
use super::survey::python::{RowListError, file, pool};
use super::survey::select;
use super::uv::{self, How, InstallError, Installer, Made};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::releases::{
    self, EnvironmentRequest, IMPORTS_FILE, ImportFacts, ImportRow, ImportedPackage, LineState,
    WitnessAsked, normalize_name,
};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::Store;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::shorten_text;
use cuda_pitfalls_instrument::supervisor::{Interrupt, signal_name};
use cuda_pitfalls_render::imports;

/// The variable that makes PyTorch count GPUs with NVML.
const NVML_CHECK: (&str, &str) = ("PYTORCH_NVML_BASED_CUDA_CHECK", "1");
/// Maximum length of the reason why a package cannot be installed, in bytes.
const LONGEST_REASON: usize = 300;

/// A package to ask in one condition.
struct ImportJob {
    package: ImportedPackage,
    request: EnvironmentRequest,
    is_together: bool,
}

/// An environment, while others exist.
struct EnvironmentSlot<'a> {
    installer: Installer<'a>,
    attempts: Attempts,
    interrupt: Interrupt,
}

struct ImportSurvey<'a> {
    options: &'a SurveyOptions,
    witnesses: Vec<(WitnessAsked, Ground)>,
    /// Version of Python.
    python: String,
    /// Rows that are known.
    known: Vec<ImportRow>,
    slots: Mutex<Vec<EnvironmentSlot<'a>>>,
    stop: Arc<AtomicBool>,
}

/// Runs the survey, prints and writes its results, and returns the exit code.
pub(super) fn survey(
    options: &SurveyOptions,
    launcher: Launcher,
    console: &mut Console,
) -> Result<Exit, RunError> {
    let list = match &options.python.rows {
        Some(path) => file("--rows", path, releases::read_imports),
        None => releases::built_in_imports().map_err(RowListError::from),
    };
    let list = list.map_err(|error| RunError::Usage(error.to_string()))?;
    let packages = select::choose_items(list.package.clone(), &options.selectors)?;
    let mut jobs = Vec::new();
    for is_together in [false, true] {
        for package in &packages {
            jobs.push(ImportJob {
                package: package.clone(),
                request: package.request(&list, is_together),
                is_together,
            });
        }
    }
    jobs.retain(|job| !(job.is_together && options.python.bare));
    let mut session = Session::open_machine(&options.asked, launcher)?;
    let folder = match &options.resume {
        Some(folder) => folder.clone(),
        None => {
            let report = blank_report(&options.run(), &session)?;
            parent_folder(&options.asked, &session, true).join(&report.run.id)
        }
    };
    Store::at(&folder)?;
    console.print_warnings(&session.notes);
    let witnesses = list_witnesses(&session);
    console.print_warnings(&[who_answers(&witnesses)]);
    let path = folder.join(IMPORTS_FILE);
    let mut rows = read_rows(&path)?;
    let mut interrupt = std::mem::replace(&mut session.supervisor.interrupt, Interrupt::none());
    let program = session.program().to_path_buf();
    let count = options.python.job_count();
    session.callers_python(options.asked.python.as_deref(), &[])?;
    let python = session.machine.python.as_ref();
    let stop = Arc::default();
    let survey = ImportSurvey {
        options,
        witnesses,
        python: python
            .map(|python| python.version.clone())
            .unwrap_or_default(),
        known: rows.clone(),
        slots: Mutex::new(make_slots(
            options, &session, &program, &folder, count, &stop,
        )?),
        stop,
    };
    let mut progress = Progress::new(jobs.len());
    console.start(jobs.len() as u64);
    console.print_warnings(&[format!(
        "{}, {count} at once",
        counted(jobs.len(), "environment")
    )]);
    let mut failed = None;
    pool::each(
        count,
        jobs,
        |job| survey.ask_package(&job),
        &mut interrupt,
        &survey.stop,
        &mut |done: Option<Result<Vec<ImportRow>, RunError>>| {
            let Some(done) = done else {
                return console.tick();
            };
            console.step(progress.done());
            match done {
                Ok(new) => {
                    if let Some(row) = new.first() {
                        console.status(&format!("{} · {}", progress.left(), row.package));
                    }
                    releases::keep_newest(&mut rows, new);
                    if let Err(error) = write_file(&path, &rows) {
                        failed = Some(error);
                    }
                }
                Err(error) => failed = Some(error),
            }
            if failed.is_some() {
                survey.stop.store(true, Ordering::Relaxed);
            }
        },
    );
    if let Some(error) = failed {
        return Err(error);
    }
    let exit = match interrupt.signal() {
        Some(signal) => Exit::stopped_by(&signal_name(signal)),
        None if rows.iter().all(|row| !row.state.is_known()) => Exit::NothingMeasured,
        None if rows.iter().any(|row| !row.state.is_known()) => Exit::Inconclusive,
        None => Exit::Ok,
    };
    let text = format!(
        "{}\nrows  {}",
        imports::text(&rows, console.screen),
        path.display()
    );
    Ok(exit.worst(console.finish_survey(&text, serde_json::to_string(&rows))))
}

fn make_slots<'a>(
    options: &SurveyOptions,
    session: &Session,
    program: &'a Path,
    folder: &Path,
    count: usize,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<EnvironmentSlot<'a>>, RunError> {
    let mut slots = Vec::new();
    for number in 0..count {
        let work = folder.join(format!("{WORK}-{number}"));
        let installer = Installer::new(program, &work, options.python.disk / count as u64)?;
        let environment = installer.environment_folder();
        let python = environment.join("bin/python");
        let mut variables = uv::variables(&environment);
        // An installer links each version of a file from its cache, with one time of change, so that what was compiled
        // in the last environment at this place holds in the next one.
        let compiled = work.join("compiled").into_os_string();
        variables.insert("PYTHONPYCACHEPREFIX".into(), Some(compiled));
        slots.push(EnvironmentSlot {
            installer,
            attempts: Attempts::new(session, &python, None, 1, 1)
                .with(variables)
                .apart(&format!("slot-{number}"), stop),
            interrupt: Interrupt::install().map_err(InstallError::from)?,
        });
    }
    Ok(slots)
}

impl ImportSurvey<'_> {
    /// Returns the rows of a package in a condition, in a slot that is free; none if they are known. `None` if the user
    /// stopped the survey.
    fn ask_package(&self, job: &ImportJob) -> Option<Result<Vec<ImportRow>, RunError>> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let slots = || self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = slots().pop()?;
        let rows = self.ask_in(&mut slot, job);
        if let Some(why) = slot.attempts.unkillable_process() {
            return Some(Err(RunError::HostUnsafe(why)));
        }
        slots().push(slot);
        match rows {
            Err(InstallError::Stopped(_)) => None,
            _ if self.stop.load(Ordering::Relaxed) => None,
            rows => Some(rows.map_err(RunError::from)),
        }
    }

    fn ask_in(
        &self,
        slot: &mut EnvironmentSlot<'_>,
        job: &ImportJob,
    ) -> Result<Vec<ImportRow>, InstallError> {
        let how = How {
            request: &job.request,
            overrides: Vec::new(),
            pre: false,
            python: self.options.asked.python.as_deref().map(Path::as_os_str),
            build: !self.options.python.allow.is_empty(),
        };
        let chosen = match slot.installer.chosen_packages(&how, &mut slot.interrupt) {
            Ok(chosen) => chosen,
            Err(InstallError::Refused(why)) => return Ok(self.refused_rows(job, &why)),
            Err(error) => return Err(error),
        };
        let inputs = releases::inputs_hash(&job.package.lines, &self.python, &chosen);
        let version = chosen.get(&normalize_name(&job.package.name));
        if job
            .package
            .lines
            .iter()
            .all(|line| self.is_known(job, line, &inputs, version))
        {
            return Ok(Vec::new());
        }
        let made = match slot.installer.make_environment(&how, &mut slot.interrupt) {
            Ok(made) => made,
            Err(InstallError::Refused(why)) => return Ok(self.refused_rows(job, &why)),
            Err(error) => return Err(error),
        };
        let rows = self.ask_lines(slot, job, &made, &inputs);
        slot.installer.remove_environment(&made);
        Ok(rows)
    }

    /// Returns `true` if a line has an answer for these packages or, with `--latest`, for this version.
    fn is_known(
        &self,
        job: &ImportJob,
        line: &str,
        inputs: &str,
        version: Option<&String>,
    ) -> bool {
        let asked = self.blank_row(job, line);
        self.known.iter().any(|row| {
            let is_newest = self.options.python.latest && Some(&row.version) == version;
            (row.inputs == inputs || is_newest) && row.asks_the_same(&asked)
        })
    }

    /// Runs the controls, and then every line of a package.
    fn ask_lines(
        &self,
        slot: &mut EnvironmentSlot<'_>,
        job: &ImportJob,
        made: &Made,
        inputs: &str,
    ) -> Vec<ImportRow> {
        let options = &self.options.python;
        let attempts = &slot.attempts;
        if let Some(why) = ask_controls(options, attempts, &self.witnesses, &mut slot.interrupt) {
            return self.refused_rows(job, &why);
        }
        let mut rows = Vec::new();
        for line in job.package.python_lines() {
            let mut row_job = RowJob {
                limit: options.limit(&line),
                line,
                wants_memory: false,
            };
            let Some((row, side_effects)) =
                answer(attempts, &row_job, &self.witnesses, &made.folder)
            else {
                break;
            };
            let mut facts = ImportFacts::new(&row, &made.packages, side_effects);
            if row.call().is_some() {
                let (name, value) = NVML_CHECK;
                row_job.line.env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
                let ground = self
                    .witnesses
                    .iter()
                    .find(|(asked, _)| asked.nvml_gpus.is_some());
                let attempt = ground.and_then(|(_, ground)| attempts.on(&row_job, ground));
                let is_clean = attempt.is_some_and(|attempt| {
                    attempt.invalid.is_none() && attempt.seen.calls_cuinit == Some(false)
                });
                facts.cured_by = is_clean.then(|| format!("{name}={value}"));
            }
            let version = made.packages.get(&normalize_name(&job.package.name));
            rows.push(ImportRow {
                version: version.cloned().unwrap_or_default(),
                python: made.version.clone(),
                state: row.state(std::slice::from_ref(&row)),
                facts,
                inputs: inputs.to_string(),
                ..self.blank_row(job, &row.ask)
            });
        }
        rows
    }

    /// Returns the rows of a package that has no answer, with the reason.
    fn refused_rows(&self, job: &ImportJob, why: &str) -> Vec<ImportRow> {
        let mut rows = Vec::new();
        for line in &job.package.lines {
            let mut row = self.blank_row(job, line);
            row.facts.why = Some(shorten_text(why, LONGEST_REASON));
            rows.push(row);
        }
        rows
    }

    fn blank_row(&self, job: &ImportJob, line: &str) -> ImportRow {
        ImportRow {
            line: line.to_string(),
            package: job.package.name.clone(),
            version: String::new(),
            python: self.python.clone(),
            together: job.is_together,
            state: LineState::Unknown,
            facts: ImportFacts::default(),
            asked: clock::utc_now().chars().take(10).collect(),
            inputs: String::new(),
        }
    }
}

/// Reads the rows of a file; none if it does not exist.
pub(crate) fn read_rows(file: &Path) -> Result<Vec<ImportRow>, RunError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RunError::Usage(format!("{}: {error}", file.display()))),
    };
    releases::read_rows(&text)
        .map_err(|error| RunError::Usage(format!("{}: {error}", file.display())))
}

/// Writes the rows: to a new file first, so that a reader never sees half of them.
fn write_file(file: &Path, rows: &[ImportRow]) -> Result<(), RunError> {
    let mut text = String::new();
    for row in rows {
        text +=
            &serde_json::to_string(row).map_err(|error| RunError::Internal(error.to_string()))?;
        text.push('\n');
    }
    let new = file.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    written.map_err(|error| RunError::Internal(format!("{}: {error}", file.display())))
}
