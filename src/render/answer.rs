//! A report as answers for a person: per question one line with **yes** or **no**, the workaround
//! where the pitfall shows, and details of failures only. [`super::full`] has all the rest.
//!
//! Each part is a function of its own, so that a run can print them as it goes.

mod aside;
mod ending;
mod head;
mod question;
mod values;

pub use ending::{Ending, ReportPlace, ending};
pub use head::{Workload, head, machine, surroundings};
pub(crate) use question::word_of;
pub use question::{is_yes_or_no, question};
pub(super) use values::of as values;

use std::collections::HashSet;

use cuda_pitfalls_core::report::{CaseView, ReportView, ScenarioView};
use cuda_pitfalls_core::verdict::{Kind, Reason, Verdict};

use super::facts;
use super::full::Style;
use super::tally::Standing;

/// The widest that an answer is laid out: on wider terminals a name would stand too far from its question.
const WIDEST: usize = 140;

/// What is kept of one finished instance until its question is told: no attempts, no readings.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceAnswer {
    /// The scenario's name.
    pub scenario: String,
    name: String,
    question: String,
    /// The values of its parameters; empty where it has none.
    values: String,
    libcudart: Option<String>,
    verdict: Verdict,
    /// The workaround; empty if there is none.
    workaround: String,
    /// In how many of its attempts it shows, where the question is about a chance.
    rate: Option<String>,
    /// What the cases showed, each behind its name and counts, where the answer is not the expected one.
    details: Vec<(String, String)>,
}

impl InstanceAnswer {
    /// The answer of one instance.
    pub fn of(report: &ScenarioView<'_>) -> InstanceAnswer {
        let standing = Standing::of(report.verdict);
        let is_failure = matches!(standing, Standing::Unexpected | Standing::HarnessError);
        let rate = report.verdict.rate.filter(|rate| rate.of > 1);
        InstanceAnswer {
            scenario: report.scenario.to_owned(),
            name: report.name.to_owned(),
            question: report.question.to_owned(),
            values: values::of(report),
            libcudart: facts::libcudart(report),
            verdict: report.verdict.clone(),
            workaround: report.workaround.to_owned(),
            rate: rate.map(|rate| format!("in {} of {} attempts", rate.shown, rate.of)),
            details: if is_failure { details(report) } else { Vec::new() },
        }
    }

    fn standing(&self) -> Standing {
        Standing::of(&self.verdict)
    }

    /// Whether it is printed first, in an entry of its own: not what the file expects, or no result.
    pub fn is_failure(&self) -> bool {
        matches!(self.standing(), Standing::Unexpected | Standing::HarnessError)
    }

    /// Whether it is counted and not told: it did not run (to its end), or the simulated machine does not know.
    fn is_aside(&self) -> bool {
        !self.is_failure()
            && (self.verdict.kind == Kind::Skipped
                || matches!(self.verdict.reason, Some(Reason::NotModelled | Reason::Interrupted)))
    }
}

/// What answers a question in a word: `yes` and `no` where it is a question of that kind.
pub fn word(report: &ScenarioView<'_>) -> &'static str {
    question::word_of(report.verdict.kind, report.question)
}

/// A line per case, as the blocks of the long form have them.
fn details(report: &ScenarioView<'_>) -> Vec<(String, String)> {
    let head = |case: &CaseView<'_>| format!("{} {}: ", case.name, facts::frequency(case));
    report.cases.iter().map(|case| (head(case), facts::case_line(report, case).join(" · "))).collect()
}

/// The whole report, as a run printed it but for the order: failures come first.
pub fn report(report: &ReportView<'_>, width: usize) -> String {
    let answers: Vec<InstanceAnswer> = report.scenarios.iter().map(InstanceAnswer::of).collect();
    let (failures, others): (Vec<InstanceAnswer>, Vec<InstanceAnswer>) =
        answers.into_iter().partition(InstanceAnswer::is_failure);
    let mut out = head(report, None, width);
    let mut blocks = String::new();
    for answers in [failures, others] {
        let mut told: HashSet<&str> = HashSet::new();
        for answer in &answers {
            if told.insert(&answer.scenario) {
                let of_it: Vec<InstanceAnswer> =
                    answers.iter().filter(|other| other.scenario == answer.scenario).cloned().collect();
                blocks.push_str(&question(&of_it, width, Style::Plain));
            }
        }
    }
    for part in [blocks, ending(report, &Ending::stored(report), width)] {
        if !part.is_empty() {
            out.push('\n');
            out.push_str(&part);
        }
    }
    out
}

#[cfg(test)]
mod tests;
