//! The machine in words: the same lines in every format, which escapes them.

use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::machine::{Interpreter, Isolation, Machine};
use cuda_pitfalls_core::report::{ReportView, Run};
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::units;

/// The word in documents.
pub(super) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Simulated => "simulated",
    }
}

/// What is said of a variable that is spelt nearly as one that is read.
pub(super) fn misspelling_sentence(name: &str, meant: &str) -> String {
    format!("{name} is no variable that CUDA or a framework is known to read; {meant} is.")
}

/// Everything that was read of the machine, a name and a value each.
pub(super) fn machine<'r>(report: &ReportView<'r>) -> Vec<(&'r str, String)> {
    let machine = report.machine;
    let mut rows: Vec<(&str, String)> = label_list(report.run)
        .into_iter()
        .map(|label| ("Label", label))
        .collect();
    rows.push(("Driver", driver(machine)));
    rows.extend(machine.libraries.iter().map(|library| {
        let simulated = if library.simulated {
            " (simulated)"
        } else {
            ""
        };
        (
            library.name.as_str(),
            format!("{}{simulated}", library.path),
        )
    }));
    rows.extend(machine.libcudart.iter().map(|runtime| {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        ("libcudart", format!("{version}, {}", runtime.path))
    }));
    rows.extend(
        machine
            .python
            .iter()
            .map(|interpreter| ("Python", python(interpreter))),
    );
    rows.push(("PIDs", pid_words(&machine.isolation)));
    rows.extend(
        machine
            .mps
            .then(|| ("MPS", "a control pipe exists".to_owned())),
    );
    rows.extend(
        machine
            .environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    rows.extend(
        machine
            .unavailable
            .iter()
            .map(|it| ("Missing", format!("{}: {}", it.reason, it.detail))),
    );
    rows.extend(machine.gpus.is_empty().then(|| ("GPUs", "none".to_owned())));
    for gpu in &machine.gpus {
        rows.push(("GPU", self::gpu(gpu)));
        let found = report
            .run
            .calibration
            .iter()
            .filter(|found| found.figures.uuid == gpu.uuid);
        rows.extend(found.map(|found| ("Calibration", calibration(&found.figures))));
    }
    rows
}

/// The driver and what it runs on, in a line.
pub fn driver(machine: &Machine) -> String {
    let mut words = match &machine.driver_version {
        Some(version) => version.clone(),
        None => "not found".to_owned(),
    };
    if let Some(cuda) = machine.cuda_driver_version {
        words.push_str(&format!(" (CUDA {})", units::cuda_version(cuda)));
    }
    if let Some(nvml) = &machine.nvml_version {
        words.push_str(&format!(", NVML {nvml}"));
    }
    match &machine.kernel {
        Some(kernel) => words.push_str(&format!(", Linux {kernel} {}", machine.architecture)),
        None => words.push_str(&format!(", {}", machine.architecture)),
    }
    words
}

/// The interpreter that ran Python lines, with the packages that were needed: `3.12.3 /usr/bin/python3, torch 2.9.0`.
pub fn python(interpreter: &Interpreter) -> String {
    let mut words = format!("{} {}", interpreter.version, interpreter.executable);
    if interpreter.implementation != "cpython" {
        words = format!("{} {words}", interpreter.implementation);
    }
    words + &packages(interpreter)
}

/// The packages that were needed and are there, each behind a comma. A module whose distribution adds the version
/// of CUDA to its name (`cupy` of `cupy-cuda13x`, `rmm` of `rmm-cu13`) is said once.
pub fn packages(interpreter: &Interpreter) -> String {
    let there = interpreter
        .packages
        .iter()
        .filter_map(|(name, version)| Some((name, version.as_ref()?)));
    let said = there.clone().filter(|(name, version)| {
        !there
            .clone()
            .any(|(other, its_version)| its_version == *version && is_distribution_of(other, name))
    });
    said.map(|(name, version)| format!(", {name} {version}").trim_end().to_owned())
        .collect()
}

/// Whether a module is of this distribution, whose name is another: `cupy` of `cupy-cuda13x`, `cuda_core` of `cuda-core`.
fn is_distribution_of(distribution: &str, module: &str) -> bool {
    let more = distribution.strip_prefix(module).unwrap_or_default();
    let digits = more
        .strip_prefix("-cuda")
        .or_else(|| more.strip_prefix("-cu"))
        .map(|it| it.trim_end_matches('x'));
    let has_version = digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    has_version || (module != distribution && module.replace('_', "-") == distribution)
}

/// What the caller said of a run, an entry each: `node=gpu-17`.
pub fn label_list(run: &Run) -> Vec<String> {
    run.labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Whether memory is known per process, in words.
fn pid_words(isolation: &Isolation) -> String {
    let mut words = match isolation.own_pid_listed {
        Some(true) => "matched: NVML lists the worker by its PID",
        Some(false) => {
            "not matched: NVML does not list the worker, so memory is known per GPU only"
        }
        None => "not asked",
    }
    .to_owned();
    if let Some(container) = &isolation.container {
        words.push_str(&format!(", container {container}"));
    }
    if isolation.pid_namespace == Some(true) {
        words.push_str(", PID namespace of its own");
    }
    words
}

/// One GPU in a line.
pub fn gpu(gpu: &Gpu) -> String {
    let mut words = vec![format!(
        "{} {}",
        gpu.uuid,
        gpu.name.as_deref().unwrap_or("of unknown name")
    )];
    words.extend(gpu.total_bytes.map(units::bytes));
    words.extend(
        gpu.compute_capability
            .as_ref()
            .map(|capability| format!("compute capability {capability}")),
    );
    words.extend(
        gpu.compute_mode
            .as_ref()
            .filter(|mode| *mode != "Default")
            .map(|mode| format!("compute mode {mode}")),
    );
    words.extend(
        gpu.persistence
            .map(|on| format!("persistence {}", if on { "on" } else { "off" })),
    );
    words.extend(gpu.mig.filter(|on| *on).map(|_| "MIG on".to_owned()));
    words.extend(
        gpu.unread
            .iter()
            .map(|(fact, error)| format!("{fact} not read ({error})")),
    );
    words.join(", ")
}

/// What calibration found on one GPU, in a line.
fn calibration(found: &Calibration) -> String {
    let mut words = match (&found.why_unsound, found.sound) {
        (Some(why), false) => why.clone(),
        _ => format!(
            "a context costs {}, an allocation of {} shows as {}, changes up to {} are noise",
            units::bytes(found.context_bytes),
            units::bytes(found.allocated_bytes),
            units::bytes(found.allocation_bytes),
            units::bytes(found.epsilon_bytes),
        ),
    };
    if found.lists_pids() == Some(false) {
        words.push_str(", the worker's PID is not listed");
    }
    if !found.sound {
        words.push_str("; NOT SOUND: nothing can be concluded from the absence of a change");
    }
    words
}

/// GPUs by their numbers, so that nobody takes one for a count: `gpu0, gpu1`, or `none` where there are none.
pub(super) fn gpus(on: &[u32], none: &str) -> String {
    listed(on.iter().map(|gpu| format!("gpu{gpu}")), none)
}

/// Why a question has no answer, in words.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NotModelled => "the simulated machine does not model it",
        Reason::Intermittent => "some attempts show it and others do not",
        Reason::ControlShowsEffect => "the control shows it too, so the order is not the cause",
        Reason::Contaminated => "another process changed its memory on the GPU meanwhile",
        Reason::Unsettled => "memory did not settle",
        Reason::Residue => "memory did not return to the baseline after the worker's end",
        Reason::Contradiction => "the API and NVML contradict each other",
        Reason::Unobservable => "a fact that it asks for could not be read here",
        Reason::Hang => "a call did not return before its deadline",
        Reason::Signalled => "the worker was killed by another process",
        Reason::OomKilled => "the kernel killed the worker because host memory ran out",
        Reason::Crashed => "the worker crashed",
        Reason::ExitedEarly => "the worker exited before it had made its calls",
        Reason::LeakedChildren => "the worker left processes behind",
        Reason::Unkillable => "the worker could not be killed",
        Reason::SamplerLost => {
            "the process that reads NVML did not answer, or readings are missing"
        }
        Reason::Injected => "a library was injected into the worker",
        Reason::Uncalibrated => "this GPU has no sound calibration",
        Reason::Interrupted => "the run was interrupted",
        Reason::TooFewAttempts => "too few attempts count",
        Reason::SetupRaised => "a line before the asked one raised an exception",
        Reason::NoNvml => "NVML was not found",
        Reason::NoDriver => "the driver is not loaded",
        Reason::NoGpu => "there is no GPU",
        Reason::NoLibcuda => "libcuda was not found",
        Reason::NoLibcudart => "libcudart was not found",
        Reason::TooFewGpus => "it needs more GPUs",
        Reason::DriverVersion => "it needs another driver",
        Reason::LibcudartVersion => "it needs another libcudart",
        Reason::ComputeCapability => "it needs another GPU architecture",
        Reason::NoPeerAccess => "the GPUs have no peer access",
        Reason::Restricted => "it needs a worker without a mask",
        Reason::NoPython => "it needs a Python interpreter",
        Reason::NoPackage => "a Python package that it needs is not installed",
        Reason::MissingSymbol => "a call or library that it needs was not found",
        Reason::NotRoot => "it needs root",
        Reason::HazardNotAllowed => "its hazard was not allowed",
        Reason::Busy => "the GPU is in use by another process",
        Reason::HostUnsafe => "the host was left in an unsafe state",
        Reason::Protocol => "the worker could not be started or sent an invalid message",
        Reason::System => "the system refused something the harness needs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_said_by_the_name_of_its_distribution() {
        let all = [
            ("cuda-core", Some("1.2.0")),
            ("cuda_core", Some("1.2.0")),
            ("cupy", Some("14.2.0")),
            ("cupy-cuda13x", Some("14.2.0")),
            ("jax", Some("0.11.2")),
            ("jax-cuda13-plugin", Some("0.11.2")),
            ("numba", Some("0.68.0")),
            ("numba-cuda", Some("0.30.4")),
            ("rmm", Some("26.10.0")),
            ("rmm-cu13", Some("26.10.0")),
            ("torch", None),
        ];
        let packages = all
            .map(|(name, version)| (name.to_string(), version.map(str::to_string)))
            .into();
        let said = super::packages(&Interpreter {
            packages,
            ..Interpreter::default()
        });
        assert_eq!(
            said,
            ", cuda-core 1.2.0, cupy-cuda13x 14.2.0, jax 0.11.2, jax-cuda13-plugin 0.11.2, numba 0.68.0, numba-cuda 0.30.4, rmm-cu13 26.10.0"
        );
    }
}
