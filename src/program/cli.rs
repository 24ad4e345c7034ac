//! The command line: which code each command runs.

mod bisect;
mod bundle;
mod command;
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
mod process;
mod render;
mod scenarios;
mod sim;
mod stored;
mod survey;
mod trace;
mod tracer;
mod who;

use clap::FromArgMatches as _;

use self::command::{Cli, CliCommand};
use self::output::{Outcome, end_run, print_text, report_misuse, report_panic};
use crate::{run, terminal};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::text::json;
use cuda_pitfalls_instrument::umask;

/// Runs the command. A panic is a fault of ours, whichever command it ends.
pub fn main() -> Exit {
    umask::take_over();
    match std::panic::catch_unwind(command) {
        Ok(Ok(exit) | Err(exit)) => exit,
        Err(_) => report_panic(),
    }
}

/// Returns the commands by their names, each with its purpose.
pub fn list_commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for command in help::command().get_subcommands() {
        if command.is_hide_set() {
            continue;
        }
        let about = command.get_about().map(ToString::to_string);
        commands.push((command.get_name().to_owned(), about.unwrap_or_default()));
    }
    commands
}

/// Returns `true` if the command line can be parsed; runs none of its commands.
pub fn is_understood(arguments: &[String]) -> bool {
    let matches = help::command().try_get_matches_from(arguments);
    matches
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .is_ok()
}

fn command() -> Outcome {
    let matches = help::command()
        .try_get_matches()
        .map_err(|error| report_misuse(&error))?;
    survey::refuse_other_options(&matches)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| report_misuse(&error))?;
    terminal::choose_color(cli.color);
    Ok(match cli.command {
        CliCommand::Run(options) => end_run(run::run(&options), options.asked.json)?,
        CliCommand::Survey(arguments) => survey::survey(*arguments)?,
        CliCommand::Trace(arguments) => trace::trace(*arguments)?,
        CliCommand::Bisect(arguments) => bisect::run_bisect(*arguments)?,
        CliCommand::Doctor(arguments) => doctor::run_doctor(&arguments)?,
        CliCommand::Who(arguments) => who::run_who(&arguments)?,
        CliCommand::Mask(arguments) => mask::mask(&arguments)?,
        CliCommand::Sim(arguments) => sim::sim(arguments)?,
        CliCommand::List(arguments) => scenarios::list(&arguments)?,
        CliCommand::Explain(arguments) => explain::run_explain(&arguments)?,
        CliCommand::Show(arguments) => scenarios::show_scenarios(&arguments)?,
        CliCommand::Check(arguments) => scenarios::check(&arguments),
        CliCommand::Judge(arguments) => judge::run_judge(arguments)?,
        CliCommand::Render(arguments) => render::render(&arguments),
        CliCommand::Compare(arguments) => compare::run_compare(arguments)?,
        CliCommand::Fleet(command) => fleet::fleet(command)?,
        CliCommand::Export(arguments) => export::run_export(&arguments)?,
        CliCommand::Bundle(arguments) => bundle::run_bundle(&arguments)?,
        CliCommand::Schema { of } => print_text(&json::document(&(of.make)())),
        CliCommand::Completions { shell } => {
            print_text(&completions::script(&help::command(), shell))
        }
        CliCommand::Man(arguments) => man::print_manual(help::command(), &arguments)?,
        CliCommand::Process(command) => process::serve_process(command),
    })
}
