//! The definition of the command line.

use clap::{ColorChoice, Parser, Subcommand};
use clap_complete::Shell;

use super::process::ProcessCommand;
use super::{
    bisect, bundle, compare, doctor, explain, export, fleet, judge, man, mask, render, scenarios,
    sim, trace, who,
};
use crate::run::options::RunOptions;
use crate::run::{BisectOptions, SurveyOptions};
use crate::schemas::Schema;
use cuda_pitfalls_answers::exit::Exit;

/// Maximum width of the help, in columns.
pub(super) const WIDEST: usize = 100;

/// Litmus tests for CUDA start-up. Measures on this machine's GPUs which calls initialize CUDA,
/// read CUDA_VISIBLE_DEVICES, create a context or allocate memory.
#[derive(Debug, Parser)]
#[command(name = "cuda-pitfalls", version, max_term_width = WIDEST, after_help = Exit::help())]
pub(super) struct Cli {
    /// Color: `always`, `never` or `auto` (on a terminal, unless NO_COLOR is set).
    #[arg(long, global = true, hide_short_help = true, hide_possible_values = true, display_order = 900, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(super) color: ColorChoice,
    #[command(subcommand)]
    pub(super) command: CliCommand,
}

/// Durations for the help. `tests/duration.rs` compares the estimate behind `--dry-run` with
/// reports.
const DURATIONS: &str = "\
On two H200 GPUs, `essential` takes about a minute and `all --quick` about four; `all` takes about 20.
--dry-run estimates the duration on this machine.

Examples:
  cuda-pitfalls run
  cuda-pitfalls run mask-ignored --on sim
  cuda-pitfalls run all --junit junit.xml --require gpus=2";

/// Installation of a completion script, by shell.
const COMPLETIONS: &str = "\
bash: cuda-pitfalls completions bash > ~/.local/share/bash-completion/completions/cuda-pitfalls
zsh:  cuda-pitfalls completions zsh > DIR/_cuda-pitfalls, where DIR is a directory in $fpath
fish: cuda-pitfalls completions fish > ~/.config/fish/completions/cuda-pitfalls.fish";

#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Run scenarios and write a report.
    #[command(after_help = DURATIONS)]
    Run(Box<RunOptions>),
    /// Measure every call, mask, variable or Python line; write a table.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls survey calls cudaMemGetInfo --on sim\n  cuda-pitfalls survey mask --generate 100"
    )]
    Survey(Box<SurveyOptions>),
    /// Run a program and report which lines initialize CUDA or create contexts.
    ///
    /// The program runs unmodified and keeps its exit code, output and terminal.
    #[command(after_help = trace::ENDS)]
    Trace(Box<trace::TraceArguments>),
    /// Find the release that introduced a forbidden CUDA call.
    #[command(after_help = bisect::ENDS)]
    Bisect(Box<BisectOptions>),
    /// Diagnose why CUDA fails to initialize.
    #[command(after_help = doctor::ENDS)]
    Doctor(doctor::DoctorArguments),
    /// Show who holds each GPU, since when, and memory that no process owns.
    #[command(after_help = who::ENDS)]
    Who(who::WhoArguments),
    /// Show which GPUs a CUDA_VISIBLE_DEVICES value selects, and why.
    #[command(after_help = mask::ENDS)]
    Mask(mask::MaskArguments),
    /// Run a program with N simulated GPUs.
    #[command(after_help = sim::ENDS)]
    Sim(sim::SimArguments),
    /// List scenarios and their directories.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls list\n  cuda-pitfalls list visibility\n  cuda-pitfalls list --symptoms"
    )]
    List(scenarios::ListArguments),
    /// Explain a CUDA error, symptom, call, variable or traceback.
    ///
    /// Uses built-in data; needs no GPU.
    #[command(after_help = explain::ENDS)]
    Explain(explain::ExplainArguments),
    /// Show a scenario's question, steps, expected results and sources.
    #[command(after_help = "Examples:\n  cuda-pitfalls show mask-after-cuinit")]
    Show(scenarios::ShowArguments),
    /// Check scenario files without running them.
    #[command(after_help = "Examples:\n  cuda-pitfalls check my-scenario.toml")]
    Check(scenarios::CheckArguments),
    /// Compute the verdicts of a stored report again.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls judge reports/20261128T101500Z\n  cuda-pitfalls judge report.json --with my-scenario.toml"
    )]
    Judge(judge::JudgeArguments),
    /// Convert a stored report, survey or trace to another format.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls render report.json --as html > report.html\n  cuda-pitfalls render trace.ndjson --as markdown"
    )]
    Render(render::RenderArguments),
    /// Show the differences between two reports, traces or surveys.
    ///
    /// Exits 1 if a verdict, an outcome, an observation or the behavior of a traced program
    /// differs, 0 if nothing differs, 2 if the two documents are of different types, 4 if nothing
    /// could be compared. Differences between the machines are shown but not counted.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls compare before/report.json after/report.json"
    )]
    Compare(compare::CompareArguments),
    /// Merge reports from many machines and find the outliers.
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Export a scenario as a standalone C or Python program.
    #[command(after_help = export::ENDS)]
    Export(export::ExportArguments),
    /// Create an archive for a bug report: report, reproducers, issue text.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls run mask-after-cuinit --out reports\n  cuda-pitfalls bundle reports mask-after-cuinit --redact"
    )]
    Bundle(bundle::BundleArguments),
    /// Print a JSON Schema.
    Schema {
        /// The document type.
        #[arg(value_parser = crate::schemas::schema_parser())]
        of: &'static Schema,
    },
    /// Print a shell completion script.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print a manual page, or write all of them.
    ///
    /// `cuda-pitfalls man | man -l -` shows one; `cuda-pitfalls man --out ~/.local/share/man/man1`
    /// installs all.
    Man(man::ManArguments),
    #[command(flatten)]
    Process(ProcessCommand),
}
