//! One page without scripts and without links to anything outside, so that it can be mailed,
//! archived, or opened from a CI artefact years later.
//!
//! The page is stricter than it needs to be: the policy in its head forbids whatever escaping
//! might have let through.

mod attempt;
mod scenario;

use std::fmt::Write as _;

use crate::report::Report;

use super::escape::html;
use super::tally::{self, Standing};
use super::{applicable, facts, units, words};

/// What the page may load: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The style, part of the page.
const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub fn report(report: &Report) -> String {
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

fn head(out: &mut String, report: &Report) {
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
    let selected = if run.selectors.is_empty() { "everything".to_owned() } else { run.selectors.join(" ") };
    let _ = writeln!(
        out,
        "<p class=\"dim\">Run <code>{}</code>, started {}, {}, on {}, selected: {}, exit {}, version {}, seed {}.</p>\n</header>",
        html(&run.id),
        html(&run.started_at),
        html(&units::duration(run.elapsed_ns)),
        html(&run.on),
        html(&selected),
        html(&exit),
        html(&run.version),
        run.seed,
    );
}

fn summary(out: &mut String, report: &Report) {
    out.push_str(
        "<h2>Summary</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>Scenario</th><th>Verdict</th><th>Expectation</th>\
         <th>Trap</th><th>Control</th><th>Memory, trap / control</th></tr></thead>\n<tbody>\n",
    );
    for (place, scenario) in report.scenarios.iter().enumerate() {
        let standing = Standing::of(&scenario.verdict);
        let seen = |name| facts::case(scenario, name).map_or_else(|| "–".to_owned(), facts::frequency);
        let memory: Vec<String> = facts::trap_and_control(scenario).iter().map(|line| html(line)).collect();
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#s{place}\">{}</a><div class=\"dim\">{}</div></td>\
             <td><span class=\"badge {}\">{} {}</span></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            html(&scenario.name),
            html(&scenario.question),
            class(standing),
            standing.mark(),
            html(&facts::verdict(&scenario.verdict)),
            html(&facts::expectation(&scenario.verdict)),
            seen("trap"),
            seen("control"),
            memory.join("<br>"),
        );
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn machine(out: &mut String, report: &Report) {
    let machine = &report.machine;
    out.push_str("<h2>Machine</h2>\n<dl>\n");
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", html(name), html(value));
    };
    row("Driver", &words::driver(machine));
    for library in &machine.libraries {
        let simulated = if library.simulated { " (simulated)" } else { "" };
        row(&library.name, &format!("{}{simulated}", library.path));
    }
    for runtime in &machine.libcudart {
        let version = runtime.version.as_deref().unwrap_or("of unknown version");
        row("libcudart", &format!("{version}, {}", runtime.path));
    }
    row("PIDs", &words::pids(&machine.isolation));
    if machine.mps {
        row("MPS", "a control pipe is there");
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
        for found in report.run.calibration.iter().filter(|found| found.uuid == gpu.uuid) {
            row("", &words::calibration(found));
        }
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture;

    #[test]
    fn the_page_shows_steps_and_charts() {
        let page = report(&fixture::report());
        for part in [
            "<span class=\"badge bad\">✗ not_reproduced</span>",
            "<td>gpu0 +530 MiB (context)",
            "<svg class=\"chart\"",
            "href=\"#s0\"",
            "id=\"s0\"",
            "NVIDIA H200",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn the_page_loads_and_runs_nothing() {
        for report in [fixture::report(), fixture::hostile()] {
            let page = super::report(&report);
            assert!(page.contains(POLICY));
            for word in ["<script", "<img", "<link", "<iframe", "src=\"", "url(", "http://", "https://", "@import"] {
                assert!(!page.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn every_tag_is_closed() {
        for report in [fixture::report(), fixture::hostile(), fixture::empty(), fixture::partial()] {
            let page = super::report(&report);
            let tags = [
                "table", "tr", "td", "th", "div", "section", "details", "summary", "p", "span", "dl", "svg", "ol",
                "li", "pre",
            ];
            for tag in tags {
                let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
                assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
            }
        }
    }
}
