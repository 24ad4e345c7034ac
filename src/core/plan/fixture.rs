//! Machines and scenarios for tests.

use crate::machine::Machine;
use crate::sample::Gpu;
use crate::scenario::{Case, Gpus, Instance, Needs, Scenario, Step};

/// Returns a machine with this many GPUs: `GPU-0`, `GPU-1`, ….
pub fn machine(gpus: usize) -> Machine {
    Machine {
        driver_version: Some("580.159.04".into()),
        cuda_driver_version: Some(13000),
        gpus: (0..gpus)
            .map(|place| gpu(&format!("GPU-{place}")))
            .collect(),
        architecture: "x86_64".into(),
        ..Machine::default()
    }
}

/// Returns a GPU with this UUID.
pub fn gpu(uuid: &str) -> Gpu {
    Gpu {
        uuid: uuid.into(),
        name: Some("NVIDIA H200".into()),
        compute_capability: Some("9.0".into()),
        total_bytes: Some(150 << 30),
        persistence: Some(true),
        mig: Some(false),
        ..Gpu::default()
    }
}

/// Returns an instance whose cases have one step each.
pub fn instance(cases: &[(&str, Gpus)]) -> Instance {
    let case = |&(name, gpus): &(&str, Gpus)| Case {
        name: name.into(),
        gpus,
        probes: true,
        steps: vec![Step {
            line: 1,
            ..Step::call("cuInit", "cuInit")
        }],
        ..Case::default()
    };
    Instance {
        name: "test/question".into(),
        cases: cases.iter().map(case).collect(),
        ..Instance::default()
    }
}

/// Returns a scenario about one GPU.
pub fn scenario() -> Scenario {
    Scenario {
        name: "test/question".into(),
        question: "Does it?".into(),
        needs: Needs {
            gpus: 1,
            ..Needs::default()
        },
        repeat: 5,
        step_timeout_ms: 10_000,
        timeout_ms: 60_000,
        instances: vec![instance(&[
            ("trap", Gpus::Masked(1)),
            ("control", Gpus::Masked(1)),
        ])],
        ..Scenario::default()
    }
}
