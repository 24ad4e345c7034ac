//! A run, from selected scenarios to a durable report and an exit code.

mod calibrate;
mod console;
mod folder;
mod host;
mod scenario;
mod stage;
mod survey;

pub use stage::On;
pub use survey::{MOST_GENERATED, SurveyOptions, survey};

use std::path::{Path, PathBuf};

use crate::catalogue;
use crate::exit::Exit;
use crate::report::{ExitCode, MAJOR, MINOR, Provenance, Report, Run, SCHEMA, SchemaId, Store};
use crate::scenario::{Hazard, Scenario};
use crate::supervisor::{Interrupt, signal_name};
use crate::{clock, render};
use console::Console;
use stage::Stage;

/// Everything the command line can say about a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names, globs, tags or paths; all embedded scenarios if empty.
    pub selectors: Vec<String>,
    /// Where it runs.
    pub on: On,
    /// The folder that gets a folder for this run.
    pub out: PathBuf,
    /// Attempts of each case, instead of what the files say.
    pub repeat: Option<u32>,
    /// One attempt of each case.
    pub quick: bool,
    /// One JSON document on stdout, everything for people on stderr.
    pub json: bool,
    /// Where to write JUnit too.
    pub junit: Option<PathBuf>,
    /// The libcudarts to run on, instead of the one the loader finds.
    pub libcudart: Vec<PathBuf>,
    /// UUIDs of the GPUs that may be used; all if none.
    pub gpus: Option<Vec<String>>,
    /// Hazards that are allowed.
    pub allow: Vec<Hazard>,
    /// Why skipped scenarios are fine, if they are.
    pub allow_skip: Option<String>,
    /// The seed of the order of attempts; from the clock if none.
    pub seed: Option<u64>,
}

/// Why a run could not begin or not end properly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Internal(String),
    #[error("{0}")]
    NotDurable(#[from] crate::report::StoreError),
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) => Exit::Usage,
            Failure::Internal(_) => Exit::Internal,
            Failure::NotDurable(_) => Exit::NotDurable,
        }
    }
}

/// Runs, prints, writes, and says how it ended. `program` is this binary: workers are it again.
pub fn run(options: &Options, program: &Path, interrupt: Interrupt) -> Exit {
    let mut console = Console::new(options.json);
    let result = match catalogue::select(&options.selectors) {
        Ok(scenarios) => go(options, program, interrupt, scenarios, &mut console),
        Err(error) => Err(Failure::Usage(error.render(false))),
    };
    match result {
        Ok(exit) => exit,
        Err(failure) => {
            console.failed(&failure.to_string(), failure.exit());
            failure.exit()
        }
    }
}

fn go(
    options: &Options,
    program: &Path,
    interrupt: Interrupt,
    scenarios: Vec<Scenario>,
    console: &mut Console,
) -> Result<Exit, Failure> {
    // A run may take an hour: what cannot be written then is better known now.
    if let Some(path) = &options.junit {
        let opened = std::fs::File::options().create(true).append(true).open(path);
        opened.map_err(|error| Failure::Usage(format!("--junit: cannot write `{}`: {error}", path.display())))?;
    }
    let mut stage = Stage::set(options, program, interrupt)?;
    if let Some(restrict) = &options.gpus {
        stage.check_gpus(restrict).map_err(Failure::Usage)?;
    }
    let mut report = blank(options, &stage);
    let store = Store::create(&options.out, &report.run.id)?;
    store.write(&report)?;
    console.warn(&stage.notes);
    if stage.supervisor.sampler.inventory.is_ok() {
        console.status("measuring the instrument");
        calibrate::calibrate(&mut stage, &mut report);
    }
    console.header(&report);
    let total = stage.runtimes.len().max(1) * scenarios.iter().map(|scenario| scenario.instances.len()).sum::<usize>();
    console.start(total as u64);
    for place in 0..stage.runtimes.len().max(1) {
        stage.use_runtime(place).map_err(Failure::Internal)?;
        for (scenario, instance) in in_order(&scenarios) {
            if stage.supervisor.interrupt.check() {
                break;
            }
            console.status(&instance.name);
            let done = scenario::run(&mut stage, scenario, instance, &report, options, place, console);
            if let Some(unsafe_host) = scenario::host_unsafe(&done) {
                report.run.host_unsafe.get_or_insert(unsafe_host);
            }
            console.scenario(&done);
            report.scenarios.push(done);
            report.machine.libraries.clone_from(&stage.machine.libraries);
            report.run.elapsed_ns = clock::now_ns() - report.run.started_ns;
            store.write(&report)?;
        }
    }
    let signal = stage.supervisor.interrupt.signal();
    report.run.interrupted = signal.map(signal_name);
    report.complete = signal.is_none();
    report.run.finished_at = Some(clock::utc());
    report.run.elapsed_ns = clock::now_ns() - report.run.started_ns;
    report.run.parent_peak_rss_bytes = host::peak_rss_bytes();
    let mut exit = Exit::of_report(&report, options.allow_skip.is_some());
    if let Some(path) = &options.junit
        && let Err(error) = std::fs::write(path, render::render(&report, render::Format::Junit))
    {
        console.warn(&[format!("cannot write `{}`: {error}", path.display())]);
        exit = exit.worst(Exit::NotDurable);
    }
    report.run.exit = Some(ExitCode { code: exit.code(), name: exit.name().to_string() });
    store.write(&report)?;
    Ok(console.finish(&report, &store.path(), exit))
}

/// Instances in the order in which they run: what may fault a GPU comes last.
fn in_order(scenarios: &[Scenario]) -> Vec<(&Scenario, &crate::scenario::Instance)> {
    let mut order: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| scenario.instances.iter().map(move |instance| (scenario, instance)))
        .collect();
    order.sort_by_key(|(scenario, _)| scenario.hazards.contains(&Hazard::Fault));
    order
}

fn blank(options: &Options, stage: &Stage) -> Report {
    let started_ns = clock::now_ns();
    let seed = options.seed.unwrap_or(started_ns);
    Report {
        schema: SchemaId { name: SCHEMA.to_string(), major: MAJOR, minor: MINOR },
        provenance: stage.provenance,
        run: Run {
            id: format!("{}-{:04x}", clock::utc_compact(), (started_ns ^ u64::from(std::process::id())) & 0xffff),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: option_env!("CUDA_PITFALLS_COMMIT").map(str::to_string),
            started_at: clock::utc(),
            finished_at: None,
            started_ns,
            elapsed_ns: 0,
            selectors: options.selectors.clone(),
            on: stage.on.clone(),
            // JSON numbers are exact up to 2^53 for every reader.
            seed: seed & ((1 << 53) - 1),
            allowed: options.allow.iter().map(|hazard| hazard.name().to_string()).collect(),
            interrupted: None,
            exit: None,
            calibration: Vec::new(),
            warnings: stage.notes.clone(),
            host_unsafe: None,
            parent_peak_rss_bytes: None,
        },
        machine: stage.machine.clone(),
        scenarios: Vec::new(),
        complete: false,
    }
}

/// Whether results of this run come from a real driver.
fn provenance(simulated: bool) -> Provenance {
    if simulated { Provenance::Simulated } else { Provenance::Measured }
}
