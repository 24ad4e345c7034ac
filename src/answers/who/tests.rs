use std::collections::BTreeMap;

use super::place::place_of;
use super::*;
use cuda_pitfalls_core::examination::{LibraryStart, StartCall, Started};
use cuda_pitfalls_core::holding::{
    AbsentProcess, DriverThread, ParentProcess, ProcessLibrary, UnreadProcess,
};
use cuda_pitfalls_core::sample::{Gpu, Reading};

use crate::exit::Exit;

const MIB: u64 = 1 << 20;

fn unused_gpu(index: u32) -> GpuState {
    GpuState {
        gpu: Gpu {
            device_minor: Some(index),
            ..cuda_pitfalls_core::plan::fixture::gpu(&format!("GPU-{index}"))
        },
        reading: Reading {
            used_bytes: Some(0),
            processes: Some(Vec::new()),
            ..Reading::default()
        },
        is_unstable: false,
        busy_percent: Some(BTreeMap::new()),
        graphics: Vec::new(),
        mps_clients: Vec::new(),
    }
}

/// Returns a scan of a host with this many GPUs that nothing uses.
fn scan_of(gpus: u32) -> HolderScan {
    HolderScan {
        uid: 0,
        is_first_namespace: Some(true),
        hides_others: false,
        module_version: Some("580.159.04".to_owned()),
        nvml: LibraryStart {
            library: Started::Nvml,
            changed: None,
            calls: vec![StartCall {
                call: "nvmlInit_v2".to_owned(),
                code: 0,
                status: "NVML_SUCCESS".to_owned(),
            }],
            seen: (0..gpus).map(|index| format!("GPU-{index}")).collect(),
            gpus: (0..gpus).map(unused_gpu).collect(),
            libraries: Vec::new(),
            missing: None,
            ended: None,
        },
        nvml_unix_ms: 100_000,
        sampled_ms: 0,
        processes: Vec::new(),
        unread: Vec::new(),
        absent: Vec::new(),
        users: BTreeMap::new(),
        ended: None,
    }
}

/// Lets NVML list a process on a GPU, with this memory in addition to what the driver uses for a context.
fn list_on(scan: &mut HolderScan, gpu: usize, pid: u32, bytes: u64) {
    let reading = &mut scan.nvml.gpus[gpu].reading;
    let others = reading.used_bytes.unwrap_or_default();
    let driver = DRIVER_BYTES.1 + if others == 0 { DRIVER_BYTES.0 } else { 0 };
    reading.used_bytes = Some(others + bytes + driver);
    reading.processes.get_or_insert_default().push(Process {
        pid,
        used_bytes: Some(bytes),
    });
}

/// Returns a process with these numbers of descriptors of `/dev/nvidia0` and of `/dev/nvidia1`, and these threads.
fn process_with(pid: u32, files: [u64; 2], threads: &[DriverThreadKind]) -> ProcessExamination {
    let mut open = BTreeMap::new();
    for (minor, count) in files.into_iter().enumerate() {
        if count > 0 {
            open.insert(format!("/dev/nvidia{minor}"), count);
            open.insert("/dev/nvidiactl".to_owned(), 2);
        }
    }
    let mut driver_threads = Vec::new();
    for (index, kind) in threads.iter().enumerate() {
        driver_threads.push(DriverThread {
            since_unix_ms: 1_000 * (index as u64 + 1),
            kind: *kind,
        });
    }
    ProcessExamination {
        pid,
        program: "/usr/bin/python3".to_owned(),
        state: Some('S'),
        started_unix_ms: Some(500),
        session: Some(pid),
        parent: Some(ParentProcess {
            pid: 2,
            session: Some(2),
            is_reaper: false,
        }),
        driver_threads,
        open_files: Some(open),
        mapped_files: Some(BTreeMap::new()),
        libraries: Some(vec![library_at(
            "libcuda",
            "/usr/lib/libcuda.so.580.159.04",
        )]),
        started_with: Some(BTreeMap::new()),
        now: Some(BTreeMap::new()),
        ..ProcessExamination::default()
    }
}

const DRIVER: DriverThreadKind = DriverThreadKind::Driver;
const CONTEXT: DriverThreadKind = DriverThreadKind::Context;

/// The only holder of a scan.
fn one_holder(scan: &HolderScan) -> GpuHolderProcess {
    let found = list_holders(scan);
    assert_eq!(found.holders.len(), 1, "{found:?}");
    found.holders[0].clone()
}

#[test]
fn kinds_are_those_of_the_measured_table() {
    // Descriptors of both GPUs, threads of the driver, whether NVML lists it on GPU 0, and what it is.
    let rows = [
        (
            "NVML only",
            [1, 1],
            &[DRIVER][..],
            false,
            HolderKind::NvmlOnly,
        ),
        (
            "after cuInit",
            [4, 4],
            &[DRIVER],
            false,
            HolderKind::Initialized,
        ),
        (
            "NVML, then cuInit",
            [7, 7],
            &[DRIVER],
            false,
            HolderKind::Initialized,
        ),
        (
            "one context",
            [20, 4],
            &[DRIVER, CONTEXT],
            true,
            HolderKind::Context,
        ),
        (
            "torch",
            [23, 7],
            &[DRIVER, CONTEXT],
            true,
            HolderKind::Context,
        ),
        (
            "contexts on both",
            [20, 20],
            &[DRIVER, CONTEXT, CONTEXT],
            true,
            HolderKind::Context,
        ),
        (
            "context destroyed",
            [4, 4],
            &[DRIVER],
            false,
            HolderKind::Initialized,
        ),
        (
            "child of a fork",
            [20, 4],
            &[],
            false,
            HolderKind::Inherited,
        ),
        (
            "checkpointed",
            [0, 0],
            &[DRIVER, CONTEXT],
            false,
            HolderKind::Checkpointed,
        ),
        (
            "descriptor only",
            [1, 0],
            &[],
            false,
            HolderKind::DescriptorOnly,
        ),
    ];
    for (name, files, threads, is_listed, kind) in rows {
        let mut scan = scan_of(2);
        if is_listed {
            list_on(&mut scan, 0, 9, 582 * MIB);
            scan.nvml.gpus[0].busy_percent = Some([(9, 30)].into());
        }
        scan.processes = vec![process_with(9, files, threads)];
        let holder = one_holder(&scan);
        let contexts = threads.iter().filter(|thread| **thread == CONTEXT).count();
        assert_eq!(
            (holder.kind, holder.contexts),
            (kind, Some(contexts)),
            "{name}"
        );
        assert_eq!(holder.conditions, [], "{name}");
        // The thread of a process that only reads NVML says nothing about CUDA.
        let has_since = threads.contains(&DRIVER) && kind != HolderKind::NvmlOnly;
        assert_eq!(holder.cuda_since_unix_ms.is_some(), has_since, "{name}");
        let context = (contexts > 0).then_some(2_000);
        assert_eq!(holder.context_since_unix_ms, context, "{name}");
    }
}

#[test]
fn clients_of_mps_are_told_from_their_server() {
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    list_on(&mut scan, 0, 10, 30 * MIB);
    scan.nvml.gpus[0].mps_clients = vec![9];
    let mut server = process_with(10, [20, 0], &[DRIVER, CONTEXT]);
    server.program = "/usr/bin/nvidia-cuda-mps-server".to_owned();
    server.is_program_of_root = true;
    scan.processes = vec![process_with(9, [16, 0], &[DRIVER, CONTEXT]), server];
    let found = list_holders(&scan);
    let kinds: Vec<_> = found.holders.iter().map(|holder| holder.kind).collect();
    assert_eq!(kinds, [HolderKind::MpsClient, HolderKind::MpsServer]);
    // Any user can give a program that name.
    scan.processes[1].is_program_of_root = false;
    scan.processes[1].command = "/usr/bin/nvidia-cuda-mps-server".to_owned();
    let found = list_holders(&scan);
    assert_eq!(found.holders[1].kind, HolderKind::Context);
}

#[test]
fn what_may_not_be_read_is_not_guessed() {
    let mut hidden = process_with(9, [0, 0], &[DRIVER]);
    (hidden.open_files, hidden.mapped_files, hidden.libraries) = (None, None, None);
    let mut scan = scan_of(1);
    scan.processes = vec![hidden.clone()];
    let holder = one_holder(&scan);
    assert_eq!(holder.kind, HolderKind::InitializedOrNvml);
    assert_eq!(
        (holder.cuda_since_unix_ms, holder.opened_gpus),
        (None, None)
    );
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.processes[0].driver_threads.clear();
    assert_eq!(one_holder(&scan).kind, HolderKind::Listed);
}

#[test]
fn absent_process_ended_or_lives_in_another_namespace() {
    for (is_first, is_alive, kind) in [
        (Some(true), Some(false), HolderKind::Ended),
        (Some(false), Some(false), HolderKind::Invisible),
        (None, None, HolderKind::Invisible),
        (Some(true), Some(true), HolderKind::Invisible),
    ] {
        let mut scan = scan_of(1);
        list_on(&mut scan, 0, 9, 582 * MIB);
        scan.is_first_namespace = is_first;
        scan.absent = vec![AbsentProcess { pid: 9, is_alive }];
        assert_eq!(one_holder(&scan).kind, kind, "{is_first:?} {is_alive:?}");
    }
}

#[test]
fn child_keeps_the_memory_of_an_ended_parent() {
    let mut scan = scan_of(2);
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.absent = vec![AbsentProcess {
        pid: 9,
        is_alive: Some(false),
    }];
    scan.processes = vec![
        process_with(10, [20, 4], &[]),
        process_with(11, [0, 4], &[DRIVER]),
    ];
    let found = list_holders(&scan);
    let [ended, child, other] = found.holders.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (ended.kind, ended.bytes()),
        (HolderKind::Ended, Some(582 * MIB))
    );
    assert_eq!(child.conditions, [Condition::Keeps { pid: 9 }]);
    assert_eq!(other.conditions, []);
    assert_eq!(found.gpus[1].keepers, [0_u32; 0]);
}

#[test]
fn process_without_anything_of_the_driver_only_has_the_pid() {
    let rule = HolderPolicy::Leftover(64 * MIB);
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.processes = vec![process_with(9, [0, 0], &[]), process_with(10, [20, 0], &[])];
    let found = list_holders(&scan);
    let [ended, child] = found.holders.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(ended.kind, HolderKind::Ended);
    assert_eq!((&ended.user, &ended.process), (&None, &None));
    assert_eq!(child.conditions, [Condition::Keeps { pid: 9 }]);
    assert_eq!(checked(&scan, &rule).2, Exit::Unexpected);
    scan.is_first_namespace = Some(false);
    assert_eq!(list_holders(&scan).holders[0].kind, HolderKind::Invisible);
    assert_eq!(checked(&scan, &rule).2, Exit::Inconclusive);
    // It is ending, and the driver does not let it.
    scan.processes[0].mapped_files = None;
    scan.processes[0].state = Some('D');
    let ending = &list_holders(&scan).holders[0];
    assert_eq!(ending.conditions, [Condition::Unkillable]);
}

#[test]
fn memory_of_no_process_is_the_rest() {
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    *scan.nvml.gpus[0]
        .reading
        .used_bytes
        .as_mut()
        .expect("a number") += 200 * MIB;
    scan.processes = vec![process_with(9, [20, 0], &[DRIVER, CONTEXT])];
    let account = &list_holders(&scan).gpus[0];
    assert_eq!(account.listed_bytes, Some(582 * MIB));
    let (unowned, driver) = (account.unowned_bytes, account.driver_bytes);
    assert_eq!(
        unowned.map(|unowned| unowned + driver),
        Some(200 * MIB + DRIVER_BYTES.0 + DRIVER_BYTES.1)
    );
    // The estimate of the driver's part may be 2 MiB wrong.
    assert!(unowned.is_some_and(|unowned| unowned.abs_diff(200 * MIB) <= 2 * MIB));
    // Names of threads do not make it the driver's.
    let mut threads = vec![CONTEXT; 700];
    threads.push(DRIVER);
    scan.processes = vec![process_with(9, [9_000, 0], &threads)];
    let unowned = list_holders(&scan).gpus[0].unowned_bytes;
    assert!(unowned.is_some_and(|unowned| unowned > 190 * MIB));
    // One number that NVML keeps to itself makes the rest unknown.
    scan.nvml.gpus[0].reading.processes = None;
    let account = &list_holders(&scan).gpus[0];
    assert_eq!((account.listed_bytes, account.unowned_bytes), (None, None));
}

#[test]
fn orphans_were_adopted_and_began_no_session() {
    // The process is 9: its session, its parent's session, whether that adopts orphans, whether 9 is an orphan.
    for (own, parents, is_reaper, is_orphan) in [
        (5, Some(1), true, true),
        // A service, and a daemon that was started to outlive its parent.
        (9, Some(1), true, false),
        // The first process of a container started it.
        (1, Some(1), true, false),
        (5, Some(5), true, false),
        (5, Some(1), false, false),
    ] {
        let mut scan = scan_of(1);
        let mut process = process_with(9, [4, 0], &[DRIVER]);
        process.session = Some(own);
        process.parent = Some(ParentProcess {
            pid: 1,
            session: parents,
            is_reaper,
        });
        scan.processes = vec![process];
        let expected: &[Condition] = if is_orphan { &[Condition::Orphan] } else { &[] };
        assert_eq!(
            one_holder(&scan).conditions,
            expected,
            "{own} {parents:?} {is_reaper}"
        );
    }
}

#[test]
fn states_of_a_process_are_conditions() {
    for (state, condition) in [
        ('T', Some(Condition::Stopped)),
        ('D', Some(Condition::Unkillable)),
        ('Z', Some(Condition::Zombie)),
        ('R', None),
    ] {
        let mut scan = scan_of(1);
        let mut process = process_with(9, [4, 0], &[DRIVER]);
        process.state = Some(state);
        scan.processes = vec![process];
        let expected: Vec<_> = condition.into_iter().collect();
        assert_eq!(one_holder(&scan).conditions, expected, "{state}");
    }
}

#[test]
fn mask_or_library_with_free_text_is_redacted() {
    let mut scan = scan_of(1);
    let libraries = ["/usr/lib/libcuda.so.580.159.04", "/a/libcuda.so.SECRETLIB"];
    scan.processes = vec![process_with(9, [4, 0], &[DRIVER])];
    scan.processes[0].libraries = Some(libraries.map(|path| library_at("libcuda", path)).into());
    for (mask, is_kept) in [("0,1", true), ("-1", true), ("MYSECRETMASK", false)] {
        scan.processes[0].now = Some([("CUDA_VISIBLE_DEVICES".to_owned(), mask.to_owned())].into());
        let redacted = list_holders(&scan).redact();
        let text = serde_json::to_string(&redacted.holders).expect("text");
        assert_eq!(text.contains(mask), is_kept, "{mask}");
        assert!(!text.contains("SECRETLIB") && text.contains("libcuda.so.580.159.04"));
    }
}

#[test]
fn place_is_named_by_the_control_groups() {
    use PlaceKind::{Container, Job, Pod, Service};
    let id = "0123456789abcdef".repeat(4);
    let uid = "5a4c1f2e-0b1d-4c57-9f3e-8d2a6b7c9e01";
    for (group, place) in [
        (
            "/system.slice/slurmstepd.scope/job_815/step_0/user/task_0".to_owned(),
            Some((Job, "815")),
        ),
        (
            "/slurm/uid_1000/job_815/step_batch".to_owned(),
            Some((Job, "815")),
        ),
        (
            format!("/kubepods/besteffort/pod{uid}/{id}"),
            Some((Pod, uid)),
        ),
        (format!("/docker/{id}"), Some((Container, "0123456789ab"))),
        (
            format!("/system.slice/docker-{id}.scope"),
            Some((Container, "0123456789ab")),
        ),
        (
            format!("/machine.slice/libpod-{id}.scope"),
            Some((Container, "0123456789ab")),
        ),
        // A container can name the groups inside of it.
        (
            format!("/docker/{id}/slurm/job_4711"),
            Some((Container, "0123456789ab")),
        ),
        (
            format!("/docker/{id}/{}", "f".repeat(64)),
            Some((Container, "0123456789ab")),
        ),
        (
            "/system.slice/ollama.service".to_owned(),
            Some((Service, "ollama")),
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome.scope".to_owned(),
            None,
        ),
        (
            "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            None,
        ),
        ("/".to_owned(), None),
    ] {
        let process = ProcessExamination {
            control_groups: vec![group.clone()],
            ..ProcessExamination::default()
        };
        let found = place_of(&process);
        let found = found
            .as_ref()
            .map(|place| (place.kind, place.id.as_str(), place.is_claimed));
        let expected = place.map(|(kind, id)| (kind, id, false));
        assert_eq!(found, expected, "{group}");
    }
    for group in [
        "/user.slice/user-1.slice/user@1.service/slurm/job_815",
        "/lxc.payload.web/slurm/job_815",
        "/lxc/web/slurm/job_815",
        "/machine.slice/machine-web.scope/payload/slurm/job_815",
    ] {
        let process = ProcessExamination {
            control_groups: vec![group.to_owned()],
            ..ProcessExamination::default()
        };
        let place = place_of(&process).expect("a job");
        assert!(place.is_claimed, "{group}");
    }
    let claims = ProcessExamination {
        started_with: Some([("SLURM_JOB_ID".to_owned(), "7".to_owned())].into()),
        ..ProcessExamination::default()
    };
    let place = place_of(&claims).expect("a job");
    assert_eq!(
        (place.kind, place.id.as_str(), place.is_claimed),
        (Job, "7", true)
    );
}

#[test]
fn pod_in_a_slice_of_systemd_is_named() {
    let id = "0123456789abcdef".repeat(4);
    for slice in [
        "kubepods-burstable.slice/kubepods-burstable-pod",
        "kubepods-pod",
    ] {
        let uid = "5a4c1f2e_0b1d_4c57_9f3e_8d2a6b7c9e01";
        let group = format!("/kubepods.slice/{slice}{uid}.slice/cri-containerd-{id}.scope");
        let process = ProcessExamination {
            control_groups: vec![group.clone()],
            ..ProcessExamination::default()
        };
        let place = place_of(&process).expect("a pod");
        assert_eq!(
            (place.kind, place.id),
            (PlaceKind::Pod, uid.replace('_', "-"))
        );
    }
}

/// Returns the rules that are violated, and whether anything is undecided, with the exit code.
fn checked(scan: &HolderScan, rule: &HolderPolicy) -> (usize, usize, Exit) {
    let mut found = list_holders(scan);
    found.check(std::slice::from_ref(rule));
    let outcome = found.policy.as_ref().expect("it was checked");
    (
        outcome.violations.len(),
        outcome.undecided.len(),
        found.exit(),
    )
}

#[test]
fn holders_are_forbidden_unless_they_only_read_nvml() {
    let rule = HolderPolicy::Holders;
    let mut scan = scan_of(1);
    assert_eq!(checked(&scan, &rule), (0, 0, Exit::Ok));
    scan.processes = vec![process_with(9, [1, 0], &[DRIVER])];
    assert_eq!(checked(&scan, &rule), (0, 0, Exit::Ok));
    // It may look like that, and have memory that another process exported.
    scan.nvml.gpus[0].reading.used_bytes = Some(2 * MIB);
    assert_eq!(checked(&scan, &rule), (0, 1, Exit::Inconclusive));
    scan.nvml.gpus[0].reading.used_bytes = Some(0);
    // Open files that could not be read decide nothing where memory is in use.
    scan.unread = vec![UnreadProcess {
        pid: 8,
        uid: Some(7),
        error: "EACCES".to_owned(),
    }];
    assert_eq!(
        checked(&scan, &rule),
        (0, 0, Exit::Ok),
        "no memory is in use"
    );
    scan.unread[0].error = "hang".to_owned();
    assert_eq!(
        checked(&scan, &rule),
        (0, 1, Exit::Inconclusive),
        "a process hides"
    );
    scan.unread[0].error = "EACCES".to_owned();
    scan.nvml.gpus[0].reading.used_bytes = Some(DRIVER_BYTES.0);
    assert_eq!(checked(&scan, &rule), (0, 2, Exit::Inconclusive));
    scan.processes = vec![process_with(9, [4, 0], &[DRIVER])];
    let (violations, _, exit) = checked(&scan, &rule);
    assert_eq!((violations, exit), (1, Exit::Unexpected));
}

#[test]
fn first_process_is_no_orphan_and_unused_gpu_is_not_idle() {
    let idle = HolderPolicy::Idle(std::time::Duration::from_secs(60));
    let mut scan = scan_of(1);
    for (pid, orphans) in [(1, Exit::Ok), (8, Exit::Inconclusive)] {
        scan.unread = vec![UnreadProcess {
            pid,
            uid: Some(0),
            error: "EACCES".to_owned(),
        }];
        assert_eq!(checked(&scan, &HolderPolicy::Orphans).2, orphans, "{pid}");
        assert_eq!(checked(&scan, &idle).2, Exit::Ok, "{pid}");
    }
    scan.nvml.gpus[0].reading.used_bytes = Some(DRIVER_BYTES.0);
    assert_eq!(checked(&scan, &idle).2, Exit::Inconclusive);
}

#[test]
fn leftover_is_undecided_where_nvml_is_silent() {
    let rule = HolderPolicy::Leftover(64 * MIB);
    let mut scan = scan_of(1);
    for (used, violations) in [(MIB, 0), (60 * MIB, 0), (80 * MIB, 1)] {
        scan.nvml.gpus[0].reading.used_bytes = Some(used);
        assert_eq!(checked(&scan, &rule).0, violations, "{used}");
    }
    scan.nvml.gpus[0].reading.used_bytes = None;
    assert_eq!(checked(&scan, &rule), (0, 1, Exit::Inconclusive));
    // NVML lists a process that has ended: its memory is left over too.
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.absent = vec![AbsentProcess {
        pid: 9,
        is_alive: Some(false),
    }];
    assert_eq!(checked(&scan, &rule).0, 1);
}

#[test]
fn memory_of_an_invisible_process_does_not_pass() {
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.is_first_namespace = Some(false);
    scan.absent = vec![AbsentProcess {
        pid: 9,
        is_alive: Some(false),
    }];
    let (_, _, exit) = checked(&scan, &HolderPolicy::Leftover(64 * MIB));
    assert_ne!(exit, Exit::Ok);
}

#[test]
fn memory_of_a_pid_that_was_given_away_is_left_over() {
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    let mut other = process_with(9, [0, 0], &[]);
    other.started_unix_ms = Some(scan.nvml_unix_ms + 1_000);
    scan.processes = vec![other];
    let rule = HolderPolicy::Leftover(64 * MIB);
    assert_eq!(checked(&scan, &rule).2, Exit::Unexpected);
    // A process that was not reached in time may be the owner.
    scan.processes.clear();
    scan.unread = vec![UnreadProcess {
        pid: 9,
        uid: None,
        error: "hang".to_owned(),
    }];
    assert_eq!(checked(&scan, &rule).2, Exit::Inconclusive);
}

#[test]
fn idle_is_undecided_until_samples_reach_far_enough() {
    let rule = HolderPolicy::Idle(std::time::Duration::from_secs(60));
    let mut scan = scan_of(1);
    list_on(&mut scan, 0, 9, 582 * MIB);
    scan.processes = vec![process_with(9, [20, 0], &[DRIVER, CONTEXT])];
    scan.sampled_ms = 10_000;
    assert_eq!(checked(&scan, &rule), (0, 1, Exit::Inconclusive));
    scan.sampled_ms = 61_000;
    assert_eq!(checked(&scan, &rule), (1, 0, Exit::Unexpected));
    scan.nvml.gpus[0].busy_percent = Some([(9, 3)].into());
    assert_eq!(checked(&scan, &rule), (0, 0, Exit::Ok));
    scan.nvml.gpus[0].busy_percent = None;
    assert_eq!(checked(&scan, &rule), (0, 1, Exit::Inconclusive));
}

fn library_at(library: &str, path: &str) -> ProcessLibrary {
    ProcessLibrary {
        library: library.to_owned(),
        path: path.to_owned(),
        is_deleted: false,
    }
}

#[test]
fn process_is_judged_by_what_it_holds() {
    let mut scan = scan_of(2);
    list_on(&mut scan, 0, 9, MIB);
    list_on(&mut scan, 1, 9, MIB);
    scan.nvml.gpus[0].busy_percent = Some([(9, 50)].into());
    scan.nvml.gpus[1].busy_percent = Some([(9, 20)].into());
    let mut process = process_with(9, [20, 20], &[DRIVER, CONTEXT, CONTEXT]);
    process.libraries = Some(vec![
        library_at("libcuda", "/usr/lib/libcuda.so.580.159.04"),
        library_at("libcudart", "/a"),
        library_at("libcudart", "/b"),
    ]);
    scan.processes = vec![process];
    assert_eq!(judged(&scan), (Vec::new(), Exit::Ok));
    // Set too late: CUDA has more GPUs than the variable selects.
    scan.processes[0].now = Some([("CUDA_VISIBLE_DEVICES".to_owned(), "1".to_owned())].into());
    let late = ProcessProblem::MaskLate {
        now: "1".to_owned(),
        opened: 2,
    };
    assert_eq!(judged(&scan), (vec![late], Exit::Unexpected));
    // Set in time, by the program itself. NVML, if it is used too, opens the file of the other GPU once.
    for others in [0, 1, 3] {
        scan.processes[0].open_files = process_with(9, [others, 20], &[]).open_files;
        assert_eq!(judged(&scan), (Vec::new(), Exit::Ok), "{others}");
    }
    scan.nvml.gpus[0].busy_percent = Some([(9, 0)].into());
    let stray = ProcessProblem::Stray {
        gpu: 0,
        watched_ms: 10_000,
    };
    assert_eq!(judged(&scan), (vec![stray], Exit::Unexpected));
    scan.nvml.gpus.clear();
    let paths = [
        "/usr/lib/libcuda.so.580.159.04",
        "/compat/libcuda.so.580.95.05",
    ];
    scan.processes[0].libraries = Some(paths.map(|path| library_at("libcuda", path)).into());
    let module = "580.159.04".to_owned();
    let both = vec![
        ProcessProblem::LoadedTwice {
            paths: paths.map(str::to_owned).into(),
        },
        ProcessProblem::OtherVersion {
            path: paths[1].to_owned(),
            module,
        },
    ];
    assert_eq!(judged(&scan), (both, Exit::Unexpected));
}

/// Returns the problems of the only process, and the exit code of `who PID`.
fn judged(scan: &HolderScan) -> (Vec<ProcessProblem>, Exit) {
    let found = list_holders(scan);
    let exit = found.exit_of_process(9);
    (one_holder(scan).problems, exit)
}

#[test]
fn process_is_undecided_without_its_files_or_nvml() {
    let mut scan = scan_of(1);
    scan.processes = vec![process_with(9, [4, 0], &[DRIVER])];
    assert_eq!(judged(&scan).1, Exit::Ok);
    scan.nvml.calls[0].code = 999;
    assert_eq!(judged(&scan).1, Exit::Inconclusive);
    // Nothing of it is on a GPU.
    scan.processes = vec![process_with(9, [0, 0], &[])];
    assert_eq!(judged(&scan).1, Exit::Ok);
    scan.nvml.calls[0].code = 0;
    scan.processes[0].open_files = None;
    assert_eq!(judged(&scan).1, Exit::Inconclusive);
    assert_eq!(list_holders(&scan).exit_of_process(8), Exit::Inconclusive);
}

#[test]
fn unstable_memory_decides_no_leftover() {
    let rule = HolderPolicy::Leftover(64 * MIB);
    for used in [MIB, 900 * MIB] {
        let mut scan = scan_of(1);
        scan.nvml.gpus[0].reading.used_bytes = Some(used);
        scan.nvml.gpus[0].is_unstable = true;
        assert_eq!(checked(&scan, &rule), (0, 1, Exit::Inconclusive), "{used}");
        let account = &list_holders(&scan).gpus[0];
        assert_eq!((account.is_stable, account.unowned_bytes), (false, None));
        // Which processes there are is known.
        assert_eq!(checked(&scan, &HolderPolicy::Orphans), (0, 0, Exit::Ok));
    }
}

#[test]
fn gpu_without_memory_of_its_own_is_no_failure_of_nvml() {
    let mut scan = scan_of(1);
    let reading = &mut scan.nvml.gpus[0].reading;
    reading.used_bytes = None;
    for function in ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"] {
        let error = format!("{function}: NVML_ERROR_NOT_SUPPORTED");
        reading.errors.push(error);
    }
    let found = list_holders(&scan);
    assert_eq!(found.unseen, []);
    assert_eq!(checked(&scan, &HolderPolicy::Holders), (0, 0, Exit::Ok));
    let leftover = HolderPolicy::Leftover(64 * MIB);
    assert_eq!(checked(&scan, &leftover), (0, 1, Exit::Inconclusive));
    let lost = "nvmlDeviceGetMemoryInfo_v2: NVML_ERROR_GPU_IS_LOST".to_owned();
    scan.nvml.gpus[0].reading.errors.push(lost);
    assert_eq!(checked(&scan, &HolderPolicy::Holders).2, Exit::Inconclusive);
}
