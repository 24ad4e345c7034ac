//! What each attempt showed, which attempts count, and how often each outcome was seen.

use crate::observe::{Observation, Scene, observe};
use crate::plan::{CasePlan, Plan};
use crate::report::{Attempt, CaseReport, Doubt, Outcome};

use super::doubts;

/// One case as the judge sees it.
pub(super) struct Seen<'a> {
    /// What was planned.
    pub(super) case: &'a CasePlan,
    /// What the attempts that count showed.
    pub(super) valid: Vec<Shown>,
    /// Why the others do not count, attempt by attempt.
    pub(super) invalid: Vec<Vec<Doubt>>,
}

/// One attempt that counts.
pub(super) struct Shown {
    /// What it showed.
    pub(super) observation: Observation,
    /// Whether memory was read while calls were under way, so that a peak would have been seen.
    pub(super) peaks_seen: bool,
}

/// Computes doubts, outcomes and their places anew, for every case of the plan and in its order.
/// A case that was never begun has no attempts.
pub(super) fn recompute<'a>(plan: &'a Plan, cases: &mut [CaseReport], scene: &Scene) -> Vec<Seen<'a>> {
    let mut all = Vec::new();
    for case in &plan.cases {
        let mut seen = Seen { case, valid: Vec::new(), invalid: Vec::new() };
        for report in cases.iter_mut().filter(|report| report.name == case.name) {
            report.outcomes.clear();
            for attempt in &mut report.attempts {
                attempt.outcome = None;
                attempt.invalid = doubts(plan, case, attempt, scene);
            }
            count(plan, &mut seen, report, scene);
        }
        all.push(seen);
    }
    all
}

fn count(plan: &Plan, seen: &mut Seen, report: &mut CaseReport, scene: &Scene) {
    let mut groups: Vec<Group> = Vec::new();
    for (place, attempt) in report.attempts.iter().enumerate() {
        if !attempt.invalid.is_empty() {
            seen.invalid.push(attempt.invalid.clone());
            continue;
        }
        let observation = observe(plan, seen.case, attempt, scene);
        let key = observation.outcome();
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.attempts.push(place),
            None => groups.push(Group { key, first: observation.clone(), attempts: vec![place] }),
        }
        seen.valid.push(Shown { observation, peaks_seen: peaks_seen(attempt) });
    }
    // A stable sort: of outcomes seen equally often, the one seen first stays first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.attempts.len()));
    for (number, group) in groups.into_iter().enumerate() {
        for (_, attempt) in report.attempts.iter_mut().enumerate().filter(|(place, _)| group.attempts.contains(place)) {
            attempt.outcome = Some(number);
        }
        let count = u32::try_from(group.attempts.len()).unwrap_or(u32::MAX);
        report.outcomes.push(Outcome { count, observation: group.first });
    }
}

/// Attempts that showed the same.
struct Group {
    key: Observation,
    first: Observation,
    attempts: Vec<usize>,
}

fn peaks_seen(attempt: &Attempt) -> bool {
    attempt.free_run.as_ref().is_some_and(|run| !run.truncated)
}
