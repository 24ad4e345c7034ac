//! The observation of each attempt, the attempts that count, and the number of times that each outcome was observed.

use std::collections::{BTreeMap, BTreeSet};

use crate::observe::{Hidden, Observation, Scene, observe_attempt};
use crate::plan::{CasePlan, Plan};
use crate::report::{Attempt, CaseReport, Outcome};
use crate::scenario::Class;
use crate::verdict::Invalidation;

use super::validity::invalidations;

pub(super) struct JudgedCase<'a> {
    pub(super) case: &'a CasePlan,
    pub(super) valid: Vec<ValidAttempt>,
    /// The reasons why each other attempt does not count.
    pub(super) invalid: Vec<Vec<Invalidation>>,
}

pub(super) struct ValidAttempt {
    pub(super) observation: Observation,
    /// `true` if memory was read while calls were in progress, so that a peak would have been seen.
    pub(super) peaks_seen: bool,
}

/// Computes, for every case of the plan in its order, why attempts do not count, the outcomes, and the outcome of
/// each attempt. A case that never began has no attempts.
pub(super) fn recompute_outcomes<'a>(
    plan: &'a Plan,
    cases: &mut [CaseReport],
    scene: &Scene,
) -> Vec<JudgedCase<'a>> {
    let mut all = Vec::new();
    for case in &plan.cases {
        let mut seen = JudgedCase {
            case,
            valid: Vec::new(),
            invalid: Vec::new(),
        };
        for report in cases.iter_mut().filter(|report| report.name == case.name) {
            report.outcomes.clear();
            for attempt in &mut report.attempts {
                attempt.judged.outcome = None;
                attempt.judged.invalid = invalidations(plan, case, &attempt.recording, scene);
            }
            count(plan, &mut seen, report, scene);
        }
        all.push(seen);
    }
    all
}

fn count(plan: &Plan, seen: &mut JudgedCase, report: &mut CaseReport, scene: &Scene) {
    let mut groups: Vec<SameOutcome> = Vec::new();
    let mut observed: Vec<(usize, Observation)> = Vec::new();
    for (place, attempt) in report.attempts.iter().enumerate() {
        if attempt.judged.invalid.is_empty() {
            observed.push((
                place,
                observe_attempt(plan, seen.case, &attempt.recording, scene),
            ));
        } else {
            seen.invalid.push(attempt.judged.invalid.clone());
        }
    }
    mark_wavering(&mut observed);
    for (place, observation) in observed {
        let Some(attempt) = report.attempts.get(place) else {
            continue;
        };
        let key = observation.outcome();
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.attempts.push(place),
            None => groups.push(SameOutcome {
                key,
                first: observation.clone(),
                attempts: vec![place],
            }),
        }
        seen.valid.push(ValidAttempt {
            observation,
            peaks_seen: peaks_seen(attempt),
        });
    }
    // A stable sort: of outcomes seen equally often, the one seen first stays first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.attempts.len()));
    for (number, group) in groups.into_iter().enumerate() {
        for (_, attempt) in report
            .attempts
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| group.attempts.contains(place))
        {
            attempt.judged.outcome = Some(number);
        }
        let count = u32::try_from(group.attempts.len()).unwrap_or(u32::MAX);
        report.outcomes.push(Outcome::new(count, group.first));
    }
}

/// Marks the GPUs on which attempts of one case differ at a step by at most a driver-initialization footprint. In some
/// of the attempts, a co-tenant that is in no list may have allocated or freed the footprint.
fn mark_wavering(observed: &mut [(usize, Observation)]) {
    let mut classes: BTreeMap<(String, String), BTreeSet<Class>> = BTreeMap::new();
    for step in observed
        .iter()
        .flat_map(|(_, observation)| &observation.steps)
    {
        for (gpu, memory) in &step.memory {
            let footprint = memory.class.filter(|class| *class <= Class::Init);
            classes
                .entry((gpu.clone(), step.label.clone()))
                .or_default()
                .extend(footprint);
        }
    }
    let wavering: BTreeSet<String> = classes
        .into_iter()
        .filter(|(_, seen)| seen.len() > 1)
        .map(|((gpu, _), _)| gpu)
        .collect();
    for (_, observation) in observed {
        for (gpu, memory) in observation
            .steps
            .iter_mut()
            .flat_map(|step| &mut step.memory)
        {
            if wavering.contains(gpu) && memory.hidden != Some(Hidden::Uncalibrated) {
                memory.hidden = Some(Hidden::Wavering);
            }
        }
    }
}

struct SameOutcome {
    key: Observation,
    first: Observation,
    attempts: Vec<usize>,
}

fn peaks_seen(attempt: &Attempt) -> bool {
    attempt
        .recording
        .polling
        .as_ref()
        .is_some_and(|run| !run.truncated)
}
