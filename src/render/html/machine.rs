//! The machine on the page, with everything that was read of it.

use std::fmt::Write as _;

use crate::words;
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::escape::html;

/// The section of the machine.
pub(super) fn section(out: &mut String, report: &ReportView<'_>) {
    let machine = &report.machine;
    out.push_str("<h2>Machine</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(name), html(value));
    };
    for label in words::labels(report.run) {
        row("Label", &label);
    }
    row("Driver", &words::driver(machine));
    for library in &machine.libraries {
        let simulated = if library.simulated { " (simulated)" } else { "" };
        row(&library.name, &format!("{}{simulated}", library.path));
    }
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        row("libcudart", &format!("{version}, {}", runtime.path));
    }
    if let Some(python) = &machine.python {
        row("Python", &words::python(python));
    }
    row("PIDs", &words::pids(&machine.isolation));
    if machine.mps {
        row("MPS", "a control pipe exists");
    }
    for (name, value) in &machine.environment {
        row(name, value);
    }
    for missing in &machine.unavailable {
        row("Missing", &format!("{}: {}", missing.reason, missing.detail));
    }
    if machine.gpus.is_empty() {
        row("GPUs", "none");
    }
    for gpu in &machine.gpus {
        row("GPU", &words::gpu(gpu));
        for found in report.run.calibration.iter().filter(|found| found.figures.uuid == gpu.uuid) {
            row("", &words::calibration(&found.figures));
        }
    }
    out.push_str("</dl>\n");
}
