//! A run: from selected scenarios to a durable report and an exit code.

mod bisect;
mod calibrate;
mod console;
mod dry;
mod ending;
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

pub(crate) use bisect::{BisectOptions, bisect};
pub(crate) use releases::{documents as environment_documents, environments};
pub(crate) use survey::python::{PythonOptions, list as python_list};
pub(crate) use survey::{SurveyOptions, survey};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use console::Console;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue::{self, Selection};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::{Report, Run, SCHEMA, SchemaId, Store};
use cuda_pitfalls_instrument::supervisor::{Interrupt, signal_name};
use cuda_pitfalls_render as render;
use junit::JunitFile;
use lock::{LockRefusal, Locks};
use options::{RunOptions, WorkerOptions};
use rounds::Rounds;
use session::Session;

/// The most characters that a label contributes to the name of a folder.
const LONGEST_NAME: usize = 64;

/// Why a run could not begin or not complete.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Internal(String),
    #[error("{0}")]
    NotDurable(#[from] cuda_pitfalls_core::report::StoreError),
    #[error("{0}")]
    Busy(String),
    #[error("stopped by {0} before anything was asked")]
    Interrupted(String),
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) => Exit::Usage,
            Failure::Internal(_) => Exit::Internal,
            Failure::NotDurable(_) => Exit::NotDurable,
            Failure::Busy(_) => Exit::NothingMeasured,
            Failure::Interrupted(signal) if signal == "SIGINT" => Exit::Interrupted,
            Failure::Interrupted(_) => Exit::Terminated,
        }
    }
}

/// Runs, prints, writes, and returns the exit code. `program` is the path of this binary, which workers run too.
pub(crate) fn run(options: &RunOptions, program: &Path, interrupt: Interrupt) -> Exit {
    let mut console = Console::new(options);
    let mut junit = None;
    let result = ending::catching(|| {
        let selection = Selection::new(&options.selectors, &options.left_out.exclude, catalogue::Unselected::Essential)
            .map_err(|error| Failure::Usage(error.render(false)))?;
        go(options, program, interrupt, selection.shard(options.shard), &mut console, &mut junit)
    });
    result.unwrap_or_else(|failure| {
        if let Some(junit) = &junit {
            junit.fail(&failure.to_string());
        }
        ending::fail(&mut console, &failure)
    })
}

fn go(
    options: &RunOptions,
    program: &Path,
    interrupt: Interrupt,
    selection: Selection,
    console: &mut Console,
    junit: &mut Option<JunitFile>,
) -> Result<Exit, Failure> {
    // A run may take an hour, so an unwritable file is reported now.
    if let Some(path) = &options.junit {
        let prepared = JunitFile::prepare(path);
        *junit = Some(
            prepared.map_err(|error| Failure::Usage(format!("--junit: cannot write `{}`: {error}", path.display())))?,
        );
    }
    let mut session = Session::set(&options.asked, program, interrupt)?;
    if let Some(restrict) = &options.asked.gpus {
        session.check_gpus(restrict)?;
    }
    session.use_python(options.asked.python.as_deref(), &selection.scenarios)?;
    if options.dry_run {
        return Ok(dry::run(options, &mut session, &selection, console));
    }
    let mut report = blank(options, &session);
    let _locks = locks(&options.asked, &mut session, &mut report, console)?;
    let is_kept = options.asked.out.is_some() || (session.can_ask() && !session.fell_back(&options.asked));
    let mut store = Store::create(&parent(&options.asked, &session, is_kept), &report.run.id)?;
    if options.compact {
        store = store.compact(render::has_words);
    }
    report.run.host_unsafe = unkillable(&session);
    store.write(&report)?;
    console.warn(&session.notes);
    require::gpus(&mut report.run.require, &session);
    if require::is_met(&report) {
        ask(options, &mut session, &mut report, &store, selection, console)?;
    } else {
        console.header(&report, None);
    }
    let mut exit = ending::note(&mut report, &session);
    if let (Some(junit), Some(path)) = (&*junit, &options.junit)
        && let Err(error) = junit.write(&report)
    {
        console.warn(&[format!("cannot write `{}`: {error}", path.display())]);
        exit = exit.worst(Exit::NotDurable);
    }
    let ended =
        ending::finish(&mut report, &store, exit, |report| console.finish(report, &store.path(), is_kept, exit))?;
    if ended != exit
        && let Some(junit) = junit
    {
        junit.fail("the report could not be handed over");
    }
    Ok(ended)
}

/// The folder that gets the run's folder. What is not kept goes where the run's private files are.
fn parent(options: &WorkerOptions, session: &Session, is_kept: bool) -> PathBuf {
    match &options.out {
        Some(out) => out.clone(),
        None if is_kept => PathBuf::from(defaults::REPORTS),
        None => session.folder().join("reports"),
    }
}

/// Whether a shell that was given this word would start a program.
pub(crate) fn is_program(word: &Path) -> bool {
    python::on_path(word).is_ok()
}

/// Measures the instrument, and asks every question of a selection.
fn ask(
    options: &RunOptions,
    session: &mut Session,
    report: &mut Report,
    store: &Store,
    selection: Selection,
    console: &mut Console,
) -> Result<(), Failure> {
    let calibrator = session.supervisor.sampler.inventory.is_ok().then(|| {
        console.status("measuring the instrument");
        calibrate::Calibrator::calibrate(session, report)
    });
    let ahead = dry::look_ahead(options, session, &selection);
    let expected = Duration::from_millis(ahead.expected_ms).min(options.budget().unwrap_or(Duration::MAX));
    let repeat = if options.asked.quick { Some(1) } else { options.asked.repeat };
    console.expects(&selection.scenarios, session.runtimes.len(), repeat);
    let mut rounds = Rounds::plan(session, report, console, store, options, &selection)?;
    // The plans have everything that is needed, and the files are a third of this process's memory.
    drop(selection);
    rounds.calibrator = calibrator;
    rounds.announce(expected);
    rounds.ask()
}

/// A sentence about a process that could not be ended, if there is one.
fn unkillable(session: &Session) -> Option<String> {
    session.supervisor.unkillable().map(|pid| format!("process {pid} could not be killed"))
}

/// Locks the GPUs of this run against other runs, until the locks are dropped.
fn locks(
    options: &WorkerOptions,
    session: &mut Session,
    report: &mut Report,
    console: &Console,
) -> Result<Locks, Failure> {
    if session.on != "cuda" {
        // Each run has its own simulated machine.
        return Ok(Locks::default());
    }
    let all: Vec<String> = session.machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let uuids = session.restrict.clone().unwrap_or(all);
    let mut tell = |words: &str| console.warn(&[words.to_string()]);
    match lock::take(&options.locks.locking(), &uuids, &mut session.supervisor.interrupt, &mut tell) {
        Ok(locks) => {
            console.warn(&locks.notes);
            report.run.warnings.extend(locks.notes.iter().cloned());
            Ok(locks)
        }
        Err(LockRefusal::Busy(words)) => Err(Failure::Busy(words)),
        Err(LockRefusal::Interrupted) => {
            let signal = session.supervisor.interrupt.signal().map(signal_name).unwrap_or_default();
            Err(Failure::Interrupted(signal))
        }
    }
}

/// The name of a run and of its folder: the machine, if a label names it, and the start time.
fn id(labels: &BTreeMap<String, String>, started_ns: u64) -> String {
    let machine = ["node", "host"].iter().find_map(|name| labels.get(*name)).map(|name| format!("{}-", as_file(name)));
    let random = (started_ns ^ u64::from(std::process::id())) & 0xffff;
    format!("{}{}-{random:04x}", machine.unwrap_or_default(), clock::utc_compact())
}

/// A label as part of a file name, with only those characters that have no special meaning to shells and file systems.
fn as_file(label: &str) -> String {
    let name: String = label.chars().take(LONGEST_NAME).collect();
    let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c), "_");
    if name.starts_with(['.', '-']) { format!("_{name}") } else { name }
}

fn blank(options: &RunOptions, session: &Session) -> Report {
    let started_ns = clock::now_ns();
    let seed = options.asked.seed.unwrap_or(started_ns);
    Report {
        schema: SchemaId::current(SCHEMA),
        must_understand: Vec::new(),
        provenance: session.provenance,
        run: Run {
            id: id(&options.labels, started_ns),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: crate::COMMIT.map(str::to_string),
            started_at: clock::utc(),
            started_ns,
            selectors: options.selected(),
            labels: options.labels.clone(),
            shard: options.shard.map(|shard| shard.to_string()),
            require: options.require.clone(),
            allow_skip: options.allow_skip.clone(),
            on: session.on.clone(),
            // Every JSON reader is exact up to 2^53.
            seed: seed & ((1 << 53) - 1),
            allowed: options.allow.iter().map(|hazard| hazard.name().to_string()).collect(),
            warnings: session.notes.clone(),
            ..Run::default()
        },
        machine: session.machine.clone(),
        scenarios: Vec::new(),
        complete: false,
    }
}
