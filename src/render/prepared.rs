//! A report in the one state from which every form is made.

use std::collections::HashMap;

use cuda_pitfalls_answers::exit::Exit;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{
    CompactReport, CompactScenario, ExitCode, Report, ReportView, ScenarioReport, StoredReport,
};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::verdict::ChangedVerdict;
use cuda_pitfalls_core::{catalogue, judge, plan};

/// A report whose questions and workarounds have the words in which they are shown, with today's verdicts.
pub enum Prepared<'r> {
    /// One that this program makes now: its words and its verdicts are today's already.
    Fresh(&'r Report),
    /// One that another version of the program may have judged, and the verdicts that it was stored with.
    Stored(StoredReport, Vec<ChangedVerdict>),
}

impl<'r> Prepared<'r> {
    /// A stored report, judged again by its recordings. A compact report has none, and keeps its verdicts.
    pub fn stored(mut report: StoredReport) -> Prepared<'r> {
        let changed = match &mut report {
            StoredReport::Whole(whole) => judge::rejudge(whole),
            StoredReport::Compact(_) => Vec::new(),
        };
        Prepared::from_judged(report, changed)
    }

    /// A stored report that was judged again already.
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

    /// What every form reads.
    pub fn view(&self) -> ReportView<'_> {
        match self {
            Prepared::Fresh(report) => report.view(),
            Prepared::Stored(report, changed) => ReportView {
                changed,
                ..report.view()
            },
        }
    }

    /// The compact report.
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

/// A stored report with the words for its questions, which a compact report lacks.
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

/// Whether the program has the words of a question: a compact report leaves them out then.
pub fn has_words(one: &ScenarioReport) -> bool {
    catalogue::is_built_in(&one.scenario, &one.sha256)
}

/// Whether today's file asks what was asked, or nothing was asked.
fn is_asked_today(one: &CompactScenario, scenario: &Scenario, machine: &Machine) -> bool {
    let plan = plan::again(scenario, &one.name, machine, one.libcudart.as_ref(), None);
    one.asked.is_none() || plan.is_some_and(|plan| one.asked == Some(plan.asked()))
}

/// Gives a compact report's questions the program's words. One that today's file does not ask, or asks otherwise, has
/// its name alone: today's words beside the answer of then could say the opposite.
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
