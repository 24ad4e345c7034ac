//! The head of a run: the machine, the cost of a context there, and the questions that will run.

use std::time::Duration;

use crate::block::Block;
use crate::writer::terminal::{Screen, write};
use crate::{tally, words};
use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

/// Questions of a run that is about to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of questions.
    pub questions: usize,
    /// Number of their instances, on all libcudarts together.
    pub variants: usize,
    /// Maximum number of attempts of any case.
    pub attempts: u32,
    /// Expected duration, if known.
    pub expected: Option<Duration>,
}

/// Returns the head: of a run that is about to begin, or of a stored report if `asked` is `None`.
pub fn render_head(
    report: &ReportView<'_>,
    asked: Option<&Workload>,
    screen: impl Into<Screen>,
) -> String {
    let mut blocks = Vec::new();
    if report.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(tally::SIMULATED.to_owned()));
    }
    let mut measured = Vec::new();
    if asked.is_none() {
        // A reader of a stored report sees first that it is simulated or partial.
        for banner in tally::warning_banners(report) {
            if banner != tally::SIMULATED {
                blocks.push(Block::note("*** ", banner));
            }
        }
        measured.push(format!("Started {}.", report.run.started_at));
    }
    blocks.push(Block::paragraph(program_and_machine(report)));
    measured.extend(surrounding_lines(report));
    if !measured.is_empty() {
        blocks.push(Block::paragraph(measured.join(" ")));
    }
    match asked {
        Some(asked) if asked.questions == 0 || no_gpu(report).is_some() => {}
        Some(asked) => blocks.push(Block::paragraph(what(asked))),
        // During a run, the warnings are printed on stderr.
        None => {
            for warning in &report.run.warnings {
                blocks.push(Block::note("warning: ", warning));
            }
        }
    }
    write(&blocks, screen)
}

/// Returns the reason why no GPU can be used here; `None` if one can.
pub(super) fn no_gpu(report: &ReportView<'_>) -> Option<String> {
    let machine = report.machine;
    for missing in &machine.unavailable {
        if missing.reason != Reason::NoLibcudart.name() {
            return Some(missing.detail.clone());
        }
    }
    if machine.gpus.is_empty() {
        return Some("NVML lists no GPU".to_owned());
    }
    None
}

fn program_and_machine(report: &ReportView<'_>) -> String {
    let mut said = format!("cuda-pitfalls {}", report.run.version);
    if report.provenance == Provenance::Simulated {
        said.push_str(&format!(" on {}", report.run.on));
    }
    format!("{said}: {}", machine(report))
}

/// Returns the GPUs, the driver and the library, on one line: `2× NVIDIA H200, driver 580.159.04 (CUDA 13.0), libcudart
/// 13.0`.
pub fn machine(report: &ReportView<'_>) -> String {
    if let Some(why) = no_gpu(report) {
        return format!("no usable GPU here ({why})");
    }
    let machine = report.machine;
    let mut said = machine.summary();
    if let Some(cuda) = machine.cuda_driver_version {
        said += &format!(" (CUDA {})", units::cuda_version(cuda));
    }
    let mut runtimes = Vec::new();
    for runtime in &machine.libcudart {
        runtimes.push(runtime.version.as_deref().unwrap_or("of unknown version"));
    }
    if !runtimes.is_empty() {
        said += &format!(", libcudart {}", runtimes.join(", "));
    }
    if let Some(python) = &machine.python {
        let packages = words::packages(python);
        said += &format!(", Python {}{packages}", python.version);
    }
    said
}

/// Returns measurements of the machine before the first question: the cost of a context, and the co-tenants.
pub fn surrounding_lines(report: &ReportView<'_>) -> Vec<String> {
    let mut said: Vec<String> = context(&report.run.calibrations()).into_iter().collect();
    said.extend(co_tenants(report));
    if report.machine.mps {
        said.push("An MPS control pipe exists: clients may share a context.".to_owned());
    }
    if let Some(nonce) = &report.run.nonce {
        said.push(format!("Made for the request `{nonce}`."));
    }
    said
}

/// Returns the cost of one context here, and the GPUs where the instrument failed.
fn context(calibration: &[Calibration]) -> Option<String> {
    if calibration.is_empty() {
        return None;
    }
    let mut costs = Vec::new();
    for gpu in calibration {
        if gpu.sound {
            costs.push(gpu.context_bytes);
        }
    }
    let mut said = match (costs.iter().min(), costs.iter().max()) {
        (Some(least), Some(most)) => {
            let [least, most] = [least, most].map(|bytes| units::bytes(*bytes));
            if least == most {
                format!("Context size: {most}.")
            } else {
                format!("Context size: {least} to {most}.")
            }
        }
        _ => "Context size: unknown.".to_owned(),
    };
    let blind = calibration.len() - costs.len();
    if blind > 0 {
        said += &format!(
            " CALIBRATION FAILED on {blind} of {} GPUs: changes there may go undetected.",
            calibration.len()
        );
    }
    Some(said)
}

/// Returns the co-tenants on the GPUs, and the memory that they held before the run.
fn co_tenants(report: &ReportView<'_>) -> Option<String> {
    let mut found = Vec::new();
    for (index, gpu) in report.machine.gpus.iter().enumerate() {
        let mut tenants = report.run.co_tenants.iter();
        let Some(there) = tenants.find(|there| there.uuid == gpu.uuid) else {
            continue;
        };
        let listed = there.processes.as_ref().map_or(0, Vec::len);
        let held = match there.used_bytes {
            Some(0) | None if listed == 0 => continue,
            Some(0) | None => "an unknown amount".to_owned(),
            Some(bytes) => units::bytes(bytes),
        };
        found.push(format!("{held} on gpu{index} ({listed} listed)"));
    }
    if found.is_empty() {
        return None;
    }
    Some(format!(
        "Other processes hold memory: {}.",
        found.join(", ")
    ))
}

/// Returns the workload: `24 questions (53 variants), up to 3 attempts of each case, about 1 min.`
fn what(asked: &Workload) -> String {
    let mut said = questions(asked.questions, asked.variants);
    match asked.attempts {
        0 => {}
        1 => said += ", 1 attempt of each case",
        attempts => said += &format!(", up to {attempts} attempts of each case"),
    }
    if let Some(expected) = asked.expected {
        let ms = u64::try_from(expected.as_millis()).unwrap_or(u64::MAX);
        said += &format!(", {}", words::about(ms));
    }
    said + "."
}

pub(super) fn questions(questions: usize, variants: usize) -> String {
    let asked = counted(questions, "question");
    if questions == variants {
        asked
    } else {
        format!("{asked} ({})", counted(variants, "variant"))
    }
}
