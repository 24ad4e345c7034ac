//! All of a report as text, as `run --verbose` prints it: a header, a block per scenario as it is
//! answered, and the totals. [`super::answer`] has the short form.
//!
//! Each part is a function of its own, so that a run can print them as it goes.

mod header;
mod table;

pub use header::header;

use std::fmt::Write as _;

use cuda_pitfalls_core::report::{ReportView, ScenarioView};

use super::answer::ReportPlace;
use super::applicable;
use super::facts;
use super::impact::Impact;
use super::lines;
use super::tally::{self, Standing};
use cuda_pitfalls_core::text::escape::terminal;
use cuda_pitfalls_core::text::lines::{sentence, wrap};
use cuda_pitfalls_core::text::units;

/// Whether words are coloured. Nothing is said by colour alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Words only.
    #[default]
    Plain,
    /// Words in ANSI colours.
    Colour,
}

impl Style {
    pub(super) fn paint(self, standing: Standing, words: &str) -> String {
        let code = match standing {
            Standing::AsExpected => "32",
            Standing::Answered => "36",
            Standing::Skipped => "90",
            Standing::Inconclusive => "33",
            Standing::HarnessError => "35",
            Standing::Unexpected => "1;31",
        };
        self.in_colour(code, words)
    }

    /// An answer in the colour of what it means to whom it concerns.
    pub(super) fn answer(self, impact: Impact, words: &str) -> String {
        let code = match impact {
            Impact::Shows => "1;33",
            Impact::Harmless => "36",
            Impact::Absent => "32",
            Impact::Unknown => "90",
        };
        self.in_colour(code, words)
    }

    fn in_colour(self, code: &str, words: &str) -> String {
        match self {
            Style::Plain => words.to_owned(),
            Style::Colour => format!("\x1b[{code}m{words}\x1b[0m"),
        }
    }

    /// What stands beside something more important.
    pub(super) fn dim(self, words: &str) -> String {
        self.in_colour("2", words)
    }
}

/// The whole report as a run with `--verbose` printed it.
pub fn report(report: &ReportView<'_>, width: usize) -> String {
    let mut out = header(report.run, report.machine, report.provenance, width);
    // Who reads a stored report from the top learns at the top what it is not.
    for banner in tally::banners(report).iter().filter(|banner| *banner != tally::SIMULATED) {
        out.push_str(&sentence("*** ", banner, width));
    }
    for one in &report.scenarios {
        out.push('\n');
        out.push_str(&scenario(one, width, Style::Plain));
    }
    let exit = report.run.exit.as_ref().map(|exit| (exit.code, exit.name.as_str()));
    out.push('\n');
    out.push_str(&ending(report, &ReportPlace::Known, exit, width));
    out
}

/// One scenario's block: the verdict, a line per case, and why if it needs saying.
pub fn scenario(report: &ScenarioView<'_>, width: usize, style: Style) -> String {
    let standing = Standing::of(report.verdict);
    let name = terminal(report.name);
    let mut out = String::new();
    let mut line = vec![facts::verdict(report.verdict)];
    // The reason of a verdict that concludes nothing says more than that there is no expectation.
    if report.verdict.kind.is_conclusive() || standing == Standing::Unexpected {
        line.push(facts::expectation(report.verdict));
    }
    let words = line.join(", ");
    let libcudart = facts::libcudart(report).map(|words| format!("  {}", terminal(&words))).unwrap_or_default();
    let verdict = style.paint(standing, &words);
    let mark = style.paint(standing, standing.mark());
    let length = |text: &str| text.chars().count();
    let beside = 2 + length(&words) + length(&libcudart);
    // Verdicts stand in a column where names allow it, then beside the name, then below.
    if 2 + length(&name).max(NAME) + beside <= width {
        let _ = writeln!(out, "{mark} {name:NAME$}  {verdict}{libcudart}");
    } else if 2 + length(&name) + beside <= width {
        let _ = writeln!(out, "{mark} {name}  {verdict}{libcudart}");
    } else {
        out.push_str(&sentence(&format!("{mark} "), report.name, width));
        let _ = writeln!(out, "    {verdict}{libcudart}");
    }
    let longest = report.cases.iter().map(|case| terminal(case.name).chars().count()).max().unwrap_or(0).min(24);
    for case in &report.cases {
        let head = format!("    {:longest$}  {:>5}  ", terminal(case.name), facts::frequency(case));
        let facts: Vec<String> = facts::case_line(report, case).iter().map(|fact| terminal(fact)).collect();
        out.push_str(&wrap(&head, &facts, " · ", width));
        let plan = report.plan.as_ref().and_then(|plan| plan.case(case.name));
        for line in lines::of_case(plan, case).unwrap_or_default() {
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

/// The end of a run: a table, the counts, the time, and where the report is.
pub fn totals(report: &ReportView<'_>, place: &ReportPlace, exit: (i32, &str), width: usize) -> String {
    ending(report, place, Some(exit), width)
}

fn ending(report: &ReportView<'_>, place: &ReportPlace, exit: Option<(i32, &str)>, width: usize) -> String {
    let mut out = String::new();
    if !report.scenarios.is_empty() {
        out.push_str(&table::table(report, width));
        out.push('\n');
    }
    for banner in tally::banners(report) {
        out.push_str(&sentence("*** ", &banner, width));
    }
    for note in applicable::notes(report) {
        out.push_str(&sentence("", &note, width));
    }
    let counts = format!("{} in {}", tally::sentence(report), units::duration(report.run.elapsed_ns));
    out.push_str(&sentence("", &counts, width));
    for (kind, met, count) in tally::by_verdict(report) {
        let _ = writeln!(out, "  {count:>4}  {}, {}", kind.name(), met.name().replace('_', " "));
    }
    out.push_str(&match place {
        ReportPlace::At(path) => sentence("report  ", path, width),
        place => place.sentence().map(|words| sentence("", &words, width)).unwrap_or_default(),
    });
    match exit {
        Some((code, name)) => {
            let _ = writeln!(out, "exit    {code} ({})", terminal(name));
        }
        None => out.push_str("exit    none: the run did not finish\n"),
    }
    out
}

/// The column in which verdicts stand, unless a name is longer.
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
        assert_eq!(scenario(&report.scenarios[0].view(), WIDTH, Style::Plain), expected);
        let coloured = scenario(&report.scenarios[0].view(), WIDTH, Style::Colour);
        assert!(coloured.contains("\x1b[32mreproduced, as expected\x1b[0m"), "{coloured}");
    }

    #[test]
    fn failures_and_reasons_stand_below() {
        let report = fixture::report();
        let unexpected = scenario(&report.scenarios[1].view(), WIDTH, Style::Plain);
        assert!(unexpected.contains("\n    unexpected: expected reproduced: the driver has made"), "{unexpected}");
        let skipped = scenario(&report.scenarios[3].view(), WIDTH, Style::Plain);
        assert!(skipped.contains("skipped: too_few_gpus\n    because: needs 4 GPUs, found 2\n"), "{skipped}");
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
        for line in text.lines().filter(|line| line.contains("reproduced") && line.contains('/')) {
            assert!(line.contains("simulated"), "{line}");
        }
    }
}
