//! A report as answers for users: one line per question with **yes** or **no**, the workaround where the pitfall
//! occurs, and details of failures only. [`super::full`] has everything else.
//!
//! Each part is a separate function, so that a run can print them one by one.

mod aside;
mod ending;
mod head;
mod instance;
mod question;
mod values;

pub use ending::{ReportPlace, RunEnding, render_ending};
pub use head::{Workload, machine, render_head, surrounding_lines};
pub use instance::InstanceAnswer;
pub(crate) use question::word_of;
pub use question::{is_yes_or_no, question};
pub(super) use values::parameter_values;

use std::collections::HashSet;

use super::writer::terminal::Screen;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};

/// Returns the one-word answer of a question: `yes` or `no` if it is a yes/no question.
pub fn word(report: &ScenarioView<'_>) -> &'static str {
    question::word_of(report.verdict.kind, report.question)
}

/// Returns the complete report as a run printed it, except for the order: failures come first.
pub fn report(report: &ReportView<'_>, screen: impl Into<Screen>) -> String {
    let screen: Screen = screen.into();
    let answers: Vec<InstanceAnswer> = report.scenarios.iter().map(InstanceAnswer::new).collect();
    let (failures, others): (Vec<InstanceAnswer>, Vec<InstanceAnswer>) =
        answers.into_iter().partition(InstanceAnswer::is_failure);
    let mut out = render_head(report, None, screen);
    let mut blocks = String::new();
    for answers in [failures, others] {
        let mut told: HashSet<&str> = HashSet::new();
        for answer in &answers {
            if told.insert(&answer.scenario) {
                let of_it: Vec<InstanceAnswer> = answers
                    .iter()
                    .filter(|other| other.scenario == answer.scenario)
                    .cloned()
                    .collect();
                blocks.push_str(&question(&of_it, screen));
            }
        }
    }
    for part in [
        blocks,
        render_ending(report, &RunEnding::stored(report), screen),
    ] {
        if !part.is_empty() {
            out.push('\n');
            out.push_str(&part);
        }
    }
    out
}

#[cfg(test)]
mod tests;
