//! The answers of a run: what each requires, and the number of each.

use crate::block::Tone;
use cuda_pitfalls_core::report::{ReportView, Requirement};
use cuda_pitfalls_core::text::counts::tally_items;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Provenance, Verdict};

/// Severity of a verdict, mildest first. Marks, colors and elements follow it, so that no two formats disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Answered as expected by the file.
    AsExpected,
    /// Answered, and the file has no expectation for this machine.
    Answered,
    /// Not run.
    Skipped,
    /// Run without a conclusion.
    Inconclusive,
    /// The harness failed.
    HarnessError,
    /// Answered, but not as expected by the file.
    Unexpected,
}

impl Standing {
    /// Returns the standing of a verdict.
    pub fn new(verdict: &Verdict) -> Standing {
        match (verdict.kind, verdict.expectation) {
            (_, ExpectationMet::Unexpected) => Standing::Unexpected,
            (Kind::HarnessError, _) => Standing::HarnessError,
            (Kind::Inconclusive, _) => Standing::Inconclusive,
            (Kind::Skipped, _) => Standing::Skipped,
            (_, ExpectationMet::AsExpected) => Standing::AsExpected,
            (_, ExpectationMet::NoExpectation) => Standing::Answered,
        }
    }

    /// Returns `true` if the answer differs from the one expected by the file, or a fault of the harness prevented an
    /// answer.
    pub(super) fn is_failure(self) -> bool {
        self >= Standing::HarnessError
    }

    /// Returns `true` if a page shows the cases of this answer by default.
    pub(super) fn needs_attention(self) -> bool {
        self >= Standing::Inconclusive
    }

    /// Returns a mark of one column. It always appears together with words.
    pub fn mark(self) -> &'static str {
        self.shown().0
    }

    /// Returns the label of the count of this standing.
    pub fn name(self) -> &'static str {
        self.shown().1
    }

    /// Returns its color on a page.
    pub(super) fn tone(self) -> Tone {
        self.shown().2
    }

    /// Returns the code of its color on a terminal.
    pub(super) fn ansi_color(self) -> &'static str {
        self.shown().3
    }

    fn shown(self) -> (&'static str, &'static str, Tone, &'static str) {
        match self {
            Standing::AsExpected => ("✓", "as expected", Tone::Dim, "32"),
            Standing::Answered => ("·", "without expectation", Tone::Plain, "36"),
            Standing::Skipped => ("-", "skipped", Tone::Dim, "90"),
            Standing::Inconclusive => ("?", "inconclusive", Tone::Doubt, "33"),
            Standing::HarnessError => ("!", "harness error", Tone::Bad, "35"),
            Standing::Unexpected => ("✗", "unexpected", Tone::Bad, "1;31"),
        }
    }
}

/// Returns the number of scenarios of a report with this standing.
pub fn count(report: &ReportView<'_>, standing: Standing) -> usize {
    report
        .scenarios
        .iter()
        .filter(|scenario| Standing::new(scenario.verdict) == standing)
        .count()
}

/// Returns the number of verdicts of each standing, without zeros, mildest first.
pub(super) fn counts<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Vec<(Standing, usize)> {
    let mut counts = tally_items(verdicts.map(Standing::new));
    counts.sort();
    counts
}

/// Counts as a list: `21 as expected, 2 unexpected`.
pub(super) fn listed(counts: &[(Standing, usize)]) -> String {
    counts
        .iter()
        .map(|(standing, count)| format!("{count} {}", standing.name()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the counts of a report, mildest first.
pub fn sentence(report: &ReportView<'_>) -> String {
    let counts = counts(report.scenarios.iter().map(|scenario| scenario.verdict));
    if counts.is_empty() {
        "no scenario ran".to_owned()
    } else {
        listed(&counts)
    }
}

/// Returns the warnings that a reader must see before believing any verdict, most serious first. Every renderer shows
/// all of them.
pub fn warning_banners(report: &ReportView<'_>) -> Vec<String> {
    let mut banners = Vec::new();
    if report.provenance == Provenance::Simulated {
        banners.push(SIMULATED.to_owned());
    }
    if !report.complete {
        let why = match (&report.run.interrupted, &report.run.stopped_by) {
            (Some(signal), _) => format!("{PARTIAL} Interrupted by {signal}."),
            (None, Some(name)) => {
                format!(
                    "{PARTIAL} Stopped by --fail-fast after {name}; {} not run.",
                    report.run.not_run.len()
                )
            }
            (None, None) => PARTIAL.to_owned(),
        };
        banners.push(why);
    }
    if report.is_compact {
        banners.push(COMPACT.to_owned());
    }
    if !report.changed.is_empty() {
        let stored = report
            .changed
            .iter()
            .map(|one| format!("{} was {}", one.scenario, stored_words(&one.stored)));
        banners.push(format!(
            "{JUDGED_AGAIN} {}.",
            name_changed(stored.collect())
        ));
    }
    if let Some(reason) = &report.run.host_unsafe {
        banners.push(format!("HOST UNSAFE: {reason}"));
    }
    let unmet = report
        .requirements()
        .into_iter()
        .filter(Requirement::is_unmet);
    banners.extend(
        unmet.map(|requirement| format!("REQUIREMENT NOT MET: {}.", requirement.sentence())),
    );
    banners
}

/// Banner above every simulated result.
pub const SIMULATED: &str =
    "SIMULATED: no driver and no GPU answered. Results say nothing about real hardware.";

/// Banner above every compact report.
pub const COMPACT: &str =
    "COMPACT: steps, attempts and samples are omitted; the stored verdicts are shown.";

/// Banner above a report whose stored verdicts differ from what its recordings show, before the list of these.
pub const JUDGED_AGAIN: &str = "JUDGED AGAIN: the recordings do not confirm these stored verdicts:";
/// Maximum number of changed verdicts that are listed.
const MOST_CHANGED: usize = 3;

fn name_changed(mut changed: Vec<String>) -> String {
    let more = changed.len().saturating_sub(MOST_CHANGED);
    changed.truncate(MOST_CHANGED);
    if more > 0 {
        changed.push(format!("and {more} more"));
    }
    changed.join(", ")
}

fn stored_words(stored: &Verdict) -> String {
    match stored.expectation {
        ExpectationMet::NoExpectation => stored.kind.name().to_owned(),
        met => format!("{} ({})", stored.kind.name(), met.name()),
    }
}

/// Banner above every partial report.
pub const PARTIAL: &str = "PARTIAL: the run did not finish, so this report is not a success.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_scenario_is_counted_once() {
        let report = fixture::report();
        assert_eq!(
            sentence(&report.view()),
            "1 as expected, 1 skipped, 1 inconclusive, 1 unexpected"
        );
        assert_eq!(sentence(&fixture::empty().view()), "no scenario ran");
    }

    #[test]
    fn simulated_and_partial_reports_say_so_first() {
        assert!(warning_banners(&fixture::report().view()).is_empty());
        assert!(
            warning_banners(&fixture::simulated().view())
                .iter()
                .any(|line| line.starts_with("SIMULATED"))
        );
        let partial = warning_banners(&fixture::partial().view());
        assert!(
            partial
                .iter()
                .any(|line| line.starts_with("PARTIAL") && line.contains("SIGINT")),
            "{partial:?}"
        );
    }
}
