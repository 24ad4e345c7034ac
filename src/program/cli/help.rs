//! The definition of the command line, as help shows it: commands in groups, and options where they act.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::command::{Cli, WIDEST};
use crate::terminal;
use cuda_pitfalls_core::text::lines;

/// The commands of the help, by purpose. Commands for packagers and authors are in no group.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Diagnose",
        &["explain", "doctor", "who", "trace", "mask", "bisect"],
    ),
    ("Measure", &["run", "survey", "list", "show"]),
    ("Share", &["compare", "render", "export", "bundle", "fleet"]),
    ("Develop", &["check", "sim"]),
];

/// The commands that print for programs. They accept `--color` too, for users who pass it to all.
const UNCOLORED: [&str; 5] = ["export", "bundle", "schema", "completions", "man"];

/// Returns the definition, with a help for the terminal's width.
pub(super) fn command() -> Command {
    let program = Cli::command();
    let width = terminal::width_or(&std::io::stdout(), WIDEST).min(WIDEST);
    let header = program.get_styles().get_header();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\n{header}Options:{header:#}\n{{options}}{{after-help}}",
        groups(&program, width)
    );
    let mut arguments = program.get_arguments();
    let color = arguments.find(|argument| argument.get_id() == "color");
    let hidden = color.cloned().map(|color| color.hide(true));
    let mut shown = program.clone().help_template(template);
    for name in UNCOLORED {
        shown = shown.mut_subcommand(name, |command| command.args(hidden.clone()));
    }
    shown
}

/// Returns the commands with their purposes, group by group.
fn groups(program: &Command, width: usize) -> String {
    let styles = program.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let longest = GROUPS
        .iter()
        .flat_map(|(_, names)| *names)
        .map(|name| name.len())
        .max()
        .unwrap_or(0);
    let indent = longest + 4;
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{title}:{header:#}");
        for command in names
            .iter()
            .filter_map(|name| program.find_subcommand(name))
        {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let about = lines::words(&about, width.saturating_sub(indent))
                .join(&format!("\n{:indent$}", ""));
            let _ = writeln!(
                text,
                "  {literal}{:longest$}{literal:#}  {about}",
                command.get_name()
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands for packagers and authors: they work, but the help does not list them.
    const UNLISTED: [&str; 4] = ["judge", "schema", "completions", "man"];

    #[test]
    fn every_command_is_in_one_group() {
        let program = Cli::command();
        let shown = program
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name);
        let mut shown: Vec<&str> = shown.collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .chain(UNLISTED)
            .collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
        let text = groups(&program, 80);
        let about = program
            .find_subcommand("run")
            .and_then(Command::get_about)
            .unwrap()
            .to_string();
        assert!(
            text.contains(&about) && text.lines().all(|line| lines::display_columns(line) <= 80),
            "{text}"
        );
    }

    #[test]
    fn short_helps_fit_one_screen() {
        for name in ["run", "survey"] {
            let mut program = command().term_width(80);
            program.build();
            let command = program.find_subcommand_mut(name).unwrap();
            let (short, long) = (
                command.render_help().to_string(),
                command.render_long_help().to_string(),
            );
            assert!(
                short.lines().count() <= 50,
                "{name} -h has {} lines:\n{short}",
                short.lines().count()
            );
            assert!(
                short.lines().all(|line| lines::display_columns(line) <= 80),
                "{short}"
            );
            let listed = command
                .get_arguments()
                .filter(|argument| !argument.is_hide_set());
            for argument in listed.filter_map(|argument| argument.get_long()) {
                assert!(
                    long.contains(&format!("--{argument}")),
                    "{name} --help lacks --{argument}"
                );
            }
        }
    }

    #[test]
    fn color_is_listed_where_it_acts_and_accepted_everywhere() {
        let mut program = command();
        program.build();
        let mut listing = |name| {
            let text = program
                .find_subcommand_mut(name)
                .unwrap()
                .render_long_help()
                .to_string();
            text.contains("--color")
        };
        assert!(listing("run") && listing("list") && !listing("schema"));
        assert!(
            command()
                .try_get_matches_from(["cuda-pitfalls", "schema", "report", "--color", "never"])
                .is_ok()
        );
    }
}
