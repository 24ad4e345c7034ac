//! What is counted and not shown: what this machine cannot answer, what was not allowed or not
//! reached, and what the simulated machine does not model.

use super::instance::InstanceAnswer;
use crate::{applicable, words};
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::counts::tally_items;
use cuda_pitfalls_core::verdict::{Kind, Reason};

/// A line for each reason why questions have no answer.
pub(super) fn lines(report: &ReportView<'_>) -> Vec<String> {
    let aside: Vec<&ScenarioView<'_>> = report
        .scenarios
        .iter()
        .filter(|it| InstanceAnswer::new(it).is_aside())
        .collect();
    let mut lines = applicable::not_run_notes(report);
    let verdicts = aside.iter().map(|it| it.verdict);
    let others = verdicts
        .clone()
        .filter(|it| it.kind == Kind::Skipped && !it.lacks_a_need());
    let others = tally_items(others.filter_map(|it| it.reason).map(words::reason));
    lines.extend(
        others
            .into_iter()
            .map(|(why, count)| format!("not asked: {count} ({why})")),
    );
    let [unknown, interrupted] = [Reason::NotModelled, Reason::Interrupted].map(|reason| {
        verdicts
            .clone()
            .filter(|it| it.reason == Some(reason))
            .count()
    });
    if unknown > 0 {
        lines.push(format!("not modelled by the simulated machine: {unknown}"));
    }
    let parts = [
        (report.run.not_run.len(), "not asked"),
        (interrupted, "not asked to the end"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
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
