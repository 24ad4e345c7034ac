use super::*;
use cuda_pitfalls_core::event::MappedLibrary;
use cuda_pitfalls_core::examination::{CallTry, HostState, KernelGpu};
use cuda_pitfalls_core::sample::{Gpu, Process, Reading};

fn status(call: &str, code: i64, status: &str) -> StartCall {
    StartCall {
        call: call.to_string(),
        code,
        status: status.to_string(),
    }
}

fn start(library: Started, calls: Vec<StartCall>, seen: &[&str]) -> LibraryStart {
    LibraryStart {
        library,
        changed: None,
        calls,
        seen: seen.iter().map(|uuid| (*uuid).to_string()).collect(),
        gpus: Vec::new(),
        libraries: Vec::new(),
        missing: None,
        ended: None,
    }
}

fn good(library: Started) -> LibraryStart {
    let call = if library == Started::Driver {
        "cuInit"
    } else {
        "nvmlInit_v2"
    };
    start(library, vec![status(call, 0, "SUCCESS")], &["GPU-a"])
}

fn failing(code: i64, name: &str) -> LibraryStart {
    start(Started::Driver, vec![status("cuInit", code, name)], &[])
}

/// Returns a place with one GPU, and these starts.
fn here(starts: Vec<LibraryStart>) -> Examination {
    let place = HostState {
        module_version: Some("580.159.04".to_string()),
        gpus: vec![KernelGpu {
            device_minor: 0,
            uuid: Some("GPU-a".to_string()),
        }],
        pci_gpus: Some(1),
        majors: [("nvidia", 195), ("nvidia-uvm", 238)]
            .map(|(name, major)| (name.to_string(), major))
            .into(),
        ..HostState::default()
    };
    Examination {
        place,
        starts,
        ..Examination::default()
    }
}

fn file(file: &str, error: Option<&str>, device: Option<(u32, u32)>) -> FileTry {
    FileTry {
        file: file.to_string(),
        error: error.map(str::to_string),
        mode: Some(0o666),
        owner: Some((0, 0)),
        device,
    }
}

fn need(
    program: NeedsProgram,
    refused: &str,
    errors: &[&str],
    call: &str,
    status: &str,
) -> NeedFacts {
    NeedFacts {
        program,
        refused: refused.to_string(),
        errors: errors.iter().map(|error| (*error).to_string()).collect(),
        call: call.to_string(),
        status: status.to_string(),
        is_written: false,
        on: String::new(),
    }
}

fn needs() -> Vec<NeedFacts> {
    vec![
        need(
            NeedsProgram::Driver,
            "/dev/nvidia-uvm",
            &["EPERM", "ENOENT"],
            "cuInit",
            "CUDA_ERROR_UNKNOWN",
        ),
        need(
            NeedsProgram::Driver,
            "/dev/nvidia0",
            &["EPERM"],
            "cuInit",
            "CUDA_ERROR_NO_DEVICE",
        ),
        need(
            NeedsProgram::Driver,
            "eventfd2",
            &["EPERM"],
            "cuInit",
            "CUDA_ERROR_OPERATING_SYSTEM",
        ),
    ]
}

fn sure(diagnosed: &Diagnosed) -> Vec<&Trouble> {
    diagnosed
        .causes
        .iter()
        .filter(|one| one.sureness < Sureness::Next)
        .map(|one| &one.cause)
        .collect()
}

#[test]
fn where_everything_works_nothing_is_named() {
    let mut examination = here(vec![good(Started::Driver), good(Started::Nvml)]);
    // A denial without an effect is not a cause.
    examination.system_calls = vec![CallTry {
        call: "eventfd2".to_string(),
        error: Some("EPERM".to_string()),
    }];
    let diagnosed = diagnose_start(&examination, &needs());
    assert_eq!(
        (
            diagnosed.state,
            diagnosed.causes.len(),
            diagnosed.hidden.len()
        ),
        (DoctorState::Healthy, 0, 0)
    );
    assert_eq!(diagnosed.state.exit(), Exit::Ok);
}

#[test]
fn denial_is_blamed_only_for_its_measured_error() {
    let mut examination = here(vec![
        failing(999, "CUDA_ERROR_UNKNOWN"),
        good(Started::Nvml),
    ]);
    examination.files = vec![
        file("/dev/nvidia-uvm", Some("ENOENT"), None),
        file("/dev/nvidia0", Some("EPERM"), None),
    ];
    let diagnosed = diagnose_start(&examination, &needs());
    let [uvm, gpu] = diagnosed.causes.as_slice() else {
        panic!("{diagnosed:?}")
    };
    assert!(matches!(&uvm.cause, Trouble::File { path, .. } if path == "/dev/nvidia-uvm"));
    assert_eq!(
        (uvm.sureness, gpu.sureness),
        (Sureness::Measured, Sureness::Next)
    );
    assert_eq!(diagnosed.state, DoctorState::Found);
    // With an error that was not measured, it is only a possible cause, so the cause is unknown.
    examination.files = vec![file("/dev/nvidia-uvm", Some("EIO"), None)];
    let diagnosed = diagnose_start(&examination, &needs());
    assert_eq!(
        (diagnosed.state, sure(&diagnosed).len()),
        (DoctorState::Unknown, 0)
    );
    assert_eq!(diagnosed.state.exit(), Exit::Inconclusive);
}

#[test]
fn what_holds_of_the_first_gpu_s_file_holds_of_each() {
    let mut examination = here(vec![
        failing(100, "CUDA_ERROR_NO_DEVICE"),
        good(Started::Nvml),
    ]);
    examination.files = vec![file("/dev/nvidia3", Some("EPERM"), Some((195, 3)))];
    assert_eq!(sure(&diagnose_start(&examination, &needs())).len(), 1);
    assert_eq!(
        (
            file_pattern("/dev/nvidia-uvm"),
            file_pattern("/dev/nvidiactl")
        ),
        ("/dev/nvidia-uvm", "/dev/nvidiactl")
    );
}

#[test]
fn denied_syscall_is_found_only_for_its_error() {
    let mut examination = here(vec![
        failing(304, "CUDA_ERROR_OPERATING_SYSTEM"),
        good(Started::Nvml),
    ]);
    let tried = |call: &str, error: &str| CallTry {
        call: call.to_string(),
        error: Some(error.to_string()),
    };
    examination.system_calls = vec![tried("eventfd2", "EPERM"), tried("mbind", "EPERM")];
    let diagnosed = diagnose_start(&examination, &needs());
    let eventfd = Trouble::SystemCall {
        call: "eventfd2".to_string(),
        error: "EPERM".to_string(),
    };
    assert_eq!(sure(&diagnosed), [&eventfd]);
    assert_eq!(diagnosed.causes.len(), 2);
}

#[test]
fn where_no_process_starts_it_is_said_what_keeps_it() {
    let not_started = LibraryStart {
        ended: Some(StartEnd::not_started("Operation not permitted")),
        ..start(Started::Driver, Vec::new(), &[])
    };
    let mut examination = here(vec![not_started]);
    examination.system_calls = vec![CallTry {
        call: "eventfd2".to_string(),
        error: Some("EPERM".to_string()),
    }];
    assert_eq!(
        diagnose_start(&examination, &needs()).state,
        DoctorState::Found
    );
}

#[test]
fn a_driver_that_a_sandbox_hides_is_not_missing() {
    let mut examination = here(vec![
        failing(304, "CUDA_ERROR_OPERATING_SYSTEM"),
        good(Started::Nvml),
    ]);
    examination.place.module_version = None;
    assert_eq!(diagnose_start(&examination, &needs()).causes, []);
    examination.starts.pop();
    assert!(matches!(
        sure(&diagnose_start(&examination, &needs())).as_slice(),
        [Trouble::NoModule]
    ));
}

#[test]
fn a_folder_with_the_wrong_libcuda_is_said_once() {
    let path = "/compat/libcuda.so.580.95.05".to_string();
    let library = MappedLibrary {
        name: "libcuda".to_string(),
        path,
        simulated: false,
    };
    let wrong = LibraryStart {
        libraries: vec![library],
        ..failing(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")
    };
    let folder = StartChange::WithoutFolder {
        folder: "/compat".to_string(),
    };
    let right = LibraryStart {
        changed: Some(folder),
        ..good(Started::Driver)
    };
    let diagnosed = diagnose_start(&here(vec![wrong, right, good(Started::Nvml)]), &needs());
    let [only] = diagnosed.causes.as_slice() else {
        panic!("{diagnosed:?}")
    };
    assert!(
        matches!(only.cause, Trouble::OtherVersion { .. }) && only.sureness == Sureness::Proved
    );
}

#[test]
fn what_cuda_starts_without_is_proved() {
    let changed = LibraryStart {
        changed: Some(StartChange::Without {
            variable: "CUDA_VISIBLE_DEVICES".to_string(),
        }),
        ..good(Started::Driver)
    };
    let in_vain = LibraryStart {
        changed: Some(StartChange::Without {
            variable: "CUDA_DEVICE_ORDER".to_string(),
        }),
        ..failing(100, "CUDA_ERROR_NO_DEVICE")
    };
    let starts = vec![
        failing(100, "CUDA_ERROR_NO_DEVICE"),
        good(Started::Nvml),
        in_vain,
        changed,
    ];
    let mut examination = here(starts);
    examination
        .place
        .environment
        .insert("CUDA_VISIBLE_DEVICES".to_string(), "7".to_string());
    let diagnosed = diagnose_start(&examination, &needs());
    let [only] = diagnosed.causes.as_slice() else {
        panic!("{diagnosed:?}")
    };
    assert_eq!(only.sureness, Sureness::Proved);
    assert!(matches!(&only.cause, Trouble::Environment { value: Some(value), .. } if value == "7"));
}

#[test]
fn a_file_that_is_not_the_device_is_named() {
    let mut examination = here(vec![
        failing(999, "CUDA_ERROR_UNKNOWN"),
        good(Started::Nvml),
    ]);
    examination.files = vec![
        file("/dev/nvidia-uvm", None, Some((1, 3))),
        file("/dev/nvidiactl", None, Some((195, 255))),
    ];
    let diagnosed = diagnose_start(&examination, &needs());
    let null = Trouble::NotTheDevice {
        path: "/dev/nvidia-uvm".to_string(),
        device: Some((1, 3)),
    };
    assert_eq!(
        diagnosed.causes,
        [Reasoned {
            cause: null,
            sureness: Sureness::Measured
        }]
    );
}

#[test]
fn libraries_that_do_not_fit_the_kernel_are_named() {
    let mapped = |path: &str| MappedLibrary {
        name: "libcuda".to_string(),
        path: path.to_string(),
        simulated: false,
    };
    let with = |path: &str, code: i64, name: &str| {
        let start = LibraryStart {
            libraries: vec![mapped(path)],
            ..failing(code, name)
        };
        diagnose_start(&here(vec![start, good(Started::Nvml)]), &needs())
    };
    let other = with(
        "/compat/libcuda.so.580.95.05",
        803,
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    );
    assert!(matches!(
        sure(&other).as_slice(),
        [Trouble::OtherVersion { .. }]
    ));
    let possible = with("/compat/libcuda.so.580.95.05", 999, "CUDA_ERROR_UNKNOWN");
    assert_eq!(
        (possible.state, possible.causes.len()),
        (DoctorState::Unknown, 1)
    );
    let stub = with(
        "/usr/local/cuda/lib64/stubs/libcuda.so",
        34,
        "CUDA_ERROR_STUB_LIBRARY",
    );
    assert!(matches!(sure(&stub).as_slice(), [Trouble::Stub { .. }]));
    let own = with("/usr/lib/libcuda.so.580.159.04", 999, "CUDA_ERROR_UNKNOWN");
    assert_eq!(own.causes, []);
}

#[test]
fn a_machine_without_a_gpu_is_not_ill() {
    let missing = LibraryStart {
        missing: Some("libcuda.so.1: cannot open".to_string()),
        ..start(Started::Driver, Vec::new(), &[])
    };
    let mut examination = here(vec![missing]);
    examination.place = HostState {
        pci_gpus: Some(0),
        ..HostState::default()
    };
    assert_eq!(diagnose_start(&examination, &[]).state, DoctorState::NoGpu);
    // The bus cannot be read in a container, so it is unknown whether there is a GPU.
    examination.place.pci_gpus = None;
    let diagnosed = diagnose_start(&examination, &[]);
    assert_eq!(diagnosed.state, DoctorState::Found);
    assert!(matches!(
        sure(&diagnosed).as_slice(),
        [Trouble::NoModule, Trouble::NoLibrary { .. }]
    ));
}

#[test]
fn a_gpu_without_memory_or_for_one_process_alone_is_named() {
    let state = |used: u64, mode: &str| GpuState {
        gpu: Gpu {
            uuid: "GPU-a".to_string(),
            total_bytes: Some(80 << 30),
            reserved_bytes: Some(0),
            compute_mode: Some(mode.to_string()),
            ..gpu()
        },
        reading: Reading {
            used_bytes: Some(used),
            processes: Some(vec![Process {
                pid: 7,
                used_bytes: Some(used),
            }]),
            ..Reading::default()
        },
        is_unstable: false,
        busy_percent: None,
        graphics: Vec::new(),
        mps_clients: Vec::new(),
    };
    let with = |used: u64, mode: &str, code: i64, name: &str| {
        let retain = status("cuDevicePrimaryCtxRetain", code, name);
        let driver = start(
            Started::Driver,
            vec![status("cuInit", 0, "CUDA_SUCCESS"), retain],
            &["GPU-a"],
        );
        let nvml = LibraryStart {
            gpus: vec![state(used, mode)],
            ..good(Started::Nvml)
        };
        diagnose_start(&here(vec![driver, nvml]), &[])
    };
    let full = with(80 << 30, "Default", 2, "CUDA_ERROR_OUT_OF_MEMORY");
    assert!(
        matches!(
            sure(&full).as_slice(),
            [Trouble::Full { free_bytes: 0, .. }]
        ),
        "{full:?}"
    );
    let exclusive = with(
        1 << 30,
        "ExclusiveProcess",
        46,
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
    );
    assert!(
        matches!(sure(&exclusive).as_slice(), [Trouble::Exclusive { pids, .. }] if pids == &[7])
    );
    assert_eq!(
        with(1 << 30, "Default", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE").state,
        DoctorState::Unknown
    );
}

fn gpu() -> Gpu {
    Gpu {
        device_minor: Some(0),
        ..cuda_pitfalls_core::plan::fixture::gpu("")
    }
}

#[test]
fn a_gpu_that_a_mask_hides_is_no_fault() {
    let mut examination = here(vec![
        good(Started::Driver),
        good(Started::Nvml),
        LibraryStart {
            changed: Some(StartChange::Without {
                variable: "CUDA_VISIBLE_DEVICES".to_string(),
            }),
            seen: vec!["GPU-a".to_string(), "GPU-b".to_string()],
            ..good(Started::Driver)
        },
    ]);
    let more = |device_minor: u32, uuid: &str| KernelGpu {
        device_minor,
        uuid: Some(uuid.to_string()),
    };
    examination
        .place
        .gpus
        .extend([more(1, "GPU-b"), more(2, "GPU-c")]);
    examination.files = vec![file("/dev/nvidia2", Some("EPERM"), Some((195, 2)))];
    let diagnosed = diagnose_start(&examination, &needs());
    assert_eq!(
        (diagnosed.state, diagnosed.causes.len()),
        (DoctorState::Healthy, 0)
    );
    let [masked, closed] = diagnosed.hidden.as_slice() else {
        panic!("{diagnosed:?}")
    };
    assert!(
        matches!(masked.by, Some(Trouble::Environment { .. }))
            && matches!(closed.by, Some(Trouble::File { .. }))
    );
}
