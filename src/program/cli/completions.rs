//! `completions`: a script that completes the command line in a shell.

use clap::Command;
use clap_complete::Shell;

/// The script for this shell. What a run starts is left out: the scripts would offer hidden commands too.
pub(super) fn script(program: &Command, shell: Shell) -> String {
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut command = Command::new("cuda-pitfalls").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "cuda-pitfalls", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
