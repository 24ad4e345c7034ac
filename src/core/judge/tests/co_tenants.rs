//! Verdicts with other processes on the GPUs: the same as on an idle machine, or inconclusive, and never a surprise.

use super::{attempts, cases, count_is, pitfall, verdict_with};
use crate::calibration::Calibration;
use crate::event::{Event, Value};
use crate::fact::facts;
use crate::judge::{confirming_attempts, invalidations};
use crate::observe::Scene;
use crate::observe::fixture::{CONTEXT, Script, calibration, case, plan};
use crate::plan::fixture::machine;
use crate::plan::{CasePlan, Plan};
use crate::report::Attempt;
use crate::sample::{MemoryChange, Polling};
use crate::scenario::{Check, Class};
use crate::verdict::{ExpectationMet, Kind, Reason};

const FOOTPRINT: u64 = 3_407_872;

fn idle() -> [Calibration; 2] {
    ["GPU-0", "GPU-1"].map(calibration)
}

/// Returns the calibrations next to a co-tenant that holds a context: `cuInit` adds nothing.
fn beside() -> [Calibration; 2] {
    idle().map(|alone| Calibration {
        baseline_bytes: Some(CONTEXT),
        init_bytes: Some(0),
        ..alone
    })
}

pub(super) fn memory_is(class: Class) -> Check {
    Check {
        at: "cuInit".into(),
        facts: facts!(memory: [("gpu0".to_string(), vec![class])].into()),
        ..Check::default()
    }
}

/// Returns an attempt that counts, on a GPU that holds `before`, and that allocates `taken` at its first step.
pub(super) fn taking(count: i64, before: u64, taken: u64) -> Attempt {
    let mut script = Script::new();
    script.snapshot(None, &[before, before]);
    script.step(0, 0, &[]);
    if taken > 0 {
        script.snapshot(Some(0), &[before + taken, before]);
    }
    script.step(1, 0, &[("count", Value::Int(count))]);
    script.snapshot_after_exit(&[before, before]);
    Attempt::new(0, script.recording())
}

#[test]
fn a_footprint_that_a_co_tenant_paid_is_no_surprise() {
    let mut plan = pitfall();
    plan.cases[1].expect = vec![count_is(2), memory_is(Class::Init)];
    let judged = |before: u64, taken: u64, calibration: &[Calibration]| {
        let control = vec![taking(2, before, taken); 5];
        verdict_with(
            &plan,
            &mut cases(vec![taking(1, before, taken); 5], control),
            calibration,
        )
    };
    let alone = judged(0, FOOTPRINT, &idle());
    assert_eq!(
        (alone.kind, alone.expectation),
        (Kind::Reproduced, ExpectationMet::AsExpected)
    );
    assert!(alone.unobservable.is_empty());
    let shared = judged(CONTEXT, 0, &beside());
    assert_eq!(
        (shared.kind, shared.expectation),
        (Kind::Reproduced, ExpectationMet::AsExpected)
    );
    assert_eq!(shared.unobservable.len(), 1);
    assert!(
        shared.unobservable[0].contains("(5 of 5 attempts)"),
        "{:?}",
        shared.unobservable
    );
    // On an idle GPU the same memory is a surprise.
    assert_eq!(
        judged(0, 0, &idle()).expectation,
        ExpectationMet::Unexpected
    );
    // A context in place of a footprint is still a context, regardless of other processes.
    assert_eq!(
        judged(CONTEXT, CONTEXT, &beside()).expectation,
        ExpectationMet::Unexpected
    );
}

#[test]
fn footprint_effect_is_undetermined_with_a_co_tenant() {
    let mut plan = pitfall();
    plan.effect = vec![memory_is(Class::Init)];
    let verdict = verdict_with(
        &plan,
        &mut cases(
            vec![taking(1, CONTEXT, 0); 5],
            vec![taking(1, CONTEXT, 0); 5],
        ),
        &beside(),
    );
    assert_eq!(
        (verdict.kind, verdict.reason),
        (Kind::Inconclusive, Some(Reason::Unobservable))
    );
    assert!(
        verdict.detail.contains("co-tenant has paid"),
        "{}",
        verdict.detail
    );
    // Next to a fact that distinguishes trap and control, the footprint is left out, and the verdict mentions that.
    plan.effect = vec![count_is(1), memory_is(Class::Init)];
    plan.cases[1].expect.clear();
    let traps = || vec![taking(1, CONTEXT, 0); 5];
    let verdict = verdict_with(
        &plan,
        &mut cases(traps(), vec![taking(2, CONTEXT, 0); 5]),
        &beside(),
    );
    assert_eq!(verdict.kind, Kind::Reproduced);
    assert!(
        verdict.detail.contains("as far as it could be judged"),
        "{}",
        verdict.detail
    );
    // If that fact is the same in both, only the footprint could have decided.
    let verdict = verdict_with(&plan, &mut cases(traps(), traps()), &beside());
    assert_eq!(verdict.reason, Some(Reason::Unobservable));
    plan.cases.truncate(1);
    let verdict = verdict_with(&plan, &mut cases(traps(), vec![])[..1], &beside());
    assert_eq!(verdict.reason, Some(Reason::Unobservable));
}

#[test]
fn attempts_that_differ_by_a_footprint_are_no_surprise() {
    let mut plan = pitfall();
    plan.cases[1].expect = vec![count_is(2), memory_is(Class::Init)];
    let mut control = vec![taking(2, 0, FOOTPRINT); 5];
    control[3] = taking(2, 0, 0);
    let verdict = verdict_with(
        &plan,
        &mut cases(attempts(&[1; 5]), control.clone()),
        &idle(),
    );
    assert_eq!(
        (verdict.kind, verdict.expectation),
        (Kind::Reproduced, ExpectationMet::AsExpected)
    );
    assert_eq!(verdict.unobservable.len(), 1, "{verdict:?}");
    // By more than a footprint: nothing is concluded from what only some attempts show.
    plan.cases[1].expect = vec![memory_is(Class::Context)];
    control
        .iter_mut()
        .for_each(|attempt| *attempt = taking(2, 0, CONTEXT));
    control[3] = taking(2, 0, 2 * CONTEXT);
    let verdict = verdict_with(&plan, &mut cases(attempts(&[1; 5]), control), &idle());
    assert_eq!(
        (verdict.kind, verdict.reason),
        (Kind::Inconclusive, Some(Reason::Contaminated))
    );
    assert_eq!(verdict.expectation, ExpectationMet::NoExpectation);
    // A fact that every attempt shows is unexpected all the same.
    let verdict = verdict_with(
        &plan,
        &mut cases(attempts(&[1; 5]), vec![taking(2, 0, 2 * CONTEXT); 5]),
        &idle(),
    );
    assert_eq!(verdict.expectation, ExpectationMet::Unexpected);
}

#[test]
fn a_surprise_of_one_attempt_is_looked_at_again() {
    let mut plan = Plan {
        used_gpus: 1,
        ..pitfall()
    };
    let surprise = |plan: &Plan| {
        let count = plan.repeat as usize;
        verdict_with(
            plan,
            &mut cases(attempts(&vec![2; count]), attempts(&vec![2; count])),
            &[calibration("GPU-0")],
        )
    };
    assert_eq!(confirming_attempts(&plan, &surprise(&plan)), 0);
    plan.repeat = 1;
    assert_eq!(confirming_attempts(&plan, &surprise(&plan)), 2);
    let met = verdict_with(
        &plan,
        &mut cases(attempts(&[1]), attempts(&[2])),
        &[calibration("GPU-0")],
    );
    assert_eq!(met.expectation, ExpectationMet::AsExpected);
    assert_eq!(confirming_attempts(&plan, &met), 0);
}

fn is_contaminated(case: &CasePlan, script: &Script, calibration: &[Calibration]) -> bool {
    let (plan, machine) = (plan(2, vec![case.clone()]), machine(2));
    let scene = Scene {
        calibration,
        gpus: &machine.gpus,
    };
    invalidations(&plan, case, &script.recording(), &scene)
        .iter()
        .any(|invalid| invalid.reason == Reason::Contaminated)
}

/// Returns two steps on two GPUs. The worker sees the GPUs in `mask`.
fn two_steps(calls: &[&str], mask: Option<&[&str]>) -> CasePlan {
    let mask = mask.map(|mask| mask.iter().map(|uuid| (*uuid).to_string()).collect());
    CasePlan {
        mask,
        ..case("trap", calls)
    }
}

#[test]
fn impossible_memory_changes_belong_to_co_tenants() {
    // After the second step this much is on each GPU.
    let after = |used: [u64; 2]| {
        let mut script = Script::new();
        script.snapshot(None, &[FOOTPRINT, FOOTPRINT]);
        script.step(0, 0, &[]);
        script.step(1, 0, &[]);
        script.snapshot(Some(1), &used);
        script.snapshot_after_exit(&[FOOTPRINT, FOOTPRINT]);
        script
    };
    let more = 2 * FOOTPRINT;
    let masked = two_steps(&["mark", "cuInit"], Some(&["GPU-0"]));
    assert!(
        !is_contaminated(&masked, &after([more, FOOTPRINT]), &idle()),
        "by the worker's own call"
    );
    assert!(
        is_contaminated(&masked, &after([FOOTPRINT, more]), &idle()),
        "on a GPU that it does not see"
    );
    let all = two_steps(&["mark", "cuInit"], None);
    assert!(
        !is_contaminated(&all, &after([FOOTPRINT, more]), &idle()),
        "it sees both"
    );
    let unmasked = two_steps(&["unsetenv", "cuInit"], Some(&["GPU-0"]));
    assert!(
        !is_contaminated(&unmasked, &after([FOOTPRINT, more]), &idle()),
        "it may have taken off its mask"
    );
    let inert = two_steps(&["cuInit", "setenv"], None);
    assert!(
        is_contaminated(&inert, &after([more, FOOTPRINT]), &idle()),
        "at a step that makes no call"
    );
    let in_python = |calls: &[&str], mask: Option<&[&str]>| CasePlan {
        python: Some(Default::default()),
        ..two_steps(calls, mask)
    };
    let line = in_python(&["mark", "py"], Some(&["GPU-0"]));
    assert!(
        !is_contaminated(&line, &after([FOOTPRINT, more]), &idle()),
        "a line may have taken off the mask"
    );
    let threads = in_python(&["py", "setenv"], None);
    assert!(
        !is_contaminated(&threads, &after([more, FOOTPRINT]), &idle()),
        "a framework may have threads of its own"
    );
    assert!(
        is_contaminated(&all, &after([0, FOOTPRINT]), &idle()),
        "less than before the worker"
    );
    // The second GPU was assigned to another run, so its changes do not matter here.
    let ours = [calibration("GPU-0")];
    assert!(!is_contaminated(&masked, &after([more, 0]), &ours));
}

#[test]
fn memory_that_changes_before_the_first_step_is_somebody_elses() {
    let with = |early: bool| {
        let mut script = Script::new();
        script.snapshot(None, &[0, 0]);
        script.step(0, 0, &[]);
        script.snapshot(Some(0), &[FOOTPRINT, 0]);
        script.snapshot_after_exit(&[0, 0]);
        let began = script.events.iter().find_map(|event| match event {
            Event::Begin { t_ns, .. } => Some(*t_ns),
            _ => None,
        });
        let t_ns = if early {
            began.unwrap() - 1
        } else {
            began.unwrap() + 1
        };
        let changes = vec![MemoryChange {
            t_ns,
            gpu: 0,
            used_bytes: FOOTPRINT,
        }];
        script.polling = Some(Polling {
            changes,
            ..Polling::default()
        });
        script
    };
    let case = two_steps(&["cuInit"], None);
    assert!(is_contaminated(&case, &with(true), &idle()));
    assert!(!is_contaminated(&case, &with(false), &idle()));
}

#[test]
fn a_gpu_that_is_not_as_it_was_calibrated_is_somebody_elses() {
    let case = two_steps(&["cuInit"], None);
    let before = |held: u64, calibration: Calibration| {
        let mut script = Script::new();
        script.snapshot(None, &[held, 0]);
        script.step(0, 0, &[]);
        script.snapshot_after_exit(&[held, 0]);
        is_contaminated(&case, &script, &[calibration])
    };
    let at = |held: u64| Calibration {
        baseline_bytes: Some(held),
        ..calibration("GPU-0")
    };
    assert!(!before(0, at(0)));
    assert!(!before(CONTEXT, at(CONTEXT)));
    assert!(
        before(FOOTPRINT, at(0)),
        "a co-tenant that only called cuInit came"
    );
    assert!(before(0, at(FOOTPRINT)), "it left");
    // A later calibration does not apply to this attempt.
    assert!(!before(
        FOOTPRINT,
        Calibration {
            at_ns: u64::MAX,
            ..at(0)
        }
    ));
    // Older reports do not contain this.
    assert!(!before(FOOTPRINT, calibration("GPU-0")));
}
