//! The reports with which claims are compared, and finding answers in them.

use cuda_pitfalls_core::judge;
use cuda_pitfalls_core::machine::Interpreter;
use cuda_pitfalls_core::report::{Report, ScenarioReport};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::scenario::python::with_needed;
use cuda_pitfalls_core::verdict::Provenance;

/// Reports to use together: several measured ones, or any single one.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    sources: Vec<NamedReport>,
}

/// A report and its name.
#[derive(Clone, Debug)]
pub struct NamedReport {
    /// The name of its folder, or the path on the command line.
    pub name: String,
    /// The report.
    pub report: Report,
}

/// Where an answer or a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceSource {
    /// The report's name.
    pub report: String,
    /// The GPUs and the driver: `2× NVIDIA H200, driver 580.159.04`.
    pub machine: String,
    /// The version of libcudart; `None` if it is unknown, and for Python lines.
    pub libcudart: Option<String>,
    /// The interpreter, with the packages that the lines need; `None` for C calls.
    pub python: Option<Interpreter>,
}

impl Evidence {
    /// The reports, with verdicts that are computed again from their attempts, as today's files ask. A report's own
    /// claim to an answer is not evidence.
    pub fn new(mut sources: Vec<NamedReport>, scenarios: &[Scenario]) -> Evidence {
        for source in &mut sources {
            judge::plan_as_today(&mut source.report, scenarios);
            judge::rejudge(&mut source.report);
        }
        Evidence { sources }
    }

    /// Reports made for tests, with verdicts but no attempts.
    pub(super) fn unjudged(sources: Vec<NamedReport>) -> Evidence {
        Evidence { sources }
    }

    /// The reports.
    pub fn sources(&self) -> &[NamedReport] {
        &self.sources
    }

    /// Whether a simulated machine answered in any report. Then nothing counts as measured.
    pub fn is_simulated(&self) -> bool {
        self.sources.iter().any(|source| source.report.provenance == Provenance::Simulated)
    }

    /// The results of one instance in every report, whatever the verdict.
    pub(super) fn of<'e>(&'e self, instance: &'e str) -> impl Iterator<Item = (EvidenceSource, &'e ScenarioReport)> {
        let parts = self
            .sources
            .iter()
            .flat_map(|source| source.report.scenarios.iter().map(move |scenario| (source, scenario)));
        let own = parts.filter(move |(_, scenario)| scenario.name == instance);
        own.map(|(source, scenario)| (EvidenceSource::of(source, scenario), scenario))
    }
}

impl EvidenceSource {
    fn of(source: &NamedReport, scenario: &ScenarioReport) -> EvidenceSource {
        EvidenceSource {
            report: source.name.clone(),
            machine: source.report.machine.summary(),
            libcudart: scenario.libcudart.as_ref().and_then(|runtime| runtime.version.clone()),
            python: interpreter(&source.report, scenario),
        }
    }
}

/// The interpreter of a scenario's lines; `None` for C calls.
fn interpreter(report: &Report, scenario: &ScenarioReport) -> Option<Interpreter> {
    let cases = || scenario.plan.iter().flat_map(|plan| &plan.cases).filter_map(|case| case.python.as_ref());
    let python = report.machine.python.as_ref().filter(|_| cases().next().is_some())?;
    Some(with_needed(cases().flat_map(|python| &python.needs), python))
}
