//! Annotations for a GitHub Actions log: `::error title=…::…`, one line each.
//!
//! GitHub shows the first ten of each level, so the summary comes first and what is as expected
//! gets no line of its own.

use cuda_pitfalls_answers::exit;
use cuda_pitfalls_core::report::{ReportView, ScenarioView};

use super::tally::{self, Standing};
use super::{applicable, facts};
use cuda_pitfalls_core::text::escape::{github_message, github_property};

/// The lines. Every one begins with a command of ours.
pub fn report(report: &ReportView<'_>) -> String {
    let mut out = String::new();
    for banner in tally::banners(report) {
        out.push_str(&annotation(if report.complete { "warning" } else { "error" }, "cuda-pitfalls", &[banner]));
    }
    let worst = report.scenarios.iter().map(|scenario| Standing::of(scenario.verdict)).max();
    out.push_str(&annotation(worst.map_or("warning", level), "cuda-pitfalls", &[tally::sentence(report)]));
    for note in applicable::notes(report) {
        out.push_str(&annotation("notice", "cuda-pitfalls", std::slice::from_ref(&note)));
    }
    for warning in &report.run.warnings {
        out.push_str(&annotation("warning", "cuda-pitfalls: warning", std::slice::from_ref(warning)));
    }
    // What does not apply here has its line above.
    let applicable = report.scenarios.iter().filter(|scenario| !scenario.is_not_applicable());
    let mut worst_first: Vec<&ScenarioView<'_>> = applicable.collect();
    worst_first.sort_by_key(|scenario| std::cmp::Reverse(Standing::of(scenario.verdict)));
    for scenario in worst_first {
        let standing = Standing::of(scenario.verdict);
        if standing > Standing::Answered {
            let title = format!("{}: {}", scenario.name, facts::verdict(scenario.verdict));
            let level = if exit::is_missed(report, scenario) { "error" } else { level(standing) };
            out.push_str(&annotation(level, &title, &message(scenario)));
        }
    }
    out
}

fn level(standing: Standing) -> &'static str {
    match standing {
        Standing::Unexpected | Standing::HarnessError => "error",
        Standing::Inconclusive => "warning",
        Standing::AsExpected | Standing::Answered | Standing::Skipped => "notice",
    }
}

/// One command. A newline would end it, so the message's lines are joined by what stands for one.
fn annotation(level: &str, title: &str, lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| github_message(line)).collect();
    format!("::{level} title={}::{}\n", github_property(title), lines.join("%0A"))
}

fn message(scenario: &ScenarioView<'_>) -> Vec<String> {
    let mut lines = vec![scenario.question.to_owned()];
    lines.extend(scenario.verdict.unexpected.iter().map(|failed| format!("unexpected: {failed}")));
    if !scenario.verdict.detail.is_empty() {
        lines.push(scenario.verdict.detail.clone());
    }
    for case in &scenario.cases {
        let facts = facts::case_line(scenario, case).join(" · ");
        lines.push(format!("{} {}: {facts}", case.name, facts::frequency(case)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_summary_comes_first_and_the_worst_next() {
        let lines = report(&fixture::report().view());
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "::error title=cuda-pitfalls::1 as expected, 1 skipped, 1 inconclusive, 1 unexpected");
        assert_eq!(
            lines[1], "::notice title=cuda-pitfalls::not applicable here: 1 (1 needs too few gpus)",
            "what does not apply is one line"
        );
        assert!(
            lines[2].starts_with("::error title=context/set-device-makes-no-context%3A not_reproduced::Does CUDA"),
            "{lines:?}"
        );
        assert!(lines[3].starts_with("::warning title=memory/heap-growth[limit=64 MiB]%3A inconclusive"), "{lines:?}");
        assert_eq!(lines.len(), 4, "what is as expected has no line");
    }

    #[test]
    fn a_partial_report_is_an_error() {
        assert!(report(&fixture::partial().view()).starts_with("::error title=cuda-pitfalls::PARTIAL"));
    }
}
