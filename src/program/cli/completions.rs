//! `completions`: a script that completes the command line in a shell.

use clap::Command;
use clap_complete::Shell;

/// After `explain`, bash offers these names in addition to those of the generated script.
const BASH: &str = r#"
_cuda_pitfalls_names() {
    _cuda__pitfalls "$@"
    if [[ "${COMP_WORDS[1]}" == explain && "${COMP_WORDS[COMP_CWORD]}" != -* ]]; then
        COMPREPLY+=( $(compgen -W "$(cuda-pitfalls list --names)" -- "${COMP_WORDS[COMP_CWORD]}") )
    fi
}
complete -F _cuda_pitfalls_names -o bashdefault -o default cuda-pitfalls
"#;
const FISH: &str = r#"
complete -c cuda-pitfalls -n "__fish_cuda_pitfalls_using_subcommand explain" -f -a "(cuda-pitfalls list --names)"
"#;
/// Completion of the words of `explain` in zsh, in place of file names.
const ZSH: &str = r#":{compadd -- ${(f)"$(cuda-pitfalls list --names)"}}'"#;

/// Returns the script for this shell. Internal commands are left out: the scripts would offer hidden commands too.
pub(super) fn script(program: &Command, shell: Shell) -> String {
    let shown = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned();
    let mut command = Command::new("cuda-pitfalls")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "cuda-pitfalls", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => match script.split_once("'*::words -- ") {
            Some((before, after)) => format!(
                "{before}'*::words -- {}",
                after.replacen(":_default'", ZSH, 1)
            ),
            None => script,
        },
        _ => script,
    }
}
