//! What a run would do, before it does it: `run --dry-run`.

use cuda_pitfalls_answers::preview::Preview;
use cuda_pitfalls_core::verdict::Provenance;

use super::block::{Block, Table};
use super::writer::terminal::write;
use super::{applicable, lines, tally};
use cuda_pitfalls_core::text::lines::WIDTH;
use cuda_pitfalls_core::text::{counts::counted, units};

/// For people: how much, how long, and what does not apply and why.
pub fn text(preview: &Preview) -> String {
    let is_simulated = preview.provenance == Provenance::Simulated;
    let simulated = is_simulated.then(|| Block::paragraph(format!("*** {}", tally::SIMULATED)));
    let mut blocks: Vec<Block> = simulated.into_iter().collect();
    let gpus = counted(preview.gpus, "GPU");
    blocks.push(Block::paragraph(format!(
        "dry run on {}, {gpus}: nothing is started",
        preview.on
    )));
    let would_run = preview.would_run.iter().map(|one| {
        let cases = format!("{} × {}", counted(one.cases.len(), "case"), one.repeat);
        let libcudart = one
            .libcudart_version
            .as_ref()
            .map(|it| format!("libcudart {it}"));
        vec![
            one.name.clone(),
            cases,
            about(one.expected_ms),
            libcudart.unwrap_or_default(),
        ]
    });
    blocks.extend([Block::Gap, Block::Table(Table::without_header(would_run))]);
    for (one, case) in preview
        .would_run
        .iter()
        .flat_map(|one| one.python.iter().map(move |case| (one, case)))
    {
        blocks.push(Block::heading(2, format!("{}: {}", one.name, case.case)));
        blocks.push(Block::Code("python", lines::program(&case.steps, None)));
    }
    if let Some(line) = applicable::line(preview.not_applicable.iter().map(|one| one.lacks.clone()))
    {
        let rows = preview
            .not_applicable
            .iter()
            .map(|one| vec![one.name.clone(), one.detail.clone()]);
        blocks.extend([
            Block::heading(2, line),
            Block::Table(Table::without_header(rows)),
        ]);
    }
    let ends = preview
        .require
        .iter()
        .map(|requirement| requirement.sentence())
        .chain([sentence(preview)]);
    blocks.extend(ends.flat_map(|end| [Block::Gap, Block::paragraph(end)]));
    write(&blocks, WIDTH)
}

/// `about 1 min: 22 questions, 129 attempts`.
pub fn sentence(preview: &Preview) -> String {
    if preview.would_run.is_empty() {
        return "nothing would run here".to_owned();
    }
    let questions = counted(preview.would_run.len(), "question");
    format!(
        "{}: {questions}, {}",
        about(preview.expected_ms),
        counted(preview.attempts, "attempt")
    )
}

/// A duration that is not known well: `about 40 s`, `about 1 min`, `about 12 min`.
pub fn about(ms: u64) -> String {
    match ms {
        0..10_000 => format!(
            "about {}",
            units::format_duration(ms.div_ceil(100) * 100_000_000)
        ),
        10_000..55_000 => format!("about {} s", ms.div_ceil(5_000) * 5),
        _ => format!("about {} min", ms.saturating_add(30_000) / 60_000),
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
}
