//! The head of a run: the machine, and how well the instrument measures here.

use std::fmt::Write as _;

use cuda_pitfalls_core::machine::Machine;
use cuda_pitfalls_core::report::Run;
use cuda_pitfalls_core::verdict::Provenance;

use crate::tally;
use crate::words;
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::sentence;

/// The head of a run: GPUs, driver, libraries, and what one context costs on each GPU.
pub fn header(run: &Run, machine: &Machine, provenance: Provenance, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "cuda-pitfalls {}  {}  on {}", terminal(&run.version), terminal(&run.id), terminal(&run.on));
    if provenance == Provenance::Simulated {
        out.push_str(&tally::loud(tally::SIMULATED, width));
    }
    let row = |name: &str, text: String| sentence(&format!("{name:<13}"), &text, width);
    out.extend(words::labels(run).into_iter().map(|label| row("label", label)));
    out.push_str(&row("driver", words::driver(machine)));
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        out.push_str(&row("libcudart", format!("{version}  {}", runtime.path)));
    }
    out.extend(machine.python.iter().map(|python| row("Python", words::python(python))));
    out.push_str(&row("PIDs", words::pids(&machine.isolation)));
    if machine.gpus.is_empty() {
        out.push_str(&row("GPUs", "none".to_owned()));
    }
    for gpu in &machine.gpus {
        out.push_str(&row("GPU", words::gpu(gpu)));
        if let Some(found) = run.calibration.iter().find(|found| found.figures.uuid == gpu.uuid) {
            out.push_str(&row("", words::calibration(&found.figures)));
        }
    }
    for (name, value) in &machine.environment {
        out.push_str(&row("environment", format!("{name}={value}")));
    }
    if machine.mps {
        out.push_str(&row("MPS", "a control pipe exists: clients may share a context".to_owned()));
    }
    for missing in &machine.unavailable {
        out.push_str(&row("missing", format!("{}: {}", missing.reason, missing.detail)));
    }
    for warning in &run.warnings {
        out.push_str(&row("warning", warning.clone()));
    }
    out
}
