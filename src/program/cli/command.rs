//! The definition of the command line.

use clap::{ColorChoice, Parser, Subcommand};
use clap_complete::Shell;

use super::process::ProcessCommand;
use super::{
    bisect, bundle, compare, doctor, explain, export, fleet, judge, man, mask, render, scenarios,
    sim, trace,
};
use crate::run::options::{RunOptions, WRITTEN};
use crate::run::{BisectOptions, SurveyOptions};
use crate::schemas::Schema;
use cuda_pitfalls_answers::exit::Exit;

/// The most columns of a help.
pub(super) const WIDEST: usize = 100;

/// Litmus tests for CUDA start-up: which call reads CUDA_VISIBLE_DEVICES, which one creates a
/// context, where memory appears. Each question is answered by experiment on this machine's GPUs.
#[derive(Debug, Parser)]
#[command(name = "cuda-pitfalls", version, max_term_width = WIDEST, after_help = Exit::help())]
pub(super) struct Cli {
    /// Whether answers are coloured: where a terminal shows them (and NO_COLOR is not set), always, or never.
    #[arg(long, global = true, hide = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, help_heading = WRITTEN)]
    pub(super) color: ColorChoice,
    #[command(subcommand)]
    pub(super) command: CliCommand,
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
pub(super) enum CliCommand {
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
    List(scenarios::ListArguments),
    /// Answer a symptom, a call, an error, a variable, a line of a framework or a pasted traceback.
    ///
    /// From what comes with the program: no GPU is needed.
    #[command(after_help = explain::ENDS)]
    Explain(explain::ExplainArguments),
    /// Show what a scenario asks, does and expects, and why.
    Show(scenarios::ShowArguments),
    /// Check scenario files without running them.
    Check(scenarios::CheckArguments),
    /// Compute verdicts again from a stored report.
    Judge(judge::JudgeArguments),
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
        #[arg(value_parser = crate::schemas::schema_parser())]
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
    #[command(flatten)]
    Process(ProcessCommand),
}
