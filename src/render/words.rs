//! The machine as text, the same lines in every format; each format escapes them.

use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::machine::{Interpreter, Isolation, Machine};
use cuda_pitfalls_core::report::{ReportView, Run};
use cuda_pitfalls_core::sample::Gpu;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

use cuda_pitfalls_core::text::counts::listed;
use cuda_pitfalls_core::text::units;

/// Returns the word in documents.
pub(super) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "measured",
        Provenance::Simulated => "simulated",
    }
}

/// Returns the sentence about a variable whose name is nearly that of a known one.
pub(super) fn misspelling_sentence(name: &str, meant: &str) -> String {
    format!("{name} is not a known CUDA or framework variable; did you mean {meant}?")
}

/// Returns all data of the machine, a name and a value each.
pub(super) fn machine<'r>(report: &ReportView<'r>) -> Vec<(&'r str, String)> {
    let (machine, run) = (report.machine, report.run);
    let mut rows: Vec<(&str, String)> = Vec::new();
    for label in label_list(run) {
        rows.push(("Label", label));
    }
    rows.push(("Driver", driver(machine)));
    for library in &machine.libraries {
        let simulated = if library.simulated {
            " (simulated)"
        } else {
            ""
        };
        rows.push((&library.name, format!("{}{simulated}", library.path)));
    }
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        rows.push(("libcudart", format!("{version}, {}", runtime.path)));
    }
    if let Some(interpreter) = &machine.python {
        rows.push(("Python", python(interpreter)));
    }
    rows.push(("PIDs", pid_words(&machine.isolation)));
    if machine.mps {
        rows.push(("MPS", "a control pipe exists".to_owned()));
    }
    for (name, value) in &machine.environment {
        rows.push((name, value.clone()));
    }
    for missing in &machine.unavailable {
        rows.push(("Missing", format!("{}: {}", missing.reason, missing.detail)));
    }
    if machine.gpus.is_empty() {
        rows.push(("GPUs", "none".to_owned()));
    }
    for gpu in &machine.gpus {
        rows.push(("GPU", self::gpu(gpu)));
        for found in &run.calibration {
            if found.figures.uuid == gpu.uuid {
                rows.push(("Calibration", calibration(&found.figures)));
            }
        }
    }
    rows
}

/// Returns the driver and its platform, on one line.
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

/// Returns the interpreter of Python lines, with the required packages: `3.12.3 /usr/bin/python3, torch 2.9.0`.
pub fn python(interpreter: &Interpreter) -> String {
    let mut words = format!("{} {}", interpreter.version, interpreter.executable);
    if interpreter.implementation != "cpython" {
        words = format!("{} {words}", interpreter.implementation);
    }
    words + &packages(interpreter)
}

/// Returns the required packages that are installed, each after a comma. A module whose distribution adds the CUDA
/// version to its name (`cupy` of `cupy-cuda13x`, `rmm` of `rmm-cu13`) is listed once.
pub fn packages(interpreter: &Interpreter) -> String {
    let mut there = Vec::new();
    for (name, version) in &interpreter.packages {
        there.extend(version.as_ref().map(|version| (name, version)));
    }
    let mut said = String::new();
    for (name, version) in &there {
        if !there
            .iter()
            .any(|(other, its_version): &(&String, &String)| {
                its_version == version && is_distribution_of(other, name)
            })
        {
            said += format!(", {name} {version}").trim_end();
        }
    }
    said
}

/// Returns `true` if a module belongs to this distribution, which has a different name: `cupy` of `cupy-cuda13x`,
/// `cuda_core` of `cuda-core`.
fn is_distribution_of(distribution: &str, module: &str) -> bool {
    let more = distribution.strip_prefix(module).unwrap_or_default();
    let cuda = more.strip_prefix("-cuda").or(more.strip_prefix("-cu"));
    if let Some(version) = cuda {
        let digits = version.trim_end_matches('x');
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return true;
        }
    }
    module != distribution && module.replace('_', "-") == distribution
}

/// Returns the labels that the caller gave a run, an entry each: `node=gpu-17`.
pub fn label_list(run: &Run) -> Vec<String> {
    let mut labels = Vec::new();
    for (name, value) in &run.labels {
        labels.push(format!("{name}={value}"));
    }
    labels
}

/// Returns whether memory is known per process, as text.
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
        words.push_str(", own PID namespace");
    }
    words
}

/// Returns the line about a GPU.
pub fn gpu(gpu: &Gpu) -> String {
    let name = gpu.name.as_deref().unwrap_or("of unknown name");
    let mut words = vec![format!("{} {name}", gpu.uuid)];
    words.extend(gpu.total_bytes.map(units::bytes));
    if let Some(capability) = &gpu.compute_capability {
        words.push(format!("compute capability {capability}"));
    }
    match gpu.compute_mode.as_deref() {
        None | Some("Default") => {}
        Some(mode) => words.push(format!("compute mode {mode}")),
    }
    if let Some(is_on) = gpu.persistence {
        words.push(format!("persistence {}", if is_on { "on" } else { "off" }));
    }
    if gpu.mig == Some(true) {
        words.push("MIG on".to_owned());
    }
    for (fact, error) in &gpu.unread {
        words.push(format!("{fact} not read ({error})"));
    }
    words.join(", ")
}

/// Returns the line about the calibration of one GPU.
fn calibration(found: &Calibration) -> String {
    let mut words = match (&found.why_unsound, found.sound) {
        (Some(why), false) => why.clone(),
        _ => format!(
            "context size {}, an allocation of {} appears as {}, noise up to {}",
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
        words.push_str("; NOT SOUND: the absence of a change proves nothing");
    }
    words
}

/// Returns a rough duration: `about 40 s`, `about 1 min`, `about 12 min`.
pub(super) fn about(ms: u64) -> String {
    format!("about {}", rough_duration(ms))
}

/// Returns a rough duration for a place where it is plain that it is an estimate.
pub(super) fn rough_duration(ms: u64) -> String {
    match ms {
        0..10_000 => units::format_duration(ms.div_ceil(100) * 100_000_000),
        10_000..55_000 => format!("{} s", ms.div_ceil(5_000) * 5),
        _ => format!("{} min", ms.saturating_add(30_000) / 60_000),
    }
}

/// Returns GPUs by their numbers, written so that none is taken for a count: `gpu0, gpu1`, or `none` if the list is
/// empty.
pub(super) fn gpus(on: &[u32], none: &str) -> String {
    listed(on.iter().map(|gpu| format!("gpu{gpu}")), none)
}

/// Returns the reason why a question has no answer, as text.
pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NotModelled => "the simulated machine does not model it",
        Reason::Intermittent => "some attempts show it and others do not",
        Reason::ControlShowsEffect => "the control shows it too, so the order is not the cause",
        Reason::Contaminated => "another process changed its memory on the GPU during the attempt",
        Reason::Unsettled => "memory did not stabilize",
        Reason::Residue => "memory did not return to the baseline after the worker's end",
        Reason::Contradiction => "the API and NVML contradict each other",
        Reason::Unobservable => "a required observation could not be read here",
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
        Reason::SetupRaised => "an earlier line raised an exception",
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
        Reason::HazardNotAllowed => "it has a hazard that was not allowed",
        Reason::Busy => "the GPU is in use by another process",
        Reason::HostUnsafe => "the host was left in an unsafe state",
        Reason::Protocol => "the worker could not be started or sent an invalid message",
        Reason::System => "the system denied something the harness needs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_rough_as_they_are_known() {
        for (ms, words) in [
            (340, "about 400 ms"),
            (2_550, "about 2.6 s"),
            (12_000, "about 15 s"),
            (54_000, "about 55 s"),
            (58_000, "about 1 min"),
            (89_000, "about 1 min"),
            (1_200_000, "about 20 min"),
        ] {
            assert_eq!(about(ms), words);
        }
    }

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
