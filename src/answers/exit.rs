//! Exit codes: their meanings, which of several takes precedence, and the function that computes them.

use crate::survey::SurveyDocument;
use cuda_pitfalls_core::report::{ReportView, Requirement, ScenarioView};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Reason, Verdict};

/// Exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Everything was conclusive and as expected, and at least one attempt ran.
    Ok = 0,
    /// At least one conclusive verdict differs from the expected one.
    Unexpected = 1,
    /// The command line or a scenario is not valid, and nothing ran.
    Usage = 2,
    /// A scenario ran without reaching a conclusion.
    Inconclusive = 3,
    /// No measurement was made, or fewer than required.
    NothingMeasured = 4,
    /// A scenario that was selected by its exact name was skipped.
    Skipped = 5,
    /// A worker or a GPU is in a state that makes further use of the host unsafe.
    HostUnsafe = 6,
    /// The harness failed.
    Internal = 70,
    /// The report could not be written durably.
    NotDurable = 74,
    /// SIGINT ended the run, after a partial report.
    Interrupted = 130,
    /// SIGQUIT ended the run, after a partial report.
    Quit = 131,
    /// SIGTERM or a similar signal ended the run, after a partial report.
    Terminated = 143,
}

impl Exit {
    /// All exit codes, worst first. If several apply, the first one counts.
    pub const WORST_FIRST: [Exit; 12] = [
        Exit::Internal,
        Exit::NotDurable,
        Exit::HostUnsafe,
        Exit::Interrupted,
        Exit::Quit,
        Exit::Terminated,
        Exit::Usage,
        Exit::Unexpected,
        Exit::Inconclusive,
        Exit::Skipped,
        Exit::NothingMeasured,
        Exit::Ok,
    ];

    /// Returns the exit code that the shell sees.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Returns the word on stderr and in reports.
    pub const fn name(self) -> &'static str {
        self.shown().0
    }

    /// Returns the meaning, for help and documentation: a clause without a final period.
    pub const fn meaning(self) -> &'static str {
        self.shown().1
    }

    const fn shown(self) -> (&'static str, &'static str) {
        match self {
            Exit::Ok => (
                "ok",
                "at least one attempt ran, every verdict is conclusive and as expected, report written",
            ),
            Exit::Unexpected => ("unexpected", "a verdict differs from the expected one"),
            Exit::Usage => ("usage", "invalid command line or scenario; nothing ran"),
            Exit::Inconclusive => (
                "inconclusive",
                "attempts ran, but no verdict could be reached",
            ),
            Exit::NothingMeasured => (
                "nothing_measured",
                "nothing was measured (nothing selected, no GPU, nothing applies), or `--require` is not met",
            ),
            Exit::Skipped => (
                "skipped",
                "a scenario selected by exact name was skipped without `--allow-skip REASON`",
            ),
            Exit::HostUnsafe => (
                "host_unsafe",
                "a worker could not be killed, or a GPU is lost; do not use this host",
            ),
            Exit::Internal => ("internal", "the harness failed"),
            Exit::NotDurable => ("not_durable", "the report could not be written to disk"),
            Exit::Interrupted => ("interrupted", "by SIGINT, after a partial report"),
            Exit::Quit => ("interrupted", "by SIGQUIT, after a partial report"),
            Exit::Terminated => (
                "interrupted",
                "by SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or SIGXCPU, after a partial report (signal: `run.interrupted`)",
            ),
        }
    }

    /// Returns the exit code of a run that this signal ended, by the signal's name.
    pub fn stopped_by(signal: &str) -> Exit {
        match signal {
            "SIGINT" => Exit::Interrupted,
            "SIGQUIT" => Exit::Quit,
            _ => Exit::Terminated,
        }
    }

    /// Returns every exit code with its name and meaning, by number, for `--help`.
    pub fn help() -> String {
        let mut all = Exit::WORST_FIRST;
        all.sort_by_key(|exit| exit.code());
        let width = all.iter().map(|exit| exit.name().len()).max().unwrap_or(0);
        let mut help = "Exit codes (the name is printed on stderr):".to_owned();
        for exit in all {
            let (code, name) = (exit.code(), exit.name());
            let meaning = exit.meaning().replace('`', "");
            help.push_str(&format!("\n  {code:>3} {name:width$}  {meaning}"));
        }
        help
    }

    /// Returns the row of a table in Markdown.
    pub fn row(self) -> String {
        format!(
            "| {} | `{}` | {} |",
            self.code(),
            self.name(),
            self.meaning()
        )
    }

    /// Returns the worse of two exit codes.
    pub fn worst(self, other: Exit) -> Exit {
        Exit::WORST_FIRST
            .into_iter()
            .find(|exit| *exit == self || *exit == other)
            .unwrap_or(Exit::Internal)
    }

    /// Returns the exit code of a run with this report, if the report itself is on disk. `Ok` needs a complete report
    /// with at least one measurement. A combination that this function does not cover is an error of the harness.
    pub fn from_report(report: &ReportView<'_>) -> Exit {
        let (mut counted, mut has_unexpected, mut has_unknown) = (Vec::new(), false, false);
        for scenario in &report.scenarios {
            let verdict = scenario.verdict;
            if !is_unmodelled(verdict) {
                counted.push(verdict.kind);
            }
            has_unexpected |= verdict.expectation == ExpectationMet::Unexpected;
            has_unknown |= verdict.reason == Some(Reason::NotModelled);
        }
        let measured = report.scenarios.iter().any(is_measured);
        let interrupted = report.run.interrupted.as_deref().map(Exit::stopped_by);
        let was_stopped = interrupted.is_some() || report.run.stopped_by.is_some();
        let has_unmet = report.requirements().iter().any(Requirement::is_unmet);
        let worst = Exit::WORST_FIRST.into_iter().find(|exit| match exit {
            Exit::Internal => {
                counted.contains(&Kind::HarnessError) || (!report.complete && !was_stopped)
            }
            Exit::HostUnsafe => is_host_unsafe(report),
            Exit::Interrupted | Exit::Quit | Exit::Terminated => interrupted == Some(*exit),
            Exit::Unexpected => has_unexpected,
            // If the simulated machine models none of the questions, that is the result.
            Exit::Inconclusive => {
                counted.contains(&Kind::Inconclusive) || (!measured && has_unknown)
            }
            Exit::Skipped => {
                let mut scenarios = report.scenarios.iter();
                scenarios.any(|scenario| is_missed(report, scenario))
            }
            Exit::NothingMeasured => !measured || has_unmet,
            Exit::Ok => {
                let mut kinds = counted.iter();
                let are_conclusive =
                    kinds.all(|kind| kind.is_conclusive() || *kind == Kind::Skipped);
                measured && report.complete && are_conclusive
            }
            // Only the caller knows these; see `worst`.
            Exit::NotDurable | Exit::Usage => false,
        });
        worst.unwrap_or(Exit::Internal)
    }

    /// Returns the exit code of a survey with this document, if the document itself is on disk. A survey covers
    /// everything, so rows that cannot exist on a machine, a libcudart or the simulated machine are not failures.
    pub fn from_survey(document: &SurveyDocument) -> Exit {
        let interrupted = document.header.interrupted.as_deref().map(Exit::stopped_by);
        let worst = Exit::WORST_FIRST.into_iter().find(|exit| match exit {
            Exit::Internal => {
                !document.complete && interrupted.is_none() && document.header.host_unsafe.is_none()
            }
            Exit::Interrupted | Exit::Quit | Exit::Terminated => interrupted == Some(*exit),
            Exit::HostUnsafe => document.header.host_unsafe.is_some(),
            Exit::Unexpected => document.rows.iter().any(|row| row.is_unexpected),
            Exit::Inconclusive => document
                .rows
                .iter()
                .any(|row| !row.is_conclusive && !row.standing.is_left_out(document.provenance)),
            Exit::NothingMeasured => document
                .rows
                .iter()
                .all(|row| row.standing.attempts == 0 || row.is_control),
            Exit::Ok => document.complete,
            Exit::NotDurable | Exit::Usage | Exit::Skipped => false,
        });
        worst.unwrap_or(Exit::Internal)
    }
}

/// Returns `true` if any part of the report marks the host as unsafe for further use.
pub fn is_host_unsafe(report: &ReportView<'_>) -> bool {
    if report.run.host_unsafe.is_some() {
        return true;
    }
    for scenario in &report.scenarios {
        let reason = scenario.verdict.reason;
        if matches!(reason, Some(Reason::Unkillable | Reason::HostUnsafe)) {
            return true;
        }
        for case in &scenario.cases {
            let mut attempts = case.attempts.iter();
            let mut not_counted = case.not_counted.iter();
            if not_counted.any(|(reason, _)| *reason == Reason::Unkillable)
                || attempts.any(|attempt| attempt.recording.exit.unkillable)
            {
                return true;
            }
        }
    }
    false
}

/// Returns `true` if at least one attempt of this scenario has a usable result.
pub fn is_measured(scenario: &ScenarioView<'_>) -> bool {
    let ran = scenario.cases.iter().any(|case| case.made > 0);
    let says_something = !matches!(scenario.verdict.kind, Kind::Skipped | Kind::HarnessError);
    ran && says_something && !is_unmodelled(scenario.verdict)
}

/// Returns `true` if skipping this scenario is a failure: it was selected by its exact name, without `--allow-skip`, or
/// its needs are met. If there are no GPUs, no measurement was possible, which has a separate exit code.
pub fn is_missed(report: &ReportView<'_>, scenario: &ScenarioView<'_>) -> bool {
    let verdict = &scenario.verdict;
    let has_no_gpu = verdict.reason.is_some_and(Reason::is_no_gpu);
    verdict.kind == Kind::Skipped
        && report.run.allow_skip.is_none()
        && !has_no_gpu
        && !scenario.is_not_applicable()
}

/// Returns `true` if the simulated machine does not model the scenario, so that its verdict does not count there.
pub fn is_unmodelled(verdict: &Verdict) -> bool {
    verdict.provenance == Provenance::Simulated && verdict.reason == Some(Reason::NotModelled)
}

#[doc(hidden)]
pub mod fixture;
#[cfg(test)]
mod tests;
