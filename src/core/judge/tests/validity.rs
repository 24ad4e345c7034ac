//! Each rule that invalidates an attempt, and the cases that must not trigger it.

use super::{counting, pitfall};
use crate::calibration::Calibration;
use crate::event::Event;
use crate::fact::facts;
use crate::judge::invalidations;
use crate::observe::Scene;
use crate::observe::fixture::{CONTEXT, Script, calibration, case, plan};
use crate::plan::fixture::machine;
use crate::plan::{CasePlan, Plan};
use crate::recording::{ProcessExit, Recording};
use crate::scenario::{Check, ExitCheck};
use crate::verdict::Invalidation;
use crate::verdict::Reason;

fn found(
    plan: &Plan,
    case: &CasePlan,
    recording: &Recording,
    calibration: &[Calibration],
) -> Vec<Invalidation> {
    invalidations(
        plan,
        case,
        recording,
        &Scene {
            calibration,
            gpus: &machine(2).gpus,
        },
    )
}

fn reasons_in(
    plan: &Plan,
    case: &CasePlan,
    script: &Script,
    calibration: &[Calibration],
) -> Vec<Reason> {
    found(plan, case, &script.recording(), calibration)
        .into_iter()
        .map(|invalid| invalid.reason)
        .collect()
}

fn calibrated() -> [Calibration; 2] {
    ["GPU-0", "GPU-1"].map(calibration)
}

fn reasons(script: &Script) -> Vec<Reason> {
    let plan = pitfall();
    reasons_in(&plan, &plan.cases[0], script, &calibrated())
}

fn ending(exit: ProcessExit) -> Script {
    let mut script = counting(1);
    script.exit = exit;
    script
}

fn exits_as(exit: ExitCheck, script: &Script) -> Vec<Reason> {
    let mut plan = pitfall();
    plan.effect = vec![Check {
        facts: facts!(exit: Some(exit)),
        ..Check::default()
    }];
    reasons_in(&plan, &plan.cases[0], script, &calibrated())
}

#[test]
fn a_quiet_attempt_counts() {
    assert_eq!(reasons(&counting(1)), []);
}

#[test]
fn a_call_that_the_simulated_node_does_not_model() {
    let (mut call, mut probe) = (counting(1), counting(1));
    call.step(1, 60000, &[]);
    probe.probe(1, 60000, None, None);
    assert_eq!(
        [reasons(&call), reasons(&probe)],
        [[Reason::NotModelled], [Reason::NotModelled]]
    );
}

#[test]
fn a_hang_is_a_doubt_unless_it_is_the_question() {
    let sent = vec!["SIGTERM".to_string(), "SIGKILL".to_string()];
    let hung = ending(ProcessExit {
        signal: Some("SIGKILL".into()),
        sent: sent.clone(),
        deadline_at: Some(1),
        ..ProcessExit::default()
    });
    assert_eq!(reasons(&hung), [Reason::Hang]);
    assert_eq!(exits_as(ExitCheck::Deadline, &hung), []);
    let killed = ending(ProcessExit {
        signal: Some("SIGKILL".into()),
        sent,
        ..ProcessExit::default()
    });
    assert_eq!(reasons(&killed), [Reason::Signalled]);
    assert_eq!(exits_as(ExitCheck::Deadline, &killed), [Reason::Signalled]);
}

#[test]
fn a_crash_is_a_doubt_unless_it_is_the_question() {
    let crashed = ending(ProcessExit {
        signal: Some("SIGSEGV".into()),
        died_at: Some(1),
        ..ProcessExit::default()
    });
    assert_eq!(reasons(&crashed), [Reason::Crashed]);
    assert_eq!(exits_as(ExitCheck::Signal("SIGSEGV".into()), &crashed), []);
    assert_eq!(exits_as(ExitCheck::Code(1), &crashed), [Reason::Crashed]);
    let by_chance = ExitCheck::OneOf(vec![
        ExitCheck::Code(0),
        ExitCheck::Signal("SIGSEGV".into()),
    ]);
    assert_eq!(exits_as(by_chance, &crashed), []);
    let starved = ending(ProcessExit {
        signal: Some("SIGKILL".into()),
        oom_killed: true,
        ..ProcessExit::default()
    });
    assert_eq!(reasons(&starved), [Reason::OomKilled]);
}

#[test]
fn leaving_early_is_a_doubt_unless_it_is_the_question() {
    let left = ending(ProcessExit {
        code: Some(0),
        ..ProcessExit::default()
    });
    assert_eq!(reasons(&left), [Reason::ExitedEarly]);
    assert_eq!(exits_as(ExitCheck::Code(0), &left), []);
    let case = case("trap", &["cuInit", "_exit"]);
    let mut script = Script::new();
    script.snapshot(None, &[0, 0]);
    script.step(0, 0, &[]);
    script.begin(1);
    script.exit = ProcessExit {
        code: Some(3),
        ..ProcessExit::default()
    };
    assert_eq!(
        reasons_in(&plan(2, vec![case.clone()]), &case, &script, &calibrated()),
        []
    );
}

#[test]
fn early_process_end_does_not_answer_later_step() {
    let mut crashed = ending(ProcessExit {
        signal: Some("SIGSEGV".into()),
        died_at: Some(1),
        ..ProcessExit::default()
    });
    let mut hung = ending(ProcessExit {
        deadline_at: Some(1),
        ..ProcessExit::default()
    });
    let mut left = ending(ProcessExit {
        code: Some(3),
        ..ProcessExit::default()
    });
    // Without the events of step 1, and of any step.
    for kept in [3, 1] {
        crashed.events.truncate(kept);
        hung.events.truncate(kept);
        assert_eq!(
            exits_as(ExitCheck::Signal("SIGSEGV".into()), &crashed),
            [Reason::Crashed]
        );
        assert_eq!(exits_as(ExitCheck::Deadline, &hung), [Reason::Hang]);
    }
    left.events.truncate(1);
    assert_eq!(exits_as(ExitCheck::Code(3), &left), [Reason::ExitedEarly]);
}

#[test]
fn a_worker_that_lost_a_forked_process_did_not_make_its_steps() {
    let case = case("trap", &["fork", "cuInit", "waitpid"]);
    let plan = plan(2, vec![case.clone()]);
    let mut script = Script::new();
    script.snapshot(None, &[0, 0]);
    script.step(0, 0, &[]);
    script.begin(1);
    script.exit = ProcessExit {
        code: Some(0),
        said_bye: true,
        died_at: Some(1),
        ..ProcessExit::default()
    };
    assert_eq!(
        reasons_in(&plan, &case, &script, &calibrated()),
        [Reason::Crashed]
    );
    script.exit.died_at = None;
    assert_eq!(
        reasons_in(&plan, &case, &script, &calibrated()),
        [Reason::ExitedEarly]
    );
}

#[test]
fn a_deadline_between_steps_is_recorded_by_the_supervisor() {
    let plan = pitfall();
    let mut recording = counting(1).recording();
    recording.exit = ProcessExit {
        signal: Some("SIGTERM".into()),
        sent: vec!["SIGTERM".into()],
        ..ProcessExit::default()
    };
    recording.incidents = vec![Invalidation {
        reason: Reason::Hang,
        detail: "it did not leave".into(),
    }];
    let found = found(&plan, &plan.cases[0], &recording, &calibrated());
    let reasons: Vec<Reason> = found.iter().map(|invalid| invalid.reason).collect();
    assert_eq!(reasons, [Reason::Hang, Reason::Signalled]);
}

#[test]
fn what_is_left_behind_or_brought_in() {
    let peace = || counting(1).exit;
    assert_eq!(
        reasons(&ending(ProcessExit {
            leaked_children: 1,
            ..peace()
        })),
        [Reason::LeakedChildren]
    );
    assert_eq!(
        reasons(&ending(ProcessExit {
            unkillable: true,
            ..ProcessExit::default()
        })),
        [Reason::Unkillable]
    );
    let mut script = counting(1);
    if let Event::Ready { injected, .. } = &mut script.events[0] {
        injected.push("/tmp/spy.so".into());
    }
    assert_eq!(reasons(&script), [Reason::Injected]);
}

#[test]
fn an_end_that_nobody_knows_is_the_harnesss_fault() {
    assert_eq!(reasons(&ending(ProcessExit::default())), [Reason::Protocol]);
    let mut script = counting(1);
    script.events.push(Event::Broken {
        message: "prepared twice".into(),
    });
    assert_eq!(reasons(&script), [Reason::Protocol]);
}

#[test]
fn what_the_supervisor_recorded_is_kept() {
    let plan = pitfall();
    let mut recording = counting(1).recording();
    let reason = |reason| Invalidation {
        reason,
        detail: "recorded".into(),
    };
    recording.incidents = vec![reason(Reason::Unsettled), reason(Reason::Interrupted)];
    assert_eq!(
        found(&plan, &plan.cases[0], &recording, &calibrated()),
        recording.incidents
    );
}

/// Without them another process would not be noticed, so the worker's result may be caused by that process.
#[test]
fn an_attempt_without_its_readings_or_its_calibration_does_not_count() {
    let mut unread = counting(1);
    unread.snapshots.remove(0);
    assert_eq!(reasons(&unread), [Reason::SamplerLost]);
    let mut unpolled = counting(1);
    unpolled.polling = None;
    assert_eq!(reasons(&unpolled), [Reason::SamplerLost]);
    let mut of_others = counting(1);
    of_others.snapshots[1].snapshot.gpus.pop();
    assert_eq!(reasons(&of_others), [Reason::SamplerLost]);
    let mut plan = pitfall();
    let calibrations =
        |plan: &Plan, known: &[Calibration]| reasons_in(plan, &plan.cases[0], &counting(1), known);
    for known in [&[][..], &calibrated()[..1], &calibrated()[1..]] {
        assert_eq!(calibrations(&plan, known), [Reason::Uncalibrated]);
    }
    let later = calibrated().map(|known| Calibration {
        at_ns: u64::MAX,
        ..known
    });
    assert_eq!(calibrations(&plan, &later), [Reason::Uncalibrated]);
    let unsound = calibrated().map(|known| Calibration {
        sound: false,
        ..known
    });
    assert_eq!(
        calibrations(&plan, &unsound),
        [],
        "it says what memory cannot show"
    );
    plan.used_gpus = 1;
    assert_eq!(
        calibrations(&plan, &calibrated()[..1]),
        [],
        "the other GPU is another run's"
    );
}

#[test]
fn other_processes_that_come_go_or_allocate_contaminate() {
    let mib = 1 << 20;
    let with = |before: Option<u64>, after: Option<u64>| {
        let mut script = counting(1);
        before
            .into_iter()
            .for_each(|bytes| script.process(0, 1, 77, Some(bytes)));
        after
            .into_iter()
            .for_each(|bytes| script.process(1, 1, 77, Some(bytes)));
        reasons(&script)
    };
    assert_eq!(with(None, Some(mib)), [Reason::Contaminated]);
    assert_eq!(with(Some(mib), None), [Reason::Contaminated]);
    assert_eq!(with(Some(mib), Some(2 * mib)), [Reason::Contaminated]);
    assert_eq!(with(Some(mib), Some(2 * mib - 1)), []);
    assert_eq!(with(Some(mib), Some(mib)), []);
}

#[test]
fn own_processes_and_blind_lists_do_not_contaminate() {
    let mut script = counting(1);
    script.process(1, 0, script.pid, Some(CONTEXT));
    assert_eq!(reasons(&script), []);
    let mut script = counting(1);
    script.process(0, 0, 77, Some(1));
    script.snapshots[1].snapshot.gpus[0].processes = None;
    assert_eq!(reasons(&script), []);
    // In a PID namespace a newcomer may be the worker itself; one that was there before is not.
    let plan = pitfall();
    let namespaced = calibrated().map(|known| Calibration {
        pid_listed: false,
        ..known
    });
    let mut script = counting(1);
    script.process(1, 0, 77, Some(CONTEXT));
    assert_eq!(reasons_in(&plan, &plan.cases[0], &script, &namespaced), []);
    // No context was created, so nothing shows that PIDs differ here.
    let unmade = namespaced.clone().map(|known| Calibration {
        context_bytes: 0,
        sound: false,
        ..known
    });
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &unmade),
        [Reason::Contaminated]
    );
    // Two newcomers are one more than the attempt has processes.
    let mut crowd = script.clone();
    crowd.process(1, 0, 79, Some(CONTEXT));
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &crowd, &namespaced),
        [Reason::Contaminated]
    );
    script.process(0, 1, 78, Some(CONTEXT));
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &namespaced),
        [Reason::Contaminated]
    );
}

#[test]
fn only_the_steps_own_daemon_is_tolerated() {
    let mut plan = pitfall();
    let mut script = counting(1);
    script.process(1, 0, 77, Some(CONTEXT));
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &calibrated()),
        [Reason::Contaminated]
    );
    plan.cases[0].steps[0].call = "mps_start".to_string();
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &calibrated()),
        []
    );
    script.process(1, 0, 78, Some(CONTEXT));
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &calibrated()),
        [Reason::Contaminated]
    );
}

/// Returns an attempt that uses this much after its first step.
fn using(used: u64) -> Script {
    let mut script = counting(1);
    script.snapshots.clear();
    script.snapshot(None, &[0, 0]);
    script.snapshot(Some(0), &[used, 0]);
    script.snapshot_after_exit(&[0, 0]);
    script
}

#[test]
fn contamination_does_not_depend_on_what_the_worker_did() {
    for used in [0, 1, CONTEXT / 2, CONTEXT, 9 * CONTEXT] {
        for foreign in [None, Some(1u64 << 20)] {
            let mut script = using(used);
            script.process(1, 0, script.pid, Some(used));
            foreign
                .into_iter()
                .for_each(|bytes| script.process(1, 1, 77, Some(bytes)));
            assert_eq!(
                reasons(&script).contains(&Reason::Contaminated),
                foreign.is_some()
            );
        }
    }
}

#[test]
fn memory_that_does_not_come_back_is_residue() {
    let after = |bytes: u64| {
        let mut script = counting(1);
        script.snapshots.pop();
        script.snapshot_after_exit(&[0, bytes]);
        reasons(&script)
    };
    assert_eq!(after(2 << 20), []);
    assert_eq!(after((2 << 20) + 1), [Reason::Residue]);
    // A snapshot after the end that equals the last one before it is left out.
    let mut script = counting(1);
    script.snapshots.pop();
    script.snapshot(Some(1), &[CONTEXT, 0]);
    assert_eq!(reasons(&script), [Reason::Residue]);
    // A GPU that was not calibrated belongs to another run, which uses and frees it meanwhile.
    let mut script = counting(1);
    script.snapshots.pop();
    script.snapshot_after_exit(&[0, CONTEXT]);
    let plan = Plan {
        used_gpus: 1,
        ..pitfall()
    };
    assert_eq!(
        reasons_in(&plan, &plan.cases[0], &script, &[calibration("GPU-0")]),
        []
    );
}

#[test]
fn context_without_memory_is_a_contradiction() {
    let with = |active: bool, used: u64| {
        let mut script = using(used);
        script.probe(0, 0, Some(&[("GPU-0", active)]), None);
        script
    };
    assert_eq!(reasons(&with(true, 0)), [Reason::Contradiction]);
    assert_eq!(reasons(&with(true, CONTEXT)), []);
    assert_eq!(reasons(&with(false, CONTEXT)), []);
    let mut unreadable = with(true, 0);
    unreadable.snapshots[1].snapshot.gpus[0].used_bytes = None;
    assert_eq!(reasons(&unreadable), []);
    let (plan, mut machine) = (pitfall(), machine(2));
    machine.gpus[0].mig = Some(true);
    let scene = Scene {
        calibration: &calibrated(),
        gpus: &machine.gpus,
    };
    assert_eq!(
        invalidations(&plan, &plan.cases[0], &with(true, 0).recording(), &scene),
        []
    );
}
