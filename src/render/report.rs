//! A report as a page: HTML without scripts and without links to anything outside, so that it can be mailed, archived,
//! or opened from a CI artifact years later; and Markdown for issue trackers and job summaries.

mod attempt;
pub(crate) mod scenario;
mod summary;

use super::tally::{self, Standing};
use super::{answer, applicable, words};
use crate::block::{Block, Span, Table, Tone};
use crate::html::page;
use crate::writer;
use cuda_pitfalls_core::report::ReportView;
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::units;
use summary::Folders;

/// Selectors beyond this number are folded.
const MOST_SELECTORS: usize = 8;

/// Returns the complete page.
pub(super) fn report_page(report: &ReportView<'_>) -> String {
    let mut blocks = head_blocks(report);
    let folders = Folders::new(report);
    if !report.scenarios.is_empty() {
        blocks.push(Block::heading(2, "Answers"));
        blocks.push(Block::Drawn(summary::summary_filters(report, &folders)));
        blocks.push(summary::table(report, &folders));
    }
    blocks.push(Block::heading(2, "Machine"));
    blocks.push(Block::Table(machine(report)));
    let sections = report.scenarios.iter().enumerate();
    blocks.extend(
        sections.map(|(index, one)| scenario::scenario_section(report, one, index, &folders)),
    );
    let title = format!("cuda-pitfalls: {}", tally::sentence(report));
    page::page_head(page::POLICY, &title, "") + &writer::html::write(&blocks) + page::END
}

/// Returns the page as Markdown, with details only of the results that need attention.
pub(super) fn report_markdown(report: &ReportView<'_>) -> String {
    let mut blocks = head_blocks(report);
    let folders = Folders::new(report);
    if !report.scenarios.is_empty() {
        blocks.push(summary::table(report, &folders));
    }
    blocks.push(Block::Table(machine(report)));
    let attention: Vec<_> = report
        .scenarios
        .iter()
        .enumerate()
        .filter(|(_, it)| Standing::new(it.verdict).needs_attention())
        .collect();
    if !attention.is_empty() {
        blocks.push(Block::heading(2, "Details"));
    }
    blocks.extend(
        attention
            .into_iter()
            .map(|(index, one)| scenario::scenario_section(report, one, index, &folders)),
    );
    writer::markdown::write(&blocks)
}

fn machine(report: &ReportView<'_>) -> Table {
    Table {
        caption: "Driver, libraries, variables and GPUs".into(),
        ..Table::named("Machine", words::machine(report))
    }
}

fn head_blocks(report: &ReportView<'_>) -> Vec<Block> {
    let run = &report.run;
    let counts = tally::counts(report.scenarios.iter().map(|scenario| scenario.verdict))
        .into_iter()
        .rev();
    let badges = counts.map(|(standing, count)| {
        (
            standing.tone(),
            format!("{} {count} {}", standing.mark(), standing.name()),
        )
    });
    let mut badges: Vec<(Tone, String)> = badges.collect();
    if report.scenarios.is_empty() {
        badges.push((Tone::Doubt, "no scenario ran".to_owned()));
    }
    let mut blocks = vec![
        Block::heading(1, "cuda-pitfalls"),
        Block::paragraph(Span::Strong(answer::machine(report))),
        Block::Badges(badges),
    ];
    blocks.extend(
        tally::warning_banners(report)
            .into_iter()
            .map(Block::Banner),
    );
    let notes = answer::surrounding_lines(report)
        .into_iter()
        .chain(applicable::not_run_notes(report));
    blocks.extend(notes.map(Block::paragraph));
    let warnings = run
        .warnings
        .iter()
        .map(|warning| Span::Toned(Tone::Doubt, format!("Doubt: {warning}")));
    blocks.extend(warnings.map(Block::paragraph));
    let exit = run.exit.as_ref().map_or_else(
        || "none".to_owned(),
        |exit| format!("{} ({})", exit.code, exit.name),
    );
    let (selected, all) = match run.selectors.as_slice() {
        [] => ("everything".to_owned(), None),
        few if few.len() <= MOST_SELECTORS => (few.join(" "), None),
        many => (
            format!("by {}", counted(many.len(), "selector")),
            Some(many.join(" ")),
        ),
    };
    let ran = format!(
        "Run {}, started {}, {}, on {}, selected: {selected}, exit {exit}, version {}, seed {}.",
        run.id,
        run.started_at,
        units::format_duration(run.elapsed_ns),
        run.on,
        run.version,
        run.seed,
    );
    blocks.push(Block::paragraph(Span::Toned(Tone::Dim, ran)));
    let all = all.map(|all| vec![Block::paragraph(Span::Toned(Tone::Dim, all))]);
    blocks.extend(all.map(|all| Block::Fold("Selectors".to_owned(), all)));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_page_shows_steps_and_charts() {
        let page = report_page(&fixture::report().view());
        for part in [
            "<span class=\"badge bad\">✗ not_reproduced</span>",
            "<td>gpu0 +530 MiB (context)",
            "<figure class=\"chart\"",
            "href=\"#s0\"",
            "id=\"s0\"",
            "NVIDIA H200",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for report in [
            fixture::report(),
            fixture::hostile(),
            fixture::empty(),
            fixture::partial(),
        ] {
            fixture::assert_inert(&report_page(&report.view()));
        }
    }

    #[test]
    fn only_exceptions_are_said_and_memory_has_bars_of_one_scale() {
        let mut report = fixture::report();
        let summary = |report: &cuda_pitfalls_core::report::Report| {
            let page = report_page(&report.view());
            let (summary, _) = page.split_once(">Machine</h2>").unwrap();
            let (_, table) = summary.split_once("<table").unwrap();
            table.to_owned()
        };
        let table = summary(&report);
        assert!(table.contains(">Expected</th>") && table.contains("✗ unexpected"));
        assert!(!table.contains("as expected"), "{table}");
        assert!(
            table.contains("<i style=\"width:100%\"></i><i style=\"width:0%\"></i>"),
            "{table}"
        );
        let gap = "A bar with a gap is longer than 4 MiB.";
        assert!(!table.contains(gap), "{table}");
        for gpu in &mut report.run.calibration {
            gpu.figures.context_bytes = 1 << 20;
        }
        let table = summary(&report);
        assert!(
            table.contains(gap) && table.contains("<i class=\"cut\" style=\"width:100%\"></i>")
        );
        let standings = report.scenarios.iter().map(|scenario| &scenario.verdict);
        let standings: Vec<Standing> = standings.map(Standing::new).collect();
        let mut standings = standings.into_iter();
        report
            .scenarios
            .retain(|_| standings.next() == Some(Standing::AsExpected));
        assert!(!report.scenarios.is_empty() && !summary(&report).contains(">Expected</th>"));
    }

    #[test]
    fn what_needs_attention_comes_first_with_its_reason() {
        let page = report_page(&fixture::report().view());
        let (summary, _) = page.split_once(">Machine</h2>").unwrap();
        let at = |what: &str| summary.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(at("href=\"#s1\"") < at("href=\"#s2\"") && at("href=\"#s2\"") < at("href=\"#s0\""));
        assert!(
            at("<span class=\"bad\">expected reproduced: the driver has made") < at("href=\"#s2\"")
        );
        assert!(at("<span class=\"doubt\">some attempts show it") < at("href=\"#s0\""));
        assert!(
            at("href=\"#s0\"") < at("href=\"#s3\""),
            "the rest is in the order in which it ran"
        );
        let page = report_markdown(&fixture::report().view());
        assert!(
            page.contains("### context/set-device-makes-no-context\n"),
            "{page}"
        );
        assert!(
            !page.contains("### visibility/"),
            "as expected needs no details"
        );
        assert!(
            page.contains("Outcome 2 of 2, seen 1 times: ended SIGSEGV"),
            "{page}"
        );
        // A line of output begins with a bar too.
        let page = report_markdown(&fixture::hostile().view());
        for line in page
            .lines()
            .filter(|line| line.starts_with('|') && line.contains("&lt;img"))
        {
            let cells = line.replace("\\|", "").matches('|').count();
            assert!([3, 7, 8].contains(&cells), "{cells}: {line}");
        }
    }
}
