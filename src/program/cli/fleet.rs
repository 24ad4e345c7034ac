//! `fleet`: many machines' reports as one document, and the changes between two documents.

mod render;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::output::{CliError, Outcome, fail, named, print_result};
use crate::argument::parse_duration;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_answers::fleet::{self, DocumentPool, Fleet, FleetMachine, Rule, Words};
use cuda_pitfalls_answers::known::Known;
use cuda_pitfalls_core::input::document_path;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_core::{clock, input, output};
use cuda_pitfalls_render::fleet::changes;

/// Maximum size of a list of names: ten bytes for each of 100,000 machines.
const MOST_NAMES_BYTES: u64 = 1 << 20;

/// Tolerance for clocks that differ; a report dated further ahead is from the future.
const MOST_AHEAD: std::time::Duration = std::time::Duration::from_secs(3600);

#[derive(Debug, Subcommand)]
pub(super) enum FleetCommand {
    /// Merge reports and surveys of many machines and list the outliers.
    ///
    /// Exits 0 with or without differences, 1 on a --forbid violation, 3 if differences are
    /// forbidden and a machine was not compared, or its run did not finish, 4 if nothing could be
    /// merged; an older fleet report is then kept.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls fleet merge reports/ --out fleet.json\n  cuda-pitfalls fleet merge - --expect nodes.txt --out fleet.json"
    )]
    Merge(Merge),
    /// Convert a fleet report to another format.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls fleet render fleet.json --as html --out fleet.html"
    )]
    Render(render::FleetRenderArguments),
    /// Show what changed between two fleet reports, e.g. last month's and today's.
    ///
    /// Exits 0 if nothing that --forbid names changed, else 1.
    #[command(
        after_help = "Examples:\n  cuda-pitfalls fleet diff october.json november.json --forbid verdict"
    )]
    Diff(Diff),
}

#[derive(Debug, clap::Args)]
pub(super) struct Merge {
    /// Reports and surveys, full or compact, one per file or per line, .gz or .zst allowed;
    /// directories of such files; `-` for stdin.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Fleet report to write.
    #[arg(long, value_name = "FILE", value_parser = crate::argument::file)]
    out: PathBuf,
    /// File of expected machine names, one per line (`-`: stdin), as printed by `scontrol show
    /// hostnames` or `kubectl get nodes -o name`.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Ignore reports of runs that began longer ago than this, e.g. 36h.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_age: Option<std::time::Duration>,
    /// Compare machines only within the same value of this label, e.g. `pool` of `run --label
    /// pool=train`.
    #[arg(long, value_name = "LABEL")]
    group_by: Option<String>,
    /// Merge only reports of simulated machines.
    #[arg(long)]
    simulated: bool,
    /// Exit 1 if one of these happened (repeatable, or comma-separated).
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    forbid: Vec<Forbidden>,
    /// Also print the fleet report on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Forbidden {
    /// A machine differs from the others, or CUDA does not start on it.
    Differences,
    /// An expected machine is missing.
    Missing,
    /// A machine's own report marks a verdict unexpected, even if the others agree.
    Unexpected,
    /// Two machines with different GPUs have one name, or two reports of one machine disagree.
    Conflicts,
}

/// Changes between two fleet reports that `--forbid` accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ForbiddenChange {
    /// The majority verdict changed, or a machine's verdict now differs from its group's.
    Verdict,
    /// A majority outcome changed: its verdict or its observations.
    Usual,
    /// A machine now differs from its group in at least one observation.
    Differences,
    /// A machine of the older fleet report is gone.
    Missing,
}

#[derive(Debug, clap::Args)]
pub(super) struct Diff {
    /// Older fleet report.
    old: PathBuf,
    /// Newer fleet report.
    new: PathBuf,
    /// Exit 1 if one of these changed (repeatable, or comma-separated).
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    forbid: Vec<ForbiddenChange>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn fleet(command: FleetCommand) -> Outcome {
    match command {
        FleetCommand::Merge(arguments) => run_merge(&arguments),
        FleetCommand::Render(arguments) => render::render(&arguments),
        FleetCommand::Diff(arguments) => run_diff(&arguments),
    }
}

fn run_merge(arguments: &Merge) -> Outcome {
    let json = arguments.json;
    let (expected, rule) = check_merge(arguments).map_err(|why| fail(why, Exit::Usage, json))?;
    let pool = DocumentPool::new(rule);
    fleet::gather(&arguments.inputs, &pool);
    let merged = fleet::merge(pool, expected.as_deref(), words);
    let out = arguments.out.to_string_lossy();
    let is_kept = !has_merged(&merged) && arguments.out.is_file();
    if !is_kept {
        let folder = arguments.out.parent().unwrap_or(Path::new(""));
        let written =
            fs::create_dir_all(folder).and_then(|()| output::document(&arguments.out, &merged));
        written.map_err(|error| fail(format!("--out {out}: {error}"), Exit::NotDurable, json))?;
    }
    let end = if is_kept {
        format!("nothing was merged; {out} is unchanged")
    } else if has_merged(&merged) {
        format!("merged into {out}")
    } else {
        format!("nothing was merged; {out} has the reasons")
    };
    let screen = crate::terminal::screen(&std::io::stdout());
    let shown = print_result(
        json,
        || serde_json::to_string(&merged),
        || changes::render_merge(&merged, end, screen),
    );
    Ok(named(exit(&merged, &arguments.forbid).worst(shown)))
}

/// Returns the machines that are expected, and the rule for the documents to merge.
///
/// # Errors
/// Returns an error if an argument is not valid, or a file does not exist.
fn check_merge(arguments: &Merge) -> Result<(Option<Vec<String>>, Rule), CliError> {
    let stdin = Path::new(input::STDIN);
    let is_stdin = |input: &PathBuf| input == stdin;
    if arguments.expect.as_ref().is_some_and(is_stdin) && arguments.inputs.iter().any(is_stdin) {
        return Err("--expect -: standard input is one of the inputs already".into());
    }
    let expected = match &arguments.expect {
        Some(path) => Some(names(path)?),
        None => None,
    };
    // A missing file is a mistake of the caller, and no reason to replace an older document with an empty one.
    for input in &arguments.inputs {
        if !is_stdin(input) && !document_path(input).exists() {
            return Err(format!("there is no `{}`", terminal(&input.to_string_lossy())).into());
        }
    }
    let not_before = match arguments.max_age {
        Some(age) => Some(clock::utc_before(age).ok_or("--max-age: this is before the year 0")?),
        None => None,
    };
    output::check(&arguments.out)
        .map_err(|error| format!("--out {}: {error}", arguments.out.display()))?;
    let rule = Rule {
        provenance: Provenance::from_simulated(arguments.simulated),
        not_before,
        not_after: clock::utc_after(MOST_AHEAD),
        group_by: arguments.group_by.clone(),
    };
    Ok((expected, rule))
}

fn has_merged(merged: &Fleet) -> bool {
    let mut buckets = merged.input.buckets.iter();
    buckets.any(|(bucket, count)| bucket.is_merged() && *count > 0)
}

/// Returns the exit code of a merge. Differences are the purpose of a merge, and a failure only if an option says so.
fn exit(merged: &Fleet, forbidden: &[Forbidden]) -> Exit {
    if forbidden.iter().any(|what| has_happened(merged, *what)) {
        return Exit::Unexpected;
    }
    if !has_merged(merged) {
        return Exit::NothingMeasured;
    }
    // A machine that was not compared may differ.
    if forbidden.contains(&Forbidden::Differences) && merged.has_uncompared() {
        Exit::Inconclusive
    } else {
        Exit::Ok
    }
}

fn has_happened(merged: &Fleet, what: Forbidden) -> bool {
    let mut machines = merged.machines.iter();
    match what {
        Forbidden::Differences => {
            !merged.differences.is_empty() || machines.any(|machine| machine.no_cuda.is_some())
        }
        Forbidden::Missing => match &merged.expected {
            Some(expected) => !expected.missing.is_empty(),
            None => false,
        },
        Forbidden::Unexpected => machines.any(|machine| machine.unexpected > 0),
        Forbidden::Conflicts => machines.any(FleetMachine::has_conflict),
    }
}

/// Returns the names of the machines that are expected.
fn names(path: &Path) -> Result<Vec<String>, CliError> {
    let name = terminal(&path.to_string_lossy());
    let read = if path == Path::new(input::STDIN) {
        read_names(std::io::stdin())
    } else {
        input::read_text(path, MOST_NAMES_BYTES)
    };
    let text = read.map_err(|error| format!("--expect {name}: {error}"))?;
    Ok(fleet::names(&text)
        .map_err(|why| format!("--expect {name}: {}", terminal(&why.to_string())))?)
}

/// Reads a list of names from a stream. A list that is too long is rejected, because a truncated list would name other
/// machines.
fn read_names(stream: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    stream
        .take(MOST_NAMES_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MOST_NAMES_BYTES {
        let why = format!("it is larger than {} KiB", MOST_NAMES_BYTES >> 10);
        return Err(std::io::Error::other(why));
    }
    Ok(text)
}

/// Returns the question and the page of a built-in scenario.
fn words(scenario: &str) -> Option<Words> {
    let question = Known::embedded().scenario(scenario)?.question.clone();
    let page = Known::embedded()
        .page(scenario)
        .and_then(|page| page.strip_prefix("docs/"));
    Some(Words {
        question,
        page: page.map(str::to_owned),
    })
}

fn run_diff(arguments: &Diff) -> Outcome {
    let [old, new] = [&arguments.old, &arguments.new]
        .map(|path| render::read(path).map_err(|why| why.to_string()));
    let usage = |why: String| fail(why, Exit::Usage, arguments.json);
    let diff = fleet::diff(&old.map_err(usage)?, &new.map_err(usage)?)
        .map_err(|why| usage(why.to_string()))?;
    let shown = print_result(
        arguments.json,
        || serde_json::to_string(&diff),
        || changes::text(&diff, crate::terminal::screen(&std::io::stdout())),
    );
    let is_forbidden = arguments.forbid.iter().any(|what| match what {
        ForbiddenChange::Verdict => diff.has_other_verdict(),
        ForbiddenChange::Usual => !diff.usual.is_empty(),
        ForbiddenChange::Differences => !diff.began.is_empty(),
        ForbiddenChange::Missing => !diff.machines_gone.is_empty(),
    });
    Ok(named(shown.worst(if is_forbidden {
        Exit::Unexpected
    } else {
        Exit::Ok
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_names_is_whole_or_refused() {
        let fits = "a\n".repeat(MOST_NAMES_BYTES as usize / 2);
        assert_eq!(read_names(fits.as_bytes()).unwrap(), fits);
        let error = read_names((fits + "b").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1024 KiB");
    }
}
