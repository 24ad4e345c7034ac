use super::*;

fn step(call: &str, status: &str, elapsed_ns: u64, resident: Option<i64>) -> CallReading {
    let host = resident.map(|bytes| [Some(bytes), Some(1), Some(0), None, Some(9)]);
    CallReading {
        call: call.to_string(),
        status: status.to_string(),
        elapsed_ns,
        host,
    }
}

#[test]
fn attempts_of_a_case_become_distributions() {
    let attempts = [
        vec![
            step(programs::BEFORE, "", 0, Some(10)),
            step("cuInit", "CUDA_SUCCESS", 7, Some(30)),
        ],
        vec![
            step(programs::BEFORE, "", 0, Some(12)),
            step("cuInit", "CUDA_SUCCESS", 5, Some(20)),
        ],
    ];
    let mut standing = RowAttempts::default();
    let case =
        case(StartBeside::Alone, &attempts, &mut standing).expect("they make the same calls");
    let resident =
        |host: &Option<ProcessMemory>| host.as_ref().and_then(|host| host.resident_bytes);
    assert_eq!(
        resident(&case.before),
        Some(FigureRange {
            least: 10,
            median: 10,
            most: 12
        })
    );
    let init = case.step("cuInit").expect("it was called");
    assert_eq!(
        (init.elapsed_ns.as_slice(), init.status.as_deref()),
        (&[7, 5][..], Some("CUDA_SUCCESS"))
    );
    assert_eq!(
        resident(&init.host),
        Some(FigureRange {
            least: 20,
            median: 20,
            most: 30
        })
    );
    assert_eq!(
        init.host.as_ref().and_then(|host| host.pinned_bytes),
        None,
        "a kernel that gives no figure gives none"
    );
    assert!(standing.disagreement.is_empty());
}

#[test]
fn a_status_on_which_attempts_disagree_is_none_and_named() {
    let attempts = [
        vec![step("cuInit", "CUDA_SUCCESS", 7, None)],
        vec![step("cuInit", "CUDA_ERROR_UNKNOWN", 5, None)],
    ];
    let mut standing = RowAttempts::default();
    let case =
        case(StartBeside::Alone, &attempts, &mut standing).expect("they make the same calls");
    assert_eq!(case.steps[0].status, None);
    assert_eq!(standing.disagreement, ["alone: status of cuInit"]);
}

#[test]
fn attempts_that_make_other_calls_make_no_case() {
    let attempts = [vec![step("cuInit", "CUDA_SUCCESS", 7, None)], vec![]];
    let mut standing = RowAttempts::default();
    assert_eq!(case(StartBeside::Context, &attempts, &mut standing), None);
    assert_eq!(standing.disagreement, ["context: calls"]);
}

#[test]
fn every_number_of_gpus_is_asked_up_to_four_and_then_some() {
    assert_eq!(StartProgram::Driver.visible(1), [1]);
    assert_eq!(StartProgram::Driver.visible(8), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        StartProgram::Runtime.visible(18),
        [1, 2, 3, 4, 5, 6, 7, 8, 16, 18]
    );
    assert_eq!(StartProgram::Nvml.visible(8), [8]);
}

#[test]
fn the_calls_of_the_process_alone_are_in_a_row() {
    for program in StartProgram::ALL {
        for beside in StartBeside::ALL {
            let steps = program.steps(beside, 2);
            let calls = steps
                .iter()
                .filter(|step| programs::is_call(&step.label))
                .count();
            let readings = steps
                .iter()
                .filter(|step| programs::read_after(&step.label).is_some())
                .count();
            assert_eq!(
                readings,
                calls + 1,
                "{program:?} {beside:?}: one before the first call, and one after each"
            );
            assert!(
                steps
                    .iter()
                    .filter(|step| programs::is_call(&step.label))
                    .all(|step| step.on.is_some())
            );
        }
    }
}
