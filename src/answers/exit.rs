//! Exit codes: what each means, which of several wins, and the one function that computes them.

use crate::survey::SurveyDocument;
use crate::survey::document::Row;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::verdict::Provenance;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason, Verdict};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// All conclusive and as expected, and at least one attempt ran.
    Ok,
    /// A conclusive verdict that is not the expected one.
    Unexpected,
    /// A command line or a scenario that is not valid; nothing ran.
    Usage,
    /// A question that ran and was not answered.
    Inconclusive,
    /// Nothing was measured, or fewer than was required.
    NothingMeasured,
    /// A scenario that was selected by its exact name was skipped.
    Skipped,
    /// A worker or a GPU was left in a state that is unsafe to go on with.
    HostUnsafe,
    /// A fault of the harness.
    Internal,
    /// The report could not be written to last.
    NotDurable,
    /// SIGINT ended the run, after a partial report.
    Interrupted,
    /// SIGTERM, or another signal of that kind, ended the run, after a partial report.
    Terminated,
}

impl Exit {
    /// All of them, worst first: of several that apply, the first counts.
    pub const WORST_FIRST: [Exit; 11] = [
        Exit::Internal,
        Exit::NotDurable,
        Exit::HostUnsafe,
        Exit::Interrupted,
        Exit::Terminated,
        Exit::Usage,
        Exit::Unexpected,
        Exit::Inconclusive,
        Exit::Skipped,
        Exit::NothingMeasured,
        Exit::Ok,
    ];

    /// The number the shell sees.
    pub const fn code(self) -> i32 {
        match self {
            Exit::Ok => 0,
            Exit::Unexpected => 1,
            Exit::Usage => 2,
            Exit::Inconclusive => 3,
            Exit::NothingMeasured => 4,
            Exit::Skipped => 5,
            Exit::HostUnsafe => 6,
            Exit::Internal => 70,
            Exit::NotDurable => 74,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// The word on stderr and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Unexpected => "unexpected",
            Exit::Usage => "usage",
            Exit::Inconclusive => "inconclusive",
            Exit::NothingMeasured => "nothing_measured",
            Exit::Skipped => "skipped",
            Exit::HostUnsafe => "host_unsafe",
            Exit::Internal => "internal",
            Exit::NotDurable => "not_durable",
            Exit::Interrupted | Exit::Terminated => "interrupted",
        }
    }

    /// What it means, as help and documentation say it: a clause without a full stop.
    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Ok => "all conclusive and as expected, at least one attempt ran, and the report is on disk",
            Exit::Unexpected => "a verdict is not the expected one",
            Exit::Usage => "the command line or a scenario is not valid; nothing ran",
            Exit::Inconclusive => "something ran and nothing can be concluded from it",
            Exit::NothingMeasured => {
                "nothing was measured (nothing selected, no GPU, nothing applies), or `--require` is not met"
            }
            Exit::Skipped => "a scenario selected by its exact name was skipped, without `--allow-skip REASON`",
            Exit::HostUnsafe => "a worker could not be killed, or a GPU is lost; do not go on with this host",
            Exit::Internal => "the harness failed",
            Exit::NotDurable => "the report could not be written to disk",
            Exit::Interrupted => "by SIGINT, after a partial report",
            Exit::Terminated => "by SIGTERM or SIGHUP, after a partial report; `run.interrupted` says which",
        }
    }

    /// Every code with its name and meaning, by number, for `--help`.
    pub fn help() -> String {
        let mut all = Exit::WORST_FIRST;
        all.sort_by_key(|exit| exit.code());
        let width = all.iter().map(|exit| exit.name().len()).max().unwrap_or(0);
        let line = |exit: Exit| format!("\n  {:>3} {:width$}  {}", exit.code(), exit.name(), exit.meaning());
        let lines: String = all.into_iter().map(line).collect();
        format!("Exit codes (the name is printed on stderr):{}", lines.replace('`', ""))
    }

    /// The row of a table in Markdown.
    pub fn row(self) -> String {
        format!("| {} | `{}` | {} |", self.code(), self.name(), self.meaning())
    }

    /// The worse of two.
    pub fn worst(self, other: Exit) -> Exit {
        Exit::WORST_FIRST.into_iter().find(|exit| *exit == self || *exit == other).unwrap_or(Exit::Internal)
    }

    /// How a run that left this report ends, if the report itself is on disk.
    ///
    /// `Ok` has to be earned: a report that is not complete, or in which nothing was measured,
    /// never gets it, and what this function does not foresee is a fault of the harness.
    pub fn of_report(report: &ReportView<'_>) -> Exit {
        let verdicts = || report.scenarios.iter().map(|scenario| &scenario.verdict);
        let some = |kind: Kind| verdicts().any(|verdict| verdict.kind == kind && !is_unmodelled(verdict));
        let measured = report.scenarios.iter().any(is_measured);
        let unknown = || verdicts().any(|verdict| verdict.reason == Some(Reason::NotModelled));
        let interrupted = report.run.interrupted.as_deref();
        let was_stopped = interrupted.is_some() || report.run.stopped_by.is_some();
        let required = report.requirements().iter().all(|requirement| !requirement.is_unmet());
        let applies = |exit: Exit| match exit {
            Exit::Internal => some(Kind::HarnessError) || (!report.complete && !was_stopped),
            Exit::HostUnsafe => is_host_unsafe(report),
            Exit::Interrupted => interrupted == Some("SIGINT"),
            Exit::Terminated => interrupted.is_some_and(|signal| signal != "SIGINT"),
            Exit::Unexpected => verdicts().any(|verdict| verdict.expectation == ExpectationMet::Unexpected),
            // Where the simulated machine models none of it, that is the news.
            Exit::Inconclusive => some(Kind::Inconclusive) || (!measured && unknown()),
            Exit::Skipped => report.scenarios.iter().any(|scenario| is_missed(report, scenario)),
            Exit::NothingMeasured => !measured || !required,
            Exit::Ok => {
                let is_fine = |it: &Verdict| it.kind.is_conclusive() || it.kind == Kind::Skipped;
                measured && report.complete && verdicts().all(|it| is_fine(it) || is_unmodelled(it))
            }
            // Known to the caller alone; see `worst`.
            Exit::NotDurable | Exit::Usage => false,
        };
        Exit::WORST_FIRST.into_iter().find(|exit| applies(*exit)).unwrap_or(Exit::Internal)
    }

    /// How a survey that left this document ends, if the document itself is on disk. What a machine,
    /// a libcudart or the simulated machine does not have is no fault of a survey of everything.
    pub fn of_survey<R: Row>(document: &SurveyDocument<R>) -> Exit {
        let rows = || document.rows.iter();
        let interrupted = document.survey.interrupted.as_deref();
        let applies = |exit: Exit| match exit {
            Exit::Internal => !document.complete && interrupted.is_none() && document.survey.host_unsafe.is_none(),
            Exit::Interrupted => interrupted == Some("SIGINT"),
            Exit::Terminated => interrupted.is_some_and(|signal| signal != "SIGINT"),
            Exit::HostUnsafe => document.survey.host_unsafe.is_some(),
            Exit::Unexpected => rows().any(Row::is_unexpected),
            Exit::Inconclusive => {
                rows().any(|row| !row.is_conclusive() && !row.standing().is_left_out(document.provenance))
            }
            Exit::NothingMeasured => rows().all(|row| row.standing().attempts == 0 || row.is_control()),
            Exit::Ok => document.complete,
            Exit::NotDurable | Exit::Usage | Exit::Skipped => false,
        };
        Exit::WORST_FIRST.into_iter().find(|exit| applies(*exit)).unwrap_or(Exit::Internal)
    }
}

/// Whether a worker or a GPU was left in a state that is unsafe to go on with, whatever noted it.
pub fn is_host_unsafe(report: &ReportView<'_>) -> bool {
    let mut attempts = report.scenarios.iter().flat_map(|scenario| &scenario.cases).flat_map(|case| case.attempts);
    let mut reasons = report.scenarios.iter().filter_map(|scenario| scenario.verdict.reason);
    let mut not_counted =
        report.scenarios.iter().flat_map(|scenario| &scenario.cases).flat_map(|case| &case.not_counted);
    report.run.host_unsafe.is_some()
        || not_counted.any(|(reason, _)| *reason == Reason::Unkillable)
        || attempts.any(|attempt| attempt.recording.exit.unkillable)
        || reasons.any(|reason| matches!(reason, Reason::Unkillable | Reason::HostUnsafe))
}

/// Whether attempts of this scenario were made, and say something.
pub fn is_measured(scenario: &ScenarioView<'_>) -> bool {
    let ran = scenario.cases.iter().any(|case| case.made > 0);
    let says_something = !matches!(scenario.verdict.kind, Kind::Skipped | Kind::HarnessError);
    ran && says_something && !is_unmodelled(scenario.verdict)
}

/// Whether this scenario was skipped and that counts: it was selected by its exact name
/// and `--allow-skip` was not given. Without any GPU nothing was measured, which has an exit code of
/// its own. A scenario that was skipped for another reason than a need should have run.
pub fn is_missed(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> bool {
    let verdict = &scenario.verdict;
    let has_no_gpu = verdict.reason.is_some_and(Reason::is_no_gpu);
    verdict.kind == Kind::Skipped
        && report.run.allow_skip.is_none()
        && !has_no_gpu
        && !report.is_not_applicable(scenario)
}

/// What the simulated machine does not model does not count there.
pub fn is_unmodelled(verdict: &Verdict) -> bool {
    verdict.provenance == Provenance::Simulated && verdict.reason == Some(Reason::NotModelled)
}

#[doc(hidden)]
pub mod fixture;
#[cfg(test)]
mod tests;
