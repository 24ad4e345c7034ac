//! What the terminal shows: a header, a block per scenario as it is answered, and the totals.
//!
//! Each part is a function of its own, so that a run can print them as it goes.

mod header;
mod table;

pub use header::header;

use std::fmt::Write as _;

use crate::report::{Report, ScenarioReport};

use super::applicable;
use super::escape::terminal;
use super::facts;
use super::tally::{self, Standing};
use super::units;

/// The width that fits a CI log and half a screen.
pub const WIDTH: usize = 100;

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
    fn paint(self, standing: Standing, words: &str) -> String {
        let code = match standing {
            Standing::AsExpected => "32",
            Standing::Answered => "36",
            Standing::Skipped => "90",
            Standing::Inconclusive => "33",
            Standing::HarnessError => "35",
            Standing::Unexpected => "1;31",
        };
        match self {
            Style::Plain => words.to_owned(),
            Style::Colour => format!("\x1b[{code}m{words}\x1b[0m"),
        }
    }
}

/// The whole report as the run printed it.
pub fn report(report: &Report) -> String {
    let mut out = header(&report.run, &report.machine, report.provenance);
    // Who reads a stored report from the top learns at the top what it is not.
    for banner in tally::banners(report).iter().filter(|banner| *banner != tally::SIMULATED) {
        out.push_str(&sentence("*** ", banner, WIDTH));
    }
    for one in &report.scenarios {
        out.push('\n');
        out.push_str(&scenario(one, WIDTH, Style::Plain));
    }
    let exit = report.run.exit.as_ref().map(|exit| (exit.code, exit.name.as_str()));
    out.push('\n');
    out.push_str(&ending(report, "", exit));
    out
}

/// One scenario's block: the verdict, a line per case, and why if it needs saying.
pub fn scenario(report: &ScenarioReport, width: usize, style: Style) -> String {
    let standing = Standing::of(&report.verdict);
    let name = terminal(&report.name);
    let mut out = String::new();
    let mut line = vec![facts::verdict(&report.verdict)];
    // The reason of a verdict that concludes nothing says more than that there is no expectation.
    if report.verdict.kind.is_conclusive() || standing == Standing::Unexpected {
        line.push(facts::expectation(&report.verdict));
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
        let _ = writeln!(out, "{mark} {name}\n    {verdict}{libcudart}");
    }
    let longest = report.cases.iter().map(|case| terminal(&case.name).chars().count()).max().unwrap_or(0).min(24);
    for case in &report.cases {
        let head = format!("    {:longest$}  {:>5}  ", terminal(&case.name), facts::frequency(case));
        let facts: Vec<String> = facts::case_line(report, case).iter().map(|fact| terminal(fact)).collect();
        out.push_str(&wrap(&head, &facts, " · ", width));
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
pub fn totals(report: &Report, path: &str, exit: (i32, &str)) -> String {
    ending(report, path, Some(exit))
}

fn ending(report: &Report, path: &str, exit: Option<(i32, &str)>) -> String {
    let mut out = String::new();
    if !report.scenarios.is_empty() {
        out.push_str(&table::table(report));
        out.push('\n');
    }
    for banner in tally::banners(report) {
        out.push_str(&sentence("*** ", &banner, WIDTH));
    }
    for note in applicable::notes(report) {
        out.push_str(&sentence("", &note, WIDTH));
    }
    let _ = writeln!(out, "{} in {}", tally::sentence(report), units::duration(report.run.elapsed_ns));
    for (kind, met, count) in tally::by_verdict(report) {
        let _ = writeln!(out, "  {count:>4}  {}, {}", kind.name(), met.name().replace('_', " "));
    }
    if !path.is_empty() {
        let _ = writeln!(out, "report  {}", terminal(path));
    }
    match exit {
        Some((code, name)) => {
            let _ = writeln!(out, "exit    {code} ({})", terminal(name));
        }
        None => out.push_str("exit    none: the run did not come to its end\n"),
    }
    out
}

/// The column in which verdicts stand, unless a name is longer.
const NAME: usize = 44;

/// A sentence behind a head, broken between words; foreign words cannot begin a line with anything
/// but blanks before them, and [`terminal`] has made sure that is harmless.
pub(super) fn sentence(head: &str, text: &str, width: usize) -> String {
    let text = terminal(text);
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    wrap(head, &words, " ", width)
}

/// Parts behind a head, joined, and continued under the first part where the line is full. A part
/// is broken only between its words, and only where it does not fit a line of its own.
fn wrap(head: &str, parts: &[String], between: &str, width: usize) -> String {
    let indent = head.chars().count();
    let room = width.saturating_sub(indent).max(20);
    let length = |text: &str| text.chars().count();
    let mut lines: Vec<String> = vec![String::new()];
    for part in parts {
        let glue = |line: &str| if line.is_empty() { "" } else { between };
        let last = lines.last().map(String::as_str).unwrap_or_default();
        if !last.is_empty() && length(last) + length(between) + length(part) > room {
            lines.push(String::new());
        }
        for (place, word) in part.split(' ').enumerate() {
            let last = lines.last().map(String::as_str).unwrap_or_default();
            let joint = if place == 0 { glue(last) } else { " " };
            if !last.is_empty() && length(last) + length(joint) + length(word) > room {
                lines.push(word.to_owned());
            } else if let Some(last) = lines.last_mut() {
                last.push_str(joint);
                last.push_str(word);
            }
        }
    }
    let mut out = String::new();
    for (place, line) in lines.iter().enumerate() {
        let _ = match place {
            0 => writeln!(out, "{}", format!("{head}{line}").trim_end()),
            _ => writeln!(out, "{:indent$}{line}", ""),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn a_block_is_compact_and_speaks_in_words() {
        let report = fixture::report();
        let expected = "\
✓ visibility/mask-after-count                   reproduced, as expected  libcudart 13.0
    trap       3/3  cudaGetDeviceCount: count=2 · sees gpu0,gpu1 · contexts gpu0
                    gpu0 +530 MiB (context)
    control    3/3  cudaGetDeviceCount: count=1 · sees gpu1 · no context · memory unchanged
";
        assert_eq!(scenario(&report.scenarios[0], WIDTH, Style::Plain), expected);
        let coloured = scenario(&report.scenarios[0], WIDTH, Style::Colour);
        assert!(coloured.contains("\x1b[32mreproduced, as expected\x1b[0m"), "{coloured}");
    }

    #[test]
    fn failures_and_reasons_stand_below() {
        let report = fixture::report();
        let unexpected = scenario(&report.scenarios[1], WIDTH, Style::Plain);
        assert!(unexpected.contains("\n    unexpected: expected reproduced: the driver has made"), "{unexpected}");
        let skipped = scenario(&report.scenarios[3], WIDTH, Style::Plain);
        assert!(skipped.contains("skipped: too_few_gpus\n    because: needs 4 GPUs, found 2\n"), "{skipped}");
    }

    #[test]
    fn every_line_fits_and_simulated_verdicts_say_so() {
        let text = super::report(&fixture::simulated());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
        for line in text.lines().filter(|line| line.contains("reproduced") && line.contains('/')) {
            assert!(line.contains("simulated"), "{line}");
        }
    }

    #[test]
    fn wrapping_breaks_between_words_only() {
        let parts = ["aaaa bbbb cccc".to_owned(), "dddddddddddddddddddddddddddd".to_owned(), "e".to_owned()];
        assert_eq!(wrap("> ", &parts, " · ", 24), "> aaaa bbbb cccc\n  dddddddddddddddddddddddddddd\n  e\n");
    }
}
