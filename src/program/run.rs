//! A run: from selected scenarios to a durable report and an exit code.

mod bisect;
mod blank;
mod calibrate;
mod console;
mod dry;
mod ending;
mod error;
mod junit;
mod lock;
mod open;
pub(crate) mod options;
mod progress;
mod python;
mod question;
mod releases;
mod require;
mod rounds;
mod session;
mod spool;
mod survey;
mod uv;

pub(crate) use bisect::BisectOptions;
pub(crate) use python::is_program;
pub(crate) use releases::{documents as environment_documents, list_environments};
pub(crate) use survey::SurveyOptions;
pub(crate) use survey::python::{PythonOptions, list as python_list};

use std::path::Path;

use blank::{blank_report, parent};
use console::Console;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::report::Store;
use cuda_pitfalls_instrument::supervisor::Interrupt;
use cuda_pitfalls_render as render;
use error::RunError;
use junit::JunitFile;
use options::RunOptions;
use session::Session;

/// Runs, prints, writes, and returns the exit code. `program` is the path of this binary, which workers run too.
pub(crate) fn run(options: &RunOptions, program: &Path, interrupt: Interrupt) -> Exit {
    ending::guard_run(Console::new(options), |console| {
        let selection = options.select_scenarios()?;
        // A run may take an hour, so an unwritable file is reported now.
        let junit = options
            .junit
            .as_deref()
            .map(JunitFile::prepare_file)
            .transpose()?;
        ending::catch_panic(|| {
            measure_selection(
                options,
                program,
                interrupt,
                selection,
                console,
                junit.as_ref(),
            )
        })
        .inspect_err(|error| {
            junit
                .iter()
                .for_each(|junit| junit.write_failure(&error.to_string()))
        })
    })
}

/// Asks every question of a survey, and returns the exit code, as [`run`].
pub(crate) fn survey(options: &SurveyOptions, program: &Path, interrupt: Interrupt) -> Exit {
    let ask = if options.python.requests.is_empty() {
        survey::survey
    } else {
        releases::survey
    };
    ending::guard_run(Console::new(&options.run()), |console| {
        // Options that exclude each other are reported before the machine is touched.
        survey::select::check(options)?;
        ask(options, program, interrupt, console)
    })
}

/// Searches for the first bad release, and returns the exit code, as [`run`].
pub(crate) fn start_bisect(options: &BisectOptions, program: &Path, interrupt: Interrupt) -> Exit {
    ending::guard_run(Console::new(&options.run()), |console| {
        bisect::search_releases(options, program, interrupt, console)
    })
}

fn measure_selection(
    options: &RunOptions,
    program: &Path,
    interrupt: Interrupt,
    selection: Selection,
    console: &mut Console,
    junit: Option<&JunitFile>,
) -> Result<Exit, RunError> {
    let mut session = Session::set(&options.asked, program, interrupt)?;
    if let Some(restrict) = &options.asked.gpus {
        session.check_gpus(restrict)?;
    }
    session.use_python(options.asked.python.as_deref(), &selection.scenarios)?;
    if options.dry_run {
        return Ok(dry::run(options, &mut session, &selection, console));
    }
    let mut report = blank_report(options, &session);
    let _locks = lock::lock_gpus(&options.asked.locks, &mut session, &mut report, console)?;
    let is_kept =
        options.asked.out.is_some() || (session.can_ask() && !session.fell_back(&options.asked));
    let store = Store::create(&parent(&options.asked, &session, is_kept), &report.run.id)?;
    let store = if options.compact {
        store.with_compact(render::has_words)
    } else {
        store
    };
    report.run.host_unsafe = session.unkillable_process();
    store.write(&report)?;
    console.print_warnings(&session.notes);
    require::gpus(&mut report.run.require, &session);
    if require::is_met(&report) {
        rounds::ask(
            options,
            &mut session,
            &mut report,
            &store,
            selection,
            console,
        )?;
    } else {
        console.print_header(&report, None);
    }
    let exit = ending::note_run_end(&mut report, &session);
    let exit = junit.map_or(exit, |junit| exit.worst(junit.hand_over(&report, console)));
    let ended = ending::finish_document(&mut report, &store, exit, |report| {
        console.finish_run(report, &store.path(), is_kept, exit)
    })?;
    if ended != exit
        && let Some(junit) = junit
    {
        junit.write_failure("the report could not be handed over");
    }
    Ok(ended)
}
