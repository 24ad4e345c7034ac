//! The questions that are counted but not listed: those that this machine cannot answer, that were not allowed or not
//! reached, and that the simulated machine does not model.

use super::instance::InstanceAnswer;
use crate::{applicable, words};
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::counts::tally_items;
use cuda_pitfalls_core::verdict::{Kind, Reason};

/// Returns a line for each reason why questions have no answer.
pub(super) fn lines(report: &ReportView<'_>) -> Vec<String> {
    let (mut skipped, mut unknown, mut interrupted) = (Vec::new(), 0, 0);
    for scenario in &report.scenarios {
        if !InstanceAnswer::new(scenario).is_aside() {
            continue;
        }
        let verdict = scenario.verdict;
        match verdict.reason {
            Some(Reason::NotModelled) => unknown += 1,
            Some(Reason::Interrupted) => interrupted += 1,
            _ => {}
        }
        if verdict.kind == Kind::Skipped && !verdict.lacks_a_need() {
            skipped.extend(verdict.reason.map(words::reason));
        }
    }
    let mut lines = applicable::not_run_notes(report);
    for (why, count) in tally_items(skipped) {
        lines.push(format!("not run: {count} ({why})"));
    }
    if unknown > 0 {
        lines.push(format!("not modeled by the simulated machine: {unknown}"));
    }
    let mut parts = Vec::new();
    for (count, what) in [
        (report.run.not_run.len(), "not run"),
        (interrupted, "not finished"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if !parts.is_empty() {
        let why = match &report.run.stopped_by {
            Some(name) => format!("stopped at {name}"),
            None if report.run.interrupted.is_some() => "interrupted".to_owned(),
            None => "stopped early".to_owned(),
        };
        lines.push(format!("{why}: {}", parts.join(", ")));
    }
    lines
}
