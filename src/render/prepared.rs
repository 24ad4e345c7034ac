//! A report in the one state from which every form is made.

use std::borrow::Cow;
use std::collections::HashMap;

use super::npd::PluginStatus;
use cuda_pitfalls_core::report::{Report, ScenarioReport};
use cuda_pitfalls_core::scenario::Scenario;
use cuda_pitfalls_core::{catalogue, judge};

/// A report whose questions and workarounds have the words in which they are shown.
pub struct Prepared<'r> {
    report: Cow<'r, Report>,
    /// Whether another version of the program may have judged it.
    is_stored: bool,
}

impl<'r> Prepared<'r> {
    /// A report that this program makes now: its words are today's already.
    pub fn fresh(report: &'r Report) -> Prepared<'r> {
        Prepared { report: Cow::Borrowed(report), is_stored: false }
    }

    /// A stored report. Its verdicts stay those that it holds.
    ///
    /// Reports from before questions were worded so that `reproduced` is a yes get today's words, where today's file
    /// makes the same calls. A compact report has no words for what comes with the program, and gets them here.
    pub fn stored(mut report: Report) -> Prepared<'r> {
        let has_no_words = |one: &ScenarioReport| one.question.is_empty() || one.remedy.is_none();
        if report.scenarios.iter().any(has_no_words) {
            let scenarios = catalogue::select(&[]).unwrap_or_default();
            fill_words(&mut report, &scenarios);
            judge::ask_as_today(&mut report, &scenarios);
        }
        Prepared { report: Cow::Owned(report), is_stored: true }
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The report, to be changed.
    pub fn into_report(self) -> Report {
        self.report.into_owned()
    }

    /// How a plugin of node-problem-detector ends with it.
    pub fn plugin_status(&self) -> PluginStatus {
        PluginStatus::of(self.report())
    }

    /// The report with the verdicts of this program, for a form without attempts: it can never be judged again.
    pub(super) fn judged_today(&self) -> Report {
        let mut report = self.report().clone();
        if self.is_stored {
            judge::rejudge(&mut report);
        }
        report
    }
}

/// Whether the program has the words of a question: a compact report leaves them out then.
pub fn has_words(one: &ScenarioReport) -> bool {
    catalogue::is_built_in(&one.scenario, &one.sha256)
}

/// Gives the questions of a compact report the words that the program has for them. One that it does not know any more
/// is shown by its name.
fn fill_words(report: &mut Report, scenarios: &[Scenario]) {
    if !report.run.compact {
        return;
    }
    let known: HashMap<&str, &Scenario> = scenarios.iter().map(|scenario| (scenario.name.as_str(), scenario)).collect();
    for one in report.scenarios.iter_mut().filter(|one| one.question.is_empty()) {
        match known.get(one.scenario.as_str()) {
            Some(scenario) => {
                one.question.clone_from(&scenario.question);
                one.remedy.get_or_insert_with(|| scenario.remedy.clone());
            }
            None => one.question.clone_from(&one.name),
        }
    }
}
