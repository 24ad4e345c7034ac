use cuda_pitfalls_core::fact::FactSet;
use std::collections::BTreeMap;

use super::variable::read;
use super::*;
use crate::survey::row::LeftOut;
use cuda_pitfalls_core::catalogue::kernel;
use cuda_pitfalls_core::judge::fixture::scenario;
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::observe::Scene;
use cuda_pitfalls_core::observe::fixture::{Script, case, plan};
use cuda_pitfalls_core::plan::fixture::machine;
use cuda_pitfalls_core::report::{Attempt, CaseReport, ScenarioReport};
use cuda_pitfalls_core::scenario::Check;
use cuda_pitfalls_core::verdict::{
    ExpectationMet, Invalidation, Kind as VerdictKind, Provenance, Reason,
};

const OPEN: &str = r#"
[[variable]]
name = "CUDA_LAUNCH_BLOCKING"
value = "1"
about = "It is documented."
observable = "A status."
source = "https://docs.nvidia.com/"
steps = [
  { cuInit = {}, label = "init" },
  { cuDevicePrimaryCtxRetain = { device = 0, as = "context" }, label = "context" },
  { cuStreamQuery = {}, label = "query" },
]
effect = [{ at = "query", status = "CUDA_SUCCESS" }]
moments = [
  { before = "init", does = "cuInit" },
  { before = "context", does = "first context" },
  { before = "query", does = "each use" },
]
"#;

fn variable() -> EnvVariable {
    read(OPEN).unwrap().0.remove(0)
}

/// Result of the query of an attempt; `None` if it is not reached.
type Returned = Option<i64>;
const EFFECT: Returned = Some(0);
const NONE: Returned = Some(600);

fn attempt(returned: Returned) -> Attempt {
    let mut script = Script::new();
    if let Some(code) = returned {
        script.step(0, code, &[]);
    }
    Attempt::new(0, script.recording())
}

/// Returns the results of a variable's question, by case.
fn done(cases: &[(&str, &[Returned])]) -> ScenarioReport {
    let planned = cases
        .iter()
        .map(|(name, _)| case(name, &["cuStreamQuery"]))
        .collect();
    let mut plan = plan(1, planned);
    let status = vec!["CUDA_SUCCESS".to_string()];
    plan.effect = vec![Check {
        at: "cuStreamQuery".into(),
        facts: FactSet {
            status,
            ..FactSet::default()
        },
        ..Check::default()
    }];
    let made = cases.iter().map(|(name, attempts)| {
        CaseReport::new(
            *name,
            attempts.iter().map(|returned| attempt(*returned)).collect(),
        )
    });
    let mut done = scenario(
        VerdictKind::Reproduced,
        None,
        ExpectationMet::NoExpectation,
        0,
    );
    (done.plan, done.cases) = (Some(plan), made.collect());
    done
}

fn row_of(done: &ScenarioReport) -> EnvRow {
    let machine: Machine = machine(1);
    let scene = Scene {
        calibration: &[],
        gpus: &machine.gpus,
    };
    variable()
        .into_item()
        .row
        .read::<EnvRow>()
        .expect("a row")
        .with(&SurveyAnswer {
            report: done,
            scene: &scene,
            machine: &machine,
            provenance: Provenance::Measured,
        })
}

/// Returns a row from three attempts that agree: variable set at exec, before each of the three moments, or never.
fn told(exec: Returned, moments: [Returned; 3], never: Returned) -> EnvRow {
    let [init, context, query] = moments.map(|returned| [returned; 3]);
    row_of(&done(&[
        ("trap", &[exec; 3]),
        ("before-init", &init),
        ("before-context", &context),
        ("before-query", &query),
        ("control", &[never; 3]),
    ]))
}

fn latched(row: &EnvRow) -> Option<&str> {
    assert!(row.standing.disagreement.is_empty(), "{:?}", row.standing);
    row.read_at.as_deref()
}

#[test]
fn the_last_moment_that_was_early_enough_is_where_it_is_latched() {
    let (yes, no) = (Some(true), Some(false));
    for (exec, moments, never, has_effect, latch) in [
        (EFFECT, [EFFECT, NONE, NONE], NONE, yes, Some("cuInit")),
        (
            EFFECT,
            [EFFECT, EFFECT, NONE],
            NONE,
            yes,
            Some("first context"),
        ),
        (EFFECT, [EFFECT; 3], NONE, yes, Some("each use")),
        // It must be set at exec.
        (EFFECT, [NONE; 3], NONE, yes, Some(EXEC)),
        // An effect that disappears and returns contradicts the order.
        (EFFECT, [EFFECT, NONE, EFFECT], NONE, yes, None),
        (EFFECT, [NONE, EFFECT, EFFECT], NONE, yes, None),
        // A missing effect is a fact; an observable that also occurs without the variable proves nothing.
        (NONE, [NONE; 3], NONE, no, None),
        (EFFECT, [EFFECT; 3], EFFECT, None, None),
    ] {
        let row = told(exec, moments, never);
        assert_eq!(
            (row.has_effect, latched(&row)),
            (has_effect, latch),
            "{row:#?}"
        );
        assert_eq!(
            row.is_conclusive(),
            latch.is_some() || has_effect == no,
            "{row:#?}"
        );
        assert_eq!(
            row.moments.iter().map(|it| it.effect).collect::<Vec<_>>(),
            moments.map(|it| Some(it == EFFECT))
        );
        assert_eq!(row.standing.attempts, 15);
    }
}

#[test]
fn attempts_that_disagree_leave_it_open_and_are_named() {
    let row = row_of(&done(&[
        ("trap", &[EFFECT; 3]),
        ("before-init", &[EFFECT, NONE, EFFECT]),
        ("before-context", &[NONE; 3]),
        ("before-query", &[NONE; 3]),
        ("control", &[NONE; 3]),
    ]));
    assert_eq!((row.has_effect, row.read_at.as_deref()), (Some(true), None));
    assert_eq!(row.standing.disagreement, ["before-init"]);
    assert_eq!(row.moments[0].effect, None);
}

#[test]
fn an_attempt_that_cannot_tell_leaves_it_open_without_a_disagreement() {
    let row = row_of(&done(&[
        ("trap", &[EFFECT; 2]),
        ("before-init", &[EFFECT, None]),
        ("before-context", &[NONE; 2]),
        ("before-query", &[NONE; 2]),
        ("control", &[NONE; 2]),
    ]));
    assert_eq!((row.has_effect, latched(&row)), (Some(true), None));
    assert_eq!(row.moments[0].effect, None);
    assert!(!row.is_conclusive());
}

#[test]
fn only_attempts_that_count_are_asked() {
    let mut done = done(&[("trap", &[EFFECT, NONE]), ("control", &[NONE, NONE])]);
    done.cases[0].attempts[1].judged.invalid = vec![Invalidation {
        reason: Reason::Protocol,
        detail: String::new(),
    }];
    let row = row_of(&done);
    assert_eq!(row.has_effect, Some(true));
    assert_eq!((row.standing.attempts, row.read_at), (3, None));
}

#[test]
fn a_question_that_was_not_asked_has_a_row_without_facts() {
    let mut done = scenario(
        VerdictKind::Skipped,
        Some(Reason::TooFewGpus),
        ExpectationMet::NoExpectation,
        0,
    );
    done.cases.clear();
    let row = row_of(&done);
    assert_eq!((row.has_effect, row.read_at), (None, None));
    assert_eq!(row.standing.unmeasured.unwrap().reason, Reason::TooFewGpus);
}

#[test]
fn every_variable_makes_a_question_whose_cases_differ_by_the_variable_alone() {
    let variables = variables().unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics));
    assert!(variables.len() >= 18, "only {} variables", variables.len());
    for variable in &variables {
        let scenario = variable.clone().into_item().scenario;
        let [instance] = scenario.instances.as_slice() else {
            panic!("{}: one instance", variable.name)
        };
        assert_eq!(
            instance.cases.len(),
            variable.moments.len() + 2,
            "{}",
            variable.name
        );
        assert!(
            instance.cases.len() <= 7,
            "{}: {} cases",
            variable.name,
            instance.cases.len()
        );
        let unset = instance
            .cases
            .iter()
            .find(|case| case.name == "control")
            .unwrap();
        for case in &instance.cases {
            let mut env: BTreeMap<_, _> = case.env.clone();
            let at_exec = env.remove(&variable.name).is_some();
            let labels = |steps: &[cuda_pitfalls_core::scenario::Step]| {
                let labels = steps.iter().map(|step| step.label.clone());
                labels
                    .filter(|label| label != "set-the-variable")
                    .collect::<Vec<_>>()
            };
            let set = case
                .steps
                .iter()
                .filter(|step| step.label == "set-the-variable")
                .count();
            assert_eq!(env, unset.env, "{}: {}", variable.name, case.name);
            assert_eq!(
                labels(&case.steps),
                labels(&unset.steps),
                "{}: {}",
                variable.name,
                case.name
            );
            assert_eq!(
                at_exec,
                case.name == "trap",
                "{}: {}",
                variable.name,
                case.name
            );
            assert_eq!(
                set,
                usize::from(case.name.starts_with("before-")),
                "{}: {}",
                variable.name,
                case.name
            );
        }
    }
}

#[test]
fn every_text_is_a_sentence_and_every_page_is_nvidias() {
    for variable in variables().unwrap_or_else(|wrong| panic!("{:?}", wrong.diagnostics)) {
        for text in [&variable.about, &variable.observable] {
            assert!(text.ends_with('.'), "{}: {text}", variable.name);
        }
        assert!(
            variable.source.starts_with("https://docs.nvidia.com/"),
            "{}: {}",
            variable.name,
            variable.source
        );
    }
    let (_, left_out) = variables_and_left_out().expect("it is valid");
    let names: Vec<&String> = left_out.iter().map(|LeftOut { name, .. }| name).collect();
    for (place, LeftOut { name, reason }) in left_out.iter().enumerate() {
        assert!(reason.ends_with('.'), "{name}: {reason}");
        assert!(!names[..place].contains(&name), "{name} occurs twice");
    }
}

#[test]
fn what_the_linker_is_given_is_as_long_as_the_list_says() {
    let said = kernel("nothing")
        .map(|text| format!("ptx = \"nothing\", bytes = {}", text.len() + 1))
        .unwrap();
    let source = cuda_pitfalls_scenarios::survey("env");
    assert_eq!(
        source.matches("cuLinkAddData_v2").count(),
        source.matches(&said).count(),
        "{said}"
    );
}

#[test]
fn what_is_wrong_with_the_list_is_told() {
    let wrong = |from: &str, to: &str| {
        let source = OPEN.replace(from, to);
        assert_ne!(source, OPEN);
        read(&source).unwrap_err().diagnostics.remove(0).message
    };
    assert!(
        wrong("before = \"context\"", "before = \"contxt\"")
            .contains("no step has the label `contxt`")
    );
    assert!(wrong("before = \"query\"", "before = \"init\"").contains("too late"));
    assert!(wrong("value = \"1\"", "valeu = \"1\"").contains("valeu"));
    let twice = format!("{OPEN}{OPEN}");
    assert!(
        read(&twice).unwrap_err().diagnostics[0]
            .message
            .contains("twice")
    );
    let left_out =
        format!("{OPEN}\n[[left_out]]\nname = \"CUDA_LAUNCH_BLOCKING\"\nreason = \"No.\"\n");
    assert!(
        read(&left_out).unwrap_err().diagnostics[0]
            .message
            .contains("twice")
    );
    let gpus = OPEN.replace("value = \"1\"", "value = \"1\"\ngpus = \"many\"");
    let message = read(&gpus).unwrap_err().diagnostics.remove(0).message;
    assert_eq!(message, "expected an integer or `\"all\"`");
}
