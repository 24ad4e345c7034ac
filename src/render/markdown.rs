//! A page for issue trackers and job summaries: the machine, a summary table, and the details of
//! whatever needs attention.

use std::fmt::Write as _;

use cuda_pitfalls_core::plan::CasePlan;
use cuda_pitfalls_core::report::{OutcomeView, ReportView, ScenarioView};

use super::listing::show;
use super::tally::{self, Standing};
use super::{answer, applicable, facts, lines, steps, words};
use crate::writer::markdown::fenced;
use cuda_pitfalls_core::text::escape::{markdown, shorten, tail, visible};
use cuda_pitfalls_core::text::units;

/// Output tails are cut to this many bytes each.
const TAIL: usize = 2048;

/// The whole page.
pub fn report(report: &ReportView<'_>) -> String {
    let mut out = format!("# cuda-pitfalls: {}\n\n", tally::sentence(report));
    for banner in tally::banners(report) {
        let _ = writeln!(out, "> **{}**\n", markdown(&banner));
    }
    for note in applicable::notes(report) {
        let _ = writeln!(out, "{}\n", markdown(&note));
    }
    machine(&mut out, report);
    if !report.scenarios.is_empty() {
        summary(&mut out, report);
    }
    let attention: Vec<&ScenarioView<'_>> =
        report.scenarios.iter().filter(|scenario| Standing::of(scenario.verdict) >= Standing::Inconclusive).collect();
    if !attention.is_empty() {
        out.push_str("\n## Details\n");
    }
    for scenario in attention {
        details(&mut out, scenario);
    }
    out
}

/// A table, in which nothing is escaped here.
pub(crate) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let names: String = columns.iter().map(|name| format!(" {name}").trim_end().to_owned() + " |").collect();
    let rows = rows.into_iter().map(|cells| format!("| {} |\n", cells.join(" | ")));
    format!("|{names}\n|{}\n{}", " --- |".repeat(columns.len()), rows.collect::<String>())
}

pub(crate) fn named(name: &str, rows: impl IntoIterator<Item = (impl AsRef<str>, String)>) -> String {
    table(&[name, ""], rows.into_iter().map(|(name, value)| vec![markdown(name.as_ref()), markdown(&value)]))
}

fn machine(out: &mut String, report: &ReportView<'_>) {
    let run = report.run;
    let mut rows = vec![
        ("Run".to_owned(), format!("{}, {}, on {}", run.id, units::duration(run.elapsed_ns), run.on)),
        ("cuda-pitfalls".to_owned(), run.version.clone()),
    ];
    rows.extend(words::machine(report));
    rows.extend(run.warnings.iter().map(|warning| ("Warning".to_owned(), warning.clone())));
    out.push_str(&named("machine", rows));
}

fn summary(out: &mut String, report: &ReportView<'_>) {
    let mut rows: Vec<&ScenarioView<'_>> = report.scenarios.iter().collect();
    rows.sort_by_key(|scenario| {
        let standing = Standing::of(scenario.verdict);
        std::cmp::Reverse(Some(standing).filter(|standing| *standing >= Standing::Inconclusive))
    });
    let columns = ["", "scenario", "question", "verdict", "expectation", "trap", "control", "memory, trap / control"];
    let rows = rows.into_iter().map(|scenario| {
        let seen = |name| scenario.case(name).map(facts::frequency).unwrap_or_default();
        let memory: Vec<String> = facts::trap_and_control(scenario).iter().map(|line| markdown(line)).collect();
        vec![
            Standing::of(scenario.verdict).mark().to_owned(),
            markdown(scenario.name),
            question(scenario),
            markdown(&facts::verdict(scenario.verdict)),
            markdown(&facts::expectation(scenario.verdict)),
            seen("trap"),
            seen("control"),
            memory.join("<br>"),
        ]
    });
    out.push_str(&format!("\n{}", table(&columns, rows)));
}

/// The question, with its answer on this machine if there is one.
fn question(scenario: &ScenarioView<'_>) -> String {
    let asked = markdown(scenario.question);
    match answer::word(scenario) {
        word @ ("yes" | "no") => format!("{asked} **{word}**"),
        _ => asked,
    }
}

/// What each step of a case of calls gave.
pub(super) fn steps(out: &mut String, plan: Option<&CasePlan>, outcome: &OutcomeView<'_>) {
    let steps = outcome.observation().into_iter().flat_map(|seen| &seen.steps).enumerate();
    let rows = steps.map(|(place, step)| {
        let made = plan.and_then(|plan| plan.steps.get(place));
        let call = made.map_or_else(|| step.label.clone(), show::call);
        let cell = |lines: Vec<String>| lines.iter().map(|line| markdown(line)).collect::<Vec<_>>().join("<br>");
        vec![
            format!("{}. {}", place + 1, markdown(&call)),
            cell(steps::result(step)),
            markdown(&steps::gpus(step.contexts.as_deref())),
            cell(facts::memory_lines(step)),
        ]
    });
    out.push_str(&format!("\n{}\n", table(&["step", "returned", "contexts", "memory"], rows)));
}

fn details(out: &mut String, scenario: &ScenarioView<'_>) {
    let _ = writeln!(out, "\n### {}: {}\n", markdown(scenario.name), markdown(&facts::verdict(scenario.verdict)));
    let _ = writeln!(out, "{}\n", question(scenario));
    for failed in &scenario.verdict.unexpected {
        let _ = writeln!(out, "- **unexpected**: {}", markdown(failed));
    }
    if !scenario.verdict.detail.is_empty() {
        let _ = writeln!(out, "- what was seen: {}", markdown(&scenario.verdict.detail));
    }
    if !scenario.workaround.is_empty() {
        let _ = writeln!(out, "- workaround: {}", markdown(scenario.workaround));
    }
    for case in &scenario.cases {
        let facts = facts::case_line(scenario, case).join(" · ");
        let _ = writeln!(out, "- {} {}: {}", markdown(case.name), facts::frequency(case), markdown(&facts));
        let plan = scenario.plan.as_ref().and_then(|plan| plan.case(case.name));
        if let Some(lines) = lines::of_case(plan, case) {
            let text = lines.iter().map(|line| visible(line) + "\n").collect::<String>();
            let _ = writeln!(out, "\n{}", fenced("python", &text));
        } else if let Some(outcome) = case.outcomes.first() {
            steps(out, plan, outcome);
        }
        for outcome in case.outcomes.iter().skip(1) {
            let facts = facts::shown(scenario, outcome).join(" · ");
            let _ = writeln!(out, "  - also {} times: {}", outcome.count, markdown(&facts));
        }
        for invalid in case.attempts.iter().flat_map(|attempt| &attempt.judged.invalid) {
            let _ =
                writeln!(out, "  - not counted, {}: {}", markdown(&invalid.reason.name()), markdown(&invalid.detail));
        }
    }
    let mut said =
        scenario.cases.iter().filter_map(facts::example).map(|attempt| attempt.recording.stderr_tail.as_str());
    if let Some(stderr) = said.rfind(|text| !text.is_empty()) {
        let text = shorten(&tail(stderr, TAIL), 2 * TAIL);
        let _ = write!(out, "\nThe end of the worker's stderr:\n\n{}", fenced("", &text));
    }
    let _ = writeln!(out, "\nScenario file: SHA-256 {}", markdown(scenario.sha256));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_page_has_a_row_per_scenario_and_details_where_needed() {
        let page = report(&fixture::report().view());
        let row = "| ✓ | visibility/mask-after-count | Does CUDA\\_VISIBLE\\_DEVICES still count after a device count? \
                   **yes** | reproduced | as expected | 3/3 | 3/3 | gpu0 +530 MiB / 0 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("### context/set-device-makes-no-context: not\\_reproduced"), "{page}");
        assert!(!page.contains("### visibility/"), "as expected needs no details");
        assert!(page.contains("also 1 times: ended SIGSEGV"), "{page}");
        assert!(page.contains("| step | returned | contexts | memory |\n| --- | --- | --- | --- |\n| 1. "), "{page}");
        let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(at("| ✗ | context/set-device") < at(row), "what needs attention comes first");
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_table() {
        let page = report(&fixture::hostile().view());
        for line in page.lines().filter(|line| line.starts_with('|') && line.contains("&lt;img")) {
            let cells = line.replace("\\|", "").matches('|').count();
            assert!([3, 5, 9].contains(&cells), "{cells}: {line}");
        }
    }

    #[test]
    fn output_cannot_close_its_fence() {
        assert_eq!(fenced("", "a ```` b ``\n"), "`````\na ```` b ``\n`````\n");
        assert_eq!(fenced("c", ""), "```c\n```\n");
    }
}
