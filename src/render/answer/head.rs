//! The head of a run: the machine, what a context costs there, and what will be asked.

use std::time::Duration;

use crate::block::Block;
use crate::writer::terminal::write;
use crate::{tally, words};
use cuda_pitfalls_core::calibration::Calibration;
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::counts::{counted, listed};
use cuda_pitfalls_core::text::units;
use cuda_pitfalls_core::verdict::{Provenance, Reason};

/// What is about to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// How many questions.
    pub questions: usize,
    /// How many instances they have, on all libcudarts together.
    pub variants: usize,
    /// The most attempts of any case.
    pub attempts: u32,
    /// How long it will take, where that is known.
    pub expected: Option<Duration>,
}

/// The head: of a run that is about to ask, or of a stored report if nothing is asked any more.
pub fn render_head(report: &ReportView<'_>, asked: Option<&Workload>, width: usize) -> String {
    let mut blocks = Vec::new();
    if report.provenance == Provenance::Simulated {
        blocks.push(Block::Banner(tally::SIMULATED.to_owned()));
    }
    // A reader of a stored report sees first that it is simulated or partial.
    let banners = tally::warning_banners(report)
        .into_iter()
        .filter(|it| asked.is_none() && it != tally::SIMULATED);
    blocks.extend(banners.map(|banner| Block::note("*** ", banner)));
    blocks.push(Block::paragraph(program_and_machine(report)));
    let started = asked
        .is_none()
        .then(|| format!("Started {}.", report.run.started_at));
    let measured: Vec<String> = started
        .into_iter()
        .chain(surrounding_lines(report))
        .collect();
    if !measured.is_empty() {
        blocks.push(Block::paragraph(measured.join(" ")));
    }
    match asked {
        Some(asked) if asked.questions == 0 || no_gpu(report).is_some() => {}
        Some(asked) => blocks.push(Block::paragraph(what(asked))),
        // During a run the warnings stand on stderr.
        None => blocks.extend(
            report
                .run
                .warnings
                .iter()
                .map(|warning| Block::note("warning: ", warning)),
        ),
    }
    write(&blocks, width)
}

/// Why no GPU can answer here; none if one can.
pub(super) fn no_gpu(report: &ReportView<'_>) -> Option<String> {
    let missing = report
        .machine
        .unavailable
        .iter()
        .find(|missing| missing.reason != Reason::NoLibcudart.name());
    match missing {
        Some(missing) => Some(missing.detail.clone()),
        None => report
            .machine
            .gpus
            .is_empty()
            .then(|| "NVML lists no GPU".to_owned()),
    }
}

fn program_and_machine(report: &ReportView<'_>) -> String {
    let mut said = format!("cuda-pitfalls {}", report.run.version);
    if report.provenance == Provenance::Simulated {
        said.push_str(&format!(" on {}", report.run.on));
    }
    format!("{said}: {}", machine(report))
}

/// The GPUs, the driver and what was called, in a line: `2× NVIDIA H200, driver 580.159.04 (CUDA 13.0), libcudart 13.0`.
pub fn machine(report: &ReportView<'_>) -> String {
    if let Some(why) = no_gpu(report) {
        return format!(
            "no usable GPU here ({})",
            why.trim_start_matches("a libloading error occurred: ")
        );
    }
    let mut said = report.machine.summary();
    if let Some(cuda) = report.machine.cuda_driver_version {
        said.push_str(&format!(" (CUDA {})", units::cuda_version(cuda)));
    }
    let runtimes = report
        .machine
        .libcudart
        .iter()
        .map(|it| it.version.as_deref().unwrap_or("of unknown version"));
    if runtimes.len() > 0 {
        said.push_str(&format!(", libcudart {}", listed(runtimes, "")));
    }
    if let Some(python) = &report.machine.python {
        said.push_str(&format!(
            ", Python {}{}",
            python.version,
            words::packages(python)
        ));
    }
    said
}

/// What was measured of the machine before the first question: the cost of a context, and who else is there.
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

/// What one context costs here, and where the instrument failed.
fn context(calibration: &[Calibration]) -> Option<String> {
    let costs = calibration
        .iter()
        .filter(|gpu| gpu.sound)
        .map(|gpu| gpu.context_bytes);
    let range = costs
        .clone()
        .min()
        .zip(costs.max())
        .map(|(least, most)| [least, most].map(units::bytes));
    let mut said = match range {
        Some([least, most]) if least == most => format!("A context costs {most} here."),
        Some([least, most]) => format!("A context costs {least} to {most} here."),
        None if calibration.is_empty() => return None,
        None => "What a context costs here is not known.".to_owned(),
    };
    let blind = calibration.iter().filter(|gpu| !gpu.sound).count();
    if blind > 0 {
        said.push_str(&format!(
            " CALIBRATION FAILED on {blind} of {} GPUs: no change there may mean that we cannot see it.",
            calibration.len()
        ));
    }
    Some(said)
}

/// Who else is on the GPUs, and what they held before the run.
fn co_tenants(report: &ReportView<'_>) -> Option<String> {
    let mut found = Vec::new();
    for (gpu, index) in report.machine.gpus.iter().zip(0..) {
        let Some(there) = report.run.co_tenants.iter().find(|it| it.uuid == gpu.uuid) else {
            continue;
        };
        let held = there.used_bytes.filter(|bytes| *bytes > 0);
        let listed = there.processes.as_ref().map_or(0, Vec::len);
        if held.is_some() || listed > 0 {
            let held = held.map_or_else(|| "an unknown amount".to_owned(), units::bytes);
            found.push(format!("{held} on gpu{index} ({listed} listed)"));
        }
    }
    (!found.is_empty()).then(|| format!("Other processes hold memory: {}.", found.join(", ")))
}

/// `24 questions (53 variants), up to 3 attempts of each case, about 1 min.`
fn what(asked: &Workload) -> String {
    let mut said = questions(asked.questions, asked.variants);
    match asked.attempts {
        0 => {}
        1 => said.push_str(", 1 attempt of each case"),
        attempts => said.push_str(&format!(", up to {attempts} attempts of each case")),
    }
    if let Some(expected) = asked.expected {
        said.push_str(&format!(", about {}", about(expected)));
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

/// A duration as an estimate is shown: `40 s`, `3 min`.
fn about(expected: Duration) -> String {
    let seconds = expected.as_secs();
    match seconds {
        0..55 => format!("{} s", seconds.div_ceil(5).max(1) * 5),
        _ => format!("{} min", (seconds + 30) / 60),
    }
}
