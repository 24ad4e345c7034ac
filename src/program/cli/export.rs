//! `export`: a scenario as one file, in the language of its steps.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::output::{CliError, Outcome, fail, fail_rendered, is_styled, print_text};
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::export::{Reproducer, write_reproducer};
use cuda_pitfalls_core::catalogue::{Selection, Unselected};
use cuda_pitfalls_core::output::{EVERYBODY, check, replace};
use cuda_pitfalls_core::scenario::{Instance, Scenario};
use cuda_pitfalls_core::text::escape::terminal;

/// Help on what the exported program does.
pub(super) const ENDS: &str = "\
Calls are exported as C, Python lines as Python. The program runs trap and control in separate processes, and reads \
memory through NVML where the scenario is about memory. It exits with 0 if the effect occurs in the trap but not in \
the control, with 1 if it does not occur in the trap, and with 77 if this cannot be determined: too few GPUs, a \
missing library, or a step that was not reached.

Examples:
  cuda-pitfalls export mask-after-cuinit --out late-mask.c
  cuda-pitfalls export torch-is-available-then-mask --out late-mask.py";

#[derive(Debug, clap::Args)]
pub(super) struct ExportArguments {
    /// A scenario, an instance of one (`NAME[mask=0,0]`), or the path of a file.
    name: String,
    /// Output file [default: stdout].
    #[arg(long, value_name = "FILE", value_parser = crate::argument::file)]
    out: Option<PathBuf>,
}

pub(super) fn run_export(arguments: &ExportArguments) -> Outcome {
    let name = &arguments.name;
    let selection = select_scenarios(std::slice::from_ref(name))?;
    let all: Vec<(&Scenario, &Instance)> = selection.instances().collect();
    let Some((scenario, instance)) = all.first() else {
        return Err(fail("nothing is selected", Exit::Usage, false));
    };
    if all.iter().any(|(other, _)| other.name != scenario.name) {
        let why = format!(
            "`{name}` selects {} questions; name one (`cuda-pitfalls list {name}`)",
            all.len()
        );
        return Err(fail(why, Exit::Usage, false));
    }
    let text = write_program(scenario, instance, arguments)
        .map_err(|why| fail(why, Exit::Usage, false))?;
    if all.len() > 1 {
        let others: Vec<&str> = all
            .iter()
            .skip(1)
            .map(|(_, other)| other.name.as_str())
            .collect();
        let word = if others.len() == 1 {
            "another instance is"
        } else {
            "other instances are"
        };
        print_note(&format!(
            "this is {}; {word} {}",
            instance.name,
            others.join(", ")
        ));
    }
    match &arguments.out {
        None => Ok(print_text(&text)),
        Some(path) => write(path, &text),
    }
}

/// Returns the text of the file, or the reason why it cannot be written.
fn write_program(
    scenario: &Scenario,
    instance: &Instance,
    arguments: &ExportArguments,
) -> Result<String, CliError> {
    let stem = arguments.out.as_deref().and_then(file_stem);
    let program = Reproducer::new(scenario, instance, stem.as_deref().unwrap_or("reproducer"));
    let written = program.and_then(|program| write_reproducer(&program));
    written.map_err(|refusal| format!("{} cannot be written: {refusal}", instance.name).into())
}

/// Returns the name of a file without its suffix; `None` if it has characters that a shell or a comment interprets.
fn file_stem(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    (stem
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !stem.starts_with('-'))
    .then(|| stem.to_owned())
}

fn print_note(text: &str) {
    let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {}", terminal(text));
}

fn write(path: &Path, text: &str) -> Outcome {
    let name = path.display();
    check(path).map_err(|error| fail(format!("--out {name}: {error}"), Exit::Usage, false))?;
    replace(path, EVERYBODY, |file| file.write_all(text.as_bytes())).map_err(|error| {
        fail(
            format!("cannot write {name}: {error}"),
            Exit::NotDurable,
            false,
        )
    })?;
    print_note(&format!("{name} written"));
    Ok(Exit::Ok)
}

fn select_scenarios(selectors: &[String]) -> Result<Selection, Exit> {
    let selection = Selection::new(selectors, &[], Unselected::All);
    selection.map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, false))
}
