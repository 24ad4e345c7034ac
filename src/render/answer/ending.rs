//! The end of a run: what was not asked, how many answers of each kind, the time, and the report.

use std::collections::HashSet;

use super::instance::InstanceAnswer;
use super::{aside, head};
use crate::block::Block;
use crate::tally::{self, Standing};
use crate::writer::terminal::write;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::lines::UNBROKEN;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::Provenance;

/// Where a report is, as far as its reader is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReportPlace {
    /// The reader knows.
    #[default]
    Known,
    /// At this path.
    At(String),
    /// Nowhere: no GPU could be asked, and nobody said where it should be.
    NotKept,
}

impl ReportPlace {
    /// What is said about it, if anything.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            ReportPlace::Known => None,
            ReportPlace::At(path) => Some(format!("report {path}")),
            ReportPlace::NotKept => Some(
                "report not kept, because no GPU was asked (`--out FOLDER` keeps one)".to_owned(),
            ),
        }
    }
}

/// What the end of a run is told beside the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunEnding {
    /// Where the report is.
    pub place: ReportPlace,
    /// Failures by name: for a reader who has them far above.
    pub names: bool,
    /// The exit code and its name, where nothing else says it.
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

/// The end: what was not asked, the counts, and where the report is, each in one line where the width allows.
pub fn render_ending(report: &ReportView<'_>, ending: &RunEnding, width: usize) -> String {
    let no_gpu = head::no_gpu(report).is_some();
    // Where nothing can be asked, it does not matter what each question would need beside a GPU.
    let aside = if no_gpu {
        Vec::new()
    } else {
        aside::lines(report)
    };
    let mut blocks: Vec<Block> = aside.into_iter().map(Block::paragraph).collect();
    let failed = report
        .scenarios
        .iter()
        .filter(|it| Standing::new(it.verdict).is_failure());
    let failed = listed(failed.filter(|_| ending.names).map(|it| it.name), "");
    if !failed.is_empty() {
        blocks.push(Block::note("see above: ", failed));
    }
    // A stored report has said it at its top.
    let banners = tally::warning_banners(report)
        .into_iter()
        .filter(|it| ending.exit.is_none() && it != tally::SIMULATED);
    blocks.extend(banners.map(|banner| Block::note("*** ", banner)));
    blocks.push(Block::paragraph(counts(report)));
    blocks.extend(no_gpu.then(|| Block::paragraph(HINT)));
    let exit = ending.exit.as_ref().map(|exit| format!("exit {exit}"));
    let last = listed(ending.place.sentence().into_iter().chain(exit), "");
    if !last.is_empty() {
        blocks.push(Block::paragraph(last));
    }
    if report.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(tally::SIMULATED.to_owned()));
    }
    write(&blocks, width)
}

/// What to do without a GPU.
const HINT: &str =
    "`cuda-pitfalls doctor` says why; `--on auto` asks a simulated machine (never evidence).";

/// `24 questions (53 variants): 52 as expected, 1 inconclusive, in 62 s`
fn counts(report: &ReportView<'_>) -> String {
    let asked: Vec<&ScenarioView<'_>> = report
        .scenarios
        .iter()
        .filter(|it| !InstanceAnswer::new(it).is_aside())
        .collect();
    let names: HashSet<&str> = asked.iter().map(|it| it.scenario).collect();
    let time = units::format_duration(report.run.elapsed_ns).replace(' ', &UNBROKEN.to_string());
    if asked.is_empty() {
        // Those that were not asked, those that do not apply, and those that were not asked to the end.
        let left = match report.scenarios.len() + report.run.not_run.len() {
            0 => "no question was asked".to_owned(),
            1 => "1 question was not answered".to_owned(),
            left => format!("{left} questions were not answered"),
        };
        return format!("Nothing was measured: {left}.");
    }
    let counts = tally::listed(&tally::counts(asked.iter().map(|it| it.verdict)));
    let measured = if report.provenance == Provenance::Simulated {
        "simulated"
    } else {
        "measured"
    };
    format!(
        "{} {measured}: {counts}, in {time}",
        head::questions(names.len(), asked.len())
    )
}
