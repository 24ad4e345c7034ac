//! Derives a verdict from observations and expectations. The module is pure, so that a report can be judged again at
//! any time.
//!
//! It answers three separate questions, in this order: whether an attempt counts ([`invalidations`]), whether it shows
//! the effect ([`shows`]), and which verdict all attempts give ([`judge_scenario`]). The result of an attempt never
//! decides whether it counts.

mod co_tenant;
mod decide;
mod expectation;
mod facts;
#[doc(hidden)]
pub mod fixture;
mod outcomes;
mod retry;
mod shows;
mod strength;
#[cfg(test)]
mod tests;
mod today;
mod validity;

pub use facts::{Facts, matches};
pub use retry::{additional_attempts, confirming_attempts};
pub use shows::{Failed, Shows, shows};
pub use today::{Today, plan_as_today, planned_today};
pub use validity::invalidations;

use crate::observe::Scene;
use crate::plan::Plan;
use crate::report::{CaseReport, Report};
use crate::verdict::{ChangedVerdict, ExpectationMet, Kind, Reason, Verdict};

/// Returns the verdict on one scenario, from its attempts.
///
/// Recomputes the reasons why attempts do not count, the outcomes, and the outcome of each attempt, and writes them
/// into `cases`. Recordings are not changed.
pub fn judge_scenario(
    plan: &Plan,
    cases: &mut [CaseReport],
    scene: &Scene,
    facts: &Facts,
) -> Verdict {
    let seen = outcomes::recompute_outcomes(plan, cases, scene);
    let decision = decide::decide_verdict(plan, &seen, facts);
    let comparison = expectation::compare_verdict(plan, &seen, decision.kind, facts);
    if let Some(words) = comparison.disagreement {
        return Verdict {
            reason: Some(Reason::Contaminated),
            detail: format!("attempts disagree, which another process may have caused: {words}"),
            unobservable: comparison.unobservable,
            provenance: facts.provenance,
            ..Verdict::default()
        };
    }
    Verdict {
        kind: decision.kind,
        reason: decision.reason,
        detail: decision.detail,
        expectation: comparison.met,
        unexpected: comparison.unexpected,
        unobservable: comparison.unobservable,
        rate: decision.rate,
        provenance: facts.provenance,
    }
}

/// Rejects a verdict that no data supports.
fn reject_unsupported(verdict: &mut Verdict) {
    if verdict.kind.is_conclusive() {
        verdict.kind = Kind::HarnessError;
        verdict.reason = Some(Reason::Protocol);
        verdict.detail = "the report has an answer but does not record what was run".to_string();
        verdict.expectation = ExpectationMet::NoExpectation;
        verdict.unexpected.clear();
    }
}

/// Judges every scenario of a report again, and returns the stored verdicts that differ. Scenarios that never ran, or
/// that broke off, keep their verdict, because nothing else in the report has the reason.
pub fn rejudge(report: &mut Report) -> Vec<ChangedVerdict> {
    let before: Vec<Verdict> = report
        .scenarios
        .iter()
        .map(|scenario| scenario.verdict.clone())
        .collect();
    judge_again(report);
    let both = before.into_iter().zip(&report.scenarios);
    let changed = both.filter(|(stored, today)| {
        (stored.kind, stored.expectation) != (today.verdict.kind, today.verdict.expectation)
    });
    changed
        .map(|(stored, today)| ChangedVerdict {
            scenario: today.name.clone(),
            stored,
        })
        .collect()
}

fn judge_again(report: &mut Report) {
    let Report {
        provenance,
        run,
        machine,
        scenarios,
        ..
    } = report;
    let figures = run.calibrations();
    let scene = Scene {
        calibration: &figures,
        gpus: &machine.gpus,
    };
    for scenario in scenarios {
        let Some(plan) = &scenario.plan else {
            reject_unsupported(&mut scenario.verdict);
            continue;
        };
        if broke_off(plan, &scenario.verdict, &scenario.cases) {
            continue;
        }
        let facts = Facts::new(machine, scenario.libcudart.as_ref(), plan, *provenance);
        scenario.verdict = judge_scenario(plan, &mut scenario.cases, &scene, &facts);
    }
}

/// Returns `true` if attempts are missing, for a reason that was recorded as the verdict. A recorded verdict that
/// claims an answer is never trusted.
fn broke_off(plan: &Plan, verdict: &Verdict, cases: &[CaseReport]) -> bool {
    let repeat = usize::try_from(plan.repeat).unwrap_or(usize::MAX);
    !verdict.kind.is_conclusive()
        && plan
            .cases
            .iter()
            .any(|case| retry::attempts_of(cases, &case.name).len() < repeat)
}
