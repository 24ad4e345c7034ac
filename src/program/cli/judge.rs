//! `judge`: computes verdicts again, from what a report keeps.

use std::io::Write;
use std::path::PathBuf;

use super::output::{Outcome, fail, fail_rendered, is_styled, named, print_document, print_report};
use super::stored::newest_run;
use crate::argument;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::{ExitCode, Report, ReportView, Stored, StoredReport};
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::verdict::ChangedVerdict;
use cuda_pitfalls_core::{catalogue, judge};
use cuda_pitfalls_render::{Format, Prepared};

#[derive(Debug, clap::Args)]
pub(super) struct JudgeArguments {
    /// A report, or the directory of a run.
    report: PathBuf,
    /// Judge by the expectations of these scenario files, if their calls match the
    /// measured ones.
    #[arg(long = "with", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the report with its new verdicts as JSON.
    #[arg(long)]
    json: bool,
    /// Show every case of every scenario, not one answer per question.
    #[arg(short, long)]
    verbose: bool,
    /// Accept that scenarios selected by exact name were skipped, for this reason.
    #[arg(long, value_name = "REASON", value_parser = argument::reason)]
    allow_skip: Option<String>,
    /// Reject a report that was not made by `run --nonce TEXT`: an older one, or a copy of another.
    #[arg(long, value_name = "TEXT", value_parser = argument::parse_nonce)]
    nonce: Option<String>,
}

/// Judges a stored report again: by the expectations it was made with, or by those of files.
pub(super) fn run_judge(arguments: JudgeArguments) -> Outcome {
    let JudgeArguments {
        report,
        files,
        json,
        verbose,
        allow_skip,
        nonce,
    } = arguments;
    let report = Stored::open(&newest_run(&report)).and_then(|stored| stored.report());
    let mut report = report.map_err(|error| fail(error, Exit::Usage, json))?;
    if let Some(nonce) = &nonce {
        check_nonce(&report, nonce).map_err(|error| fail(error, Exit::Usage, json))?;
    }
    let mut changed = Vec::new();
    match &mut report {
        StoredReport::Whole(whole) if files.is_empty() => changed = judge::rejudge(whole),
        StoredReport::Whole(whole) => {
            expect_as_today(whole, &files, json)?;
            // Their expectations differ from the stored ones.
            judge::rejudge(whole);
        }
        StoredReport::Compact(_) if files.is_empty() => {}
        StoredReport::Compact(_) => {
            let why = "--with: this report is compact, so it contains no attempts to judge; use the full report";
            return Err(fail(why, Exit::Usage, json));
        }
    }
    print_notices(&report.view(), &changed);
    let require = report.view().requirements();
    let run = report.run_mut();
    run.allow_skip = allow_skip.or(run.allow_skip.take());
    run.require = require;
    let exit = Exit::from_report(&report.view());
    // The stored exit code was computed from the expectations at that time.
    report.run_mut().exit = Some(ExitCode {
        code: exit.code(),
        name: exit.name().to_string(),
    });
    let shown = if json {
        print_document(serde_json::to_string(&report))
    } else {
        print_report(
            &Prepared::from_judged(report, changed),
            if verbose {
                Format::TextFull
            } else {
                Format::Text
            },
        )
    };
    Ok(named(exit.worst(shown)))
}

/// Prints on stderr the facts that a reader of the verdicts must know.
fn print_notices(report: &ReportView<'_>, changed: &[ChangedVerdict]) {
    let mut stderr = std::io::stderr();
    if !report.complete {
        let _ = writeln!(
            stderr,
            "cuda-pitfalls: this report is partial, because its run did not finish"
        );
    }
    if report.is_compact {
        let _ = writeln!(
            stderr,
            "cuda-pitfalls: this report is compact, so the stored verdicts are shown"
        );
    }
    for ChangedVerdict { scenario, stored } in changed {
        let (name, kind, met) = (
            escape::terminal(scenario),
            stored.kind.name(),
            stored.expectation.name(),
        );
        let _ = writeln!(
            stderr,
            "cuda-pitfalls: {name}: the stored verdict, {kind} ({met}), is not what its attempts show"
        );
    }
}

/// Reasons why a report is not the requested one.
#[derive(Debug, thiserror::Error)]
enum NonceError {
    #[error(
        "--nonce: the report was not made with `run --nonce`, so it may be older than the request"
    )]
    Missing,
    #[error("--nonce: the report was made for another request, `{0}`")]
    Other(String),
}

fn check_nonce(report: &StoredReport, wanted: &str) -> Result<(), NonceError> {
    match &report.view().run.nonce {
        None => Err(NonceError::Missing),
        Some(nonce) if nonce == wanted => Ok(()),
        Some(other) => Err(NonceError::Other(other.to_owned())),
    }
}

/// Replaces the expectations stored in the report by those of the files.
///
/// # Errors
/// Returns the exit code after printing the reason: a file is not valid, or its scenario is not in the report.
fn expect_as_today(report: &mut Report, files: &[PathBuf], json: bool) -> Result<(), Exit> {
    let mut today = Vec::new();
    for file in files {
        let scenario = catalogue::load_file(&file.to_string_lossy())
            .map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, json))?;
        today.push(scenario);
    }
    // Only the scenarios in the given files are kept.
    report.scenarios.retain(|measured| {
        let mut asked = today.iter();
        asked.any(|scenario| scenario.name == measured.scenario)
    });
    let others = judge::plan_as_today(report, &today);
    for (file, scenario) in files.iter().zip(&today) {
        let (mut is_asked, mut has_same_calls) = (false, false);
        for measured in &report.scenarios {
            if measured.scenario == scenario.name {
                is_asked = true;
                has_same_calls |= !others.contains(&measured.name);
            }
        }
        let why = if !is_asked {
            "not in this report"
        } else if !has_same_calls {
            "it makes calls that differ from the measured ones"
        } else {
            continue;
        };
        let (file, name) = (file.to_string_lossy(), escape::terminal(&scenario.name));
        let help = "measure it with `run`, or omit --with to judge by the stored expectations";
        let file = escape::terminal(&file);
        return Err(fail(
            format!("{file}: {name}: {why}; {help}"),
            Exit::Usage,
            json,
        ));
    }
    for name in others {
        let name = escape::terminal(&name);
        let why =
            "its calls differ from those in the file, so it is judged by the stored expectation";
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {name}: {why}");
    }
    Ok(())
}
