//! The command line: types, and what each command does with them.

mod claims;
mod judge;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};

use crate::exit::Exit;
use crate::render::{self, Format, escape, listing};
use crate::run::{self, On};
use crate::scenario::{Hazard, schema};
use crate::supervisor::{Interrupt, role};
use crate::{catalogue, node, report, sampler, worker};

/// Litmus tests for CUDA start-up: which call freezes the mask, which one makes a context, where
/// memory appears. Each question is settled by experiment on the GPUs of this machine.
#[derive(Debug, Parser)]
#[command(name = "cuda-pitfalls", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes (the name is printed on stderr):
   0 ok                 all conclusive and as expected, report on disk
   1 unexpected         a verdict is not as the file expects
   2 usage              wrong arguments or an invalid scenario; nothing ran
   3 inconclusive       something could not be concluded
   4 nothing_measured   nothing selected, no GPU, or all skipped
   5 skipped            a selected scenario was skipped, without --allow-skip
   6 host_unsafe        a worker could not be killed, or a GPU is lost
  70 internal, 74 not_durable, 130/143 interrupted after a partial report";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios and write a report.
    Run(Box<RunArguments>),
    /// List scenarios.
    List {
        /// Names, globs, tags, symptoms or paths; all if none.
        selectors: Vec<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a scenario asks, does and expects, and why.
    Show {
        /// A name, glob, tag, symptom or path.
        #[arg(required = true)]
        selectors: Vec<String>,
    },
    /// Check scenario files without running them.
    Check {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Compute verdicts again from a stored report.
    Judge {
        /// A report, or the folder of a run.
        report: PathBuf,
        /// Scenario files: what they expect today counts, where they make the calls that were measured.
        #[arg(long = "with", value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The whole report with its new verdicts, as JSON.
        #[arg(long)]
        json: bool,
        /// Why skipped scenarios are fine.
        #[arg(long, value_name = "REASON")]
        allow_skip: Option<String>,
    },
    /// Show a stored report in another form.
    Render {
        /// A report, or the folder of a run.
        report: PathBuf,
        /// The form.
        #[arg(long = "as", value_enum, default_value_t = Format::Text)]
        form: Format,
    },
    /// Hold what articles claim against what was measured.
    ///
    /// Ends with 0 if every claim that can be tested stands on measurement, 1 if something else was
    /// measured than a row needs, 3 if some were not measured in full, 4 if nothing was measured.
    Claims(claims::Arguments),
    /// Print a JSON Schema.
    Schema {
        /// Of what.
        #[arg(value_enum)]
        of: Document,
    },
    /// The worker (started by `run`).
    #[command(name = role::WORKER, hide = true)]
    Worker {
        /// The inherited channel.
        fd: i32,
    },
    /// The sampler (started by `run`).
    #[command(name = role::SAMPLER, hide = true)]
    Sampler {
        /// The inherited channel.
        fd: i32,
        /// The NVML to open.
        library: Option<OsString>,
    },
    /// The look at libraries (started by `run`).
    #[command(name = role::VERSIONS, hide = true)]
    Versions {
        /// The inherited channel.
        fd: i32,
        /// The libcudart to ask.
        libcudart: Option<OsString>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Document {
    /// A scenario file.
    Scenario,
    /// A report.
    Report,
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Names, globs, tags, symptoms or paths of files; all scenarios if none.
    selectors: Vec<String>,
    /// Where: `cuda` (this machine's GPUs), `sim[:MACHINE]` (the simulated node), or `auto`.
    #[arg(long, default_value = "cuda", value_parser = parse_on)]
    on: On,
    /// The folder that gets a folder for this run.
    #[arg(long, default_value = "reports")]
    out: PathBuf,
    /// Attempts of each case, instead of what the files say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// One attempt of each case: a first look, no statistics.
    #[arg(long, conflicts_with = "repeat")]
    quick: bool,
    /// One JSON document on stdout (the report; on failure, the error).
    #[arg(long)]
    json: bool,
    /// Write JUnit XML too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// A libcudart to run on; may be given several times.
    #[arg(long, value_name = "PATH")]
    libcudart: Vec<PathBuf>,
    /// UUIDs of the GPUs that may be used, separated by commas.
    #[arg(long, value_name = "UUIDS", value_delimiter = ',')]
    gpus: Option<Vec<String>>,
    /// Allow a hazard: fault, oversubscribe, bigmem, root, settings.
    #[arg(long, value_name = "HAZARD", value_parser = parse_hazard)]
    allow: Vec<Hazard>,
    /// Exit 0 although scenarios were skipped, for this reason.
    #[arg(long, value_name = "REASON")]
    allow_skip: Option<String>,
    /// The seed of the order of attempts, below 2^53.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: Option<u64>,
}

fn parse_on(text: &str) -> Result<On, String> {
    match text {
        "cuda" => Ok(On::Cuda),
        "auto" => Ok(On::Auto),
        "sim" => Ok(On::Sim(None)),
        _ => match text.strip_prefix("sim:") {
            Some(machine) if !machine.is_empty() => Ok(On::Sim(Some(machine.to_string()))),
            _ => Err(format!("one of cuda, auto, sim, sim:MACHINE; machines: {}", node::machine_names().join(", "))),
        },
    }
}

fn parse_hazard(text: &str) -> Result<Hazard, String> {
    let all = Hazard::ALL.map(Hazard::name);
    Hazard::ALL.into_iter().find(|hazard| hazard.name() == text).ok_or_else(|| format!("one of {}", all.join(", ")))
}

/// Does what the command line says.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { usage_error(&error) } else { Exit::Ok };
        }
    };
    match cli.command {
        Command::Run(arguments) => run(*arguments),
        Command::List { selectors, json } => with_scenarios(&selectors, json, |scenarios| {
            if json { format!("{:#}\n", listing::list_json(scenarios)) } else { listing::list_text(scenarios) }
        }),
        Command::Show { selectors } => with_scenarios(&selectors, false, |scenarios| {
            scenarios.iter().map(listing::show_text).collect::<Vec<_>>().join("\n")
        }),
        Command::Check { files } => check(&files),
        Command::Judge { report, files, json, allow_skip } => judge::again(&report, &files, json, allow_skip.is_some()),
        Command::Render { report, form } => with_report(&report, |report| render::render(report, form)),
        Command::Claims(arguments) => claims::claims(&arguments),
        Command::Schema { of } => {
            let schema = match of {
                Document::Scenario => schema::file_schema(),
                Document::Report => report::schema(),
            };
            print(&format!("{schema:#}\n"))
        }
        // SAFETY: `run` started this process with its end of a channel at this descriptor.
        Command::Worker { fd } => unsafe { worker::run(fd) },
        // SAFETY: as above.
        Command::Sampler { fd, library } => unsafe { sampler::run(fd, library) },
        // SAFETY: as above.
        Command::Versions { fd, libcudart } => unsafe { worker::versions::run(fd, libcudart) },
    }
}

/// A `--json` that could not be parsed still gets its one document.
fn usage_error(error: &clap::Error) -> Exit {
    if std::env::args_os().any(|argument| argument == "--json") {
        explain(&error.to_string(), Exit::Usage);
    }
    named(Exit::Usage)
}

fn run(arguments: RunArguments) -> Exit {
    let options = run::Options {
        selectors: arguments.selectors,
        on: arguments.on,
        out: arguments.out,
        repeat: arguments.repeat,
        quick: arguments.quick,
        json: arguments.json,
        junit: arguments.junit,
        libcudart: arguments.libcudart,
        gpus: arguments.gpus,
        allow: arguments.allow,
        allow_skip: arguments.allow_skip,
        seed: arguments.seed,
    };
    let (program, interrupt) = match (std::env::current_exe(), Interrupt::install()) {
        (Ok(program), Ok(interrupt)) => (program, interrupt),
        (Err(error), _) | (_, Err(error)) => return fail(&error.to_string(), Exit::Internal, options.json),
    };
    run::run(&options, &program, interrupt)
}

fn with_scenarios(selectors: &[String], json: bool, show: impl FnOnce(&[crate::scenario::Scenario]) -> String) -> Exit {
    match catalogue::select(selectors) {
        Ok(scenarios) => print(&show(&scenarios)),
        Err(error) => fail(&error.render(is_styled()), Exit::Usage, json),
    }
}

/// Whether diagnostics may use colour.
fn is_styled() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn check(files: &[PathBuf]) -> Exit {
    let mut exit = Exit::Ok;
    for file in files {
        match catalogue::load_file(&file.to_string_lossy()) {
            Ok(scenario) => {
                let name = escape::terminal(&file.to_string_lossy());
                exit = exit.worst(print(&format!("{name}: valid ({} instance(s))\n", scenario.instances.len())));
            }
            Err(error) => {
                exit = exit.worst(Exit::Usage);
                let _ = writeln!(std::io::stderr(), "{}", error.render(is_styled()).trim_end());
            }
        }
    }
    if exit == Exit::Ok { exit } else { named(exit) }
}

fn with_report(path: &Path, show: impl FnOnce(&report::Report) -> String) -> Exit {
    match report::read(path) {
        Ok(report) => print(&show(&report)),
        Err(error) => fail(&error.to_string(), Exit::Usage, false),
    }
}

/// Prints on stdout. A reader that has gone away (`| head`) is no error; a full disk is.
fn print(text: &str) -> Exit {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "cuda-pitfalls: cannot write to stdout: {error}");
            Exit::NotDurable
        }
        _ => Exit::Ok,
    }
}

/// Says why on stderr, and with `--json` in the one document too.
fn fail(why: &str, exit: Exit, json: bool) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", why.trim_end());
    if json {
        explain(why, exit);
    }
    named(exit)
}

/// The one document of a command that failed.
fn explain(why: &str, exit: Exit) {
    let document = serde_json::json!({
        "error": why,
        "exit": { "code": exit.code(), "name": exit.name() },
    });
    print(&format!("{document}\n"));
}

/// Names an exit code on stderr.
fn named(exit: Exit) -> Exit {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: exit {} ({})", exit.code(), exit.name());
    exit
}
