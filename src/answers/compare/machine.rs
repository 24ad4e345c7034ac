//! Differences between two machines that can matter to CUDA. UUIDs, PCI addresses and paths are left out, because
//! they differ on all machines.

use std::collections::BTreeSet;

use super::comparison::{FactDifference, UNKNOWN, all, known, yes_or_no};
use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::units;

pub(super) fn changes(machines: [&Machine; 2]) -> Vec<FactDifference> {
    let [a, b] = machines.map(machine_facts);
    FactDifference::between(&a, &b, "not set")
}

/// Returns every fact under its name. The names are the same for all machines, except for environment variables.
pub(crate) fn machine_facts(machine: &Machine) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let fixed = driver_facts(machine).into_iter();
    for (name, value) in fixed
        .chain(gpu_facts(&machine.gpus))
        .chain(host_facts(machine))
    {
        facts.push((name.to_owned(), value));
    }
    for (name, value) in &machine.environment {
        facts.push((name.clone(), replace_uuids(value, &machine.gpus)));
    }
    if let Some(python) = &machine.python {
        facts.push(("Python".to_owned(), python.version.clone()));
        for (name, version) in &python.packages {
            facts.extend(version.clone().map(|version| (name.clone(), version)));
        }
    }
    facts
}

fn driver_facts(machine: &Machine) -> [(&'static str, String); 3] {
    let cuda = match machine.cuda_driver_version {
        Some(version) => units::cuda_version(version),
        None => UNKNOWN.to_owned(),
    };
    [
        ("driver", known(&machine.driver_version)),
        ("driver CUDA version", cuda),
        ("libcudart", libcudart_versions(machine)),
    ]
}

fn gpu_facts(gpus: &[Gpu]) -> [(&'static str, String); 7] {
    let capability = tally_gpus(gpus, |gpu| known(&gpu.compute_capability));
    let persistence = tally_gpus(gpus, |gpu| yes_no_or_unknown(gpu.persistence));
    let memory = tally_gpus(gpus, |gpu| match gpu.total_bytes {
        Some(bytes) => format!("{} MiB", bytes >> 20),
        None => UNKNOWN.to_owned(),
    });
    [
        ("number of GPUs", gpus.len().to_string()),
        ("GPU model", tally_gpus(gpus, |gpu| known(&gpu.name))),
        ("compute capability", capability),
        ("memory per GPU", memory),
        (
            "compute mode",
            tally_gpus(gpus, |gpu| known(&gpu.compute_mode)),
        ),
        ("persistence", persistence),
        ("MIG", tally_gpus(gpus, |gpu| yes_no_or_unknown(gpu.mig))),
    ]
}

fn host_facts(machine: &Machine) -> [(&'static str, String); 6] {
    let isolation = &machine.isolation;
    let container = isolation.container.as_deref().unwrap_or("none");
    let has_pid_namespace = yes_no_or_unknown(isolation.pid_namespace);
    let matches_pids = yes_no_or_unknown(isolation.own_pid_listed);
    [
        ("MPS", yes_or_no(machine.mps)),
        ("container", container.to_owned()),
        ("separate PID namespace", has_pid_namespace),
        ("PIDs matched by NVML", matches_pids),
        ("kernel", known(&machine.kernel)),
        ("architecture", machine.architecture.clone()),
    ]
}

fn yes_no_or_unknown(on: Option<bool>) -> String {
    on.map_or_else(|| UNKNOWN.to_string(), yes_or_no)
}

fn libcudart_versions(machine: &Machine) -> String {
    // By number, so that 12.10 comes after 12.9.
    let mut versions: BTreeSet<(Option<i32>, &str)> = BTreeSet::new();
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or(UNKNOWN);
        versions.insert((runtime.number, version));
    }
    listed(versions.into_iter().map(|(_, version)| version), "none")
}

/// Returns the value that all GPUs share, or each value with its number of GPUs.
fn tally_gpus(gpus: &[Gpu], fact: impl Fn(&Gpu) -> String) -> String {
    if gpus.is_empty() {
        "no GPU".to_string()
    } else {
        all(gpus.iter().map(fact))
    }
}

/// Returns a variable's value with `<uuid0>` instead of the UUID of GPU 0, because no two machines share UUIDs.
pub(super) fn replace_uuids(value: &str, gpus: &[Gpu]) -> String {
    let mut replaced = value.to_owned();
    for (place, gpu) in gpus.iter().enumerate() {
        if !gpu.uuid.is_empty() {
            replaced = replaced.replace(&gpu.uuid, &format!("<uuid{place}>"));
        }
    }
    replaced
}
