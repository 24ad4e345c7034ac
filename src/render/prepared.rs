//! A report in the one state from which every form is made.

use std::collections::HashMap;

use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::{CompactReport, CompactScenario, Report, ReportView, ScenarioReport, StoredReport};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::{catalogue, judge, plan};

/// A report whose questions and workarounds have the words in which they are shown.
pub enum Prepared<'r> {
    /// One that this program makes now: its words are today's already.
    Fresh(&'r Report),
    /// One that another version of the program may have judged.
    Stored(StoredReport),
}

impl<'r> Prepared<'r> {
    /// A stored report, [`worded`].
    pub fn stored(report: StoredReport) -> Prepared<'r> {
        Prepared::Stored(worded(report))
    }

    /// What every form reads.
    pub fn view(&self) -> ReportView<'_> {
        match self {
            Prepared::Fresh(report) => report.view(),
            Prepared::Stored(report) => report.view(),
        }
    }

    /// The compact report, with the verdicts of this program where they can be judged anew.
    pub(super) fn compact(&self) -> CompactReport {
        match self {
            Prepared::Fresh(report) => CompactReport::new(report, has_words),
            Prepared::Stored(StoredReport::Whole(report)) => {
                let mut report = report.clone();
                judge::rejudge(&mut report);
                CompactReport::new(&report, has_words)
            }
            Prepared::Stored(StoredReport::Compact(report)) => (**report).clone(),
        }
    }
}

/// A stored report with the words for its questions, which a compact report lacks. Its verdicts stay those it holds.
pub fn worded(mut report: StoredReport) -> StoredReport {
    if let StoredReport::Compact(compact) = &mut report
        && compact.scenarios.iter().any(|one| one.question.is_empty())
    {
        fill_words(compact, &catalogue::select(&[]).unwrap_or_default());
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
    let known: HashMap<&str, &Scenario> = scenarios.iter().map(|scenario| (scenario.name.as_str(), scenario)).collect();
    for one in compact.scenarios.iter_mut().filter(|one| one.question.is_empty()) {
        match known.get(one.scenario()).filter(|scenario| is_asked_today(one, scenario, &compact.machine)) {
            Some(scenario) => {
                one.question.clone_from(&scenario.question);
                one.workaround.get_or_insert_with(|| scenario.workaround.clone());
            }
            None => one.question.clone_from(&one.name),
        }
    }
}
