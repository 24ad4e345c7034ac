//! The provenance of each committed report: its machine, its program, whether its run was completed, and how many of
//! its questions today's files ask in the same way.
//!
//! Pure: facts about reports become Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cuda_pitfalls::report::Report;
use cuda_pitfalls::text::escape;

use crate::TaskError;
use crate::page::Measurement;

/// The facts about one report.
#[derive(Clone, Debug)]
pub struct ReportSource {
    name: String,
    machine: String,
    started_at: String,
    version: String,
    commit: Option<String>,
    interrupted: Option<String>,
    beside: usize,
    /// The number of its questions, counted once for each combination of parameters and each libcudart.
    asked: usize,
    /// How many of these make the same calls as today's files.
    today: usize,
    /// For how many of these the report stores another verdict than today's question gives.
    otherwise: usize,
}

impl ReportSource {
    /// The facts about a report with these measurements.
    pub fn new(name: &str, report: &Report, measured: &[Measurement]) -> ReportSource {
        let run = &report.run;
        let ended = (!report.complete).then(|| "not finished".to_owned());
        ReportSource {
            name: name.to_owned(),
            machine: report.machine.summary(),
            started_at: run.started_at.clone(),
            version: run.version.clone(),
            commit: run.commit.clone(),
            interrupted: run
                .interrupted
                .as_ref()
                .map(|signal| format!("interrupted by {signal}"))
                .or(ended),
            beside: run.co_tenants.len(),
            asked: report.scenarios.len(),
            today: measured.len(),
            otherwise: measured
                .iter()
                .filter(|measurement| measurement.is_asked_otherwise())
                .count(),
        }
    }

    /// Whether the report names the commit from which its program was built, without changes to it.
    pub fn has_clean_commit(&self) -> bool {
        self.commit
            .as_ref()
            .is_some_and(|commit| !commit.ends_with("-dirty"))
    }

    /// The folder of the report, below `reports/`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The runs without a clean commit, with the number of their questions that are in no commit.
///
/// # Errors
/// The file is not valid.
pub fn uncommitted(source: &str) -> Result<BTreeMap<String, usize>, TaskError> {
    toml::from_str(source).map_err(|error| format!("reports/provenance.toml: {error}").into())
}

/// docs/provenance.md.
pub fn page(sources: &[ReportSource], uncommitted: &BTreeMap<String, usize>) -> String {
    let asked: usize = sources.iter().map(|source| source.asked).sum();
    let unknown: usize = uncommitted.values().sum();
    let mut out = OPENING.to_owned();
    let _ = writeln!(
        out,
        "Of {} reports {} name no commit and {} one with changes that were not committed; {} runs were interrupted. \
         Of their {asked} questions {unknown} are of a file that is in no commit: what it asked is in the report, \
         with its calls and checks. Newer reports have to name the commit of a clean checkout, which a test holds.\n",
        sources.len(),
        sources
            .iter()
            .filter(|source| source.commit.is_none())
            .count(),
        sources
            .iter()
            .filter(|source| source.commit.is_some() && !source.has_clean_commit())
            .count(),
        sources
            .iter()
            .filter(|source| source.interrupted.is_some())
            .count(),
    );
    out.push_str(
        "| report | machine | started | program | run | questions | file in no commit | asked today | other verdict then |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for source in sources {
        let commit = source
            .commit
            .as_ref()
            .map_or_else(|| "no commit".to_owned(), |commit| format!("`{commit}`"));
        let mut run = vec![
            source
                .interrupted
                .clone()
                .unwrap_or_else(|| "finished".to_owned()),
        ];
        run.extend((source.beside > 0).then(|| "beside other processes".to_owned()));
        let cells = [
            format!("[{0}](../reports/{0})", source.name),
            escape::markdown(&source.machine),
            escape::markdown(&source.started_at),
            format!("{}, {commit}", escape::markdown(&source.version)),
            escape::markdown(&run.join(", ")),
            source.asked.to_string(),
            uncommitted
                .get(&source.name)
                .copied()
                .unwrap_or_default()
                .to_string(),
            source.today.to_string(),
            source.otherwise.to_string(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

const OPENING: &str = "\
<!-- Made from reports/; see CONTRIBUTING.md. -->
# Where the reports come from

Every answer stands on reports of real runs, below `reports/`. This table says of each which machine and which program \
made it, whether its run was finished, and how much of it still counts. A question counts (`asked today`) as long as its \
file makes the same calls; its verdict is computed again from the recorded attempts, by today's question. \
Where the report itself holds another verdict (`other verdict then`), the page of the scenario says so.

The documents were rewritten once, when all of them became version 1.0: keys were renamed, and nothing that was measured \
changed. Commit f84887eb has them as their programs wrote them, and the reports that later runs repeat. \
The surveys were rewritten once more, when all kinds became one document: each row got its `key`, and what was measured \
stayed. Commit e2098e5c has them before that.

";
