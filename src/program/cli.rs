//! The command line: types, and what each command does with them.

mod bisect;
mod bundle;
mod compare;
mod completions;
mod doctor;
mod explain;
mod export;
mod fleet;
mod help;
mod judge;
mod man;
mod mask;
mod output;
mod render;
mod run;
mod sim;
mod started;
mod stored;
mod survey;
mod trace;
mod tracer;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{ColorChoice, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

use self::output::{Outcome, ended, fail, fail_in_document, fail_rendered, is_styled, named, print};
use self::started::StartedProgram;
use crate::argument;
use crate::run::options::{ExclusionOptions, RunOptions, WRITTEN};
use crate::run::{BisectOptions, SurveyOptions};
use crate::schemas::Schema;
use crate::terminal;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::catalogue;
use cuda_pitfalls_core::catalogue::Selection;
use cuda_pitfalls_core::text::{escape, json};
use cuda_pitfalls_instrument::supervisor::{Interrupt, role};
use cuda_pitfalls_instrument::{examiner, sampler, simulated, worker};
use cuda_pitfalls_render::listing;

/// Litmus tests for CUDA start-up: which call reads CUDA_VISIBLE_DEVICES, which one creates a
/// context, where memory appears. Each question is answered by experiment on this machine's GPUs.
#[derive(Debug, Parser)]
#[command(name = "cuda-pitfalls", version, max_term_width = help::WIDEST, after_help = Exit::help())]
struct Cli {
    /// Whether answers are coloured: where a terminal shows them (and NO_COLOR is not set), always, or never.
    #[arg(long, global = true, hide = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, help_heading = WRITTEN)]
    color: ColorChoice,
    #[command(subcommand)]
    command: CliCommand,
}

/// How long runs take; `tests/duration.rs` holds the estimate behind `--dry-run` against reports.
const DURATIONS: &str = "\
On two H200, `essential` takes about a minute and `all --quick` about four; `all` takes about 20.
--dry-run prints how long a run would take on this machine.";

/// Where shells look for the script of a program.
const COMPLETIONS: &str = "\
bash: cuda-pitfalls completions bash > ~/.local/share/bash-completion/completions/cuda-pitfalls
zsh:  cuda-pitfalls completions zsh > DIR/_cuda-pitfalls, where DIR is a folder of $fpath
fish: cuda-pitfalls completions fish > ~/.config/fish/completions/cuda-pitfalls.fish";

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run scenarios and write a report.
    #[command(after_help = DURATIONS)]
    Run(Box<RunOptions>),
    /// Ask one question of every call, mask, environment variable or line of Python, and write a table.
    Survey(Box<SurveyOptions>),
    /// Show which line of a program reads CUDA_VISIBLE_DEVICES, makes each context, forks too late.
    ///
    /// The program is not changed; its exit code, its output and its terminal stay its own.
    #[command(after_help = trace::ENDS)]
    Trace(Box<trace::TraceArguments>),
    /// Find the first release of a package in which a command does what is forbidden.
    #[command(after_help = bisect::ENDS)]
    Bisect(Box<BisectOptions>),
    /// Say why CUDA does not start here, what is denied and what to do; or look at a running process.
    #[command(after_help = doctor::ENDS)]
    Doctor(doctor::DoctorArguments),
    /// Show what a value of CUDA_VISIBLE_DEVICES makes visible, in which order, and why.
    #[command(after_help = mask::ENDS)]
    Mask(mask::MaskArguments),
    /// Run a program on a simulated machine of so many GPUs.
    #[command(after_help = sim::ENDS)]
    Sim(sim::SimArguments),
    /// List the folders of scenarios, or scenarios.
    List {
        /// The folders if none is given; `all`, `essential`, names, their first words, folders, globs, tags, symptoms or
        /// paths of files; `!SELECTOR` leaves out what it matches.
        selectors: Vec<String>,
        #[command(flatten)]
        left_out: ExclusionOptions,
        /// List what people see instead, with how many questions each has.
        #[arg(long)]
        symptoms: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Answer a symptom, a call, an error, a variable, a line of a framework or a pasted traceback.
    ///
    /// From what comes with the program: no GPU is needed.
    #[command(after_help = explain::ENDS)]
    Explain(explain::ExplainArguments),
    /// Show what a scenario asks, does and expects, and why.
    Show {
        /// Names, folders, globs, tags, symptoms or paths of files; `!SELECTOR` leaves out what it
        /// matches.
        #[arg(required_unless_present = "exclude")]
        selectors: Vec<String>,
        #[command(flatten)]
        left_out: ExclusionOptions,
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
        /// Scenario files: judge by these files' expectations, if their calls are those that were measured.
        #[arg(long = "with", value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The whole report with its new verdicts, as JSON.
        #[arg(long)]
        json: bool,
        /// Show every case of every scenario, instead of one answer per question.
        #[arg(short, long)]
        verbose: bool,
        /// Accept that scenarios selected by their exact names were skipped, for this reason.
        #[arg(long, value_name = "REASON", value_parser = argument::reason)]
        allow_skip: Option<String>,
    },
    /// Show a stored report, survey or trace in another form.
    Render(render::RenderArguments),
    /// Compare two reports, two traces, or two surveys of one kind: what differs, on one screen.
    ///
    /// Exits 1 if something behaves differently (a verdict, an outcome, a fact of a row, what a traced
    /// program did), 0 if nothing does, 2 if the two are not of one kind, 4 if nothing could be compared. That the machines differ
    /// is shown and does not count.
    Compare(compare::CompareArguments),
    /// Merge the reports of many machines, and find those that behave differently.
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Write a scenario as one file in C or Python that runs without this program.
    #[command(after_help = export::ENDS)]
    Export(export::ExportArguments),
    /// Pack one archive for a bug report: the scenario, reproducers, the report, and a text to paste.
    Bundle(bundle::BundleArguments),
    /// Print a JSON Schema.
    Schema {
        /// Which document.
        #[arg(value_parser = crate::schemas::parser())]
        of: &'static Schema,
    },
    /// Print a script that completes the command line in a shell.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print a manual page, or write all of them.
    ///
    /// `cuda-pitfalls man | man -l -` reads one, `cuda-pitfalls man --out ~/.local/share/man/man1` installs them.
    Man(man::ManArguments),
    /// The worker (started by `run`).
    #[command(name = role::WORKER, hide = true)]
    Worker {
        /// The inherited channel.
        fd: i32,
        #[command(flatten)]
        started: StartedProgram,
    },
    /// The sampler (started by `run`).
    #[command(name = role::SAMPLER, hide = true)]
    Sampler {
        /// The inherited channel.
        fd: i32,
        /// The NVML to open.
        library: Option<OsString>,
        #[command(flatten)]
        started: StartedProgram,
    },
    /// A command that is watched (started by a run).
    #[command(name = role::COMMAND, hide = true)]
    Watched {
        #[command(flatten)]
        started: StartedProgram,
        /// The descriptor of the command's channel, if its system calls are to be answered by the parent.
        #[arg(long)]
        filter: Option<i32>,
        /// The command and its arguments.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// The tracer of one row (started by `survey python`).
    #[command(name = role::TRACER, hide = true)]
    Tracer {
        #[command(flatten)]
        started: StartedProgram,
        #[command(flatten)]
        row: tracer::TracerArguments,
    },
    /// One thing that `doctor` tries (started by it).
    #[command(name = role::EXAMINER, hide = true)]
    Examiner {
        /// The inherited channel.
        fd: i32,
        #[command(flatten)]
        started: StartedProgram,
    },
    /// A libcuda that counts calls of `cuInit` and finds no GPU, for a process that loads it by its path before anybody
    /// else loads one by name (started by `pytest-cuda-pitfalls`).
    #[command(name = role::STAND_IN, hide = true)]
    StandIn {
        /// The folder that gets it, which only this user may write to.
        folder: PathBuf,
    },
    /// The library check (started by `run`).
    #[command(name = role::VERSIONS, hide = true)]
    Versions {
        /// The inherited channel.
        fd: i32,
        /// The libcudart to ask.
        libcudart: Option<OsString>,
        #[command(flatten)]
        started: StartedProgram,
    },
}

/// Runs the command. A panic is a fault of ours, whichever command it ends.
pub fn main() -> Exit {
    std::panic::catch_unwind(command).unwrap_or_else(|_| Err(named(Exit::Internal))).unwrap_or_else(|said| said)
}

fn command() -> Outcome {
    let parsed = help::command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return Ok(if error.use_stderr() { usage_error(&error) } else { Exit::Ok });
        }
    };
    terminal::choose(cli.color);
    Ok(match cli.command {
        CliCommand::Run(arguments) => run::run(*arguments)?,
        CliCommand::Survey(arguments) => survey::survey(*arguments)?,
        CliCommand::Trace(arguments) => trace::trace(*arguments)?,
        CliCommand::Bisect(arguments) => bisect::bisect(*arguments),
        CliCommand::Doctor(arguments) => doctor::doctor(&arguments),
        CliCommand::Mask(arguments) => mask::mask(&arguments),
        CliCommand::Sim(arguments) => sim::sim(arguments)?,
        CliCommand::List { selectors, left_out, symptoms, json } => {
            list(&selectors, &left_out.exclude, symptoms, json)?
        }
        CliCommand::Explain(arguments) => explain::explain(&arguments)?,
        CliCommand::Show { selectors, left_out } => show(&selectors, &left_out.exclude)?,
        CliCommand::Check { files } => check(&files),
        CliCommand::Judge { report, files, json, verbose, allow_skip } => {
            judge::again(&report, &files, json, verbose, allow_skip)?
        }
        CliCommand::Render(arguments) => render::render(&arguments),
        CliCommand::Compare(arguments) => compare::compare(arguments)?,
        CliCommand::Fleet(command) => fleet::fleet(command)?,
        CliCommand::Export(arguments) => export::export(&arguments)?,
        CliCommand::Bundle(arguments) => bundle::bundle(&arguments)?,
        CliCommand::Schema { of } => print(&json::document(&(of.make)())),
        CliCommand::Completions { shell } => print(&completions::script(&help::command(), shell)),
        CliCommand::Man(arguments) => manual(&arguments)?,
        CliCommand::Worker { fd, started } => {
            started.begin();
            // SAFETY: `run` started this process with its end of a channel at this descriptor.
            unsafe { worker::run(fd) }
        }
        CliCommand::Sampler { fd, library, started } => {
            started.begin();
            // SAFETY: as above.
            unsafe { sampler::run(fd, library) }
        }
        CliCommand::Watched { started, filter, command } => {
            started.begin();
            started::become_command(&command, filter)
        }
        CliCommand::Tracer { started, row } => {
            started.begin();
            tracer::trace(row)
        }
        CliCommand::Examiner { fd, started } => {
            started.begin();
            // SAFETY: as above, by `doctor`.
            unsafe { examiner::run(fd) }
        }
        CliCommand::StandIn { folder } => {
            let library = simulated::lay_out_stand_in(&folder);
            let library = library.map_err(|error| fail(error, Exit::Internal, false))?;
            print(&format!("{}\n", library.display()))
        }
        CliCommand::Versions { fd, libcudart, started } => {
            started.begin();
            // SAFETY: as above.
            unsafe { worker::versions::run(fd, libcudart) }
        }
    })
}

fn list(selectors: &[String], left_out: &[String], symptoms: bool, json: bool) -> Outcome {
    let outlines = catalogue::list(selectors, left_out)
        .map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, json))?;
    let width = terminal::width(&std::io::stdout());
    Ok(print(&match (symptoms, json) {
        (true, true) => format!("{:#}\n", listing::symptoms_json(&outlines)),
        (true, false) => listing::symptoms_text(&outlines, width),
        (false, true) => format!("{:#}\n", listing::list_json(&outlines)),
        (false, false) if selectors.is_empty() && left_out.is_empty() => listing::folders_text(&outlines, width),
        (false, false) => listing::list_text(&outlines, width),
    }))
}

fn show(selectors: &[String], left_out: &[String]) -> Outcome {
    let selection = Selection::new(selectors, left_out, catalogue::Unselected::All)
        .map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, false))?;
    let width = terminal::width(&std::io::stdout());
    let pages = selection.scenarios.iter().map(|scenario| listing::show::text(scenario, width));
    Ok(print(&pages.collect::<Vec<_>>().join("\n")))
}

fn manual(arguments: &man::ManArguments) -> Outcome {
    if let Some(folder) = &arguments.out {
        return man::write(help::command(), folder)
            .map(|()| Exit::Ok)
            .map_err(|error| fail(format!("--out {}: {error}", folder.display()), Exit::NotDurable, false));
    }
    let about = arguments.about.as_deref();
    let page = man::page(help::command(), about)
        .ok_or_else(|| fail(format!("there is no command `{}`", about.unwrap_or_default()), Exit::Usage, false))?;
    Ok(print(&page.map_err(|error| fail(error, Exit::Internal, false))?))
}

/// A `--json` that could not be parsed still gets its one document.
fn usage_error(error: &clap::Error) -> Exit {
    if std::env::args_os().any(|argument| argument == "--json") {
        fail_in_document(&error.to_string(), Exit::Usage);
    }
    named(Exit::Usage)
}

/// Finds what every run needs: this program, which workers are again, and Ctrl-C.
fn with_workers(json: bool, run: impl FnOnce(&Path, Interrupt) -> Exit) -> Exit {
    match (std::env::current_exe(), Interrupt::install()) {
        (Ok(program), Ok(interrupt)) => run(&program, interrupt),
        (Err(error), _) | (_, Err(error)) => fail(error, Exit::Internal, json),
    }
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
    ended(exit)
}
