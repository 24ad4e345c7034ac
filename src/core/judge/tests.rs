//! Verdicts from synthetic attempts: a trap that counts 1 GPU and a control that counts 2.

mod co_tenants;
mod shows;
mod validity;

use std::collections::BTreeMap;

use super::*;
use crate::calibration::Calibration;
use crate::event::{Event, Value};
use crate::fact::facts;
use crate::observe::fixture::{CONTEXT, Script, calibration, case, plan};
use crate::plan::fixture::machine;
use crate::report::{Attempt, Calibrated, ScenarioReport};
use crate::scenario::{Check, Class, Expectation, Expected, Matcher, Operand, Range, When};
use crate::verdict::{ExpectationMet, Rate, Reason};
use crate::verdict::{Invalidation, Provenance};
use co_tenants::{memory_is, taking};

/// Returns a trap and a control of two steps each; the effect is that the count is 1.
pub(super) fn pitfall() -> Plan {
    let calls = ["cuInit", "cuDeviceGetCount"];
    let mut plan = plan(2, vec![case("trap", &calls), case("control", &calls)]);
    plan.effect = vec![count_is(1)];
    plan.cases[1].expect = vec![count_is(2)];
    plan.expect = vec![Expectation {
        verdict: Expected::Reproduced,
        when: When::default(),
        because: "the mask is read once".into(),
        evidence: String::new(),
    }];
    plan
}

pub(super) fn count_is(count: i64) -> Check {
    Check {
        at: "cuDeviceGetCount".into(),
        facts: facts!(value: [("count".to_string(), Matcher::equal_to(Operand::Int(count)))].into()),
        ..Check::default()
    }
}

/// Returns an attempt that counts this many GPUs and leaves memory unchanged.
pub(super) fn counting(count: i64) -> Script {
    let mut script = Script::new();
    script.snapshot(None, &[0, 0]);
    script.step(0, 0, &[]);
    script.step(1, 0, &[("count", Value::Int(count))]);
    script.snapshot_after_exit(&[0, 0]);
    script
}

fn attempts(counts: &[i64]) -> Vec<Attempt> {
    counts
        .iter()
        .map(|&count| Attempt::new(0, counting(count).recording()))
        .collect()
}

fn cases(trap: Vec<Attempt>, control: Vec<Attempt>) -> Vec<CaseReport> {
    vec![
        CaseReport::new("trap", trap),
        CaseReport::new("control", control),
    ]
}

fn verdict_with(plan: &Plan, cases: &mut [CaseReport], calibration: &[Calibration]) -> Verdict {
    let machine = machine(2);
    let scene = Scene {
        calibration,
        gpus: &machine.gpus,
    };
    let facts = Facts::new(&machine, None, plan, Provenance::Measured);
    judge_scenario(plan, cases, &scene, &facts)
}

fn verdict(plan: &Plan, cases: &mut [CaseReport]) -> Verdict {
    verdict_with(plan, cases, &[calibration("GPU-0"), calibration("GPU-1")])
}

fn verdict_of(plan: &Plan, trap: &[i64], control: &[i64]) -> Verdict {
    verdict(plan, &mut cases(attempts(trap), attempts(control)))
}

#[test]
fn all_traps_and_no_control_is_reproduced() {
    let verdict = verdict_of(&pitfall(), &[1; 5], &[2; 5]);
    assert_eq!((verdict.kind, verdict.reason), (Kind::Reproduced, None));
    assert_eq!(verdict.expectation, ExpectationMet::AsExpected);
    assert!(
        verdict.detail.contains("5 of 5 traps and 0 of 5 controls"),
        "{}",
        verdict.detail
    );
    assert!(verdict.detail.contains("0.40 %"), "{}", verdict.detail);
}

#[test]
fn no_trap_is_not_reproduced_and_says_what_that_leaves_open() {
    let verdict = verdict_of(&pitfall(), &[2; 5], &[2; 5]);
    assert_eq!(verdict.kind, Kind::NotReproduced);
    assert!(
        verdict.detail.contains("at most 45 %"),
        "{}",
        verdict.detail
    );
    assert_eq!(verdict.expectation, ExpectationMet::Unexpected);
    assert_eq!(verdict.unexpected.len(), 1);
    assert!(verdict.unexpected[0].contains("the mask is read once"));
}

#[test]
fn a_control_that_shows_the_effect_spoils_it() {
    let verdict = verdict_of(&pitfall(), &[1; 5], &[2, 2, 1, 2, 2]);
    assert_eq!(
        (verdict.kind, verdict.reason),
        (Kind::Inconclusive, Some(Reason::ControlShowsEffect))
    );
    assert_eq!(verdict.expectation, ExpectationMet::NoExpectation);
}

#[test]
fn a_mixture_concludes_nothing_unless_the_question_is_about_a_chance() {
    let mut plan = pitfall();
    let mixed = verdict_of(&plan, &[1, 1, 2, 1, 2], &[2; 5]);
    assert_eq!(
        (mixed.kind, mixed.reason),
        (Kind::Inconclusive, Some(Reason::Intermittent))
    );
    assert!(mixed.detail.contains("3/5"), "{}", mixed.detail);
    plan.nondeterministic = true;
    let rate = verdict_of(&plan, &[1, 1, 2, 1, 2], &[2; 5]);
    assert_eq!(rate.kind, Kind::Reproduced);
    assert!(rate.detail.contains("60 %"), "{}", rate.detail);
    assert_eq!(rate.rate, Some(Rate { shown: 3, of: 5 }));
}

#[test]
fn too_few_attempts_give_the_most_frequent_doubt() {
    let plan = pitfall();
    assert_eq!(
        verdict_of(&plan, &[1; 4], &[2; 5]).reason,
        Some(Reason::TooFewAttempts)
    );
    let mut trap = attempts(&[1; 5]);
    for (attempt, reason) in
        trap.iter_mut()
            .zip([Reason::Unsettled, Reason::SamplerLost, Reason::SamplerLost])
    {
        attempt.recording.incidents = vec![Invalidation {
            reason,
            detail: "so it was".into(),
        }];
    }
    let verdict = verdict(&plan, &mut cases(trap.clone(), attempts(&[2; 5])));
    assert_eq!(verdict.reason, Some(Reason::SamplerLost));
    assert!(
        verdict.detail.contains("2 of 5 attempts count"),
        "{}",
        verdict.detail
    );
    trap[0].recording.incidents.clear();
    trap[1].recording.incidents.clear();
    trap[2].recording.incidents = vec![Invalidation {
        reason: Reason::Protocol,
        detail: "nonsense".into(),
    }];
    assert_eq!(
        super::tests::verdict(&plan, &mut cases(trap, attempts(&[2; 5]))).kind,
        Kind::HarnessError
    );
}

#[test]
fn interrupted_run_needs_the_planned_attempts() {
    let cut_off = |planned: Option<u32>, made: usize, trap: i64| {
        let plan = Plan {
            repeat: made as u32,
            planned,
            ..pitfall()
        };
        verdict_of(&plan, &vec![trap; made], &vec![2; made])
    };
    for (trap, kind) in [(1, Kind::Reproduced), (2, Kind::NotReproduced)] {
        for (planned, made) in [(5, 1), (5, 4), (10, 3), (3, 2), (2, 1)] {
            let verdict = cut_off(Some(planned), made, trap);
            assert_eq!(
                (verdict.kind, verdict.reason),
                (Kind::Inconclusive, Some(Reason::Interrupted))
            );
            assert_eq!(
                verdict.detail,
                format!("{made} of {planned} planned attempts of each case were made")
            );
            assert_eq!(verdict.expectation, ExpectationMet::NoExpectation);
        }
        assert_eq!(cut_off(Some(5), 5, trap).kind, kind);
        // As set by `--quick`, `--repeat` or the file.
        for made in 1..6 {
            assert_eq!(cut_off(None, made, trap).kind, kind);
        }
    }
    // The reason why an attempt does not count is more informative.
    let plan = Plan {
        repeat: 2,
        planned: Some(5),
        ..pitfall()
    };
    let mut trap = attempts(&[1; 2]);
    trap[1].recording.incidents = vec![Invalidation {
        reason: Reason::Unsettled,
        detail: String::new(),
    }];
    assert_eq!(
        verdict(&plan, &mut cases(trap, attempts(&[2; 2]))).reason,
        Some(Reason::Unsettled)
    );
}

#[test]
fn extra_attempts_make_up_for_invalid_ones() {
    let mut trap = attempts(&[1; 6]);
    trap[2].recording.incidents = vec![Invalidation {
        reason: Reason::Unsettled,
        detail: String::new(),
    }];
    let mut cases = cases(trap, attempts(&[2; 5]));
    assert_eq!(verdict(&pitfall(), &mut cases).kind, Kind::Reproduced);
    assert_eq!(cases[0].outcomes[0].count, 5);
    assert_eq!(cases[0].attempts[2].judged.outcome, None);
}

#[test]
fn what_could_not_be_told_is_unobservable() {
    let mut plan = pitfall();
    plan.effect[0].facts.value =
        [("nothing".to_string(), Matcher::equal_to(Operand::Int(1)))].into();
    let verdict = verdict_of(&plan, &[1; 5], &[2; 5]);
    assert_eq!(
        (verdict.kind, verdict.reason),
        (Kind::Inconclusive, Some(Reason::Unobservable))
    );
    plan.effect = vec![Check {
        when: When {
            gpus: Some(Range("> 8".into())),
            ..When::default()
        },
        ..count_is(1)
    }];
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).reason,
        Some(Reason::Unobservable)
    );
}

#[test]
fn memory_is_not_judged_without_a_sound_calibration() {
    let mut plan = Plan {
        used_gpus: 1,
        ..pitfall()
    };
    plan.effect = vec![memory_is(Class::Context)];
    let quiet = || cases(attempts(&[2; 5]), attempts(&[2; 5]));
    let unsound = [
        Calibration {
            sound: false,
            ..calibration("GPU-0")
        },
        calibration("GPU-1"),
    ];
    assert_eq!(verdict(&plan, &mut quiet()).kind, Kind::NotReproduced);
    assert_eq!(
        verdict_with(&plan, &mut quiet(), &unsound).reason,
        Some(Reason::Uncalibrated)
    );
    assert_eq!(
        verdict_with(&plan, &mut quiet(), &[]).reason,
        Some(Reason::Uncalibrated)
    );
    let loud = vec![taking(1, 0, CONTEXT); 5];
    let judged = |calibration: &[Calibration]| {
        verdict_with(
            &plan,
            &mut cases(loud.clone(), attempts(&[2; 5])),
            calibration,
        )
    };
    assert_eq!(judged(&[calibration("GPU-0")]).kind, Kind::Reproduced);
    assert_eq!(judged(&unsound).reason, Some(Reason::Uncalibrated));
    assert_eq!(judged(&[]).reason, Some(Reason::Uncalibrated));
}

#[test]
fn a_peak_that_nobody_looked_for_is_not_absent() {
    let mut plan = pitfall();
    let large = Matcher {
        ge: Some(Operand::Int(1 << 20)),
        ..Matcher::default()
    };
    plan.effect = vec![Check {
        at: "cuInit".into(),
        facts: facts!(peak_bytes: [("gpu0".to_string(), large)].into()),
        ..Check::default()
    }];
    assert_eq!(
        verdict_of(&plan, &[2; 5], &[2; 5]).kind,
        Kind::NotReproduced
    );
    let mut trap = attempts(&[2; 5]);
    trap[3].recording.polling.as_mut().unwrap().truncated = true;
    assert_eq!(
        verdict(&plan, &mut cases(trap, attempts(&[2; 5]))).reason,
        Some(Reason::Unobservable)
    );
}

#[test]
fn without_a_control_the_trap_decides_and_the_detail_says_so() {
    let mut plan = pitfall();
    plan.cases.truncate(1);
    let verdict = verdict(&plan, &mut cases(attempts(&[1; 5]), vec![])[..1]);
    assert_eq!(verdict.kind, Kind::Reproduced);
    assert!(verdict.detail.contains("no control"), "{}", verdict.detail);
    plan.cases.clear();
    assert_eq!(
        super::tests::verdict(&plan, &mut []).reason,
        Some(Reason::Unobservable)
    );
}

#[test]
fn other_cases_decide_nothing_but_must_be_as_expected() {
    let mut plan = pitfall();
    let mut other = plan.cases[0].clone();
    other.name = "other".into();
    other.expect = vec![count_is(7)];
    plan.cases.push(other);
    let mut all = cases(attempts(&[1; 5]), attempts(&[2; 5]));
    assert_eq!(
        verdict(&plan, &mut all).reason,
        Some(Reason::TooFewAttempts)
    );
    all.push(CaseReport::new("other", attempts(&[7, 7, 1, 7, 1])));
    let verdict = verdict(&plan, &mut all);
    assert_eq!(
        (verdict.kind, verdict.expectation),
        (Kind::Reproduced, ExpectationMet::Unexpected)
    );
    assert_eq!(
        verdict.unexpected,
        ["other: at cuDeviceGetCount: count is 1, expected 7 (2 of 5 attempts)"]
    );
}

#[test]
fn the_first_expectation_for_this_machine_counts() {
    let mut plan = pitfall();
    let newer = When {
        driver: Some(Range(">= 600".into())),
        ..When::default()
    };
    plan.expect.insert(
        0,
        Expectation {
            verdict: Expected::NotReproduced,
            when: newer,
            ..plan.expect[0].clone()
        },
    );
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).expectation,
        ExpectationMet::AsExpected
    );
    plan.expect.truncate(1);
    plan.cases[1].expect.clear();
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).expectation,
        ExpectationMet::NoExpectation
    );
    plan.cases[1].expect = vec![count_is(2)];
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).expectation,
        ExpectationMet::AsExpected
    );
    plan.cases[1].expect = vec![count_is(3)];
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).expectation,
        ExpectationMet::Unexpected
    );
    plan.cases[1].expect = vec![Check {
        at: "cuInit".into(),
        facts: facts!(initialised: Some(true)),
        ..Check::default()
    }];
    let unobserved = verdict_of(&plan, &[1; 5], &[2; 5]);
    assert_eq!(unobserved.expectation, ExpectationMet::Unexpected);
    assert!(
        unobserved.unexpected[0].contains("could not be observed"),
        "{:?}",
        unobserved.unexpected
    );
}

#[test]
fn outcomes_are_counted_most_frequent_first() {
    let mut cases = cases(attempts(&[2, 1, 1, 3, 1]), attempts(&[2; 5]));
    verdict(&pitfall(), &mut cases);
    let counts: Vec<u32> = cases[0]
        .outcomes
        .iter()
        .map(|outcome| outcome.count)
        .collect();
    assert_eq!(counts, [3, 1, 1]);
    let places: Vec<_> = cases[0]
        .attempts
        .iter()
        .map(|attempt| attempt.judged.outcome)
        .collect();
    assert_eq!(places, [Some(1), Some(0), Some(0), Some(2), Some(0)]);
    assert_eq!(
        cases[0].outcomes[1].observation.steps[1].values["count"],
        Value::Int(2)
    );
    assert!(cases[0].outcomes[0].observation.steps[1].elapsed_ns > 0);
}

#[test]
fn judging_again_and_from_json_gives_the_same() {
    // Every pattern of five traps and every single disturbed control.
    for pattern in 0..32u32 {
        let counts: Vec<i64> = (0..5)
            .map(|bit| i64::from(pattern >> bit & 1) + 1)
            .collect();
        let plan = pitfall();
        let mut first = cases(attempts(&counts), attempts(&[2; 5]));
        first[1].attempts[usize::try_from(pattern % 5).unwrap()]
            .recording
            .exit
            .leaked_children = pattern % 3;
        first[0].attempts[0]
            .recording
            .events
            .push(crate::recording::ProcessEvent {
                process: None,
                event: Event::Broken {
                    message: "torn".into(),
                },
            });
        let original = verdict(&plan, &mut first);
        let mut again = first.clone();
        assert_eq!(verdict(&plan, &mut again), original);
        assert_eq!(again, first);
        let json = serde_json::to_string(&(&plan, &first)).unwrap();
        let (plan, mut stored): (Plan, Vec<CaseReport>) = serde_json::from_str(&json).unwrap();
        assert_eq!(verdict(&plan, &mut stored), original);
        assert_eq!(stored, first);
    }
}

#[test]
fn a_report_judged_again_is_the_report() {
    let skipped = fixture::scenario(
        Kind::Skipped,
        Some(Reason::TooFewGpus),
        ExpectationMet::NoExpectation,
        0,
    );
    let plan = pitfall();
    let mut ran = ScenarioReport {
        plan: Some(plan.clone()),
        ..skipped.clone()
    };
    ran.cases = cases(attempts(&[1; 5]), attempts(&[2, 2, 2, 2, 3]));
    ran.verdict = verdict(&plan, &mut ran.cases);
    let mut never_ran = ScenarioReport {
        plan: Some(plan),
        ..skipped.clone()
    };
    never_ran.verdict.reason = Some(Reason::MissingSymbol);
    let mut broke_off = ScenarioReport {
        plan: Some(pitfall()),
        ..skipped.clone()
    };
    broke_off.cases = cases(attempts(&[1; 3]), attempts(&[2; 2]));
    broke_off.verdict.kind = Kind::HarnessError;
    broke_off.verdict.reason = Some(Reason::System);
    let mut report = fixture::report(vec![skipped, ran, never_ran, broke_off], true);
    report.machine = machine(2);
    report.run.calibration = [calibration("GPU-0"), calibration("GPU-1")]
        .map(|figures| Calibrated {
            figures,
            attempts: Vec::new(),
        })
        .into();
    let stored = serde_json::to_string(&report).unwrap();
    rejudge(&mut report);
    assert_eq!(serde_json::to_string(&report).unwrap(), stored);
    let scenarios = serde_json::from_str::<serde_json::Value>(&stored).unwrap()["scenarios"].take();
    let mut read = Report {
        scenarios: serde_json::from_value(scenarios).unwrap(),
        ..report.clone()
    };
    rejudge(&mut read);
    assert_eq!(read, report);
    // Verdicts are derived from attempts, so an overwritten verdict is restored.
    read.scenarios[1].verdict.kind = Kind::NotReproduced;
    rejudge(&mut read);
    assert_eq!(read, report);
    (
        read.scenarios[1].verdict.kind,
        read.scenarios[1].verdict.reason,
    ) = (Kind::Skipped, Some(Reason::NoGpu));
    rejudge(&mut read);
    assert_eq!(read, report, "attempts were made");
    read.scenarios[3].verdict.kind = Kind::Reproduced;
    rejudge(&mut read);
    assert_eq!(
        read.scenarios[3].verdict.reason,
        Some(Reason::TooFewAttempts)
    );
}

#[test]
fn one_changed_status_in_one_attempt_changes_the_verdict_or_the_expectation() {
    let mut plan = pitfall();
    let success = |at: &str| Check {
        at: at.into(),
        facts: facts!(status: vec!["CUDA_SUCCESS".into()]),
        ..Check::default()
    };
    plan.effect.push(success("cuDeviceGetCount"));
    plan.cases[0].expect = vec![success("cuInit")];
    plan.cases[1].expect = vec![success("cuInit"), success("cuDeviceGetCount")];
    let whole = cases(attempts(&[1; 5]), attempts(&[2; 5]));
    let original = verdict(&plan, &mut whole.clone());
    assert_eq!(original.expectation, ExpectationMet::AsExpected);
    for case in 0..2 {
        for attempt in 0..5 {
            for code in [1, 3, 100, 999, 60000] {
                for step in 0..2 {
                    let mut changed = whole.clone();
                    for said in &mut changed[case].attempts[attempt].recording.events {
                        if let Event::End {
                            step: of, status, ..
                        } = &mut said.event
                            && *of == step
                        {
                            *status = Some(crate::event::Status::named(
                                cuda_pitfalls_calls::CallLibrary::Driver,
                                code,
                            ));
                        }
                    }
                    let found = verdict(&plan, &mut changed);
                    let same =
                        (found.kind, found.expectation) == (original.kind, original.expectation);
                    assert!(
                        !same,
                        "case {case} attempt {attempt} step {step} code {code}: {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn parameters_choose_among_expectations() {
    let mut plan = pitfall();
    plan.parameters = BTreeMap::from([("n".to_string(), crate::scenario::Scalar::Int(1))]);
    plan.expect[0].when.parameters =
        BTreeMap::from([("n".to_string(), vec![crate::scenario::Scalar::Int(2)])]);
    plan.cases[1].expect.clear();
    assert_eq!(
        verdict_of(&plan, &[1; 5], &[2; 5]).expectation,
        ExpectationMet::NoExpectation
    );
}
