//! A preview of a run: `run --dry-run`.

use cuda_pitfalls_answers::preview::Preview;
use cuda_pitfalls_core::verdict::Provenance;

use super::block::{Block, Table};
use super::words::{about, rough_duration};
use super::writer::terminal::{Screen, write};
use super::{applicable, lines, tally};
use cuda_pitfalls_core::text::counts::{counted, group_by_key};

/// Returns the preview for a person: the amount, the duration, and the questions that do not apply, with the reasons.
pub fn text(preview: &Preview, screen: impl Into<Screen>) -> String {
    let mut blocks = Vec::new();
    if preview.provenance == Provenance::Simulated {
        blocks.push(Block::paragraph(format!("*** {}", tally::SIMULATED)));
    }
    let gpus = counted(preview.gpus, "GPU");
    blocks.push(Block::paragraph(format!(
        "dry run on {}, {gpus}",
        preview.on
    )));
    let (mut rows, mut programs) = (Vec::new(), Vec::new());
    for one in &preview.would_run {
        let cases = format!("{} × {}", counted(one.cases.len(), "case"), one.repeat);
        let libcudart = match &one.libcudart_version {
            Some(version) => format!("libcudart {version}"),
            None => String::new(),
        };
        let took = rough_duration(one.expected_ms);
        rows.push(vec![one.name.clone(), cases, took, libcudart]);
        for case in &one.python {
            programs.push(Block::heading(2, format!("{}: {}", one.name, case.case)));
            programs.push(Block::Code("python", lines::program(&case.steps, None)));
        }
    }
    blocks.extend([Block::Gap, Block::Table(Table::without_header(rows))]);
    blocks.append(&mut programs);
    blocks.extend(not_applicable_blocks(preview));
    for requirement in &preview.require {
        blocks.extend([Block::Gap, Block::paragraph(requirement.sentence())]);
    }
    blocks.extend([Block::Gap, Block::paragraph(sentence(preview))]);
    write(&blocks, screen)
}

/// Returns the questions that this machine cannot answer, grouped by the missing requirement.
fn not_applicable_blocks(preview: &Preview) -> Vec<Block> {
    let (mut lacking, mut details) = (Vec::new(), Vec::new());
    for one in &preview.not_applicable {
        lacking.push(one.lacks.clone());
        details.push((one.detail.as_str(), one.name.as_str()));
    }
    let Some(line) = applicable::line(lacking) else {
        return Vec::new();
    };
    let mut blocks = vec![Block::heading(2, line)];
    for (detail, names) in group_by_key(details) {
        blocks.push(Block::paragraph(format!("{detail}:")));
        blocks.push(Block::note("  ", names.join(", ")));
    }
    blocks
}

/// Returns the preview in one sentence: `about 1 min: 22 questions, 129 attempts`.
pub fn sentence(preview: &Preview) -> String {
    if preview.would_run.is_empty() {
        return "nothing would run".to_owned();
    }
    let questions = counted(preview.would_run.len(), "question");
    let attempts = counted(preview.attempts, "attempt");
    format!("{}: {questions}, {attempts}", about(preview.expected_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_pitfalls_answers::preview::{NotApplicable, WouldRun};
    use cuda_pitfalls_core::text::lines::{WIDTH, display_columns};
    use cuda_pitfalls_core::verdict::Reason;

    fn preview() -> Preview {
        let lacking = |name: &str| NotApplicable {
            name: name.to_owned(),
            question: String::new(),
            reason: Reason::HazardNotAllowed,
            detail: "hazards: mps not allowed; use `--allow mps`".to_owned(),
            lacks: "--allow mps".to_owned(),
            asked_by_name: false,
        };
        let would_run = WouldRun {
            name: "visibility/a-name-of-a-question-that-fills-most-of-its-column[mask=0,1]"
                .to_owned(),
            question: String::new(),
            libcudart_version: Some("13.0".to_owned()),
            cases: vec![String::new(); 4],
            repeat: 5,
            expected_ms: 700,
            python: Vec::new(),
        };
        Preview {
            on: "sim:1".to_owned(),
            gpus: 1,
            would_run: vec![would_run],
            not_applicable: vec![lacking("mps/one"), lacking("mps/two")],
            ..Preview::default()
        }
    }

    #[test]
    fn a_need_is_said_once_above_those_who_have_it() {
        let shown = text(&preview(), WIDTH);
        assert_eq!(
            shown.matches("hazards: mps not allowed").count(),
            1,
            "{shown}"
        );
        assert!(shown.contains("mps`:\n  mps/one, mps/two\n"), "{shown}");
        assert!(shown.contains(" 700 ms  libcudart 13.0\n"), "{shown}");
    }

    #[test]
    fn every_line_fits_the_terminal() {
        for width in [60, 80, WIDTH, 160] {
            let shown = text(&preview(), width);
            let widest = shown.lines().map(display_columns).max().unwrap();
            assert!(widest <= width, "{width}: {shown}");
        }
    }
}
