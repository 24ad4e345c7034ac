//! Reports with one difference each.

mod sizes;
mod survey;
mod trace;

use super::*;
use crate::exit::Exit;
use cuda_pitfalls_core::event::{Status, Value};
use cuda_pitfalls_core::judge::fixture;
use cuda_pitfalls_core::machine::Runtime;
use cuda_pitfalls_core::observe::fixture::{case, plan};
use cuda_pitfalls_core::observe::{MemoryObservation, Observation, StepObservation};
use cuda_pitfalls_core::plan::fixture::machine;
use cuda_pitfalls_core::report::{CaseReport, Outcome, Report};
use cuda_pitfalls_core::scenario::Class;
use cuda_pitfalls_core::verdict::{ExpectationMet, Kind, Reason};

/// Returns an ordinary observation of a trap with two calls.
fn shown() -> Observation {
    let step = |label: &str| StepObservation {
        label: label.into(),
        returned: true,
        status: Some(Status {
            code: 0,
            name: Some("cudaSuccess".into()),
        }),
        elapsed_ns: 5,
        initialised: Some(true),
        visible: Some(vec!["gpu0".into()]),
        contexts: Some(Vec::new()),
        current: Some("none".into()),
        memory: [(
            "gpu0".to_string(),
            MemoryObservation {
                class: Some(Class::None),
                ..Default::default()
            },
        )]
        .into(),
        ..StepObservation::default()
    };
    Observation {
        steps: vec![step("cuInit"), step("count")],
        end: "0".into(),
    }
}

/// Returns a report of one scenario, whose trap had these outcomes.
fn report(outcomes: &[(u32, Observation)]) -> Report {
    let mut scenario = fixture::scenario(Kind::Reproduced, None, ExpectationMet::AsExpected, 1);
    let mut trap = case("trap", &["cuInit", "cudaGetDeviceCount"]);
    trap.mask = Some(vec!["GPU-0".into()]);
    scenario.plan = Some(plan(1, vec![trap]));
    scenario.cases[0].outcomes = outcomes
        .iter()
        .map(|(count, observation)| Outcome::new(*count, observation.clone()))
        .collect();
    fixture::report(vec![scenario], true)
}

fn simple() -> Report {
    report(&[(5, shown())])
}

/// Returns a report whose trap always shows the observation that `change` modified.
fn with(change: impl FnOnce(&mut Observation)) -> Report {
    let mut observation = shown();
    change(&mut observation);
    report(&[(5, observation)])
}

fn compared(a: &Report, b: &Report) -> Comparison {
    reports(&a.view(), &b.view(), None).unwrap()
}

/// Returns the result of comparing the only scenario: the differences, or else why they do not count, or `same`.
fn told([a, b]: [&Report; 2]) -> String {
    let comparison = compared(a, b);
    let line = |change: &FactDifference| {
        let at = [&change.case, &change.step]
            .into_iter()
            .flatten()
            .map(|at| format!("{at}: "));
        format!(
            "{}{} {} -> {}",
            at.collect::<String>(),
            change.fact,
            change.a,
            change.b
        )
    };
    let told = match (
        comparison.changed.as_slice(),
        comparison.explained.as_slice(),
    ) {
        ([changed], []) => (
            Exit::Unexpected,
            changed
                .changes
                .iter()
                .map(line)
                .collect::<Vec<_>>()
                .join("; "),
        ),
        ([], [explained]) => (Exit::NothingMeasured, explained.notes.join(", ")),
        ([], []) => (
            if comparison.same == 0 {
                Exit::NothingMeasured
            } else {
                Exit::Ok
            },
            "same".to_string(),
        ),
        _ => panic!("{comparison:#?}"),
    };
    assert_eq!(comparison.exit(), told.0, "{comparison:#?}");
    told.1
}

#[test]
fn the_first_fact_that_differs_is_named() {
    assert_eq!(told([&simple(), &simple()]), "same");
    let status = with(|it| {
        it.steps[1].status = Some(Status {
            code: 100,
            name: None,
        })
    });
    assert_eq!(
        told([&simple(), &status]),
        "trap: count: status success -> status 100"
    );
    let value =
        |count| with(move |it| drop(it.steps[1].values.insert("count".into(), Value::Int(count))));
    assert_eq!(told([&value(7), &value(8)]), "trap: count: count 7 -> 8");
    assert_eq!(
        told([&simple(), &value(8)]),
        "trap: count: count nothing -> 8"
    );
    let contexts = with(|it| {
        it.steps
            .iter_mut()
            .for_each(|step| step.contexts = Some(vec!["gpu0".into()]))
    });
    assert_eq!(
        told([&simple(), &contexts]),
        "trap: cuInit: contexts no GPU -> gpu0"
    );
    let memory =
        with(|it| it.steps[1].memory.get_mut("gpu0").unwrap().class = Some(Class::Context));
    assert_eq!(
        told([&simple(), &memory]),
        "trap: count: memory of gpu0 none -> context"
    );
    let died = with(|it| {
        it.steps.pop();
        it.end = "SIGSEGV".into();
    });
    assert_eq!(told([&simple(), &died]), "trap: ends 0 -> SIGSEGV");
    let early = with(|it| drop(it.steps.pop()));
    assert_eq!(told([&simple(), &early]), "trap: steps made 2 -> 1");
    // Times, figures and varying values are not compared.
    let other = with(|it| {
        it.steps[1].elapsed_ns = 999;
        it.steps[1].varying.insert("free".into(), Value::Int(1));
        it.steps[1].memory.get_mut("gpu0").unwrap().used_bytes = Some(1 << 20);
    });
    assert_eq!(told([&simple(), &other]), "same");
}

#[test]
fn outcomes_are_compared_as_sets() {
    let other = |end: &str| Observation {
        end: end.into(),
        ..shown()
    };
    let (often, seldom) = (
        report(&[(4, shown()), (1, other("1"))]),
        report(&[(3, other("1")), (2, shown())]),
    );
    assert_eq!(told([&often, &seldom]), "same");
    assert_eq!(told([&simple(), &often]), "trap: ends 0 -> 1");
    let comparison = compared(&simple(), &often);
    assert_eq!(
        comparison.changed[0].changes[0].seen,
        Some([Share { count: 5, of: 5 }, Share { count: 1, of: 5 }])
    );
    let comparison = compared(&often, &simple());
    assert_eq!(
        comparison.changed[0].changes[0].seen,
        Some([Share { count: 1, of: 5 }, Share { count: 5, of: 5 }])
    );
}

#[test]
fn where_a_mixture_is_an_answer_one_outcome_in_common_is_enough() {
    let other = Observation {
        end: "1".into(),
        ..shown()
    };
    let (mut one, mut both) = (simple(), report(&[(4, shown()), (1, other.clone())]));
    assert_eq!(compared(&one, &both).exit(), Exit::Unexpected);
    for report in [&mut one, &mut both] {
        report.scenarios[0].plan.as_mut().unwrap().nondeterministic = true;
    }
    assert_eq!(told([&one, &both]), "same");
    let mut apart = report(&[(5, other)]);
    apart.scenarios[0].plan.as_mut().unwrap().nondeterministic = true;
    assert_eq!(compared(&one, &apart).exit(), Exit::Unexpected);
}

#[test]
fn the_mask_of_another_machine_has_other_uuids() {
    let on = |uuid: &str| {
        let mut report = simple();
        report.machine.gpus[0].uuid = uuid.into();
        let plan = report.scenarios[0].plan.as_mut().unwrap();
        plan.gpus = vec![uuid.into()];
        plan.cases[0].mask = Some(vec![uuid.into()]);
        plan.cases[0]
            .env
            .insert("OTHER".into(), uuid.to_uppercase());
        report
    };
    let (one, other) = (on("GPU-8b6c2f00-000a"), on("GPU-1a2b3c4d-000b"));
    assert_eq!(told([&one, &other]), "same");
    assert_eq!(compared(&one, &other).machines, []);
}

#[test]
fn a_call_that_tells_what_the_machine_is_behaves_the_same() {
    let number = |report: &mut Report, driver: i32, told: i64| {
        report.machine.cuda_driver_version = Some(driver);
        report.machine.gpus[0].name = Some(format!("GPU of {driver}"));
        let step = &mut report.scenarios[0].cases[0].outcomes[0].observation.steps[0];
        step.values.insert("version".into(), Value::Int(told));
        step.values
            .insert("model".into(), Value::Text(format!("GPU of {driver}")));
    };
    let (mut a, mut b) = (simple(), simple());
    number(&mut a, 13000, 13000);
    number(&mut b, 13010, 13010);
    // The version is explained as well. Otherwise it would be listed.
    assert_eq!(told([&a, &b]), "model is the GPU's model");
    // It does not explain other differences, before or after it.
    b.scenarios[0].cases[0].outcomes[0].observation.end = "SIGSEGV".into();
    assert_eq!(told([&a, &b]), "trap: ends 0 -> SIGSEGV");
    number(&mut b, 13010, 12000);
    assert_eq!(compared(&a, &b).changed[0].changes[0].fact, "version");
}

#[test]
fn a_verdict_counts_where_the_question_is_the_same() {
    let mut b = simple();
    b.scenarios[0].verdict.kind = Kind::Inconclusive;
    b.scenarios[0].verdict.reason = Some(Reason::Intermittent);
    b.scenarios[0].sha256 = "other".into();
    assert_eq!(
        told([&simple(), &b]),
        "verdict reproduced -> inconclusive: intermittent"
    );
    assert_eq!(
        compared(&simple(), &b).changed[0].notes,
        ["the scenario was changed in between"]
    );
    b.scenarios[0].plan.as_mut().unwrap().cases[0].steps.pop();
    assert_eq!(
        told([&simple(), &b]),
        "the scenario was changed in between, trap makes different calls"
    );
    // Cases that differ only in their calls are not equal either.
    b.scenarios[0].verdict = simple().scenarios[0].verdict.clone();
    assert_eq!(
        told([&simple(), &b]),
        "the scenario was changed in between, trap makes different calls"
    );
}

#[test]
fn a_changed_file_that_asks_the_same_is_the_same() {
    let mut b = simple();
    b.scenarios[0].sha256 = "other".into();
    b.scenarios[0].plan.as_mut().unwrap().cases[0].steps[0].line = 77;
    assert_eq!(told([&simple(), &b]), "same");
}

#[test]
fn cases_in_another_order_ask_the_same() {
    let with_control = || {
        let mut report = simple();
        let scenario = &mut report.scenarios[0];
        scenario
            .plan
            .as_mut()
            .unwrap()
            .cases
            .push(case("control", &["cuInit"]));
        let control = CaseReport {
            name: "control".into(),
            ..scenario.cases[0].clone()
        };
        scenario.cases.push(control);
        report
    };
    let mut b = with_control();
    b.scenarios[0].plan.as_mut().unwrap().cases.reverse();
    b.scenarios[0].cases.reverse();
    assert_eq!(told([&with_control(), &b]), "same");
}

#[test]
fn an_expectation_counts_where_both_are_held_against_the_same() {
    let mut b = simple();
    b.scenarios[0].verdict.expectation = ExpectationMet::Unexpected;
    assert_eq!(
        told([&simple(), &b]),
        "verdict reproduced -> reproduced, unexpected"
    );
    let check = serde_json::json!({"at": "count", "line": 1});
    b.scenarios[0].plan.as_mut().unwrap().cases[0].expect =
        vec![serde_json::from_value(check).unwrap()];
    assert_eq!(told([&simple(), &b]), "same");
    b.scenarios[0].verdict.expectation = ExpectationMet::NoExpectation;
    assert_eq!(told([&simple(), &b]), "same");
}

#[test]
fn what_only_one_of_them_measured_is_listed_with_the_reason() {
    let mut skipped = simple();
    let scenario = &mut skipped.scenarios[0];
    (scenario.plan, scenario.cases) = (None, Vec::new());
    scenario.verdict.kind = Kind::Skipped;
    scenario.verdict.reason = Some(Reason::TooFewGpus);
    let only = |reason: Option<&str>| Only {
        name: Some("test/question".into()),
        libcudart: None,
        reason: reason.map(str::to_string),
        count: 1,
    };
    let comparison = compared(&simple(), &skipped);
    assert_eq!(
        (comparison.exit(), comparison.only_in_a),
        (Exit::NothingMeasured, vec![only(Some("too_few_gpus"))])
    );
    assert_eq!(
        compared(&skipped, &simple()).only_in_b,
        [only(Some("too_few_gpus"))]
    );
    let empty = fixture::report(Vec::new(), true);
    assert_eq!(compared(&simple(), &empty).only_in_a, [only(None)]);
    assert_eq!(compared(&empty, &simple()).only_in_b, [only(None)]);
    let neither = compared(&skipped, &skipped);
    assert_eq!(
        (neither.exit(), neither.in_neither),
        (Exit::NothingMeasured, 1)
    );
    let none_counts = report(&[]);
    assert_eq!(
        compared(&none_counts, &simple()).only_in_b,
        [only(Some("reproduced"))]
    );
}

/// Returns a report where the scenario ran on each of these versions, and ended with the version.
fn on_versions(versions: &[&str]) -> Report {
    let on = |version: &&str| {
        let mut scenario = with(|it| it.end = (*version).to_string())
            .scenarios
            .remove(0);
        scenario.libcudart = Some(Runtime {
            path: String::new(),
            version: Some((*version).into()),
            number: None,
        });
        scenario
    };
    fixture::report(versions.iter().map(on).collect(), true)
}

#[test]
fn versions_of_libcudart_are_compared_with_themselves_unless_it_is_asked_otherwise() {
    let (a, b) = (
        on_versions(&["12.8", "12.9", "13.0"]),
        on_versions(&["12.9"]),
    );
    let comparison = compared(&a, &b);
    assert_eq!(
        (comparison.same, comparison.exit(), comparison.libcudart),
        (1, Exit::Ok, None)
    );
    let all = |version: &str| Only {
        name: None,
        libcudart: Some(version.into()),
        reason: None,
        count: 1,
    };
    assert_eq!(comparison.only_in_a, [all("12.8"), all("13.0")]);
    let versions = |a: &str, b: &str| Some((a.to_string(), b.to_string()));
    let comparison = reports(&a.view(), &a.view(), versions("12.8", "13.0")).unwrap();
    assert_eq!(
        comparison.libcudart,
        Some(["12.8".to_string(), "13.0".to_string()])
    );
    assert_eq!(
        (comparison.changed.len(), comparison.only_in_a.len()),
        (1, 0)
    );
    assert_eq!(comparison.changed[0].changes[0].b, "13.0");
    let error = reports(&a.view(), &b.view(), versions("12.8", "13.0")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "B has no results for libcudart 13.0; it has 12.9"
    );
}

#[test]
fn two_reports_with_one_version_each_are_compared_across() {
    let comparison = compared(&on_versions(&["12.9"]), &on_versions(&["13.0"]));
    assert_eq!(
        comparison.libcudart,
        Some(["12.9".to_string(), "13.0".to_string()])
    );
    assert_eq!(
        (
            comparison.changed.len(),
            comparison.only_in_a.len(),
            comparison.only_in_b.len()
        ),
        (1, 0, 0)
    );
}

#[test]
fn machines_differ_in_what_matters() {
    let (a, mut b) = (simple(), simple());
    b.machine.driver_version = Some("590.1".into());
    b.machine.gpus[0].mig = Some(true);
    b.machine.gpus[0].uuid = "GPU-x".into();
    b.machine.gpus[0].pci_bus_id = Some("00000000:99:00.0".into());
    b.machine
        .environment
        .insert("CUDA_VISIBLE_DEVICES".into(), "GPU-x".into());
    b.machine.isolation.container = Some("docker".into());
    let expected = [
        FactDifference::new("driver", "580.159.04", "590.1"),
        FactDifference::new("MIG", "no", "yes"),
        FactDifference::new("container", "none", "docker"),
        FactDifference::new("CUDA_VISIBLE_DEVICES", "not set", "<uuid0>"),
    ];
    let comparison = compared(&a, &b);
    assert_eq!(
        (comparison.exit(), comparison.machines),
        (Exit::Ok, expected.to_vec())
    );
    b.machine
        .gpus
        .push(cuda_pitfalls_core::plan::fixture::gpu("GPU-y"));
    let mig = compared(&a, &b)
        .machines
        .into_iter()
        .find(|change| change.fact == "MIG")
        .unwrap();
    assert_eq!(mig.b, "1× no, 1× yes");
}
