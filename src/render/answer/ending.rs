//! The end of a run: the questions that did not run, the number of answers of each kind, the time, and the report.

use std::collections::HashSet;

use super::instance::InstanceAnswer;
use super::{aside, head};
use crate::block::Block;
use crate::tally::{self, Standing};
use crate::writer::terminal::{Screen, write};
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::lines::UNBROKEN;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Provenance;

/// Location of a report, as far as it is shown to its reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportPlace {
    /// The reader knows.
    #[default]
    Known,
    /// At this path.
    At(String),
    /// No report: no GPU could be used, and no location was given.
    NotKept,
}

impl ReportPlace {
    /// Returns the sentence about the location, if there is one.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            ReportPlace::Known => None,
            ReportPlace::At(path) => Some(format!("report {path}")),
            ReportPlace::NotKept => Some(
                "no report written, because no GPU was found (`--out FOLDER` writes one)"
                    .to_owned(),
            ),
        }
    }
}

/// Inputs of the end of a run, in addition to the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunEnding {
    /// Location of the report.
    pub place: ReportPlace,
    /// `true` to list failures by name, for a reader who has them far above.
    pub names: bool,
    /// The exit code and its name, if nothing else shows it.
    pub exit: Option<String>,
}

impl RunEnding {
    pub(crate) fn stored(report: &ReportView<'_>) -> RunEnding {
        let exit = match &report.run.exit {
            Some(exit) => format!("{} ({})", exit.code, exit.name),
            None => "none: the run did not finish".to_owned(),
        };
        RunEnding {
            exit: Some(exit),
            ..RunEnding::default()
        }
    }
}

/// Returns the end: the questions that did not run, the counts, and the location of the report, each on one line if the
/// width allows.
pub fn render_ending(
    report: &ReportView<'_>,
    ending: &RunEnding,
    screen: impl Into<Screen>,
) -> String {
    let no_gpu = head::no_gpu(report).is_some();
    let mut blocks = Vec::new();
    // Without a GPU, the other requirements of each question do not matter.
    if !no_gpu {
        for line in aside::lines(report) {
            blocks.push(Block::paragraph(line));
        }
    }
    let mut failed = Vec::new();
    for scenario in &report.scenarios {
        if ending.names && Standing::new(scenario.verdict).is_failure() {
            failed.push(scenario.name);
        }
    }
    if !failed.is_empty() {
        blocks.push(Block::note("see above: ", failed.join(", ")));
    }
    // A stored report shows this at its top.
    if ending.exit.is_none() {
        for banner in tally::warning_banners(report) {
            if banner != tally::SIMULATED {
                blocks.push(Block::note("*** ", banner));
            }
        }
    }
    blocks.push(Block::paragraph(counts(report)));
    if no_gpu || ending.place == ReportPlace::NotKept {
        blocks.push(Block::paragraph(HINT));
    }
    let mut last = Vec::new();
    last.extend(ending.place.sentence());
    if let Some(exit) = &ending.exit {
        last.push(format!("exit {exit}"));
    }
    if !last.is_empty() {
        blocks.push(Block::paragraph(last.join(", ")));
    }
    if report.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(tally::SIMULATED.to_owned()));
    }
    write(&blocks, screen)
}

/// Hint on what to do without a GPU.
const HINT: &str =
    "Try `cuda-pitfalls doctor` (why), `explain` (no GPU needed) or `trace --on sim`.";

/// Returns the counts: `24 questions (53 variants): 52 as expected, 1 inconclusive, in 62 s`.
fn counts(report: &ReportView<'_>) -> String {
    let (mut names, mut verdicts) = (HashSet::new(), Vec::new());
    for scenario in &report.scenarios {
        if !InstanceAnswer::new(scenario).is_aside() {
            names.insert(scenario.scenario);
            verdicts.push(scenario.verdict);
        }
    }
    if verdicts.is_empty() {
        // The number of unanswered questions and the reasons are printed above.
        return "No question has an answer.".to_owned();
    }
    let questions = head::questions(names.len(), verdicts.len());
    let counts = tally::listed(&tally::counts(verdicts.into_iter()));
    let time = units::format_duration(report.run.elapsed_ns).replace(' ', &UNBROKEN.to_string());
    let measured = match report.provenance {
        Provenance::Simulated => "simulated",
        Provenance::Measured => "measured",
    };
    format!("{questions} {measured}: {counts}, in {time}")
}
