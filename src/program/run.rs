//! A run, from selected scenarios to a durable report and an exit code.

mod calibrate;
mod console;
mod dry;
mod ending;
mod host;
mod junit;
mod lock;
mod open;
mod progress;
mod python;
mod question;
mod require;
mod rounds;
mod session;
mod spool;
mod survey;

pub use lock::Locking;
pub use survey::python::{PythonOptions, list as python_list};
pub use survey::{MOST_GENERATED, SurveyOptions, survey};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use console::Console;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue::{self, Selection, Shard};
use cuda_pitfalls_core::clock;
use cuda_pitfalls_core::defaults;
use cuda_pitfalls_core::report::{MAJOR, MINOR, Report, Requirement, Run, SCHEMA, SchemaId, Store};
use cuda_pitfalls_core::scenario::Hazard;
pub use cuda_pitfalls_instrument::libraries::On;
use cuda_pitfalls_instrument::supervisor::{Interrupt, signal_name};
use cuda_pitfalls_render as render;
use junit::JunitFile;
use lock::{LockRefusal, Locks};
use rounds::Rounds;
use session::Session;

/// Everything the command line can say about a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What [`catalogue::Selection::of`] takes; the essential set if empty.
    pub selectors: Vec<String>,
    /// Selectors of what is left out, as behind a `!`.
    pub exclude: Vec<String>,
    /// What the caller says of this run, for whoever reads many reports.
    pub labels: BTreeMap<String, String>,
    /// Whether the report is a compact one.
    pub compact: bool,
    /// Where it runs.
    pub on: On,
    /// The folder that gets a folder for this run; [`defaults::REPORTS`] if none and there is something to keep.
    pub out: Option<PathBuf>,
    /// Attempts of each case, instead of what the files say.
    pub repeat: Option<u32>,
    /// One attempt of each case.
    pub quick: bool,
    /// One JSON document on stdout, everything for people on stderr.
    pub json: bool,
    /// Every case of every scenario and a table, instead of answers.
    pub verbose: bool,
    /// Failures and the counts at the end only.
    pub quiet: bool,
    /// Where to write JUnit too.
    pub junit: Option<PathBuf>,
    /// The libcudarts to run on, instead of the one the loader finds.
    pub libcudart: Vec<PathBuf>,
    /// The Python interpreter that runs lines, instead of the one of the environment.
    pub python: Option<PathBuf>,
    /// UUIDs of the GPUs that may be used; all if none.
    pub gpus: Option<Vec<String>>,
    /// Hazards that are allowed.
    pub allow: Vec<Hazard>,
    /// Why skipped scenarios are fine, if they are.
    pub allow_skip: Option<String>,
    /// What there must be, or the run ends with [`Exit::NothingMeasured`].
    pub require: Vec<Requirement>,
    /// The part of the selected instances that is asked; all if none.
    pub shard: Option<Shard>,
    /// Whether the first unexpected verdict ends the run.
    pub fail_fast: bool,
    /// Whether only to say what would run: no worker, no report.
    pub dry_run: bool,
    /// The seed of the order of attempts; from the clock if none.
    pub seed: Option<u64>,
    /// How other runs are kept off the GPUs.
    pub locking: Locking,
}

/// The most characters of a label in the name of a folder.
const LONGEST_NAME: usize = 64;

/// How long a run of the default set may take, if the command line does not say how often to ask.
const BUDGET: Duration = Duration::from_secs(60);

impl RunOptions {
    /// How long the run should take at most; as long as it takes if none. A first run is to answer in
    /// a minute: it makes as many rounds as fit, and at least one.
    fn budget(&self) -> Option<Duration> {
        let is_default = self.selectors.iter().all(|selector| selector.starts_with('!') || selector == "essential");
        (is_default && self.repeat.is_none() && !self.quick).then_some(BUDGET)
    }

    /// The selectors as one list: what is left out stands behind a `!`, and the set that is meant
    /// where none is given has its name.
    fn selected(&self) -> Vec<String> {
        let is_default = self.selectors.iter().all(|selector| selector.starts_with('!'));
        let default = is_default.then(|| "essential".to_string());
        let without = self.exclude.iter().map(|selector| format!("!{selector}"));
        default.into_iter().chain(self.selectors.iter().cloned()).chain(without).collect()
    }
}

/// Why a run could not begin or not end properly.
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

/// Runs, prints, writes, and says how it ended. `program` is this binary: workers are it again.
pub fn run(options: &RunOptions, program: &Path, interrupt: Interrupt) -> Exit {
    let mut console = Console::new(options);
    let mut junit = None;
    let result = ending::catching(|| {
        let selection = Selection::of(&options.selectors, &options.exclude, catalogue::Unselected::Essential)
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
    // A run may take an hour: what cannot be written then is better known now.
    if let Some(path) = &options.junit {
        let prepared = JunitFile::prepare(path);
        let cannot = |error| Failure::Usage(format!("--junit: cannot write `{}`: {error}", path.display()));
        *junit = Some(prepared.map_err(cannot)?);
    }
    let mut session = Session::set(options, program, interrupt)?;
    if let Some(restrict) = &options.gpus {
        session.check_gpus(restrict)?;
    }
    session.use_python(options.python.as_deref(), &selection.scenarios, program)?;
    if options.dry_run {
        return Ok(dry::run(options, &mut session, &selection, console));
    }
    let mut report = blank(options, &session);
    let _locks = locks(options, &mut session, &mut report, console)?;
    let is_kept = options.out.is_some() || (session.can_ask() && !session.fell_back(options));
    let mut store = Store::create(&parent(options, &session, is_kept), &report.run.id)?;
    if options.compact {
        store = store.compact(render::has_words);
    }
    report.run.host_unsafe = unkillable(&session);
    store.write(&report)?;
    console.warn(&session.notes);
    require::gpus(&mut report, &session);
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
fn parent(options: &RunOptions, session: &Session, is_kept: bool) -> PathBuf {
    let default = || if is_kept { PathBuf::from(defaults::REPORTS) } else { session.folder().join("reports") };
    options.out.clone().unwrap_or_else(default)
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
    let repeat = if options.quick { Some(1) } else { options.repeat };
    console.expects(&selection.scenarios, session.runtimes.len(), repeat);
    let mut rounds = Rounds::plan(session, report, console, store, options, &selection)?;
    // What is asked stands in the plans: the files are a third of what this process would hold.
    drop(selection);
    rounds.calibrator = calibrator;
    rounds.announce(expected);
    rounds.ask()
}

/// A process that could not be ended, in words.
fn unkillable(session: &Session) -> Option<String> {
    session.supervisor.unkillable().map(|pid| format!("process {pid} could not be killed"))
}

/// Keeps other runs off the GPUs of this one, as long as the locks live.
fn locks(
    options: &RunOptions,
    session: &mut Session,
    report: &mut Report,
    console: &Console,
) -> Result<Locks, Failure> {
    if session.on != "cuda" {
        // Each run has a simulated machine of its own.
        return Ok(Locks::default());
    }
    let all: Vec<String> = session.machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    let uuids = session.restrict.clone().unwrap_or(all);
    let mut tell = |words: &str| console.warn(&[words.to_string()]);
    match lock::take(&options.locking, &uuids, &mut session.supervisor.interrupt, &mut tell) {
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

/// The name of a run and of its folder: the machine, if a label says which it is, and when it began.
fn id(labels: &BTreeMap<String, String>, started_ns: u64) -> String {
    let machine = ["node", "host"].iter().find_map(|name| labels.get(*name)).map(|name| format!("{}-", as_file(name)));
    let random = (started_ns ^ u64::from(std::process::id())) & 0xffff;
    format!("{}{}-{random:04x}", machine.unwrap_or_default(), clock::utc_compact())
}

/// A label as a part of a file's name: of characters that no shell and no file system takes for more.
fn as_file(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = label.chars().take(LONGEST_NAME).map(plain).collect();
    if name.starts_with(['.', '-']) { format!("_{name}") } else { name }
}

fn blank(options: &RunOptions, session: &Session) -> Report {
    let started_ns = clock::now_ns();
    let seed = options.seed.unwrap_or(started_ns);
    Report {
        schema: SchemaId { name: SCHEMA.to_string(), major: MAJOR, minor: MINOR },
        must_understand: Vec::new(),
        provenance: session.provenance,
        run: Run {
            id: id(&options.labels, started_ns),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: crate::COMMIT.map(str::to_string),
            started_at: clock::utc(),
            finished_at: None,
            started_ns,
            elapsed_ns: 0,
            selectors: options.selected(),
            labels: options.labels.clone(),
            shard: options.shard.map(|shard| shard.to_string()),
            require: options.require.clone(),
            allow_skip: options.allow_skip.clone(),
            stopped_by: None,
            not_run: Vec::new(),
            on: session.on.clone(),
            // JSON numbers are exact up to 2^53 for every reader.
            seed: seed & ((1 << 53) - 1),
            allowed: options.allow.iter().map(|hazard| hazard.name().to_string()).collect(),
            interrupted: None,
            exit: None,
            calibration: Vec::new(),
            co_tenants: Vec::new(),
            warnings: session.notes.clone(),
            host_unsafe: None,
            parent_peak_rss_bytes: None,
        },
        machine: session.machine.clone(),
        scenarios: Vec::new(),
        complete: false,
    }
}
