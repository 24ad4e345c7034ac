//! The answer of one instance.

use super::values::parameter_values;
use crate::facts;
use crate::tally::Standing;
use cuda_pitfalls_core::report::ScenarioView;
use cuda_pitfalls_core::verdict::{Kind, Reason, Verdict};

/// Summary of a finished instance, kept until its question is printed: no attempts, no readings.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceAnswer {
    /// The scenario's name.
    pub scenario: String,
    pub(super) name: String,
    pub(super) question: String,
    /// The values of its parameters; empty without parameters.
    pub(super) values: String,
    pub(super) libcudart: Option<String>,
    pub(super) verdict: Verdict,
    /// The workaround; empty if no workaround exists.
    pub(super) workaround: String,
    /// Share of its attempts in which the pitfall occurs, for a probabilistic question.
    pub(super) rate: Option<String>,
    /// Results of the cases, each after its name and counts, if the answer is not the expected one.
    pub(super) details: Vec<(String, String)>,
}

impl InstanceAnswer {
    /// Returns the answer of one instance.
    pub fn new(report: &ScenarioView<'_>) -> InstanceAnswer {
        let rate = report.verdict.rate.filter(|rate| rate.of > 1);
        InstanceAnswer {
            scenario: report.scenario.to_owned(),
            name: report.name.to_owned(),
            question: report.question.to_owned(),
            values: parameter_values(report),
            libcudart: facts::libcudart(report),
            verdict: report.verdict.clone(),
            workaround: report.workaround.to_owned(),
            rate: rate.map(|rate| format!("in {} of {} attempts", rate.shown, rate.of)),
            details: if Standing::new(report.verdict).is_failure() {
                case_lines(report)
            } else {
                Vec::new()
            },
        }
    }

    pub(super) fn standing(&self) -> Standing {
        Standing::new(&self.verdict)
    }

    /// Returns `true` if it is printed first, in a separate entry: it has no result, or not the one that the file
    /// expects.
    pub fn is_failure(&self) -> bool {
        self.standing().is_failure()
    }

    /// Returns `true` if it is counted but not listed: it did not run, was interrupted, or is not modeled by the
    /// simulated machine.
    pub(super) fn is_aside(&self) -> bool {
        !self.is_failure()
            && (self.verdict.kind == Kind::Skipped
                || matches!(
                    self.verdict.reason,
                    Some(Reason::NotModelled | Reason::Interrupted)
                ))
    }
}

/// Returns a line per case, as in the blocks of the long format.
fn case_lines(report: &ScenarioView<'_>) -> Vec<(String, String)> {
    let cases = report.cases.iter();
    cases
        .map(|case| {
            let head = format!("{} {}: ", case.name, facts::outcome_frequency(case));
            (head, facts::case_line(report, case).join(" · "))
        })
        .collect()
}
