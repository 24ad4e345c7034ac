use super::*;
use cuda_pitfalls_core::judge::fixture::scenario;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::observe::fixture::{CONTEXT, Script, calibration, case, plan};
use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::plan::fixture::machine;
use cuda_pitfalls_core::report::{Attempt, CaseReport};
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind as VerdictKind, Provenance};

const MIB: u64 = 1 << 20;

/// An attempt: the memory of two GPUs after the call, whether the first GPU's primary context is active and whether one
/// of its contexts is current, and the statuses of `cuInit` and the count afterwards.
struct AttemptScript {
    used: [u64; 2],
    active: bool,
    current: bool,
    init: i64,
    count: i64,
}

const FREE: AttemptScript = AttemptScript {
    used: [0, 0],
    active: false,
    current: false,
    init: 100,
    count: 3,
};
const FROZEN: AttemptScript = AttemptScript {
    used: [3 * MIB, 0],
    active: false,
    current: false,
    init: 0,
    count: 0,
};
const CONTEXTUAL: AttemptScript = AttemptScript {
    used: [CONTEXT, 3 * MIB],
    active: true,
    current: true,
    init: 0,
    count: 0,
};

fn row_of(attempts: &[AttemptScript]) -> CallRow {
    let row: CallRow = load_recipes(2)
        .expect("the recipes are valid")
        .calls
        .remove(0)
        .into_item()
        .row
        .read()
        .expect("a row");
    let mut planned = case("trap", &["cuCtxSynchronize", "cuInit", "cuDeviceGetCount"]);
    let labels = [recipe::label(&row.call), INIT.into(), COUNT.into()];
    planned
        .steps
        .iter_mut()
        .zip(labels)
        .for_each(|(step, label)| step.label = label);
    let made = attempts.iter().map(|told| {
        let mut script = Script::new();
        script.snapshot(None, &[0, 0]);
        script.step(0, 0, &[]);
        script.probe(
            0,
            0,
            Some(&[("GPU-0", told.active), ("GPU-1", false)]),
            told.current.then_some(0),
        );
        script.snapshot(Some(0), &told.used);
        script.step(1, told.init, &[]);
        script.snapshot(Some(1), &told.used);
        script.step(2, told.count, &[]);
        script.snapshot(Some(2), &told.used);
        script.snapshot_after_exit(&[0, 0]);
        Attempt::new(0, script.recording())
    });
    answered(row, planned, made.collect())
}

/// Returns the row of these attempts with this plan.
fn answered(row: CallRow, planned: CasePlan, attempts: Vec<Attempt>) -> CallRow {
    let mut done = scenario(
        VerdictKind::Reproduced,
        None,
        ExpectationMet::NoExpectation,
        0,
    );
    done.cases = vec![CaseReport::new("trap", attempts)];
    done.plan = Some(plan(2, vec![planned]));
    let calibrations = ["GPU-0", "GPU-1"].map(calibration);
    let machine = machine(2);
    let scene = Scene {
        calibration: &calibrations,
        gpus: &machine.gpus,
    };
    row.with(&SurveyAnswer {
        report: &done,
        scene: &scene,
        machine: &machine,
        provenance: Provenance::Measured,
    })
}

#[test]
fn what_the_driver_sees_afterwards_tells_whether_the_mask_was_frozen() {
    assert_eq!(row_of(&[FREE, FREE]).reads_mask, Some(false));
    assert_eq!(row_of(&[FROZEN]).reads_mask, Some(true));
    let neither = row_of(&[AttemptScript {
        init: 999,
        ..FROZEN
    }]);
    assert_eq!((neither.reads_mask, neither.is_conclusive()), (None, false));
    let uncounted = row_of(&[AttemptScript { count: 3, ..FROZEN }]);
    assert_eq!(
        uncounted.reads_mask, None,
        "success without a count that agrees tells nothing"
    );
}

#[test]
fn contexts_are_known_by_their_state_or_by_their_memory() {
    let facts = |told: AttemptScript| row_of(&[told]).context_on;
    assert_eq!(facts(FROZEN), Some(vec![]));
    assert_eq!(facts(CONTEXTUAL), Some(vec![0]));
    assert_eq!(
        facts(AttemptScript {
            active: false,
            ..CONTEXTUAL
        }),
        Some(vec![0]),
        "by memory alone"
    );
    assert_eq!(
        facts(AttemptScript {
            current: true,
            ..FROZEN
        }),
        Some(vec![]),
        "current, inactive and without memory"
    );
    assert_eq!(
        facts(AttemptScript {
            used: [0, CONTEXT],
            active: false,
            ..CONTEXTUAL
        }),
        Some(vec![1])
    );
}

#[test]
fn noisy_memory_is_a_median_within_tolerance() {
    let with = |used: u64| AttemptScript {
        used: [used, 0],
        ..FROZEN
    };
    let row = row_of(&[with(3 * MIB), with(4 * MIB), with(2 * MIB)]);
    assert_eq!(row.device_used_bytes, Some(vec![3 * MIB as i64, 0]));
    let row = row_of(&[with(3 * MIB), with(30 * MIB), with(3 * MIB)]);
    assert_eq!(
        (row.device_used_bytes, row.standing.disagreement),
        (None, vec!["device_used_bytes".to_string()])
    );
}

#[test]
fn attempts_that_disagree_make_no_fact() {
    let row = row_of(&[FROZEN, FREE, FROZEN]);
    assert_eq!(row.reads_mask, None);
    assert!(
        row.standing
            .disagreement
            .contains(&"reads_mask".to_string()),
        "{:?}",
        row.standing
    );
    assert!(!row.is_conclusive());
    assert_eq!(row.seen.len(), 3, "what each attempt showed is kept");
}

#[test]
fn row_without_valid_attempt_gives_a_reason() {
    let row = row_of(&[]);
    assert!(row.standing.unmeasured.is_some() && row.reads_mask.is_none());
    assert!(
        row.context_on.is_none() && row.device_used_bytes.is_none() && row.elapsed_ns.is_none()
    );
}

/// The earlier call: its status, whether the driver was initialized after it, and whether there was a context.
#[derive(Clone, Copy)]
struct Earlier {
    status: i64,
    initialised: bool,
    active: bool,
}

const CREATED: Earlier = Earlier {
    status: 0,
    initialised: true,
    active: false,
};

/// Returns the row of a call that runs after an earlier call, and creates a context.
fn row_after(earlier: Earlier) -> CallRow {
    let recipes = load_recipes(2)
        .expect("the recipes are valid")
        .calls
        .into_iter();
    let mut rows = recipes.map(|recipe| recipe.into_item().row.read::<CallRow>().expect("a row"));
    let row = rows
        .find(|row| row.before.len() == 1)
        .expect("a recipe with a call before it");
    let mut planned = case(
        "trap",
        &[
            "cuCtxSynchronize",
            "cuCtxGetCurrent",
            "cuInit",
            "cuDeviceGetCount",
        ],
    );
    let labels = [
        recipe::label_before(&row.call, 0),
        recipe::label(&row.call),
        INIT.into(),
        COUNT.into(),
    ];
    planned
        .steps
        .iter_mut()
        .zip(labels)
        .for_each(|(step, label)| step.label = label);
    let mut script = Script::new();
    let init = if earlier.initialised { 0 } else { 3 };
    let after = if earlier.active { [CONTEXT, 0] } else { [0, 0] };
    script.snapshot(None, &[0, 0]);
    script.step(0, earlier.status, &[]);
    script.probe(
        0,
        init,
        (init == 0).then_some(&[("GPU-0", earlier.active), ("GPU-1", false)]),
        None,
    );
    script.snapshot(Some(0), &after);
    script.step(1, 0, &[]);
    script.probe(1, 0, Some(&[("GPU-0", true), ("GPU-1", false)]), Some(0));
    script.snapshot(Some(1), &[CONTEXT, 3 * MIB]);
    for step in [2, 3] {
        script.step(step, 0, &[]);
        script.snapshot(Some(step), &[CONTEXT, 3 * MIB]);
    }
    script.snapshot_after_exit(&[0, 0]);
    answered(row, planned, vec![Attempt::new(0, script.recording())])
}

#[test]
fn after_a_call_that_initialised_the_driver_a_row_tells_contexts_alone() {
    let row = row_after(CREATED);
    assert_eq!(
        (row.reads_mask, row.context_on.clone(), row.before.len()),
        (None, Some(vec![0]), 1)
    );
    assert!(row.is_conclusive(), "it has what can be told");
    let row = row_after(Earlier {
        initialised: false,
        ..CREATED
    });
    assert_eq!(
        row.reads_mask,
        Some(true),
        "what was called before did nothing to the driver"
    );
}

#[test]
fn failed_preparation_leaves_the_call_unmeasured() {
    for (earlier, word) in [
        (
            Earlier {
                status: 1,
                ..CREATED
            },
            "returned",
        ),
        (
            Earlier {
                active: true,
                ..CREATED
            },
            "context",
        ),
    ] {
        let row = row_after(earlier);
        let why = row
            .standing
            .unmeasured
            .as_ref()
            .expect("it says why")
            .detail
            .clone();
        assert!(why.contains(word), "{why}");
        assert!(row.context_on.is_none() && !row.is_conclusive());
    }
}
