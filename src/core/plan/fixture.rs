//! Machines and scenarios for tests.

use crate::machine::{Isolation, Machine};
use crate::sample::Gpu;
use crate::scenario::{Case, Gpus, Instance, Needs, Scenario, Step};

/// A machine with this many GPUs: `GPU-0`, `GPU-1`, ….
pub fn machine(gpus: usize) -> Machine {
    Machine {
        driver_version: Some("580.159.04".into()),
        cuda_driver_version: Some(13000),
        nvml_version: None,
        gpus: (0..gpus).map(|place| gpu(&format!("GPU-{place}"))).collect(),
        libraries: Vec::new(),
        libcudart: Vec::new(),
        kernel: None,
        architecture: "x86_64".into(),
        isolation: Isolation::default(),
        environment: Default::default(),
        mps: false,
        pci_gpus: None,
        python: None,
        unavailable: Vec::new(),
    }
}

/// A GPU with this UUID.
pub fn gpu(uuid: &str) -> Gpu {
    Gpu {
        uuid: uuid.into(),
        name: Some("NVIDIA H200".into()),
        pci_bus_id: None,
        compute_capability: Some("9.0".into()),
        total_bytes: Some(150 << 30),
        reserved_bytes: None,
        device_minor: None,
        compute_mode: None,
        persistence: Some(true),
        mig: Some(false),
        unread: Default::default(),
    }
}

/// An instance whose cases make one step each.
pub fn instance(cases: &[(&str, Gpus)]) -> Instance {
    let case = |&(name, gpus): &(&str, Gpus)| Case {
        name: name.into(),
        does: String::new(),
        gpus,
        env: Default::default(),
        probes: true,
        python: None,
        steps: vec![Step {
            call: "cuInit".into(),
            args: Default::default(),
            bind: None,
            on: None,
            from: None,
            label: "cuInit".into(),
            line: 1,
        }],
        expect: Vec::new(),
    };
    Instance {
        name: "test/question".into(),
        values: Default::default(),
        cases: cases.iter().map(case).collect(),
        effect: Vec::new(),
        expect: Vec::new(),
    }
}

/// A scenario about one GPU.
pub fn scenario() -> Scenario {
    Scenario {
        name: "test/question".into(),
        question: "Does it?".into(),
        why: String::new(),
        belief: String::new(),
        answer: String::new(),
        workaround: String::new(),
        no_control: String::new(),
        twin: None,
        tags: Vec::new(),
        symptoms: Vec::new(),
        says: Vec::new(),
        sources: Vec::new(),
        needs: Needs { gpus: 1, ..Needs::default() },
        hazards: Vec::new(),
        repeat: 5,
        step_timeout_ms: 10_000,
        timeout_ms: 60_000,
        nondeterministic: false,
        parameters: Vec::new(),
        instances: vec![instance(&[("trap", Gpus::Masked(1)), ("control", Gpus::Masked(1))])],
        sha256: String::new(),
    }
}
