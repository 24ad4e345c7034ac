//! One page without scripts and without links to anything outside, so that it can be mailed,
//! archived, or opened from a CI artefact years later.
//!
//! The page is stricter than it needs to be: the policy in its head forbids whatever escaping
//! might have let through.

mod attempt;
mod scenario;

use std::fmt::Write as _;

use cuda_pitfalls_core::report::{ReportView, ScenarioView};

use super::tally::{self, Standing};
use super::{answer, applicable, facts, words};
use cuda_pitfalls_core::text::counts::counted;
use cuda_pitfalls_core::text::escape::html;
use cuda_pitfalls_core::text::units;

/// More selectors than this are folded.
const MOST_SELECTORS: usize = 8;

/// What the page may load: nothing.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The style, part of the page.
pub(super) const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub fn report(report: &ReportView<'_>) -> String {
    let title = format!("cuda-pitfalls: {}", tally::sentence(report));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        html(&title)
    );
    head(&mut out, report);
    if !report.scenarios.is_empty() {
        summary(&mut out, report);
    }
    machine(&mut out, report);
    for (place, one) in report.scenarios.iter().enumerate() {
        scenario::section(&mut out, report, one, place);
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// The class that gives a standing its colour.
fn class(standing: Standing) -> &'static str {
    match standing {
        Standing::AsExpected => "good",
        Standing::Answered => "plain",
        Standing::Skipped => "skip",
        Standing::Inconclusive => "doubt",
        Standing::HarnessError => "error",
        Standing::Unexpected => "bad",
    }
}

fn head(out: &mut String, report: &ReportView<'_>) {
    let run = &report.run;
    out.push_str("<header>\n<h1>cuda-pitfalls</h1>\n<p class=\"counts\">");
    for standing in Standing::ALL.into_iter().rev() {
        let count = tally::count(report, standing);
        if count > 0 {
            let _ = write!(
                out,
                "<span class=\"badge {}\">{} {count} {}</span> ",
                class(standing),
                standing.mark(),
                standing.name()
            );
        }
    }
    if report.scenarios.is_empty() {
        out.push_str("<span class=\"badge doubt\">no scenario ran</span>");
    }
    out.push_str("</p>\n");
    for banner in tally::banners(report) {
        let _ = writeln!(out, "<p class=\"banner\" role=\"alert\">{}</p>", html(&banner));
    }
    for note in applicable::notes(report) {
        let _ = writeln!(out, "<p>{}</p>", html(&note));
    }
    for warning in &run.warnings {
        let _ = writeln!(out, "<p class=\"warning\">Doubt: {}</p>", html(warning));
    }
    let exit = run.exit.as_ref().map_or_else(|| "none".to_owned(), |exit| format!("{} ({})", exit.code, exit.name));
    let (selected, all) = match run.selectors.as_slice() {
        [] => ("everything".to_owned(), String::new()),
        few if few.len() <= MOST_SELECTORS => (few.join(" "), String::new()),
        many => (format!("by {}", counted(many.len(), "selector")), many.join(" ")),
    };
    let _ = writeln!(
        out,
        "<p class=\"dim\">Run <code>{}</code>, started {}, {}, on {}, selected: {}, exit {}, version {}, seed {}.</p>",
        html(&run.id),
        html(&run.started_at),
        html(&units::duration(run.elapsed_ns)),
        html(&run.on),
        html(&selected),
        html(&exit),
        html(&run.version),
        run.seed,
    );
    if !all.is_empty() {
        let _ = writeln!(out, "<details><summary>The selectors</summary><p class=\"dim\">{}</p></details>", html(&all));
    }
    out.push_str("</header>\n");
}

/// A row per scenario, what needs attention first and with its reason.
fn summary(out: &mut String, report: &ReportView<'_>) {
    let columns = ["Scenario", "Verdict", "Expectation", "Trap", "Control", "Memory, trap / control"];
    let heads: String = columns.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let _ = writeln!(
        out,
        "<h2>Summary</h2>\n<div class=\"wide\"><table class=\"summary\">\n<caption>What needs attention comes first; memory is the change since before the process.</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>"
    );
    let mut rows: Vec<(usize, &ScenarioView<'_>)> = report.scenarios.iter().enumerate().collect();
    rows.sort_by_key(|(_, scenario)| {
        let standing = Standing::of(scenario.verdict);
        std::cmp::Reverse(Some(standing).filter(|standing| *standing >= Standing::Inconclusive))
    });
    for (place, scenario) in rows {
        let standing = Standing::of(scenario.verdict);
        let seen = |name| scenario.case(name).map_or_else(|| "–".to_owned(), facts::frequency);
        let memory: Vec<String> = facts::trap_and_control(scenario).iter().map(|line| html(line)).collect();
        let answer = match answer::word(scenario) {
            word @ ("yes" | "no") => format!(" <strong>{word}</strong>"),
            _ => String::new(),
        };
        let cells = [
            format!(
                "<a href=\"#s{place}\">{}</a><div class=\"dim\">{}{answer}</div>{}",
                html(scenario.name),
                html(scenario.question),
                why(scenario, standing),
            ),
            format!(
                "<span class=\"badge {}\">{} {}</span>",
                class(standing),
                standing.mark(),
                html(&facts::verdict(scenario.verdict)),
            ),
            html(&facts::expectation(scenario.verdict)),
            seen("trap"),
            seen("control"),
            memory.join("<br>"),
        ];
        // On a narrow page cells stand below each other, each behind the name of its column.
        let cell = |(name, cell): (&&str, &String)| format!("<td data-name=\"{name}\">{cell}</td>");
        let row: String = columns.iter().zip(&cells).map(cell).collect();
        let _ = writeln!(out, "<tr>{row}</tr>");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// Why a row needs attention, below its question.
fn why(scenario: &ScenarioView<'_>, standing: Standing) -> String {
    let verdict = &scenario.verdict;
    let reasons: Vec<String> = match standing {
        Standing::Unexpected => verdict.unexpected.clone(),
        Standing::HarnessError => vec![verdict.detail.clone()],
        Standing::Inconclusive => verdict.reason.map(|it| words::reason(it).to_owned()).into_iter().collect(),
        _ => Vec::new(),
    };
    let class = if standing == Standing::Inconclusive { "warning" } else { "failed" };
    reasons.iter().map(|reason| format!("<div class=\"{class}\">{}</div>", html(reason))).collect()
}

fn machine(out: &mut String, report: &ReportView<'_>) {
    let machine = &report.machine;
    out.push_str("<h2>Machine</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(name), html(value));
    };
    for label in words::labels(report.run) {
        row("Label", &label);
    }
    row("Driver", &words::driver(machine));
    for library in &machine.libraries {
        let simulated = if library.simulated { " (simulated)" } else { "" };
        row(&library.name, &format!("{}{simulated}", library.path));
    }
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        row("libcudart", &format!("{version}, {}", runtime.path));
    }
    if let Some(python) = &machine.python {
        row("Python", &words::python(python));
    }
    row("PIDs", &words::pids(&machine.isolation));
    if machine.mps {
        row("MPS", "a control pipe exists");
    }
    for (name, value) in &machine.environment {
        row(name, value);
    }
    for missing in &machine.unavailable {
        row("Missing", &format!("{}: {}", missing.reason, missing.detail));
    }
    if machine.gpus.is_empty() {
        row("GPUs", "none");
    }
    for gpu in &machine.gpus {
        row("GPU", &words::gpu(gpu));
        for found in report.run.calibration.iter().filter(|found| found.figures.uuid == gpu.uuid) {
            row("", &words::calibration(&found.figures));
        }
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_page_shows_steps_and_charts() {
        let page = report(&fixture::report().view());
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
    }

    #[test]
    fn what_needs_attention_comes_first_with_its_reason() {
        let page = report(&fixture::report().view());
        let (summary, _) = page.split_once("<h2>Machine</h2>").unwrap();
        let at = |what: &str| summary.find(what).unwrap_or_else(|| panic!("{what}"));
        assert!(at("href=\"#s1\"") < at("href=\"#s2\"") && at("href=\"#s2\"") < at("href=\"#s0\""));
        assert!(at("<div class=\"failed\">expected reproduced: the driver has made") < at("href=\"#s2\""));
        assert!(at("<div class=\"warning\">some attempts show it") < at("href=\"#s0\""));
        assert!(at("href=\"#s0\"") < at("href=\"#s3\""), "the rest is in the order in which it ran");
    }

    #[test]
    fn the_page_loads_and_runs_nothing() {
        for report in [fixture::report(), fixture::hostile()] {
            let page = super::report(&report.view());
            assert!(page.contains(POLICY));
            for word in ["<script", "<img", "<link", "<iframe", "src=\"", "url(", "http://", "https://", "@import"] {
                assert!(!page.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn every_tag_is_closed() {
        for report in [fixture::report(), fixture::hostile(), fixture::empty(), fixture::partial()] {
            let page = super::report(&report.view());
            let tags = [
                "table", "tr", "td", "th", "div", "section", "details", "summary", "p", "span", "dl", "svg", "ol",
                "li", "pre", "figure", "caption",
            ];
            for tag in tags {
                let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
                assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
            }
        }
    }
}
