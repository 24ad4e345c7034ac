//! Two machines with different numbers of GPUs.

use super::*;

/// Returns reports of the trap on one GPU and on two. The trap sees one GPU or all, with the harness's mask or with its
/// own. On two GPUs `change` is applied to the observation.
fn sizes(is_masked: bool, sees_all: bool, change: impl Fn(&mut Observation)) -> [Report; 2] {
    [1, 2].map(|gpus: usize| {
        let names: Vec<String> = (0..gpus).map(|gpu| format!("gpu{gpu}")).collect();
        let mut report = with(|it| {
            for step in &mut it.steps {
                step.visible = Some(
                    names
                        .iter()
                        .take(if sees_all { gpus } else { 1 })
                        .cloned()
                        .collect(),
                );
            }
            touch(it, &names, Class::None);
            if gpus == 2 {
                change(it);
            }
        });
        report.machine = machine(gpus);
        let plan = report.scenarios[0].plan.as_mut().unwrap();
        plan.gpus = (0..gpus).map(|gpu| format!("GPU-{gpu}")).collect();
        if !is_masked {
            plan.cases[0].mask = None;
            plan.cases[0]
                .env
                .insert("CUDA_VISIBLE_DEVICES".into(), "0".into());
        }
        report
    })
}

/// Adds the same change of the memory of these GPUs to every step.
fn touch(outcome: &mut Observation, gpus: &[String], class: Class) {
    for step in &mut outcome.steps {
        let memory = MemoryObservation {
            class: Some(class),
            ..Default::default()
        };
        step.memory
            .extend(gpus.iter().map(|gpu| (gpu.clone(), memory.clone())));
    }
}

fn gpus(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

/// Returns the result of comparing the two sizes.
fn told_of(is_masked: bool, sees_all: bool, change: impl Fn(&mut Observation)) -> String {
    told(sizes(is_masked, sees_all, change).each_ref())
}

const EXPLAINED: &str = "trap sees all GPUs: 1 in A, 2 in B";

#[test]
fn extra_gpu_counts_only_with_a_context() {
    assert_eq!(told_of(true, false, |_| {}), "same");
    let [one, two] = sizes(true, false, |_| {});
    assert_eq!(
        compared(&one, &two).machines,
        [FactDifference::new("number of GPUs", "1", "2")]
    );
    assert_eq!(
        told_of(true, false, |it| touch(
            it,
            &gpus(&["gpu1"]),
            Class::Context
        )),
        "trap: cuInit: memory of gpu1 none -> context"
    );
}

#[test]
fn visible_gpus_may_differ_when_all_are_visible() {
    assert_eq!(told_of(false, true, |_| {}), EXPLAINED);
    assert_eq!(
        told_of(true, true, |_| {}),
        "trap: cuInit: sees gpu0 -> gpu0,gpu1"
    );
    // Other differences count, and so does another subset of visible GPUs.
    assert_eq!(
        told_of(false, true, |it| it.steps[1].contexts =
            Some(gpus(&["gpu0"]))),
        "trap: count: contexts no GPU -> gpu0"
    );
    assert_eq!(
        told_of(false, false, |it| it.steps[0].visible =
            Some(gpus(&["gpu1"]))),
        "trap: cuInit: sees gpu0 -> gpu1"
    );
}

#[test]
fn a_verdict_follows_from_what_is_explained_unless_another_case_behaves_differently() {
    let [mut one, mut two] = sizes(false, true, |_| {});
    two.scenarios[0].verdict.kind = Kind::NotReproduced;
    let explained = compared(&one, &two).explained.remove(0);
    assert_eq!(
        (explained.notes, explained.changes[0].fact.as_str()),
        (vec![EXPLAINED.to_string()], "verdict")
    );
    for (report, end) in [(&mut one, "0"), (&mut two, "1")] {
        let scenario = &mut report.scenarios[0];
        let mut masked = case("control", &["cuInit", "cudaGetDeviceCount"]);
        masked.mask = Some(vec!["GPU-0".into()]);
        scenario.plan.as_mut().unwrap().cases.push(masked);
        let outcomes = vec![Outcome::new(
            5,
            Observation {
                end: end.into(),
                ..shown()
            },
        )];
        scenario.cases.push(CaseReport {
            name: "control".into(),
            outcomes,
            ..scenario.cases[0].clone()
        });
    }
    assert_eq!(
        told([&one, &two]),
        "verdict reproduced -> not_reproduced; control: ends 0 -> 1"
    );
}

#[test]
fn more_gpus_excuse_no_status_and_no_end() {
    for sees_all in [false, true] {
        assert_eq!(
            told_of(false, sees_all, |it| it.steps[1].status = Some(Status {
                code: 100,
                name: None
            })),
            "trap: count: status success -> status 100"
        );
        assert_eq!(
            told_of(false, sees_all, |it| it.steps[1].returned = false),
            "trap: count: returned yes -> no"
        );
        assert_eq!(
            told_of(false, sees_all, |it| it.end = "SIGSEGV".into()),
            "trap: ends 0 -> SIGSEGV"
        );
    }
    // A number of steps that equals the number of GPUs is not explained by it either.
    let mut both = sizes(false, false, |_| {});
    trap(&mut both[0]).steps.pop();
    both.each_mut()
        .map(trap)
        .into_iter()
        .for_each(|trap| trap.end = "SIGSEGV".into());
    assert_eq!(told(both.each_ref()), "trap: steps made 1 -> 2");
}

fn trap(report: &mut Report) -> &mut Observation {
    &mut report.scenarios[0].cases[0].outcomes[0].observation
}

#[test]
fn extra_gpu_may_be_touched_only_if_visible() {
    let touched = |it: &mut Observation, class| {
        // A later process may see fewer GPUs, and the GPU remains touched.
        it.steps[1].visible = Some(gpus(&["gpu0"]));
        touch(it, &gpus(&["gpu1"]), class);
    };
    assert_eq!(
        told_of(false, true, |it| touched(it, Class::Init)),
        EXPLAINED
    );
    let expected = "trap: cuInit: memory of gpu1 none -> init";
    assert_eq!(
        told_of(false, false, |it| touched(it, Class::Init)),
        expected
    );
    let expected = "trap: cuInit: memory of gpu1 none -> context";
    assert_eq!(
        told_of(false, true, |it| touched(it, Class::Context)),
        expected
    );
    // A GPU that both machines have does not depend on the number of GPUs.
    let expected = "trap: cuInit: memory of gpu0 none -> init";
    assert_eq!(
        told_of(false, true, |it| touch(
            it,
            &gpus(&["gpu0", "gpu1"]),
            Class::Init
        )),
        expected
    );
}

#[test]
fn one_outcome_that_is_explained_does_not_explain_another() {
    let [mut one, mut two] = sizes(false, true, |_| {});
    let died = Outcome::new(
        1,
        Observation {
            end: "SIGSEGV".into(),
            ..trap(&mut two).clone()
        },
    );
    two.scenarios[0].cases[0].outcomes.push(died);
    assert_eq!(told([&one, &two]), "trap: ends 0 -> SIGSEGV");
    assert_eq!(told([&two, &one]), "trap: ends SIGSEGV -> 0");
    // With its own counterpart the outcome is explained too, whichever was observed more often.
    let died = Outcome::new(
        9,
        Observation {
            end: "SIGSEGV".into(),
            ..trap(&mut one).clone()
        },
    );
    let mut both = one.clone();
    both.scenarios[0].cases[0].outcomes.insert(0, died);
    assert_eq!(told([&both, &two]), EXPLAINED);
    // If a mixture is an answer, one explained outcome is enough.
    for report in [&mut one, &mut two] {
        report.scenarios[0].plan.as_mut().unwrap().nondeterministic = true;
    }
    assert_eq!(told([&one, &two]), EXPLAINED);
}
