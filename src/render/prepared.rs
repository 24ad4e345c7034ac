//! A report in the state that every format is generated from.

use std::collections::HashMap;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{
    CompactReport, CompactScenario, ExitCode, Report, ReportView, ScenarioReport, StoredReport,
};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::verdict::ChangedVerdict;
use cuda_pitfalls_core::{catalogue, judge, plan};

/// A report with today's verdicts, and with the texts of questions and workarounds that are shown.
pub enum Prepared<'r> {
    /// A report that this program makes now: its texts and verdicts are already current.
    Fresh(&'r Report),
    /// A report that another version of the program may have judged, and the verdicts that it was stored with.
    Stored(StoredReport, Vec<ChangedVerdict>),
}

impl<'r> Prepared<'r> {
    /// Returns a stored report, judged again by its recordings. A compact report has no recordings, and keeps its
    /// verdicts.
    pub fn stored(mut report: StoredReport) -> Prepared<'r> {
        let changed = match &mut report {
            StoredReport::Whole(whole) => judge::rejudge(whole),
            StoredReport::Compact(_) => Vec::new(),
        };
        Prepared::from_judged(report, changed)
    }

    /// Returns a stored report that was already judged again.
    pub fn from_judged(report: StoredReport, changed: Vec<ChangedVerdict>) -> Prepared<'r> {
        let mut report = with_words(report);
        if let StoredReport::Whole(whole) = &mut report
            && whole.run.exit.is_some()
        {
            let exit = Exit::from_report(&whole.view());
            whole.run.exit = Some(ExitCode {
                code: exit.code(),
                name: exit.name().to_owned(),
            });
        }
        Prepared::Stored(report, changed)
    }

    /// Returns the view that every format reads.
    pub fn view(&self) -> ReportView<'_> {
        match self {
            Prepared::Fresh(report) => report.view(),
            Prepared::Stored(report, changed) => ReportView {
                changed,
                ..report.view()
            },
        }
    }

    /// Returns the compact report.
    pub(super) fn to_compact(&self) -> CompactReport {
        match self {
            Prepared::Fresh(report) => CompactReport::new(report, has_words),
            Prepared::Stored(StoredReport::Whole(report), _) => {
                CompactReport::new(report, has_words)
            }
            Prepared::Stored(StoredReport::Compact(report), _) => (**report).clone(),
        }
    }
}

/// Returns a stored report with the texts of its questions, which a compact report lacks.
pub fn with_words(mut report: StoredReport) -> StoredReport {
    if let StoredReport::Compact(compact) = &mut report
        && compact.scenarios.iter().any(|one| one.question.is_empty())
    {
        fill_words(
            compact,
            &catalogue::select_scenarios(&[]).unwrap_or_default(),
        );
    }
    report
}

/// Returns `true` if the program has the texts of a question, so that a compact report can omit them.
pub fn has_words(one: &ScenarioReport) -> bool {
    catalogue::is_built_in(&one.scenario, &one.sha256)
}

/// Returns `true` if today's file plans the calls that were measured, or the report does not contain them.
fn is_asked_today(one: &CompactScenario, scenario: &Scenario, machine: &Machine) -> bool {
    let plan = plan::again(scenario, &one.name, machine, one.libcudart.as_ref(), None);
    one.asked.is_none() || plan.is_some_and(|plan| one.asked == Some(plan.asked()))
}

/// Adds the program's texts to a compact report. A question that today's file does not contain, or that has changed,
/// gets only its name: today's texts next to the old answer could contradict it.
fn fill_words(compact: &mut CompactReport, scenarios: &[Scenario]) {
    let known: HashMap<&str, &Scenario> = scenarios
        .iter()
        .map(|scenario| (scenario.name.as_str(), scenario))
        .collect();
    for one in compact
        .scenarios
        .iter_mut()
        .filter(|one| one.question.is_empty())
    {
        match known
            .get(one.scenario())
            .filter(|scenario| is_asked_today(one, scenario, &compact.machine))
        {
            Some(scenario) => {
                one.question.clone_from(&scenario.question);
                one.workaround
                    .get_or_insert_with(|| scenario.workaround.clone());
            }
            None => one.question.clone_from(&one.name),
        }
    }
}
