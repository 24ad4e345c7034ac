use std::collections::BTreeSet;

use super::*;
use cuda_pitfalls_calls as calls;
use cuda_pitfalls_calls::Effect;
use cuda_pitfalls_core::refusal::{self, NOTHING};

/// Programs that are tested if none is named.
const PROGRAMS: [NeedsProgram; 3] = [
    NeedsProgram::Driver,
    NeedsProgram::Runtime,
    NeedsProgram::Nvml,
];

fn row(
    program: NeedsProgram,
    moment: NeedsMoment,
    refused: Option<&str>,
    error: Option<&str>,
    status: &str,
) -> NeedRow {
    NeedRow {
        met: error.map(|_| true),
        statuses: Some(vec![ReturnedStatus {
            call: "cuInit".to_string(),
            status: status.to_string(),
        }]),
        gpus: Some(vec![0]),
        standing: RowAttempts {
            attempts: 1,
            ..RowAttempts::default()
        },
        ..NeedRow::new(program, moment, refused, error)
    }
}

/// Returns the row of the driver if this is denied from the start.
fn init(refused: &str, error: &str, status: &str) -> NeedRow {
    row(
        NeedsProgram::Driver,
        NeedsMoment::Init,
        Some(refused),
        Some(error),
        status,
    )
}

fn next(rows: &[NeedRow], gpus: usize, repeat: u32) -> Vec<crate::survey::Item> {
    super::next(rows, gpus, repeat, &PROGRAMS, &|_| true)
}

/// Returns the controls of all programs on one GPU; the driver's control used these files and system calls in `cuInit`.
fn controls(files: &[(&str, &str, bool)], calls: &[&str]) -> Vec<NeedRow> {
    let mut rows: Vec<NeedRow> = next(&[], 1, 3)
        .iter()
        .map(|item| {
            let key = &item.row.key;
            let mut words = key.splitn(3, ' ');
            let program = match words.next() {
                Some("driver") => NeedsProgram::Driver,
                Some("runtime") => NeedsProgram::Runtime,
                _ => NeedsProgram::Nvml,
            };
            let name = words.next().expect("a moment");
            let moment = *program
                .refusal_moments()
                .iter()
                .find(|moment| moment.name() == name)
                .expect("a moment");
            let refused = words.next().filter(|what| *what == NOTHING);
            row(program, moment, refused, None, "CUDA_SUCCESS")
        })
        .collect();
    let used = |call: &str, exists| PathUse {
        calls: [call.to_string()].into(),
        exists,
        written: false,
    };
    let asked = SystemUse {
        during: "cuInit".to_string(),
        system_calls: calls.iter().map(|call| (call.to_string(), 1)).collect(),
        files: files
            .iter()
            .map(|(path, call, exists)| (path.to_string(), used(call, *exists)))
            .collect(),
    };
    let record = rows
        .iter_mut()
        .find(|row| row.key() == "driver init nothing")
        .expect("a control");
    record.asked = vec![asked];
    rows
}

fn keys(rows: &[NeedRow]) -> Vec<String> {
    next(rows, 1, 3)
        .into_iter()
        .map(|item| item.row.key)
        .collect()
}

#[test]
fn every_step_of_every_program_is_a_call_with_its_arguments() {
    for gpus in [1, 2] {
        for item in next(&[], gpus, 3) {
            let key = &item.row.key;
            let [instance] = item.scenario.instances.as_slice() else {
                panic!("{key}: one instance")
            };
            let (mut bound, mut labels) = (BTreeSet::new(), BTreeSet::new());
            for step in instance.cases.iter().flat_map(|case| &case.steps) {
                let call = calls::find(&step.call)
                    .unwrap_or_else(|| panic!("{key}: no call {}", step.call));
                for param in call.input_params() {
                    let given = step.args.get(param.name);
                    assert!(
                        given.is_some() || param.default.is_some(),
                        "{key}: {} needs `{}`",
                        step.call,
                        param.name
                    );
                    if let (calls::ParamKind::Handle(_), Some(name)) = (param.kind, given) {
                        assert!(
                            bound.contains(&name.to_string()),
                            "{key}: nothing binds `{name}`"
                        );
                    }
                }
                let inputs: Vec<&str> = call.input_params().map(|param| param.name).collect();
                assert!(
                    step.args.keys().all(|name| inputs.contains(&name.as_str())),
                    "{key}: {:?}",
                    step.args
                );
                bound.extend(step.bind.clone());
                assert!(
                    labels.insert(step.label.clone()),
                    "{key}: {} twice",
                    step.label
                );
            }
            assert!(
                instance.cases.iter().all(|case| !case.probes),
                "{key}: a probe is a call too"
            );
        }
    }
}

#[test]
fn a_filter_never_stands_before_the_libraries_are_loaded() {
    for item in next(&[], 1, 3) {
        let steps = &item.scenario.instances[0].cases[0].steps;
        assert!(!steps[0].has(Effect::Refuses), "{}", item.row.key);
        let filters = steps
            .iter()
            .filter(|step| step.call == refusal::STEP)
            .count();
        assert_eq!(
            filters,
            usize::from(item.row.key.ends_with(NOTHING)),
            "{}",
            item.row.key
        );
    }
}

#[test]
fn each_request_is_denied_with_its_possible_errors() {
    let rows = controls(
        &[
            ("/dev/nvidiactl", "openat", true),
            ("/dev/missing", "openat", false),
            ("/sys/module/nvidia/initstate", "access", true),
            ("/lib/libcuda.so.1", "openat", true),
            ("~/.nv", "openat", true),
        ],
        &["eventfd2", "mmap"],
    );
    let expected = [
        "driver init /dev/missing EPERM",
        "driver init /dev/missing EACCES",
        "driver init /dev/missing EMFILE",
        "driver init /dev/nvidiactl EPERM",
        "driver init /dev/nvidiactl EACCES",
        "driver init /dev/nvidiactl ENOENT",
        "driver init /dev/nvidiactl EMFILE",
        "driver init /sys/module/nvidia/initstate ENOENT",
        "driver init eventfd2 EPERM",
        "driver init eventfd2 ENOSYS",
    ];
    assert_eq!(keys(&rows), expected);
}

#[test]
fn what_changed_something_is_asked_in_children_and_then_again() {
    let mut rows = controls(&[], &["eventfd2", "uname"]);
    rows.extend([
        init("eventfd2", "EPERM", "CUDA_ERROR_OPERATING_SYSTEM"),
        init("uname", "EPERM", "CUDA_SUCCESS"),
    ]);
    for call in ["eventfd2", "uname"] {
        rows.push(init(call, "ENOSYS", "CUDA_SUCCESS"));
    }
    assert_eq!(
        keys(&rows),
        [
            "driver forked eventfd2 EPERM",
            "driver spawned eventfd2 EPERM"
        ]
    );
    for moment in [NeedsMoment::Forked, NeedsMoment::Spawned] {
        rows.push(row(
            NeedsProgram::Driver,
            moment,
            Some("eventfd2"),
            Some("EPERM"),
            "CUDA_SUCCESS",
        ));
    }
    // uname may be denied, and is denied together with calls that may not.
    assert_eq!(keys(&rows), ["driver init everything else EPERM"]);
    rows.push(init(EVERYTHING_ELSE, "EPERM", "CUDA_SUCCESS"));
    let again = next(&rows, 1, 3);
    assert_eq!(
        again.iter().map(|item| &item.row.key).collect::<Vec<_>>(),
        ["driver init eventfd2 EPERM"]
    );
    assert_eq!(again[0].repeat, Some(3));
    rows.iter_mut().for_each(|row| row.standing.attempts = 3);
    assert!(keys(&rows).is_empty());
}

#[test]
fn what_every_error_makes_a_difference_for_is_needed() {
    let mut rows = controls(&[], &["eventfd2", "clone3"]);
    let fails = "CUDA_ERROR_OPERATING_SYSTEM";
    rows.extend([
        init("eventfd2", "EPERM", fails),
        init("eventfd2", "ENOSYS", fails),
    ]);
    rows.extend([
        init("clone3", "EPERM", fails),
        init("clone3", "ENOSYS", "CUDA_SUCCESS"),
    ]);
    let asked = least(&rows, NeedsProgram::Driver);
    assert_eq!(asked.needed, BTreeSet::from(["eventfd2".to_string()]));
    assert_eq!(
        asked.refusable,
        BTreeMap::from([("clone3".to_string(), "ENOSYS".to_string())])
    );
    assert_eq!(asked.suffices, None);
    for moment in [NeedsMoment::Forked, NeedsMoment::Spawned] {
        for (call, error) in [
            ("eventfd2", "EPERM"),
            ("eventfd2", "ENOSYS"),
            ("clone3", "EPERM"),
        ] {
            rows.push(row(
                NeedsProgram::Driver,
                moment,
                Some(call),
                Some(error),
                fails,
            ));
        }
    }
    assert_eq!(keys(&rows), ["driver init everything else EPERM"]);
    rows.push(init(EVERYTHING_ELSE, "EPERM", "CUDA_SUCCESS"));
    let taken_away = next(&rows, 1, 3);
    let steps = &taken_away[0].scenario.instances[0].cases[0].steps;
    let refused: Vec<String> = steps
        .iter()
        .filter(|step| step.has(Effect::Refuses))
        .map(|step| format!("{:?}", step.args))
        .collect();
    assert_eq!(
        taken_away[0].row.key,
        "driver init everything else and eventfd2 EPERM"
    );
    assert!(
        refused.len() == 2 && refused[0].contains("ENOSYS") && refused[1].contains("eventfd2"),
        "{refused:?}"
    );
    rows.push(init("everything else and eventfd2", "EPERM", fails));
    let verified = least(&rows, NeedsProgram::Driver);
    assert_eq!(
        (
            verified.suffices,
            verified.confirmed.len(),
            verified.doubtful.len()
        ),
        (Some(true), 1, 0)
    );
    assert_eq!(
        verified.needed, asked.needed,
        "what was refused together is no need of its own"
    );
}

#[test]
fn insufficient_set_is_completed_call_by_call() {
    let mut rows = controls(&[], &["fstat", "lseek"]);
    for call in ["fstat", "lseek"] {
        rows.extend(["EPERM", "ENOSYS"].map(|error| init(call, error, "CUDA_SUCCESS")));
    }
    rows.push(init(EVERYTHING_ELSE, "EPERM", "CUDA_ERROR_UNKNOWN"));
    assert_eq!(least(&rows, NeedsProgram::Driver).is_enough(), Some(false));
    let but =
        ["fstat", "lseek"].map(|call| format!("driver init everything else but {call} EPERM"));
    assert_eq!(keys(&rows), but);
    rows.push(init("everything else but fstat", "EPERM", "CUDA_SUCCESS"));
    rows.push(init(
        "everything else but lseek",
        "EPERM",
        "CUDA_ERROR_UNKNOWN",
    ));
    let found = least(&rows, NeedsProgram::Driver);
    assert_eq!(
        (found.is_enough(), &found.one_of),
        (Some(true), &BTreeSet::from(["fstat".to_string()]))
    );
    assert_eq!(found.at_once().0.keys().collect::<Vec<_>>(), ["lseek"]);
    let allowed = needed_permissions(&rows);
    assert!(
        allowed.system_calls.contains("fstat") && !allowed.refusable.contains_key("fstat"),
        "{allowed:?}"
    );
    assert_eq!(allowed.refusable.keys().collect::<Vec<_>>(), ["lseek"]);
    assert!(
        keys(&rows).is_empty(),
        "nothing is needed that could be taken away"
    );
}

#[test]
fn a_row_that_was_not_measured_is_not_asked_for_ever() {
    let mut rows = controls(&[], &["eventfd2"]);
    for error in ["EPERM", "ENOSYS"] {
        let mut unmeasured = row(
            NeedsProgram::Driver,
            NeedsMoment::Init,
            Some("eventfd2"),
            Some(error),
            "",
        );
        (
            unmeasured.statuses,
            unmeasured.gpus,
            unmeasured.standing.attempts,
        ) = (None, None, 0);
        rows.push(unmeasured);
    }
    assert!(keys(&rows).is_empty());
}

#[test]
fn a_filter_that_disturbs_is_noticed() {
    let mut rows = controls(&[], &[]);
    assert!(disturbed_controls(&rows).is_empty());
    let filtered = rows
        .iter_mut()
        .find(|row| row.key() == "nvml use nothing")
        .unwrap();
    filtered.statuses = Some(vec![ReturnedStatus {
        call: "nvmlInit_v2".to_string(),
        status: "NVML_ERROR_UNKNOWN".to_string(),
    }]);
    assert_eq!(disturbed_controls(&rows), ["nvml use no filter"]);
}

#[test]
fn where_no_filter_works_it_is_said_why() {
    let mut rows = controls(&[], &[]);
    assert_eq!(why_unfiltered(&rows), None);
    let why = crate::survey::Unmeasured {
        reason: cuda_pitfalls_core::verdict::Reason::MissingSymbol,
        detail: "no seccomp".to_string(),
    };
    rows.iter_mut()
        .find(|row| row.key() == "nvml use no filter")
        .unwrap()
        .standing
        .unmeasured = Some(why.clone());
    assert_eq!(why_unfiltered(&rows), None, "that row has no filter");
    rows.iter_mut()
        .find(|row| row.key() == "nvml use nothing")
        .unwrap()
        .standing
        .unmeasured = Some(why);
    assert_eq!(why_unfiltered(&rows), Some("no seccomp"));
}

#[test]
fn only_rows_with_a_refusal_are_no_controls() {
    let rows = controls(&[], &[]);
    assert!(rows.iter().all(KindRow::is_control));
    let refused = row(
        NeedsProgram::Driver,
        NeedsMoment::Init,
        Some("uname"),
        Some("EPERM"),
        "CUDA_SUCCESS",
    );
    assert!(!refused.is_control());
    let control = refused.control(&rows).expect("its control");
    assert_eq!(control.key(), "driver init nothing");
    assert!(!refused.differs_from(control));
    let fewer = NeedRow {
        gpus: Some(Vec::new()),
        ..refused.clone()
    };
    assert!(fewer.differs_from(control));
    let died = NeedRow {
        died: Some(Death {
            by: "SIGSEGV".to_string(),
            at: None,
        }),
        ..refused
    };
    assert!(died.differs_from(control));
}

#[test]
fn gpus_that_are_left_are_counted_anew_or_keep_their_ordinals() {
    let with = |seen: &[u32], failing: Option<&str>| {
        let status = |call: &str, status: &str| ReturnedStatus {
            call: call.to_string(),
            status: status.to_string(),
        };
        let uuids = ["cuDeviceGetUuid_v2 0", "cuDeviceGetUuid_v2 1"];
        let statuses = uuids.map(|call| {
            status(
                call,
                if failing == Some(call) {
                    "CUDA_ERROR"
                } else {
                    "CUDA_SUCCESS"
                },
            )
        });
        let row = row(
            NeedsProgram::Driver,
            NeedsMoment::Init,
            Some("/dev/nvidia0"),
            Some("EPERM"),
            "",
        );
        NeedRow {
            gpus: Some(seen.to_vec()),
            statuses: Some(statuses.to_vec()),
            ..row
        }
    };
    let control = with(&[0, 1], None);
    assert!(
        with(&[1], Some("cuDeviceGetUuid_v2 1")).is_counted_anew(&control),
        "the last ordinal is gone"
    );
    assert!(
        !with(&[1], Some("cuDeviceGetUuid_v2 0")).is_counted_anew(&control),
        "the first fails, and the second stays"
    );
    assert!(
        !with(&[], Some("cuDeviceGetUuid_v2 0")).is_counted_anew(&control),
        "none is left"
    );
    assert!(!control.is_counted_anew(&control));
}

#[test]
fn a_framework_is_refused_what_is_there_for_each_processor_at_once() {
    let mut rows = controls(&[("/dev/nvidia0", "openat", true)], &["ioctl"]);
    let used = || PathUse {
        calls: ["openat".to_string()].into(),
        exists: true,
        written: false,
    };
    let mut jax = row(
        NeedsProgram::Jax,
        NeedsMoment::Init,
        Some(NOTHING),
        None,
        "OK",
    );
    let files = [
        "/sys/bus/cpu/devices/cpu0/id",
        "/sys/bus/cpu/devices/cpu15/id",
        "/dev/nvidia0",
        "/proc/cpuinfo",
    ];
    jax.asked = vec![SystemUse {
        during: "import jax".to_string(),
        system_calls: [("ioctl", 3), ("pread64", 1), ("newfstatat", 9)]
            .map(|(call, n)| (call.to_string(), n))
            .into(),
        files: files.map(|path| (path.to_string(), used())).into(),
    }];
    rows.push(jax);
    let items = super::next(&rows, 1, 1, &[NeedsProgram::Jax], &|item| {
        item.row.key.starts_with("jax init")
    });
    let keys: Vec<String> = items.into_iter().map(|item| item.row.key).collect();
    assert!(
        keys.contains(&"jax init no filter".to_string()),
        "its control comes first: {keys:?}"
    );
    rows.push(row(NeedsProgram::Jax, NeedsMoment::Init, None, None, "OK"));
    let items = super::next(&rows, 1, 1, &[NeedsProgram::Jax], &|item| {
        item.row.key.starts_with("jax init")
    });
    let keys: Vec<String> = items.into_iter().map(|item| item.row.key).collect();
    let expected = [
        "/proc/cpuinfo EPERM",
        "/sys/bus/cpu/devices/cpu*/id EPERM",
        "pread64 EPERM",
    ]
    .map(|what| format!("jax init {what}"));
    assert_eq!(keys, expected);
}
