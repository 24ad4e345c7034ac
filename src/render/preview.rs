//! What a run would do, before it does it: `run --dry-run`.

use std::fmt::Write as _;

use cuda_pitfalls_answers::preview::Preview;
use cuda_pitfalls_core::verdict::Provenance;

use super::{applicable, lines, tally};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::{counts::counted, units};

/// For people: how much, how long, and what does not apply and why.
pub fn text(preview: &Preview) -> String {
    let mut out = String::new();
    if preview.provenance == Provenance::Simulated {
        let _ = writeln!(out, "*** {}", tally::SIMULATED);
    }
    let on = terminal(&preview.on);
    let _ = writeln!(out, "dry run on {on}, {}: nothing is started", counted(preview.gpus, "GPU"));
    if !preview.would_run.is_empty() {
        out.push('\n');
    }
    let longest = preview.would_run.iter().map(|one| one.name.chars().count()).max().unwrap_or(0).min(NAME);
    for one in &preview.would_run {
        let cases = counted(one.cases.len(), "case");
        let _ = writeln!(
            out,
            "  {:longest$}  {cases} × {}, {}{}",
            terminal(&one.name),
            one.repeat,
            about(one.expected_ms),
            one.libcudart_version.as_ref().map(|it| format!(", libcudart {}", terminal(it))).unwrap_or_default(),
        );
        for case in &one.python {
            let _ = writeln!(out, "      {}", terminal(&case.case));
            for line in lines::program(&case.steps, None) {
                let _ = writeln!(out, "        {}", terminal(&line));
            }
        }
    }
    if let Some(line) = applicable::line(preview.not_applicable.iter().map(|one| one.lacks.clone())) {
        let _ = writeln!(out, "\n{line}");
        for one in &preview.not_applicable {
            let _ = writeln!(out, "  {:longest$}  {}", terminal(&one.name), terminal(&one.detail));
        }
    }
    for requirement in &preview.require {
        let _ = writeln!(out, "\n{}", requirement.sentence());
    }
    let _ = writeln!(out, "\n{}", sentence(preview));
    out
}

/// `about 1 min: 22 questions, 129 attempts`.
pub fn sentence(preview: &Preview) -> String {
    if preview.would_run.is_empty() {
        return "nothing would run here".to_owned();
    }
    let questions = counted(preview.would_run.len(), "question");
    format!("{}: {questions}, {}", about(preview.expected_ms), counted(preview.attempts, "attempt"))
}

/// A duration that is not known well: `about 40 s`, `about 1 min`, `about 12 min`.
pub fn about(ms: u64) -> String {
    match ms {
        0..10_000 => format!("about {}", units::duration(ms.div_ceil(100) * 100_000_000)),
        10_000..55_000 => format!("about {} s", ms.div_ceil(5_000) * 5),
        _ => format!("about {} min", ms.saturating_add(30_000) / 60_000),
    }
}

/// A longer name is not waited for by the others.
const NAME: usize = 56;

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
