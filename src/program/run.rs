//! A run: from selected scenarios to a durable report and an exit code.

mod bisect;
mod calibrate;
mod console;
mod document;
mod error;
mod imports;
mod junit;
mod lock;
pub(crate) mod options;
mod progress;
mod python;
mod question;
mod releases;
mod rounds;
mod session;
mod spool;
mod survey;
mod uv;

pub(crate) use bisect::{BisectOptions, NvmlChoice};
pub(crate) use error::RunError;
pub(crate) use imports::read_rows as read_imports;
pub(crate) use python::is_program;
pub(crate) use releases::{documents as environment_documents, list_environments};
pub(crate) use survey::python::{PythonOptions, list as python_list};
pub(crate) use survey::select::name_takers;
pub(crate) use survey::{SurveyOptions, SurveySubject};

use calibrate::Calibrator;
use console::Console;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::preview::Preview;
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::report::{Report, Requirement, Store};
use cuda_pitfalls_render as render;
use document::{blank_report, compare_requirements, finish_document, note_run_end, parent_folder};
use junit::JunitFile;
use lock::lock_gpus;
use options::RunOptions;
use rounds::{Rounds, expect_duration, plan_questions};
use session::{Launcher, Session};
use spool::Spool;

/// Runs scenarios, prints their answers, writes a report, and returns the exit code.
pub(crate) fn run(options: &RunOptions) -> Result<Exit, RunError> {
    let launcher = Launcher::install()?;
    // Errors in the options are reported before the machine is used.
    options.collect_labels()?;
    let selection = options.select_scenarios()?;
    let Some(path) = &options.junit else {
        return measure_selection(options, launcher, selection, None);
    };
    // A run may take an hour, so an unwritable file is reported now.
    let junit = JunitFile::prepare_file(path)?;
    let ended = measure_selection(options, launcher, selection, Some(&junit));
    if let Err(error) = &ended {
        junit.write_failure(&error.to_string());
    }
    ended
}

/// Runs every question of a survey, and returns the exit code.
pub(crate) fn survey(options: &SurveyOptions) -> Result<Exit, RunError> {
    let launcher = Launcher::install()?;
    // Options that exclude each other are reported before the machine is touched.
    survey::select::check(options)?;
    let mut console = Console::new(&options.run());
    if options.kind == SurveySubject::Imports {
        imports::survey(options, launcher, &mut console)
    } else if options.python.requests.is_empty() {
        survey::survey(options, launcher, &mut console)
    } else {
        releases::survey(options, launcher, &mut console)
    }
}

/// Searches for the first bad release, and returns the exit code.
pub(crate) fn start_bisect(options: &BisectOptions) -> Result<Exit, RunError> {
    let mut console = Console::new(&options.run());
    bisect::search_releases(options, Launcher::install()?, &mut console)
}

/// Runs the steps of a run in their order, from the machine to the exit code.
fn measure_selection(
    options: &RunOptions,
    launcher: Launcher,
    selection: Selection,
    junit: Option<&JunitFile>,
) -> Result<Exit, RunError> {
    let mut console = Console::new(options);
    let mut session = Session::open_machine(&options.asked, launcher)?;
    session.use_python(options.asked.python.as_deref(), &selection.scenarios)?;
    console.print_warnings(&session.notes);
    if options.dry_run {
        return Ok(print_preview(
            options,
            &mut session,
            &selection,
            &mut console,
        ));
    }
    let mut report = blank_report(options, &session)?;
    let locks = lock_gpus(&options.asked.locks, &mut session, &console)?;
    report.run.warnings.extend_from_slice(&locks.notes);
    let is_kept = options.asked.out.is_some() || session.answers_as_wanted(&options.asked);
    let store = create_store(options, &session, &report, is_kept)?;
    if report.run.require.iter().any(Requirement::is_unmet) {
        console.print_header(&report, None);
    } else {
        ask_selection(
            options,
            &mut session,
            &mut report,
            &store,
            selection,
            &mut console,
        )?;
    }
    let mut exit = note_run_end(&mut report, &session);
    if let Some(junit) = junit {
        exit = exit.worst(junit.hand_over(&report, &console));
    }
    let ended = finish_document(&mut report, &store, exit, |report| {
        console.finish_run(report, &store.path(), is_kept)
    })?;
    if ended != exit
        && let Some(junit) = junit
    {
        junit.write_failure("the report could not be written");
    }
    Ok(ended)
}

/// Measures the instrument, plans every question of a selection, and runs them.
fn ask_selection(
    options: &RunOptions,
    session: &mut Session,
    report: &mut Report,
    store: &Store,
    selection: Selection,
    console: &mut Console,
) -> Result<(), RunError> {
    let calibrator = Calibrator::calibrate_all(session, report, console);
    let questions = plan_questions(options, session, report, &selection);
    console.expect_scenarios(report, &selection.scenarios, options.asked.attempts());
    // The plans have everything that is needed, and the files are a third of this process's memory.
    drop(selection);
    let spool = Spool::create_in(session.folder())?;
    let expected = expect_duration(options, report);
    console.print_header(report, Some(expected));
    let asked_ns = clock::now_ns();
    let mut rounds = Rounds {
        options,
        session,
        report,
        console,
        store,
        calibrator,
        questions,
        spool,
        expected,
        asked_ns,
        written_ns: asked_ns,
        writing_ns: 0,
    };
    rounds.ask_questions()
}

/// Creates the directory of a run, with its report in it.
fn create_store(
    options: &RunOptions,
    session: &Session,
    report: &Report,
    is_kept: bool,
) -> Result<Store, RunError> {
    let parent = parent_folder(&options.asked, session, is_kept);
    let mut store = Store::create(&parent, &report.run.id)?;
    if options.compact {
        store = store.with_compact(render::has_words);
    }
    store.write(report)?;
    Ok(store)
}

/// Prints what the options would run on this machine, and how the run would end. No worker is started, and no report is
/// written.
fn print_preview(
    options: &RunOptions,
    session: &mut Session,
    selection: &Selection,
    console: &mut Console,
) -> Exit {
    let mut preview = Preview::new(&session.on, &session.machine, session.provenance);
    for runtime in 0..session.runtimes.len().max(1) {
        let planning = question::plan_options(session, options, runtime);
        let mut instances = Vec::new();
        for (scenario, instance) in selection.instances() {
            // A framework brings its own libcudart.
            if runtime == 0 || !scenario.has_python_lines() {
                instances.push((scenario, instance, selection.is_by_name(instance)));
            }
        }
        preview.add_instances(instances, &session.machine, &planning);
    }
    preview.allow_skip.clone_from(&options.allow_skip);
    preview.require = compare_requirements(options, session);
    let printed = console.finish_survey(
        &render::preview::text(&preview, console.screen),
        serde_json::to_string(&preview),
    );
    preview.exit().worst(printed)
}
