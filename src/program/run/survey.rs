//! A survey on this machine: the instrument's controls first, then every question, row by row.
//!
//! The controls are scenarios, and their report is written next to the survey. If one of them fails, nothing is
//! surveyed, because rows of a faulty instrument are worse than none. Rows are on disk within seconds, so a killed
//! survey resumes where it stopped.

mod ask;
mod exported;
mod needs;
pub(super) mod python;
mod resume;
pub(super) mod select;

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use self::python::PythonOptions;
use super::calibrate::Calibrator;
use super::console::Console;
use super::document::{blank_report, finish_document, note_run_end, parent_folder, write_last};
use super::error::RunError;
use super::lock::lock_gpus;
use super::options::{ASKED, HOW_OFTEN, RunOptions, WorkerOptions};
use super::question::{self, why_host_unsafe};
use super::session::{Launcher, Session};
use crate::argument;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::survey::{
    Item, LeftOut, SurveyDocument, SurveyKind, SurveyQuestions, SurveyRequest,
};
use cuda_pitfalls_core::catalogue::{self, SelectError};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::{Report, Store, read};
use cuda_pitfalls_core::scenario::Scenario;

/// Options of `survey`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SurveyOptions {
    #[arg(value_enum)]
    pub(crate) kind: SurveySubject,
    /// Names or globs of calls, masks, variables or lines, or groups (`start-up`, `Numbers`,
    /// `torch`) [default: all]. `!SELECTOR` excludes.
    pub(crate) selectors: Vec<String>,
    #[command(flatten)]
    pub(crate) asked: WorkerOptions,
    /// Resume the survey in this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "out", help_heading = HOW_OFTEN, hide_short_help = true)]
    pub(crate) resume: Option<PathBuf>,
    /// `mask`: also generate N masks and compare the driver with the rule.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = argument::parse_mask_count, help_heading = ASKED)]
    pub(crate) generate: usize,
    /// `calls`: number of GPUs visible to a worker. One shows whether a call reads the mask and
    /// creates a context; two show on which GPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = ASKED)]
    pub(crate) visible_gpus: u32,
    #[command(flatten)]
    pub(crate) python: PythonOptions,
}

/// What `survey` asks: a kind of survey, or the imports of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurveySubject {
    Kind(SurveyKind),
    Imports,
}

impl SurveySubject {
    /// Returns the kind; imports belong to `survey python`.
    pub(crate) fn kind(self) -> SurveyKind {
        match self {
            SurveySubject::Kind(kind) => kind,
            SurveySubject::Imports => SurveyKind::Python,
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SurveySubject::Kind(kind) => kind.name(),
            SurveySubject::Imports => "imports",
        }
    }

    /// Returns `true` if this survey has an option that only some have.
    pub(crate) fn takes(self, option: &str) -> bool {
        match self {
            SurveySubject::Kind(kind) => kind.kind_file().takes(option),
            SurveySubject::Imports => OF_IMPORTS.contains(&option),
        }
    }
}

/// Options of `survey imports` that not every survey has.
const OF_IMPORTS: [&str; 8] = [
    "--jobs",
    "--timeout",
    "--python",
    "--rows",
    "--allow",
    "--latest",
    "--disk",
    "--bare",
];

impl ValueEnum for SurveySubject {
    fn value_variants<'a>() -> &'a [SurveySubject] {
        static ALL: LazyLock<Vec<SurveySubject>> = LazyLock::new(|| {
            let mut all: Vec<SurveySubject> = SurveyKind::all()
                .iter()
                .map(|kind| SurveySubject::Kind(*kind))
                .collect();
            all.push(SurveySubject::Imports);
            all
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            SurveySubject::Kind(kind) => kind.to_possible_value(),
            SurveySubject::Imports => Some(
                PossibleValue::new("imports")
                    .help("Packages whose import calls `cuInit`, each in an environment of `uv`"),
            ),
        }
    }
}

impl SurveyOptions {
    /// Returns the options of a run with the same questions and workers.
    pub(super) fn run(&self) -> RunOptions {
        RunOptions {
            selectors: self.selectors.clone(),
            asked: self.asked.clone(),
            ..RunOptions::default()
        }
    }

    /// Attempts of each case of a question.
    fn repeat(&self) -> u32 {
        self.repeat_or(
            self.kind
                .kind()
                .kind_file()
                .repeat
                .unwrap_or(defaults::SURVEY_REPEAT),
        )
    }

    /// Attempts of each generated mask. The rule's prediction is the second witness.
    fn repeat_generated(&self) -> u32 {
        self.repeat_or(defaults::GENERATED_REPEAT)
    }

    fn repeat_or(&self, default: u32) -> u32 {
        if self.asked.quick {
            1
        } else {
            self.asked.repeat.unwrap_or(default)
        }
    }
}

/// The controls, which must succeed before the first question. Probing creates no context and changes nothing. The mask
/// that is set afterwards hides every GPU. A mask that was already read can be distinguished from one that was not. A
/// mask of UUIDs keeps a worker off every other GPU. On a machine with one GPU, only the first two can run.
const CONTROLS: [&str; 5] = [
    "instrument/probes-make-no-context",
    "visibility/empty-mask-hides-all",
    "instrument/probes-change-nothing",
    "visibility/mask-after-device-count",
    "instrument/uuid-mask-touches-no-other-gpu",
];

/// Runs the survey, prints and writes its results, and returns the exit code.
pub(super) fn survey(
    options: &SurveyOptions,
    launcher: Launcher,
    console: &mut Console,
) -> Result<Exit, RunError> {
    let mut run = options.run();
    run.asked.repeat = Some(options.repeat());
    let stored = options.resume.as_deref().map(resume::open).transpose()?;
    let mut session = Session::open_machine(&run.asked, launcher)?;
    let is_kept = run.asked.out.is_some() || options.resume.is_some() || session.can_ask();
    let (mut report, folder) = match (&options.resume, &stored) {
        (Some(folder), Some(survey)) => {
            resume::same_question(survey, options)?;
            resume::same_machine(survey, &session)?;
            run.asked.seed = Some(survey.header.seed);
            // The controls of Python lines are rows of the survey itself.
            let is_of_lines = options.kind.kind().kind_file().takes("--jobs");
            let report = if is_of_lines {
                blank_report(&run, &session)?
            } else {
                read(folder).map_err(resume::cannot_resume)?
            };
            (report, folder.clone())
        }
        _ => {
            let report = blank_report(&run, &session)?;
            let folder = parent_folder(&run.asked, &session, is_kept).join(&report.run.id);
            (report, folder)
        }
    };
    let locks = lock_gpus(&run.asked.locks, &mut session, console)?;
    report.run.warnings.extend_from_slice(&locks.notes);
    console.print_warnings(&session.notes);
    let survey_run = SurveyRun {
        options,
        stored,
        run,
        session,
        report,
        folder,
        is_kept,
        console,
    };
    match survey_run.questions()? {
        SurveyQuestions::Listed(items, left_out) => survey_run.survey_items(items, left_out),
        SurveyQuestions::Staged(left_out) => survey_run.needs(left_out),
        SurveyQuestions::Lines(mut questions) => {
            if let Some(rows) = &options.python.rows {
                questions.list =
                    python::list(Some(rows)).map_err(|error| RunError::Usage(error.to_string()))?;
            }
            survey_run.lines(questions)
        }
    }
}

struct SurveyRun<'a> {
    options: &'a SurveyOptions,
    /// The survey to resume.
    stored: Option<SurveyDocument>,
    run: RunOptions,
    session: Session,
    report: Report,
    /// The folder of the report and the survey.
    folder: PathBuf,
    is_kept: bool,
    console: &'a mut Console,
}

impl SurveyRun<'_> {
    /// Returns the questions of the survey on this machine.
    fn questions(&self) -> Result<SurveyQuestions, RunError> {
        let (options, machine) = (self.options, &self.session.machine);
        let uuids: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let questions = options.kind.kind().questions(&SurveyRequest {
            uuids: &uuids,
            visible_gpus: options.visible_gpus,
            seed: self.report.run.seed,
            generate: options.generate,
            repeat_generated: options.repeat_generated(),
            exported: &|| exported::exported_functions(machine),
        });
        questions.map_err(|list| RunError::Internal(SelectError::Invalid(vec![list]).render(false)))
    }

    /// Selects items, runs the controls and then the items.
    fn survey_items(mut self, items: Vec<Item>, left_out: Vec<LeftOut>) -> Result<Exit, RunError> {
        let items = select::choose_items(items, &self.run.selectors)?;
        if let Some(exit) = self.begin_run()? {
            return Ok(exit);
        }
        let mut document = self.document(left_out);
        self.ask(&items, &mut document)?;
        self.end(document)
    }

    /// Runs the controls, or calibrates again if a survey is resumed. Returns the exit code if the survey may not
    /// begin.
    fn begin_run(&mut self) -> Result<Option<Exit>, RunError> {
        if self.options.resume.is_some() {
            // Co-tenants may have changed since, and timestamps of another boot are not comparable.
            self.report.run.calibration.clear();
            self.calibrate_gpus();
        } else {
            let store = Store::create(
                &parent_folder(&self.run.asked, &self.session, self.is_kept),
                &self.report.run.id,
            )?;
            let exit = self.run_controls(&store)?;
            if exit != Exit::Ok {
                return self.end_without_rows(&store, exit).map(Some);
            }
            write_last(&mut self.report, &store, exit)?;
        }
        self.console.print_header(&self.report, None);
        Ok(None)
    }

    /// Opens the directory of the run, which is created if it does not exist.
    fn open_store(&self) -> Result<Store, RunError> {
        Ok(Store::at(&self.folder)?)
    }

    /// Runs the controls, and records in their report how they ended.
    fn run_controls(&mut self, store: &Store) -> Result<Exit, RunError> {
        store.write(&self.report)?;
        self.calibrate_gpus();
        let names = CONTROLS.map(str::to_string);
        let scenarios = catalogue::select_scenarios(&names)
            .map_err(|error| RunError::Internal(error.to_string()))?;
        self.session.use_runtime(0);
        self.report.run.selectors = names.to_vec();
        // On a machine with one GPU, controls that need a second one are skipped.
        self.report.run.allow_skip =
            Some("a control may need more GPUs than this machine has".to_string());
        for scenario in &scenarios {
            self.control(scenario);
            self.report.run.elapsed_ns = clock::now_ns() - self.report.run.started_ns;
            store.write(&self.report)?;
        }
        Ok(note_run_end(&mut self.report, &self.session))
    }

    fn calibrate_gpus(&mut self) {
        Calibrator::calibrate_all(&mut self.session, &mut self.report, self.console);
    }

    fn control(&mut self, scenario: &Scenario) {
        for instance in &scenario.instances {
            if self.session.supervisor.interrupt.check() {
                return;
            }
            self.console.status(&instance.name);
            let planning = question::plan_options(&mut self.session, &self.run, 0);
            let done = question::answer(
                &mut self.session,
                scenario,
                instance,
                &self.report.run,
                &planning,
                0,
                self.console,
            );
            if let Some(why) = why_host_unsafe(&done) {
                self.report.run.host_unsafe.get_or_insert(why);
            }
            self.report.scenarios.push(done);
            self.report
                .machine
                .libraries
                .clone_from(&self.session.machine.libraries);
        }
    }

    /// Ends the survey without rows, because the controls failed.
    fn end_without_rows(&mut self, store: &Store, exit: Exit) -> Result<Exit, RunError> {
        let why = match exit {
            Exit::NothingMeasured => {
                "none of the instrument's controls can be run here, so nothing was surveyed"
            }
            Exit::Interrupted | Exit::Quit | Exit::Terminated => {
                "interrupted before the first question"
            }
            _ => {
                "some of the instrument's controls failed, so nothing was surveyed; see their report"
            }
        };
        let (console, is_kept) = (&mut *self.console, self.is_kept);
        console.print_warnings(&[why.to_string()]);
        finish_document(&mut self.report, store, exit, |report| {
            console.finish_run(report, &store.path(), is_kept)
        })
    }
}
