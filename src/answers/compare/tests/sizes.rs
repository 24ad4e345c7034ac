//! Two machines with different numbers of GPUs.

use super::*;

/// The same report on a machine with two GPUs, the second of which shows memory of this class.
fn on_two(class: Class) -> Report {
    let mut report = with(|it| {
        for step in &mut it.steps {
            step.memory.insert("gpu1".into(), MemoryObservation { class: Some(class), ..Default::default() });
        }
    });
    report.machine = machine(2);
    let plan = report.scenarios[0].plan.as_mut().unwrap();
    plan.gpus.push("GPU-1".into());
    report
}

#[test]
fn a_quiet_gpu_more_is_no_difference_and_a_context_on_it_is_one() {
    assert_same(&simple(), &on_two(Class::None));
    let machines = compared(&simple(), &on_two(Class::None)).machines;
    assert_eq!(machines, [FactDifference::new("number of GPUs", "1", "2")]);
    let found = change(&simple(), &on_two(Class::Context));
    assert_eq!(found, words("trap/cuInit", "memory of gpu1", "none", "context"));
}

#[test]
fn what_a_process_without_a_mask_sees_is_a_matter_of_the_machine() {
    let (mut one, mut two) = (simple(), on_two(Class::None));
    for report in [&mut one, &mut two] {
        report.scenarios[0].plan.as_mut().unwrap().cases[0].mask = None;
    }
    two.scenarios[0].cases[0].outcomes[0].observation.steps[1].visible = Some(vec!["gpu0".into(), "gpu1".into()]);
    two.scenarios[0].verdict.kind = Kind::NotReproduced;
    let comparison = compared(&one, &two);
    assert_eq!((comparison.exit(), comparison.explained.len()), (Exit::NothingMeasured, 1), "{comparison:#?}");
    assert_eq!(comparison.explained[0].notes, ["trap sees all GPUs: 1 in A, 2 in B"]);
    let changes: Vec<&str> = comparison.explained[0].changes.iter().map(|change| change.fact.as_str()).collect();
    assert_eq!(changes, ["verdict", "sees"]);
    // Beside a case that has a mask and behaves differently, the verdict is told with it.
    for (report, end) in [(&mut one, "0"), (&mut two, "1")] {
        let scenario = &mut report.scenarios[0];
        let mut masked = case("control", &["cuInit", "cudaGetDeviceCount"]);
        masked.mask = Some(vec!["GPU-0".into()]);
        scenario.plan.as_mut().unwrap().cases.push(masked);
        let mut control = scenario.cases[0].clone();
        control.name = "control".into();
        control.outcomes[0].observation = Observation { end: end.into(), ..shown() };
        scenario.cases.push(control);
    }
    let changed = &compared(&one, &two).changed[0];
    let changes: Vec<&str> = changed.changes.iter().map(|change| change.fact.as_str()).collect();
    assert_eq!((changes, changed.notes.len()), (vec!["verdict", "ends"], 1));
}

/// Two reports of a trap that the harness does not mask, on one GPU and on two; its own variable is the mask, and it
/// sees one GPU or as many as there are.
fn masked_by_itself(sees_all: bool) -> [Report; 2] {
    let mut both = [simple(), on_two(Class::None)];
    for report in &mut both {
        let trap = &mut report.scenarios[0].plan.as_mut().unwrap().cases[0];
        trap.mask = None;
        trap.env.insert("CUDA_VISIBLE_DEVICES".into(), "0".into());
    }
    if sees_all {
        seeing_all(&mut both);
    }
    both
}

fn trap(report: &mut Report) -> &mut Observation {
    &mut report.scenarios[0].cases[0].outcomes[0].observation
}

/// Lets the trap see as many GPUs as there are in each.
fn seeing_all([one, two]: &mut [Report; 2]) {
    for (report, gpus) in [(one, 1), (two, 2)] {
        for step in &mut trap(report).steps {
            step.visible = Some((0..gpus).map(|gpu| format!("gpu{gpu}")).collect());
        }
    }
}

#[test]
fn more_gpus_excuse_no_status_and_no_end() {
    let [one, two] = masked_by_itself(false);
    assert_same(&one, &two);
    for sees_all in [false, true] {
        let differs = |what: fn(&mut Observation)| {
            let [one, mut two] = masked_by_itself(sees_all);
            what(trap(&mut two));
            change(&one, &two)
        };
        let status = differs(|it| it.steps[1].status = Some(Status { code: 100, name: None }));
        assert_eq!(status, words("trap/count", "status", "success", "status 100"));
        let returned = differs(|it| it.steps[1].returned = false);
        assert_eq!(returned, words("trap/count", "returned", "yes", "no"));
        assert_eq!(differs(|it| it.end = "SIGSEGV".into()), words("trap", "ends", "0", "SIGSEGV"));
    }
    // Nor are as many steps as GPUs a number of GPUs.
    let [mut one, mut two] = masked_by_itself(false);
    trap(&mut one).steps.pop();
    for report in [&mut one, &mut two] {
        trap(report).end = "SIGSEGV".into();
    }
    assert_eq!(change(&one, &two), words("trap", "steps made", "1", "2"));
}

#[test]
fn what_is_seen_is_excused_where_it_is_all_there_is() {
    let [one, mut two] = masked_by_itself(true);
    let comparison = compared(&one, &two);
    assert_eq!((comparison.exit(), comparison.explained.len()), (Exit::NothingMeasured, 1), "{comparison:#?}");
    // What else differs counts, and so does seeing another part of them.
    trap(&mut two).steps[1].contexts = Some(vec!["gpu0".into()]);
    assert_eq!(change(&one, &two), words("trap/count", "contexts", "no GPU", "gpu0"));
    let [one, mut two] = masked_by_itself(false);
    trap(&mut two).steps[0].visible = Some(vec!["gpu1".into()]);
    assert_eq!(change(&one, &two), words("trap/cuInit", "sees", "gpu0", "gpu1"));
}

#[test]
fn a_gpu_that_only_one_machine_has_is_touched_by_who_sees_it() {
    let touched = |class: Class, sees_all: bool| {
        let [one, mut two] = masked_by_itself(sees_all);
        let steps = &mut trap(&mut two).steps;
        // A process that comes later may see less, and the GPU stays touched.
        steps[1].visible = Some(vec!["gpu0".into()]);
        for step in steps {
            step.memory.insert("gpu1".into(), MemoryObservation { class: Some(class), ..Default::default() });
        }
        [one, two]
    };
    let [one, two] = touched(Class::Init, true);
    let comparison = compared(&one, &two);
    assert_eq!((comparison.exit(), comparison.explained.len()), (Exit::NothingMeasured, 1), "{comparison:#?}");
    assert_eq!(comparison.explained[0].notes, ["trap sees all GPUs: 1 in A, 2 in B"]);
    for [one, two] in [touched(Class::Init, false), touched(Class::Context, true)] {
        assert_eq!(change(&one, &two).1, "memory of gpu1");
    }
    // A GPU of both is no matter of their number.
    let [one, mut two] = touched(Class::Init, true);
    trap(&mut two).steps[0].memory.get_mut("gpu0").unwrap().class = Some(Class::Init);
    assert_eq!(change(&one, &two), words("trap/cuInit", "memory of gpu0", "none", "init"));
}

#[test]
fn a_mask_of_the_harness_is_not_left_for_more_gpus() {
    let mut both = [simple(), on_two(Class::None)];
    seeing_all(&mut both);
    assert_eq!(change(&both[0], &both[1]), words("trap/cuInit", "sees", "gpu0", "gpu0,gpu1"));
}

#[test]
fn one_outcome_that_is_explained_does_not_explain_another() {
    let [mut one, mut two] = masked_by_itself(true);
    let died = Outcome::new(1, Observation { end: "SIGSEGV".into(), ..trap(&mut two).clone() });
    two.scenarios[0].cases[0].outcomes.push(died);
    assert_eq!(change(&one, &two), words("trap", "ends", "0", "SIGSEGV"));
    assert_eq!(change(&two, &one), words("trap", "ends", "SIGSEGV", "0"));
    // With its own counterpart it is explained too, whichever of them was seen more often.
    let died = Outcome::new(9, Observation { end: "SIGSEGV".into(), ..trap(&mut one).clone() });
    let mut both = one.clone();
    both.scenarios[0].cases[0].outcomes.insert(0, died);
    assert_eq!(compared(&both, &two).explained.len(), 1);
    // Where a mixture is an answer, one that is explained is enough.
    for report in [&mut one, &mut two] {
        report.scenarios[0].plan.as_mut().unwrap().nondeterministic = true;
    }
    assert_eq!(compared(&one, &two).explained.len(), 1);
}
