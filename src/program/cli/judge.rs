//! `judge`: verdicts again, from what a report keeps.

use std::io::Write;
use std::path::PathBuf;

use super::output::{Outcome, fail, fail_rendered, is_styled, named, print, print_report};
use super::stored::newest;
use crate::argument;
use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::report::{ExitCode, Report, Stored, StoredReport};
use cuda_pitfalls_core::text::escape;
use cuda_pitfalls_core::{catalogue, judge};
use cuda_pitfalls_render::Format;

#[derive(Debug, clap::Args)]
pub(super) struct JudgeArguments {
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
}

/// Judges a stored report again: by the expectations it was made with, or by those of files.
pub(super) fn judge(arguments: JudgeArguments) -> Outcome {
    let JudgeArguments { report, files, json, verbose, allow_skip } = arguments;
    let report = Stored::open(&newest(&report)).and_then(|stored| stored.report());
    let mut report = report.map_err(|error| fail(error, Exit::Usage, json))?;
    match &mut report {
        StoredReport::Whole(whole) => {
            expect_as_today(whole, &files, json)?;
            judge::rejudge(whole);
        }
        StoredReport::Compact(_) if files.is_empty() => {}
        StoredReport::Compact(_) => {
            let why = "--with: this report is compact: the attempts that could be judged by a file are left out; judge the whole report";
            return Err(fail(why, Exit::Usage, json));
        }
    }
    let view = report.view();
    if !view.complete {
        let _ = writeln!(std::io::stderr(), "cuda-pitfalls: this report is partial: its run did not finish");
    }
    if view.is_compact {
        let _ = writeln!(
            std::io::stderr(),
            "cuda-pitfalls: this report is compact: its verdicts are those that were stored"
        );
    }
    let require = view.requirements();
    let run = report.run_mut();
    run.allow_skip = allow_skip.or(run.allow_skip.take());
    run.require = require;
    let exit = Exit::of_report(&report.view());
    // What the run came to was judged by what was expected then.
    report.run_mut().exit = Some(ExitCode { code: exit.code(), name: exit.name().to_string() });
    let shown = if json {
        print(&format!("{}\n", serde_json::to_string(&report).unwrap_or_default()))
    } else {
        print_report(report, if verbose { Format::TextFull } else { Format::Text })
    };
    Ok(named(exit.worst(shown)))
}

/// Puts what files expect today in place of what was expected when the report was made.
///
/// # Errors
/// The exit code, once it is said why: a file is not valid, or the report did not ask it.
fn expect_as_today(report: &mut Report, files: &[PathBuf], json: bool) -> Result<(), Exit> {
    let today = files.iter().map(|file| catalogue::load_file(&file.to_string_lossy())).collect::<Result<Vec<_>, _>>();
    let today = today.map_err(|error| fail_rendered(&error.render(is_styled()), Exit::Usage, json))?;
    if !files.is_empty() {
        // Of a report with a hundred scenarios, those that were asked about.
        report.scenarios.retain(|measured| today.iter().any(|scenario| scenario.name == measured.scenario));
        let others = judge::plan_as_today(report, &today);
        let asked = report.scenarios.iter().map(|measured| (measured.scenario.as_str(), measured.name.as_str()));
        let asked: Vec<_> =
            asked.map(|(scenario, name)| (scenario, others.iter().any(|other| other == name))).collect();
        for (file, scenario) in files.iter().zip(&today) {
            let of_file = asked.iter().filter(|(name, _)| *name == scenario.name);
            let own: Vec<bool> = of_file.map(|(_, is_other)| *is_other).collect();
            let why = match own.as_slice() {
                [] => "this report did not ask it",
                all if all.iter().all(|is_other| *is_other) => "it makes other calls than those that were measured",
                _ => continue,
            };
            let (file, name) = (file.to_string_lossy(), escape::terminal(&scenario.name));
            let help = "`run` measures it, and without --with a report is judged by what was expected then";
            return Err(fail(format!("{}: {name}: {why}; {help}", escape::terminal(&file)), Exit::Usage, json));
        }
        for name in others {
            let name = escape::terminal(&name);
            let why = "its calls are not those of the file, so it is judged by what was expected then";
            let _ = writeln!(std::io::stderr(), "cuda-pitfalls: {name}: {why}");
        }
    }
    Ok(())
}
