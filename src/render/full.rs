//! A complete report as text, as `run --verbose` prints it: a block per scenario as it is answered, between the head
//! and the end of the short form, [`super::answer`].

use cuda_pitfalls_core::report::{ReportView, ScenarioView};

use super::answer::{self, RunEnding};
use super::tally::Standing;
use super::writer::terminal::{Screen, Style};
use super::{facts, lines};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{sentence, wrap_parts};

/// Returns the complete report as a run with `--verbose` printed it.
pub fn report(report: &ReportView<'_>, screen: impl Into<Screen>) -> String {
    let screen: Screen = screen.into();
    let mut out = answer::render_head(report, None, screen);
    report
        .scenarios
        .iter()
        .for_each(|one| out += &format!("\n{}", scenario(one, screen)));
    out + "\n" + &answer::render_ending(report, &RunEnding::stored(report), screen)
}

/// Returns a scenario's block: the verdict, a line per case, and the reason if it needs one.
pub fn scenario(report: &ScenarioView<'_>, screen: impl Into<Screen>) -> String {
    let Screen { width, style } = screen.into();
    let mut out = verdict_line(report, width, style);
    let lengths = report
        .cases
        .iter()
        .map(|case| terminal(case.name).chars().count());
    let longest = lengths.max().unwrap_or(0).min(24);
    for case in &report.cases {
        let frequency = facts::outcome_frequency(case);
        let head = format!("    {:longest$}  {frequency:>5}  ", terminal(case.name));
        let mut facts = facts::case_line(report, case);
        for fact in &mut facts {
            *fact = terminal(fact);
        }
        out.push_str(&wrap_parts(&head, &facts, " · ", width));
        let plan = report.plan.as_ref().and_then(|plan| plan.case(case.name));
        for line in lines::case_program(plan, case).unwrap_or_default() {
            let text = line.trim_start_matches([' ', '#']);
            let (head, _) = line.split_at(line.len() - text.len());
            out.push_str(&sentence(&format!("        {head}"), text, width));
        }
    }
    for failed in &report.verdict.unexpected {
        out.push_str(&sentence("    unexpected: ", failed, width));
    }
    if !report.verdict.kind.is_conclusive() && !report.verdict.detail.is_empty() {
        out.push_str(&sentence("    because: ", &report.verdict.detail, width));
    }
    out
}

/// Returns the line with the name and the verdict, split in two if it does not fit.
fn verdict_line(report: &ScenarioView<'_>, width: usize, style: Style) -> String {
    let standing = Standing::new(report.verdict);
    let mut words = facts::verdict(report.verdict);
    // The reason of an inconclusive verdict is more useful than the note that there is no expectation.
    if report.verdict.kind.is_conclusive() || standing == Standing::Unexpected {
        words = format!("{words}, {}", facts::expectation_words(report.verdict));
    }
    let libcudart = match facts::libcudart(report) {
        Some(version) => format!("  {}", terminal(&version)),
        None => String::new(),
    };
    let name = terminal(report.name);
    let name_length = name.chars().count();
    let beside = 2 + words.chars().count() + libcudart.chars().count();
    let verdict = style.paint_words(standing.ansi_color(), &words) + &libcudart;
    let mark = style.paint_words(standing.ansi_color(), standing.mark());
    // Verdicts are in a column if names allow it, else next to the name, else below.
    if 2 + name_length.max(NAME) + beside <= width {
        format!("{mark} {name:NAME$}  {verdict}\n")
    } else if 2 + name_length + beside <= width {
        format!("{mark} {name}  {verdict}\n")
    } else {
        sentence(&format!("{mark} "), report.name, width) + &format!("    {verdict}\n")
    }
}

/// The column where verdicts begin, unless a name is longer.
const NAME: usize = 44;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use cuda_pitfalls_core::text::lines::WIDTH;

    #[test]
    fn a_block_is_compact_and_speaks_in_words() {
        let report = fixture::report();
        let expected = "\
✓ visibility/mask-after-count                   reproduced, as expected  libcudart 13.0
    trap       3/3  cudaGetDeviceCount: count=2 · sees gpu0,gpu1 · contexts gpu0
                    gpu0 +530 MiB (context)
    control    3/3  cudaGetDeviceCount: count=1 · sees gpu1 · no context · memory unchanged
";
        assert_eq!(scenario(&report.scenarios[0].view(), WIDTH), expected);
        let coloured = scenario(
            &report.scenarios[0].view(),
            Screen {
                width: WIDTH,
                style: Style::Colour,
            },
        );
        assert!(
            coloured.contains("\x1b[32mreproduced, as expected\x1b[0m"),
            "{coloured}"
        );
    }

    #[test]
    fn failures_and_reasons_stand_below() {
        let report = fixture::report();
        let unexpected = scenario(&report.scenarios[1].view(), WIDTH);
        assert!(
            unexpected.contains("\n    unexpected: expected reproduced: the driver has made"),
            "{unexpected}"
        );
        let skipped = scenario(&report.scenarios[3].view(), WIDTH);
        assert!(
            skipped.contains("skipped: too_few_gpus\n    because: needs 4 GPUs, found 2\n"),
            "{skipped}"
        );
    }

    #[test]
    fn every_line_fits_and_simulated_verdicts_say_so() {
        for width in 60..=140 {
            let text = super::report(&fixture::simulated().view(), width);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let text = super::report(&fixture::simulated().view(), WIDTH);
        for line in text
            .lines()
            .filter(|line| line.contains("reproduced") && line.contains('/'))
        {
            assert!(line.contains("simulated"), "{line}");
        }
    }
}
